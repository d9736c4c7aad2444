# SPDX-License-Identifier: Apache-2.0
"""Unmodified PyTorch on three nodes: a tiny GPT with Hydra, data loader processes and one folder for all nodes."""
import os
import re
import signal
import subprocess

import harness

SCRIPT = harness.SOURCE / "examples" / "ddp_gpt.py"
EPOCHS = 3
SECONDS = 240  # for a job: three imports of PyTorch on two cores take most of it


def python():
    """The interpreter that has PyTorch. Its absence is an error, not a skip."""
    named = os.environ.get("CXXRUN_TEST_PYTHON")
    return named or subprocess.run([harness.SOURCE / "scripts" / "torch-env", "--check"], check=True, text=True,
                                   stdout=subprocess.PIPE).stdout.strip()


class TinyGPT(harness.Case):
    def gpt(self, *settings, restarts=0):
        nodes = self.nodes(3)
        self.folder = self.dir / "shared"
        return self.run_all(["--nnodes", "3", "--nproc_per_node", "1", "--rdzv-endpoint", f"{nodes[0].address}:29501",
                             "--max-restarts", restarts, SCRIPT, f"run_dir={self.folder}", f"trainer.epochs={EPOCHS}",
                             *settings], nodes, env={"PYTHON_EXEC": python()})

    def assert_trained(self, agents):
        """The same weights everywhere, every epoch once and with less loss, the files of all ranks side by side."""
        weights = {}
        for agent in agents:
            weights.update(re.findall(r"\[rank (\d)\] done, weights ([0-9a-f]{16})", agent.out))
        self.assertEqual(sorted(weights), ["0", "1", "2"])
        self.assertEqual(len(set(weights.values())), 1, weights)
        losses = re.findall(rf"\[rank 0\] epoch (\d) of {EPOCHS}: loss ([0-9.]+)", agents[0].out)
        self.assertEqual([int(epoch) for epoch, _ in losses], list(range(1, EPOCHS + 1)))
        self.assertGreater(float(losses[0][1]), float(losses[-1][1]))
        self.assertEqual(sorted(path.name for path in self.folder.iterdir()),
                         [*(f"config.rank{r}" for r in range(3)), *(f"ddp_gpt.rank{r}.log" for r in range(3)), "snapshot.pt"])
        for rank, log in enumerate(sorted(self.folder.glob("*.log"))):
            lines = log.read_text().splitlines()
            self.assertTrue(all(f"[rank {rank}]" in line for line in lines), f"{log.name} is rank {rank}'s alone")
            self.assertIn("done, weights", lines[-1])

    def test_trains_to_the_end(self):
        agents = self.gpt()
        self.assert_codes(agents, 0, SECONDS)
        self.assert_trained(agents)

    def test_resumes_after_exit_7(self):
        agents = self.gpt("simulate_failure.epoch=2", restarts=1)
        self.assert_codes(agents, 0, 2 * SECONDS)
        self.assert_trained(agents)
        for agent in agents:
            self.assertRegex(agent.out, rf"resuming from the snapshot: 1 of {EPOCHS} epochs are done")

    def names_the_dead(self, signo, code, reason):
        """Killed from outside in mid-training: all nodes say who it was, and no data loader's process stays."""
        agents = self.gpt()
        greeting = agents[1].wait_for_line(r"rank 1 of 3: host hb, pid (\d+)", SECONDS)
        agents[0].wait_for_line(r"epoch 1 of", SECONDS)
        os.kill(int(greeting[1]), signo)
        self.assert_codes(agents, code, 60)
        for agent in agents:
            self.assertRegex(agent.err, rf"the job failed: rank 1 .*node hb, pid {greeting[1]}\).*{reason}", agent.label())

    def test_names_the_dead_of_sigkill(self):
        self.names_the_dead(signal.SIGKILL, 137, "SIGKILL")

    def test_names_the_dead_of_sigsegv(self):
        self.names_the_dead(signal.SIGSEGV, 139, "SIGSEGV")


if __name__ == "__main__":
    harness.main()
