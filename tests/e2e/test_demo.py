# SPDX-License-Identifier: Apache-2.0
"""What scripts/demo shows is what happens, and with everything installed it needs neither root nor network."""
import re
import sys

import harness

JOB = str(harness.SOURCE / "scripts" / "demo_job.py")


class Demo(harness.Case):
    def demo(self, *what):
        """The part of scripts/demo behind installing and building, on this build. No torchrun: its part takes minutes."""
        return self.start([JOB, *what, "--bin-dir", harness.BIN_DIR, "--folder", self.dir / "demo"], program=sys.executable,
                          env={"XDG_CACHE_HOME": self.dir, "PATH": "/usr/bin:/bin"})

    def assert_trained(self, agent):
        rows = re.findall(r"^  (\d) +agent \d +testhost +\d+ +([0-9a-f]{16})$", agent.out, re.MULTILINE)
        self.assertEqual([rank for rank, _ in rows], ["0", "1", "2"])
        self.assertEqual(len({weights for _, weights in rows}), 1)
        self.assertIn("the loss fell: yes; the same weights on all ranks: yes", agent.out)

    def test_main_job(self):
        agent = self.demo()
        self.assertEqual(agent.code(120), 0)
        self.assert_trained(agent)
        self.assertIn("exit codes of the agents: 0 0 0", agent.out)
        self.assertIn("What to type next", agent.out)

    def test_failure(self):
        agent = self.demo("failure")
        self.assertEqual(agent.code(240), 0)
        self.assert_trained(agent)
        self.assertIn("exit codes of the agents that lived: 0 0 0", agent.out)
        self.assertRegex(agent.out, r"after the worker's death: resuming from train.snapshot: [23] of 6")
        self.assertRegex(agent.out, r"after the agent's death:  resuming from train.snapshot: [45] of 6")
        self.assertRegex(agent.out, r"3 of 3 agents name rank 1, pid \d+; exit codes \[137, 137, 137\]")
        self.assertIn("torchrun is not installed", agent.out)

    def test_wrong_argument(self):
        agent = self.start(["nonsense"], program=harness.SOURCE / "scripts" / "demo")
        self.assertEqual(agent.code(), 2)
        self.assertIn("scripts/demo failure", agent.err)

    def test_nothing_is_installed_twice(self):
        """No network is here, and no root asked: all the same it is content, and silent."""
        agent = self.start(["--user", harness.SOURCE / "scripts" / "install-deps", "test"], program="/usr/bin/unshare")
        self.assertEqual(agent.code(), 0)
        self.assertEqual(agent.out + agent.err, "")


if __name__ == "__main__":
    harness.main()
