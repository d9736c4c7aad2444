# SPDX-License-Identifier: Apache-2.0
"""Stopping: the ladder, every signal, and nothing left over, whoever was killed and whenever."""
import os
import random
import signal
import subprocess
import time

import harness

HELPERS = ("child", "session", "deaf", "daemon", "bare", "hold")
J2 = ["--nnodes", "2", "--nproc_per_node", "1", "--rdzv-endpoint", "10.77.0.1:29501", "--rdzv-id", "t"]


class Base(harness.Case):
    def running(self, args, workers, steps, **options):
        """Starts a job whose `workers` workers have done `steps` and then live for ever; returns when they do."""
        agent = self.start([*args, self.worker, f"env:{self.dir}", *steps, f"touch:{self.dir}/up.{{rank}}", "forever"], **options)
        self.wait_for_files(*(f"up.{rank}" for rank in range(workers)))
        return agent

    def count(self, name):
        path = self.dir / name
        return len(path.read_text().splitlines()) if path.exists() else 0


class Signals(Base):
    def test_each_stop_signal(self):
        """The workers get the same signal and save; we end by that signal ourselves, whatever they exit with."""
        for name in ("TERM", "INT", "HUP", "QUIT"):
            with self.subTest(name):
                for path in (*self.dir.glob("up.*"), *self.dir.glob("saved.*")):
                    path.unlink()
                agent = self.running(["--standalone", "--nproc_per_node", "2"], 2, [f"save:{name}=50={self.dir}/saved.{{rank}}=0"])
                number = getattr(signal, f"SIG{name}")
                agent.signal(number)
                self.assertEqual(agent.code(), 128 + number)
                self.assertEqual(agent.process.returncode, -number, "ended by the signal itself")
                self.wait_for_files("saved.0", "saved.1", seconds=0.1)
                self.assertEqual([p.name for p in self.dir.glob("core*")], [])

    def test_default_action(self):
        agent = self.running(["--standalone", "--nproc_per_node", "3"], 3, [])
        agent.signal(signal.SIGTERM)
        self.assertEqual(agent.code(), 143)

    def test_repeated_sigterm_changes_nothing(self):
        agent = self.running(["--standalone"], 1, [f"count:TERM={self.dir}/heard"])
        worker = self.worker_files()[0, 0]["pid"]
        agent.signal(signal.SIGTERM)
        harness.wait_until("worker hears SIGTERM", lambda: self.count("heard") == 1)
        for _ in range(5):
            agent.signal(signal.SIGTERM)
        self.assertTrue(harness.alive(worker))
        self.assertEqual(self.count("heard"), 1)
        harness.kill(worker)
        self.assertEqual(agent.code(), 143)
        self.assertEqual(self.count("heard"), 1)

    def test_second_sigint_ends_the_grace(self):
        for second in (signal.SIGINT, signal.SIGQUIT):
            with self.subTest(second):
                for path in (*self.dir.glob("up.*"), *self.dir.glob("heard")):
                    path.unlink()
                agent = self.running(["--standalone", "--shutdown-timeout", "300"], 1,
                                     [f"count:INT={self.dir}/heard", "ignore:TERM", "ignore:QUIT"])
                agent.signal(signal.SIGINT)
                harness.wait_until("worker hears SIGINT", lambda: self.count("heard") == 1)
                agent.signal(second)
                self.assertIn(agent.code(), (130, 131))

    def test_worker_that_ignores_sigterm(self):
        agent = self.running(["--standalone", "--shutdown-timeout", "1"], 1, ["ignore:TERM"])
        agent.signal(signal.SIGTERM)
        self.assertEqual(agent.code(), 143)
        self.assertRegex(agent.err, r"(?i)rank 0.*(SIGKILL|killed|ignored)")

    def test_grace_is_full_for_each_rank(self):
        agent = self.running(["--standalone", "--nproc_per_node", "4", "--shutdown-timeout", "3"], 4,
                             [f"save:TERM=2000={self.dir}/saved.{{rank}}=0"])
        agent.signal(signal.SIGTERM)
        self.assertEqual(agent.code(), 143)
        for rank in range(4):
            self.assertTrue((self.dir / f"saved.{rank}").exists(), f"rank {rank} was killed before its time")

    def test_helpers_live_while_the_worker_saves(self):
        script = self.dir / "w.sh"
        script.write_text(f"""#!/bin/sh
            sleep 600 & helper=$!
            trap 'kill -0 $helper && touch {self.dir}/saved; exit 0' TERM
            touch {self.dir}/up
            while :; do sleep 600 & wait $!; done\n""")
        script.chmod(0o755)
        agent = self.start(["--standalone", script])
        self.wait_for_files("up")
        agent.signal(signal.SIGTERM)
        self.assertEqual(agent.code(), 143)
        self.assertTrue((self.dir / "saved").exists())

    def test_wrapper_shell_does_not_rob_the_program_of_its_grace(self):
        script = self.dir / "w.sh"
        script.write_text(f"#!/bin/sh\n{self.worker} save:TERM=300={self.dir}/saved=0 touch:{self.dir}/up forever\ntrue\n")
        script.chmod(0o755)
        agent = self.start(["--standalone", script])
        self.wait_for_files("up")
        agent.signal(signal.SIGTERM)
        self.assertEqual(agent.code(), 143)
        self.assertTrue((self.dir / "saved").exists())

    def test_nohup(self):
        """SIGHUP ignored at our start stays ignored, in agent and workers."""
        agent = self.start(
            [harness.CXXRUN, "--standalone", "--nproc_per_node", "2", self.worker, f"env:{self.dir}", f"touch:{self.dir}/up.{{rank}}",
             f"wait:{self.dir}/go"], program="nohup")
        self.wait_for_files("up.0", "up.1")
        agent.signal(signal.SIGHUP)
        for facts in self.worker_files().values():
            harness.kill(facts["pid"], signal.SIGHUP)
        (self.dir / "go").touch()
        self.assertEqual(agent.code(), 0)

    def test_user_signals_are_passed_on(self):
        agent = self.start(["--standalone", "--nproc_per_node", "2", self.worker, f"count:USR1={self.dir}/one.{{rank}}",
                            f"count:USR2={self.dir}/two.{{rank}}", f"touch:{self.dir}/up.{{rank}}", f"wait:{self.dir}/go"])
        self.wait_for_files("up.0", "up.1")
        agent.signal(signal.SIGUSR1)
        agent.signal(signal.SIGUSR2)
        self.wait_for_files("one.0", "one.1", "two.0", "two.1")
        (self.dir / "go").touch()
        self.assertEqual(agent.code(), 0)
        self.assertEqual([self.count(n) for n in ("one.0", "one.1", "two.0", "two.1")], [1, 1, 1, 1])

    def test_two_jobs_do_not_touch_each_other(self):
        one = self.running(["--standalone", "--nproc_per_node", "2"], 2, [])
        other = self.start(["--standalone", "--nproc_per_node", "2", self.worker, f"touch:{self.dir}/other.{{rank}}",
                            f"wait:{self.dir}/go"])
        self.wait_for_files("other.0", "other.1")
        one.signal(signal.SIGTERM)
        self.assertEqual(one.code(), 143)
        (self.dir / "go").touch()
        self.assertEqual(other.code(), 0)

    def test_the_parents_other_children_are_not_touched(self):
        shell = self.start(["-c", f"""sleep 600 & echo $! > {self.dir}/bystander
            {harness.CXXRUN} --standalone {self.worker} exit:4; echo code $?
            kill -0 $(cat {self.dir}/bystander) && echo lives; kill $(cat {self.dir}/bystander)"""], program="sh")
        self.assertEqual(shell.code(), 0)
        self.assertIn("code 4\nlives", shell.out)


    def test_a_stopped_agent_hears_that_it_shall_end(self):
        for name, times in (("TERM", 1), ("INT", 2), ("HUP", 1), ("QUIT", 1)):
            with self.subTest(name):
                for path in self.dir.glob("up.*"):
                    path.unlink()
                agent = self.running(["--standalone", "--nproc_per_node", "2"], 2, [])
                inner = agent.inner()
                harness.kill(inner, signal.SIGSTOP)
                harness.wait_until("the agent is stopped", lambda p=inner: harness.stat(p)[0] == "T")
                for _ in range(times):
                    agent.signal(getattr(signal, f"SIG{name}"))
                self.assertEqual(agent.code(), 128 + getattr(signal, f"SIG{name}"))
                self.assertIn(f"SIG{name} from pid {os.getpid()} (", agent.err)

    def test_a_real_time_signal_stops_nothing(self):
        agent = self.start(["--standalone", self.worker, f"touch:{self.dir}/up", f"wait:{self.dir}/go"])
        self.wait_for_files("up")
        for pid in agent.family():
            for number in (signal.SIGRTMIN, signal.SIGRTMIN + 1, signal.SIGRTMAX):
                harness.kill(pid, number)
        (self.dir / "go").touch()
        self.assertEqual(agent.code(), 0)

    def test_every_stop_names_its_signal_and_sender(self):
        for name, says in (("TERM", "leaves the job"), ("HUP", "leaves the job"), ("INT", "stopping the job"), ("QUIT", "stopping the job")):
            with self.subTest(name):
                for path in self.dir.glob("up.*"):
                    path.unlink()
                agent = self.running(["--standalone"], 1, [])
                agent.signal(getattr(signal, f"SIG{name}"))
                agent.code()
                self.assertRegex(agent.err, rf"cxxrun: SIG{name} from pid {os.getpid()} \(.*python.*\): {'' if 'stopping' in says else 'this node '}{says}")

    def test_what_a_successful_job_waits_for_is_named(self):
        agent = self.start(["--standalone", "--nproc_per_node", "2", self.worker, f"[rank=1]helper:deaf={self.dir}/h", "exit:0"])
        line = agent.wait_for_line(r"all workers here have ended; waiting for .*(\d+) s left, then SIGKILL: rank 1's pid (\d+) \((.*)\)")
        self.assertEqual(line[2], (self.dir / "h").read_text().strip())
        self.assertIn("worker", line[3])
        harness.kill(int(line[2]))
        self.assertEqual(agent.code(), 0)


