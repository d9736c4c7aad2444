# SPDX-License-Identifier: Apache-2.0
"""A person at a terminal: a debugger, job control, the window's size. Each test has a pty of its own."""
import fcntl
import signal
import struct
import sys
import termios

import harness

PDB = """import os, sys
def work():
    answer = 41
    answer += 1
    return answer
work()
print("worker", os.environ["LOCAL_RANK"], "is done")
"""


class Terminal(harness.Case):
    def script(self, text=PDB):
        path = self.dir / "train.py"
        path.write_text(text)
        return path


    def test_pdb_with_one_worker(self):
        agent = self.start(["--standalone", sys.executable, "-m", "pdb", self.script()], tty=True)
        agent.wait_for_line("import os")
        agent.type(b"b 4\n")
        agent.wait_for_line("Breakpoint 1 at")
        agent.type(b"c\n")
        agent.wait_for_line(r"-> answer \+= 1")
        agent.type(b"p answer * 100\n")
        agent.wait_for_line("4100")
        agent.type(b"c\n")
        agent.wait_for_line("worker 0 is done")
        agent.type(b"q\n")
        self.assertEqual(agent.code(), 0)

    def test_pdb_with_several_workers(self):
        """--stdin-rank: that one has the terminal, the others read the null device."""
        text = """import os, sys
if os.environ["LOCAL_RANK"] == "1":
    answer = 41
    breakpoint()
    print("asked", answer + 1)
else:
    print("other", repr(sys.stdin.read()), sys.stdin.isatty())
"""
        agent = self.start(["--standalone", "--nproc_per_node", "3", "--stdin-rank", "1", self.script(text)], tty=True)
        agent.wait_for_line(r"-> print\(.asked")
        agent.type(b"p answer * 100\n")
        agent.wait_for_line("4100")
        agent.type(b"c\n")
        self.assertEqual(agent.code(), 0)
        self.assertIn("asked 42", agent.out)
        for rank in (0, 2):
            self.assertIn(f"[rank{rank}]: other '' False", agent.out)

    def test_stdin_rank_reads_a_file(self):
        with open(self.script("a line\n"), "rb") as file:
            agent = self.start(["--standalone", "--nproc_per_node", "2", "--stdin-rank", "1", self.worker, f"stdin:{self.dir}/got.{{rank}}"],
                               stdin=file)
            self.assertEqual(agent.code(), 0)
        self.assertEqual((self.dir / "got.1").read_text(), "a line\n")
        self.assertEqual((self.dir / "got.0").read_text(), "(end of file)\n")

    def test_stdin_rank_that_is_none(self):
        for text in ("2", "-1", "x"):
            agent = self.start(["--standalone", "--nproc_per_node", "2", f"--stdin-rank={text}", "true"])
            self.assertEqual(agent.code(), 2)
            self.assertIn("must be a local rank, 0 to 1", agent.err)

    def test_ctrl_z_stops_all_and_fg_goes_on(self):
        agent = self.start(
            ["-c", f"set -m; {harness.CXXRUN} --standalone --nproc_per_node 2 {self.worker} env:{self.dir} "
             f"'helper:child={self.dir}/h.{{rank}}' 'touch:{self.dir}/up.{{rank}}' wait:{self.dir}/go; echo stopped $?; "
             f"read line; fg; echo ended $?"], program="sh", tty=True)
        self.wait_for_files("up.0", "up.1")
        processes = [facts["pid"] for facts in self.worker_files().values()]
        processes += [int((self.dir / f"h.{rank}").read_text()) for rank in range(2)]
        agent.type(b"\x1a")
        agent.wait_for_line(r"stopped \d+")
        for pid in processes:
            self.assertEqual(harness.stat(pid)[0], "T")
        agent.type(b"\n")
        for pid in processes:
            harness.wait_until("it goes on after fg", lambda p=pid: (harness.stat(p) or "Z")[0] != "T")
        (self.dir / "go").touch()
        agent.wait_for_line("ended 0")
        self.assertEqual(agent.code(), 0)

    def test_ctrl_z_and_bg(self):
        agent = self.start(
            ["-c", f"set -m; {harness.CXXRUN} --standalone --nproc_per_node 2 {self.worker} env:{self.dir} "
             f"'touch:{self.dir}/up.{{rank}}' wait:{self.dir}/go; echo stopped $?; bg; wait; echo ended $?"], program="sh", tty=True)
        self.wait_for_files("up.0", "up.1")
        agent.type(b"\x1a")
        agent.wait_for_line(r"stopped \d+")
        (self.dir / "go").touch()
        agent.wait_for_line("ended 0")
        self.assertEqual(agent.code(), 0)

    def test_a_stop_reaches_a_job_that_sleeps(self):
        """As a shell's `kill %1` does: SIGTERM, and SIGCONT as the job is stopped."""
        agent = self.start(
            ["-c", f"set -m; {harness.CXXRUN} --standalone {self.worker} 'save:TERM=0={self.dir}/saved=0' "
             f"touch:{self.dir}/up forever; echo stopped $?; read line"], program="bash", tty=True)
        self.wait_for_files("up")
        agent.type(b"\x1a")
        agent.wait_for_line(r"stopped \d+")
        [outer] = harness.children(agent.pid)
        for signo in (signal.SIGTERM, signal.SIGCONT):
            harness.kill(outer, signo)
        harness.wait_for_end(outer)
        self.assertTrue((self.dir / "saved").exists())
        agent.type(b"\n")
        self.assertEqual(agent.code(), 0)

    def test_a_job_in_the_background_leaves_the_terminal_alone(self):
        """It reads the null device, so what is typed is the shell's."""
        agent = self.start(
            ["-c", f"set -m; {harness.CXXRUN} --standalone {self.worker} 'stdin:{self.dir}/got' & "
             f"wait; read line; echo shell got $line"], program="sh", tty=True)
        self.wait_for_files("got")
        agent.type(b"for the shell\n")
        agent.wait_for_line("shell got for the shell")
        self.assertEqual((self.dir / "got").read_text(), "(end of file)\n")
        self.assertEqual(agent.code(), 0)

    def test_the_size_of_the_window(self):
        """The worker's stderr is a terminal of its own: it starts with our size, and follows it."""
        text = """import os, signal, sys
def show(*_):
    size = os.get_terminal_size(2)
    print("size", size.columns, size.lines, flush=True)
signal.signal(signal.SIGWINCH, show)
print("stdout", *os.get_terminal_size(1), flush=True)
sys.stdin.readline()
"""
        agent = self.start(["--standalone", sys.executable, self.script(text)], tty=True)
        agent.wait_for_line("stdout")
        fcntl.ioctl(agent.terminal, termios.TIOCSWINSZ, struct.pack("HHHH", 33, 101, 0, 0))
        agent.wait_for_line("size 101 33")
        agent.type(b"\n")
        self.assertEqual(agent.code(), 0)

    def test_ctrl_c_while_pdb_asks(self):
        agent = self.start(["--standalone", "--shutdown-timeout", "1", sys.executable, "-m", "pdb", self.script()], tty=True)
        agent.wait_for_line("import os")
        agent.type(b"\x03")
        agent.wait_for_line("stopping the job")
        agent.type(b"\x03")
        self.assertEqual(agent.code(), 128 + signal.SIGINT)


if __name__ == "__main__":
    harness.main()
