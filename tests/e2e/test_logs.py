# SPDX-License-Identifier: Apache-2.0
"""Where the workers' output goes: log files, prefixes, filters, progress bars, JSON, full disks and slow readers.

`case_NN`: the number of the case in the list of torchrun's behaviour that the tests keep.
"""
import json
import os
import re
import subprocess

import harness
from harness import CXXRUN, sh

ONE = ["--standalone"]
TWO = ["--standalone", "--nproc-per-node", "2"]


class Logs(harness.Case):
    def script(self, text, name="w.sh"):
        path = self.dir / name
        path.write_text("#!/bin/sh\n" + text)
        path.chmod(0o755)
        return path

    def python(self, text):
        path = self.dir / "w.py"
        path.write_text("#!/usr/bin/python3\nimport os, sys, time\nrank = os.environ['RANK']\n" + text)
        path.chmod(0o755)
        return path

    def ended(self, args, code=0, **options):
        agent = self.start(args, **options)
        self.assertEqual(agent.code(60), code)
        return agent

    def run_folder(self, base="logs"):
        folders = list((self.dir / base).iterdir())
        self.assertEqual(len(folders), 1, folders)
        return folders[0]

    def files(self, folder):
        return sorted(str(p.relative_to(folder)) for p in folder.rglob("*") if p.is_file())


class Layout(Logs):
    def test_torchrun_51_redirects_by_local_rank(self):
        agent = self.ended([*TWO, "--log-dir", self.dir / "logs", "-r", "0:1,1:2", self.worker,
                            "print:out {rank}", "err:err {rank}"])
        folder = self.run_folder()
        self.assertRegex(folder.name, r"^[^/]+_[a-z0-9]{8}$")
        self.assertEqual(folder.stat().st_mode & 0o777, 0o700)
        self.assertEqual(self.files(folder), ["attempt_0/0/stdout.log", "attempt_0/1/stderr.log"])
        self.assertEqual((folder / "attempt_0/0/stdout.log").read_text(), "out 0\n")
        self.assertEqual((folder / "attempt_0/1/stderr.log").read_text(), "err 1\n")
        self.assertEqual(agent.out, "[rank1]: out 1")
        self.assertIn("[rank0]: err 0", agent.err_lines)
        self.assertNotIn("err 1", agent.err)
        self.assertIn(f"cxxrun: log files: {folder}", agent.err_lines)

    def test_torchrun_52_bad_maps_are_usage_errors(self):
        for value in ("4", "0:1,", "0:1 ,1:2", "x", "-1:2", "0:"):
            for option in ("-r", "-t"):
                with self.subTest(option=option, value=value):
                    agent = self.ended([*TWO, f"{option}={value}", self.worker], code=2)
                    self.assertIn("must be 0, 1 (stdout), 2 (stderr) or 3 (both)", agent.err)

    def test_local_ranks_of_two_digits(self):
        """torchrun cannot name them."""
        self.ended(["--standalone", "--nproc-per-node", "11", "--log-dir", self.dir / "logs", "-r", "10:1", self.worker, "print:x"])
        self.assertEqual(self.files(self.run_folder()), ["attempt_0/10/stdout.log"])

    def test_no_files_unless_asked_for(self):
        work = self.dir / "work"
        work.mkdir()
        self.ended([*TWO, self.worker, "print:x"], env={"TMPDIR": work}, cwd=work)
        self.assertEqual(list(work.iterdir()), [])

    def test_without_a_folder_files_lie_in_the_temporary_one(self):
        work = self.dir / "work"
        work.mkdir()
        self.ended([*ONE, "-r", "3", self.worker, "print:x"], env={"TMPDIR": work})
        self.assertRegex(self.files(work)[0], r"^torchelastic_[a-z0-9]{8}/.*_[a-z0-9]{8}/attempt_0/0/stderr\.log$")

    def test_a_restart_overwrites_nothing(self):
        """H6: each round has its folder, error files included."""
        agent = self.ended(["--max-restarts", "1", *ONE, "--log-dir", self.dir / "logs", "-r", "3", self.worker,
                            "err:round {round}", "exit:3"], code=3)
        folder = self.run_folder()
        for number in (0, 1):
            self.assertEqual((folder / f"attempt_{number}/0/stderr.log").read_text(), f"round {number}\n")
        self.assertIn("    round 1", agent.err_lines)  # the report reads it from the file

    def test_error_files_lie_among_the_log_files_and_stay(self):
        script = self.script('printf \'{"message": {"message": "boom", "extraInfo": {"timestamp": "1"}}}\' > $TORCHELASTIC_ERROR_FILE; exit 4')
        agent = self.ended([*ONE, "--log-dir", self.dir / "a/b/logs", script], code=4)
        self.assertEqual(self.files(self.run_folder("a/b/logs")), ["attempt_0/0/error.json"])
        self.assertIn("boom", agent.err)

    def test_run_id_with_slashes(self):
        self.ended(["--nnodes", "1:2", "--rdzv-conf", "last_call_timeout=0.1", "--rdzv-endpoint", "127.0.0.1:29871",
                    "--rdzv-id", "team/a/../b", "--log-dir", self.dir / "logs", "-r", "1", self.worker, "print:x"])
        self.assertRegex(self.run_folder().name, r"^team_a_\.\._b_[a-z0-9]{8}$")

    def test_null_device(self):
        """No folder, no error file; the output stays on the console."""
        agent = self.ended([*TWO, "--log-dir", "/dev/null", "-r", "3", "-t", "3", self.script('echo "error file: <$TORCHELASTIC_ERROR_FILE>"')])
        self.assertEqual(sorted(agent.out.splitlines()), ["[rank0]: error file: <>", "[rank1]: error file: <>"])

    def test_a_folder_that_cannot_be_is_said_before_anything_starts(self):
        (self.dir / "file").write_text("")
        for path, why in ((self.dir / "file", "Not a directory"), (self.dir / "file/below", "Not a directory"),
                          ("/proc/nowhere", "No such file or directory")):
            with self.subTest(path=path):
                agent = self.ended([*ONE, "--log-dir", path, self.worker, f"touch:{self.dir}/ran"], code=2)
                self.assertEqual(agent.err_lines, [f"cxxrun: cannot make the log folder {self.dir / 'file' if 'file' in str(path) else path}: {why}"])
                self.assertFalse((self.dir / "ran").exists())

    def test_worker_writes_its_file_itself(self):
        """With -r its stdout is the file, open for appending."""
        agent = self.ended([*ONE, "--log-dir", self.dir / "logs", "-r", "1", self.python(
            "print(os.readlink('/proc/self/fd/1'), open('/proc/self/fdinfo/1').read(), sep='\\n', file=sys.stderr)")])
        self.assertIn(str(self.run_folder() / "attempt_0/0/stdout.log"), agent.err_lines)
        flags = int(re.search(r"flags:\s*(\d+)", agent.err).group(1), 8)
        self.assertTrue(flags & os.O_APPEND)
        self.assertTrue(flags & os.O_WRONLY)