class Output(Base):
    """Our own stdout is gone or full."""

    def shell(self, script):
        return self.start(["-c", script], program="bash")

    def test_a_reader_that_has_gone_ends_the_pipeline(self):
        """As `yes | head -1` does: the workers get SIGPIPE."""
        for count in (1, 2):
            with self.subTest(count):
                shell = self.shell(f"{harness.CXXRUN} --standalone --nproc_per_node {count} yes | head -1; echo code ${{PIPESTATUS[0]}}")
                self.assertEqual(shell.code(), 0)
                self.assertIn("code 141", shell.out)
                self.assertRegex(shell.err, r"\A(cxxrun: OMP_NUM_THREADS=.*\n)?cxxrun: rank \d was ended by SIGPIPE: nobody reads our stdout any more.*\Z")
                self.assert_nothing_left()

    def test_a_full_disk_is_said_once_and_stops_nobody(self):
        shell = self.shell(f"{harness.CXXRUN} --standalone --nproc_per_node 2 {self.worker} lines:500 touch:{self.dir}/w.{{rank}} "
                           f"barrier:b lines:500 > /dev/full; echo code $?")
        self.assertEqual(shell.code(), 0)
        self.assertIn("code 0", shell.out)
        self.assertEqual(shell.err.count("cannot write to stdout: No space left on device"), 1, shell.err)

    def test_help_that_cannot_be_written(self):
        for option in ("--help", "-h", "--version"):
            with self.subTest(option):
                shell = self.shell(f"{harness.CXXRUN} {option} > /dev/full; echo code $?")
                self.assertEqual(shell.code(), 0)
                self.assertIn("code 1", shell.out)
                self.assertEqual(shell.err, "cxxrun: cannot write to stdout: No space left on device")


