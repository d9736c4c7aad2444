# SPDX-License-Identifier: Apache-2.0
"""A worker inherits what a plain exec from the same shell would give it."""
import json
import re

import harness

# Sets up a process as a shell with opinions would, then becomes the program in its arguments.
SHELL = """
import os, resource, signal, sys
directory = sys.argv[1]
def lower(what, value):
    soft, hard = resource.getrlimit(what)
    cap = lambda now: value if now == resource.RLIM_INFINITY else min(now, value)
    resource.setrlimit(what, (cap(soft), cap(hard)))
lower(resource.RLIMIT_NOFILE, 3000)
lower(resource.RLIMIT_CORE, 4096)
lower(resource.RLIMIT_MEMLOCK, 1 << 20)
resource.setrlimit(resource.RLIMIT_STACK, (4 << 20, resource.getrlimit(resource.RLIMIT_STACK)[1]))
os.umask(0o027)
os.nice(5)
open("/proc/self/oom_score_adj", "w").write("300")
os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
signal.signal(signal.SIGHUP, signal.SIG_IGN)
signal.signal(signal.SIGPIPE, signal.SIG_IGN if "pipe" in sys.argv[2] else signal.SIG_DFL)
signal.signal(signal.SIGUSR2, signal.SIG_IGN)
signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGUSR1, signal.SIGWINCH, signal.SIGRTMIN + 3})
os.chdir(directory)
for number, path, flags in ((7, "in", os.O_RDONLY), (9, "out", os.O_WRONLY | os.O_APPEND)):
    fd = os.open(path, flags | os.O_CREAT, 0o644)
    os.dup2(fd, number, inheritable=True)
r, w = os.pipe()
os.dup2(w, 12, inheritable=True)
if "nobody" in sys.argv[2]:
    os.setgroups([65534, 100])
    os.setgid(65534)
    os.setuid(65534)
if "nnp" in sys.argv[2]:
    import ctypes
    ctypes.CDLL(None).prctl(38, 1, 0, 0, 0)
os.execv(sys.argv[3], sys.argv[3:])
"""
STATUS = ("Umask", "Uid", "Gid", "Groups", "SigBlk", "SigIgn", "SigCgt", "CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb",
          "NoNewPrivs", "Seccomp", "Seccomp_filters", "Cpus_allowed", "Mems_allowed", "THP_enabled", "CoreDumping")


class Inherit(harness.Case):
    def facts(self, path):
        facts = json.loads(path.read_text())
        lines = dict(line.split(":", 1) for line in facts["status"].splitlines() if ":" in line)
        facts["status"] = {name: lines.get(name, "").strip() for name in STATUS}
        facts["limits"] = {line[:26].strip(): line[26:].split() for line in facts["limits"].splitlines()
                           if not line.startswith("Max pending")}
        return facts

    def compare(self, how, launcher, workers=1, writable=False):
        if writable:
            self.dir.chmod(0o777)
        plain = self.start(["-c", SHELL, self.dir, how, self.worker, f"proc:{self.dir}/plain"], program="/usr/bin/python3")
        self.assertEqual(plain.code(), 0)
        ours = self.start(["-c", SHELL, self.dir, how, harness.CXXRUN, *launcher, self.worker, f"proc:{self.dir}/ours.{{rank}}"],
                          program="/usr/bin/python3")
        self.assertEqual(ours.code(), 0)
        want = self.facts(self.dir / "plain")
        for rank in range(workers):
            with self.subTest(how=how, rank=rank):
                got = self.facts(self.dir / f"ours.{rank}")
                streams = {"0", "1", "2"} if workers > 1 else {"2"}
                for facts in (want, got):
                    facts["fds"] = {n: re.sub(r"\[\d+\]", "", t) for n, t in facts["fd"].items() if n not in streams and n != "12"}
                    facts["numbers"] = sorted(facts["fd"], key=int)
                self.assertEqual(got["limits"], want["limits"])
                self.assertEqual(got["status"], want["status"])
                self.assertEqual(got["fds"], want["fds"])
                self.assertEqual(got["numbers"], want["numbers"])
                for name in ("nice", "oom_score_adj", "personality"):
                    self.assertEqual(got[name], want[name], name)

    def test_one_worker(self):
        self.compare("plain", ["--standalone"])

    def test_two_workers(self):
        self.compare("plain", ["--standalone", "--nproc_per_node", "2"], workers=2)

    def test_ignored_pipe_signal_and_no_new_privileges(self):
        self.compare("pipe nnp", ["--standalone"])

    def test_as_another_user(self):
        self.compare("nobody", ["--standalone"], writable=True)

    def test_stderr_inherited(self):
        self.compare("plain", ["--standalone", "--stderr=inherit"])
        self.assertEqual(json.loads((self.dir / "ours.0").read_text())["fd"]["1"].split()[0][:5], "pipe:")

    def test_preloaded_library(self):
        library = "/lib/x86_64-linux-gnu/libm.so.6"
        agent = self.start(["--standalone", "grep", "-q", "libm.so", "/proc/self/maps"], env={"LD_PRELOAD": library})
        if harness.SANITIZED:
            agent.code()
            self.skipTest("the sanitizer's runtime must come first, before LD_PRELOAD")
        self.assertEqual(agent.code(), 0)

    def test_session_and_directory(self):
        agent = self.start(["--standalone", "--nproc_per_node", "2", self.worker, f"env:{self.dir}"])
        self.assertEqual(agent.code(), 0)
        for facts in self.worker_files().values():
            self.assertEqual((facts["sid"], facts["pgid"], facts["cwd"]), (facts["pid"], facts["pid"], str(self.dir)))


if __name__ == "__main__":
    harness.main()
