# SPDX-License-Identifier: Apache-2.0
"""Runs launchers side by side and keeps the figures. Nothing here waits by polling: every wait is a pidfd or a pipe."""

import json
import os
import select
import shutil
import signal
import socket
import statistics
import subprocess
import tempfile
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Callable, Optional

ROOT = Path(__file__).resolve().parent.parent


def now_ns() -> int:
    return time.clock_gettime_ns(time.CLOCK_MONOTONIC)


@dataclass
class Cell:
    """One launcher's figures for one measure: milliseconds unless the measure says otherwise."""
    values: list = field(default_factory=list)
    note: str = ""

    def median(self) -> Optional[float]:
        return statistics.median(self.values) if self.values else None

    def as_json(self) -> dict:
        if not self.values:
            return {"median": None, "n": 0, "note": self.note}
        return {"median": round(self.median(), 4), "min": round(min(self.values), 4), "max": round(max(self.values), 4),
                "n": len(self.values), "note": self.note}


@dataclass
class Bar:
    """What we promise to reach; `met` is None where it could not be judged."""
    text: str
    met: Optional[bool]
    figure: str

    def as_json(self) -> dict:
        return {"bar": self.text, "met": self.met, "figure": self.figure}


class Table:
    """The result of one row: measures by name, in each of them a cell by launcher, and the bars."""

    def __init__(self, row: str, title: str):
        self.row, self.title = row, title
        self.measures: dict[str, dict[str, Cell]] = {}
        self.units: dict[str, str] = {}
        self.bars: list[Bar] = []
        self.seconds = 0.0

    def cell(self, measure: str, who: str, unit: str = "ms") -> Cell:
        self.units[measure] = unit
        return self.measures.setdefault(measure, {}).setdefault(who, Cell())

    def note(self, measure: str, who: str, text: str, unit: str = "ms") -> None:
        self.cell(measure, who, unit).note = text

    def median(self, measure: str, who: str) -> Optional[float]:
        cell = self.measures.get(measure, {}).get(who)
        return cell.median() if cell else None

    def bar_ratio(self, measure: str, peer: str, limit: float, at_least: bool = False) -> None:
        """Ours over the peer's, at most (or at least) `limit`."""
        sign = ">=" if at_least else "<="
        text = f"{measure}: {sign} {limit:g} x {peer}"
        ours, theirs = self.median(measure, "cxxrun"), self.median(measure, peer)
        if ours is None or theirs is None or theirs == 0:
            self.bars.append(Bar(text, None, "no figure of " + ("ours" if ours is None else peer)))
            return
        ratio = ours / theirs
        self.bars.append(Bar(text, ratio >= limit if at_least else ratio <= limit, f"{ratio:.3g} x"))

    def bar_limit(self, measure: str, limit: float) -> None:
        ours = self.median(measure, "cxxrun")
        unit = self.units.get(measure, "")
        text = f"{measure}: <= {limit:g} {unit}".rstrip()
        self.bars.append(Bar(text, None if ours is None else ours <= limit,
                             "no figure of ours" if ours is None else f"{ours:.3g} {unit}".rstrip()))

    def bar_fact(self, text: str, met: Optional[bool], figure: str) -> None:
        self.bars.append(Bar(text, met, figure))

    def as_json(self) -> dict:
        measures = {name: {"unit": self.units[name], "cells": {who: c.as_json() for who, c in cells.items()}}
                    for name, cells in self.measures.items()}
        return {"row": self.row, "title": self.title, "measures": measures,
                "bars": [bar.as_json() for bar in self.bars], "seconds": round(self.seconds, 1)}


@dataclass
class Lap:
    """One run of one command: nanoseconds, exit codes, and what the workers stamped."""
    start: int
    ends: list
    codes: list
    left: int
    stamps: list            # (event, ns, rank, pid)
    output: str

    def whole_ms(self) -> float:
        return (max(self.ends) - self.start) / 1e6

    def events(self, event: str) -> list:
        return [ns for what, ns, _, _ in self.stamps if what == event]

    def finished(self) -> bool:
        return all(code >= 0 for code in self.codes)


