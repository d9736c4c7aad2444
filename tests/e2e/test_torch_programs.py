# SPDX-License-Identifier: Apache-2.0
"""Programs as PyTorch's users write them, with an unmodified PyTorch: @record, collectives, multiprocessing."""
import os
import signal
import subprocess

import harness

SECONDS = 150  # several imports of PyTorch on two cores

ELASTIC = """
import os, pathlib, sys
import torch
import torch.distributed as dist
from torch.distributed.elastic.multiprocessing.errors import record
from torch.nn.parallel import DistributedDataParallel

SNAPSHOT = pathlib.Path(sys.argv[1]) / "snapshot.pt"

@record
def main():
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    torch.manual_seed(0)
    model = DistributedDataParallel(torch.nn.Linear(4, 1))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
    epoch = 0
    if SNAPSHOT.exists():
        saved = torch.load(SNAPSHOT)
        epoch = saved["epoch"]
        model.module.load_state_dict(saved["model"])
        print(f"rank {rank} resumes at epoch {epoch}", flush=True)
    while epoch < 4:
        x = torch.full((8, 4), 1.0 + rank)
        loss = (model(x) - 1).pow(2).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        epoch += 1
        if rank == 0:
            torch.save({"epoch": epoch, "model": model.module.state_dict()}, str(SNAPSHOT) + ".new")
            os.replace(str(SNAPSHOT) + ".new", SNAPSHOT)
        dist.barrier()
        if epoch == 2 and rank == 1 and os.environ["TORCHELASTIC_RESTART_COUNT"] == "0":
            raise RuntimeError("shard 17 cannot be read")
    print(f"rank {rank} ends at epoch {epoch} with {sum(p.sum().item() for p in model.parameters()):.6f}", flush=True)
    dist.destroy_process_group()

if __name__ == "__main__":
    main()
"""

# Both of the usual ways to meet, then groups: all pairs of odd and even ranks, and one of a single rank.
GROUPS = """
import datetime, os, sys
import torch
import torch.distributed as dist

rank, world = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
if sys.argv[1] == "tcp":
    dist.init_process_group("gloo", init_method=sys.argv[2], rank=rank, world_size=world)
else:
    dist.init_process_group("gloo")
def total(group=None):
    value = torch.tensor([rank + 1])
    dist.all_reduce(value, group=group)
    return value.item()
assert total() == world * (world + 1) // 2
parts = [dist.new_group(list(range(first, world, 2))) for first in (0, 1)]
assert total(parts[rank % 2]) == sum(r + 1 for r in range(rank % 2, world, 2))
alone = dist.new_group([0])
if rank == 0:
    assert total(alone) == 1
dist.monitored_barrier(timeout=datetime.timedelta(seconds=120))
print(f"rank {rank} met {world}", flush=True)
dist.destroy_process_group()
"""

ABSENT = """
import datetime, time
import torch.distributed as dist
from torch.distributed.elastic.multiprocessing.errors import record

@record
def main():
    dist.init_process_group("gloo")
    if dist.get_rank() == 1:
        time.sleep(1000)
    dist.monitored_barrier(timeout=datetime.timedelta(seconds=1))

main()
"""

TIMER = """
import os, time
import torch.distributed.elastic.timer as timer
timer.configure(timer.FileTimerClient(os.environ["TORCHELASTIC_TIMER_FILE"]))
with timer.expires(after=600):
    print("released in time", flush=True)
with timer.expires(after=0.5):
    time.sleep(1000)
"""

# Local rank n has the n-th way to start a child; each child says its pid and stays.
CHILDREN = """
import os, pathlib, sys, time
FOLDER = pathlib.Path(sys.argv[1])
WAYS = [(api, method) for api in ("Process", "spawn") for method in ("spawn", "fork", "forkserver")]

def child(index, name):
    (FOLDER / f"{name}.new").write_text(str(os.getpid()))
    os.rename(FOLDER / f"{name}.new", FOLDER / name)
    time.sleep(1000)

def main():
    import torch.multiprocessing as mp
    api, method = WAYS[int(os.environ["LOCAL_RANK"])]
    name = f"{api}.{method}"
    if api == "spawn":
        mp.start_processes(child, args=(name,), nprocs=1, start_method=method)  # what mp.spawn() calls
        return 0
    process = mp.get_context(method).Process(target=child, args=(0, name))
    process.start()
    process.join()
    return 3

if __name__ == "__main__":
    sys.exit(main())
"""


def python():
    """The interpreter that has PyTorch. Its absence is an error, not a skip."""
    named = os.environ.get("CXXRUN_TEST_PYTHON")
    return named or subprocess.run([harness.SOURCE / "scripts" / "torch-env", "--check"], check=True, text=True,
                                   stdout=subprocess.PIPE).stdout.strip()


