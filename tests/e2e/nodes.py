# SPDX-License-Identifier: Apache-2.0
"""Several hosts on one machine: namespaces on two bridges, with faults."""
import itertools
import os
import subprocess

from processes import kill, pids


def sh(*command, check=True, node=None, text=None):
    """Runs a set-up command (ip, nft), on a node if given."""
    if node:
        command = (*node.enter(), *command)
    command = [str(part) for part in command]
    done = subprocess.run(command, input=text, capture_output=True, text=True)
    if check and done.returncode != 0:
        raise RuntimeError(f"{' '.join(command)}: {done.stderr.strip()}")
    return done.stdout


class Network:
    """The bridges of one test: `br0` is 10.77.0.0/24 and fd77::/64, `br1` is 10.78.0.0/24. The test itself is .254."""

    def __init__(self):
        sh("ip", "-batch", "-", text="""link add br0 type bridge forward_delay 0
            link add br1 type bridge forward_delay 0
            addr add 10.77.0.254/24 dev br0
            addr add fd77::fe/64 dev br0 nodad
            addr add 10.78.0.254/24 dev br1
            link set br0 up
            link set br1 up
            """)

    def close(self):
        for bridge in ("br0", "br1"):
            sh("ip", "link", "del", bridge, check=False)


class Node:
    """One host: network, host name, hosts file and mounts of its own. `addresses`: "4", "6" or "46"."""
    _count = itertools.count()

    def __init__(self, name, number, directory, addresses="46", second=False):
        self.name, self.number = name, number
        self.address, self.address6, self.address2 = f"10.77.0.{number}", f"fd77::{number}", f"10.78.0.{number}"
        self.hosts_file = directory / f"hosts.{name}"
        self.hosts("127.0.0.1 localhost", "::1 localhost")
        nsswitch, resolv = directory / "nsswitch.conf", directory / "resolv.conf"
        nsswitch.write_text("hosts: files\n")
        resolv.write_text("")
        script = f"""
            mount --bind {self.hosts_file} /etc/hosts && mount --bind {nsswitch} /etc/nsswitch.conf &&
            {{ mount --bind {resolv} /etc/resolv.conf || true; }} && mount -t sysfs sysfs /sys 2>/dev/null;
            hostname {name} && echo ready && exec sleep infinity"""
        self.holder = subprocess.Popen(["unshare", "--net", "--uts", "--mount", "sh", "-c", script],
                                       stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        if self.holder.stdout.readline() != b"ready\n":
            raise RuntimeError(f"node {name}: {self.holder.stderr.read().decode()}")
        self._connect(addresses, second)

    def _connect(self, addresses, second):
        self.outer, pid = f"v{next(self._count)}", self.holder.pid  # a name is free only some time after its end
        outer = self.outer
        sh("ip", "-batch", "-", text=f"""link add {outer} type veth peer name eth0 netns {pid}
            link set {outer} master br0 up
            """ + (f"""link add {outer}b type veth peer name eth1 netns {pid}
            link set {outer}b master br1 up
            """ if second else ""))
        inner = "link set lo up\nlink set eth0 up\n"
        if "4" in addresses:
            inner += f"addr add {self.address}/24 dev eth0\nroute add default via 10.77.0.254\n"
        if "6" in addresses:
            inner += f"addr add {self.address6}/64 dev eth0 nodad\n"
        if second:
            inner += f"link set eth1 up\naddr add {self.address2}/24 dev eth1\n"
        sh("ip", "-batch", "-", node=self, text=inner)

    def enter(self, cwd=None):
        """The command prefix that runs something on this node. Keeps the process id: it ends in an exec."""
        pid = self.holder.pid
        return ["nsenter", f"--net=/proc/{pid}/ns/net", f"--uts=/proc/{pid}/ns/uts", f"--mount=/proc/{pid}/ns/mnt",
                f"--wdns={cwd or '/'}"]

    def hosts(self, *lines):
        """Replaces the hosts file."""
        with open(self.hosts_file, "w", encoding="ascii") as file:
            file.write("\n".join(lines) + "\n")

    def drop_from(self, other):
        """What `other` sends to this node is lost, silently; the other direction works."""
        sh("nft", "add table inet cut; add chain inet cut in { type filter hook input priority 0; }; "
           f"add rule inet cut in ip saddr {other.address} drop; add rule inet cut in ip6 saddr {other.address6} drop",
           node=self)

    def drop_all(self):
        """This node neither hears nor reaches anybody, silently (its own loopback works)."""
        sh("nft", 'add table inet cut; add chain inet cut in { type filter hook input priority 0; }; '
           'add chain inet cut out { type filter hook output priority 0; }; '
           'add rule inet cut in iifname "eth*" drop; add rule inet cut out oifname "eth*" drop', node=self)

    def heal(self):
        sh("nft", "delete table inet cut", node=self, check=False)

    def link(self, up):
        sh("ip", "link", "set", self.outer, "up" if up else "down")

    def dnat(self, address, port, to):
        """As a service address: what this node sends to address:port goes to `to` (address:port) instead."""
        sh("nft", "add table ip nat; add chain ip nat output { type nat hook output priority -100; }; "
           f"add rule ip nat output ip daddr {address} tcp dport {port} dnat to {to}", node=self)

    def processes(self):
        """All processes on this node but its holder."""
        own = os.readlink(f"/proc/{self.holder.pid}/ns/net")
        found = []
        for pid in pids():
            try:
                if pid != self.holder.pid and os.readlink(f"/proc/{pid}/ns/net") == own:
                    found.append(pid)
            except OSError:
                pass
        return found

    def kill_all(self):
        """kill -9 of everything on the node, as a power cut that the kernel survives."""
        for pid in self.processes():
            kill(pid)

    def close(self):
        self.holder.kill()
        self.holder.wait()
        for pipe in (self.holder.stdout, self.holder.stderr):
            pipe.close()
