# SPDX-License-Identifier: Apache-2.0
"""As the first process of a pid namespace, as a container's entrypoint is."""
import signal

import harness


class Entrypoint(harness.Case):
    def container(self, args):
        """Returns the runner's Agent and the process id (out here) of the first process inside."""
        agent = self.start(["--pid", "--fork", "--mount-proc", "--kill-child", harness.CXXRUN, *args], program="unshare")
        first = harness.wait_until("first process", lambda: [p for p in harness.children(agent.pid)
                                                             if harness.cmdline(p).startswith(harness.CXXRUN)])[0]
        return agent, first

    def test_codes(self):
        for step, code in (("exit:0", 0), ("exit:7", 7), ("raise:KILL", 137), ("raise:SEGV", 139)):
            with self.subTest(step):
                agent = self.start(["--pid", "--fork", "--mount-proc", "--kill-child", harness.CXXRUN, "--standalone",
                                    "--nproc_per_node", "2", self.worker, "barrier:b", f"[rank=1]{step}", "[rank=0]exit:0"], program="unshare")
                self.assertEqual(agent.code(), code)

    def test_stop_signals(self):
        for name, code in (("TERM", 143), ("INT", 130), ("HUP", 129)):
            with self.subTest(name):
                for path in (*self.dir.glob("up.*"), *self.dir.glob("saved.*")):
                    path.unlink()
                agent, first = self.container(["--standalone", "--nproc_per_node", "2", self.worker,
                                               f"save:{name}=50={self.dir}/saved.{{rank}}=0", f"touch:{self.dir}/up.{{rank}}", "forever"])
                self.wait_for_files("up.0", "up.1")
                harness.kill(first, getattr(signal, f"SIG{name}"))
                self.assertEqual(agent.code(), code)
                self.assertTrue((self.dir / "saved.0").exists() and (self.dir / "saved.1").exists())

    def test_signal_from_inside(self):
        agent, first = self.container(["--standalone", self.worker, f"save:TERM=10={self.dir}/saved=0", f"touch:{self.dir}/up", "forever"])
        self.wait_for_files("up")
        harness.sh("nsenter", f"--pid=/proc/{first}/ns/pid", f"--mount=/proc/{first}/ns/mnt", "sh", "-c", "kill -TERM 1")
        self.assertEqual(agent.code(), 143)
        self.assertTrue((self.dir / "saved").exists())

    def test_reaps_strangers(self):
        """Orphans of a process that somebody else started in the container (as `docker exec` does), and of the workers."""
        agent, first = self.container(["--standalone", self.worker, "orphans:20", f"touch:{self.dir}/up", f"wait:{self.dir}/go"])
        self.wait_for_files("up")
        for _ in range(5):
            harness.sh("nsenter", f"--pid=/proc/{first}/ns/pid", "sh", "-c", "sh -c 'exit 3' & sh -c 'sleep 0.01; exit 4' & exit 0")

        def zombies():
            return [p for p in harness.descendants(agent.pid) if (harness.stat(p) or "?")[0] == "Z"]
        harness.wait_until("no zombie in the container", lambda: not zombies())
        (self.dir / "go").touch()
        self.assertEqual(agent.code(), 0)

    def test_all_exit_when_killed(self):
        agent, first = self.container(["--standalone", self.worker, f"helper:deaf={self.dir}/h", f"touch:{self.dir}/up", "forever"])
        self.wait_for_files("up")
        harness.kill(first)
        self.assertNotEqual(agent.code(), 0)  # unshare's own code


if __name__ == "__main__":
    harness.main()
