# SPDX-License-Identifier: Apache-2.0
"""Static backend, standalone, sizes by name, and what is executed."""
import os

import harness


class Static(harness.Case):
    def job(self, node, rank, *more, nnodes="2", steps=()):
        return self.start(["--rdzv-backend", "static", "--nnodes", nnodes, "--node-rank", str(rank), "--master-addr", "10.77.0.1",
                           "--master-port", "29555", *more, self.worker, f"env:{self.dir}", "barrier:b", *steps], on=node)

    def test_ranks_are_the_node_ranks(self):
        """Names and order of starting say the opposite; the port is the given one, the store answers there."""
        ha, hb, hc = self.nodes(3)
        late = [self.job(hb, 2, nnodes="3"), self.job(hc, 1, nnodes="3")]
        for agent in late:
            agent.wait_for_line("(?i)refused|waiting")
        self.assert_codes([*late, self.job(ha, 0, nnodes="3")], 0)
        files = self.worker_files()
        self.assertEqual([files[0, rank]["host"] for rank in range(3)], ["ha", "hc", "hb"])
        for facts in files.values():
            self.assertEqual((facts["env"]["MASTER_ADDR"], facts["env"]["MASTER_PORT"], facts["env"]["TORCHELASTIC_USE_AGENT_STORE"]),
                             ("10.77.0.1", "29555", "True"))

    def test_backend_is_implied(self):
        nodes = self.nodes(2)
        agents = [self.start(["--nnodes", "2", f"--node_rank={i}", "--master_addr=10.77.0.1", "--master_port=29555", self.worker, "barrier:b"],
                             on=node) for i, node in enumerate(nodes)]
        self.assert_codes(agents, 0)

    def test_restart_on_the_same_port(self):
        nodes = self.nodes(2)
        agents = [self.job(node, i, "--max-restarts", "1", steps=["[restart=0,rank=1]exit:3", "[restart=0]forever"]) for i, node in enumerate(nodes)]
        self.assert_codes(agents, 0)
        self.assertEqual({facts["env"]["MASTER_PORT"] for facts in self.worker_files().values()}, {"29555"})
        self.assertEqual(sorted(self.worker_files()), [(0, 0), (0, 1), (1, 0), (1, 1)])

    def test_duplicate_rank(self):
        ha, hb, hc = self.nodes(3)
        good = [self.job(ha, 0, nnodes="3"), self.job(hb, 1, nnodes="3")]
        good[0].wait_for_line("2 of 3")
        bad = self.job(hc, 1, nnodes="3")
        self.assertEqual(bad.code(), 2)
        self.assertRegex(bad.err, r"1.*hb|hb.*1")
        self.assert_codes([*good, self.job(hc, 2, nnodes="3")], 0)

    def test_rank_out_of_range(self):
        ha, = self.nodes(1)
        agent = self.job(ha, 2)
        self.assertEqual(agent.code(), 2)
        self.assertRegex(agent.err, "node[-_]rank")
        self.assertIn("2", agent.err)

    def test_one_node_with_a_port(self):
        agent = self.start(["--nproc_per_node", "2", "--master-port", "29556", self.worker, f"env:{self.dir}", "barrier:b"])
        self.assertEqual(agent.code(), 0)
        self.assertEqual({f["env"]["MASTER_PORT"] for f in self.worker_files().values()}, {"29556"})

    def test_workers_own_the_port(self):
        """--worker-store=none: MASTER_PORT is left to the workers, the agents use the next one."""
        nodes = self.nodes(2)
        script = self.dir / "w.py"
        script.write_text("""
import os, socket, time
rank, address = os.environ["RANK"], (os.environ["MASTER_ADDR"], int(os.environ["MASTER_PORT"]))
assert os.environ["TORCHELASTIC_USE_AGENT_STORE"] == "False"
assert address[1] == 29555
if rank == "0":
    s = socket.socket()
    s.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    s.bind(("", address[1]))
    s.listen()
    s.accept()[0].sendall(b"ok")
else:
    end = time.monotonic() + 60
    while True:
        try:
            assert socket.create_connection(address, 5).recv(2) == b"ok"
            break
        except ConnectionRefusedError:
            assert time.monotonic() < end
            time.sleep(0.01)
""")
        agents = [self.start(["--nnodes", "2", "--node-rank", str(i), "--master-addr", "10.77.0.1", "--master-port", "29555",
                              "--worker-store=none", script], on=node) for i, node in enumerate(nodes)]
        self.assert_codes(agents, 0)


