# SPDX-License-Identifier: Apache-2.0
"""Workers that hang: PyTorch's file timer, spoken by hand (with PyTorch itself: test_torch_programs)."""
import os
import re
import signal
import stat

import harness

PYTHON = "/usr/bin/python3"

# Says what its arguments are: set:SECONDS:SIGNAL, release, file:NAME (waits for it), exit:N, ignore:SIGNAL, garbage.
CLIENT = """
import json, os, pathlib, signal, sys, time
def send(text):
    with open(os.environ["TORCHELASTIC_TIMER_FILE"], "wb", buffering=0) as pipe:
        pipe.write(text.encode() + b"\\n")
def timer(expires, signo=9, pid=None):
    send(json.dumps({"version": 1, "pid": pid or os.getpid(), "scope_id": "step", "expiration_time": expires, "signal": signo}))
for step in sys.argv[1:]:
    word, *more = step.split(":")
    if word == "rank":
        if os.environ["RANK"] != more[0]: break
    elif word == "first":
        if os.environ["TORCHELASTIC_RESTART_COUNT"] != "0": break
    elif word == "set": timer(time.time() + float(more[0]), int(more[1]))
    elif word == "others": timer(time.time(), 9, int(more[0]))
    elif word == "release": timer(-1)
    elif word == "say": print(more[0], file=sys.stderr, flush=True)
    elif word == "ignore": signal.signal(int(more[0]), signal.SIG_IGN)
    elif word == "leave": signal.signal(int(more[0]), lambda *_: os._exit(0))
    elif word == "garbage": send("not a timer"); send("x" * 3000); send("y" * 3000 + "z" * 3000)
    elif word == "touch": pathlib.Path(more[0]).touch()
    elif word == "exit": sys.exit(int(more[0]))
    elif word == "forever": signal.pause(); time.sleep(1000)
"""
ON = {"TORCHELASTIC_ENABLE_FILE_TIMER": "1"}


class FileTimer(harness.Case):
    def launch(self, *steps, options=(), env=None, **more):
        script = self.dir / "client.py"
        script.write_text(CLIENT)
        return self.start(["--standalone", *options, PYTHON, script, *steps], env={**ON, **(env or {})}, **more)

    def pipes(self):
        return [path for path in self.dir.iterdir() if stat.S_ISFIFO(path.lstat().st_mode)]

    def tearDown(self):
        if not self._failed():
            self.assertEqual(self.pipes(), [])
        super().tearDown()

    def test_a_worker_that_hangs_is_a_failure_of_its_own(self):
        """Not the end of the agent, as under torchrun: report, exit code and the other workers are as at any failure."""
        agent = self.launch("say:in step 7", "rank:1", "set:0.2:9", "forever", options=["--nproc-per-node", "2"])
        self.assertEqual(agent.code(), 137)
        report = agent.err[agent.err.index("cxxrun: the job failed"):]
        self.assertRegex(report, r"rank 1 .*SIGKILL")
        self.assertIn("it hung: its timer step expired, so it got SIGKILL", report)
        self.assertIn("in step 7", report)

    def test_restart(self):
        agent = self.launch("first", "set:0:15", "forever", options=["--max-restarts", "1"])
        self.assertEqual(agent.code(), 0)
        self.assertIn("its timer step expired", agent.err)

    def test_released_in_time(self):
        agent = self.launch("set:1000:9", "release", "exit:0")
        self.assertEqual(agent.code(), 0)
        self.assertEqual(agent.err, "")

    def test_the_end_of_a_worker_releases_its_timers(self):
        agent = self.launch("set:0.5:9", "exit:3")
        self.assertEqual(agent.code(), 3)
        self.assertNotIn("timer", agent.err)

    def test_a_worker_that_ends_well_on_the_signal_has_failed(self):
        agent = self.launch("leave:15", "set:0:15", "forever")
        self.assertEqual(agent.code(), 143)
        self.assertIn("its timer step expired", agent.err)

    def test_a_worker_that_ignores_the_signal(self):
        agent = self.launch("ignore:15", "set:0:15", "forever", options=["--shutdown-timeout", "0.2"])
        self.assertEqual(agent.code(), 137)
        self.assertIn("its timer step expired", agent.err)

    def test_no_signal_ends_nothing(self):
        agent = self.launch("set:0:0", "exit:0")
        self.assertEqual(agent.code(), 0)

    def test_strangers_cannot_be_named(self):
        """Neither a process of somebody else nor the agent."""
        victim = self.background(["sleep", "1000"])
        agent = self.launch(f"others:{victim.pid}", f"others:{os.getpid()}", f"touch:{self.dir}/up", "forever")
        self.wait_for_files("up")
        agent.signal(signal.SIGTERM)
        self.assertEqual(agent.code(), 143)
        self.assertTrue(victim.running())

    def test_garbage_is_said_once(self):
        agent = self.launch("garbage", "set:1000:9", "release", "exit:0")
        self.assertEqual(agent.code(), 0)
        self.assertEqual(len(re.findall(r"(?m)^cxxrun: .*pipe of the worker timers", agent.err)), 1, agent.err)

    def test_the_pipe(self):
        """At the path that the variable names; only for us; an old one goes, somebody's file does not."""
        path = self.dir / "timers"
        os.mkfifo(path)
        old = path.lstat().st_ino
        agent = self.launch(f"touch:{self.dir}/up", "forever", env={"TORCHELASTIC_TIMER_FILE": str(path)})
        self.wait_for_files("up")
        self.assertEqual(self.pipes(), [path])
        self.assertEqual(stat.S_IMODE(path.lstat().st_mode), 0o600)
        agent.signal(signal.SIGTERM)
        self.assertEqual(agent.code(), 143)
        self.assertFalse(path.exists(), f"inode was {old}")
        path.write_text("mine")
        agent = self.launch("exit:0", env={"TORCHELASTIC_TIMER_FILE": str(path)})
        self.assertEqual(agent.code(), 70)
        self.assertRegex(agent.err, rf"cannot make the pipe of the worker timers {path}: File exists")
        self.assertEqual(path.read_text(), "mine")

    def test_off_without_the_variable(self):
        agent = self.start(["--standalone", self.worker, f"env:{self.dir}"], env={"TORCHELASTIC_ENABLE_FILE_TIMER": "true"})
        self.assertEqual(agent.code(), 0)
        self.assertNotIn("TORCHELASTIC_TIMER_FILE", str(self.worker_files()))


if __name__ == "__main__":
    harness.main()