class Lines(Logs):
    def test_torchrun_22_prefix_template_of_the_environment(self):
        agent = self.ended(["--nproc-per-node=4", "--redirect=3", "--tee=3", "--no-python", self.worker, "print:creating {rank}"],
                           env={"TORCHELASTIC_LOG_LINE_PREFIX_TEMPLATE": "[rank${rank}]: "})
        self.assertEqual(sorted(agent.out.splitlines()), [f"[rank{r}]: creating {r}" for r in range(4)])

    def test_torchrun_23_default_prefix_of_teed_lines(self):
        agent = self.ended([*TWO, "-t", "3", self.worker, "print:step 1", "err:e"])
        self.assertEqual(sorted(agent.out.splitlines()), ["[default0]:step 1", "[default1]:step 1"])
        self.assertIn("[default1]:e", agent.err_lines)

    def test_template_with_the_host(self):
        """H2."""
        agent = self.ended([*TWO, "--log-line-prefix-template", "${hostname}:${rank}: $$${x} ", self.worker, "print:a"],
                           env={"TORCHELASTIC_LOG_LINE_PREFIX_TEMPLATE": "not this"})
        self.assertEqual(sorted(agent.out.splitlines()), ["testhost:0: $${x} a", "testhost:1: $${x} a"])

    def test_torchrun_53_local_ranks_filter_with_tee(self):
        agent = self.ended([*TWO, "--log-dir", self.dir / "logs", "--local-ranks-filter=0", "-t", "3", self.worker, "print:o{rank}", "err:e{rank}"])
        self.assertEqual(agent.out, "[default0]:o0")
        self.assertNotIn("e1", agent.err)
        for rank in (0, 1):
            self.assertEqual((self.run_folder() / f"attempt_0/{rank}/stdout.log").read_text(), f"o{rank}\n")
            self.assertEqual((self.run_folder() / f"attempt_0/{rank}/stderr.log").read_text(), f"e{rank}\n")

    def test_torchrun_54_local_ranks_filter_without_files(self):
        agent = self.ended([*TWO, "--local-ranks-filter=0", self.worker, "print:o{rank}", "err:e{rank}", "[rank=1]err:why", "[rank=1]exit:3"], code=3)
        self.assertEqual(agent.out, "[rank0]: o0")
        self.assertNotIn("[rank1]", agent.err)
        self.assertIn("    why", agent.err_lines)  # the report has the last words all the same

    def test_ranks_filter_is_global(self):
        """H1: two nodes, only rank 2 on any console."""
        agents = self.run_all(["--nnodes", "2", "--nproc-per-node", "2", "--rdzv-endpoint", "10.77.0.1:29501", "--ranks-filter", "2",
                               self.worker, "print:o{rank}"], self.nodes(2))
        self.assert_codes(agents, 0)
        self.assertEqual([agent.out for agent in agents], ["", "[rank2]: o2"])

    def test_torchrun_55_duplicate_filters(self):
        script = self.script("echo 'an apple,pie'; echo apple pie; echo orange >&2; echo 'one orange'; printf 'last orange'")
        self.ended([*TWO, "--log-dir", self.dir / "logs", "-t", "3", "--duplicate-stdout-filters=apple,,pie,orange",
                    "--duplicate-stderr-filters=orange", script])
        folder = self.run_folder() / "attempt_0"
        self.assertEqual(sorted((folder / "filtered_stdout.log").read_text().splitlines()),
                         sorted(f"[default{r}]:{line}" for r in (0, 1) for line in ("an apple,pie", "one orange", "last orange")))
        self.assertEqual(sorted((folder / "filtered_stderr.log").read_text().splitlines()), ["[default0]:orange", "[default1]:orange"])

    def test_files_are_exact_to_the_byte(self):
        """NUL, bytes that are no text, CRLF, a bar, no newline at the end: -r and -t alike."""
        data = b"a\0b\n\xff\xfe\r\nbar 1\rbar 2\r\nend" + bytes(range(256)) + b"no end"
        script = self.python(f"os.write(1, {data!r})")
        for option in ("-r", "-t"):
            self.ended([*TWO, "--log-dir", self.dir / f"logs{option}", option, "1", script])
            for rank in (0, 1):
                self.assertEqual((self.run_folder(f"logs{option}") / f"attempt_0/{rank}/stdout.log").read_bytes(), data)

    def test_one_megabyte_without_a_newline(self):
        """In pieces, each of them a line of its rank; no byte is lost."""
        script = self.python("os.write(1, (rank * 1000000).encode()); print('!')")
        agent = self.ended([*TWO, script])
        for rank in "01":
            mine = [line[9:] for line in agent.out.splitlines() if line.startswith(f"[rank{rank}]: ")]
            self.assertEqual("".join(mine), rank * 1000000 + "!")
            self.assertEqual(max(map(len, mine)), 65536)
        self.assertTrue(all(re.fullmatch(r"\[rank([01])\]: \1*!?", line) for line in agent.out.splitlines()))


