#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The worker store beside PyTorch's own server (libuv), same load, same machine, interleaved runs.

    bench/store_vs_torch.py [--bin build/release/bin] [--seconds 1] [--repeat 3] [--json FILE] [--quick]

For each load: requests a second, and the server's processor time for one request (all its threads, from schedstat).
The load generator shares the processors with the server: the second figure is the one to trust. CXXRUN_TEST_PYTHON or
scripts/torch-env names the interpreter with PyTorch.
"""
import argparse
import json
import os
import pathlib
import statistics
import subprocess
import sys

SOURCE = pathlib.Path(__file__).resolve().parents[1]
LOADS = [("add", 1), ("add", 16), ("add", 256), ("add", 4000), ("setget", 256), ("barrier", 256), ("setget1m", 8),
         ("connect", 1000)]
TORCH_SERVER = """
import sys
import torch.distributed as dist
store = dist.TCPStore("127.0.0.1", 0, None, True, wait_for_workers=False)
print(store.port, flush=True)
sys.stdin.read()
"""


def torch_python():
    named = os.environ.get("CXXRUN_TEST_PYTHON")
    return named or subprocess.run([SOURCE / "scripts" / "torch-env", "--check"], check=True, text=True,
                                   stdout=subprocess.PIPE).stdout.strip()


# PyTorch's server asks for the name of every client's address, in the thread that serves. Where the resolver is slow that
# alone decides: so it gets one that refuses at once, in mounts of its own (root), and the figures are about serving.
REFUSING_RESOLVER = ["unshare", "--mount", "sh", "-c",
                     'echo "nameserver 127.0.0.1" >/tmp/.resolv.$$ && mount --bind /tmp/.resolv.$$ /etc/resolv.conf && '
                     'rm -f /tmp/.resolv.$$; exec "$@"', "sh"]


def refusing_resolver():
    able = subprocess.run([*REFUSING_RESOLVER, "true"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    if able.returncode == 0:
        return REFUSING_RESOLVER
    print("note: no mounts of our own, PyTorch's server uses this machine's resolver")
    return []


class Server:
    def __init__(self, command):
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                        stderr=subprocess.DEVNULL, text=True)
        self.port = self.process.stdout.readline().strip()

    def stop(self):
        self.process.stdin.close()
        self.process.wait(60)


def measure(binaries, command, work, connections, seconds):
    """A fresh server for each run: neither has a past."""
    server = Server(command)
    try:
        load = [binaries / "bench" / "store_load", server.port, work]
        subprocess.run([*load, str(min(connections, 16)), "0.05", str(server.process.pid)], check=True,
                       stdout=subprocess.DEVNULL)
        done = subprocess.run([*load, str(connections), str(seconds), str(server.process.pid)], check=True,
                              stdout=subprocess.PIPE, text=True)
    finally:
        server.stop()
    result = json.loads(done.stdout)
    return {"per_second": result["done"] / result["seconds"],
            "cpu_us": result["server_cpu_seconds"] / result["done"] * 1e6}


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--bin", type=pathlib.Path, default=SOURCE / "build" / "release" / "bin")
    parser.add_argument("--seconds", type=float, default=1.0)
    parser.add_argument("--repeat", type=int, default=3)
    parser.add_argument("--json", type=pathlib.Path)
    parser.add_argument("--quick", action="store_true", help="one short run of each: does it work")
    parser.add_argument("--loads", help="instead of all: WORK:CONNECTIONS,...")
    options = parser.parse_args()
    if options.quick:
        options.seconds, options.repeat = 0.2, 1
    servers = {"cxxrun": [options.bin / "fixtures" / "store_serve"],
               "torch": [*refusing_resolver(), torch_python(), "-c", TORCH_SERVER]}
    loads = [tuple(load.split(":")) for load in options.loads.split(",")] if options.loads else LOADS
    rows = []
    print(f"{'load':>9} {'conns':>5} | {'cxxrun/s':>9} {'torch/s':>9} {'ratio':>6} | "
          f"{'cxxrun us':>9} {'torch us':>9} {'ratio':>6}")
    for work, connections in ((w, int(c)) for w, c in loads):
        runs = {name: [] for name in servers}
        for _ in range(options.repeat):
            for name, command in servers.items():
                runs[name].append(measure(options.bin, command, work, connections, options.seconds))
        row = {"work": work, "connections": connections}
        for name, results in runs.items():
            for figure in ("per_second", "cpu_us"):
                row[f"{name}_{figure}"] = statistics.median(r[figure] for r in results)
        row["rate_ratio"] = row["cxxrun_per_second"] / row["torch_per_second"]
        row["cpu_ratio"] = row["torch_cpu_us"] / row["cxxrun_cpu_us"]
        rows.append(row)
        print(f"{work:>9} {connections:5d} | {row['cxxrun_per_second']:9.0f} {row['torch_per_second']:9.0f} "
              f"{row['rate_ratio']:6.2f} | {row['cxxrun_cpu_us']:9.2f} {row['torch_cpu_us']:9.2f} {row['cpu_ratio']:6.2f}",
              flush=True)
    if options.json:
        options.json.write_text(json.dumps({"processors": os.cpu_count(), "rows": rows}, indent=1) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
