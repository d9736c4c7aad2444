# SPDX-License-Identifier: Apache-2.0
"""The other names of the program: cxxrun-launch (torch.distributed.launch) and torchrun (a link)."""
import pathlib

import harness

SCRIPT = """import os, sys
open(os.path.join(sys.argv[-1], os.environ["RANK"]), "w").write("\\n".join(sys.argv[1:-1]))
"""


class Names(harness.Case):
    def script(self):
        path = self.dir / "script.py"
        path.write_text(SCRIPT)
        (self.dir / "out").mkdir()
        return path

    def arguments(self):
        return {path.name: path.read_text() for path in (self.dir / "out").iterdir()}

    def launch(self, *args):
        return self.start(args, program=str(harness.BIN_DIR / "cxxrun-launch"))

    def test_torchrun_27_launch_without_use_env(self):
        agent = self.launch("--nproc-per-node=4", self.script(), "--x", self.dir / "out")
        self.assertEqual(agent.code(), 0, agent.transcript())
        self.assertEqual(self.arguments(), {str(i): f"--local-rank={i}\n--x" for i in range(4)})
        self.assertRegex(agent.err, "deprecated")

    def test_torchrun_28_launch_with_use_env(self):
        agent = self.launch("--use-env", "--nproc-per-node=4", self.script(), "--x", self.dir / "out")
        self.assertEqual(agent.code(), 0, agent.transcript())
        self.assertEqual(self.arguments(), {str(i): "--x" for i in range(4)})

    def test_launch_needs_use_env_for_a_program(self):
        agent = self.launch("--no-python", self.worker)
        self.assertEqual(agent.code(), 2)
        self.assertRegex(agent.err, "--no-python needs --use-env")
        agent = self.start(["--use-env", self.worker])
        self.assertEqual(agent.code(), 2)
        self.assertRegex(agent.err, "cxxrun-launch")

    def test_a_link_called_torchrun(self):
        """An image needs one link and no changed manifest."""
        folder = self.dir / "bin"
        folder.mkdir()
        (folder / "torchrun").symlink_to(pathlib.Path(harness.CXXRUN).resolve())
        env = {"PATH": f"{folder}:/usr/bin:/bin"}
        script = self.script()
        agent = self.start(["--nnodes", "1", "--nproc_per_node", "2", "--rdzv-backend", "c10d", "--rdzv-endpoint", "localhost:0",
                            script, "--local", self.dir / "out"], program="torchrun", env=env)
        self.assertEqual(agent.code(), 0, agent.transcript())
        self.assertEqual(self.arguments(), {"0": "--local", "1": "--local"})
        agent = self.start(["--version"], program="torchrun", env=env)
        self.assertRegex(agent.wait_for_line("cxxrun").string, r"^cxxrun \d")


if __name__ == "__main__":
    harness.main()