class Sizes(harness.Case):
    def workers(self, *args, prefix=(), env=None):
        for path in self.dir.glob("env.*"):
            path.unlink()
        agent = self.start([*args, self.worker, f"env:{self.dir}"], prefix=prefix, env=env)
        self.assertEqual(agent.code(), 0)
        return len(self.worker_files()), agent

    def test_auto_and_cpu(self):
        cpus = len(os.sched_getaffinity(0))
        for how in ("auto", "cpu"):
            self.assertLessEqual(self.workers("--nproc_per_node", how)[0], cpus)
            self.assertEqual(self.workers("--nproc_per_node", how, prefix=["taskset", "-c", str(min(os.sched_getaffinity(0)))])[0], 1)

    def test_explicit_number_is_never_changed(self):
        """I6"""
        one = ["taskset", "-c", str(min(os.sched_getaffinity(0)))]
        self.assertEqual(self.workers("--nproc_per_node", "3", prefix=one)[0], 3)

    def test_gpu_without_one(self):
        if os.path.exists("/dev/nvidiactl") or os.path.exists("/dev/kfd"):
            self.skipTest("this machine has a GPU")
        agent = self.start(["--nproc_per_node", "gpu", self.worker, f"touch:{self.dir}/started"])
        self.assertEqual(agent.code(), 2)
        self.assertRegex(agent.err, "(?i)gpu")
        self.assertFalse((self.dir / "started").exists())

    def test_threads_are_divided(self):
        """I9: usable CPUs by workers, at least 1; no box of asterisks."""
        count, agent = self.workers("--nproc_per_node", "2", prefix=["taskset", "-c", str(min(os.sched_getaffinity(0)))])
        self.assertEqual(count, 2)
        self.assertEqual({f["env"]["OMP_NUM_THREADS"] for f in self.worker_files().values()}, {"1"})
        self.assertNotIn("****", agent.err)

    def test_many_workers(self):
        self.assertEqual(self.workers("--nproc_per_node", "64")[0], 64)


class Standalone(harness.Case):
    def test_two_at_once(self):
        jobs = [self.start(["--standalone", "--nproc_per_node", "4", self.worker, "barrier:b"]) for _ in range(2)]
        self.assert_codes(jobs, 0)

    def test_run_ids_differ(self):
        ids = set()
        for _ in range(3):
            agent = self.start(["--standalone", self.worker, f"env:{self.dir}"])
            self.assertEqual(agent.code(), 0)
            ids.add(self.worker_files()[0, 0]["env"]["TORCHELASTIC_RUN_ID"])
        self.assertEqual(len(ids), 3)

    def test_writes_no_file(self):
        work = self.dir / "work"
        work.mkdir()
        agent = self.start(["--standalone", "--nproc_per_node", "2", self.worker, "print:x"], cwd=work, env={"TMPDIR": str(work), "HOME": str(work)})
        self.assertEqual(agent.code(), 0)
        self.assertEqual(list(work.iterdir()), [])

    def test_output_of_one_worker_is_untouched(self):
        agent = self.start(["--standalone", self.worker, "print:plain", "err:also"])
        self.assertEqual(agent.code(), 0)
        self.assertEqual((agent.out, agent.err), ("plain", "also"))

    def test_output_of_several_is_prefixed_by_whole_lines(self):
        """H3, H5: each line carries its rank; bytes that are no text do not silence the rest."""
        script = self.dir / "w.sh"
        script.write_text("#!/bin/sh\nprintf '\\377\\n'; echo after; printf 'no newline at the end'\n")
        script.chmod(0o755)
        agent = self.start(["--standalone", "--nproc_per_node", "2", script])
        self.assertEqual(agent.code(), 0)
        for rank in (0, 1):
            self.assertRegex(agent.out, rf"(?m)^\[rank{rank}\]: after$")
            self.assertRegex(agent.out, rf"(?m)^\[rank{rank}\]: no newline at the end$")

    def test_many_lines(self):
        agent = self.start(["--standalone", "--nproc_per_node", "4", self.worker, "lines:5000"])
        self.assertEqual(agent.code(60), 0)
        for rank in range(4):
            lines = [line for line in agent.out.splitlines() if line.startswith(f"[rank{rank}]: ")]
            self.assertEqual(lines, [f"[rank{rank}]: line {n}" for n in range(5000)])


