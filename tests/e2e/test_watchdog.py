# SPDX-License-Identifier: Apache-2.0
"""Workers that hang: PyTorch's file timer, spoken by hand (with PyTorch itself: test_torch_programs)."""
import os
import json
import re
import signal
import socket
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
    elif word == "beat": os.write(int(os.environ["CXXRUN_HEARTBEAT_FD"]), b".")
    elif word == "rest": os.write(int(os.environ["CXXRUN_HEARTBEAT_FD"]), b"-")
    elif word == "close": os.close(int(os.environ["CXXRUN_HEARTBEAT_FD"]))
    elif word == "await":
        while not os.path.exists(more[0]): time.sleep(0.003)
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
        """Neither a process of somebody else, even one that has our rank in another job, nor the agent."""
        victim = self.start(["--standalone", "--nproc-per-node", "1", self.worker, f"touch:{self.dir}/other", "forever"])
        self.wait_for_files("other")
        twin, = harness.children(victim.inner())
        agent = self.launch(f"others:{twin}", f"others:{victim.pid}", f"others:{os.getpid()}", "set:1000:9", f"touch:{self.dir}/up", "forever",
                            options=["--health-check-port", "8080"])
        self.wait_for_files("up")
        with socket.create_connection(("127.0.0.1", 8080), timeout=20) as probe:
            probe.sendall(b"GET / HTTP/1.1\r\n\r\n")
            self.assertIn(b'"hanging":0', probe.recv(4096))  # and it has read them: the same turn would have said 1
        for one in (agent, victim):
            one.signal(signal.SIGTERM)
            self.assertEqual(one.code(), 143)
        self.assertNotIn("hung", agent.err + victim.err)

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


class Heartbeat(harness.Case):
    def launch(self, *steps, options=(), env=None, **more):
        script = self.dir / "client.py"
        script.write_text(CLIENT)
        return self.start(["--standalone", "--heartbeat-timeout", "0.3", *options, PYTHON, script, *steps], env=env, **more)

    def test_a_worker_that_stops_beating(self):
        """Its stacks are in the report (Python's faulthandler), and where the kernel has its threads."""
        agent = self.launch("rank:1", "beat", "beat", "forever", options=["--nproc-per-node", "2"])
        self.assertEqual(agent.code(), 134)
        report = agent.err[agent.err.index("cxxrun: the job failed"):]
        self.assertRegex(report, r"rank 1 .*\n(.*\n)*.*it hung: no heartbeat for 300 ms, so it got SIGABRT; threads: python3? S")
        self.assertRegex(report, r'File ".*client\.py", line \d+ in <module>')

    def test_only_who_has_beaten_is_watched(self):
        """Rank 0 never beats, 1 rests, 2 closes its end; all three are silent for longer than 3, which hangs."""
        script = self.dir / "client.py"
        script.write_text(CLIENT)
        steps = {0: "touch:{d}/0", 1: "beat rest touch:{d}/1", 2: "beat close touch:{d}/2", 3: "await:{d}/0 await:{d}/1 await:{d}/2 beat"}
        wrapper = self.dir / "by_rank.sh"
        wrapper.write_text("#!/bin/sh\ncase $RANK in\n" + "".join(
            f"{rank}) exec {PYTHON} {script} {text.format(d=self.dir)} forever ;;\n" for rank, text in steps.items()) + "esac\n")
        wrapper.chmod(0o755)
        agent = self.start(["--standalone", "--heartbeat-timeout", "0.3", "--nproc-per-node", "4", wrapper])
        self.assertIn(agent.code(), (131, 134))
        self.assertRegex(agent.err, r"cxxrun: the job failed: rank 3 ")

    def test_restart(self):
        agent = self.launch("first", "beat", "forever", options=["--max-restarts", "1"])
        self.assertEqual(agent.code(), 0)
        self.assertIn("it hung: no heartbeat", agent.err)

    def test_a_shell_can_beat(self):
        agent = self.start(["--standalone", "--heartbeat-timeout", "0.3", "sh", "-c",
                            'eval "echo beat >&$CXXRUN_HEARTBEAT_FD"; exec sleep 1000'])
        self.assertEqual(agent.code(), 131)
        self.assertIn("it hung: no heartbeat for 300 ms, so it got SIGQUIT; threads: sleep S", agent.err)

    def test_the_descriptor_is_none_that_we_pass_on(self):
        read, write = os.pipe()
        try:
            agent = self.start(["--standalone", "--heartbeat-timeout", "100", "sh", "-c", f"echo $CXXRUN_HEARTBEAT_FD; echo theirs >&{write}"],
                               pass_fds=[write])
            self.assertEqual(agent.code(), 0)
            self.assertNotEqual(agent.out.strip(), str(write))
            self.assertEqual(os.read(read, 100), b"theirs\n")
        finally:
            os.close(read)
            os.close(write)

    def test_off_without_the_option(self):
        agent = self.start(["--standalone", "sh", "-c", "echo $CXXRUN_HEARTBEAT_FD.$PYTHONFAULTHANDLER"])
        self.assertEqual(agent.code(), 0)
        self.assertEqual(agent.out, ".")


