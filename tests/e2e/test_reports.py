# SPDX-License-Identifier: Apache-2.0
"""What is told when something fails: the report, the error file, the result file, the termination log, memory, exit codes,
events and metrics."""
import contextlib
import json
import os
import pathlib
import re
import signal

import harness

ENDPOINT = ["--rdzv_backend", "c10d", "--rdzv_endpoint", "10.77.0.1:29501", "--rdzv_id", "t"]
PYTHON = "/usr/bin/python3"


class Reports(harness.Case):
    def script(self, text, name="w.sh"):
        path = self.dir / name
        path.write_text("#!/bin/sh\n" + text)
        path.chmod(0o755)
        return path

    def result(self, name="r.json"):
        return json.loads((self.dir / name).read_text())

    # --- the report ---
    def test_who_ended_how(self):
        """Culprit, then who failed by itself, then who was stopped; one screen however much was written."""
        agent = self.start(["--standalone", "--nproc_per_node", "5", "--shutdown-timeout", "1", self.worker,
                            "[rank=4]ignore:TERM", f"[rank=3]save:TERM=10={self.dir}/saved=0", "barrier:b",
                            *[f"[rank=1]err:line {i}" for i in range(100)], "[rank=1]exit:3", "forever"])
        self.assertEqual(agent.code(), 3)
        report = agent.err[agent.err.index("cxxrun: the job failed"):].splitlines()
        self.assertLessEqual(len(report), 42)
        self.assertRegex(report[0], r"rank 1 \(local rank 1 on node testhost, pid \d+\) ended with exit code 3 in round 0")
        self.assertRegex(report[1], r"  when: \d{4}-\d\d-\d\d \d\d:\d\d:\d\d\.\d{3} \S+")
        self.assertEqual(report[-5:], ["    line 99",
                                       "  rank 4 here: stopped by cxxrun with SIGKILL: it had not ended in time",
                                       "  ranks 0, 2 here: stopped by cxxrun with SIGTERM",
                                       "  rank 3 here: stopped by cxxrun with SIGTERM, then exit code 0",
                                       "  exit code: 3"])

    def test_torchrun_36_signal(self):
        agent = self.start([self.worker, "raise:HUP"])
        self.assertEqual(agent.code(), 129)
        self.assertIn("ended with signal 1 (SIGHUP)", agent.err)

    def test_no_evidence_no_memory(self):
        agent = self.start(["--standalone", "--nproc_per_node", "2", self.worker, "barrier:b", "[rank=1]raise:KILL", "forever"])
        self.assertEqual(agent.code(), 137)
        self.assertIn("signal 9 (SIGKILL)", agent.err)
        self.assertNotRegex(agent.err, r"(?i)memory")

    # --- error files ---
    def test_torchrun_61_root_cause_by_time(self):
        """Rank 2 raises first and is slow to end; rank 0 fails because of it and ends at once. Rank 2 is the cause."""
        writer = self.script("""
            record() {
              printf '{"message": {"message": "E: of rank %s", "extraInfo": {"py_callstack": "T\\\\n  of rank %s", "timestamp": "%s"}}}' \
                "$RANK" "$RANK" "$(date +%s)" > "$TORCHELASTIC_ERROR_FILE"
            }
            [ "$RANK" = 2 ] && { trap 'exit 9' TERM; record; touch "$1/raised"; sleep 1000 & wait; }
            [ "$RANK" = 0 ] && { while [ ! -e "$1/raised" ]; do sleep 0.01; done; sleep 0.2; [ "$2" = record ] && record; exit 1; }
            sleep 1000
            """)
        for how in ("plain", "record"):
            with self.subTest(how):
                (self.dir / "raised").unlink(missing_ok=True)
                agent = self.start(["--standalone", "--nproc_per_node", "3", "--no-python", writer, self.dir, how])
                self.assertEqual(agent.code(), 9)
                self.assertRegex(agent.err, r"the job failed: rank 2 .* exit code 9")
                self.assertIn("  reason: E: of rank 2\n  traceback:\n    T\n      of rank 2\n  rank 0 here: failed by itself: "
                              "exit code 1\n  rank 1 here: stopped by cxxrun with SIGTERM\n", agent.err)

    def test_an_exception_made_by_our_signal_is_no_cause(self):
        writer = self.script("""
            record() {
              printf '{"message": {"message": "E: stopped", "extraInfo": {"py_callstack": "T", "timestamp": "%s"}}}' \
                "$(date +%s)" > "$TORCHELASTIC_ERROR_FILE"
            }
            [ "$RANK" = 1 ] && { trap 'record; exit 9' TERM; touch "$1/up"; sleep 1000 & wait; }
            while [ ! -e "$1/up" ]; do sleep 0.01; done; exit 3
            """)
        agent = self.start(["--standalone", "--nproc_per_node", "2", "--no-python", writer, self.dir])
        self.assertEqual(agent.code(), 3)
        self.assertIn("the job failed: rank 0 ", agent.err)
        self.assertIn("  rank 1 here: stopped by cxxrun with SIGTERM, then exit code 9\n", agent.err)

    def test_torchrun_62_and_70_copy_for_whoever_started_us(self):
        record = '{"message": {"message": "RuntimeError: x", "extraInfo": {"py_callstack": "T", "timestamp": "1700000000"}, "more": 1}}'
        writer = self.script("""printf '%s' "$1" > "$TORCHELASTIC_ERROR_FILE"; exit $2""")
        outer = self.dir / "outer.json"
        outer.write_text("an older one")
        agent = self.start(["--standalone", "--no-python", writer, record, "3"], env={"TORCHELASTIC_ERROR_FILE": outer})
        self.assertEqual(agent.code(), 3)
        want = json.loads(record)
        want["message"]["errorCode"] = 3
        self.assertEqual(json.loads(outer.read_text()), want)
        outer.unlink()
        for bad in ("garbage", "", "{" * 1000, '{"message": 7}', "x" * 3_000_000):  # case 70
            with self.subTest(bad[:20]):
                (self.dir / "bad").write_text(bad)
                copier = self.script("""cp "$1" "$TORCHELASTIC_ERROR_FILE"; echo why >&2; exit 3""", "copier.sh")
                agent = self.start(["--standalone", "--no-python", copier, self.dir / "bad"],
                                   env={"TORCHELASTIC_ERROR_FILE": outer})
                self.assertEqual(agent.code(), 3)
                self.assertIn("ended with exit code 3", agent.err)
                self.assertIn("    why\n", agent.err)
                self.assertFalse(outer.exists())

    # --- the termination log ---
    def test_termination_log(self):
        log = self.dir / "log"
        command = ["--standalone", self.worker, *[f"err:{'x' * 300} {i}" for i in range(64)], "exit:3"]
        self.assertEqual(self.start(command, env={"CXXRUN_TERMINATION_LOG": log}).code(), 3)
        self.assertFalse(log.exists(), "written only where it is there")
        log.write_text("old" * 5000)
        self.assertEqual(self.start(command, env={"CXXRUN_TERMINATION_LOG": log}).code(), 3)
        text = log.read_text()
        self.assertLessEqual(len(text.encode()), 4096)
        self.assertTrue(text.startswith("cxxrun: the job failed: rank 0 "), text)
        self.assertIn(" 63\n", text)
        self.assertTrue(text.endswith("  exit code: 3\n"), text)
        agent = self.start(["--nnodes", "x", "true"], env={"CXXRUN_TERMINATION_LOG": log})
        self.assertEqual(agent.code(), 2)
        self.assertIn("--nnodes x", log.read_text())

    def test_termination_log_on_every_node(self):
        nodes = self.nodes(2)
        agents = []
        for node in nodes:
            (self.dir / f"log.{node.name}").touch()
            agents.append(self.start(["--nnodes", "2", *ENDPOINT, self.worker, "barrier:b", "[rank=1]err:the reason",
                                      "[rank=1]exit:7", "forever"], on=node,
                                     env={"CXXRUN_TERMINATION_LOG": self.dir / f"log.{node.name}"}))
        self.assert_codes(agents, 7)
        first = {(self.dir / f"log.{node.name}").read_text().splitlines()[0] for node in nodes}
        self.assertEqual(len(first), 1)
        self.assertIn("rank 1 ", first.pop())
        for node in nodes:
            self.assertIn("    the reason\n", (self.dir / f"log.{node.name}").read_text())

    # --- the result file ---
    def test_result_of_success_and_failure(self):
        agent = self.start(["--standalone", "--nproc_per_node", "2", "--result-file", "r.json", self.worker])
        self.assertEqual(agent.code(), 0)
        result = self.result()
        self.assertEqual((result["outcome"], result["exit_code"], result["signal"], result["root_cause"]), ("succeeded", 0, None, None))
        self.assertEqual([w["state"] for w in result["workers"]], ["succeeded", "succeeded"])
        agent = self.start(["--standalone", "--nproc_per_node", "2", "--max-restarts", "1", "--result-file", self.dir / "r.json",
                            self.worker, "barrier:b", "[rank=1]err:boom", "[rank=1]exit:7", "forever"])
        self.assertEqual(agent.code(), 7)
        result = self.result()
        self.assertEqual((result["outcome"], result["exit_code"], result["rounds"], result["restarts"], result["max_restarts"]),
                         ("failed", 7, 2, 1, 1))
        cause = result["root_cause"]
        self.assertEqual((cause["rank"], cause["exit_code"], cause["signal"], cause["round"], cause["last_lines"]),
                         (1, 7, None, 1, ["boom"]))
        self.assertRegex(cause["time"], r"^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$")
        self.assertEqual([(f["round"], f["rank"]) for f in result["failures"]], [(0, 1), (1, 1)])
        self.assertEqual([(w["rank"], w["state"], w["stopped_with"], w["signal"]) for w in result["workers"]],
                         [(0, "stopped", "SIGTERM", "SIGTERM"), (1, "failed", None, None)])
        self.assertGreaterEqual(result["seconds"], result["joining_seconds"])
        self.assertEqual([p.name for p in self.dir.iterdir() if p.name.endswith(".new")], [])

    def test_result_of_every_other_end(self):
        for name, args, code, outcome in (
                ("usage", ["--nnodes", "x", "true"], 2, "usage"),
                ("missing", ["--no-python", "./no-such-program"], 127, "not-started"),
                ("log folder", ["--log-dir", "/proc/none", "true"], 2, "usage"),
                ("descriptors", ["true"], 70, "not-started"),
                ("alone", ["--nnodes", "2", "--rdzv-endpoint", "127.0.0.1:29544", "--rdzv-conf", "join_timeout=1", "true"], 75,
                 "nodes-missing")):
            with self.subTest(name):
                few = ["prlimit", "--nofile=12:12"] if name == "descriptors" else []
                agent = self.start(["--result-file", "r.json", *args], prefix=few)
                self.assertEqual(agent.code(), code)
                result = self.result()
                self.assertEqual((result["outcome"], result["exit_code"]), (outcome, code))
                self.assertTrue(result["reason"])
        for signo, code in ((signal.SIGTERM, 143), (signal.SIGINT, 130)):
            with self.subTest(signo):
                up = self.dir / f"up.{code}"
                agent = self.start(["--result-file", "r.json", self.worker, f"touch:{up}", "forever"])
                self.wait_for_files(up.name)
                agent.signal(signo)
                self.assertEqual(agent.code(), code)
                result = self.result()
                self.assertEqual((result["outcome"], result["exit_code"], result["signal"]), ("stopped", code, signo.name))

    def test_result_that_cannot_be_written(self):
        agent = self.start(["--result-file", "/no/such/folder/r.json", self.worker, "exit:3"])
        self.assertEqual(agent.code(), 3)
        self.assertIn("cannot write --result-file: /no/such/folder/r.json: No such file", agent.err)

    # --- exit codes ---
    def test_chosen_code_of_a_peer(self):
        """The culprit's node keeps its code, the others have the chosen one."""
        nodes = self.nodes(2)
        agents = self.run_all(["--nnodes", "2", *ENDPOINT, "--exit-code", "peer-failed=200", self.worker, "barrier:b",
                               "[rank=1]exit:7", "forever"], nodes)
        self.assertEqual([agent.code() for agent in agents], [200, 7])
        self.assertIn("exit code: 200 (--exit-code peer-failed=200, else 7)", agents[0].err)

    def test_chosen_code_of_a_lost_node(self):
        nodes = self.nodes(2)
        agents = self.run_all(["--nnodes", "2", *ENDPOINT, "--rdzv-conf", "rejoin_timeout=1", "--exit-code", "lost-node=175",
                               self.worker, "barrier:b", f"touch:{self.dir}/up.{{rank}}", "forever"], nodes)
        self.wait_for_files("up.0", "up.1")
        agents[1].signal(signal.SIGKILL)
        self.assertEqual(agents[0].code(), 175)

    def test_codes_that_no_restart_follows(self):
        """E8: a code that is listed ends the job at once, with restarts left; on every node the same."""
        starts = self.dir / "starts"
        for option, code, attempts in (("--no-restart-exit-codes=3,64-78", 64, 1), ("--no-restart-exit-codes=3,64-78", 5, 3),
                                       ("--restart-exit-codes=5", 64, 1), ("--restart-exit-codes=64", 64, 3)):
            with self.subTest(option=option, code=code):
                starts.unlink(missing_ok=True)
                agent = self.start(["--standalone", "--max-restarts", "2", option, self.worker, f"append:{starts}", f"exit:{code}"])
                self.assertEqual(agent.code(), code)
                self.assertEqual(len(starts.read_text().splitlines()), attempts)
                why = f"exit code {code} is not one to restart for" if attempts == 1 else "restart 2 of 2 was the last"
                self.assertIn(f"  no restart: {why}\n", agent.err)

    def test_codes_that_no_restart_follows_are_the_jobs(self):
        nodes = self.nodes(2)
        agents = self.run_all(["--nnodes", "2", *ENDPOINT, "--max-restarts", "2", "--no-restart-exit-codes", "SIGKILL", self.worker,
                               f"append:{self.dir}/starts", "barrier:b", "[rank=1]raise:KILL", "forever"], nodes)
        self.assert_codes(agents, 137)
        self.assertEqual(len((self.dir / "starts").read_text().splitlines()), 2)
        for agent in agents:
            self.assertIn("  no restart: signal 9 (SIGKILL) is not one to restart for\n", agent.err)

    # --- events and metrics ---
    def test_events_and_metrics(self):
        events, metrics = self.dir / "events", self.dir / "metrics"
        agent = self.start(["--standalone", "--nproc_per_node", "2", "--max-restarts", "1", "--event-log-handler", events,
                            "--metrics", metrics, "--rdzv-id", "job", self.worker, "barrier:b", "[restart=0,rank=1]exit:7",
                            "[restart=0]forever"])
        self.assertEqual(agent.code(), 0)
        told = [json.loads(line) for line in events.read_text().splitlines()]
        names = [(e["source"], e["metadata"]["state"], e["metadata"]["global_rank"]) for e in told]
        one = [("AGENT", "RENDEZVOUS", None), ("AGENT", "ASSIGN_WORKER_RANKS", None), ("WORKER", "START", 0), ("WORKER", "START", 1)]
        self.assertEqual(names[:6], [*one, ("WORKER", "FAILED", 1), ("WORKER", "TERMINATED", 0)])
        self.assertEqual(names[6:10], one)
        self.assertEqual(sorted(names[10:12]), [("WORKER", "SUCCEEDED", 0), ("WORKER", "SUCCEEDED", 1)])
        self.assertEqual(names[12:], [("AGENT", "SUCCEEDED", None)])
        failed = told[4]
        self.assertEqual(failed["name"], "torchelastic.worker.status.FAILED")
        self.assertEqual(failed["metadata"]["run_id"], "job")
        self.assertEqual(failed["metadata"]["exit_code"], 7)
        self.assertGreater(failed["metadata"]["worker_pid"], 0)
        self.assertEqual(told[3]["metadata"]["worker_pid"], failed["metadata"]["worker_pid"])  # its START
        self.assertEqual(json.loads(failed["metadata"]["metadata"])["local_rank"], [1])
        self.assertEqual(told[-1]["metadata"]["agent_restarts"], 1)
        values = {line["name"]: line["value"] for line in map(json.loads, metrics.read_text().splitlines())}
        for name, value in (("remaining_restarts", 0), ("failed", 1), ("run_total", 1), ("run_success_with_retries", 1),
                            ("run_success_no_retries", 0), ("run_failed_with_retries", 0), ("flakiness", 50)):
            self.assertEqual(values["workers.default." + name], value, name)

    def test_events_on_the_console_and_off(self):
        agent = self.start(["--standalone", "--event-log-handler", "console", self.worker])
        self.assertEqual(agent.code(), 0)
        self.assertEqual([json.loads(line)["metadata"]["state"] for line in agent.err_lines],
                         ["RENDEZVOUS", "ASSIGN_WORKER_RANKS", "START", "SUCCEEDED", "SUCCEEDED"])
        agent = self.start(["--standalone", self.worker])
        self.assertEqual((agent.code(), agent.err, agent.out), (0, "", ""))

    def test_events_that_cannot_be_written(self):
        agent = self.start(["--standalone", "--event-log-handler", "/no/such/folder/e", self.worker])
        self.assertEqual(agent.code(), 0)
        self.assertEqual(agent.err.count("cannot write to /no/such/folder/e"), 1)


