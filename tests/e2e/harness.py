# SPDX-License-Identifier: Apache-2.0
"""Runs the real programs, on one machine or on several made of namespaces.

A test file ends with `if __name__ == "__main__": harness.main()`, which starts it again in namespaces of its own
(network, mounts, host name, processes): test files run side by side, need root or user namespaces, and nothing of
them outlives them. Inside, every process that the test did not start as part of its set-up belongs to the job, so
"nothing left over" is simply "no other process".

    class Demo(harness.Case):
        def test_it(self):
            ha, hb = self.nodes(2)
            agents = [self.start(["--nnodes", "2", "--rdzv-endpoint", "10.77.0.1:29501", self.worker, "exit:7"], on=n)
                      for n in (ha, hb)]
            for agent in agents:
                self.assertEqual(agent.code(), 7)

Time limits are for the case that something hangs; they say nothing about speed. CXXRUN_TEST_SLOW multiplies them.
"""
import ctypes
import json
import os
import pathlib
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
import unittest

from nodes import Network, Node, sh  # noqa: F401  (tests use them as harness.sh and so on)
from processes import (SLOW, Folder, alive, children, cmdline, comm, descendants, describe, kill, limit,  # noqa: F401
                       memory_kb, pids, shell_code, stat, wait_for_end, wait_until)

BUILD = os.environ.get("CXXRUN_TEST_BUILD", "release")  # release, debug, asan, tsan
SANITIZED = BUILD in ("asan", "tsan")
CXXRUN = os.environ.get("CXXRUN_BIN", "")
BIN_DIR = pathlib.Path(os.environ.get("CXXRUN_BIN_DIR") or (os.path.dirname(CXXRUN) if CXXRUN else "."))
SOURCE = pathlib.Path(__file__).resolve().parents[2]
WORKER = str(BIN_DIR / "fixtures" / "worker")
MARKER = "CXXRUN_TEST_MARKER"
_INSIDE = "CXXRUN_TEST_INSIDE"


# ---------------------------------------------------------------------------------------------- agents
class Agent:
    """One running command; its output is read all the time by threads."""

    def __init__(self, command, on=None, env=None, cwd=None, tty=False, stdin=None, prefix=(), **popen):
        self.command, self.on = [str(c) for c in command], on
        self._changed = threading.Condition()
        self._lines = {"out": [], "err": []}
        self._all = []
        full = [*(on.enter(cwd) if on else ()), *prefix, *self.command]
        self.terminal = None
        if tty:
            self.terminal, slave = os.openpty()
            self.process = subprocess.Popen(full, stdin=slave, stdout=slave, stderr=slave, env=env, cwd=cwd,
                                            preexec_fn=lambda: os.login_tty(slave), **popen)
            os.close(slave)
            streams = [("out", os.dup(self.terminal))]
        else:
            self.process = subprocess.Popen(full, stdin=subprocess.DEVNULL if stdin is None else stdin,
                                            stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=env, cwd=cwd, **popen)
            streams = [(name, os.dup(pipe.fileno())) for name, pipe in
                       (("out", self.process.stdout), ("err", self.process.stderr))]
            self.process.stdout.close()
            self.process.stderr.close()
        self.pid = self.process.pid
        self._readers = [threading.Thread(target=self._read, args=s, daemon=True) for s in streams]
        for reader in self._readers:
            reader.start()

    def _read(self, name, fd):
        rest = b""
        while True:
            try:
                chunk = os.read(fd, 65536)
            except OSError:  # a terminal whose other side has closed
                chunk = b""
            if not chunk:
                break
            *whole, rest = (rest + chunk).split(b"\n")
            self._add(name, whole)
        if rest:
            self._add(name, [rest])
        os.close(fd)

    def _add(self, name, lines):
        with self._changed:
            for line in lines:
                text = line.decode(errors="replace").rstrip("\r")
                self._lines[name].append(text)
                self._all.append((name, text))
            self._changed.notify_all()

    @property
    def out(self):
        return "\n".join(self._lines["out"])

    @property
    def err(self):
        return "\n".join(self._lines["err"])

    @property
    def err_lines(self):
        return list(self._lines["err"])

    def wait_for_line(self, pattern, seconds=20):
        """Waits for a line (of stdout or stderr) that matches, and returns the match."""
        end, at, compiled = limit(seconds), 0, re.compile(pattern)
        with self._changed:
            while True:
                while at < len(self._all):
                    match = compiled.search(self._all[at][1])
                    at += 1
                    if match:
                        return match
                left = end - time.monotonic()
                if left <= 0:
                    raise AssertionError(f"{self.label()}: no line {pattern!r} within {seconds * SLOW:g} s")
                self._changed.wait(left)

    def running(self):
        return self.process.poll() is None

    def code(self, seconds=30):
        """Waits for the end. The code as a shell shows it: 128+n for signal n."""
        end = limit(seconds)
        try:
            returncode = self.process.wait(max(0, end - time.monotonic()))
        except subprocess.TimeoutExpired:
            raise AssertionError(f"{self.label()} still runs after {seconds * SLOW:g} s") from None
        for reader in self._readers:
            reader.join(2 * SLOW)
        return shell_code(returncode)

    def signal(self, signo):
        self.process.send_signal(signo)

    def type(self, data):
        """Types on the terminal."""
        os.write(self.terminal, data)

    def inner(self):
        """The process id of the agent proper: below the process that the user started and the inner guardian."""
        return self.family()[2]

    def family(self):
        """Outer guardian, inner guardian, agent."""
        def look():
            guards = [p for p in children(self.pid) if comm(p) == "run-guard"]
            agents = [p for guard in guards for p in children(guard)]
            return guards and agents and [self.pid, guards[0], agents[0]]
        return wait_until(f"guardian and agent below {self.pid}", look)

    def label(self):
        return f"{self.on.name if self.on else 'cxxrun'} (pid {self.pid})"

    def transcript(self):
        lines = [f"--- {self.label()}: {' '.join(self.command)}",
                 f"    {'still runs' if self.running() else f'exit code {shell_code(self.process.returncode)}'}"]
        if len(self._all) > 400:
            lines.append(f"    (the last 400 of {len(self._all)} lines)")
        return "\n".join(lines + [f"    {name}| {text}" for name, text in self._all[-400:]])

    def close(self):
        if self.running():
            self.process.kill()
            self.process.wait()
        for reader in self._readers:
            reader.join(1)
        if self.terminal is not None:
            os.close(self.terminal)