class Limits(Base):
    def test_few_descriptors(self):
        """Whatever the limit: a sentence with the way out, or it works. Never an assertion, never something left."""
        # The sanitizer's own look at an object needs two free descriptors, and ends the program where it has none.
        fewest = 16 if harness.SANITIZED else 4
        for limit in (n for n in (4, 5, 6, 7, 8, 10, 12, 16, 20, 24, 28, 32, 40, 48, 64, 100) if n >= fewest):
            with self.subTest(limit):
                shell = self.start(["-c", f"ulimit -n {limit}; exec {harness.CXXRUN} --standalone --nproc_per_node 4 {self.worker} exit:0"],
                                   program="sh")
                self.assertIn(shell.code(), (0, 70), shell.err)
                self.assertNotRegex(shell.err, "Assert|internal error|terminate")
                if shell.code():
                    self.assertRegex(shell.err, rf"cannot start.*ulimit -n`, {limit} now")
                self.assert_nothing_left()
        self.assertEqual(shell.code(), 0, "100 are enough for 4 workers")

    def test_the_agent_uses_the_hard_limit_and_workers_keep_the_soft_one(self):
        shell = self.start(["-c", f"ulimit -Sn 50; exec {harness.CXXRUN} --standalone --nproc_per_node 40 sh -c 'ulimit -Sn; ulimit -Hn'"],
                           program="sh")
        self.assertEqual(shell.code(), 0, shell.err)
        self.assertEqual(sorted({line.split(": ")[1] for line in shell.out.splitlines()}, key=int)[0], "50")
        self.assertEqual(len(shell.out.splitlines()), 80)


