# SPDX-License-Identifier: Apache-2.0
"""Ports: none is fixed unless asked, none is found free and then lost, a range holds all of them."""
import harness

J2 = ["--nnodes", "2", "--nproc_per_node", "1", "--rdzv-endpoint", "10.77.0.1:29501"]
GRABBER = """
import socket, sys
held = []
print("up", flush=True)
while True:
    s = socket.socket()
    s.bind(("", 0))
    s.listen()
    held.append(s)
    if len(held) > 60:
        for old in held[:30]:
            old.close()
        del held[:30]
"""


def listening(node=None):
    """Ports of listening sockets on a node, or here."""
    ports = set()
    for table in ("tcp", "tcp6"):
        for line in harness.sh("cat", f"/proc/net/{table}", node=node).splitlines()[1:]:
            fields = line.split()
            if fields[3] == "0A":
                ports.add(int(fields[1].rsplit(":", 1)[1], 16))
    return ports


class Ports(harness.Case):
    def take(self, *ports):
        code = ("import socket\nheld = []\nfor p in " + repr(ports) + ":\n  s = socket.socket(socket.AF_INET6)\n"
                "  s.bind(('', p))\n  s.listen()\n  held.append(s)\nprint('up', flush=True)\nimport time\ntime.sleep(3600)")
        self.background(["/usr/bin/python3", "-c", code]).wait_for_line("up")

    def test_jobs_side_by_side(self):
        """F1, F3: no port option; the first to end does not disturb the others."""
        jobs = [self.start(["--nproc_per_node", "2", self.worker, "barrier:a", f"wait:{self.dir}/go.{n}", "barrier:b"]) for n in range(3)]
        for number, agent in enumerate(jobs):
            (self.dir / f"go.{number}").touch()
            self.assertEqual(agent.code(), 0)

    def test_twenty_at_once(self):
        """F2"""
        jobs = [self.start(["--nproc_per_node", "2", self.worker, "barrier:a"]) for _ in range(20)]
        self.assert_codes(jobs, 0, 60)

    def test_twice_in_a_row(self):
        """F4: the same command again finds nothing of the first run in its way."""
        nodes = self.nodes(2)
        for run in range(3):
            with self.subTest(run):
                self.assert_codes(self.run_all([*J2, self.worker, "barrier:a"], nodes), 0)

    def test_again_after_a_failure(self):
        nodes = self.nodes(2)
        self.assert_codes(self.run_all([*J2, self.worker, "barrier:a", "[rank=1]exit:3", "forever"], nodes), 3)
        self.assert_codes(self.run_all([*J2, self.worker, "barrier:a"], nodes), 0)

    def test_somebody_grabs_every_port(self):
        """F5: a port that we hand out is held all the time."""
        with open("/proc/sys/net/ipv4/ip_local_port_range", "w", encoding="ascii") as file:
            file.write("40000 40199")
        self.background(["/usr/bin/python3", "-c", GRABBER]).wait_for_line("up")
        for _ in range(30):
            agent = self.start(["--nproc_per_node", "2", self.worker, "barrier:a"])
            self.assertEqual(agent.code(), 0)

    def test_well_known_ports_taken(self):
        """F6"""
        self.take(29400, 29500)
        for args in (["--standalone"], []):
            self.assertEqual(self.start([*args, "--nproc_per_node", "2", self.worker, "barrier:a"]).code(), 0)

    def test_port_0(self):
        """F7: any port. With several nodes the others could not know it: said."""
        for args in (["--rdzv_backend", "c10d"], []):
            self.assertEqual(self.start([*args, "--rdzv_endpoint", "localhost:0", "--nproc_per_node", "2", self.worker, "barrier:a"]).code(), 0)
        agent = self.start(["--nnodes", "2", "--rdzv_endpoint", "localhost:0", self.worker])
        self.assertEqual(agent.code(), 2)
        self.assertIn("port 0", agent.err)

    def test_one_listening_socket_on_one_node(self):
        agent = self.start(["--nproc_per_node", "2", self.worker, f"env:{self.dir}", f"touch:{self.dir}/up.{{rank}}", f"wait:{self.dir}/go"])
        self.wait_for_files("up.0", "up.1")
        self.assertEqual(listening(), {int(self.worker_files()[0, 0]["env"]["MASTER_PORT"])})
        (self.dir / "go").touch()
        self.assertEqual(agent.code(), 0)

    def test_range(self):
        """Every port that we open lies in the range, in a second round too."""
        nodes = self.nodes(2)
        agents = self.run_all([*J2[:-1], "10.77.0.1:30000", "--port-range", "30000-30005", "--max-restarts", "1", self.worker,
                               f"env:{self.dir}", "barrier:a", f"touch:{self.dir}/up.{{round}}.{{rank}}",
                               "[round=0,rank=1]exit:3", f"wait:{self.dir}/go"], nodes)
        self.wait_for_files("up.1.0", "up.1.1")
        for node in nodes:
            self.assertLessEqual(listening(node), set(range(30000, 30006)), node.name)
        (self.dir / "go").touch()
        self.assert_codes(agents, 0)

    def test_foreign_program_on_the_endpoints_port(self):
        """Said within a second or so, and given up soon, however long join_timeout is; with what is there."""
        self.take(29601)   # takes connections, says nothing
        web = self.background(["/usr/bin/python3", "-u", "-c", "import http.server as h; s = h.HTTPServer(('', 29602), "
                               "h.BaseHTTPRequestHandler); print('up'); s.serve_forever()"])
        web.wait_for_line("up")
        silent, http = (self.start(["--nnodes", "2", "--rdzv-endpoint", f"127.0.0.1:{port}", "--rdzv-conf", "join_timeout=600", self.worker])
                        for port in (29601, 29602))
        self.assertEqual(http.code(), 69)
        self.assertRegex(http.err, r"29602 answers but is no rendezvous.*HTTP\?")
        silent.wait_for_line("29601 takes connections but has said nothing")
        self.assertEqual(silent.code(), 69)
        self.assertRegex(silent.err, "port 29601 of this host is taken by a program that is no rendezvous")

    def test_range_that_is_full(self):
        self.take(30000, 30001)
        agent = self.start(["--standalone", "--port-range", "30000-30001", self.worker, f"touch:{self.dir}/started"])
        self.assertEqual(agent.code(), 69)
        self.assertRegex(agent.err, "30000-30001")
        self.assertLessEqual(len(agent.err_lines), 3)
        self.assertFalse((self.dir / "started").exists())


if __name__ == "__main__":
    harness.main()
