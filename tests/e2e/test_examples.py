# SPDX-License-Identifier: Apache-2.0
"""The native example on three nodes: trains to the end, goes on from its snapshot after a death, or says who died."""
import re

import harness

TRAIN = str(harness.BIN_DIR / "train")
EPOCHS = 5
DEATHS = [("7", 7, "exit code 7"), ("SIGKILL", 137, "signal 9 (SIGKILL)"), ("SIGSEGV", 139, "signal 11 (SIGSEGV)")]


def matches(pattern, agents):
    """All matches in what the agents printed: {groups[0] as a number: the other groups}."""
    found = {}
    for agent in agents:
        for match in re.finditer(pattern, agent.out, re.MULTILINE):
            number, *others = match.groups()
            found.setdefault(int(number), []).append(tuple(others))
    return found


class Train(harness.Case):
    def train(self, *options, restarts=0, port=29501, snapshot="snapshot"):
        nodes = self._nodes or self.nodes(3)
        return self.run_all(["--nnodes", "3", "--nproc_per_node", "1", "--rdzv-endpoint", f"{nodes[0].address}:{port}",
                             "--max-restarts", restarts, TRAIN, "--epochs", EPOCHS, "--snapshot", self.dir / snapshot,
                             *options], nodes)

    def weights(self, agents):
        """The fingerprint that all ranks ended with."""
        found = matches(r"^rank (\d+): done, weights ([0-9a-f]{16})$", agents)
        self.assertEqual(sorted(found), [0, 1, 2])
        self.assertEqual({len(each) for each in found.values()}, {1})
        fingerprints = {each[0][0] for each in found.values()}
        self.assertEqual(len(fingerprints), 1, found)
        return fingerprints.pop()

    def losses(self, agents):
        """{epoch: loss}, each epoch's once."""
        found = matches(rf"^rank 0: epoch (\d+) of {EPOCHS}: loss ([0-9.]+) ", agents)
        for epoch, each in found.items():
            self.assertEqual(len(each), 1, f"epoch {epoch} was trained twice: {each}")
        return {epoch: float(each[0][0]) for epoch, each in found.items()}

    def greetings(self, agents):
        """{(rank, attempt): (host, pid)}"""
        found = {}
        for agent in agents:
            for match in re.finditer(r"^rank (\d+) of 3: host (\S+), pid (\d+), attempt (\d+)$", agent.out, re.MULTILINE):
                found[int(match[1]), int(match[4])] = (match[2], int(match[3]))
        return found

    def test_trains_to_the_end(self):
        agents = self.train()
        self.assert_codes(agents, 0, seconds=60)
        self.weights(agents)
        losses = self.losses(agents)
        self.assertEqual(sorted(losses), list(range(1, EPOCHS + 1)))
        self.assertEqual(list(losses.values()), sorted(losses.values(), reverse=True), "the loss falls in every epoch")
        self.assertLess(losses[EPOCHS], 2.0)
        self.assertEqual({key: host for key, (host, _) in self.greetings(agents).items()},
                         {(0, 0): "ha", (1, 0): "hb", (2, 0): "hc"})
        self.assertEqual(sorted(p.name for p in self.dir.glob("snapshot*")), ["snapshot"])

    def resumes(self, how, rank):
        agents = self.train("--die-at", f"3:{rank}:{how}", restarts=1)
        self.assert_codes(agents, 0, seconds=90)
        self.assertIn(f"resuming from {self.dir}/snapshot: 2 of {EPOCHS} epochs are done", agents[0].out)
        self.assertEqual(sorted(self.losses(agents)), list(range(1, EPOCHS + 1)))
        greetings = self.greetings(agents)
        self.assertEqual(sorted(greetings), [(r, attempt) for r in range(3) for attempt in range(2)])
        self.assertEqual(len({pid for _, pid in greetings.values()}), 6, "all workers were replaced")
        for agent in agents:
            self.assertRegex(agent.err, rf"rank {rank}\b")
        return self.weights(agents)

    def test_resumes_after_exit_7(self):
        self.resumes("7", 1)

    def test_resumes_after_sigkill_with_the_same_result(self):
        """The weights at the end are those of a run that nobody disturbed, bit by bit."""
        disturbed = self.resumes("SIGKILL", 1)
        undisturbed = self.train(port=29502, snapshot="other")
        self.assert_codes(undisturbed, 0, seconds=60)
        self.assertEqual(self.weights(undisturbed), disturbed)

    def test_resumes_after_sigsegv(self):
        self.resumes("SIGSEGV", 2)

    def test_resumes_after_the_death_of_rank_0(self):
        """The one that writes the snapshot, on the node that hosts the rendezvous and the store."""
        self.resumes("SIGKILL", 0)

    def test_names_the_dead(self):
        """No restart left: the same rank, host, pid, reason, last words and exit code on every node."""
        for number, (how, code, reason) in enumerate(DEATHS):
            with self.subTest(how):
                agents = self.train("--die-at", f"2:1:{how}", port=29510 + number, snapshot=f"snapshot{number}")
                self.assert_codes(agents, code, seconds=60)
                host, pid = self.greetings(agents)[1, 0]
                for agent in agents:
                    cause = re.search(r"^cxxrun: the job failed: rank (\d+) .*$", agent.err, re.MULTILINE)
                    self.assertIsNotNone(cause, agent.err)
                    self.assertEqual(cause[1], "1")
                    for fact in (f"node {host},", f"pid {pid})", reason):
                        self.assertIn(fact, cause[0], agent.label())
                    self.assertIn("rank 1: ending here, in the middle of epoch 2", agent.err, agent.label())

    def test_own_failure_is_told_in_words(self):
        """A worker that cannot go on writes an error record: its sentence is the reason on every node."""
        (self.dir / "snapshot").write_bytes(b"no snapshot at all")
        agents = self.train()
        self.assert_codes(agents, 1, seconds=60)
        for agent in agents:
            self.assertIn(f"SnapshotError: snapshot {self.dir}/snapshot is damaged, or is no snapshot", agent.err)


class Alone(harness.Case):
    def test_two_ranks_on_this_machine(self):
        agent = self.start(["--standalone", "--nproc_per_node", "2", TRAIN, "--epochs", "1"])
        self.assertEqual(agent.code(60), 0)
        found = set(re.findall(r"rank \d: done, weights ([0-9a-f]{16})", agent.out))
        self.assertEqual(len(found), 1, agent.out)
        self.assertTrue((self.dir / "train.snapshot").exists())

    def test_started_without_a_launcher(self):
        agent = self.start([], program=TRAIN)
        self.assertEqual(agent.code(), 2)
        self.assertIn("WORLD_SIZE is not set: start this program with cxxrun (or torchrun)", agent.err)


if __name__ == "__main__":
    harness.main()