class CannotDie(Base):
    def test_a_process_that_sigkill_does_not_end(self):
        """It writes to a frozen file system: state D. Named with its pid and rank, and this node leaves with 71."""
        image, mount = self.dir / "image", self.dir / "mount"
        mount.mkdir()
        with open(image, "wb") as file:
            file.truncate(8 << 20)
        harness.sh("mkfs.ext4", "-q", image)
        if subprocess.run(["mount", "-o", "loop", image, mount], check=False, capture_output=True).returncode != 0:
            self.skipTest("no loop device may be mounted here")
        try:
            agent = self.start(["--standalone", "--nproc_per_node", "2", "--shutdown-timeout", "1", "sh", "-c",
                                f"touch {self.dir}/up.$RANK; while ! [ -e {self.dir}/frozen ]; do sleep 0.01; done; "
                                f"[ $RANK = 0 ] && exec sleep 600; echo $$ > {self.dir}/pid; exec touch {mount}/file"])
            self.wait_for_files("up.0", "up.1")
            harness.sh("fsfreeze", "-f", mount)
            try:
                (self.dir / "frozen").touch()
                self.wait_for_files("pid")
                pid = harness.wait_until("its pid", lambda: int((self.dir / "pid").read_text() or 0))
                harness.wait_until("it is in state D", lambda: harness.stat(pid)[0] == "D")
                agent.signal(signal.SIGTERM)
                self.assertEqual(agent.code(60), 71)
                self.assertRegex(agent.err, rf"process {pid} \(.*\) of rank 1 does not end on SIGKILL")
            finally:
                harness.sh("fsfreeze", "-u", mount)
            harness.wait_for_end(pid)
        finally:
            harness.sh("umount", mount)


