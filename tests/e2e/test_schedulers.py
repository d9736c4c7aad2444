# SPDX-License-Identifier: Apache-2.0
"""The endpoint and the ranks come from the surroundings: operators, allocations, configuration files."""
import os

import harness


class Schedulers(harness.Case):
    def steps(self):
        return [self.worker, f"env:{self.dir}", "barrier:b"]

    def placed(self, agents, seconds=40):
        """Success; returns the host of each rank. No rank or size of the surroundings reached a worker as such."""
        self.assert_codes(agents, 0, seconds)
        files = self.worker_files()
        for (_, rank), facts in files.items():
            self.assertEqual(facts["env"]["RANK"], str(rank))
            self.assertEqual(facts["env"]["WORLD_SIZE"], str(len(files)))
            self.assertFalse([n for n in facts["env"] if n.startswith("PET_")])
        return [files[0, rank]["host"] for rank in range(len(files))]

    def pods(self, same_rank=False, master_says_localhost=False):
        """Environment of each pod of a PyTorchJob with one master and two workers."""
        rows = []
        for index in range(3):
            address = "localhost" if master_says_localhost and index == 0 else "job-master-0"
            rows.append({"MASTER_ADDR": address, "MASTER_PORT": "23456", "WORLD_SIZE": "3", "RANK": "0" if same_rank else str(index),
                         "PYTHONUNBUFFERED": "1"})
        return rows

    def pytorchjob(self, arguments, program=harness.CXXRUN, more=None, **options):
        """Worker pods first; the master's name appears when its pod does."""
        nodes = self.named_nodes(["job-master-0", "job-worker-0", "job-worker-1"])
        for node in nodes:
            node.hosts("127.0.0.1 localhost")
        rows = self.pods(**options)
        def pod(i):
            return self.start(arguments(rows[i]), on=nodes[i], env={**rows[i], **(more or {})}, program=program)
        agents = [pod(i) for i in (1, 2)]
        for agent in agents:
            agent.wait_for_line("(?i)job-master-0")
        for node in nodes:
            node.hosts("127.0.0.1 localhost", f"{nodes[0].address} job-master-0")
        agents.append(pod(0))
        return self.placed(agents)

    def manifest(self, env):
        return ["--nnodes", env["WORLD_SIZE"], "--nproc_per_node", "1", "--rdzv-backend", "c10d", "--rdzv-endpoint",
                f"{env['MASTER_ADDR']}:{env['MASTER_PORT']}", *self.steps()]

    def test_pytorchjob_manifest(self):
        self.assertEqual(self.pytorchjob(self.manifest), ["job-master-0", "job-worker-0", "job-worker-1"])

    def test_pytorchjob_manifest_unchanged(self):
        """`command: ["torchrun"]` with a link of that name on the image's PATH."""
        folder = self.dir / "bin"
        folder.mkdir()
        (folder / "torchrun").symlink_to(os.path.realpath(harness.CXXRUN))
        placed = self.pytorchjob(self.manifest, program="torchrun", more={"PATH": f"{folder}:/usr/bin:/bin"})
        self.assertEqual(placed, ["job-master-0", "job-worker-0", "job-worker-1"])

    def test_pytorchjob_manifest_with_equal_ranks(self):
        self.assertEqual(self.pytorchjob(self.manifest, same_rank=True)[0], "job-master-0")

    def test_pytorchjob_manifest_master_says_localhost(self):
        self.assertEqual(self.pytorchjob(self.manifest, master_says_localhost=True), ["job-master-0", "job-worker-0", "job-worker-1"])

    def test_two_agents_of_one_machine_that_both_shall_serve(self):
        """RANK=0 and localhost in both environments: the first to bind serves, the other is its client."""
        ha, = self.nodes(1)
        env = {"MASTER_ADDR": "localhost", "MASTER_PORT": "23456", "WORLD_SIZE": "2", "RANK": "0"}
        agents = [self.start(self.manifest(env), on=ha, env=env) for _ in range(2)]
        self.assertEqual(self.placed(agents), ["ha", "ha"])

    def test_leader_worker_set_two_leaders_on_one_machine(self):
        nodes = self.named_nodes(["lws-0"])
        nodes[0].hosts("127.0.0.1 localhost", f"{nodes[0].address} lws-0.lws.default")
        env = {"LWS_LEADER_ADDRESS": "lws-0.lws.default", "LWS_WORKER_INDEX": "0", "LWS_GROUP_SIZE": "2"}
        agents = [self.start(["--nnodes", "2", *self.steps()], on=nodes[0], env=env) for _ in range(2)]
        self.assertEqual(self.placed(agents), ["lws-0", "lws-0"])

    def test_pytorchjob_without_endpoint(self):
        self.assertEqual(self.pytorchjob(lambda env: ["--nnodes", "3", *self.steps()]), ["job-master-0", "job-worker-0", "job-worker-1"])

    def test_pytorchjob_runs_a_script(self):
        """The manifest's program is a Python file."""
        nodes = self.named_nodes(["job-master-0", "job-worker-0"])
        script = self.dir / "main.py"
        script.write_text("import os\nopen(f\"ran.{os.environ['RANK']}\", 'w').close()\n")
        env = {"MASTER_ADDR": "job-master-0", "MASTER_PORT": "23456", "WORLD_SIZE": "2"}
        agents = [self.start([*self.manifest(env)[:8], script], on=node, env={**env, "RANK": str(i)}) for i, node in enumerate(nodes)]
        self.assert_codes(agents, 0)
        self.wait_for_files("ran.0", "ran.1", seconds=0.1)

    def test_trainer_v2(self):
        """Kubeflow Trainer v2: PET_ variables only."""
        nodes = self.named_nodes(["job-node-0-0", "job-node-0-1", "job-node-0-2"])
        agents = [self.start(self.steps(), on=node, env={
            "PET_NNODES": "3", "PET_NPROC_PER_NODE": "1", "PET_NODE_RANK": str(i), "PET_MASTER_ADDR": "job-node-0-0", "PET_MASTER_PORT": "29500"})
            for i, node in enumerate(nodes)]
        self.assertEqual(self.placed(agents), [node.name for node in nodes])

    def test_trainer_v2_failure_and_restart(self):
        """A10: with variables only, failure handling is the same."""
        nodes = self.named_nodes(["n0", "n1", "n2"])
        for restarts, code in (("0", 1), ("1", 0)):
            with self.subTest(restarts=restarts):
                agents = [self.start([self.worker, "barrier:b", "[restart=0,rank=1]exit:1", "[restart=0]forever"], on=node, env={
                    "PET_NNODES": "3", "PET_NODE_RANK": str(i), "PET_MASTER_ADDR": "n0", "PET_MASTER_PORT": "29500", "PET_MAX_RESTARTS": restarts})
                    for i, node in enumerate(nodes)]
                self.assert_codes(agents, code)

    def test_pod_with_ranks_that_count_nodes(self):
        """I8: RANK, WORLD_SIZE and PET_ variables together."""
        nodes = self.named_nodes(["p0", "p1", "p2"])
        agents = [self.start([*self.steps()], on=node, env={
            "RANK": str(i), "WORLD_SIZE": "3", "PET_NODE_RANK": str(i), "PET_NNODES": "3:3", "PET_NPROC_PER_NODE": "2",
            "PET_MASTER_ADDR": "p0", "PET_MASTER_PORT": "29500", "MASTER_ADDR": "p0", "MASTER_PORT": "29500"}) for i, node in enumerate(nodes)]
        self.assertEqual(self.placed(agents), ["p0", "p0", "p1", "p1", "p2", "p2"])

    def slurm(self, i, **more):
        return {"SLURM_JOB_ID": "77", "SLURM_JOB_NODELIST": "n[09-10],n2", "SLURM_STEP_NODELIST": "n[09-10],n2", "SLURM_NNODES": "3",
                "SLURM_JOB_NUM_NODES": "3", "SLURM_STEP_NUM_NODES": "3", "SLURM_NODEID": str(i), "SLURM_PROCID": str(i),
                "SLURM_NTASKS": "3", "SLURM_STEP_NUM_TASKS": "3", "SLURM_STEP_TASKS_PER_NODE": "1(x3)", "SLURM_LOCALID": "0", **more}

    def test_slurm(self):
        """No endpoint: the first host of the list serves, ranks are the node ids; digits keep their zeros."""
        nodes = self.named_nodes(["n09", "n10", "n2"])
        agents = [self.start(["--nnodes", "3", *self.steps()], on=node, env=self.slurm(i)) for i, node in enumerate(nodes)]
        self.assertEqual(self.placed(agents), ["n09", "n10", "n2"])

    def test_slurm_list_too_short(self):
        ha, = self.nodes(1)
        agent = self.start(["--nnodes", "4", *self.steps()], on=ha, env=self.slurm(0))
        self.assertEqual(agent.code(), 2)
        self.assertIn("--rdzv-endpoint", agent.err)

    def test_leader_worker_set(self):
        nodes = self.named_nodes(["lws-0", "lws-0-1", "lws-0-2"])
        for node in nodes:
            node.hosts("127.0.0.1 localhost", f"{nodes[0].address} lws-0.lws.default")
        agents = [self.start(["--nnodes", "3", *self.steps()], on=node, env={
            "LWS_LEADER_ADDRESS": "lws-0.lws.default", "LWS_WORKER_INDEX": str(i), "LWS_GROUP_SIZE": "3"}) for i, node in enumerate(nodes)]
        self.assertEqual(self.placed(agents), ["lws-0", "lws-0-1", "lws-0-2"])

    def test_variable_for_the_endpoint(self):
        nodes = self.nodes(2)
        agents = [self.start(["--nnodes", "2", "--nproc_per_node", "1", *self.steps()], on=node, env={"PET_RDZV_ENDPOINT": "10.77.0.1:29401"})
                  for node in nodes]
        self.assertEqual(self.placed(agents), ["ha", "hb"])

    def test_file_in_the_home_directory(self):
        nodes = self.nodes(2)
        config = self.dir / ".config" / "cxxrun.conf"
        config.parent.mkdir()
        config.write_text("# our cluster\nrdzv-endpoint = 10.77.0.1:29401\n")
        agents = [self.start(["--nnodes", "2", "--nproc_per_node", "1", *self.steps()], on=node) for node in nodes]
        self.assertEqual(self.placed(agents), ["ha", "hb"])

    def test_file_in_etc(self):
        nodes = self.nodes(2)
        for node in nodes:
            upper = self.dir / f"etc.{node.name}"
            upper.mkdir()
            hosts = harness.sh("cat", "/etc/hosts", node=node)
            harness.sh("mount", "-t", "tmpfs", "etc", upper, node=node)
            harness.sh("sh", "-c", f"mkdir {upper}/up {upper}/work; printf 'rdzv-endpoint = 10.77.0.1:29401\\n' > {upper}/up/cxxrun.conf; "
                       f"mount -t overlay overlay -o lowerdir=/etc,upperdir={upper}/up,workdir={upper}/work /etc; cat > /etc/hosts",
                       node=node, text=hosts)
        agents = [self.start(["--nnodes", "2", "--nproc_per_node", "1", *self.steps()], on=node) for node in nodes]
        self.assertEqual(self.placed(agents), ["ha", "hb"])

    def test_option_beats_variable_beats_file(self):
        config = self.dir / ".config" / "cxxrun.conf"
        config.parent.mkdir()
        config.write_text("nproc-per-node = 2\n")
        for args, env, want in (([], {}, 2), ([], {"PET_NPROC_PER_NODE": "3"}, 3), (["--nproc-per-node", "4"], {"PET_NPROC_PER_NODE": "3"}, 4)):
            for path in self.dir.glob("env.*"):
                path.unlink()
            agent = self.start([*args, self.worker, f"env:{self.dir}"], env=env)
            self.assertEqual(agent.code(), 0)
            self.assertEqual(len(self.worker_files()), want)

    def test_bad_line_in_the_file(self):
        config = self.dir / ".config" / "cxxrun.conf"
        config.parent.mkdir()
        config.write_text("\nnproc-per-nod = 2\n")
        agent = self.start([self.worker])
        self.assertEqual(agent.code(), 2)
        self.assertRegex(agent.err, r"cxxrun\.conf.*2")
        self.assertRegex(agent.err, "nproc[-_]per[-_]node")

    def test_left_over_variables_do_not_make_one_node_wait(self):
        agent = self.start(["--nnodes", "1", *self.steps()], env={"MASTER_ADDR": "gone.invalid", "MASTER_PORT": "1", "RANK": "3", "WORLD_SIZE": "8"})
        self.assertEqual(agent.code(), 0)
        self.assertEqual(self.worker_files()[0, 0]["env"]["WORLD_SIZE"], "1")


if __name__ == "__main__":
    harness.main()
