# SPDX-License-Identifier: Apache-2.0
"""Names and addresses: who hosts, what is advertised, and what is said when it cannot work."""
import random

import harness

PORT = 29501


def job(nnodes, endpoint, *more):
    return ["--nnodes", str(nnodes), "--nproc_per_node", "1", "--rdzv_backend", "c10d", "--rdzv_endpoint", endpoint,
            "--rdzv_id", "t", "--rdzv-conf", "join_timeout=60", *more]


class Addresses(harness.Case):
    def meet(self, agents, seconds=40):
        """All end with 0 after their workers met at MASTER_ADDR:MASTER_PORT. Returns rank -> (host, MASTER_ADDR)."""
        self.assert_codes(agents, 0, seconds)
        return {rank: (facts["host"], facts["env"]["MASTER_ADDR"]) for (_, rank), facts in self.worker_files().items()}

    def steps(self):
        return [self.worker, f"env:{self.dir}", "barrier:b"]

    def go(self, nodes, endpoint, *more, **options):
        return self.meet(self.run_all([*job(len(nodes), endpoint, *more), *self.steps()], nodes, **options))

    def test_alias_of_the_host(self):
        """B1: the endpoint is a name that has nothing to do with any host name."""
        nodes = self.nodes(2)
        for node in nodes:
            node.hosts("127.0.0.1 localhost", "10.77.0.1 job-ib")
        self.assertEqual(self.go(nodes, f"job-ib:{PORT}"), {0: ("ha", "10.77.0.1"), 1: ("hb", "10.77.0.1")})

    def test_own_name_is_loopback(self):
        """B2: as Debian's installer writes it."""
        nodes = self.nodes(2)
        nodes[0].hosts("127.0.0.1 localhost", "127.0.1.1 ha", "10.77.0.2 hb")
        self.assertEqual(self.go(nodes, f"10.77.0.1:{PORT}")[1], ("hb", "10.77.0.1"))
        for path in self.dir.glob("env.*"):
            path.unlink()
        # The endpoint is a name that the host itself takes for a loopback address, and the others do not.
        nodes[1].hosts("127.0.0.1 localhost", "10.77.0.1 ha")
        self.assertEqual(self.go(nodes, f"ha:{PORT}"), {0: ("ha", "10.77.0.1"), 1: ("hb", "10.77.0.1")})

    def test_no_names_at_all(self):
        """B3, B9, B13: nobody can resolve anybody, not even itself."""
        nodes = self.nodes(3)
        for node in nodes:
            node.hosts("127.0.0.1 localhost")
        self.assertEqual({v[1] for v in self.go(nodes, f"10.77.0.1:{PORT}").values()}, {"10.77.0.1"})

    def test_no_reverse_lookup(self):
        """B4: what the user gave as an address stays one."""
        nodes = self.nodes(2)
        nodes[0].hosts("127.0.0.1 localhost", "10.77.0.1 wrong-name")
        nodes[1].hosts("127.0.0.1 localhost", "10.99.9.9 wrong-name", "10.77.0.1 other-name")
        self.assertEqual(self.go(nodes, f"10.77.0.1:{PORT}"), {0: ("ha", "10.77.0.1"), 1: ("hb", "10.77.0.1")})

    def test_the_endpoints_host_is_rank_0(self):
        """B5: whatever the order of starting; the others in natural order of their names."""
        nodes = self.named_nodes(["n10", "n9", "n2"])
        for attempt in range(4):
            with self.subTest(attempt):
                for path in self.dir.glob("env.*"):
                    path.unlink()
                order = random.sample(nodes, 3)
                hosts = self.go(order, f"10.77.0.2:{PORT}")
                self.assertEqual({rank: value[0] for rank, value in hosts.items()}, {0: "n9", 1: "n2", 2: "n10"})

    def test_rank_0_is_not_the_host(self):
        """B6: hints say who is rank 0, the endpoint lies elsewhere: MASTER_ADDR is rank 0's and answers."""
        nodes = self.nodes(3)
        agents = [self.start([*job(3, f"10.77.0.3:{PORT}", "--node-rank", str(i)), *self.steps()], on=node)
                  for i, node in enumerate(nodes)]
        self.assertEqual(self.meet(agents), {i: (node.name, "10.77.0.1") for i, node in enumerate(nodes)})

    def test_name_appears_later(self):
        """B7: look-ups are done again until the join time-out; B8: the wait is quiet."""
        ha, hb = self.nodes(2)
        for node in (ha, hb):
            node.hosts("127.0.0.1 localhost")
        early = self.start([*job(2, f"master-0:{PORT}"), *self.steps()], on=hb)
        early.wait_for_line("(?i)master-0.*resolve|resolve.*master-0")
        for node in (ha, hb):
            node.hosts("127.0.0.1 localhost", "10.77.0.1 master-0")
        late = self.start([*job(2, f"master-0:{PORT}"), *self.steps()], on=ha)
        self.assertEqual(self.meet([early, late]), {0: ("ha", "10.77.0.1"), 1: ("hb", "10.77.0.1")})
        self.assertLessEqual(len(early.err_lines), 10)

    def test_host_starts_later(self):
        ha, hb = self.nodes(2)
        early = self.start([*job(2, f"10.77.0.1:{PORT}"), *self.steps()], on=hb)
        early.wait_for_line("(?i)refused|waiting")
        late = self.start([*job(2, f"10.77.0.1:{PORT}"), *self.steps()], on=ha)
        self.meet([early, late])
        self.assertLessEqual(len(early.err_lines), 10)

    def test_second_network(self):
        """B10: the endpoint's network is the one that is advertised."""
        nodes = self.nodes(2, second=True)
        self.assertEqual(self.go(nodes, f"10.78.0.1:{PORT}"), {0: ("ha", "10.78.0.1"), 1: ("hb", "10.78.0.1")})

    def test_local_addr(self):
        """B11: an address, a name, an interface, a prefix."""
        nodes = self.nodes(2, second=True)
        for node in nodes:
            node.hosts("127.0.0.1 localhost", "10.78.0.1 ha-fast")
        for form in ("10.78.0.1", "ha-fast", "eth1", "10.78.0.0/16"):
            with self.subTest(form):
                for path in self.dir.glob("env.*"):
                    path.unlink()
                agents = [self.start([*job(2, f"10.77.0.1:{PORT}", "--local-addr", form), *self.steps()], on=nodes[0]),
                          self.start([*job(2, f"10.77.0.1:{PORT}"), *self.steps()], on=nodes[1])]
                self.assertEqual(self.meet(agents)[1], ("hb", "10.78.0.1"))

    def test_local_addr_that_is_not_ours(self):
        ha, = self.nodes(1)
        for form in ("eth7", "10.79.0.0/16", "no-such-name"):
            agent = self.start([*job(2, f"10.77.0.1:{PORT}", "--local-addr", form), *self.steps()], on=ha)
            self.assertIn(agent.code(), (2, 69), form)
            self.assertIn(form, agent.err)

    def test_reverse_name_is_not_advertised(self):
        """B12: the own address resolves to a name under .arpa first."""
        nodes = self.nodes(2)
        for node in nodes:
            node.hosts("127.0.0.1 localhost", "10.77.0.1 1.0.77.10.in-addr.arpa ha", "10.77.0.2 2.0.77.10.in-addr.arpa hb")
        self.assertEqual(self.go(nodes, f"ha:{PORT}"), {0: ("ha", "10.77.0.1"), 1: ("hb", "10.77.0.1")})

    def test_quiet_about_families(self):
        """B14: a name with an IPv4 address only, on a host that does not answer: no talk of IPv6, few lines."""
        ha, hb = self.nodes(2)
        hb.drop_from(ha)
        ha.hosts("127.0.0.1 localhost", "10.77.0.2 hb")
        agent = self.start([*job(2, f"hb:{PORT}"), "--rdzv-conf", "join_timeout=4", *self.steps()], on=ha)
        self.assertEqual(agent.code(), 69)
        self.assertNotRegex(agent.err, "(?i)ipv6|gai")
        self.assertLessEqual(len(agent.err_lines), 5)

    def test_every_address_of_a_name_is_tried(self):
        nodes = self.nodes(2)
        for node in nodes:
            node.hosts("127.0.0.1 localhost", "fd77::9 m", "10.77.0.99 m", "10.77.0.1 m")
        self.assertEqual(self.go(nodes, f"m:{PORT}")[1], ("hb", "10.77.0.1"))

    def test_ipv6_only(self):
        """B15"""
        nodes = self.nodes(2, addresses="6")
        self.assertEqual(self.go(nodes, f"[fd77::1]:{PORT}"), {0: ("ha", "fd77::1"), 1: ("hb", "fd77::1")})

    def test_ipv6_by_name(self):
        nodes = self.nodes(2)
        for node in nodes:
            node.hosts("127.0.0.1 localhost", "fd77::1 master")
        self.assertEqual(self.go(nodes, f"master:{PORT}")[1], ("hb", "fd77::1"))

    def test_loopback_endpoint(self):
        """B16: accepted for agents of one machine, first to bind hosts, and said at once."""
        ha, = self.nodes(1)
        first = self.start([*job(2, f"localhost:{PORT}"), *self.steps()], on=ha)
        first.wait_for_line("(?i)only agents (of|on) this machine can join")
        second = self.start([*job(2, f"localhost:{PORT}"), *self.steps()], on=ha)
        self.assertEqual(sorted(self.meet([first, second])), [0, 1])

    def test_loopback_endpoint_with_other_hosts_known(self):
        ha, = self.nodes(1)
        for env in ({"SLURM_JOB_NODELIST": "h[1-2]", "SLURM_NNODES": "2"}, {"SLURM_JOB_NODELIST": "ha,hb", "SLURM_NNODES": "2"}):
            agent = self.start([*job(2, f"localhost:{PORT}"), *self.steps()], on=ha, env=env)
            self.assertEqual(agent.code(), 2, env)
            self.assertRegex(agent.err, "(?i)localhost|loopback")

    def test_each_fault_has_its_sentence(self):
        """B17"""
        ha, hb = self.nodes(2)
        said = {}

        def run(what, endpoint, *more):
            agent = self.start([*job(2, endpoint, *more), "--rdzv-conf", "join_timeout=2", *self.steps()], on=ha)
            self.assertEqual(agent.code(), 69, what)
            said[what] = agent.err
        run("resolve", f"nowhere.invalid:{PORT}")
        run("refused", f"10.77.0.2:{PORT}")
        web = self.background(["/usr/bin/python3", "-u", "-c", "import http.server as h; s = h.HTTPServer(('', 29501), "
                               "h.BaseHTTPRequestHandler); print('up'); s.serve_forever()"], on=hb)
        web.wait_for_line("up")
        run("not a rendezvous", f"10.77.0.2:{PORT}")
        hb.drop_from(ha)
        run("no answer", f"10.77.0.2:{PORT}")
        for what, pattern in (("resolve", "(?i)resolve"), ("refused", "(?i)refused"), ("not a rendezvous", "(?i)not a rendezvous|no rendezvous"),
                              ("no answer", "(?i)no answer|does not answer|not answer")):
            self.assertRegex(said[what], pattern)
        self.assertEqual(len(set(said.values())), 4)

    def test_equal_host_names_are_told_apart(self):
        ha, = self.nodes(1)
        hints = [self.start([*job(3, f"10.77.0.1:{PORT}", "--node-rank", str(i)), *self.steps()], on=ha) for i in range(2)]
        hints[0].wait_for_line("2 of 3 nodes joined: ha#0, ha#1;")
        third = self.start([*job(3, f"10.77.0.1:{PORT}", "--node-rank", "2"), *self.steps()], on=ha)
        self.assertEqual(sorted(self.meet([*hints, third])), [0, 1, 2])

    def test_waiting_says_for_whom(self):
        ha, hb, hc = self.nodes(3)
        agents = [self.start([*job(3, f"10.77.0.1:{PORT}"), *self.steps()], on=node) for node in (ha, hb)]
        for agent in agents:
            line = agent.wait_for_line("2 of 3.*").string
            self.assertRegex(line, r"ha.*hb")
            self.assertRegex(line, r"\b1 more|missing 1|1 missing")
            self.assertRegex(line, r"\d+ ?s")
        self.meet([*agents, self.start([*job(3, f"10.77.0.1:{PORT}"), *self.steps()], on=hc)])