class Terminal(Base):
    def test_ctrl_c_reaches_each_worker_once(self):
        agent = self.running(["--standalone", "--nproc_per_node", "3", "--shutdown-timeout", "300"], 3,
                             [f"count:INT={self.dir}/heard.{{rank}}", "ignore:TERM"], tty=True)
        agent.type(b"\x03")
        self.wait_for_files("heard.0", "heard.1", "heard.2")
        agent.type(b"\x03")
        self.assertEqual(agent.code(), 130)
        self.assertEqual([self.count(f"heard.{rank}") for rank in range(3)], [1, 1, 1])

    def test_ctrl_z_and_back(self):
        agent = self.start(
            ["-c", f"set -m; {harness.CXXRUN} --standalone --nproc_per_node 2 {self.worker} env:{self.dir} "
             f"'touch:{self.dir}/up.{{rank}}' wait:{self.dir}/go; echo stopped $?; fg; echo ended $?"],
            program="sh", tty=True)
        self.wait_for_files("up.0", "up.1")
        workers = [facts["pid"] for facts in self.worker_files().values()]
        agent.type(b"\x1a")
        agent.wait_for_line(r"stopped \d+")
        for pid in workers:
            harness.wait_until("worker goes on after fg", lambda p=pid: harness.stat(p)[0] != "T")
        (self.dir / "go").touch()
        agent.wait_for_line("ended 0")
        self.assertEqual(agent.code(), 0)

    def test_one_worker_has_the_terminal(self):
        agent = self.start(["--standalone", self.worker, f"env:{self.dir}", f"stdin:{self.dir}/typed"], tty=True)
        harness.wait_until("worker starts", self.worker_files)
        agent.type(b"hello\n")
        self.assertEqual(agent.code(), 0)
        self.assertEqual((self.dir / "typed").read_text(), "hello\n")
        self.assertEqual(self.worker_files()[0, 0]["tty"], [True, True, True])


class Nodes(Base):
    def two(self, steps=(), more=()):
        nodes = self.nodes(2)
        agents = self.run_all([*J2, *more, self.worker, f"env:{self.dir}", *steps, "barrier:b", f"touch:{self.dir}/up.{{rank}}", "forever"],
                              nodes)
        self.wait_for_files("up.0", "up.1")
        return agents

    def test_a_person_stops_the_job(self):
        """SIGINT to one agent, host of the rendezvous or not, ends all with 130."""
        for victim in (0, 1):
            with self.subTest(victim):
                for path in self.dir.glob("up.*"):
                    path.unlink()
                if not self._nodes:
                    agents = self.two()
                else:
                    agents = self.run_all([*J2, self.worker, "barrier:b", f"touch:{self.dir}/up.{{rank}}", "forever"], self._nodes)
                    self.wait_for_files("up.0", "up.1")
                agents[victim].signal(signal.SIGINT)
                self.assert_codes(agents, 130)

    def test_a_node_leaves_and_none_replaces_it(self):
        agents = self.two(more=["--rdzv-conf", "rejoin_timeout=1"])
        agents[1].signal(signal.SIGTERM)
        self.assertEqual(agents[1].code(), 143)
        self.assertEqual(agents[0].code(), 75)

    def test_a_node_leaves_and_the_others_go_on(self):
        """Above the minimum a polite leave ends nothing and spends no restart."""
        ha, hb = self.nodes(2)
        args = ["--nnodes", "1:2", "--rdzv-endpoint", "10.77.0.1:29501", "--rdzv-conf", "last_call_timeout=20", "--max-restarts", "0",
                self.worker, f"env:{self.dir}", f"touch:{self.dir}/up.{{round}}.{{rank}}", "[round=0]forever"]
        agents = self.run_all(args, (ha, hb))
        self.wait_for_files("up.0.0", "up.0.1")
        agents[1].signal(signal.SIGTERM)
        self.assertEqual(agents[1].code(), 143)
        self.assertEqual(agents[0].code(), 0)
        env = self.worker_files()[1, 0]["env"]
        self.assertEqual((env["WORLD_SIZE"], env["TORCHELASTIC_RESTART_COUNT"]), ("1", "0"))

    def test_replacement_in_time(self):
        ha, hb = self.nodes(2)
        args = [*J2, self.worker, f"touch:{self.dir}/up.{{round}}.{{rank}}", "[round=0]forever"]
        agents = self.run_all(args, (ha, hb))
        self.wait_for_files("up.0.0", "up.0.1")
        agents[1].signal(signal.SIGTERM)
        self.assertEqual(agents[1].code(), 143)
        agents[0].wait_for_line("1 of 2|waiting for 1")
        again = self.start(args, on=hb)
        self.assert_codes([agents[0], again], 0)


