# SPDX-License-Identifier: Apache-2.0
"""PyTorch's own store client against the worker store: its whole API, and a hundred clients at once.

Runs in the interpreter that has PyTorch (CXXRUN_TEST_PYTHON, or the one that scripts/torch-env made), whatever starts it.
"""
import datetime
import importlib.util
import os
import pathlib
import signal
import socket
import subprocess
import sys
import threading
import time
import traceback
import unittest

SOURCE = pathlib.Path(__file__).resolve().parents[2]
SERVE = pathlib.Path(os.environ.get("CXXRUN_BIN_DIR", ".")) / "fixtures" / "store_serve"
PATIENCE = datetime.timedelta(seconds=120)  # for what takes milliseconds, on a loaded machine
SHORT = datetime.timedelta(milliseconds=50)  # for what must time out


def torch_python():
    """The interpreter that has PyTorch. Its absence is an error, not a skip."""
    named = os.environ.get("CXXRUN_TEST_PYTHON")
    return named or subprocess.run([SOURCE / "scripts" / "torch-env", "--check"], check=True, text=True,
                                   stdout=subprocess.PIPE).stdout.strip()


if __name__ == "__main__" and importlib.util.find_spec("torch") is None:
    python = torch_python()
    os.execv(python, [python, *sys.argv])

os.environ.setdefault("TORCH_CPP_LOG_LEVEL", "ERROR")  # else each expected time-out prints a stack of 50 lines
import torch.distributed as dist  # noqa: E402  (only now is it known to be there)