class Bench:
    """Where the programs are, which launchers there are, and how thorough to be."""

    def __init__(self, bin_dir: Path, quick: bool):
        self.bin_dir, self.quick = bin_dir, quick
        self.scratch = Path(tempfile.mkdtemp(prefix="cxxrun-bench-"))
        self.worker = str(bin_dir / "bench" / "worker")
        self.floor = str(bin_dir / "bench" / "floor")
        self.lap_program = str(bin_dir / "bench" / "lap")
        self.sink = str(bin_dir / "bench" / "sink")
        self.cxxrun = self._executable(os.environ.get("CXXRUN_BIN") or str(bin_dir / "cxxrun"))
        self.hydra = shutil.which("mpiexec.hydra")
        self.parallel = self._gnu_parallel()
        self.python = self._test_python()
        self.torchrun = self._torchrun()
        self._port = 21000 + os.getpid() * 7 % 8000
        self.progress: Callable[[str], None] = lambda text: None

    @staticmethod
    def _executable(path: str) -> Optional[str]:
        return path if os.access(path, os.X_OK) and os.path.isfile(path) else None

    @staticmethod
    def _gnu_parallel() -> Optional[str]:
        path = shutil.which("parallel")
        if path is None:
            return None
        said = subprocess.run([path, "--version"], capture_output=True, text=True, check=False).stdout
        return path if said.startswith("GNU parallel") else None

    @staticmethod
    def _test_python() -> Optional[str]:
        cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
        return Bench._executable(os.environ.get("CXXRUN_TEST_PYTHON") or str(cache / "cxxrun/venv/bin/python"))

    def _torchrun(self) -> Optional[str]:
        return self._executable(str(Path(self.python).parent / "torchrun")) if self.python else None

    def launchers(self) -> dict:
        """Name to path; None where a launcher is not there, which the tables say."""
        return {"cxxrun": self.cxxrun, "floor": self.floor, "hydra": self.hydra, "parallel": self.parallel,
                "torchrun": self.torchrun}

    def absent(self, who: str) -> str:
        return "not built" if who == "cxxrun" else "not installed"

    def runs(self, full: int, quick: int) -> int:
        return quick if self.quick else full

    def port(self) -> int:
        """A port that nobody holds now, new on every call."""
        while True:
            self._port = 21000 + (self._port - 21000 + 1) % 8000
            with socket.socket() as probe:
                try:
                    probe.bind(("127.0.0.1", self._port))
                    return self._port
                except OSError:
                    continue

    def environment(self, extra: Optional[dict] = None) -> dict:
        dropped = ("MASTER_ADDR", "MASTER_PORT", "RANK", "WORLD_SIZE", "PARALLEL_SEQ", "PMI_RANK")
        kept = {k: v for k, v in os.environ.items() if k not in dropped and not k.startswith(("PET_", "SLURM_"))}
        kept["OMP_NUM_THREADS"] = "1"
        kept.update(extra or {})
        return kept

    def lap(self, command: list, copies: int = 1, timeout_s: float = 60) -> Lap:
        stamps, once, output = (self.scratch / name for name in ("stamps", "once", "output"))
        for path in (stamps, once, output):
            path.unlink(missing_ok=True)
        line = [self.lap_program, "-c", str(copies), "-t", str(int(timeout_s * 1000)), "-o", str(output)]
        done = subprocess.run(line + command, stdout=subprocess.PIPE, text=True, check=True,
                              env=self.environment({"BENCH_STAMPS": str(stamps), "BENCH_ONCE": str(once)}))
        told = json.loads(done.stdout)
        return Lap(told["start"], told["ends"], told["codes"], told["left"], read_stamps(stamps),
                   output.read_text(errors="replace") if output.exists() else "")

    def interleave(self, table: Table, entries: list) -> None:
        """entries: (who, runs, function). Runs A B C A B C ..., those with fewer runs spread over the rounds."""
        rounds = max((runs for _, runs, _ in entries), default=0)
        for number in range(rounds):
            for who, runs, measure in entries:
                if (number * runs) // rounds != ((number + 1) * runs) // rounds:
                    self.progress(f"{table.row}: {who}, round {number + 1} of {rounds}")
                    measure()

    def close(self) -> None:
        shutil.rmtree(self.scratch, ignore_errors=True)


