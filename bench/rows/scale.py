# SPDX-License-Identifier: Apache-2.0
"""Many nodes, much output, the worker store."""

import json
import os
import subprocess
import sys
import threading
from pathlib import Path

from harness import ROOT, descendants
from rows.commands import hydra_nodes, node_of_many, one_node, present
from rows.failure import left_out


def rendezvous(bench, table) -> None:
    for nodes in (2, 4, 8):
        measure = f"{nodes} nodes"
        commands = {
            "cxxrun": lambda n=nodes: (node_of_many(bench, "cxxrun", n, bench.port(), ["true"]), n),
            "hydra": lambda n=nodes: (hydra_nodes(bench, n, ["true"]), 1),
            "torchrun": lambda n=nodes: (node_of_many(bench, "torchrun", n, bench.port(), ["/bin/true"]), n)}

        def run(who, measure=measure, commands=commands):
            def once():
                command, copies = commands[who]()
                lap = bench.lap(command, copies)
                if lap.codes == [0] * copies:
                    table.cell(measure, who).values.append(lap.whole_ms())
                else:
                    table.note(measure, who, f"ended with {lap.codes}: {lap.output.strip()[-200:]}")
            return once
        names = present(bench, table, measure, list(commands))
        if bench.quick and "torchrun" in names:
            left_out(bench, table, measure, "torchrun")
            names.remove("torchrun")
        bench.interleave(table, [(who, 1 if who == "torchrun" else bench.runs(15, 3), run(who)) for who in names])
        table.bar_ratio(measure, "hydra", 1.5)


class PeakMemory(threading.Thread):
    """The highest sum of resident sizes (VmHWM) of a launcher and its helpers, seen every 50 ms."""

    def __init__(self, pid: int, worker: str):
        super().__init__(daemon=True)
        self.pid, self.worker, self.peak_kib, self.done = pid, os.path.realpath(worker), 0, threading.Event()

    def run(self):
        while not self.done.wait(0.05):
            total = 0
            for pid in [self.pid] + descendants(self.pid):
                try:
                    if os.path.realpath(f"/proc/{pid}/exe") == self.worker:
                        continue
                    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
                    total += sum(int(line.split()[1]) for line in lines if line.startswith("VmHWM"))
                except OSError:
                    continue
            self.peak_kib = max(self.peak_kib, total)


def output(bench, table) -> None:
    size = 100
    rate, torn = "rate", "torn or lost lines"

    def command(who, megabytes):
        program = [bench.worker, "flood", str(megabytes * 1_000_000 // 2 // size), str(size)]
        if who == "cxxrun":
            return one_node(bench, who, 2, program)
        if who == "hydra":
            return [bench.hydra, "-prepend-rank", "-n", "2"] + program
        if who == "parallel":
            return [bench.parallel, "--will-cite", "--line-buffer", "--tag", "-N0", "-j2"] + program + [":::", "1", "2"]
        plain = one_node(bench, "torchrun", 2, program)
        return plain[:2] + ["--tee", "3", "--log-dir", str(bench.scratch / "logs")] + plain[2:]

    def run(who, megabytes):
        def once():
            sink = subprocess.Popen([bench.sink, str(size)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
            launcher = subprocess.Popen(command(who, megabytes), stdin=subprocess.DEVNULL, stdout=sink.stdin,
                                        stderr=subprocess.DEVNULL, env=bench.environment())
            sink.stdin.close()
            memory = PeakMemory(launcher.pid, bench.worker)
            memory.start()
            told = json.loads(sink.stdout.read())
            code = launcher.wait()
            sink.wait()
            memory.done.set()
            seconds = (told["last"] - told["first"]) / 1e9
            lines = megabytes * 1_000_000 // size
            if code == 0 and seconds > 0:
                table.cell(rate, who, "MB/s").values.append(lines * size / 1e6 / seconds)
            table.cell(torn, who, "").values.append(lines - told["whole"])
            table.note(rate, who, f"{megabytes} MB, exit {code}, prefixed {told['prefixed'] * 100 // max(1, told['whole'])} %,"
                                  f" peak memory {memory.peak_kib / 1024:.1f} MiB", "MB/s")
        return once
    names = present(bench, table, rate, ["cxxrun", "hydra", "parallel", "torchrun"], "MB/s")
    entries = []
    for who in names:
        if who == "torchrun" and bench.quick:
            left_out(bench, table, rate, who)
        else:
            megabytes = 20 if bench.quick else 200
            entries.append((who, 2 if who == "torchrun" else bench.runs(5, 2), run(who, megabytes)))
    bench.interleave(table, entries)
    table.bar_ratio(rate, "parallel", 1.0, at_least=True)
    table.bar_ratio(rate, "torchrun", 2.5, at_least=True)
    table.bar_limit(torn, 0)


def store(bench, table) -> None:
    """Measured by a program of its own, which users can also run alone."""
    if bench.python is None:
        table.note("store", "cxxrun", "not measured: no PyTorch", "")
        return
    result = bench.scratch / "store.json"
    line = [sys.executable, str(ROOT / "bench" / "store_vs_torch.py"), "--bin", str(bench.bin_dir), "--json", str(result)]
    done = subprocess.run(line + (["--quick", "--loads", "add:16"] if bench.quick else []), capture_output=True, text=True, check=False,
                          env=bench.environment(), timeout=180)
    if done.returncode != 0:
        table.note("store", "cxxrun", f"store_vs_torch.py ended with {done.returncode}: {done.stderr.strip()[-200:]}", "")
        return
    for row in json.loads(result.read_text())["rows"]:
        load = f"{row['work']}, {row['connections']} connections"
        for who in ("cxxrun", "torch"):
            table.cell(load, who, "requests/s").values.append(row[f"{who}_per_second"])
        figure = f"{row['rate_ratio']:.2f} x the requests, {1 / row['cpu_ratio']:.2f} x the processor time of each"
        table.bar_fact(f"{load}: 2 x the requests or half the time", row["rate_ratio"] >= 2 or row["cpu_ratio"] >= 2, figure)
