# SPDX-License-Identifier: Apache-2.0
"""torchrun's own cases about options, on the real program. The numbers are those that unit tests use too; where cxxrun departs on
purpose, docs/torchrun-differences.md says so."""
import os

import harness

NAMES = ("LOCAL_RANK RANK GROUP_RANK ROLE_RANK ROLE_NAME LOCAL_WORLD_SIZE WORLD_SIZE ROLE_WORLD_SIZE MASTER_ADDR MASTER_PORT "
         "TORCHELASTIC_RESTART_COUNT TORCHELASTIC_MAX_RESTARTS TORCHELASTIC_RUN_ID TORCHELASTIC_ERROR_FILE SENTINEL")
SHELL = f"""#!/bin/sh
for name in {NAMES}; do eval "test -n \\"\\$$name\\"" || {{ echo "no $name" >&2; exit 9; }}; done
test "$LOCAL_WORLD_SIZE" = 1 || test -n "$OMP_NUM_THREADS" || exit 9
echo "creating $1/$RANK"
printf '%s' "$MASTER_PORT" >"$1/$RANK"
"""
PYTHON = f"""import os, sys
for name in "{NAMES}".split():
    os.environ[name]
print("creating", flush=True)
open(os.path.join(sys.argv[-1], os.environ["RANK"]), "w").write("\\n".join(sys.argv[1:-1]))
"""