class Bars(Logs):
    BAR = ("for i in range(1001):\n    sys.stderr.write('\\r%d of 1000' % i); sys.stderr.flush(); time.sleep(0.001)\n"
           "sys.stderr.write('\\n')\n")

    def test_thinned_on_a_pipe(self):
        """H4: the file exact, the console short, the last state shown."""
        agent = self.ended([*TWO, "--log-dir", self.dir / "logs", "-t", "2", self.python(self.BAR)])
        for rank in (0, 1):
            shown = [line for line in agent.err_lines if line.startswith(f"[default{rank}]:")]
            self.assertLess(len(shown), 50)
            self.assertEqual(shown[-1], f"[default{rank}]:1000 of 1000")
            self.assertEqual(len(set(shown)), len(shown))
            exact = "".join(f"\r{i} of 1000" for i in range(1001)) + "\n"
            self.assertEqual((self.run_folder() / f"attempt_0/{rank}/stderr.log").read_bytes(), exact.encode())

    def test_a_bar_that_stands_still_shows_where(self):
        agent = self.start([*TWO, self.python("sys.stdout.write('\\r1%\\r2%\\r47%'); sys.stdout.flush()\nwhile True: time.sleep(60)")])
        for rank in (0, 1):
            agent.wait_for_line(rf"^\[rank{rank}\]: 47%$")
        agent.signal(2)
        self.assertEqual(agent.code(), 130)

    def test_kept_on_a_terminal(self):
        """Shown at once; another rank's line erases it first, so that no line on the screen is of two ranks."""
        agent = self.ended([*TWO, self.python(
            f"flag = {str(self.dir / 'flag')!r}\n"
            "if rank == '0':\n    sys.stdout.write('\\rstate 1'); sys.stdout.flush(); open(flag, 'w').close()\n"
            "    while not os.path.exists(flag + '2'): time.sleep(0.002)\n"
            "else:\n    while not os.path.exists(flag): time.sleep(0.002)\n    print('short', flush=True); open(flag + '2', 'w').close()\n")], tty=True)
        self.assertIn("[rank0]: state 1\r\x1b[K[rank1]: short\n", agent.out + "\n")
        self.assertIn("[rank0]: state 1\n", agent.out + "\n")  # at its end it stays


