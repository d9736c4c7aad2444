# SPDX-License-Identifier: Apache-2.0
"""torchrun's behaviour case by case, by the numbers of its list of cases; the others stand beside what they test.

Where cxxrun differs on purpose (docs/torchrun-differences.md) the test says what torchrun does.
"""
import json
import signal

import harness

# The quotes are part of the value.
CONF = "'join_timeout=60,last_call_timeout=1,timeout=5'"
TWO = ["--nnodes", "2", "--rdzv-backend", "c10d", "--rdzv-endpoint", "10.77.0.1:29501", "--rdzv-id", "t"]


def elastic(most, conf="last_call_timeout=0.1", **more):
    return ["--nnodes", f"1:{most}", "--rdzv-backend", "c10d", "--rdzv-endpoint", "10.77.0.1:29501", "--rdzv-id", "t", "--rdzv-conf", conf,
            *(x for name, value in more.items() for x in ("--" + name.replace("_", "-"), str(value)))]


class OneNode(harness.Case):
    def test_torchrun_13_worker_fails(self):
        """torchrun: always 1. Here: the worker's own code."""
        agent = self.start(["--nnodes=1:2", "--nproc-per-node=4", "--rdzv-backend=c10d", "--rdzv-endpoint=localhost:29513",
                            f"--rdzv-conf={CONF}", "--max-restarts=0", self.worker, "exit:5"])
        self.assertEqual(agent.code(), 5)
        self.assertRegex(agent.err, r"the job failed: rank \d")

    def test_torchrun_34_exit_code_kept(self):
        """138 is a code like any other, not "signal 10"."""
        result = self.dir / "result.json"
        agent = self.start(["--standalone", "--nproc-per-node=2", "--result-file", result, self.worker, "[rank=0]exit:138", "exit:0"])
        self.assertEqual(agent.code(), 138)
        self.assertIn("rank 0 (local rank 0 on node testhost", agent.err)
        self.assertIn("ended with exit code 138", agent.err)
        self.assertNotIn("signal", agent.err)
        self.assertEqual(json.loads(result.read_text())["exit_code"], 138)

    def test_torchrun_35_missing_program(self):
        """torchrun: 1. Here: 127, as a shell."""
        agent = self.start(["--no-python", "does_not_exist"])
        self.assertEqual(agent.code(), 127)
        self.assertIn("does_not_exist", agent.err)

    def test_torchrun_41_always_failing(self):
        agent = self.start(["--standalone", "--nproc-per-node=2", "--max-restarts=2", self.worker, f"env:{self.dir}", "barrier:b", "[rank=1]exit:3",
                            "forever"])
        self.assertEqual(agent.code(), 3)
        self.assertEqual(sorted(self.worker_files()), [(n, rank) for n in range(3) for rank in range(2)])

    def test_torchrun_42_fails_once(self):
        agent = self.start(["--standalone", "--nproc-per-node=2", "--max-restarts=3", self.worker, f"env:{self.dir}", "barrier:b",
                            "[rank=1,restart=0]exit:3", "[restart=0]forever"])
        self.assertEqual(agent.code(), 0)
        counts = {key: facts["env"]["TORCHELASTIC_RESTART_COUNT"] for key, facts in self.worker_files().items()}
        self.assertEqual(counts, {(0, 0): "0", (0, 1): "0", (1, 0): "1", (1, 1): "1"})

    def test_torchrun_64_join_timeout(self):
        """torchrun: 1. Here: 75, which a scheduler may take for "try again"."""
        agent = self.start(["--nnodes=2", "--rdzv-backend=c10d", "--rdzv-endpoint=localhost:29564", "--rdzv-conf=join_timeout=0.5", self.worker])
        self.assertEqual(agent.code(), 75)
        self.assertRegex(agent.err, r"1 of 2 nodes")

    def test_torchrun_65_last_call(self):
        """Alone, and more could come: it says until when, and starts then."""
        agent = self.start(["--nnodes=1:2", "--rdzv-backend=c10d", "--rdzv-endpoint=localhost:29565", "--rdzv-conf=last_call_timeout=1.5",
                            self.worker, f"env:{self.dir}"])
        agent.wait_for_line(r"up to 1 more may come, starting in")
        self.assertEqual(self.worker_files(), {})
        self.assertEqual(agent.code(), 0)
        self.assertEqual([facts["env"]["WORLD_SIZE"] for facts in self.worker_files().values()], ["1"])