class ServiceAddress(harness.Case):
    """An endpoint that no interface owns, translated on the way (as a Kubernetes service address)."""
    ADDRESS = "10.96.0.10"

    def listeners(self, nodes, port):
        """Which nodes have a listening socket on the port."""
        found = []
        for node in nodes:
            for table in ("tcp", "tcp6"):
                for line in harness.sh("cat", f"/proc/net/{table}", node=node).splitlines()[1:]:
                    fields = line.split()
                    if fields[3] == "0A" and int(fields[1].rsplit(":", 1)[1], 16) == port:
                        found.append(node.name)
        return sorted(set(found))

    def serve(self, nodes, *more_of_each):
        args = [*job(len(nodes), f"{self.ADDRESS}:{PORT}")]
        agents = [self.start([*args, *(more_of_each[i] if more_of_each else ()), self.worker, f"env:{self.dir}", "barrier:b",
                              f"touch:{self.dir}/up.{{rank}}", f"wait:{self.dir}/go"], on=node) for i, node in enumerate(nodes)]
        self.wait_for_files(*(f"up.{rank}" for rank in range(len(nodes))), seconds=60)
        serving = self.listeners(nodes, PORT)
        (self.dir / "go").touch()
        self.assert_codes(agents, 0)
        return serving

    def test_the_node_that_meets_itself_serves(self):
        nodes = self.nodes(3)
        for node in nodes:
            node.dnat(self.ADDRESS, PORT, f"10.77.0.2:{PORT}")
        self.assertEqual(self.serve(nodes), ["hb"])
        self.assertEqual({facts["env"]["MASTER_ADDR"] for facts in self.worker_files().values()},
                         {self.nodes_by_rank()[0]})

    def nodes_by_rank(self):
        address = {node.name: node.address for node in self._nodes}
        return {rank: address[facts["host"]] for (_, rank), facts in self.worker_files().items()}

    def test_nobody_meets_itself(self):
        """The service does not lead back to its own host: the node with rank hint 0 serves, alone."""
        nodes = self.nodes(3)
        for node in nodes[1:]:
            node.dnat(self.ADDRESS, PORT, f"10.77.0.1:{PORT}")
        self.assertEqual(self.serve(nodes, *(["--node-rank", str(i)] for i in range(3))), ["ha"])


if __name__ == "__main__":
    harness.main()