def read_stamps(path: Path) -> list:
    if not path.exists():
        return []
    lines = [line.split() for line in path.read_text().splitlines()]
    return [(event, int(ns), int(rank), int(pid)) for event, ns, rank, pid in lines]


class Job:
    """A launcher that we watch while it runs: `with Job(...) as job`. Whatever is left at the end is killed."""

    def __init__(self, bench: Bench, commands: list, stdout=subprocess.DEVNULL):
        self.stamps_path = bench.scratch / "job-stamps"
        self.stamps_path.unlink(missing_ok=True)
        env = bench.environment({"BENCH_STAMPS": str(self.stamps_path)})
        self.started = [subprocess.Popen(c, stdin=subprocess.DEVNULL, stdout=stdout, stderr=subprocess.DEVNULL, env=env,
                                         start_new_session=True) for c in commands]

    def __enter__(self):
        return self

    def __exit__(self, *_):
        pids = set(pid for _, _, _, pid in self.stamps())
        for process in self.started:
            pids.update(descendants(process.pid))
            pids.add(process.pid)
        for pid in pids:
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                pass
        for process in self.started:
            process.wait()

    def stamps(self) -> list:
        return read_stamps(self.stamps_path)

    def wait_for(self, count: int, events: tuple, timeout_s: float) -> list:
        """Until `count` stamps of `events` are there. Not part of any figure, so looking every 10 ms is harmless."""
        deadline = time.monotonic() + timeout_s
        while time.monotonic() < deadline:
            found = [stamp for stamp in self.stamps() if stamp[0] in events]
            if len(found) >= count:
                return found
            time.sleep(0.01)
        return []


def descendants(pid: int) -> list:
    """Every process below `pid`, nearest first."""
    found, queue = [], [pid]
    while queue:
        current = queue.pop(0)
        try:
            tasks = os.listdir(f"/proc/{current}/task")
        except OSError:
            continue
        for task in tasks:
            try:
                children = Path(f"/proc/{current}/task/{task}/children").read_text().split()
            except OSError:
                continue
            found += map(int, children)
            queue += map(int, children)
    return found


class Ends:
    """Watches processes by pidfd: when did each end?"""

    def __init__(self, pids: list):
        self.fds = {}
        for pid in pids:
            try:
                self.fds[os.pidfd_open(pid)] = pid
            except ProcessLookupError:
                pass
        self.ended: dict[int, int] = {}

    def wait(self, timeout_s: float) -> dict:
        """pid -> nanoseconds of its end; those that still live when the time is up are not in it."""
        poller = select.poll()
        for fd in self.fds:
            poller.register(fd, select.POLLIN)
        open_fds, deadline = set(self.fds), time.monotonic() + timeout_s
        while open_fds and (left := deadline - time.monotonic()) > 0:
            ready = poller.poll(left * 1000)
            now = now_ns()
            for fd, _ in ready:
                self.ended[self.fds[fd]] = now
                poller.unregister(fd)
                open_fds.discard(fd)
        for fd in self.fds:
            os.close(fd)
        return self.ended


def listener_of(port: int, pids: list) -> Optional[int]:
    """Which of `pids` listens on the TCP port."""
    inodes = set()
    for table in ("/proc/net/tcp", "/proc/net/tcp6"):
        try:
            lines = Path(table).read_text().splitlines()[1:]
        except OSError:
            continue
        for line in lines:
            fields = line.split()
            if fields[3] == "0A" and int(fields[1].rsplit(":", 1)[1], 16) == port:
                inodes.add(f"socket:[{fields[9]}]")
    for pid in pids:
        try:
            for fd in os.listdir(f"/proc/{pid}/fd"):
                if os.readlink(f"/proc/{pid}/fd/{fd}") in inodes:
                    return pid
        except OSError:
            continue
    return None