class Options(harness.Case):
    def setUp(self):
        super().setUp()
        self.out = self.dir / "out"
        self.out.mkdir()
        self.shell = self.dir / "T.sh"
        self.shell.write_text(SHELL)
        self.shell.chmod(0o755)
        self.python = self.dir / "T.py"   # no x bit: run by Python
        self.python.write_text(PYTHON)

    def run_job(self, *args, env=None, code=0):
        agent = self.start(args, env={"SENTINEL": "1", **(env or {})})
        self.assertEqual(agent.code(60), code, agent.transcript())
        return agent

    def files(self):
        return {path.name: path.read_text() for path in self.out.iterdir()}

    def assert_ranks(self, count):
        self.assertEqual(set(self.files()), {str(rank) for rank in range(count)})

    def test_torchrun_01_python_script(self):
        agent = self.run_job("--nnodes=1", "--nproc-per-node=4", "--rdzv-id=X", "--monitor-interval=1", "--start-method=spawn", self.python, self.out)
        self.assert_ranks(4)
        self.assertIn("creating", agent.out)

    def test_torchrun_02_old_style(self):
        self.run_job("--nnodes=1", "--nproc-per-node=4", "--master-addr=localhost", "--master-port=23457", "--node-rank=0", self.shell, self.out)
        self.assertEqual(self.files(), {str(rank): "23457" for rank in range(4)})

    def test_torchrun_03_underscores(self):
        self.run_job("--nnodes=1", "--nproc_per_node=4", "--master_addr=localhost", "--master_port=23457", "--node_rank=0", self.shell, self.out)
        self.assertEqual(self.files(), {str(rank): "23457" for rank in range(4)})

    def test_torchrun_04_shell_program(self):
        self.run_job("--nproc-per-node=4", "--no-python", self.shell, self.out)
        self.assert_ranks(4)

    def test_torchrun_05_no_python_with_module(self):
        self.run_job("--no-python", "--module", self.shell, self.out, code=2)
        self.assert_ranks(0)

    def test_torchrun_06_default_count(self):
        self.run_job("--no-python", self.shell, self.out)
        self.assert_ranks(1)

    PET = {"PET_NNODES": "1", "PET_NPROC_PER_NODE": "4", "PET_RDZV_ID": "X", "PET_MONITOR_INTERVAL": "1", "PET_START_METHOD": "spawn",
           "PET_NO_PYTHON": "1", "PET_MODULE": "0"}

    def test_torchrun_07_all_by_variables(self):
        self.run_job(self.shell, self.out, env=self.PET)
        self.assert_ranks(4)

    def test_torchrun_08_flag_by_variable(self):
        agent = self.run_job(self.shell, self.out, env={**self.PET, "PET_MODULE": "1"}, code=2)
        self.assertRegex(agent.err, "PET_MODULE and PET_NO_PYTHON exclude each other")
        self.assert_ranks(0)

    def test_torchrun_09_auto_without_accelerator(self):
        self.run_job("--nproc-per-node=auto", self.shell, self.out, env={"CUDA_VISIBLE_DEVICES": ""})
        self.assertGreaterEqual(len(os.sched_getaffinity(0)), len(self.files()))   # a cgroup's quota may make it fewer
        self.assert_ranks(len(self.files()))
        self.assertTrue(self.files())

    def test_torchrun_10_unknown_count(self):
        self.run_job("--nproc-per-node=unknown", self.shell, self.out, code=2)
        self.assert_ranks(0)

    def test_torchrun_11_gpus(self):
        for kind in "gpu", "auto":
            self.run_job(f"--nproc-per-node={kind}", self.shell, self.out, env={"CUDA_VISIBLE_DEVICES": "0,1,2"})
            self.assert_ranks(3)
            for path in self.out.iterdir():
                path.unlink()

    def test_torchrun_12_elastic_on_one_node(self):
        self.run_job("--nnodes=1:2", "--nproc-per-node=4", "--rdzv-backend=c10d", "--rdzv-endpoint=localhost:29501",
                     "--rdzv-conf='join_timeout=5,last_call_timeout=1,timeout=5'", self.shell, self.out)
        self.assert_ranks(4)

    def test_torchrun_14_15_60_two_at_once(self):
        """Standalone or with no option at all: no fixed port."""
        folders = [self.dir / str(n) for n in range(4)]
        agents = []
        for n, folder in enumerate(folders):
            folder.mkdir()
            option = ["--standalone"] if n < 2 else []
            agents.append(self.start([*option, "--nproc-per-node=4", self.shell, folder], env={"SENTINEL": "1"}))
        self.assert_codes(agents, 0)
        for folder in folders:
            self.assertEqual({path.name for path in folder.iterdir()}, set("0123"))

    def test_torchrun_16_run_path_is_refused(self):
        agent = self.run_job("--run-path", "--nproc-per-node=4", self.python, self.out, code=2)
        self.assertRegex(agent.err, "--run-path needs a Python interpreter.*leave it out")

    def test_torchrun_20_is_launched(self):
        self.run_job(self.worker, f"env:{self.dir}")
        facts, = self.worker_files().values()
        self.assertTrue(facts["env"]["TORCHELASTIC_RUN_ID"])

    def test_torchrun_22_abbreviation(self):
        agent = self.run_job("--nproc=2", "--stand", self.shell, self.out)
        self.assert_ranks(2)
        self.assertRegex(agent.err, "--stand is taken for --standalone")

    def test_torchrun_56_arguments_untouched(self):
        self.run_job(self.python, "--nnodes=9", "-r", "", "a b", "--", self.out)
        self.assertEqual(self.files(), {"0": "--nnodes=9\n-r\n\na b\n--"})

    def test_torchrun_57_macro(self):
        self.run_job("--nproc-per-node=2", self.python, "x${local_rank}", "${HOME}", "$$", self.out)
        self.assertEqual(self.files(), {"0": "x0\n${HOME}\n$$", "1": "x1\n${HOME}\n$$"})

    def test_torchrun_58_python_exec(self):
        python = self.dir / "py"
        python.write_text(f'#!/bin/sh\nprintf "%s\\n" "$@" >"{self.out}/argv"\n')
        python.chmod(0o755)
        self.run_job(self.python, "a", env={"PYTHON_EXEC": str(python)})
        self.assertEqual(self.files()["argv"].split("\n"), ["-u", str(self.python), "a", ""])

    def test_torchrun_63_usage_errors(self):
        for args in ([], ["--bogus", self.shell], ["--max-restarts=x", self.shell], ["--start-method=x", self.shell], ["--standalone=1", self.shell]):
            with self.subTest(args):
                agent = self.run_job(*args, code=2)
                self.assertTrue(agent.err)
                self.assertEqual(agent.out, "")


if __name__ == "__main__":
    harness.main()