class Execution(harness.Case):
    def script(self, name, text, mode=0o644):
        path = self.dir / name
        path.write_text(text)
        path.chmod(mode)
        return path

    def test_python_file(self):
        script = self.script("w.py", "import sys\nprint(sys.argv[1:], sys.flags.unbuffered if hasattr(sys.flags, 'unbuffered') else '')\n")
        agent = self.start(["--standalone", script, "a", "b c"])
        self.assertEqual(agent.code(), 0)
        self.assertIn("['a', 'b c']", agent.out)

    def test_interpreter_by_variable(self):
        self.script("python", "#!/bin/sh\necho ours \"$@\"\n", 0o755)
        script = self.script("w.py", "")
        agent = self.start(["--standalone", script, "a"], env={"PYTHON_EXEC": str(self.dir / "python")})
        self.assertEqual(agent.code(), 0)
        self.assertEqual(agent.out, f"ours -u {script} a")

    def test_virtual_environment(self):
        (self.dir / "bin").mkdir()
        self.script("bin/python", "#!/bin/sh\necho venv \"$@\"\n", 0o755)
        script = self.script("w.py", "")
        agent = self.start(["--standalone", script], env={"VIRTUAL_ENV": str(self.dir)})
        self.assertEqual(agent.code(), 0)
        self.assertEqual(agent.out, f"venv -u {script}")

    def test_module(self):
        self.script("python", "#!/bin/sh\necho \"$@\"\n", 0o755)
        agent = self.start(["--standalone", "-m", "pkg.mod", "--", "x"], env={"PYTHON_EXEC": str(self.dir / "python")})
        self.assertEqual(agent.code(), 0)
        self.assertEqual(agent.out, "-u -m pkg.mod -- x")

    def test_program_on_the_path(self):
        agent = self.start(["--standalone", "--no-python", "echo", "-n", "hello"])
        self.assertEqual(agent.code(), 0)
        self.assertEqual(agent.out, "hello")
        agent = self.start(["--standalone", "echo", "hello"])
        self.assertEqual((agent.code(), agent.out), (0, "hello"))

    def test_double_dash(self):
        agent = self.start(["--standalone", "--", "echo", "--", "--nnodes"])
        self.assertEqual((agent.code(), agent.out), (0, "-- --nnodes"))

    def test_all_by_variables(self):
        agent = self.start([self.worker, f"env:{self.dir}"], env={
            "PET_NNODES": "1", "PET_NPROC_PER_NODE": "4", "PET_RDZV_ID": "X", "PET_MONITOR_INTERVAL": "1", "PET_START_METHOD": "spawn",
            "PET_NO_PYTHON": "1", "PET_MODULE": "0"})
        self.assertEqual(agent.code(), 0)
        self.assertEqual(len(self.worker_files()), 4)

    def test_both_spellings(self):
        for args in (["--nproc_per_node", "2"], ["--nproc-per-node=2"]):
            with self.subTest(args):
                for path in self.dir.glob("env.*"):
                    path.unlink()
                agent = self.start([*args, self.worker, f"env:{self.dir}"])
                self.assertEqual(agent.code(), 0)
                self.assertEqual(len(self.worker_files()), 2)


if __name__ == "__main__":
    harness.main()
