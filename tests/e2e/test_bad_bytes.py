# SPDX-License-Identifier: Apache-2.0
"""Bad bytes on the ports while a job runs: refused, memory flat, the job undisturbed."""
import json
import random
import socket
import struct

import harness

CONTROL = 29501
STORE_HELLO = b"\x00\xce\xf7\x85\x3c"
TLS_HELLO = bytes.fromhex("16030100c8010000c40303") + bytes(range(200))


def frame(body):
    return struct.pack(">I", len(body)) + body


def payloads(dice):
    """Name -> bytes that a stranger may send first."""
    nested = b'{"type":"hello","x":' + b"[" * 20000 + b"]" * 20000 + b"}"
    key = struct.pack("<Q", 3) + b"/ab"
    return {
        "http": b"GET / HTTP/1.1\r\nHost: x\r\n\r\n",
        "http with a long head": b"GET / HTTP/1.1\r\n" + b"X: " + b"a" * 100_000 + b"\r\n\r\n",
        "http post": b"POST /status HTTP/1.1\r\nContent-Length: 99999999999\r\n\r\nabc",
        "tls": TLS_HELLO,
        "random": dice.randbytes(64 << 10),
        "zeros": bytes(64 << 10),
        "ones": b"\xff" * (64 << 10),
        "ssh": b"SSH-2.0-OpenSSH_9.2\r\n",
        "nothing": b"",
        "magic alone": b"CXR1",
        "huge frame": b"CXR1" + struct.pack(">I", 0xFFFFFFFF) + b"x" * 4096,
        "frame just over the limit": b"CXR1" + struct.pack(">I", (64 << 10) + 1) + b"{" * 70000,
        "frame of nothing": b"CXR1" + frame(b"") * 1000,
        "not json": b"CXR1" + frame(b"hello"),
        "json that is no object": b"CXR1" + frame(b"[1,2,3]") + frame(b"7") + frame(b"null"),
        "unknown type": b"CXR1" + frame(b'{"type":"frobnicate"}') * 50,
        "hello with wrong types": b"CXR1" + frame(json.dumps({"type": "hello", "run_id": 5, "version": "x", "host_name": []}).encode()),
        "hello with nothing in it": b"CXR1" + frame(b'{"type":"hello"}'),
        "deep nesting": b"CXR1" + frame(nested),
        "start before hello": b"CXR1" + frame(b'{"type":"start","epoch":9999,"round":9999}') + frame(b'{"type":"closed"}'),
        "failed before hello": b"CXR1" + frame(b'{"type":"failed","rank":0}'),
        "bad utf-8": b"CXR1" + frame(b'{"type":"\xff\xfe\xfd"}'),
        "half a frame": b"CXR1" + struct.pack(">I", 1000) + b"{",
        "store magic wrong": b"\x00\x00\x00\x00\x00",
        "store set with a huge key": STORE_HELLO + b"\x01" + struct.pack("<Q", 0xFFFFFFFFFFFFFFFF),
        "store set with a huge value": STORE_HELLO + b"\x01" + key + struct.pack("<Q", 1 << 40),
        "store value just over the limit": STORE_HELLO + b"\x01" + key + struct.pack("<Q", (8 << 20) + 1) + bytes(100_000),
        "store wait with a huge count": STORE_HELLO + b"\x06" + struct.pack("<Q", 1 << 60),
        "store multi get with a huge count": STORE_HELLO + b"\x0a" + struct.pack("<Q", 131073) + key * 100,
        "store multi set with a negative count": STORE_HELLO + b"\x0b" + struct.pack("<q", -1),
        "store unknown command": STORE_HELLO + b"\xfe" * 100,
        "store hello twice": STORE_HELLO * 2,
        "store add to text": STORE_HELLO + b"\x01" + key + struct.pack("<Q", 3) + b"abc" + b"\x04" + key + struct.pack("<q", 1),
        "store half a request": STORE_HELLO + b"\x01" + struct.pack("<Q", 100) + b"x",
        "store legacy": b"\x03" + struct.pack("<Q", 5) + b"init/" + struct.pack("<q", 1),
    }


# Runs on a node: what a member's host could send. Reads payloads as JSON (hex) from stdin; a port in the arguments.
CLIENT = """
import json, socket, sys
port, how = int(sys.argv[1]), sys.argv[2]
keep = []
for name, text in json.load(open(sys.argv[3])).items():
    data = bytes.fromhex(text)
    s = socket.create_connection(("10.77.0.1", port), 10)
    s.settimeout(10)
    try:
        s.sendall(data)
        if how == "end":
            s.shutdown(socket.SHUT_WR)
            while s.recv(65536):
                pass
    except OSError:
        pass
    if how == "keep":
        keep.append(s)
    elif how == "reset":
        s.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\\1\\0\\0\\0\\0\\0\\0\\0")
        s.close()
    else:
        s.close()
print("sent", flush=True)
sys.stdin.readline()
"""