class TorchCase(harness.Case):
    def program(self, text):
        path = self.dir / "program.py"
        path.write_text(text)
        return path

    def launch(self, args, **options):
        return self.start(args, env={"PYTHON_EXEC": python(), "OMP_NUM_THREADS": "1", **options.pop("env", {})}, **options)


class Elastic(TorchCase):
    def test_torchrun_61_record_and_resume(self):
        """@record's file becomes our report; the next round goes on from the snapshot."""
        agent = self.launch(["--standalone", "--nproc_per_node", "2", "--max_restarts", "1", self.program(ELASTIC), self.dir])
        self.assertEqual(agent.code(SECONDS), 0)
        for rank in (0, 1):
            self.assertIn(f"rank {rank} resumes at epoch 2", agent.out)
        ends = {line.split(" with ")[1] for line in agent.out.splitlines() if " ends at epoch 4 with " in line}
        self.assertEqual(len(ends), 1, agent.out)
        self.assertIn("RuntimeError: shard 17 cannot be read", agent.err)
        self.assertRegex(agent.err, r"rank 1\b")

    def test_traceback_of_record_is_in_the_report(self):
        agent = self.launch(["--standalone", "--nproc_per_node", "2", self.program(ELASTIC), self.dir])
        self.assertEqual(agent.code(SECONDS), 1)
        report = agent.err[agent.err.index("cxxrun: the job failed"):]
        self.assertIn("RuntimeError: shard 17 cannot be read", report)
        self.assertRegex(report, r'program\.py", line \d+, in main')


class Collectives(TorchCase):
    def test_torchrun_26_env_and_new_groups(self):
        agent = self.launch(["--standalone", "--nproc_per_node", "3", self.program(GROUPS), "env"])
        self.assertEqual(agent.code(SECONDS), 0)
        for rank in range(3):
            self.assertIn(f"rank {rank} met 3", agent.out)

    def test_torchrun_26_tcp(self):
        """The store of MASTER_PORT by its address."""
        agent = self.launch(["--nproc_per_node", "2", "--master_addr", "localhost", "--master_port", "29555",
                             self.program(GROUPS), "tcp", "tcp://localhost:29555"])
        self.assertEqual(agent.code(SECONDS), 0)
        for rank in range(2):
            self.assertIn(f"rank {rank} met 2", agent.out)

    def test_monitored_barrier_names_who_did_not_come(self):
        agent = self.launch(["--standalone", "--nproc_per_node", "2", self.program(ABSENT)])
        self.assertEqual(agent.code(SECONDS), 1)
        report = agent.err[agent.err.index("cxxrun: the job failed"):]
        self.assertRegex(report, r"(?i)rank 1 failed to pass monitoredBarrier")
        self.assertRegex(report, r"(?s)rank 0\b.*rank 1\b.*SIGTERM", "who failed, then who was stopped")


class Watchdog(TorchCase):
    def test_file_timer_client(self):
        agent = self.launch(["--standalone", self.program(TIMER)], env={"TORCHELASTIC_ENABLE_FILE_TIMER": "1"})
        self.assertEqual(agent.code(SECONDS), 137)
        self.assertIn("released in time", agent.out)
        self.assertRegex(agent.err, r"it hung: its timer \S.* expired, so it got SIGKILL")


class Children(TorchCase):
    """Processes that a worker starts by torch.multiprocessing, each way at once; what is left at the end is looked at by tearDown."""

    WAYS = [f"{api}.{method}" for api in ("Process", "spawn") for method in ("spawn", "fork", "forkserver")]

    def begin(self):
        agent = self.launch(["--standalone", "--nproc_per_node", str(len(self.WAYS)), self.program(CHILDREN), self.dir])
        self.wait_for_files(*self.WAYS, seconds=SECONDS)
        # Else the tests would not see what multiprocessing itself starts.
        lines = [harness.cmdline(pid) for pid in self.left()]
        self.assertTrue([line for line in lines if "resource_tracker" in line], lines)
        self.assertTrue([line for line in lines if "forkserver" in line], lines)
        return agent, [int((self.dir / way).read_text()) for way in self.WAYS]

    def test_children_killed(self):
        agent, children = self.begin()
        for pid in children:
            harness.kill(pid)
        self.assertIn(agent.code(SECONDS), (1, 3))

    def test_worker_killed(self):
        agent, children = self.begin()
        harness.kill(harness.stat(children[0])[1])
        self.assertEqual(agent.code(SECONDS), 137)

    def test_agent_killed(self):
        agent, _ = self.begin()
        harness.kill(agent.inner())
        self.assertEqual(agent.code(SECONDS), 137)

    def test_all_of_cxxrun_killed(self):
        """As by an operator's `kill -9` of the process that they see."""
        agent, _ = self.begin()
        harness.kill(agent.pid)
        self.assertEqual(agent.code(SECONDS), 137)

    def test_stopped(self):
        agent, _ = self.begin()
        agent.signal(signal.SIGTERM)
        self.assertEqual(agent.code(SECONDS), 143)


if __name__ == "__main__":
    harness.main()
