# SPDX-License-Identifier: Apache-2.0
"""An agent or a whole node is lost: the others act, at once where the connection tells, in time where it is silent."""
import random
import signal
import time

import harness

QUICK = "rejoin_timeout=1,keep_alive_interval=1,keep_alive_max_attempt=3,last_call_timeout=20"
ENDPOINT = ["--rdzv_backend", "c10d", "--rdzv-endpoint", "10.77.0.1:29501", "--rdzv-id", "t"]


class Loss(harness.Case):
    def job(self, nnodes, nodes, *more, conf=QUICK):
        """Workers live for ever in round 0 and end with 0 later. Returns when all of round 0 are up."""
        self.args = ["--nnodes", nnodes, *ENDPOINT, "--rdzv-conf", conf, *more, self.worker, f"env:{self.dir}", "barrier:b",
                     f"touch:{self.dir}/up.{{round}}.{{rank}}", "[round=0]forever"]
        agents = self.run_all(self.args, nodes)
        self.wait_for_files(*(f"up.0.{rank}" for rank in range(len(nodes))))
        return agents

    def rounds(self):
        return {key: (facts["env"]["WORLD_SIZE"], facts["env"]["TORCHELASTIC_RESTART_COUNT"]) for key, facts in self.worker_files().items()}

    def no_worker_on(self, node, seconds=20):
        harness.wait_until(f"no process on {node.name}: {[harness.describe(p) for p in node.processes()]}",
                           lambda: not node.processes(), seconds)

    def test_guest_killed_the_others_go_on(self):
        """A1, A4: below MAX and above MIN: re-form without it, spend nothing; nothing of it is left on its node."""
        for victim in ("agent", "node"):
            with self.subTest(victim):
                for path in (*self.dir.glob("env.*"), *self.dir.glob("up.*")):
                    path.unlink()
                ha, hb = self._nodes or self.nodes(2)
                agents = self.job("1:2", (ha, hb), "--max-restarts", "0")
                if victim == "node":
                    hb.kill_all()
                else:
                    harness.kill(agents[1].pid)
                self.no_worker_on(hb, 5)
                self.assertEqual(agents[1].code(), 137)
                self.assertEqual(agents[0].code(), 0)
                self.assertEqual(self.rounds()[1, 0], ("1", "0"))

    def test_guest_killed_and_not_replaced(self):
        """Too few are left: the survivor stops its workers, waits for rejoin_timeout, says so, and leaves with 75."""
        ha, hb = self.nodes(2)
        agents = self.job("2", (ha, hb))
        harness.kill(agents[1].pid)
        agents[0].wait_for_line("1 of 2|waiting for 1")
        self.assertEqual(agents[0].code(), 75)
        self.assertIn("hb", agents[0].err)

    def test_host_killed(self):
        """A8: the agent that hosts the rendezvous dies: the other stops its workers and leaves in time."""
        for victim in ("agent", "node"):
            with self.subTest(victim):
                for path in (*self.dir.glob("env.*"), *self.dir.glob("up.*")):
                    path.unlink()
                ha, hb = self._nodes or self.nodes(2)
                agents = self.job("2", (ha, hb))
                if victim == "node":
                    ha.kill_all()
                else:
                    harness.kill(agents[0].pid)
                self.no_worker_on(ha, 5)
                self.assertEqual(agents[1].code(), 75)

    def test_host_killed_by_its_inner_process(self):
        ha, hb = self.nodes(2)
        agents = self.job("2", (ha, hb))
        harness.kill(agents[0].inner())
        self.assertEqual(agents[0].code(), 137)
        self.assertEqual(agents[1].code(), 75)

    def test_replacement_of_a_guest(self):
        """A11: a fresh agent with the same host name; the survivor's agent stays, ranks stay."""
        ha, hb = self.nodes(2)
        agents = self.job("2", (ha, hb), "--max-restarts", "3", conf="rejoin_timeout=60")
        hb.kill_all()
        agents[0].wait_for_line("1 of 2|waiting for 1")
        again = self.start(self.args, on=hb)
        self.assert_codes([agents[0], again], 0)
        self.assertEqual(self.worker_files()[1, 0]["host"], "ha")
        self.assertEqual(self.rounds()[1, 1], ("2", "0"))

    def test_replacement_of_the_host(self):
        ha, hb = self.nodes(2)
        agents = self.job("2", (ha, hb), conf="rejoin_timeout=60")
        ha.kill_all()
        harness.wait_until("worker on hb is stopped", lambda: not harness.alive(self.worker_files()[0, 1]["pid"]))
        again = self.start(self.args, on=ha)
        self.assert_codes([agents[1], again], 0)

    def test_silent_loss_of_a_guest(self):
        """The link goes: noticed within the keep-alive limit on both sides; no restart is spent."""
        ha, hb = self.nodes(2)
        agents = self.job("1:2", (ha, hb), "--max-restarts", "0")
        hb.link(False)
        self.assertEqual(agents[0].code(40), 0)
        self.assertEqual(self.rounds()[1, 0], ("1", "0"))
        worker = self.worker_files()[0, 1]["pid"]
        harness.wait_until("the lost node stops its worker itself", lambda: not harness.alive(worker), 20)
        self.assertEqual(agents[1].code(40), 75)

    def test_silent_loss_in_one_direction(self):
        for deaf in (0, 1):
            with self.subTest(deaf=deaf):
                for path in (*self.dir.glob("env.*"), *self.dir.glob("up.*")):
                    path.unlink()
                nodes = self._nodes or self.nodes(2)
                agents = self.job("2", nodes)
                nodes[deaf].drop_from(nodes[1 - deaf])
                self.assert_codes(agents, 75, 60)
                nodes[deaf].heal()

    def test_newcomer_below_the_maximum(self):
        """A7: it joins with one change of rounds; nobody leaves."""
        ha, hb = self.nodes(2)
        args = ["--nnodes", "1:2", *ENDPOINT, "--rdzv-conf", "last_call_timeout=1", self.worker, f"env:{self.dir}",
                f"touch:{self.dir}/up.{{round}}.{{rank}}", "[round=0]forever"]
        first = self.start(args, on=ha)
        self.wait_for_files("up.0.0")
        second = self.start(args, on=hb)
        self.assert_codes([first, second], 0)
        self.assertEqual(self.rounds(), {(0, 0): ("1", "0"), (1, 0): ("2", "0"), (1, 1): ("2", "0")})

    def leaving_job(self, nodes, leaver, nnodes, conf=QUICK):
        """Round 0: the worker on `leaver` hears SIGTERM and lasts until the file `go` is there; the other's ends by it."""
        args = ["--nnodes", nnodes, *ENDPOINT, "--rdzv-conf", conf, "--shutdown-timeout", "300", self.worker, f"env:{self.dir}",
                "barrier:b", f"[round=0,host={leaver}]count:TERM={self.dir}/heard", f"touch:{self.dir}/up.{{round}}.{{rank}}",
                f"[round=0,host={leaver}]wait:{self.dir}/go", f"[round=0,host!={leaver}]forever"]
        agents = self.run_all(args, nodes)
        self.wait_for_files("up.0.0", "up.0.1")
        return agents, {facts["host"]: facts["pid"] for facts in self.worker_files().values()}

    def test_leave_is_told_at_once(self):
        """SIGTERM to one agent: the others stop at once, not when its workers have used their grace up."""
        nodes = self.nodes(2)
        agents, workers = self.leaving_job(nodes, "hb", "1:2")
        agents[1].signal(signal.SIGTERM)
        agents[0].wait_for_line(r"hb .*leaves: SIGTERM")
        harness.wait_until("worker on ha is stopped", lambda: not harness.alive(workers["ha"]))
        self.wait_for_files("heard")
        self.assertTrue(harness.alive(workers["hb"]))
        agents[0].wait_for_line("waiting for the workers to end on hb")
        self.assertFalse((self.dir / "up.1.0").exists(), "a new round beside a worker of the old one")
        (self.dir / "go").touch()
        self.assertEqual(agents[1].code(), 143)
        self.assertEqual(agents[0].code(), 0)
        self.assertEqual(self.rounds()[1, 0], ("1", "0"))

    def test_leave_of_the_host_is_told_at_once(self):
        nodes = self.nodes(2)
        agents, workers = self.leaving_job(nodes, "ha", "2")
        agents[0].signal(signal.SIGTERM)
        agents[1].wait_for_line(r"ha .*leaves: SIGTERM; it hosts the rendezvous")
        harness.wait_until("worker on hb is stopped", lambda: not harness.alive(workers["hb"]))
        self.assertTrue(harness.alive(workers["ha"]))
        (self.dir / "go").touch()
        self.assertEqual(agents[0].code(), 143)
        self.assertEqual(agents[1].code(), 75)

    def test_suspended_node_is_no_lost_node(self):
        """Ctrl-Z at one node: its workers sleep, the others hear why, nobody is lost; fg goes on."""
        nodes = self.nodes(2)
        agents = self.run_all(["--nnodes", "1:2", *ENDPOINT, "--rdzv-conf", "keep_alive_interval=0.2,keep_alive_max_attempt=3", self.worker,
                               f"env:{self.dir}", "barrier:b", f"touch:{self.dir}/up.{{rank}}", f"wait:{self.dir}/go"], nodes)
        self.wait_for_files("up.0", "up.1")
        worker = self.worker_files()[0, 1]["pid"]
        agents[1].signal(signal.SIGTSTP)
        agents[0].wait_for_line(r"hb \(10\.77\.0\.2\) is suspended")
        for what, pid in (("its worker", worker), ("what the shell sees", agents[1].pid)):
            harness.wait_until(f"{what} is stopped", lambda pid=pid: harness.stat(pid)[0] == "T")
        end = time.monotonic() + 3 * 0.6
        harness.wait_until("three times the limit of silence", lambda: time.monotonic() > end)
        self.assertEqual(harness.stat(worker)[0], "T")
        agents[1].signal(signal.SIGCONT)
        agents[0].wait_for_line(r"hb \(10\.77\.0\.2\) goes on")
        (self.dir / "go").touch()
        self.assert_codes(agents, 0)
        self.assertEqual(self.rounds(), {(0, 0): ("2", "0"), (0, 1): ("2", "0")})

    def test_failure_elsewhere_ends_a_suspended_node(self):
        nodes = self.nodes(2)
        agents = self.run_all(["--nnodes", "2", *ENDPOINT, self.worker, f"env:{self.dir}", "barrier:b", f"touch:{self.dir}/up.{{rank}}",
                               f"[rank=0]wait:{self.dir}/go", "[rank=0]exit:3", "forever"], nodes)
        self.wait_for_files("up.0", "up.1")
        worker = self.worker_files()[0, 1]["pid"]
        agents[1].signal(signal.SIGTSTP)
        harness.wait_until("its worker is stopped", lambda: harness.stat(worker)[0] == "T")
        (self.dir / "go").touch()
        self.assertEqual(agents[0].code(), 3)
        harness.wait_until("the sleeping worker is gone", lambda: not harness.alive(worker))
        agents[1].signal(signal.SIGCONT)  # fg: the shell gets its end
        self.assertEqual(agents[1].code(), 3)

    def test_second_job_with_the_same_id(self):
        """Two jobs that somebody started with default ids at one endpoint: the second is warned, and told that it ran nothing."""
        ha, hb, hc = self.nodes(3)
        args = ["--nnodes", "2", "--rdzv-endpoint", "10.77.0.1:29501", self.worker, f"env:{self.dir}", f"touch:{self.dir}/up.{{rank}}",
                f"wait:{self.dir}/go"]
        agents = self.run_all(args, (ha, hb))
        self.wait_for_files("up.0", "up.1")
        second = self.run_all(args, (hc, hb))
        for agent in second:
            line = agent.wait_for_line("spare of run id 'none'.*").string
            self.assertRegex(line, r"complete at ha \(10\.77\.0\.1\).*--rdzv-id")
        agents[0].wait_for_line(r"hc \(10\.77\.0\.3\) waits as a spare")
        (self.dir / "go").touch()
        self.assert_codes([*agents, *second], 0)
        for agent in second:
            self.assertRegex(agent.err, "ran no worker")

    def test_spare(self):
        """A15: one agent more than the maximum waits, disturbs nobody, and leaves with 0."""
        ha, hb, hc = self.nodes(3)
        args = ["--nnodes", "2", *ENDPOINT, self.worker, f"env:{self.dir}", f"touch:{self.dir}/up.{{rank}}", f"wait:{self.dir}/go"]
        agents = self.run_all(args, (ha, hb))
        self.wait_for_files("up.0", "up.1")
        spare = self.start(args, on=hc)
        spare.wait_for_line("(?i)spare")
        (self.dir / "go").touch()
        self.assert_codes([*agents, spare], 0)
        self.assertEqual(sorted(self.worker_files()), [(0, 0), (0, 1)])

    def test_spare_steps_in(self):
        ha, hb, hc = self.nodes(3)
        agents = self.job("2", (ha, hb))
        spare = self.start(self.args, on=hc)
        spare.wait_for_line("(?i)spare")
        hb.kill_all()
        self.assert_codes([agents[0], spare], 0)
        self.assertEqual(self.worker_files()[1, 1]["host"], "hc")

    def test_killed_while_joining(self):
        """A17: an agent dies at any moment of joining; the two others always start."""
        nodes = self.nodes(3)
        seed = random.randrange(1 << 30)
        dice = random.Random(seed)
        for run in range(8):
            with self.subTest(run=run, seed=seed):
                args = ["--nnodes", "2:3", *ENDPOINT, "--rdzv-conf", "last_call_timeout=1", self.worker, f"append:{self.dir}/ran.{run}"]
                agents = self.run_all(args, nodes)
                end = time.monotonic() + dice.random() * 0.1 * harness.SLOW
                while time.monotonic() < end:
                    pass
                harness.kill(agents[2].pid)
                self.assert_codes(agents[:2], 0, 40)

    def test_early_finisher_waits(self):
        """A19: a node whose workers are done stays until the last is, and so does the store."""
        nodes = self.nodes(2)
        agents = self.run_all(["--nnodes", "2", *ENDPOINT, self.worker, "barrier:b", f"touch:{self.dir}/up.{{rank}}", "[rank=0]exit:0",
                               f"wait:{self.dir}/go", "connect"], nodes)
        self.wait_for_files("up.0", "up.1")
        harness.wait_until("worker on ha has ended", lambda: not [p for p in nodes[0].processes() if "fixtures/worker" in
                                                                  harness.cmdline(p) and "cxxrun " not in harness.cmdline(p)])
        self.assertTrue(agents[0].running())
        (self.dir / "go").touch()
        self.assert_codes(agents, 0)


if __name__ == "__main__":
    harness.main()
