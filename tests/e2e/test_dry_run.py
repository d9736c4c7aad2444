# SPDX-License-Identifier: Apache-2.0
"""--dry-run: the plan, where each value comes from, and that a run then is what the plan said."""
import json

import harness


class DryRun(harness.Case):
    def plan(self, *args, env=None):
        agent = self.start(["--dry-run=json", *args], env=env)
        self.assertEqual(agent.code(), 0, agent.transcript())
        self.assertEqual(agent.err, "")
        return json.loads(agent.out)

    def test_where_values_come_from(self):
        folder = self.dir / "config"
        folder.mkdir()
        (folder / "cxxrun.conf").write_text("\nmax-restarts = 2\n")
        plan = self.plan("--nnodes", "3", self.worker, env={
            "XDG_CONFIG_HOME": str(folder), "PET_ROLE": "r", "MASTER_ADDR": "m", "MASTER_PORT": "23456", "RANK": "1", "CXXRUN_TOKEN": "secret"})
        origins = {name: (option["value"], option["from"]) for name, option in plan["options"].items()}
        self.assertEqual(origins["--nnodes"], ("3", "flag"))
        self.assertEqual(origins["--role"], ("r", "variable PET_ROLE"))
        self.assertEqual(origins["--max-restarts"], ("2", f"file {folder}/cxxrun.conf:2"))
        self.assertEqual(origins["--rdzv-endpoint"], ("m:23456", "MASTER_ADDR"))
        self.assertEqual(origins["--nproc-per-node"], ("1", "default"))
        self.assertEqual(plan["rendezvous"], {"backend": "c10d", "endpoint": "m:23456", "run_id": "none", "node_rank": 1})
        worker, = plan["workers"]
        self.assertIsNone(worker["rank"])
        self.assertIsNone(worker["environment"]["set"]["WORLD_SIZE"])
        self.assertIn("PET_ROLE", worker["environment"]["removed"])
        self.assertNotIn("secret", json.dumps(plan))

    def test_a_run_is_what_the_plan_said(self):
        args = ["--nproc-per-node", "2", "--rdzv-id", "x", self.worker, f"env:{self.dir}"]
        plan = self.plan(*args, env={"PET_ROLE": "r", "OMP_NUM_THREADS": "3"})
        self.assertEqual([worker["command"][-1] for worker in plan["workers"]], [f"env:{self.dir}"] * 2)
        self.assertEqual(list(self.dir.glob("env.*")), [])   # nothing was started
        agent = self.start(args, env={"PET_ROLE": "r", "OMP_NUM_THREADS": "3"})
        self.assertEqual(agent.code(), 0, agent.transcript())
        for rank in 0, 1:
            environment = plan["workers"][rank]["environment"]
            facts = self.worker_files()[0, rank]
            real = facts["env"]
            for name, value in environment["set"].items():
                self.assertIn(name, real)
                if value is not None:
                    self.assertEqual(real[name], value, name)
            for name in environment["removed"]:
                self.assertNotIn(name, real)

    def test_log_files(self):
        """Which file a stream goes to; no folder is made."""
        logs = self.dir / "logs"
        plan = self.plan("--nproc-per-node", "2", "--rdzv-id", "a/b", "--log-dir", logs, "-r", "0:1", "-t", "1:3",
                         "--local-ranks-filter", "1", self.worker)
        first, second = plan["workers"]
        attempt = f"{logs}/a_b_<random>/attempt_0"
        self.assertEqual(first["stdout"], f"file {attempt}/0/stdout.log")
        self.assertEqual(first["stderr"], "nowhere")
        self.assertEqual(second["stderr"], f"console, each line behind [default1]:; file {attempt}/1/stderr.log")
        self.assertFalse(logs.exists())

    def test_watched_workers(self):
        worker, = self.plan("--heartbeat-timeout", "60", self.worker, env={"TORCHELASTIC_ENABLE_FILE_TIMER": "1"})["workers"]
        for name, value in (("CXXRUN_HEARTBEAT_FD", None), ("TORCHELASTIC_TIMER_FILE", None), ("PYTHONFAULTHANDLER", "1")):
            self.assertIn(name, worker["environment"]["set"])
            self.assertEqual(worker["environment"]["set"][name], value)

    def test_text(self):
        agent = self.start(["--dry-run", "--nproc-per-node", "2", self.worker, "a b", "x${local_rank}"])
        self.assertEqual(agent.code(), 0, agent.transcript())
        self.assertRegex(agent.out, r"--nproc-per-node +2 +flag")
        self.assertRegex(agent.out, r"--max-restarts +0 +default")
        self.assertRegex(agent.out, r"worker 1:")
        self.assertRegex(agent.out, r"command +\S*worker 'a b' x1")
        self.assertRegex(agent.out, r"set +MASTER_PORT=\?")
        self.assertRegex(agent.out, r"set +RANK=1")

    def test_errors_are_those_of_a_run(self):
        for args, code in ((["--dry-run=xml", self.worker], 2), (["--dry-run"], 2), (["--dry-run", "/no/such"], 127),
                           (["--dry-run", "--nnodes", "2", self.worker], 2)):
            agent = self.start(args)
            self.assertEqual(agent.code(), code, agent.transcript())
            self.assertEqual(agent.out, "")


if __name__ == "__main__":
    harness.main()