class Json(Logs):
    def objects(self, text):
        out = []
        for line in text.splitlines():
            self.assertLess(len(line.encode()), 16384)
            out.append(json.loads(line))
        return out

    def test_every_line_is_an_object(self):
        data = b"plain\nquote \" back \\ tab \t nul \0 esc \x1b[1m\nbad \xff\xfe utf\n\xe2\x82\xac\r\n10%\r20%\rno end"
        agent = self.ended(["--log-format", "json", "--rdzv-conf", "nonsense=1", "--max-restarts", "1", *ONE,
                            self.python(f"os.write(1, {data!r})\nprint('round', os.environ['CXXRUN_ROUND'], file=sys.stderr)\nsys.exit(5)")],
                           code=5)
        out = self.objects(agent.out)
        zero = [o for o in out if o["round"] == 0]
        self.assertEqual([o["text"] for o in zero], ["plain", "quote \" back \\ tab \t nul \0 esc \x1b[1m", "bad \ufffd\ufffd utf", "\u20ac", "10%", "no end"])
        self.assertEqual([o.get("invalid", 0) for o in zero], [0, 0, 2, 0, 0, 0])
        for o in out:
            self.assertEqual({k: o[k] for k in ("host", "rank", "local_rank", "stream")}, {"host": "testhost", "rank": 0, "local_rank": 0, "stream": "stdout"})
            self.assertRegex(o["time"], r"^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}Z$")
        err = self.objects(agent.err)
        self.assertEqual([o["text"] for o in err if o["stream"] == "stderr"], ["round 0", "round 1"])
        agents = [o for o in err if o["stream"] == "agent"]
        self.assertTrue(any("nonsense" in o["text"] and o["round"] is None for o in agents))
        self.assertTrue(any("exit code 5" in o["text"] and o["rank"] is None for o in agents))
        self.assertEqual({o["stream"] for o in err}, {"stderr", "agent"})

    def test_long_lines_come_in_parts(self):
        agent = self.ended(["--log-format", "json", *TWO, self.python("print('\\u20ac' * 100000)\nprint('next')")])
        for rank in (0, 1):
            mine = [o for o in self.objects(agent.out) if o["rank"] == rank]
            parts = mine[:-1]
            self.assertEqual("".join(o["text"] for o in parts), "\u20ac" * 100000)
            self.assertEqual([o["part"] for o in parts], list(range(1, len(parts) + 1)))
            self.assertEqual([o.get("more", False) for o in parts], [True] * (len(parts) - 1) + [False])
            self.assertEqual(mine[-1]["text"], "next")
            self.assertNotIn("part", mine[-1])