# ---------------------------------------------------------------------------------------------- test case
class Case(unittest.TestCase):
    """One test: a directory, nodes and agents of its own, and at the end no process left."""

    maxDiff = None
    worker = WORKER

    def run(self, result=None):
        result = self.defaultTestResult() if result is None else result
        before = len(result.failures) + len(result.errors)
        self._failed = lambda: len(result.failures) + len(result.errors) > before
        super().run(result)
        if self._failed():
            for agent in self._agents:
                print(agent.transcript(), file=sys.stderr)
            sys.stderr.flush()

    def __init__(self, *args, **kwargs):
        super().__init__(*args, **kwargs)
        self._agents, self._nodes, self._network, self._own = [], [], None, set()

    def setUp(self):
        if not os.access(CXXRUN, os.X_OK):
            self.fail(f"CXXRUN_BIN={CXXRUN!r} is not a program; CTest sets it")
        self.dir = pathlib.Path(tempfile.mkdtemp(prefix="cxxrun-test-"))
        self.dir.chmod(0o755)
        self.marker = self.dir.name
        self._own = set(pids())
        self.addCleanup(self._clean)

    def tearDown(self):
        if not self._failed():
            self.assert_nothing_left()

    def _clean(self):
        for agent in self._agents:
            agent.close()
        for pid in self.left():
            kill(pid)
        for node in self._nodes:
            node.close()
        if self._network:
            self._network.close()
        if "CXXRUN_TEST_KEEP" not in os.environ:
            shutil.rmtree(self.dir, ignore_errors=True)

    # --- set-up ---
    def nodes(self, count, **options):
        """`count` nodes ha, hb, hc ... that know each other's names."""
        return self.named_nodes([f"h{chr(ord('a') + i)}" for i in range(count)], **options)

    def named_nodes(self, names, **options):
        if self._network is None:
            self._network = Network()
        made = [Node(name, len(self._nodes) + i + 1, self.dir, **options) for i, name in enumerate(names)]
        self._nodes += made
        self._own |= {node.holder.pid for node in made}
        for node in made:
            node.hosts("127.0.0.1 localhost", "::1 localhost", *(f"{n.address} {n.name}" for n in self._nodes))
        return made

    def env(self, **more):
        base = {"PATH": os.environ.get("CXXRUN_TEST_PATH", "/usr/local/bin:/usr/bin:/bin"), "HOME": str(self.dir),
                "LANG": "C.UTF-8", "TMPDIR": str(self.dir), MARKER: self.marker}
        for name in ("ASAN_OPTIONS", "UBSAN_OPTIONS", "TSAN_OPTIONS", "LSAN_OPTIONS"):
            if name in os.environ:
                base[name] = os.environ[name]
        return {k: str(v) for k, v in {**base, **more}.items() if v is not None}

    def start(self, args, on=None, env=None, program=CXXRUN, **options):
        """Starts `cxxrun ARGS...` (or another program) and returns its Agent."""
        agent = Agent([program, *args], on=on, env=self.env(**(env or {})), cwd=options.pop("cwd", self.dir), **options)
        self._agents.append(agent)
        return agent

    def run_all(self, args, nodes, env=None, **options):
        """The same command on every node."""
        return [self.start(args, on=node, env=env, **options) for node in nodes]

    def background(self, command, on=None, **options):
        """A set-up process (a server, a client) that counts as the test's own, not as the job's."""
        agent = Agent(command, on=on, env=self.env(), cwd=self.dir, **options)
        self._own.add(agent.pid)
        self._agents.append(agent)
        return agent

    # --- looking ---
    def worker_files(self):
        """What the workers' env:DIR steps wrote: {(round, rank): facts}."""
        found = {}
        for path in self.dir.glob("env.*.*.json"):
            _, number, rank, _ = path.name.split(".")
            found[int(number or 0), int(rank)] = json.loads(path.read_text())
        return found

    def wait_for_files(self, *names, seconds=20):
        end = limit(seconds)
        with Folder(self.dir) as folder:
            while missing := [str(name) for name in names if not (self.dir / str(name)).exists()]:
                if time.monotonic() > end:
                    self.fail(f"not within {seconds * SLOW:g} s: files {missing}; there are {sorted(p.name for p in self.dir.iterdir())}")
                folder.wait(end - time.monotonic())

    def left(self):
        """Processes that belong to the job: all but the test's own."""
        own = self._own | {os.getpid()} | {a.pid for a in self._agents if a.running()}
        return [pid for pid in pids() if pid not in own and stat(pid) is not None]

    def assert_nothing_left(self, seconds=5):
        """No process of the job lives any more, the agents included, nor is one a zombie."""
        end = limit(seconds)
        background = self._own
        while True:
            left = [p for p in pids() if p not in background and p != os.getpid() and stat(p) is not None]
            for agent in self._agents:
                agent.process.poll()
            if not left:
                return
            if time.monotonic() > end:
                self.fail("left over: " + "; ".join(describe(p) for p in left))
            ends = [p for p in left if alive(p)]
            if ends:
                try:
                    wait_for_end(ends[0], max(0.001, (end - time.monotonic()) / SLOW))
                except AssertionError:
                    continue  # the end of the loop names it
            else:
                time.sleep(0.003)  # nobody tells when a zombie is reaped

    def assert_codes(self, agents, code, seconds=30):
        end = limit(seconds)
        got = [agent.code(max(0.01, (end - time.monotonic()) / SLOW)) for agent in agents]
        self.assertEqual(got, [code] * len(agents))