class StoreCase(unittest.TestCase):
    def setUp(self):
        self.server = subprocess.Popen([SERVE], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.addCleanup(self.stop_server)
        self.port = int(self.server.stdout.readline())

    def stop_server(self):
        if self.server.poll() is None:
            self.server.stdin.close()
            self.assertEqual(self.server.wait(60), 0)
        self.server.stdout.close()

    def client(self, host="127.0.0.1", world_size=None, timeout=PATIENCE, **options):
        return dist.TCPStore(host, self.port, world_size, False, timeout, **options)


class Api(StoreCase):
    def test_b1_b2_b3_b5_keys(self):
        store = self.client(world_size=1)
        self.assertEqual(store.num_keys(), 1)  # init/
        for i in range(3):
            store.set(f"key{i}", f"value{i}")
        self.assertEqual([store.add("key3", n) for n in range(1, 7)], [1, 3, 6, 10, 15, 21])
        self.assertEqual(store.num_keys(), 5)
        self.assertEqual([store.get(f"key{i}") for i in range(4)], [b"value0", b"value1", b"value2", b"21"])
        self.assertTrue(store.check(["key3", "key0"]))
        self.assertFalse(store.check(["unknown"]))
        store.set("-key3", "7")
        self.assertEqual(store.get("-key3"), b"7")
        self.assertTrue(store.delete_key("-key3"))
        self.assertFalse(store.delete_key("-key3"))
        self.assertEqual(store.num_keys(), 5)

    def test_e8_no_world_size_no_count(self):
        self.assertEqual(self.client().num_keys(), 0)

    def test_b14_any_bytes(self):
        store = self.client()
        every = bytes(range(256))
        store.set("bytes", every)
        self.assertEqual(store.get("bytes"), every)
        store.set("empty", "")
        self.assertEqual(store.get("empty"), b"")

    def test_large_values(self):
        store = self.client()
        value = os.urandom(1 << 20) * 8
        store.set("big", value)
        self.assertEqual(store.get("big"), value)

    def test_c_compare_set(self):
        store = self.client()
        self.assertEqual(store.compare_set("cs0", "wrong", "new"), b"wrong")
        self.assertFalse(store.check(["cs0"]))
        store.set("cs0", "value0")
        self.assertEqual(store.compare_set("cs0", "wrong", "new"), b"value0")
        self.assertEqual(store.compare_set("cs0", "value0", "new"), b"new")
        self.assertEqual(store.compare_set("cs1", "", "new"), b"new")
        self.assertEqual(store.get("cs1"), b"new")

    def test_b16_b17_extended(self):
        store = self.client()
        self.assertTrue(store.has_extended_api())
        store.append("foo", "po")
        store.append("foo", "tato")
        self.assertEqual(store.get("foo"), b"potato")
        store.multi_set(["a", "b"], ["po", "tato"])
        self.assertEqual(store.multi_get(["b", "a"]), [b"tato", b"po"])

    def test_w1_w4_time_outs(self):
        store = self.client()
        started = time.monotonic()
        with self.assertRaises(dist.DistStoreError):
            store.wait(["bad_key"], SHORT)
        self.assertLess(time.monotonic() - started, 60)
        store.set_timeout(SHORT)
        with self.assertRaises(dist.DistStoreError):
            store.get("the_key")
        store.set("the_key", "x")
        self.assertEqual(store.get("the_key"), b"x")  # still in step
        self.assertEqual(store.add("n", 5), 5)

    def test_w3_partly_present(self):
        waiter, setter = self.client(), self.client()
        setter.set("1", "")
        done = threading.Event()
        thread = threading.Thread(target=lambda: (waiter.wait(["1", "2", "3"], PATIENCE), done.set()))
        thread.start()
        setter.set("2", "")
        self.assertFalse(done.is_set())
        setter.set("3", "")
        thread.join()
        self.assertTrue(done.is_set())

    def test_b22_prefix(self):
        store = self.client()
        prefixed = dist.PrefixStore("test_prefix", store)
        prefixed.set("k", "v")
        self.assertEqual(prefixed.get("k"), b"v")
        self.assertEqual(store.get("test_prefix/k"), b"v")
        nested = dist.PrefixStore("a", dist.PrefixStore("b", store))
        nested.set("k", "w")
        self.assertEqual(store.get("b/a/k"), b"w")

    def test_b23_clone(self):
        store = self.client(world_size=1)
        twin = store.clone()
        store.set("k", "v")
        self.assertEqual(twin.get("k"), b"v")
        self.assertEqual(store.num_keys(), 2)  # init/ and k: the clone is no worker

    def test_b24_list_keys(self):
        store = self.client(world_size=1)
        for key in "abc":
            store.set(key, "1")
        self.assertEqual(sorted(store.list_keys()), ["a", "b", "c"])

    def test_q1_q2_q4_queues(self):
        store = self.client()
        self.assertEqual(store.queue_len("q"), 0)
        store.queue_push("q", "1")
        store.queue_push("q", "2")
        self.assertTrue(store.check(["q"]))
        self.assertEqual(store.queue_len("q"), 2)
        store.wait(["q"], PATIENCE)
        self.assertEqual([store.queue_pop("q"), store.queue_pop("q")], [b"1", b"2"])
        with self.assertRaises(dist.QueueEmptyError):
            store.queue_pop("q", block=False)
        store.set_timeout(SHORT)
        with self.assertRaises(dist.DistStoreError):
            store.queue_pop("q")
        self.assertEqual(store.queue_len("q"), 0)

    def test_q3_both_ways(self):
        here, there = self.client(), self.client()

        def echo():
            there.queue_push("b", there.queue_pop("a") + b"!")
        thread = threading.Thread(target=echo)
        thread.start()
        here.queue_push("a", "ping")
        self.assertEqual(here.queue_pop("b"), b"ping!")
        thread.join()

    @unittest.skipUnless(hasattr(dist.TCPStore, "barrier"), "this PyTorch has no TCPStore.barrier")
    def test_r_barrier(self):
        stores = [self.client() for _ in range(3)]
        threads = [threading.Thread(target=s.barrier, args=("b", 3, PATIENCE)) for s in stores[1:]]
        for thread in threads:
            thread.start()
        stores[0].barrier("b", 3, PATIENCE)
        for thread in threads:
            thread.join()
        with self.assertRaises(dist.DistStoreError):
            stores[0].barrier("c", 2, SHORT)
        self.assertEqual(stores[0].add("n", 1), 1)

    def test_w17_signal_during_wait(self):
        waiter, setter = self.client(), self.client()
        old = signal.signal(signal.SIGUSR1, lambda *_: None)
        self.addCleanup(signal.signal, signal.SIGUSR1, old)

        def disturb_then_set():
            setter.get("waiting")
            for _ in range(5):
                os.kill(os.getpid(), signal.SIGUSR1)
            setter.set("k", "v")
        thread = threading.Thread(target=disturb_then_set)
        thread.start()
        waiter.set("waiting", "")
        waiter.wait(["k"], PATIENCE)
        thread.join()

    def test_w16_server_goes(self):
        waiter, other = self.client(), self.client()
        threading.Thread(target=lambda: (other.get("waiting"), self.server.stdin.close())).start()
        waiter.set("waiting", "")
        with self.assertRaises(dist.DistNetworkError):
            waiter.wait(["never"], PATIENCE)

    def test_e7_names_and_families(self):
        hosts = ["127.0.0.1", "localhost", socket.gethostname()]
        if socket.has_ipv6 and pathlib.Path("/proc/net/if_inet6").read_text():
            hosts.append("::1")
        for host in hosts:
            with self.subTest(host):
                self.client(host).set("k", host)

    def test_h1_first_bytes(self):
        """What the client sends first is what our golden bytes say."""
        listener = socket.create_server(("127.0.0.1", 0))
        self.addCleanup(listener.close)
        got = []

        def record():
            peer, _ = listener.accept()
            with peer:
                while len(got) < 10:
                    got.extend(peer.recv(10 - len(got)))
                peer.sendall(bytes(got[6:10]))
                peer.recv(1)
        thread = threading.Thread(target=record)
        thread.start()
        store = dist.TCPStore("127.0.0.1", listener.getsockname()[1], None, False, PATIENCE)
        del store
        thread.join()
        self.assertEqual(bytes(got[:6]), bytes.fromhex("00cef7853c 0d"))
        self.assertEqual(int.from_bytes(bytes(got[6:10]), "little"), os.getpid())


class Crowd(StoreCase):
    CLIENTS = 100

    def work(self, rank):
        """What one of many processes does. Meets all others, reads all others, counts, and queues for a lock."""
        store = self.client(world_size=self.CLIENTS)
        store.set(f"rank{rank}", str(rank) * 100)
        store.wait([f"rank{i}" for i in range(self.CLIENTS)], PATIENCE)
        values = store.multi_get([f"rank{i}" for i in range(self.CLIENTS)])
        assert values == [(str(i) * 100).encode() for i in range(self.CLIENTS)], "values of the others"
        for _ in range(50):
            store.add("counter", 1)
        own = store.compare_set("lock", "", str(rank)) == str(rank).encode()
        if own:
            store.set("owner", str(rank))
        assert store.get("owner") == store.get("lock"), "one owner"
        store.add("arrived", 1)
        if hasattr(store, "barrier"):
            store.barrier("all", self.CLIENTS, PATIENCE)
        else:
            while store.add("arrived", 0) < self.CLIENTS:
                pass
        assert store.get("counter") == str(50 * self.CLIENTS).encode(), "the counter"

    def test_a_hundred_clients_at_once(self):
        children = []
        for rank in range(self.CLIENTS):
            pid = os.fork()
            if pid == 0:
                try:
                    self.work(rank)
                    os._exit(0)
                except BaseException:
                    traceback.print_exc()
                    os._exit(1)
            children.append(pid)
        codes = [os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) for pid in children]
        self.assertEqual(codes, [0] * self.CLIENTS)
        store = self.client()
        named = ["init/", "counter", "lock", "owner", "arrived", *(["all"] if hasattr(store, "barrier") else [])]
        self.assertEqual(store.num_keys(), self.CLIENTS + len(named))

    def test_e10_scanners_do_not_disturb(self):
        store = self.client()
        for garbage in (b"GET / HTTP/1.1\r\n\r\n", b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03", os.urandom(64),
                        b"\x00\xce\xf7\x85\x3c\x01" + b"\xff" * 8):
            with socket.create_connection(("127.0.0.1", self.port)) as peer:
                peer.sendall(garbage if garbage[0] != 0 or garbage[1] == 0xCE else b"\x01" + garbage)
                peer.settimeout(60)
                try:
                    self.assertEqual(peer.recv(1), b"")
                except ConnectionResetError:
                    pass
            self.assertEqual(store.add("n", 0), 0)


if __name__ == "__main__":
    unittest.main()
