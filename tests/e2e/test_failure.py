# SPDX-License-Identifier: Apache-2.0
"""A worker fails: everybody stops at once, everybody names the same cause, the exit code is the cause's own."""
import signal

import harness

ENDPOINT = ["--rdzv_backend", "c10d", "--rdzv_endpoint", "10.77.0.1:29501", "--rdzv_id", "t"]
ENDS = [("exit:1", 1, "exit code 1"), ("exit:7", 7, "exit code 7"), ("exit:255", 255, "exit code 255"),
        ("raise:KILL", 137, "SIGKILL"), ("raise:SEGV", 139, "SIGSEGV"), ("raise:ABRT", 134, "SIGABRT")]


class Failure(harness.Case):
    def test_report_of_one_node(self):
        """At the end of the output, not buried: who, how, the last words, and what became of the others."""
        agent = self.start(["--standalone", "--nproc_per_node", "2", self.worker, "barrier:b",
                            "[rank=1]err:first line of trouble", "[rank=1]err:second line", "[rank=1]err:the reason", "[rank=1]exit:3",
                            "forever"])
        self.assertEqual(agent.code(), 3)
        tail = "\n".join(agent.err_lines[-25:])
        for text in ("rank 1", "exit code 3", "testhost", "first line of trouble", "second line", "the reason"):
            self.assertIn(text, tail)
        self.assertRegex(tail, r"rank 0.*(stopped|SIGTERM)")
        self.assertNotRegex(agent.err, r"terminate called|backtrace|Traceback|internal error")

    def test_codes_on_one_node(self):
        for step, code, text in ENDS:
            with self.subTest(step):
                agent = self.start(["--standalone", "--nproc_per_node", "2", self.worker, "barrier:b", f"[rank=1]{step}", "forever"])
                self.assertEqual(agent.code(), code)
                self.assertIn(text, agent.err)

    def test_single_worker_codes(self):
        for step, code, text in ENDS:
            with self.subTest(step):
                agent = self.start([self.worker, step])
                self.assertEqual(agent.code(), code)
                self.assertIn(text, agent.err)

    def test_every_node_says_the_same(self):
        """Three nodes, no restarts; rank 1's end is told with host, process id, reason and last words on each."""
        for step, code, text in (("exit:7", 7, "exit code 7"), ("raise:KILL", 137, "SIGKILL"), ("raise:SEGV", 139, "SIGSEGV")):
            with self.subTest(step):
                for path in self.dir.glob("env.*"):
                    path.unlink()
                nodes = self._nodes or self.nodes(3)
                agents = self.run_all(["--nnodes", "3", "--nproc_per_node", "1", *ENDPOINT, "--max-restarts", "0",
                                       self.worker, f"env:{self.dir}", "barrier:b", "[rank=1]err:no more memory for you",
                                       f"[rank=1]{step}", "forever"], nodes)
                self.assert_codes(agents, code)
                pid = self.worker_files()[0, 1]["pid"]
                for agent in agents:
                    for want in ("rank 1", "hb", str(pid), text, "no more memory for you"):
                        self.assertIn(want, agent.err, agent.label())

    def test_no_agent_returns_success(self):
        ha, hb = self.nodes(2)
        for step, code, _ in ENDS:
            for victim in ("0", "1"):
                with self.subTest(step=step, rank=victim):
                    agents = self.run_all(["--nnodes", "2", *ENDPOINT, self.worker, "barrier:b", f"[rank={victim}]{step}",
                                           "forever"], (ha, hb))
                    self.assert_codes(agents, code)

    def test_all_workers_are_replaced_together(self):
        for step in ("exit:7", "raise:KILL", "raise:SEGV"):
            with self.subTest(step):
                for path in self.dir.glob("env.*"):
                    path.unlink()
                nodes = self._nodes or self.nodes(3)
                agents = self.run_all(["--nnodes", "3", "--nproc_per_node", "2", *ENDPOINT, "--max-restarts", "1",
                                       self.worker, f"env:{self.dir}", "barrier:b", f"[restart=0,rank=3]{step}",
                                       "[restart=0]forever"], nodes)
                self.assert_codes(agents, 0)
                files = self.worker_files()
                self.assertEqual(sorted(files), [(r, n) for r in (0, 1) for n in range(6)])
                pids = {facts["pid"] for facts in files.values()}
                self.assertEqual(len(pids), 12)
                for (round_number, rank), facts in files.items():
                    env = facts["env"]
                    self.assertEqual(env["TORCHELASTIC_RESTART_COUNT"], str(round_number))
                    self.assertEqual(facts["host"], files[0, rank]["host"], "survivors keep their ranks")
                self.assertEqual(len({f["env"]["MASTER_PORT"] for (r, _), f in files.items() if r == 1}), 1)

    def test_restarts_are_counted_once_for_the_job(self):
        nodes = self.nodes(2)
        agents = self.run_all(["--nnodes", "2", *ENDPOINT, "--max-restarts", "1", self.worker,
                               f"append:{self.dir}/starts", "barrier:b", "[restart=0,rank=0]exit:3", "[restart=1,rank=1]exit:4", "forever"],
                              nodes)
        self.assert_codes(agents, 4)
        self.assertEqual(len((self.dir / "starts").read_text().splitlines()), 4)

    def test_default_is_no_restart(self):
        agent = self.start(["--standalone", self.worker, f"append:{self.dir}/starts", "exit:1"])
        self.assertEqual(agent.code(), 1)
        self.assertEqual(len((self.dir / "starts").read_text().splitlines()), 1)

    def test_budget_on_one_node(self):
        agent = self.start(["--standalone", "--nproc_per_node", "2", "--max-restarts", "2", self.worker,
                            f"append:{self.dir}/starts", "barrier:b", "[rank=1]exit:9", "forever"])
        self.assertEqual(agent.code(), 9)
        self.assertEqual(len((self.dir / "starts").read_text().splitlines()), 6)

    def test_consequences_are_not_the_cause(self):
        """Rank 2 fails first; the others exit 1 when they are told to stop. All name rank 2 and return its code."""
        nodes = self.nodes(2)
        agents = self.run_all(["--nnodes", "2", "--nproc_per_node", "2", *ENDPOINT, self.worker,
                               f"save:TERM=100={self.dir}/saved.{{rank}}=1", "barrier:b", "[rank=2]exit:7", "forever"], nodes)
        self.assert_codes(agents, 7)
        for agent in agents:
            self.assertRegex(agent.err, r"rank 2\b.*\n?.*exit code 7|exit code 7.*rank 2\b")
        for rank in (0, 1, 3):
            self.assertTrue((self.dir / f"saved.{rank}").exists())

    def test_a_worker_that_ignores_the_stop(self):
        nodes = self.nodes(2)
        agents = self.run_all(["--nnodes", "2", *ENDPOINT, "--shutdown-timeout", "1", self.worker, "ignore:TERM", "barrier:b",
                               "[rank=1]exit:5", "forever"], nodes)
        self.assert_codes(agents, 5)
        self.assertRegex(agents[0].err, r"(?i)rank 0.*(SIGTERM|SIGKILL|ignored)")

    def test_signal_from_outside(self):
        agent = self.start(["--standalone", "--nproc_per_node", "2", self.worker, f"env:{self.dir}", "barrier:b",
                            f"touch:{self.dir}/up.{{rank}}", "forever"])
        self.wait_for_files("up.0", "up.1")
        harness.kill(self.worker_files()[0, 1]["pid"], signal.SIGKILL)
        self.assertEqual(agent.code(), 137)
        self.assertIn("SIGKILL", agent.err)
        self.assertIn("rank 1", agent.err)

    def test_error_file_of_a_worker(self):
        """A worker that writes the error file is quoted from it; a broken file does not hide the failure."""
        script = self.dir / "w.sh"
        script.write_text("""#!/bin/sh
            [ -n "$TORCHELASTIC_ERROR_FILE" ] || exit 88
            mkdir -p "$(dirname "$TORCHELASTIC_ERROR_FILE")"
            printf '%s' "$1" > "$TORCHELASTIC_ERROR_FILE"; exit 3\n""")
        script.chmod(0o755)
        good = ('{"message": {"message": "RuntimeError: the disk is full", "extraInfo": '
                '{"py_callstack": "Traceback (most recent call last): here", "timestamp": "1700000000"}}}')
        agent = self.start(["--standalone", "--no-python", script, good])
        self.assertEqual(agent.code(), 3)
        self.assertIn("the disk is full", agent.err)
        for broken in ("{", "[1]", '{"message": 5}', "\0\1"[:1], '{"message": {"message": ["x"]}}'):
            with self.subTest(broken):
                agent = self.start(["--standalone", "--no-python", script, broken.replace("\0", "?")])
                self.assertEqual(agent.code(), 3)
                self.assertIn("exit code 3", agent.err)

    def test_all_exit_codes(self):
        """Each code 1..255 comes out as it went in."""
        for code in range(1, 256):
            agent = self.start(["--no-python", self.worker, f"exit:{code}"])
            self.assertEqual(agent.code(), code)


if __name__ == "__main__":
    harness.main()