class BadBytes(harness.Case):
    def job(self):
        nodes = self.nodes(2)
        agents = self.run_all(["--nnodes", "2", "--rdzv-endpoint", f"10.77.0.1:{CONTROL}", "--max-restarts", "3", self.worker,
                               f"env:{self.dir}", "barrier:a", f"touch:{self.dir}/up.{{rank}}", f"wait:{self.dir}/go", "barrier:b"], nodes)
        self.wait_for_files("up.0", "up.1")
        store = int(self.worker_files()[0, 0]["env"]["MASTER_PORT"])
        return nodes, agents, store

    def finish(self, agents):
        (self.dir / "go").touch()
        self.assert_codes(agents, 0)
        self.assertEqual({key[0] for key in self.worker_files()}, {0}, "a round was lost")

    def memory(self, agent):
        return sum(harness.memory_kb(pid) for pid in (agent.pid, agent.inner()))

    def test_from_members_and_strangers(self):
        nodes, agents, store = self.job()
        seed = random.randrange(1 << 30)
        sent = payloads(random.Random(seed))
        path = self.dir / "payloads.json"
        path.write_text(json.dumps({name: data.hex() for name, data in sent.items()}))
        before = None
        for turn in range(3):
            for node in (nodes[1], None):  # a member's host; a host that has no part in the job
                for port in (CONTROL, store):
                    for how in ("end", "reset"):
                        client = self.start(["-c", CLIENT, port, how, path], program="/usr/bin/python3", on=node)
                        self.assertEqual(client.code(120), 0, f"seed {seed}\n{client.err}")
            if turn == 0:
                before = self.memory(agents[0])
        grown = self.memory(agents[0]) - before
        if not harness.SANITIZED:
            self.assertLess(grown, 4096, "KB")
        self.finish(agents)

    def test_slow_and_silent_connections(self):
        """Connections that say nothing, or half of something, and stay."""
        nodes, agents, store = self.job()
        path = self.dir / "payloads.json"
        slow = {f"{name} {n}": data.hex() for n in range(40) for name, data in
                (("silent", b""), ("byte", b"C"), ("magic", b"CXR1"), ("half", b"CXR1\0\0\1"), ("store", STORE_HELLO + b"\x01"))}
        path.write_text(json.dumps(slow))
        clients = [self.start(["-c", CLIENT, port, "keep", path], program="/usr/bin/python3", on=node, stdin=-1)
                   for node in (nodes[1], None) for port in (CONTROL, store)]
        for client in clients:
            client.wait_for_line("sent", 60)
        # They are still there; the job ends all the same.
        self.finish(agents)
        for client in clients:
            client.process.stdin.close()
            client.code()

    def test_one_byte_at_a_time(self):
        """A slow hello is cut off in the end; whatever it was, the job goes on."""
        _, agents, store = self.job()
        for port in (CONTROL, store):
            with socket.create_connection(("10.77.0.1", port), 10) as s:
                s.settimeout(30 * harness.SLOW)
                try:
                    for byte in b"CXR1\x00\x00\x00\x10":
                        s.sendall(bytes([byte]))
                    while s.recv(100):  # its greeting, then cut off: the limit of the hello
                        pass
                except ConnectionError:
                    pass
        self.finish(agents)

    def test_the_hosts_console_names_who_was_refused(self):
        """One line for each cause, however often it comes."""
        hosts = self.nodes(3)
        args = ["--nnodes", "2", "--rdzv-endpoint", f"10.77.0.1:{CONTROL}", self.worker, "barrier:a", f"touch:{self.dir}/up.{{rank}}",
                f"wait:{self.dir}/go"]
        agents = self.run_all(args, hosts[:2])
        self.wait_for_files("up.0", "up.1")
        for _ in range(20):
            with socket.create_connection(("10.77.0.1", CONTROL), 10) as s:
                s.settimeout(20 * harness.SLOW)
                s.sendall(TLS_HELLO)
                try:
                    s.recv(100)
                except ConnectionError:
                    pass
        other = self.start(["--rdzv-id", "other\x1b[31m", *args], on=hosts[2])
        self.assertEqual(other.code(), 2)   # no terminal sequence gets that far
        for number in ("3", "2:4"):
            other = self.start(["--nnodes", number, *args[2:]], on=hosts[2])
            self.assertEqual(other.code(), 69)
            self.assertRegex(other.err, rf"--nnodes differs: hc \(10\.77\.0\.3\) has {number}, the job at ha \(10\.77\.0\.1\) has 2;")
            agents[0].wait_for_line(rf"refused hc \(10\.77\.0\.3\): --nnodes differs.*has {number}, ")
        agents[0].wait_for_line("a client at 10.77.0.254 speaks TLS")
        self.assertEqual(sum("speaks TLS" in line for line in agents[0].err_lines), 1)
        (self.dir / "go").touch()
        self.assert_codes(agents, 0)

    def test_more_connections_than_may_wait(self):
        """Idle strangers do not keep a node from joining."""
        ha, hb = self.nodes(2)
        args = ["--nnodes", "2", "--rdzv-endpoint", f"10.77.0.1:{CONTROL}", self.worker, "barrier:a"]
        first = self.start(args, on=ha)
        first.wait_for_line("1 of 2|waiting")
        held = []
        for _ in range(900):
            held.append(socket.create_connection(("10.77.0.1", CONTROL), 10))
        second = self.start(args, on=hb)
        self.assert_codes([first, second], 0)
        for s in held:
            s.close()

    def test_strangers_may_not_use_the_store(self):
        """A host that has no part in the job is refused by the store, and rank 0's console names it."""
        _, agents, store = self.job()
        with socket.create_connection(("10.77.0.1", store), 10) as s:
            s.settimeout(20 * harness.SLOW)
            try:
                s.sendall(STORE_HELLO + b"\x0d" + struct.pack("<I", 77))
                self.assertEqual(s.recv(100), b"")
            except ConnectionError:
                pass
        agents[0].wait_for_line(r"10\.77\.0\.254.*store_admit|store_admit.*10\.77\.0\.254")
        self.finish(agents)


if __name__ == "__main__":
    harness.main()
