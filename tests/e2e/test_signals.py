# SPDX-License-Identifier: Apache-2.0
"""--signals-to-handle, and a stop in every phase of a job. What a stop does to workers: test_stop.py."""
import signal

import harness


class Base(harness.Case):
    def count(self, name):
        path = self.dir / name
        return len(path.read_text().splitlines()) if path.exists() else 0

    def up(self, args, steps, workers=2):
        agent = self.start([*args, "--nproc_per_node", str(workers), self.worker, f"env:{self.dir}", *steps, f"touch:{self.dir}/up.{{rank}}",
                            "forever"])
        self.wait_for_files(*(f"up.{rank}" for rank in range(workers)))
        return agent

    def forget(self):
        for path in self.dir.iterdir():
            if path.is_file():
                path.unlink()


class Handled(Base):
    LIST = "--signals-to-handle=SIGTERM,SIGUSR1,SIGUSR2"

    def test_torchrun_29_the_variable(self):
        for given, want in (([self.LIST], "SIGTERM,SIGUSR1,SIGUSR2"), ([], "SIGTERM,SIGINT,SIGHUP,SIGQUIT")):
            with self.subTest(given):
                agent = self.start(["--standalone", *given, "--nproc_per_node", "2", self.worker, f"env:{self.dir}"])
                self.assertEqual(agent.code(), 0)
                for facts in self.worker_files().values():
                    self.assertEqual(facts["env"]["TORCHELASTIC_SIGNALS_TO_HANDLE"], want)

    def test_torchrun_30_a_listed_signal_reaches_the_workers_and_stops_the_job(self):
        for name in ("USR1", "USR2"):
            with self.subTest(name):
                self.forget()
                agent = self.up(["--standalone", self.LIST], [f"save:{name}=20={self.dir}/saved.{{rank}}=0"])
                number = getattr(signal, f"SIG{name}")
                agent.signal(number)
                self.assertEqual(agent.code(), 128 + number)
                self.assertEqual((self.count("saved.0"), self.count("saved.1")), (1, 1))
                self.assertRegex(agent.err, rf"SIG{name} from pid \d+ .*: this node leaves the job")

    def test_a_listed_signal_ends_a_stubborn_worker_too(self):
        agent = self.up(["--standalone", self.LIST, "--shutdown-timeout", "1"], [f"count:USR1={self.dir}/heard.{{rank}}", "ignore:TERM"])
        agent.signal(signal.SIGUSR1)
        agent.signal(signal.SIGUSR1)
        self.assertEqual(agent.code(), 128 + signal.SIGUSR1)
        self.assertEqual(self.count("heard.0"), 1, "schedulers repeat signals: the first one counts")

    def test_an_unlisted_stop_signal_has_its_default_action(self):
        """As with torchrun: no handler, so no grace; and nothing of the job is left."""
        for name in ("INT", "HUP", "QUIT", "TERM"):
            with self.subTest(name):
                self.forget()
                agent = self.up(["--standalone", "--signals-to-handle=SIGUSR1"],
                                [f"save:{name}=0={self.dir}/saved.{{rank}}=0", f"helper:deaf={self.dir}/h.{{rank}}"])
                agent.signal(getattr(signal, f"SIG{name}"))
                self.assertEqual(agent.code(), 128 + getattr(signal, f"SIG{name}"))
                self.assertFalse(list(self.dir.glob("saved.*")))
                self.assertIn("not in --signals-to-handle", agent.err)
                self.assert_nothing_left()

    def test_a_stopped_agent_hears_a_listed_signal(self):
        agent = self.up(["--standalone", self.LIST], [])
        inner = agent.inner()
        harness.kill(inner, signal.SIGSTOP)
        harness.wait_until("the agent is stopped", lambda: harness.stat(inner)[0] == "T")
        agent.signal(signal.SIGUSR2)
        self.assertEqual(agent.code(), 128 + signal.SIGUSR2)

    def test_a_worker_that_ends_by_a_signal_that_was_passed_on_has_failed(self):
        """Without a handler for it: the job ends with a report, it does not wait for ever."""
        agent = self.up(["--standalone"], ["[rank=0]ignore:USR1"])
        agent.signal(signal.SIGUSR1)
        self.assertEqual(agent.code(), 128 + signal.SIGUSR1)
        self.assertRegex(agent.err, r"the job failed: rank 1 .* signal 10 \(SIGUSR1\)")

    def test_a_worker_that_fails_after_a_signal_that_was_passed_on(self):
        agent = self.start(["--standalone", "--nproc_per_node", "2", self.worker, f"count:USR1={self.dir}/heard.{{rank}}",
                            f"touch:{self.dir}/up.{{rank}}", "[rank=0]forever", f"wait:{self.dir}/go", "exit:7"])
        self.wait_for_files("up.0", "up.1")
        agent.signal(signal.SIGUSR1)
        self.wait_for_files("heard.0", "heard.1")
        (self.dir / "go").touch()
        self.assertEqual(agent.code(), 7)

    def test_bad_lists(self):
        for text in ("SIGKILL", "SIGTERM,SIGSTOP", "SIGCHLD", "SIGCONT", "SIGABRT"):
            with self.subTest(text):
                agent = self.start(["--standalone", f"--signals-to-handle={text}", "true"])
                self.assertEqual(agent.code(), 2)
                self.assertIn("cannot be handled", agent.err)

    def test_nohup_beats_the_list(self):
        agent = self.start([harness.CXXRUN, "--standalone", "--signals-to-handle=SIGHUP,SIGTERM", self.worker, f"touch:{self.dir}/up",
                            f"wait:{self.dir}/go"], program="nohup")
        self.wait_for_files("up")
        agent.signal(signal.SIGHUP)
        (self.dir / "go").touch()
        self.assertEqual(agent.code(), 0)