class LeftOver(Base):
    """Every kind of helper, every kind of end."""

    def test_after_success_and_failure(self):
        for step, code in (("exit:0", 0), ("exit:7", 7), ("raise:KILL", 137)):
            for kind in HELPERS:
                with self.subTest(end=step, helper=kind):
                    agent = self.start(["--standalone", "--nproc_per_node", "2", "--shutdown-timeout", "1", self.worker,
                                        f"helper:{kind}={self.dir}/h.{{pid}}", step])
                    self.assertEqual(agent.code(), code)
                    self.assert_nothing_left()

    def test_after_sigterm(self):
        for kind in HELPERS:
            with self.subTest(helper=kind):
                for path in self.dir.glob("up.*"):
                    path.unlink()
                agent = self.running(["--standalone", "--nproc_per_node", "2", "--shutdown-timeout", "1"], 2,
                                     [f"helper:{kind}={self.dir}/h.{{pid}}"])
                agent.signal(signal.SIGTERM)
                self.assertEqual(agent.code(), 143)
                self.assert_nothing_left()

    def after_sigkill(self, victims, kinds=HELPERS):
        for kind in kinds:
            with self.subTest(helper=kind):
                for path in self.dir.glob("up.*"):
                    path.unlink()
                agent = self.running(["--standalone", "--nproc_per_node", "2", "--shutdown-timeout", "1"], 2,
                                     ["ignore:TERM", f"helper:{kind}={self.dir}/h.{{pid}}"], start_new_session=True)
                for pid in victims(agent):
                    harness.kill(pid)
                self.assertEqual(agent.code(), 137)
                self.assert_nothing_left()

    def test_after_sigkill_of_the_pid_that_the_user_knows(self):
        self.after_sigkill(lambda agent: [agent.pid])

    def test_after_sigkill_of_the_agent_proper(self):
        self.after_sigkill(lambda agent: [agent.inner()])

    def test_after_sigkill_of_the_inner_guardian(self):
        self.after_sigkill(lambda agent: [agent.family()[1]])

    def test_after_sigkill_of_any_two_by_separate_signals(self):
        for first, second in ((0, 1), (0, 2), (1, 0), (1, 2), (2, 0), (2, 1)):
            with self.subTest(first=first, second=second):
                self.after_sigkill(lambda agent, a=first, b=second: [agent.family()[i] for i in (a, b)], kinds=("session", "bare"))

    def test_after_sigkill_of_all_that_are_named_cxxrun(self):
        """As `pkill -9 cxxrun` and `killall -9 cxxrun` do."""
        self.after_sigkill(lambda agent: [p for p in harness.pids() if harness.comm(p) == "cxxrun"])

    def test_after_sigkill_of_all_three_by_separate_signals(self):
        """The workers go. (Helpers in sessions of their own may stay: docs/adr/0002.)"""
        agent = self.running(["--standalone", "--nproc_per_node", "2"], 2, ["ignore:TERM"])
        for pid in agent.family():
            harness.kill(pid)
        self.assertEqual(agent.code(), 137)
        self.assert_nothing_left()

    def test_a_stopped_agent_does_not_outlive_its_guardian(self):
        for stopped in ((2,), (1,), (1, 2)):
            with self.subTest(stopped=stopped):
                def stop_then_name_the_outer(agent, who=stopped):
                    family = agent.family()
                    for index in who:
                        harness.kill(family[index], signal.SIGSTOP)
                        harness.wait_until("it is stopped", lambda i=index: harness.stat(family[i])[0] == "T")
                    return family[:1]
                self.after_sigkill(stop_then_name_the_outer, kinds=("session",))

    def test_a_stopped_guardian_does_not_keep_a_dead_agents_helpers(self):
        agent = self.running(["--standalone", "--nproc_per_node", "2"], 2, [f"helper:deaf={self.dir}/h.{{rank}}"])
        family = agent.family()
        helpers = [int((self.dir / f"h.{rank}").read_text()) for rank in range(2)]
        harness.kill(family[0], signal.SIGSTOP)
        harness.kill(family[2])
        for pid in helpers:
            harness.wait_for_end(pid)
        harness.kill(family[0], signal.SIGCONT)
        self.assertEqual(agent.code(), 137)

    def test_after_sigkill_of_the_group(self):
        def group(agent):
            os.killpg(agent.pid, signal.SIGKILL)
            return []
        self.after_sigkill(group)

    def test_killed_at_any_moment(self):
        """50 runs: SIGKILL to what the user knows, or to the agent proper, within the first moments."""
        seed = random.randrange(1 << 30)
        dice = random.Random(seed)
        for run in range(50):
            with self.subTest(run=run, seed=seed):
                agent = self.start(["--standalone", "--nproc_per_node", "2", self.worker, f"helper:session={self.dir}/h.{{pid}}",
                                    "ignore:TERM", "forever"])
                end = time.monotonic() + dice.random() * 0.05 * harness.SLOW
                while time.monotonic() < end:
                    pass
                family = [agent.pid, *harness.children(agent.pid)]
                family += harness.children(family[-1]) if len(family) > 1 else []
                harness.kill(dice.choice(family[:3]))
                self.assertEqual(agent.code(), 137)
                self.assert_nothing_left()

    def test_interrupted_at_any_moment(self):
        seed = random.randrange(1 << 30)
        dice = random.Random(seed)
        for run in range(30):
            with self.subTest(run=run, seed=seed):
                agent = self.start(["--standalone", "--nproc_per_node", "2", self.worker, f"helper:session={self.dir}/h.{{pid}}",
                                    "forever"])
                end = time.monotonic() + dice.random() * 0.06 * harness.SLOW
                while time.monotonic() < end:
                    pass
                agent.signal(signal.SIGINT)
                self.assertEqual(agent.code(), 130)
                self.assertNotRegex(agent.err, "internal error|terminate called|Assertion")
                self.assert_nothing_left()

    def test_a_restart_waits_until_the_old_helpers_are_gone(self):
        script = self.dir / "w.sh"
        script.write_text(f"""#!/bin/sh
            if [ "$TORCHELASTIC_RESTART_COUNT" = 1 ]; then kill -0 $(cat {self.dir}/h) 2>/dev/null && exit 55; exit 0; fi
            exec {self.worker} helper:deaf={self.dir}/h exit:3\n""")
        script.chmod(0o755)
        agent = self.start(["--standalone", "--max-restarts", "1", "--shutdown-timeout", "1", script])
        self.assertEqual(agent.code(), 0)

    def test_an_orphan_that_holds_the_output_does_not_hold_us(self):
        """Two workers, so that stdout is a pipe of ours; the orphan is swept or left to itself, we end."""
        agent = self.start(["--standalone", "--nproc_per_node", "2", "--shutdown-timeout", "1", self.worker, "print:before",
                            f"helper:hold={self.dir}/h.{{pid}}", "exit:0"])
        self.assertEqual(agent.code(10), 0)
        self.assertEqual(agent.out.count("before"), 2)


if __name__ == "__main__":
    harness.main()