class Trouble(Logs):
    def small_disk(self, megabytes=1):
        path = self.dir / "disk"
        path.mkdir()
        sh("mount", "-t", "tmpfs", "-o", f"size={megabytes}m", "tmpfs", str(path))
        self.addCleanup(sh, "umount", "-l", str(path))
        return path

    def test_a_full_disk_stops_no_worker(self):
        """Said once; the console goes on."""
        disk = self.small_disk()
        agent = self.ended([*TWO, "--log-dir", disk, "-t", "3", self.python(
            "for i in range(20000): print('line', i, 'x' * 90, flush=True)\nprint('done')")])
        for rank in (0, 1):
            mine = [line.split()[1] for line in agent.out.splitlines() if line.startswith(f"[default{rank}]:line")]
            self.assertEqual(mine, [str(i) for i in range(20000)])
            self.assertIn(f"[default{rank}]:done", agent.out)
        said = [line for line in agent.err_lines if "No space left" in line]
        self.assertEqual(len(said), 1, agent.err)
        self.assertRegex(said[0], r"^cxxrun: cannot write to .*stdout\.log: No space left on device; log files have gaps")

    def test_a_disk_that_is_full_at_the_start_is_an_error(self):
        disk = self.small_disk()
        with open(disk / "fill", "wb") as fill:
            try:
                while True:
                    fill.write(b"x" * 65536)
                    fill.flush()
            except OSError:
                pass
        agent = self.ended([*ONE, "--log-dir", disk, "-r", "3", self.worker, f"touch:{self.dir}/ran"], code=2)
        self.assertIn("No space left on device", agent.err)
        self.assertFalse((self.dir / "ran").exists())

    def test_memory_is_flat_while_the_reader_stops(self):
        """200 MB against a reader that does not read: the workers wait, the agent holds no more than a few MB."""
        script = self.python("block = (('r%s ' % rank + 'x' * 96 + '\\n') * 640).encode()\n"
                             "for i in range(1500): os.write(1, block)\n")
        for more in ([], ["-t", "1", "--log-dir", str(self.dir / "logs")]):
            with self.subTest(options=more):
                self.flat(script, more)

    def flat(self, script, more):
        self.before, self.looks = [], 0
        read, write = os.pipe()
        process = subprocess.Popen([CXXRUN, *TWO, *more, str(script)], stdout=write, env=self.env(), cwd=self.dir)
        os.close(write)
        try:
            count = len(os.read(read, 65536))
            harness.wait_until("two workers that wait in a write", lambda: self.all_wait(process.pid))
            tree = [process.pid, *harness.descendants(process.pid)]
            agents = [p for p in tree if not harness.cmdline(p).startswith("/usr/bin/python3 ")]
            peak = max(self.peak_kb(p) for p in agents if harness.alive(p))
            self.assertLess(peak, 24 * 1024 if not harness.SANITIZED else 300 * 1024)
            while chunk := os.read(read, 1 << 20):
                count += len(chunk)
            self.assertEqual(process.wait(60), 0)
            per_line = 100 + len("[default0]:" if more else "[rank0]: ")
            self.assertEqual(count, 2 * 1500 * 640 * per_line)
        finally:
            os.close(read)
            if process.poll() is None:
                process.kill()
                process.wait()

    @staticmethod
    def peak_kb(pid):
        with open(f"/proc/{pid}/status", encoding="ascii") as status:
            return int(re.search(r"VmHWM:\s+(\d+)", status.read()).group(1))

    def all_wait(self, pid):
        """Both workers wait in a write, and have written nothing for 50 looks."""
        workers = [p for p in harness.descendants(pid) if harness.cmdline(p).startswith("/usr/bin/python3 ")]
        facts = []
        for p in workers:
            try:
                with open(f"/proc/{p}/wchan", encoding="ascii") as wchan, open(f"/proc/{p}/io", encoding="ascii") as io:
                    facts.append((p, "pipe_w" in wchan.read(), io.read()))
            except OSError:
                return False
        still = len(facts) == 2 and all(waits for _, waits, _ in facts) and facts == self.before
        self.looks = self.looks + 1 if still else 0
        self.before = facts
        return self.looks >= 50


if __name__ == "__main__":
    harness.main()