class Phases(Base):
    """SIGTERM and SIGINT, once and repeated, in every phase: the exit code, a bounded time, nothing left."""

    STOPS = [("TERM", 1), ("TERM", 3), ("INT", 1), ("INT", 2)]

    def in_phase(self, begin):
        for name, times in self.STOPS:
            with self.subTest(signal=name, times=times):
                self.forget()
                agent = begin()
                for _ in range(times):
                    agent.signal(getattr(signal, f"SIG{name}"))
                self.assertEqual(agent.code(), 128 + getattr(signal, f"SIG{name}"))
                self.assertNotRegex(agent.err, "internal error|terminate called|Assert")
                self.assert_nothing_left()

    def test_joining_where_nobody_answers(self):
        def begin():
            agent = self.start(["--nnodes", "2", "--rdzv-endpoint", "127.0.0.1:29501", "--rdzv-conf", "is_host=0", self.worker, "forever"])
            agent.wait_for_line("127.0.0.1:29501")
            return agent
        self.in_phase(begin)

    def test_joining_as_host(self):
        def begin():
            agent = self.start(["--nnodes", "2", "--rdzv-endpoint", "127.0.0.1:29501", self.worker, "forever"])
            agent.wait_for_line("waiting for 1")
            return agent
        self.in_phase(begin)

    def test_running(self):
        self.in_phase(lambda: self.up(["--standalone"], [f"helper:session={self.dir}/h.{{rank}}"]))

    def test_running_stubborn(self):
        self.in_phase(lambda: self.up(["--standalone", "--shutdown-timeout", "1"], ["ignore:TERM", "ignore:INT"]))

    def test_torchrun_49_stubborn_worker(self):
        agent = self.up(["--standalone", "--shutdown-timeout=2"], ["ignore:TERM"])
        agent.signal(signal.SIGTERM)
        self.assertEqual(agent.code(), 143)
        self.assertIn("SIGKILL", agent.err)

    def test_torchrun_50_grandchildren(self):
        agent = self.start(["--standalone", "sh", "-c", f"sleep 600 & echo $! > {self.dir}/pid; touch {self.dir}/up; wait"])
        self.wait_for_files("up")
        agent.signal(signal.SIGTERM)
        self.assertEqual(agent.code(), 143)
        self.assertFalse(harness.alive(int((self.dir / "pid").read_text())))

    def test_stopping_after_a_failure(self):
        """Rank 1 has failed, rank 0 takes its time: the job is stopped meanwhile."""
        def begin():
            agent = self.start(["--standalone", "--nproc_per_node", "2", "--shutdown-timeout", "2", "--max-restarts", "1", self.worker,
                                f"[rank=0]count:TERM={self.dir}/heard", f"touch:{self.dir}/up.{{rank}}", "[rank=0]forever",
                                f"wait:{self.dir}/up.0", "exit:7"])
            self.wait_for_files("heard")
            return agent
        self.in_phase(begin)

    def test_between_rounds(self):
        """A helper of the failed round that does not end keeps the next one waiting."""
        def begin():
            agent = self.start(["--standalone", "--shutdown-timeout", "2", "--max-restarts", "1", self.worker, f"helper:deaf={self.dir}/h",
                                "exit:7"])
            self.wait_for_files("h")
            pid = int((self.dir / "h").read_text())
            harness.wait_until("the worker has ended", lambda: len(harness.descendants(agent.inner())) == 1)
            self.assertTrue(harness.alive(pid))
            return agent
        self.in_phase(begin)

    def test_done_here_while_the_job_is_swept(self):
        def begin():
            agent = self.start(["--standalone", "--shutdown-timeout", "3", self.worker, f"helper:deaf={self.dir}/h", "exit:0"])
            agent.wait_for_line("all workers here have ended")
            return agent
        self.in_phase(begin)

    def test_torchrun_32_a_stop_does_not_close_the_rendezvous(self):
        ha, hb = self.nodes(2)
        args = ["--nnodes", "1:2", "--rdzv-endpoint", "10.77.0.1:29501", "--rdzv-conf", "last_call_timeout=20", self.worker,
                f"touch:{self.dir}/up.{{round}}.{{rank}}", "[round=0]forever"]
        agents = self.run_all(args, (ha, hb))
        self.wait_for_files("up.0.0", "up.0.1")
        agents[1].signal(signal.SIGHUP)
        self.assertEqual(agents[1].code(), 129)
        self.assertEqual(agents[0].code(), 0)


if __name__ == "__main__":
    harness.main()
