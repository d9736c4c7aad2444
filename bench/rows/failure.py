# SPDX-License-Identifier: Apache-2.0
"""Failures: restarts, deaths that other nodes must hear of, launchers that are killed."""

import os
import signal
import time

from harness import Ends, Job, descendants, listener_of, now_ns
from rows.commands import hydra_nodes, node_of_many, one_node, present

PATIENCE_S = 5


def left_out(bench, table, measure: str, who: str) -> None:
    table.note(measure, who, "left out of the quick run")


def restart(bench, table) -> None:
    measure = "restart"
    commands = {
        "cxxrun": lambda: one_node(bench, "cxxrun", 2, [bench.worker, "once", "0", "7"], 1),
        # One task alone: parallel restarts tasks, never groups. Its only task has number 1.
        "parallel": lambda: one_node(bench, "parallel", 1, [bench.worker, "once", "1", "7"], 1),
        "torchrun": lambda: one_node(bench, "torchrun", 2, [bench.worker, "once", "0", "7"], 1),
        "torchrun static": lambda: one_node(bench, "torchrun static", 2, [bench.worker, "once", "0", "7"], 1)}

    def run(who):
        def once():
            lap = bench.lap(commands[who](), timeout_s=30)
            death, again = lap.events("death"), lap.events("again")
            workers = 1 if who == "parallel" else 2
            if len(death) == 1 and len(again) == workers:
                table.cell(measure, who).values.append((max(again) - death[0]) / 1e6)
            else:
                table.note(measure, who, f"exit {lap.codes}, {len(again)} of {workers} started again")
        return once
    names = present(bench, table, measure, list(commands))
    slow = {"torchrun": bench.runs(4, 0), "torchrun static": bench.runs(2, 0)}
    for who in names:
        if slow.get(who, 1) == 0:
            left_out(bench, table, measure, who)
    bench.interleave(table, [(who, slow.get(who, bench.runs(15, 3)), run(who)) for who in names])
    table.cell(measure, "parallel").note = table.cell(measure, "parallel").note or "one task"
    table.bar_ratio(measure, "parallel", 1.0)
    table.bar_ratio(measure, "torchrun", 0.05)
    cell = table.cell(measure, "cxxrun")
    if cell.values:
        spread = max(cell.values) - min(cell.values)
        table.bar_fact("no steps of a polling interval (max - min < 10 ms)", spread < 10, f"{spread:.3g} ms")


def other_node(bench, table) -> None:
    told, ended = "death to SIGTERM elsewhere", "last worker's end to last agent's"
    commands = {
        "cxxrun": lambda program: (node_of_many(bench, "cxxrun", 2, bench.port(), program), 2),
        "hydra": lambda program: (hydra_nodes(bench, 2, program), 1),
        "torchrun": lambda program: (node_of_many(bench, "torchrun", 2, bench.port(), program), 2)}
    codes: dict = {}

    def run(who, victim):
        def once():
            command, copies = commands[who]([bench.worker, "fault", str(victim), "7"])
            limit_s = 10 if who == "cxxrun" else PATIENCE_S + (10 if who == "torchrun" else 0)  # it starts slowly
            lap = bench.lap(command, copies, limit_s)
            codes.setdefault(who, []).append(lap.codes)
            death, term = lap.events("death"), lap.events("term")
            if death and term:
                table.cell(told, who).values.append((max(term) - death[0]) / 1e6)
                if lap.finished():
                    table.cell(ended, who).values.append((max(lap.ends) - max(term)) / 1e6)
            elif not table.cell(told, who).values:
                seen_s = limit_s - (death[0] - lap.start) / 1e9 if death else 0
                table.note(told, who, f"not in {seen_s:.0f} s" if death else f"no death: {lap.output[-200:]}")
        return once
    names = present(bench, table, told, list(commands))
    entries = []
    for who in names:
        if who == "cxxrun":
            entries += [(who, bench.runs(8, 2), run(who, 0)), (who, bench.runs(8, 2), run(who, 1))]
        elif bench.quick:
            left_out(bench, table, told, who)
        else:
            entries.append((who, 1, run(who, 1)))
    bench.interleave(table, entries)
    for who, seen in codes.items():
        text = "exit codes " + " ".join(sorted({str(c) for c in seen}))
        table.note(told, who, "; ".join(filter(None, [table.cell(told, who).note, text])))
    table.bar_limit(told, 7)
    table.bar_limit(ended, 50)
    ours = codes.get("cxxrun", [])
    table.bar_fact("the same code, 7, at every node", None if not ours else all(c == [7, 7] for c in ours),
                   " ".join(sorted({str(c) for c in ours})) or "no figure of ours")


