# SPDX-License-Identifier: Apache-2.0
"""Shell completion: made from the option table, tried in a real bash."""
import re
import shutil
import subprocess

import harness


class Completion(harness.Case):
    def script(self, shell, option="--completion"):
        done = subprocess.run([harness.CXXRUN, option, shell], capture_output=True, text=True, timeout=60, check=True)
        self.assertEqual(done.stderr, "")
        return done.stdout

    def complete(self, *words):
        """What bash offers for the last of `words` (split as bash splits them: = and : are words of their own)."""
        script = self.script("bash") + 'COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); _cxxrun; printf "%s\\n" "${COMPREPLY[@]}"'
        done = subprocess.run(["bash", "-u", "-c", script, "bash", "cxxrun", *words], capture_output=True, text=True, timeout=60,
                              cwd=self.dir, check=True)
        self.assertEqual(done.stderr, "")
        return done.stdout.split()

    def test_names(self):
        shown = set(re.findall(r"^  (?:-\w, )?(--[a-z-]+)", subprocess.run([harness.CXXRUN, "--help"], capture_output=True, text=True,
                                                                            check=True, timeout=60).stdout, re.M))
        self.assertGreater(len(shown), 20)
        self.assertEqual({name for name in self.complete("-") if name.startswith("--")}, shown)
        self.assertEqual(self.complete("--nproc"), ["--nproc-per-node"])
        self.assertEqual(self.complete("--nproc_"), ["--nproc_per_node"])
        self.assertEqual(self.complete("--nnodes", "2", "--rdzv-b"), ["--rdzv-backend"])
        self.assertEqual(self.complete("--standalone", "--worker"), ["--worker-store"])
        self.assertEqual(self.complete("--rdzv-endpoint", "h", ":", "29400", "--worker"), ["--worker-store"])
        self.assertEqual(self.complete("--nnodes", "=", "2", "--worker"), ["--worker-store"])

    def test_values(self):
        self.assertEqual(self.complete("--rdzv-backend", ""), ["c10d", "static"])
        self.assertEqual(self.complete("--rdzv_backend", "s"), ["static"])
        self.assertEqual(self.complete("--rdzv-backend", "="), ["c10d", "static"])
        self.assertEqual(self.complete("--rdzv-backend", "=", "c"), ["c10d"])
        self.assertEqual(self.complete("--nproc-per-node", ""), ["auto", "cpu", "gpu"])
        self.assertEqual(self.complete("--nnodes", ""), [])

    def test_program(self):
        (self.dir / "train_me.py").touch()
        self.assertIn("train_me.py", self.complete("train_m"))
        self.assertIn("train_me.py", self.complete("--nnodes", "1", "--standalone", "train_m"))
        self.assertIn("train_me.py", self.complete("--", "train_m"))
        self.assertEqual(self.complete("--nnodes", "1", "train_me.py", "--nn"), [])   # the program's own
        self.assertEqual(self.complete("--", "train_me.py", "-"), [])

    def test_other_shells(self):
        for shell in "zsh", "fish":
            script = self.script(shell)
            self.assertIn("rdzv-endpoint", script)
            if shutil.which(shell):
                harness.sh(shell, "-n", "/dev/stdin", text=script)
        self.assertEqual(self.script("bash"), self.script("bash", "--print-completion"))
        agent = self.start(["--completion", "tcsh"])
        self.assertEqual(agent.code(), 2)
        self.assertRegex(agent.err, "--completion tcsh: must be bash, zsh or fish")


if __name__ == "__main__":
    harness.main()
