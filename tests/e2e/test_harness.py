# SPDX-License-Identifier: Apache-2.0
"""The harness itself: what it says of leftovers and cuts must be true, or the other tests prove nothing."""
import signal
import unittest

import harness

CLIENT = """
import socket, sys
s = socket.create_connection((sys.argv[1], 7000), 10)
s.settimeout(10)
print("connected", flush=True)
for line in sys.stdin:
    s.sendall(line.encode())
"""
SERVER = """
import socket, sys
s = socket.socket(socket.AF_INET6)
s.bind(("", 7000))
s.listen()
print("listening", flush=True)
c, peer = s.accept()
while True:
    print("got", c.recv(100).decode().strip(), flush=True)
"""


class Leftovers(harness.Case):
    def left_by(self, script):
        agent = self.start(["-c", script], program="sh")
        agent.code()
        try:
            self.assert_nothing_left(seconds=0.2 / harness.SLOW)
        except AssertionError as error:
            for pid in self.left():
                harness.kill(pid)
            return str(error)
        return ""

    def test_each_kind_is_found(self):
        for script in ("sleep 600 & exit 0", "setsid sleep 600 & exit 0", "env -i sleep 600 & exit 0",
                       "(trap '' TERM; exec setsid env -i sleep 600) >/dev/null 2>&1 </dev/null & exit 0"):
            with self.subTest(script):
                self.assertIn("sleep 600", self.left_by(script))
        self.assertEqual(self.left_by("true"), "")

    def test_a_test_that_leaves_something_fails(self):
        class Careless(harness.Case):
            def runTest(self):
                self.start(["-c", "sleep 600 & exit 0"], program="sh").code()
        result = unittest.TestResult()
        Careless().run(result)
        self.assertEqual(len(result.failures), 1)
        self.assertIn("left over", result.failures[0][1])


class Hosts(harness.Case):
    def test_names(self):
        ha, hb = self.nodes(2)
        for node in (ha, hb):
            self.assertEqual(harness.sh("uname", "-n", node=node).strip(), node.name)
        self.assertIn("10.77.0.2", harness.sh("getent", "hosts", "hb", node=ha))
        ha.hosts("10.9.9.9 hb")
        self.assertIn("10.9.9.9", harness.sh("getent", "hosts", "hb", node=ha))
        self.assertIn("10.77.0.2", harness.sh("getent", "hosts", "hb", node=hb))

    def test_cuts(self):
        """What is sent across a cut never arrives, and does arrive once healed; without any error on either side."""
        ha, hb = self.nodes(2)
        server = self.start(["-u", "-c", SERVER], program="/usr/bin/python3", on=ha)
        server.wait_for_line("listening")
        client = self.start(["-u", "-c", CLIENT, "10.77.0.1"], program="/usr/bin/python3", on=hb, stdin=-1)
        client.wait_for_line("connected")

        def send(text):
            client.process.stdin.write(text + b"\n")
            client.process.stdin.flush()
        send(b"one")
        server.wait_for_line("got one")
        for cut, heal in ((lambda: ha.drop_from(hb), ha.heal), (hb.drop_all, hb.heal),
                          (lambda: hb.link(False), lambda: hb.link(True))):
            cut()
            send(b"lost for now")
            with self.assertRaises(AssertionError):
                server.wait_for_line("got lost", 0.2 / harness.SLOW)
            heal()
            server.wait_for_line("got lost", 30)
            server._all.clear()
        for agent in (client, server):
            agent.signal(signal.SIGKILL)
            agent.code()
        client.process.stdin.close()

    def test_kill_all(self):
        ha, hb = self.nodes(2)
        here, there = (self.start(["-c", "echo up; exec sleep 600"], program="sh", on=node) for node in (ha, hb))
        for agent in (here, there):
            agent.wait_for_line("up")   # before that it may not be in its node yet
        hb.kill_all()
        self.assertEqual(there.code(), 137)
        self.assertTrue(here.running())
        ha.kill_all()
        self.assertEqual(here.code(), 137)

    def test_terminal(self):
        agent = self.start(["-c", "tty; echo started; sleep 600"], program="sh", tty=True)
        agent.wait_for_line("started")
        agent.type(b"\x03")
        self.assertEqual(agent.code(), 130)


if __name__ == "__main__":
    harness.main()
