# SPDX-License-Identifier: Apache-2.0
"""CPUs and devices of each worker. Numbers are those of torchrun's behaviour in the notes for developers."""
import json
import os
import pathlib

import harness

CPUS = sorted(os.sched_getaffinity(0))


def folder_over(source, target):
    """A command prefix: what follows sees `source` in the place of `target`."""
    return ["unshare", "--mount", "sh", "-c", f'mount --bind "{source}" "{target}" && exec "$@"', "sh"]


def cpus_of(text):
    """{0, 1, 2, 8} of the kernel's "0-2,8"."""
    ends = [part.split("-") for part in text.strip().split(",")]
    return {cpu for end in ends for cpu in range(int(end[0]), int(end[-1]) + 1)}


class Devices(harness.Case):
    def workers(self, args, seconds=30, **env):
        agent = self.start([*args, self.worker, "print:local ${local_rank}", f"env:{self.dir}"], env=env)
        self.assertEqual(agent.code(seconds), 0)
        return agent, {rank: facts["env"] for (_, rank), facts in self.worker_files().items()}

    def test_24_virtual_local_rank(self):
        agent, envs = self.workers(["--standalone", "--virtual-local-rank", "--nproc-per-node=2"],
                                   CUDA_VISIBLE_DEVICES="5, 7")
        self.assertEqual([(envs[rank]["RANK"], envs[rank]["LOCAL_RANK"], envs[rank]["CUDA_VISIBLE_DEVICES"])
                          for rank in (0, 1)], [("0", "0", "5"), ("1", "0", "7")])
        self.assertEqual(sorted(agent.out.splitlines()), ["[rank0]: local 0", "[rank1]: local 1"])
        self.assertEqual(len({env["TORCHELASTIC_ERROR_FILE"] for env in envs.values()}), 2)

    def test_25_virtual_local_rank_with_too_few_devices(self):
        agent = self.start(["--standalone", "--virtual-local-rank", "--nproc-per-node=2", self.worker,
                            f"touch:{self.dir}/started"], env={"CUDA_VISIBLE_DEVICES": "5"})
        self.assertEqual(agent.code(), 2)
        self.assertIn("local rank 1 has no device: CUDA_VISIBLE_DEVICES=5 has 1 device for 2 workers", agent.err)
        self.assertFalse((self.dir / "started").exists())

    def test_gpus_of_this_node(self):
        _, envs = self.workers(["--standalone", "--gpus=2,4,7", "--nproc-per-node=auto"],
                               CUDA_VISIBLE_DEVICES="0,2,4,6,7")
        self.assertEqual([envs[rank]["CUDA_VISIBLE_DEVICES"] for rank in range(3)], ["2,4,7"] * 3)

    def test_names_of_devices_pass_unchanged(self):
        mask = "GPU-8932f937-d72c-4106-c12f-20bd9faed9f6,MIG-1b2c"
        _, envs = self.workers(["--standalone", "--nproc-per-node=gpu"], CUDA_VISIBLE_DEVICES=mask)
        self.assertEqual([envs[rank]["CUDA_VISIBLE_DEVICES"] for rank in range(2)], [mask] * 2)


class Threads(harness.Case):
    def values(self, args, **env):
        agent = self.start(["--standalone", *args, self.worker, f"env:{self.dir}"], env=env)
        self.assertEqual(agent.code(), 0)
        lines = [line for line in agent.err_lines if "OMP_NUM_THREADS" in line]
        return [facts["env"].get("OMP_NUM_THREADS") for facts in self.worker_files().values()], lines

    def test_59_two_workers_share_the_cpus(self):
        each = str(max(1, len(CPUS) // 2))
        values, lines = self.values(["--nproc-per-node=2"])
        self.assertEqual(values, [each] * 2)
        self.assertEqual(len(lines), 1, lines)
        self.assertIn(f"OMP_NUM_THREADS={each} in each worker", lines[0])

    def test_59_one_worker_is_left_alone(self):
        self.assertEqual(self.values([]), ([None], []))

    def test_59_what_the_user_set_stays_in_silence(self):
        self.assertEqual(self.values(["--nproc-per-node=2"], OMP_NUM_THREADS="7"), (["7"] * 2, []))


class Binding(harness.Case):
    def tree(self, *lists):
        """NUMA nodes by their CPUs, as /sys/devices/system/node shows them."""
        root = self.dir / "node"
        for number, cpus in enumerate(lists):
            (root / f"node{number}").mkdir(parents=True)
            (root / f"node{number}" / "cpulist").write_text(cpus + "\n")
        (root / "online").write_text(f"0-{len(lists) - 1}\n")
        return folder_over(root, "/sys/devices/system/node")

    def bound(self, mode, workers, *lists):
        agent = self.start(["--standalone", "--numa-binding", mode, "--nproc-per-node", workers, self.worker,
                            f"proc:{self.dir}/{{rank}}.json"], prefix=self.tree(*lists),
                           env={"CUDA_VISIBLE_DEVICES": ""})
        self.assertEqual(agent.code(), 0)
        found = []
        for rank in range(workers):
            status = json.loads((self.dir / f"{rank}.json").read_text())["status"]
            found.append(next(line.split()[1] for line in status.splitlines() if line.startswith("Cpus_allowed_list")))
        return found

    def need_two(self):
        if len(CPUS) < 2:
            self.skipTest("one CPU only")

    def test_workers_are_bound_to_the_cpus_of_their_node(self):
        self.need_two()
        self.assertEqual(self.bound("node", 2, str(CPUS[0]), str(CPUS[1])), [str(CPUS[0]), str(CPUS[1])])

    def test_exclusive_cores(self):
        """No core has two workers, and its SMT threads stay together."""
        siblings = {cpu: cpus_of(pathlib.Path(f"/sys/devices/system/cpu/cpu{cpu}/topology/thread_siblings_list").read_text())
                    for cpu in CPUS}
        if siblings[CPUS[0]] >= set(CPUS):
            self.skipTest("one core only")
        first, second = (cpus_of(text) for text in self.bound("exclusive", 2, ",".join(map(str, CPUS))))
        self.assertFalse(first & second)
        self.assertEqual(first | second, set(CPUS))
        for mine in (first, second):
            for cpu in mine:
                self.assertLessEqual(siblings[cpu] & set(CPUS), mine)

    def test_a_node_that_has_none_of_our_cpus_is_an_error_before_anything_starts(self):
        agent = self.start(["--standalone", "--numa-binding", "node", "--nproc-per-node", "2", self.worker,
                            f"touch:{self.dir}/started"], prefix=self.tree("4000-4003"), env={"CUDA_VISIBLE_DEVICES": ""})
        self.assertEqual(agent.code(), 2)
        self.assertIn("--numa-binding node: no NUMA node has a CPU that this process may use", agent.err)
        self.assertFalse((self.dir / "started").exists())

    def test_a_wrong_mode(self):
        agent = self.start(["--numa-binding", "near", self.worker])
        self.assertEqual(agent.code(), 2)
        self.assertIn("--numa-binding near: must be node, socket, exclusive or core-complex", agent.err)


if __name__ == "__main__":
    harness.main()
