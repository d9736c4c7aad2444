# SPDX-License-Identifier: Apache-2.0
"""Unmodified TorchX: its dist.ddp executes `torchrun`, which is a link to cxxrun here.

CXXRUN_TEST_TORCHX names the program `torchx` (pip install torchx==0.7.0); else it is looked for beside the tests' interpreter.
"""
import os
import pathlib
import subprocess
import sys

import harness

SCRIPT = """import os, sys
print("hello from", os.environ["RANK"], flush=True)
open(os.path.join(sys.argv[1], os.environ["RANK"]), "w").write(os.environ["WORLD_SIZE"])
sys.exit(int(sys.argv[2]))
"""


def torchx():
    """Its path; nothing where this environment has none."""
    named = os.environ.get("CXXRUN_TEST_TORCHX")
    if named:
        return named
    found = subprocess.run([harness.SOURCE / "scripts" / "torch-env", "--check"], text=True, stdout=subprocess.PIPE,
                           stderr=subprocess.DEVNULL)
    beside = pathlib.Path(found.stdout.strip() or sys.executable).parent / "torchx"
    return str(beside) if beside.exists() else None


class DistDdp(harness.Case):
    def run_job(self, code):
        program = torchx()
        if program is None:
            self.skipTest("no torchx beside the tests' PyTorch, and no CXXRUN_TEST_TORCHX")
        folder, out = self.dir / "bin", self.dir / "out"
        folder.mkdir()
        out.mkdir()
        (folder / "torchrun").symlink_to(os.path.realpath(harness.CXXRUN))
        (self.dir / "job.py").write_text(SCRIPT)
        agent = self.start(["run", "--scheduler", "local_cwd", "--scheduler_args", "prepend_cwd=False", "--wait", "--log",
                            "dist.ddp", "-j", "1x2", "--script", "job.py", "--", out, code],
                           program=program, env={"PATH": f"{folder}:/usr/bin:/bin"})
        return agent, out

    def test_success(self):
        agent, out = self.run_job(0)
        self.assertEqual(agent.code(120), 0, agent.transcript())
        self.assertEqual({path.name: path.read_text() for path in out.iterdir()}, {"0": "2", "1": "2"})
        self.assertRegex(agent.out + agent.err, "hello from 1")

    def test_failure(self):
        agent, _ = self.run_job(3)
        self.assertNotEqual(agent.code(120), 0, agent.transcript())
        self.assertRegex(agent.out + agent.err, "ended with exit code 3")


if __name__ == "__main__":
    harness.main()