def next_round(bench, table) -> None:
    measure = "next round"

    def run(who):
        def once():
            program = [bench.worker, "once", "1", "7"]
            lap = bench.lap(node_of_many(bench, who, 2, bench.port(), program, 1), 2, timeout_s=30)
            death, again = lap.events("death"), lap.events("again")
            if death and len(again) == 2:
                table.cell(measure, who).values.append((max(again) - death[0]) / 1e6)
            else:
                table.note(measure, who, f"exit {lap.codes}, {len(again)} of 2 started again")
        return once
    names = present(bench, table, measure, ["cxxrun", "torchrun"])
    if bench.quick and "torchrun" in names:
        left_out(bench, table, measure, "torchrun")
        names.remove("torchrun")
    bench.interleave(table, [(who, 3 if who == "torchrun" else bench.runs(15, 3), run(who)) for who in names])
    table.bar_ratio(measure, "torchrun", 0.01)


def processes_to_kill(job, index: int) -> dict:
    """The pid that a user knows, and the process below it that does the work."""
    top = job.started[index].pid
    below = [pid for pid in descendants(top)
             if os.path.realpath(f"/proc/{pid}/exe") == os.path.realpath(f"/proc/{top}/exe")]
    return {"pid that the user knows": top, "agent process": below[0] if below else top}


def lost_agent(bench, table) -> None:
    def kill_one(who, hosts: bool, which: str):
        measure = f"{'host' if hosts else 'guest'} killed ({which})"

        def once():
            port = bench.port()
            line = node_of_many(bench, who, 2, port, [bench.worker, "sleep"])
            with Job(bench, [line, line]) as job:
                first = job.wait_for(2, ("first",), 30)
                if len(first) < 2:
                    table.note(measure, who, "the workers did not start")
                    return
                time.sleep(0.1)
                families = [[p.pid] + descendants(p.pid) for p in job.started]
                host = 0 if listener_of(port, families[0]) else 1
                victim = host if hosts else 1 - host
                pid = processes_to_kill(job, victim)[which]
                survivors = [p for _, _, _, p in first if p in families[1 - victim]]
                ends = Ends(survivors)
                start = now_ns()
                os.kill(pid, signal.SIGKILL)
                ends.wait(PATIENCE_S)
                term = [ns for event, ns, _, p in job.stamps() if event == "term" and p in survivors]
                if term:
                    table.cell(measure, who).values.append((max(term) - start) / 1e6)
                elif not table.cell(measure, who).values:
                    table.note(measure, who, f"not in {PATIENCE_S} s")
        return measure, once
    kinds = [(hosts, which) for hosts in (True, False) for which in ("pid that the user knows", "agent process")]
    entries = []
    for hosts, which in kinds:
        measure, once = kill_one("cxxrun", hosts, which)
        if "cxxrun" in present(bench, table, measure, ["cxxrun"]):
            entries.append(("cxxrun", bench.runs(5, 1), once))
    for hosts in (True, False):
        measure, once = kill_one("torchrun", hosts, "pid that the user knows")
        if "torchrun" in present(bench, table, measure, ["torchrun"]):
            if bench.quick:
                left_out(bench, table, measure, "torchrun")
            else:
                entries.append(("torchrun", 1, once))
    bench.interleave(table, entries)
    for measure in list(table.measures):
        table.bar_limit(measure, 50)


def left_over(bench, table) -> None:
    kinds = ("worker", "child", "session")

    def run(who, which):
        measure = f"until all gone ({which})"

        def once():
            with Job(bench, [one_node(bench, who, 2, [bench.worker, "family"])]) as job:
                found = job.wait_for(6, kinds, 30)
                if len(found) < 6:
                    table.note(measure, who, f"{len(found)} of 6 processes started")
                    return
                time.sleep(0.1)
                pid = processes_to_kill(job, 0)[which]
                ends = Ends([p for _, _, _, p in found])
                start = now_ns()
                os.kill(pid, signal.SIGKILL)
                ended = ends.wait(1)
                left = {kind: sum(1 for k, _, _, p in found if k == kind and p not in ended) for kind in kinds}
                if not any(left.values()):
                    table.cell(measure, who).values.append((max(ended.values()) - start) / 1e6)
                if any(left.values()) or not table.cell(measure, who).note:
                    table.note(measure, who, "left after 1 s: " + " ".join(str(left[k]) for k in kinds))
        return measure, once
    entries = []
    for which in ("pid that the user knows", "agent process"):
        measure, once = run("cxxrun", which)
        if "cxxrun" in present(bench, table, measure, ["cxxrun"]):
            entries.append(("cxxrun", bench.runs(5, 1), once))
    for who in ("hydra", "parallel", "torchrun"):
        measure, once = run(who, "pid that the user knows")
        if who in present(bench, table, measure, [who]):
            if bench.quick and who == "torchrun":
                left_out(bench, table, measure, who)
            else:
                entries.append((who, 1, once))
    bench.interleave(table, entries)
    for measure, cells in table.measures.items():
        cell = cells.get("cxxrun")
        judged = cell is not None and (cell.values or "left after" in cell.note)
        table.bar_fact(f"nothing left after 1 s ({measure})", cell.note.endswith(" 0 0 0") if judged else None,
                       cell.note if judged else "no figure of ours")