# ---------------------------------------------------------------------------------------------- entry
class _Result(unittest.TextTestResult):
    def addSkip(self, test, reason):
        super().addSkip(test, reason)
        file, name = pathlib.Path(sys.argv[0]).stem, test.id().split(".", 1)[-1]
        print(f"SKIPPED {file}.{name}: {reason}", file=sys.stderr)
        log = os.environ.get("CXXRUN_SKIP_LOG")
        if log:
            with open(log, "a", encoding="utf-8") as out:
                out.write(f"{BUILD} {file}.{name}: {reason}\n")


def main():
    if os.environ.get(_INSIDE) != "1":
        _enter_namespaces()
    if os.getpid() == 1:
        _be_init()
    for signo in range(1, signal.NSIG):  # what we were started with (nohup, a background job) is not the tests' business
        if signal.getsignal(signo) == signal.SIG_IGN and signo not in (signal.SIGPIPE, signal.SIGXFSZ):
            signal.signal(signo, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_SETMASK, ())
    sh("ip", "link", "set", "lo", "up")
    socket.sethostname("testhost")
    unittest.main(module="__main__", testRunner=unittest.TextTestRunner(verbosity=2, resultclass=_Result))


def _enter_namespaces():
    user = ["--user", "--map-root-user"] if os.geteuid() != 0 else []
    os.environ[_INSIDE] = "1"
    os.execvp("unshare", ["unshare", *user, "--mount", "--net", "--uts", "--ipc", "--pid", "--fork", "--mount-proc",
                          "--kill-child", "--", sys.executable, *sys.argv])


def _be_init():
    """The first process of the namespace: reaps strangers, as an init does, and leaves with the tests' result."""
    child = os.fork()
    if child == 0:
        # Dies with init, whatever happens; and the tests are not disturbed by a terminal's signals to init's group.
        ctypes.CDLL(None).prctl(1, signal.SIGKILL)
        return
    while True:
        pid, status = os.wait()
        if pid == child:
            os._exit(os.waitstatus_to_exitcode(status) & 0xff)
