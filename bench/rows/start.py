# SPDX-License-Identifier: Apache-2.0
"""Starting: help, whole short jobs, the first instruction, idle cost, a missing program."""

import os
import socket
import subprocess
import time
from pathlib import Path

from harness import Job, descendants
from rows.commands import one_node, present

FAST = ["cxxrun", "floor", "hydra"]
ALL = FAST + ["parallel", "torchrun"]


def runs_of(bench, who: str, full: int, quick: int) -> int:
    """Peers that take seconds get fewer runs."""
    slow = {"torchrun": (3, 1), "parallel": (9, 3)}
    return bench.runs(*slow[who]) if who in slow else bench.runs(full, quick)


def help_text(bench, table) -> None:
    commands = {"cxxrun": [bench.cxxrun, "--help"], "hydra": [bench.hydra, "--help"], "true": ["true"],
                "parallel": [bench.parallel, "--help"], "torchrun": [bench.torchrun, "--help"]}
    names = present(bench, table, "help", ["cxxrun", "hydra", "parallel", "torchrun"]) + ["true"]

    def measure(who):
        return lambda: table.cell("help", who).values.append(bench.lap(commands[who]).whole_ms())
    bench.interleave(table, [(who, runs_of(bench, who, 41, 9), measure(who)) for who in names])
    table.bar_ratio("help", "hydra", 1.0)


def whole(bench, table) -> None:
    plan = [("2 x true", 2, ALL, 41, 9), ("64 x true", 64, FAST, 21, 5)]
    for measure, workers, names, full, quick in plan:
        def run(who, measure=measure, workers=workers):
            def once():
                lap = bench.lap(one_node(bench, who, workers, ["true"]))
                if lap.codes == [0]:
                    table.cell(measure, who).values.append(lap.whole_ms())
                else:
                    table.note(measure, who, f"ended with {lap.codes}: {lap.output.strip()[-200:]}")
            return once
        names = present(bench, table, measure, names)
        bench.interleave(table, [(who, runs_of(bench, who, full, quick), run(who)) for who in names])
    table.bar_ratio("2 x true", "floor", 1.5)
    table.bar_ratio("2 x true", "hydra", 1.0)
    table.bar_ratio("64 x true", "floor", 1.15)


def first_instruction(bench, table) -> None:
    def run(who):
        def once():
            lap = bench.lap(one_node(bench, who, 2, [bench.worker, "stamp"]))
            first = lap.events("first")
            if len(first) == 2:
                table.cell("first", who).values.append((max(first) - lap.start) / 1e6)
            else:
                table.note("first", who, f"{len(first)} of 2 workers ran: {lap.output.strip()[-200:]}")
        return once
    names = present(bench, table, "first", ALL)
    bench.interleave(table, [(who, runs_of(bench, who, 41, 9), run(who)) for who in names])
    table.bar_ratio("first", "floor", 1.5)
    table.bar_ratio("first", "hydra", 1.0)


def pss_kib(pid: int) -> int:
    for line in Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines():
        if line.startswith("Pss:"):
            return int(line.split()[1])
    return 0


def switches(pid: int) -> int:
    """Context switches of all threads: each wake-up is at least one."""
    total = 0
    for task in os.listdir(f"/proc/{pid}/task"):
        for line in Path(f"/proc/{pid}/task/{task}/status").read_text().splitlines():
            if "ctxt_switches" in line:
                total += int(line.split()[1])
    return total


def own_processes(bench, job) -> list:
    """The launcher and its helpers: all that is not a worker."""
    own = []
    for pid in [job.started[0].pid] + descendants(job.started[0].pid):
        try:
            if os.path.realpath(f"/proc/{pid}/exe") != os.path.realpath(bench.worker):
                own.append(pid)
        except OSError:
            pass
    return own


def idle(bench, table) -> None:
    seconds = bench.runs(3, 1)
    names = present(bench, table, "PSS", ALL, "MiB")
    wakes = f"wake-ups in {seconds} s"

    def run(who):
        def once():
            with Job(bench, [one_node(bench, who, 2, [bench.worker, "sleep"])]) as job:
                if len(job.wait_for(2, ("first",), 30)) < 2:
                    table.note("PSS", who, "the workers did not start", "MiB")
                    return
                time.sleep(0.5)  # what a launcher does right after the start is not idling
                own = own_processes(bench, job)
                before = sum(switches(pid) for pid in own)
                time.sleep(seconds)
                after = sum(switches(pid) for pid in own)
                table.cell("PSS", who, "MiB").values.append(sum(map(pss_kib, own)) / 1024)
                table.cell("PSS", who, "MiB").note = f"{len(own)} processes"
                table.cell(wakes, who, "").values.append(after - before)
        return once
    bench.interleave(table, [(who, 1 if who == "torchrun" else bench.runs(2, 1), run(who)) for who in names])
    table.bar_ratio("PSS", "hydra", 2.0)
    table.bar_limit(wakes, 0)


def missing(bench, table) -> None:
    program = "./no-such-program"
    names = [who for who in present(bench, table, "missing", ALL) if who != "floor"]

    def run(who):
        return lambda: table.cell("missing", who).values.append(
            bench.lap(one_node(bench, who, 2, [program])).whole_ms())
    bench.interleave(table, [(who, {"torchrun": 1}.get(who) or bench.runs(15, 5), run(who)) for who in names])
    for who in names:
        done = subprocess.run(one_node(bench, who, 2, [program]), capture_output=True, text=True, check=False,
                              stdin=subprocess.DEVNULL, env=bench.environment())
        text = (done.stdout + done.stderr).strip()
        lines = len(text.splitlines())
        table.cell("missing", who).note = f"exit {done.returncode}, {lines} lines"
        if who == "cxxrun":
            table.bar_fact("exit 127, at most 3 lines", done.returncode == 127 and 1 <= lines <= 3,
                           f"exit {done.returncode}, {lines} lines")
            words = {"path": "no-such-program", "rank": "rank", "host": socket.gethostname()}
            absent = [name for name, word in words.items() if word not in text]
            table.bar_fact("names path, rank, host", not absent, "lacks " + ", ".join(absent) if absent else "all three")
    table.bar_limit("missing", 10)