class ExitCodes(harness.Case):
    """Each row of docs/exit-codes.md, by what ends so, or by the test elsewhere that ends so."""

    ELSEWHERE = {"71": ("test_stop.py", "test_a_process_that_sigkill_does_not_end"), "77": None}  # 77: nothing sets that limit yet

    def rows(self):
        text = (harness.SOURCE / "docs" / "exit-codes.md").read_text()
        cells = [[c.strip() for c in line.strip("| ").split("|")] for line in text.splitlines() if line.startswith("| ")]
        return [row for row in cells if row[0] not in ("when", "code", "class")]

    def code_of(self, args, stop=None, **options):
        (self.dir / "up").unlink(missing_ok=True)
        agent = self.start(args, **options)
        if stop:
            self.wait_for_files("up")
            agent.signal(stop)
        return agent.code()

    def test_the_codes_of_our_own(self):
        alone = ["--nnodes", "2", "--rdzv-conf", "join_timeout=1", "--rdzv-endpoint"]
        not_executable = self.dir / "data"
        not_executable.write_bytes(b"\0\1\2")
        ends = {"2": ["--nnodes", "0", "true"], "69": [*alone, "no-such-host.invalid:29500", "true"],
                "75": [*alone, "127.0.0.1:29544", "true"], "126": ["--no-python", not_executable],
                "127": ["--no-python", "./no-such-program"]}
        rows = [row for row in self.rows() if row[0].isdigit()]
        self.assertGreaterEqual(len(rows), 8)
        for row in rows:
            with self.subTest(row):
                if row[0] == "1":
                    self.assertEqual(self.code_of(["-c", f"{harness.CXXRUN} --version > /dev/full"], program="sh"), 1)
                elif row[0] == "70":
                    self.assertEqual(self.code_of(["--nproc_per_node", "64", "true"], prefix=("prlimit", "--nofile=24:24")), 70)
                elif row[0] in ends:
                    self.assertEqual(self.code_of(ends[row[0]]), int(row[0]))
                elif self.ELSEWHERE[row[0]]:
                    file, test = self.ELSEWHERE[row[0]]
                    self.assertIn(test, (pathlib.Path(__file__).parent / file).read_text())

    def test_when(self):
        up = f"touch:{self.dir}/up"
        ends = {"all workers": [([self.worker], None, 0)],
                "a signal stopped": [([self.worker, up, "forever"], signo, 128 + signo) for signo in
                                     (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGQUIT)],
                "a worker failed": [([self.worker, "exit:7"], None, 7), ([self.worker, "raise:SEGV"], None, 139)],
                "anything of": []}
        rows = [row for row in self.rows() if not row[0].isdigit() and not row[0].startswith("`")]
        self.assertEqual(len(rows), len(ends))
        for row in rows:
            for args, stop, code in next(v for k, v in ends.items() if row[0].startswith(k)):
                with self.subTest(row=row, code=code):
                    self.assertEqual(self.code_of(args, stop), code)

    def test_classes(self):
        """Those of one node; lost-node and peer-failed: Reports.test_chosen_code_of_*."""
        classes = {row[0].strip("`") for row in self.rows() if row[0].startswith("`")}
        self.assertEqual(classes, {"usage", "rendezvous", "lost-node", "stopped", "peer-failed"})
        alone = ["--nnodes", "2", "--rdzv-endpoint", "127.0.0.1:29544", "--rdzv-conf", "join_timeout=1", "true"]
        for choice, args, stop, code in (("usage=64", ["--nnodes", "0", "true"], None, 64), ("rendezvous=9", alone, None, 9),
                                         ("lost-node=9", alone, None, 75), ("kubeflow", alone, None, 197),
                                         ("stopped=0", [self.worker, f"touch:{self.dir}/up", "forever"], signal.SIGTERM, 0),
                                         ("usage=9,rendezvous=9,lost-node=9,stopped=9,peer-failed=9", [self.worker, "exit:7"], None, 7)):
            with self.subTest(choice):
                self.assertEqual(self.code_of(["--exit-code", choice, *args], stop), code)


