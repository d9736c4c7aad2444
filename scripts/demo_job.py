# SPDX-License-Identifier: Apache-2.0
"""What scripts/demo shows: a job of three agents on this machine, undisturbed or with failures. Run by scripts/demo."""
import argparse
import os
import pathlib
import re
import shutil
import signal
import socket
import subprocess
import sys
import threading
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent
BIN = ROOT / "build" / "release" / "bin"
FOLDER = ROOT / "build" / "demo"
PATIENCE = 120  # seconds until a step of the demo counts as hanging; says nothing about speed
EPOCHS = 6
SCREEN = threading.Lock()  # a line of one agent never stands inside another's


class DemoError(Exception):
    """Something did not go as shown here; the text says what."""


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


class Agent:
    """One started line; its output is read, kept with the time of each line, and shown."""

    def __init__(self, name, command, folder, show):
        self.name, self.show = name, show
        self.lines = []
        environment = {**os.environ, "PATH": f"{BIN}:{os.environ.get('PATH', '')}", "OMP_NUM_THREADS": "1"}
        self.process = subprocess.Popen(command, cwd=folder, env=environment, stdin=subprocess.DEVNULL,
                                        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace")
        self.reader = threading.Thread(target=self._read, daemon=True)
        self.reader.start()

    def _read(self):
        for line in self.process.stdout:
            line = line.rstrip("\n")
            self.lines.append((time.monotonic(), line))
            if self.show:
                with SCREEN:
                    print(f"  {self.name} | {line}", flush=True)

    def find(self, pattern, since=0.0):
        """All matches in the lines from then on."""
        return [m for m in (re.search(pattern, line) for at, line in list(self.lines) if at >= since) if m]

    def code(self):
        """The exit code as a shell shows it; nothing while it runs."""
        code = self.process.poll()
        return code if code is None or code >= 0 else 128 - code


class Job:
    """Three agents, each started with the same line."""

    def __init__(self, line, folder, show=True):
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
        self.line, self.folder, self.show = line, folder, show
        self.agents = []
        for _ in range(3):
            self.add()

    def add(self):
        agent = Agent(f"agent {len(self.agents) + 1}", self.line.split(), self.folder, self.show)
        self.agents.append(agent)
        return agent

    def wait(self, what, condition, seconds=PATIENCE):
        """Waits until condition() is true and returns its value."""
        end = time.monotonic() + seconds
        while True:
            value = condition()
            if value:
                return value
            if time.monotonic() > end:
                raise DemoError(f"not within {seconds} s: {what}")
            time.sleep(0.01)

    def wait_for_line(self, pattern, since=0.0, seconds=PATIENCE):
        return self.wait(f"a line like '{pattern}'",
                         lambda: [m for agent in self.agents for m in agent.find(pattern, since)], seconds)[0]

    def wait_for_ends(self, agents=None, seconds=PATIENCE):
        agents = agents or self.agents
        self.wait("all agents have ended", lambda: all(a.code() is not None for a in agents), seconds)
        for agent in agents:
            agent.reader.join(2)
        return [agent.code() for agent in agents]

    def workers(self, since=0.0):
        """{rank: (agent, host, pid)} of the last attempt."""
        found = {}
        for agent in self.agents:
            for match in agent.find(r"rank (\d+) of \d+: host (\S+), pid (\d+), attempt", since):
                found[int(match[1])] = (agent, match[2], int(match[3]))
        return found

    def losses(self):
        return sorted({(int(m[1]), float(m[2])) for a in self.agents for m in a.find(r"epoch (\d+) of \d+: loss ([0-9.]+)")})

    def weights(self):
        return {int(m[1]): m[2] for a in self.agents for m in a.find(r"rank (\d+): done, weights ([0-9a-f]+)")}

    def close(self):
        for _, _, pid in self.workers().values():  # a killed torchrun leaves its worker behind
            if b"/train" in command_line(pid) or b"train\0" in command_line(pid):
                os.kill(pid, signal.SIGKILL)
        for agent in self.agents:
            if agent.code() is None:
                agent.process.terminate()
        for agent in self.agents:
            try:
                agent.process.wait(15)
            except subprocess.TimeoutExpired:
                agent.process.kill()


def command_line(pid):
    try:
        return pathlib.Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return b""


def show_line(line):
    print(f"\nThree agents on this machine, each started with the same line:\n\n  {line}\n", flush=True)


def show_result(job, seconds):
    """Who ran where, the loss, the weights. Raises when they are not as they must be."""
    workers, weights, losses = job.workers(), job.weights(), job.losses()
    print(f"\nResult after {seconds:.1f} s\n")
    print("  rank  started by  host            pid      weights at the end")
    for rank, (agent, host, pid) in sorted(workers.items()):
        print(f"  {rank:<5} {agent.name:<11} {host:<15} {pid:<8} {weights.get(rank, '(none)')}")
    print("\n  epoch  loss")
    for epoch, loss in losses:
        print(f"  {epoch:<6} {loss:.4f} {'#' * round(loss * 16)}")
    same = len(weights) == 3 and len(set(weights.values())) == 1
    falling = len(losses) > 1 and losses[-1][1] < losses[0][1]
    print(f"\n  the loss fell: {'yes' if falling else 'NO'}; the same weights on all ranks: {'yes' if same else 'NO'}")
    if not (same and falling):
        raise DemoError("the ranks did not train one model")


def cxxrun_line(port, restarts, train):
    budget = f" --max-restarts {restarts}" if restarts else ""
    return f"cxxrun --nnodes 3 --nproc_per_node 1 --rdzv-endpoint 127.0.0.1:{port}{budget} {train}"


def demo():
    line = cxxrun_line(free_port(), 0, f"train --epochs {EPOCHS}")
    show_line(line)
    began = time.monotonic()
    job = Job(line, FOLDER / "train")
    try:
        codes = job.wait_for_ends()
        show_result(job, time.monotonic() - began)
    finally:
        job.close()
    print(f"  exit codes of the agents: {' '.join(map(str, codes))}")
    if codes != [0, 0, 0]:
        raise DemoError("an agent did not end with 0")
    print(f"""
What to type next

  scripts/demo failure
      a worker and then an agent are killed in mid-training: what every node says, and how the job goes on
  export PATH={BIN}:$PATH
  cxxrun --standalone --nproc_per_node 2 train
      the same program on this machine alone, two ranks
  cxxrun --nnodes 3 --nproc_per_node 1 --rdzv-endpoint HOST:PORT train
      on three machines, the same line on each; HOST is one of them
  cxxrun --help
  scripts/test
      every test, PyTorch's included
""")


def kill(what, pid):
    with SCREEN:
        print(f"\n  >>> kill -9 {pid}: {what}\n", flush=True)
    os.kill(pid, signal.SIGKILL)
    return time.monotonic()


def worker_and_agent_die():
    """One job: a worker is killed, then an agent; a new agent takes its place; the job ends well."""
    line = cxxrun_line(free_port(), 1, f"train --epochs {EPOCHS} --slow 10")
    print("\n== A worker dies, then an agent. One restart is allowed.")
    show_line(line)
    began = time.monotonic()
    job = Job(line, FOLDER / "failure")
    try:
        job.wait_for_line(r"epoch 2 of")
        killed = kill("the worker with rank 1", job.workers()[1][2])
        resumed = job.wait_for_line(r"rank 0: (resuming .*)", killed)[1]
        job.wait_for_line(r"epoch 4 of", killed)
        victim, _, orphan = job.workers(killed)[2]
        killed = kill(f"{victim.name}, the one that runs rank 2", victim.process.pid)
        job.wait("the killed agent's worker is gone too", lambda: not command_line(orphan))
        with SCREEN:
            print(f"\n  >>> its worker (pid {orphan}) ended with it; now the same line again, as on a replacement machine\n")
        job.add()
        again = job.wait_for_line(r"rank 0: (resuming .*)", killed)[1]
        codes = job.wait_for_ends([agent for agent in job.agents if agent is not victim])
        show_result(job, time.monotonic() - began)
        print(f"  exit codes of the agents that lived: {' '.join(map(str, codes))}")
        print(f"  after the worker's death: {resumed}\n  after the agent's death:  {again}")
        if codes != [0, 0, 0]:
            raise DemoError("an agent did not end with 0")
    finally:
        job.close()


def report_of_all():
    """No restart allowed: what each agent says at the end, and its exit code."""
    line = cxxrun_line(free_port(), 0, f"train --epochs {EPOCHS} --slow 10")
    print("\n== A worker dies, and no restart is allowed: the report of each agent")
    show_line(line)
    job = Job(line, FOLDER / "report", show=False)
    try:
        job.wait_for_line(r"epoch 2 of")
        pid = job.workers()[1][2]
        killed = kill("the worker with rank 1", pid)
        codes = job.wait_for_ends()
        seconds = time.monotonic() - killed
        for agent, code in zip(job.agents, codes):
            print(f"  {agent.name} ended with {code}. It said:")
            for at, text in agent.lines:
                if at >= killed:
                    print(f"      {text}")
        named = sum(bool(agent.find(rf"rank 1 .*pid {pid}\)")) for agent in job.agents)
        print(f"\n  {named} of 3 agents name rank 1, pid {pid}; exit codes {codes}; {seconds:.2f} s from the kill to the last end")
        return {"codes": codes, "named": named, "seconds": seconds}
    finally:
        job.close()


def torchrun_program():
    """The torchrun to compare with: in PATH, or that of the tests' environment. Nothing if there is none."""
    found = shutil.which("torchrun")
    if found:
        return found
    asked = subprocess.run([ROOT / "scripts" / "torch-env", "--check"], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
                           text=True, check=False)
    beside = pathlib.Path(asked.stdout.strip() or "/nonexistent").with_name("torchrun")
    return str(beside) if asked.returncode == 0 and beside.exists() else None


def torchrun_worker_dies(line):
    job = Job(line(0), FOLDER / "torchrun-worker", show=False)
    try:
        print("  a worker dies, no restart is allowed ...", flush=True)
        job.wait_for_line(r"epoch 2 of")
        pid = job.workers()[1][2]
        killed = time.monotonic()
        os.kill(pid, signal.SIGKILL)
        codes = job.wait_for_ends(seconds=60)
        seconds = time.monotonic() - killed
        named = 0
        for agent in job.agents:
            roots = agent.find(r"rank\s*: (\d+) \(local_rank")
            if roots and roots[-1][1] == "1":
                named += 1
        return {"codes": codes, "named": named, "seconds": seconds}
    finally:
        job.close()


def torchrun_agent_dies(line):
    """What has become of the job a bounded time after an agent's death."""
    job = Job(line(1), FOLDER / "torchrun-agent", show=False)
    try:
        print("  an agent dies, one restart is allowed, the same line is typed again ...", flush=True)
        job.wait_for_line(r"epoch 2 of")
        victim, _, orphan = job.workers()[2]
        killed = time.monotonic()
        victim.process.kill()
        victim.process.wait()
        time.sleep(1)  # nothing to wait for: does its worker stay?
        stays = bool(command_line(orphan))
        job.add()
        others = [agent for agent in job.agents if agent is not victim]
        try:
            codes = job.wait_for_ends(others, seconds=60)
            outcome = f"exit codes {codes} after {time.monotonic() - killed:.0f} s"
        except DemoError:
            outcome = "still not ended after 60 s"
        return {"orphan": "still running 1 s later, with nobody to watch it" if stays else "ended too",
                "outcome": outcome, "trained": len(job.weights()) == 3}
    finally:
        job.close()


def compare(ours):
    torchrun = torchrun_program()
    if not torchrun:
        print("\n(torchrun is not installed; scripts/torch-env installs one, then this demo runs it beside cxxrun.)")
        return
    print(f"\n== The same faults under torchrun ({torchrun})\n")

    def line(restarts):
        return (f"{torchrun} --nnodes 3 --nproc_per_node 1 --rdzv-backend c10d --rdzv-id demo --max-restarts {restarts} "
                f"--rdzv-endpoint 127.0.0.1:{port} --no-python {BIN}/train --epochs {EPOCHS} --slow 10")

    port = free_port()
    theirs = torchrun_worker_dies(line)
    port = free_port()
    agent = torchrun_agent_dies(line)
    print(f"""
  a worker is killed, no restart          cxxrun             torchrun
    agents that name the one that died    {ours['named']} of 3             {theirs['named']} of 3
    exit codes                            {' '.join(map(str, ours['codes'])):<18} {' '.join(map(str, theirs['codes']))}
    from the kill to the last end         {f"{ours['seconds']:.2f} s":<18} {theirs['seconds']:.2f} s

  an agent is killed, one restart
    its worker                            cxxrun:   ended with it
                                          torchrun: {agent['orphan']}
    the job, the line typed again         cxxrun:   went on from the snapshot to the end, exit codes 0
                                          torchrun: {agent['outcome']}; all ranks trained to the end: {'yes, the orphan too' if agent['trained'] else 'no'}
""")


def main():
    global BIN, FOLDER
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("what", nargs="?", choices=["train", "failure"], default="train")
    parser.add_argument("--bin-dir", type=pathlib.Path, default=BIN, help="where cxxrun and train are")
    parser.add_argument("--folder", type=pathlib.Path, default=FOLDER, help="where the jobs write")
    chosen = parser.parse_args()
    BIN, FOLDER = chosen.bin_dir, chosen.folder
    try:
        if chosen.what == "failure":
            worker_and_agent_die()
            ours = report_of_all()
            compare(ours)
        else:
            demo()
    except DemoError as error:
        print(f"\nscripts/demo: {error}\nWhat was written: {FOLDER}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        return 130
    return 0


if __name__ == "__main__":
    sys.exit(main())
