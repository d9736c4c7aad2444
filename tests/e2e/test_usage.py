# SPDX-License-Identifier: Apache-2.0
"""A wrong command line: its own sentence and its own code each, before anything starts."""
import pathlib
import re

import harness

LINES_MAX = 3


class Usage(harness.Case):
    def refused(self, args, code, *patterns, env=None, on=None, lines=LINES_MAX, seconds=20):
        (self.dir / "started").unlink(missing_ok=True)
        agent = self.start(args, env=env, on=on)
        self.assertEqual(agent.code(seconds), code, agent.transcript())
        for pattern in patterns:
            self.assertRegex(agent.err, pattern)
        self.assertTrue(agent.err.strip(), "not a word on stderr")
        self.assertLessEqual(len(agent.err_lines), lines, agent.err)
        self.assertNotRegex(agent.err, r"terminate called|what\(\)|backtrace|Traceback|internal error|Assertion")
        self.assertFalse((self.dir / "started").exists(), "a worker was started")
        return agent

    # --- the program ---
    def test_missing_program(self):
        self.refused(["--standalone", "--no-python", "/no/such/train"], 127, "/no/such/train", "(?i)not found|no such file")
        self.refused(["--standalone", "/no/such/train"], 127, "/no/such/train")
        self.refused(["--standalone", "no-such-program-on-the-path"], 127, "no-such-program-on-the-path")
        self.refused(["--standalone", "no_such_script.py"], 127, "no_such_script.py")

    def test_not_executable(self):
        binary = self.dir / "binary"
        binary.write_bytes(b"\x7fELF\0\0\0\0")
        self.refused(["--standalone", binary], 126, "binary", "(?i)execut|permission")
        self.refused(["--standalone", self.dir], 126, "(?i)directory")
        perl = self.dir / "script.pl"
        perl.write_text("#!/usr/bin/perl\n")
        self.refused(["--standalone", perl], 126, "script.pl", "(?i)execut|permission|chmod")
        self.refused(["--standalone", "--no-python", perl], 126, "script.pl")

    def test_missing_interpreter(self):
        """What the kernel would only call "no such file"."""
        script = self.dir / "x.sh"
        for head, code, says in (("#!/no/such -x\n", 127, "its interpreter /no/such .first line. does not exist"),
                                 ("#! /bin/sh\r\necho\r\n", 127, "carriage return.*#! /bin/sh\n.*Windows.*sed"),
                                 ("#!/usr/bin/env sh\r\n", 127, "carriage return"),
                                 ("#!/etc/passwd\n", 126, "its interpreter /etc/passwd .first line. cannot be executed"),
                                 ("#!\n", 126, "names no interpreter")):
            with self.subTest(head):
                script.write_bytes(head.encode())
                script.chmod(0o755)
                self.refused(["--standalone", script], code, r"x\.sh: ", says)

    def test_program_for_another_processor(self):
        """Found out by exec itself: the rank is named, and what became of the others."""
        program = self.dir / "alien"
        header = bytearray(open("/bin/true", "rb").read())
        header[18] = 0xff  # e_machine
        program.write_bytes(header)
        program.chmod(0o755)
        agent = self.refused(["--standalone", "--nproc_per_node", "3", program], 126,
                             r"rank 0 \(local rank 0 on node \S+\) could not be started: exec .*alien: Exec format error",
                             r"ranks 1-2 here: not started", "exit code: 126", lines=4,
                             env={"OMP_NUM_THREADS": "1"})  # else a line about it
        self.assertNotRegex(agent.err, "pid 0|still running")

    def test_program_whose_loader_is_missing(self):
        program = self.dir / "musl"
        program.write_bytes(open("/bin/true", "rb").read().replace(b"/lib64/ld-linux-x86-64.so.2", b"/lib64/ld-nowhere-x86-64.so", 1))
        program.chmod(0o755)
        self.refused(["--standalone", program], 127, "its loader /lib64/ld-nowhere-x86-64.so does not exist here", lines=4)

    def test_no_program(self):
        self.refused([], 2, "(?i)program|script")
        self.refused(["--standalone"], 2, "(?i)program|script")

    # --- numbers ---
    def test_bad_numbers(self):
        rows = [("--nnodes", bad) for bad in ("0", "-1", "2:1", "1:2:3", "x", "", "0:2", "1:", "99999999999")]
        rows += [("--nproc_per_node", bad) for bad in ("0", "-1", "many", "", "1.5", "99999999999")]
        rows += [("--max-restarts", bad) for bad in ("x", "-1", "1.5", "99999999999999")]
        rows += [("--shutdown-timeout", bad) for bad in ("x", "-1")]
        rows += [("--master-port", bad) for bad in ("x", "70000", "-5")]
        rows += [("--node-rank", bad) for bad in ("x", "-1")]
        rows += [("--port-range", bad) for bad in ("x", "9-5", "1-70000")]
        rows += [("--rdzv-endpoint", bad) for bad in ("h:65536", "h:a", ":1", "a b:1", "http://h:1", "[::1", "[]:5")]
        rows += [("--rdzv-conf", bad) for bad in ("=1", "a", "join_timeout=", "join_timeout=x", "join_timeout=-3")]
        rows += [("--start-method", "bogus"), ("--monitor-interval", "x"), ("--rdzv-backend", "bogus")]
        for option, bad in rows:
            with self.subTest(option=option, value=bad):
                name = option.replace("_", "-").lstrip("-").replace("-", "[-_]")
                self.refused([f"{option}={bad}", self.worker, f"touch:{self.dir}/started"], 2, name)

    def test_bad_number_in_a_variable(self):
        self.refused([self.worker, f"touch:{self.dir}/started"], 2, "PET_MAX_RESTARTS", "abc", env={"PET_MAX_RESTARTS": "abc"})
        self.refused([self.worker, f"touch:{self.dir}/started"], 2, "PET_NNODES", env={"PET_NNODES": "2:1"})

    # --- configuration files ---
    def configured(self, content):
        """The environment of a user whose configuration file holds `content`."""
        path = self.dir / "config" / "cxxrun.conf"
        path.parent.mkdir(exist_ok=True)
        path.write_text(content)
        return {"XDG_CONFIG_HOME": str(path.parent)}

    def test_configuration_file(self):
        """Each error names the file, the line, the key and the value."""
        for content, wanted in (("nnodes = x\n", "cxxrun.conf:1: nnodes = x: must be"), ("\nstandalone = yes\n", "cxxrun.conf:2: standalone = yes: must be"),
                                ("help = 1\n", "cxxrun.conf:1: help is for the command line: cxxrun --help"),
                                ("nproc-per-nod = 1\n", "cxxrun.conf:1: unknown option nproc-per-nod; did you mean nproc-per-node"),
                                ("rdzv-conf = a\n", "cxxrun.conf:1: rdzv-conf: a is not"), ("#" * 70_000, "cxxrun.conf: is larger than 65536 bytes")):
            with self.subTest(content[:40]):
                self.refused([self.worker, f"touch:{self.dir}/started"], 2, re.escape(wanted), env=self.configured(content), lines=1)

    def test_configuration_file_that_cannot_be_read(self):
        folder = self.dir / "odd" / "cxxrun.conf"
        folder.mkdir(parents=True)
        self.refused([self.worker], 2, "odd/cxxrun.conf: is a directory", env={"XDG_CONFIG_HOME": str(folder.parent)}, lines=1)
        agent = self.start(["--version"], env={"XDG_CONFIG_HOME": str(folder.parent)})
        self.assertEqual(agent.code(), 0)
        env = self.configured("nnodes = 1\n")
        pathlib.Path(env["XDG_CONFIG_HOME"], "cxxrun.conf").chmod(0)
        plain = ["setpriv", "--bounding-set", "-dac_override,-dac_read_search"]   # root without its privilege over files
        agent = self.start([self.worker], env=env, prefix=plain)
        self.assertEqual(agent.code(), 2, agent.transcript())
        self.assertRegex(agent.err, "cxxrun.conf: cannot be read: Permission denied")
        pathlib.Path(env["XDG_CONFIG_HOME"]).chmod(0)   # a home that is closed to us, as another user's: nothing is wrong
        agent = self.start([self.worker], env=env, prefix=plain)
        self.assertEqual(agent.code(), 0, agent.transcript())

    def test_control_characters_drive_no_terminal(self):
        bad = "a\nb\x1b[31m"
        for args in (["--rdzv-id", bad], ["--role", bad], ["--nnodes", bad], ["--" + bad], ["-" + bad], ["--rdzv-endpoint", bad], ["--local-addr", bad],
                     ["--rdzv-conf", bad + "="], ["--rdzv-conf", "join_timeout=" + bad], ["--rdzv-conf", "token_file=" + bad], ["--nproc-per-node", bad]):
            with self.subTest(args):
                agent = self.refused([*args, self.worker, f"touch:{self.dir}/started"], 2, "a\\\\nb", lines=1)
                self.assertNotIn("\x1b", agent.err)
        agent = self.refused(["--standalone", bad], 127, "a\\\\nb", lines=2)
        self.assertNotIn("\x1b", agent.err)
        agent = self.refused([self.worker], 2, r"PET_NNODES='a\\nb\\x1b\[31m'", env={"PET_NNODES": bad}, lines=1)
        agent = self.refused(["--nnodes", "2", self.worker], 2, r"MASTER_ADDR names 'a\\nb", env={"MASTER_ADDR": bad}, lines=1)

    # --- options ---
    def test_unknown_option_names_the_nearest(self):
        for typo, near in (("--nprocs_per_node=2", "--nproc[-_]per[-_]node"), ("--max-restrats=1", "--max[-_]restarts"),
                           ("--standalnoe", "--standalone"), ("--rdzv-endpiont=h:1", "--rdzv[-_]endpoint")):
            with self.subTest(typo):
                self.refused([typo, self.worker, f"touch:{self.dir}/started"], 2, typo.split("=")[0], near)

    def test_value_missing_or_too_much(self):
        self.refused(["--nnodes"], 2, "nnodes")
        self.refused(["--standalone=1", self.worker], 2, "standalone")
        self.refused(["--no-python", "-m", self.worker], 2, "no[-_]python")

    def test_needs_python(self):
        """What cannot be had without a Python interpreter in the launcher: refused by name, with what to use instead."""
        for option, instead in (["--run-path"], "leave it out"), (["--logs-specs", "x"], "--tee"), (["--rdzv-backend", "my_handler"], "c10d"):
            with self.subTest(option[0]):
                self.refused([*option, self.worker, f"touch:{self.dir}/started"], 2, option[0], instead)

    def test_unknown_rdzv_conf_key_is_a_warning(self):
        agent = self.start(["--standalone", "--rdzv-conf", "joint_timeout=5", self.worker])
        self.assertEqual(agent.code(), 0)
        self.assertRegex(agent.err, "joint_timeout.*join_timeout")

    def test_quoted_rdzv_conf_is_accepted(self):
        agent = self.start(["--nnodes=1:2", "--rdzv-backend=c10d", "--rdzv-endpoint=localhost:29501",
                            "--rdzv-conf='join_timeout=5,last_call_timeout=1,timeout=5'", self.worker])
        self.assertEqual(agent.code(), 0)

    def test_no_endpoint(self):
        """Several nodes and nothing says where: a line to copy, and never a rank 0 on each node."""
        self.refused(["--nnodes", "3", self.worker, f"touch:{self.dir}/started"], 2, "--rdzv[-_]endpoint", "PET_RDZV_ENDPOINT",
                     r"\.config/cxxrun\.conf|/etc/cxxrun\.conf", lines=14)

    def test_backend_of_another_age(self):
        self.refused(["--nnodes", "2", "--rdzv-backend", "etcd-v2", "--rdzv-endpoint", "h:1", self.worker], 2, "etcd-v2", "--rdzv[-_]backend")

    # --- rendezvous ---
    def test_name_that_never_resolves(self):
        ha, = self.nodes(1)
        self.refused(["--nnodes", "2", "--rdzv-endpoint", "nowhere.invalid:29501", "--rdzv-conf", "join_timeout=1", self.worker],
                     69, "nowhere.invalid", "(?i)resolve", on=ha)

    def test_refused(self):
        ha, _ = self.nodes(2)
        self.refused(["--nnodes", "2", "--rdzv-endpoint", "10.77.0.2:29501", "--rdzv-conf", "join_timeout=1", self.worker], 69,
                     r"10\.77\.0\.2:29501", "(?i)refused", on=ha)

    def test_no_answer(self):
        ha, hb = self.nodes(2)
        hb.drop_from(ha)
        self.refused(["--nnodes", "2", "--rdzv-endpoint", "10.77.0.2:29501", "--rdzv-conf", "join_timeout=2", self.worker], 69,
                     r"10\.77\.0\.2:29501", "(?i)no answer|not answer", on=ha)

    def test_not_a_rendezvous(self):
        ha, hb = self.nodes(2)
        web = self.background(["/usr/bin/python3", "-u", "-c", "import http.server as h; s = h.HTTPServer(('', 29501), "
                               "h.BaseHTTPRequestHandler); print('up'); s.serve_forever()"], on=hb)
        web.wait_for_line("up")
        self.refused(["--nnodes", "2", "--rdzv-endpoint", "10.77.0.2:29501", "--rdzv-conf", "join_timeout=3", self.worker], 69,
                     r"10\.77\.0\.2:29501", "(?i)not a rendezvous|no rendezvous", on=ha)
        # The port of the endpoint is taken on the node that should serve it.
        self.refused(["--nnodes", "2", "--rdzv-endpoint", "10.77.0.2:29501", "--rdzv-conf", "join_timeout=3", self.worker], 69,
                     "29501", "(?i)not a rendezvous|no rendezvous|in use", on=hb)
        self.refused(["--nnodes", "2", "--node-rank", "0", "--master-addr", "10.77.0.2", "--master-port", "29501",
                      "--rdzv-conf", "join_timeout=3", self.worker], 69, "29501", "(?i)in use|taken", on=hb)

    def test_wrong_run_id(self):
        ha, hb = self.nodes(2)
        first = self.start(["--nnodes", "2", "--rdzv-endpoint", "10.77.0.1:29501", "--rdzv-id", "blue", self.worker], on=ha)
        first.wait_for_line("1 of 2|waiting")
        self.refused(["--nnodes", "2", "--rdzv-endpoint", "10.77.0.1:29501", "--rdzv-id", "green", self.worker], 69, "blue", "green", on=hb)
        second = self.start(["--nnodes", "2", "--rdzv-endpoint", "10.77.0.1:29501", "--rdzv-id", "blue", self.worker], on=hb)
        self.assert_codes([first, second], 0)

    def test_nodes_that_disagree(self):
        """Another size or budget is refused, with both values."""
        ha, hb = self.nodes(2)
        first = self.start(["--nnodes", "2", "--rdzv-endpoint", "10.77.0.1:29501", self.worker], on=ha)
        first.wait_for_line("1 of 2|waiting")
        self.refused(["--nnodes", "3", "--rdzv-endpoint", "10.77.0.1:29501", self.worker], 69, "3", "2", "nnodes", on=hb)
        self.refused(["--nnodes", "2", "--max-restarts", "5", "--rdzv-endpoint", "10.77.0.1:29501", self.worker], 69, "5", "0",
                     "max[-_]restarts", on=hb)
        second = self.start(["--nnodes", "2", "--rdzv-endpoint", "10.77.0.1:29501", self.worker], on=hb)
        self.assert_codes([first, second], 0)

    def test_time_out(self):
        """Nobody comes: who is there, how many are missing, and which setting the limit is."""
        ha, = self.nodes(1)
        self.refused(["--nnodes", "3", "--rdzv-endpoint", "10.77.0.1:29501", "--rdzv-conf", "join_timeout=1", self.worker], 75,
                     "1 of 3", "join_timeout", "ha", on=ha, lines=5)

    # --- help ---
    def test_help_and_version(self):
        for args, want in ((["--help"], "--nproc[-_]per[-_]node"), (["-h"], "--nnodes"), (["--version"], r"cxxrun \d+\.\d+\.\d+")):
            agent = self.start(args)
            self.assertEqual(agent.code(), 0)
            self.assertRegex(agent.out, want)
            self.assertEqual(agent.err, "")


if __name__ == "__main__":
    harness.main()
