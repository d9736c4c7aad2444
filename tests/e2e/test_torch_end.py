# SPDX-License-Identifier: Apache-2.0
"""The end of a job as PyTorch's own threads see it: the store outlives every worker that may still ask it."""
import os
import subprocess

import harness

SECONDS = 120  # an import of PyTorch on two cores

# What the process group's heartbeat thread does: asks the store again and again until its own worker ends.
SCRIPT = """
import datetime, os, pathlib, sys, time
folder, rank = pathlib.Path(sys.argv[1]), int(os.environ["RANK"])
if rank == 0:
    while not (folder / "polling").exists():
        time.sleep(0.01)
    sys.exit(0)
import torch.distributed as dist
store = dist.TCPStore(os.environ["MASTER_ADDR"], int(os.environ["MASTER_PORT"]), None, False, datetime.timedelta(seconds=60))
asked = left = 0
while left < 200:
    assert not store.check(["exception_dump"])
    asked += 1
    if asked == 1:
        (folder / "polling").touch()
    left += (folder / "rank0.gone").exists()
print("asked until the end")
"""


def python():
    """The interpreter that has PyTorch. Its absence is an error, not a skip."""
    named = os.environ.get("CXXRUN_TEST_PYTHON")
    return named or subprocess.run([harness.SOURCE / "scripts" / "torch-env", "--check"], check=True, text=True,
                                   stdout=subprocess.PIPE).stdout.strip()


class End(harness.Case):
    def test_store_outlives_rank_0(self):
        """E12: rank 0 has ended long ago; a client of another node still asks its agent's store, and is not reset."""
        nodes = self.nodes(2)
        script = self.dir / "poll.py"
        script.write_text(SCRIPT)
        agents = self.run_all(["--nnodes", "2", "--rdzv-endpoint", "10.77.0.1:29501", script, self.dir], nodes,
                              env={"PYTHON_EXEC": python()})
        self.wait_for_files("polling", seconds=SECONDS)
        harness.wait_until("rank 0 has ended", lambda: not [p for p in nodes[0].processes() if "poll.py" in harness.cmdline(p)
                                                            and "cxxrun " not in harness.cmdline(p)], SECONDS)
        self.assertTrue(agents[0].running())
        (self.dir / "rank0.gone").touch()
        self.assert_codes(agents, 0, SECONDS)
        self.assertIn("asked until the end", agents[1].out)
        self.assertNotRegex(agents[1].err, "(?i)reset|broken pipe")


if __name__ == "__main__":
    harness.main()