class HealthPort(harness.Case):
    """What a liveness probe hears."""

    def ask(self, head=b"GET / HTTP/1.1\r\nHost: x\r\n\r\n", port=8080):
        with socket.create_connection(("127.0.0.1", port), timeout=20) as probe:
            probe.sendall(head)
            answer = b""
            while chunk := probe.recv(4096):
                answer += chunk
        status, _, body = answer.partition(b"\r\n\r\n")
        return int(status.split()[1]), body.decode()

    def test_healthy(self):
        for how in ({"args": ["--health-check-port", "8080"]}, {"env": {"TORCHELASTIC_HEALTH_CHECK_PORT": "8080"}}):
            with self.subTest(how):
                agent = self.start(["--standalone", "--nproc-per-node", "2", *how.get("args", []), self.worker,
                                    f"touch:{self.dir}/up.{{rank}}", "forever"], env=how.get("env"))
                self.wait_for_files("up.0", "up.1")
                status, body = self.ask()
                self.assertEqual(status, 200)
                self.assertEqual(json.loads(body), {"state": "running", "round": 0, "workers": 2, "hanging": 0,
                                                    "last_progress_seconds": None})
                agent.signal(signal.SIGTERM)
                self.assertEqual(agent.code(), 143)
                for name in ("up.0", "up.1"):
                    (self.dir / name).unlink()

    def test_a_worker_that_hangs(self):
        """503 from the moment that its timer expires until it has ended."""
        script = self.dir / "client.py"
        script.write_text(CLIENT)
        agent = self.start(["--standalone", "--health-check-port", "8080", "--shutdown-timeout", "1000", PYTHON, script, "ignore:15",
                            "set:0:15", "forever"], env=ON)
        harness.wait_until("503", lambda: agent.running() and self.ask_or_none() == 503)
        worker, = harness.children(agent.inner())
        harness.kill(worker)
        self.assertEqual(agent.code(), 137)
        self.assertIn("its timer step expired", agent.err)

    def ask_or_none(self):
        try:
            return self.ask()[0]
        except ConnectionRefusedError:
            return None

    def test_while_joining(self):
        agent = self.start(["--nnodes", "2", "--rdzv-endpoint", "127.0.0.1:29501", "--health-check-port", "8080", self.worker])
        agent.wait_for_line("listens at")
        status, body = self.ask()
        self.assertEqual((status, json.loads(body)["state"]), (200, "joining"))
        agent.signal(signal.SIGTERM)
        self.assertEqual(agent.code(), 143)

    def test_bad_requests_and_slow_callers(self):
        agent = self.start(["--standalone", "--health-check-port", "8080", self.worker, f"touch:{self.dir}/up", "forever"])
        self.wait_for_files("up")
        self.assertEqual(self.ask(b"POST / HTTP/1.1\r\n\r\n")[0], 405)
        self.assertEqual(self.ask(b"\x16\x03\x01\r\n\r\n")[0], 400)
        callers = [socket.create_connection(("127.0.0.1", 8080), timeout=20) for _ in range(20)]
        self.assertEqual(callers[-1].recv(1), b"")  # more at once than it takes: closed at once
        for caller in callers:
            caller.close()
        harness.wait_until("200 again", lambda: self.ask_again() == 200)
        agent.signal(signal.SIGTERM)
        self.assertEqual(agent.code(), 143)

    def ask_again(self):
        try:
            return self.ask()[0]
        except (ConnectionError, IndexError):  # the callers before are not forgotten yet
            return None

    def test_a_port_that_is_taken_costs_the_probe_not_the_job(self):
        with socket.create_server(("0.0.0.0", 8080)):
            agent = self.start(["--standalone", "--health-check-port", "8080", self.worker, "exit:0"])
            self.assertEqual(agent.code(), 0)
        self.assertRegex(agent.err, r"no health check: .*8080")


if __name__ == "__main__":
    harness.main()