class Memory(harness.Case):
    """Real control groups with a limit of 64 MiB, where this machine lets us make them."""

    def setUp(self):
        super().setUp()
        self.groups = []

    def _clean(self):
        super()._clean()
        for group in self.groups:
            harness.wait_until(f"{group} to be empty", lambda g=group: not (g / "cgroup.procs").read_text().strip())
            group.rmdir()

    def group(self, name, limit_mib=64):
        if harness.SANITIZED:
            self.skipTest("a sanitizer's shadow memory does not fit into a small control group")
        own = {controllers: path for _, controllers, path in
               (line.split(":", 2) for line in pathlib.Path("/proc/self/cgroup").read_text().splitlines())}
        v1 = next((path for controllers, path in own.items() if "memory" in controllers.split(",")), None)
        base = pathlib.Path(f"/sys/fs/cgroup/memory{v1}" if v1 is not None else f"/sys/fs/cgroup{own.get('', '/')}")
        group = base / f"{self.marker}.{name}"
        try:
            group.mkdir()
            self.groups.append(group)
            (group / ("memory.limit_in_bytes" if v1 is not None else "memory.max")).write_text(str(limit_mib << 20))
            if v1 is None:
                (group / "memory.swap.max").write_text("0")
            elif (group / "memory.memsw.limit_in_bytes").exists():
                (group / "memory.memsw.limit_in_bytes").write_text(str(limit_mib << 20))
        except OSError as error:
            self.skipTest(f"no control group with a memory limit can be made here: {error}")
        return group

    def inside(self, group):
        return ["sh", "-c", f'echo $$ > {group}/cgroup.procs && exec "$@"', "sh"]

    def start_in(self, group, args, **options):
        return self.start([*args], prefix=self.inside(group), **options)

    def hog(self):
        path = self.dir / "hog.py"
        path.write_text("import os, sys, time\n"
                        "if os.environ['RANK'] != '1': time.sleep(1000)\n"
                        "print('loading', file=sys.stderr, flush=True)\n"
                        "x = []\n"
                        "while True: x.append(bytearray(b'x') * (1 << 20))\n")
        return path

    def test_out_of_memory_is_named_with_evidence(self):
        group = self.group("oom")
        agent = self.start_in(group, ["--standalone", "--nproc_per_node", "2", PYTHON, self.hog()])
        self.assertEqual(agent.code(), 137)
        self.assertIn("signal 9 (SIGKILL)", agent.err)
        self.assertRegex(agent.err, rf"out of memory: the cgroup \S*{group.name} counted 1 out-of-memory kill "
                                    r"(in that moment|since the workers started), limit 64 MiB")

    def test_the_whole_group_with_its_agent(self):
        """As with memory.oom.group=1: a node's memory is full, and all of it dies at once. The other node says why."""
        group = self.group("pod", 96)
        full = self.dir / "full.py"  # fills the group up to its limit, never beyond it
        full.write_text(f"""
import os, pathlib, time
if os.environ["RANK"] == "0":
    time.sleep(1000)
group = pathlib.Path("{group}")
v1 = (group / "memory.usage_in_bytes").exists()
def used():
    stat = dict(line.split() for line in (group / "memory.stat").read_text().splitlines())
    inactive = int(stat["total_inactive_file" if v1 else "inactive_file"])
    return int((group / ("memory.usage_in_bytes" if v1 else "memory.current")).read_text()) - inactive
x = []
while used() < {(96 << 20) * 985 // 1000}:
    x.append(bytearray(b"x") * (64 << 10))
pathlib.Path("{self.dir}/full").touch()
time.sleep(1000)
""")
        args = ["--nnodes", "2", "--rdzv-endpoint", "127.0.0.1:29501", "--rdzv-conf", "keep_alive_interval=0.2,rejoin_timeout=1",
                PYTHON, full]
        survivor = self.start(args)
        survivor.wait_for_line("listens at")
        victim = self.start_in(group, args)
        self.wait_for_files("full", seconds=60)

        def wake_ups():
            status = pathlib.Path(f"/proc/{victim.inner()}/status").read_text()
            return int(re.search(r"^voluntary_ctxt_switches:\s*(\d+)", status, re.M)[1])
        before = wake_ups()  # it wakes for keep-alives and their answers only
        harness.wait_until("two keep-alives", lambda: wake_ups() >= before + 6)
        for pid in map(int, (group / "cgroup.procs").read_text().split()):
            with contextlib.suppress(ProcessLookupError):  # one takes the others with it
                os.kill(pid, signal.SIGKILL)
        self.assertEqual(survivor.code(), 75)
        self.assertRegex(survivor.err, r"testhost.* is gone: its process ended, memory at (9[789]\.\d|100\.0) % of its limit "
                                       r"[\d.]+ m?s before: probably out of memory")
        report = survivor.err[survivor.err.index("cxxrun: the job ended"):]
        self.assertIn("probably out of memory; only 1 of 2 nodes were there", report)

    def test_killed_in_a_group_with_a_limit_is_not_out_of_memory(self):
        group = self.group("kill")
        agent = self.start_in(group, ["--standalone", "--nproc_per_node", "2", self.worker, "barrier:b", "[rank=1]raise:KILL", "forever"])
        self.assertEqual(agent.code(), 137)
        self.assertNotRegex(agent.err, r"(?i)memory")


if __name__ == "__main__":
    harness.main()
