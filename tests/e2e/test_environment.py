# SPDX-License-Identifier: Apache-2.0
"""The environment of each worker, exactly."""
import os
import unittest

import harness

J3 = ["--nnodes", "3", "--nproc_per_node", "1", "--rdzv_backend", "c10d", "--rdzv_endpoint", "10.77.0.1:29501",
      "--rdzv_id", "t"]
DEFAULT_SIGNALS = "SIGTERM,SIGINT,SIGHUP,SIGQUIT"


class Environment(harness.Case):
    def check(self, facts, given, want):
        """The worker has what the agent had, changed by `want` alone (and CXXRUN_... names of our own)."""
        env = facts["env"]
        error_file = env.pop("TORCHELASTIC_ERROR_FILE")
        self.assertTrue(error_file == "" or os.path.isabs(error_file), error_file)
        got = {name: value for name, value in env.items() if not name.startswith("CXXRUN_") or name == harness.MARKER}
        self.assertEqual(got, {**given, **want})

    def common(self, agents, port):
        return {
            "WORLD_SIZE": "3", "LOCAL_WORLD_SIZE": "1", "GROUP_WORLD_SIZE": "3", "ROLE_WORLD_SIZE": "3",
            "ROLE_NAME": "default", "LOCAL_RANK": "0", "MASTER_ADDR": "10.77.0.1", "MASTER_PORT": port,
            "TORCHELASTIC_RESTART_COUNT": "0", "TORCHELASTIC_MAX_RESTARTS": "0", "TORCHELASTIC_RUN_ID": "t",
            "TORCHELASTIC_USE_AGENT_STORE": "True", "TORCH_NCCL_ASYNC_ERROR_HANDLING": "1",
            "TORCHELASTIC_SIGNALS_TO_HANDLE": DEFAULT_SIGNALS}  # one worker: OMP_NUM_THREADS is not touched

    def test_three_nodes(self):
        nodes = self.nodes(3)
        agents = self.run_all([*J3, self.worker, "barrier:met", f"env:{self.dir}"], nodes)
        self.assert_codes(agents, 0)
        files = self.worker_files()
        self.assertEqual(sorted(files), [(0, 0), (0, 1), (0, 2)])
        ports = {facts["env"]["MASTER_PORT"] for facts in files.values()}
        self.assertEqual(len(ports), 1)
        for (_, rank), facts in files.items():
            with self.subTest(rank=rank):
                self.assertEqual(facts["host"], ["ha", "hb", "hc"][rank])
                self.assertEqual(facts["env"]["CXXRUN_ROUND"], "0")
                self.check(facts, self.env(), {**self.common(agents, ports.copy().pop()), "RANK": str(rank),
                                               "GROUP_RANK": str(rank), "ROLE_RANK": str(rank)})

    def test_what_the_surroundings_had_is_replaced_or_removed(self):
        """Ranks and sizes of a pod or an allocation never reach the workers, nor do PET_ variables and the token."""
        nodes = self.nodes(3)
        dirt = {"RANK": "0", "WORLD_SIZE": "3", "LOCAL_RANK": "9", "GROUP_RANK": "9", "ROLE_NAME": "x",
                "MASTER_ADDR": "10.77.0.1", "MASTER_PORT": "29501", "PET_NNODES": "3", "PET_NPROC_PER_NODE": "1",
                "PET_RDZV_ID": "t", "TORCHELASTIC_RUN_ID": "old", "TORCHELASTIC_RESTART_COUNT": "5"}
        agents = self.run_all([self.worker, "barrier:met", f"env:{self.dir}"], nodes, env={**dirt})
        self.assert_codes(agents, 0)
        files = self.worker_files()
        self.assertEqual(sorted(files), [(0, 0), (0, 1), (0, 2)])
        port = files[0, 0]["env"]["MASTER_PORT"]
        for (_, rank), facts in files.items():
            with self.subTest(rank=rank):
                self.check(facts, self.env(), {**self.common(agents, port), "RANK": str(rank),
                                               "GROUP_RANK": str(rank), "ROLE_RANK": str(rank)})

    def test_what_the_user_set_stays(self):
        kept = {"OMP_NUM_THREADS": "7", "TORCH_NCCL_ASYNC_ERROR_HANDLING": "0", "NCCL_DEBUG": "WARN",
                "LD_PRELOAD": "", "PYTHONPATH": "/some/where", "CUDA_VISIBLE_DEVICES": "5,7", "EMPTY": "",
                "TORCHELASTIC_TIMER_FILE": "/some/pipe", "ODD NAME": "a=b=c"}
        agent = self.start(["--standalone", "--nproc_per_node", "2", self.worker, f"env:{self.dir}"], env=kept)
        self.assertEqual(agent.code(), 0)
        for facts in self.worker_files().values():
            self.assertEqual({name: facts["env"].get(name) for name in kept}, kept)

    def test_one_node_four_workers(self):
        agent = self.start(["--standalone", "--nproc-per-node", "4", "--role", "trainer", "--max-restarts", "3",
                            self.worker, f"env:{self.dir}"])
        self.assertEqual(agent.code(), 0)
        files = self.worker_files()
        self.assertEqual(sorted(files), [(0, rank) for rank in range(4)])
        cpus = len(os.sched_getaffinity(0))
        for (_, rank), facts in files.items():
            with self.subTest(rank=rank):
                env = facts["env"]
                self.check(facts, self.env(), {
                    "RANK": str(rank), "LOCAL_RANK": str(rank), "ROLE_RANK": str(rank), "GROUP_RANK": "0",
                    "WORLD_SIZE": "4", "LOCAL_WORLD_SIZE": "4", "GROUP_WORLD_SIZE": "1", "ROLE_WORLD_SIZE": "4",
                    "ROLE_NAME": "trainer", "MASTER_ADDR": env["MASTER_ADDR"], "MASTER_PORT": env["MASTER_PORT"],
                    "TORCHELASTIC_RESTART_COUNT": "0", "TORCHELASTIC_MAX_RESTARTS": "3",
                    "TORCHELASTIC_RUN_ID": env["TORCHELASTIC_RUN_ID"], "TORCHELASTIC_USE_AGENT_STORE": "True",
                    "TORCHELASTIC_SIGNALS_TO_HANDLE": DEFAULT_SIGNALS, "TORCH_NCCL_ASYNC_ERROR_HANDLING": "1",
                    "OMP_NUM_THREADS": str(max(1, cpus // 4))})
                self.assertIn(env["MASTER_ADDR"], ("127.0.0.1", "localhost", "testhost"))
        self.assertEqual(len({facts["env"]["TORCHELASTIC_RUN_ID"] for facts in files.values()}), 1)
        self.assertEqual({facts["cwd"] for facts in files.values()}, {str(self.dir)})

    def test_different_numbers_of_workers(self):
        """One node with 1 and one with 3 workers: ranks 0..3 once each, offsets right, two roles counted apart."""
        ha, hb = self.nodes(2)
        args = ["--nnodes", "2", "--rdzv-endpoint", "10.77.0.1:29501"]
        agents = [self.start([*args, "--nproc_per_node", "1", "--role", "ps", self.worker, "barrier:b", f"env:{self.dir}"], on=ha),
                  self.start([*args, "--nproc_per_node", "3", "--role", "trainer", self.worker, "barrier:b",
                              f"env:{self.dir}"], on=hb)]
        self.assert_codes(agents, 0)
        rows = {rank: tuple(facts["env"][n] for n in ("GROUP_RANK", "LOCAL_RANK", "LOCAL_WORLD_SIZE", "WORLD_SIZE",
                                                      "ROLE_NAME", "ROLE_RANK", "ROLE_WORLD_SIZE"))
                for (_, rank), facts in self.worker_files().items()}
        self.assertEqual(rows, {0: ("0", "0", "1", "4", "ps", "0", "1"), 1: ("1", "0", "3", "4", "trainer", "0", "3"),
                                2: ("1", "1", "3", "4", "trainer", "1", "3"), 3: ("1", "2", "3", "4", "trainer", "2", "3")})

    def test_arguments_reach_the_worker_unchanged(self):
        """What stands behind the program belongs to it, options of ours included; only the local rank is filled in."""
        odd = ["print:x${local_rank} y$local_rank ${HOME} $$ $5", f"env:{self.dir}"]
        for rest in (["[rank=9]--nnodes=9"], ["[rank=9]-r"], ["[rank=9]--log"], ["[rank=9]a  b"], ["[rank=9]"], ["[rank=9]--"]):
            odd += rest
        agent = self.start(["--standalone", "--nproc_per_node", "2", self.worker, *odd])
        self.assertEqual(agent.code(), 0)
        for (_, rank), facts in self.worker_files().items():
            self.assertEqual(facts["argv"], [self.worker, f"print:x{rank} y{rank} ${{HOME}} $$ $5", *odd[1:]])

    def test_python_output_is_not_held_back(self):
        script = self.dir / "w.py"
        script.write_text("import os, json, sys\n"
                          "json.dump([os.environ['PYTHONUNBUFFERED'], sys.argv], open('py.json', 'w'))\n")
        agent = self.start(["--standalone", script, "x", "--nnodes", "2"])
        self.assertEqual(agent.code(), 0)
        self.assertEqual((self.dir / "py.json").read_text(), f'["1", ["{script}", "x", "--nnodes", "2"]]')


if __name__ == "__main__":
    harness.main()