class SeveralNodes(harness.Case):
    def ranks(self, number=0):
        return {rank: facts["env"] for (found, rank), facts in self.worker_files().items() if found == number}

    def test_torchrun_17_two_agents(self):
        agents = [self.start(["--nnodes=1:2", "--nproc-per-node=4", "--rdzv-backend=c10d", "--rdzv-endpoint=localhost:29517",
                              "--rdzv-conf=timeout=5,last_call_timeout=30", "--rdzv-id=X", self.worker, f"env:{self.dir}"]) for _ in range(2)]
        self.assert_codes(agents, 0)
        self.assertEqual(sorted(self.ranks()), list(range(8)))

    def test_torchrun_31_close_on_success_and_on_error(self):
        """The end of one is the end of all: nobody waits for a rendezvous that is over."""
        for step, code in (("exit:0", 0), ("exit:9", 9)):
            with self.subTest(step):
                nodes = self.nodes(2) if not self._nodes else self._nodes
                self.assert_codes(self.run_all([*TWO, self.worker, step], nodes), code)

    def test_torchrun_33_failing_close(self):
        """The rendezvous dies with the run that has failed: the worker's failure is what is reported. Where it dies before its verdict,
        the node looks for it for rejoin_timeout (else 30 s) before it ends with 75."""
        nodes = self.nodes(2)
        host, guest = self.run_all([*TWO, "--rdzv-conf", "rejoin_timeout=1", self.worker, f"touch:{self.dir}/up.{{rank}}",
                                    f"[rank=1]wait:{self.dir}/go", "[rank=1]exit:7", "forever"], nodes)
        self.wait_for_files("up.0", "up.1")
        (self.dir / "go").touch()
        guest.wait_for_line(r"rank 1 .*failed")
        harness.kill(host.pid)
        self.assertIn(guest.code(), (7, 75))
        self.assertRegex(guest.err, r"rank 1 on hb failed: exit code 7")

    def test_torchrun_39_three_agents(self):
        ha, hb, hc = self.nodes(3)
        args = ["--nnodes", "3", *TWO[2:]]
        agents = [self.start([*args, "--nproc-per-node", str(n), self.worker, f"env:{self.dir}"], on=node) for n, node in ((1, ha), (2, hb), (3, hc))]
        self.assert_codes(agents, 0)
        ranks = self.ranks()
        self.assertEqual(sorted(ranks), list(range(6)))
        for size in ("1", "2", "3"):
            own = sorted(rank for rank, env in ranks.items() if env["LOCAL_WORLD_SIZE"] == size)
            self.assertEqual(own, list(range(own[0], own[0] + int(size))))

    def test_torchrun_40_seven_agents_with_roles(self):
        """torchrun sorts the ranks by role; here nodes keep their order, and roles count their own."""
        nodes = self.nodes(7)
        shapes = [("master", 8), ("trainer", 1), ("trainer", 2), ("trainer", 3), ("trainer", 4), ("ps", 5), ("ps", 2)]
        args = ["--nnodes", "7", *TWO[2:]]
        agents = [self.start([*args, "--role", role, "--nproc-per-node", str(n), self.worker, f"env:{self.dir}"], on=node)
                  for (role, n), node in zip(shapes, nodes)]
        self.assert_codes(agents, 0, 60)
        ranks = self.ranks()
        self.assertEqual(sorted(ranks), list(range(25)))
        for role, size in (("master", 8), ("trainer", 10), ("ps", 7)):
            own = [env for env in ranks.values() if env["ROLE_NAME"] == role]
            self.assertEqual({env["ROLE_WORLD_SIZE"] for env in own}, {str(size)})
            self.assertEqual(sorted(int(env["ROLE_RANK"]) for env in own), list(range(size)))
        for group in range(7):
            own = sorted(rank for rank, env in ranks.items() if env["GROUP_RANK"] == str(group))
            self.assertEqual(own, list(range(own[0], own[0] + len(own))))

    def test_torchrun_43_agent_killed_and_replaced(self):
        ha, hb = self.nodes(2)
        args = [*TWO, "--max-restarts", "2", self.worker, f"env:{self.dir}", f"[round=0]touch:{self.dir}/up.{{rank}}", "[round=0]forever"]
        first, second = self.run_all(args, [ha, hb])
        self.wait_for_files("up.0", "up.1")
        harness.kill(second.pid)
        self.assertEqual(second.code(), 137)
        self.assert_codes([first, self.start(args, on=hb)], 0)
        self.assertEqual({env["WORLD_SIZE"] for env in self.ranks(1).values()}, {"2"})

    def test_torchrun_44_scale_down(self):
        ha, hb = self.nodes(2)
        args = [*elastic(2, conf="last_call_timeout=30,rejoin_timeout=0.1", max_restarts=2), self.worker, f"env:{self.dir}",
                f"[round=0]touch:{self.dir}/up.{{rank}}", "[round=0]forever"]
        first, second = self.run_all(args, [ha, hb])
        self.wait_for_files("up.0", "up.1")
        harness.kill(second.pid)
        self.assertEqual(first.code(60), 0)
        self.assertEqual({env["WORLD_SIZE"] for env in self.ranks(1).values()}, {"1"})

    def test_torchrun_45_scale_up(self):
        ha, hb = self.nodes(2)
        args = [*elastic(2, max_restarts=0), self.worker, f"env:{self.dir}", "[round=0]touch:{up}".format(up=self.dir / "up"), "[round=0]forever"]
        first = self.start(args, on=ha)
        self.wait_for_files("up")
        self.assert_codes([first, self.start(args, on=hb)], 0)
        second = self.ranks(1)
        self.assertEqual({env["WORLD_SIZE"] for env in second.values()}, {"2"})
        self.assertEqual({env["TORCHELASTIC_RESTART_COUNT"] for env in second.values()}, {"0"})

    def test_torchrun_46_failure_ends_both(self):
        agents = self.run_all([*TWO, self.worker, "barrier:b", "exit:4"], self.nodes(2))
        self.assert_codes(agents, 4)

    def test_torchrun_47_drift(self):
        """Workers that end one after the other: the first waits for the second."""
        agents = self.run_all([*TWO, self.worker, f"[rank=0]touch:{self.dir}/ended", f"[rank=1]wait:{self.dir}/ended", "[rank=1]ms:300"],
                              self.nodes(2))
        self.assert_codes(agents, 0)

    def test_torchrun_48_barrier_at_the_end_that_breaks(self):
        """All workers have ended well; a node that is lost in the moment after that makes no failure of the other's success."""
        ha, hb = self.nodes(2)
        first, second = self.run_all([*TWO, self.worker, f"[rank=1]touch:{self.dir}/ended", f"[rank=0]wait:{self.dir}/go"], [ha, hb])
        self.wait_for_files("ended")
        harness.wait_until("rank 1 has ended", lambda: len(harness.descendants(second.pid)) == 2)  # inner guardian and agent
        harness.kill(second.pid)
        self.assertEqual(second.code(), 137)
        (self.dir / "go").touch()
        self.assertEqual(first.code(60), 0)

    def test_torchrun_68_redundant_node(self):
        nodes = self.nodes(3)
        args = [*TWO, self.worker, f"env:{self.dir}", f"touch:{self.dir}/up.{{rank}}", f"wait:{self.dir}/go"]
        agents = self.run_all(args, nodes[:2])
        self.wait_for_files("up.0", "up.1")
        third = self.start(args, on=nodes[2])
        third.wait_for_line(r"(?i)spare|waits|round 0 runs")
        (self.dir / "go").touch()
        self.assert_codes([*agents, third], 0)
        self.assertEqual(len(self.worker_files()), 2)

    def test_torchrun_69_late_node(self):
        """The run is over and its rendezvous still there. torchrun: 1, at once, so that of a job that is started again some nodes may end
        with the old one; here a new job is looked for a while, then it is the old one's end."""
        nodes = self.nodes(3)
        args = [*TWO, self.worker, f"[rank=1]touch:{self.dir}/ended", f"[rank=0]helper:deaf={self.dir}/helper"]
        agents = self.run_all(["--shutdown-timeout", "1000", *args], nodes[:2])
        self.wait_for_files("helper", "ended")
        agents[0].wait_for_line("waiting for what they left running")
        late = self.start(["--rdzv-conf", "close_timeout=1.5", *args], on=nodes[2])
        late.wait_for_line(r"the job at 10.77.0.1:29501 had ended before this node came; looking for a new one there for 1.5 s")
        self.assertEqual(late.code(), 0)
        harness.kill(int((self.dir / "helper").read_text()), signal.SIGKILL)
        self.assert_codes(agents, 0)


if __name__ == "__main__":
    harness.main()
