"""Two network name spaces as hosts, with a link between them. Needs root, and `ip` (package iproute2)."""
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile

# What a message takes there and back: who answers, and who asks.
ECHO = """
import socket
server = socket.create_server(("{address}", 7777))
print("ready", flush=True)
peer = server.accept()[0]
peer.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
while data := peer.recv(1 << 20):
    peer.sendall(data)
"""
ASK = """
import socket, time
peer = socket.create_connection(("{address}", 7777))
peer.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
took = []
for _ in range(220):
    began = time.perf_counter()
    peer.sendall(b"x" * {bytes})
    left = {bytes}
    while left:
        left -= len(peer.recv(1 << 20))
    took.append(time.perf_counter() - began)
print(min(took))
"""


class Hosts:
    """`delay_ms` and `rate` (bits a second) are the link's; 0: it is as fast as the machine is. netem makes them where
    the kernel has it, else link.py does; `made_by` says which."""

    def __init__(self, delay_ms=0, rate=0, number=0):
        self.names = tuple(f"tenon-{end}{number}-{os.getpid()}" for end in "ab")
        self.addresses = (f"10.77.{number}.1", f"10.77.{number}.2")
        self.network = f"10.77.{number}.0/24"
        self.folder = tempfile.TemporaryDirectory(prefix="tenon-hosts-")
        self.relay, self.made_by = None, "the kernel"
        self.remove_left()
        try:
            for name in self.names:
                self.ip("netns", "add", name)
                self.ip("-n", name, "link", "set", "lo", "up")
            self.veth()
            if (delay_ms or rate) and not self.netem(delay_ms, rate):
                self.ip("-n", self.names[0], "link", "del", "tn")
                self.start_relay(delay_ms, rate)
        except BaseException:
            self.__exit__()
            raise

    @staticmethod
    def ip(*words):
        subprocess.run(["ip", *words], check=True, capture_output=True, text=True)

    @staticmethod
    def remove_left():
        """Of programs that were killed."""
        for place in pathlib.Path("/run/netns").glob("tenon-[ab]*-*"):
            if not pathlib.Path("/proc", place.name.rsplit("-", 1)[1]).exists():
                subprocess.run(["ip", "netns", "del", place.name], check=False, capture_output=True)

    def veth(self):
        self.ip("link", "add", "tn", "netns", self.names[0], "type", "veth", "peer", "name", "tn", "netns", self.names[1])
        for name, address in zip(self.names, self.addresses):
            self.ip("-n", name, "addr", "add", f"{address}/24", "dev", "tn")
            self.ip("-n", name, "link", "set", "tn", "up")

    def netem(self, delay_ms, rate):
        words = [*(("delay", f"{delay_ms}ms") if delay_ms else ()), *(("rate", f"{rate}bit") if rate else ())]
        self.made_by = "netem"
        return all(subprocess.run(["tc", "-n", name, "qdisc", "add", "dev", "tn", "root", "netem", "limit", "100000", *words],
                                  check=False, capture_output=True).returncode == 0 for name in self.names)

    def start_relay(self, delay_ms, rate):
        self.made_by = "link.py"
        self.relay = subprocess.Popen(
            [sys.executable, pathlib.Path(__file__).with_name("link.py"), self.names[0], self.addresses[0], self.names[1],
             self.addresses[1], str(delay_ms), str(rate)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        if self.relay.stdout.readline() != "ready\n":
            raise OSError("there is no link: link.py ended")

    def __enter__(self):
        return self

    def __exit__(self, *_):
        if self.relay:
            self.relay.stdin.close()
            self.relay.wait()
            self.relay.stdout.close()
        for name in self.names:
            subprocess.run(["ip", "netns", "del", name], check=False, capture_output=True)
        self.folder.cleanup()

    def cut(self, how):
        """Of a link without delay and rate."""
        if how == "down":
            self.ip("-n", self.names[1], "link", "set", "tn", "down")
            return
        # What is sent goes to a station that is not there.
        for name, address in zip(self.names, reversed(self.addresses)):
            self.ip("-n", name, "neigh", "replace", address, "lladdr", "02:00:00:00:00:99", "dev", "tn", "nud", "permanent")

    def round_trip_s(self, size=1):
        """What so many bytes take there and back by TCP, the least of many times."""
        inside = lambda host, text: ["ip", "netns", "exec", self.names[host], sys.executable, "-c", text.format(
            address=self.addresses[1], bytes=size)]
        with subprocess.Popen(inside(1, ECHO), stdout=subprocess.PIPE, text=True) as echo:
            echo.stdout.readline()
            return float(subprocess.run(inside(0, ASK), check=True, capture_output=True, text=True).stdout)

    def launcher(self):
        """Open MPI's mpirun in one of them, which starts a rank in each."""
        agent = pathlib.Path(self.folder.name) / "agent"
        agent.write_text(f"#!/bin/sh\nhost=$1; shift\n[ \"$host\" = {self.addresses[0]} ] && name={self.names[0]} || "
                         f"name={self.names[1]}\nexec ip netns exec $name sh -c \"$*\"\n")
        agent.chmod(0o755)
        return ["ip", "netns", "exec", self.names[0], shutil.which("mpirun.openmpi") or "mpirun", "-n", "2", "--host",
                ",".join(f"{address}:1" for address in self.addresses), "--allow-run-as-root", "--quiet", "--mca",
                "plm_rsh_agent", str(agent), "--mca", "btl", "tcp,self", "--mca", "pml", "ob1", "--mca",
                "btl_tcp_if_include", self.network, "--mca", "oob_tcp_if_include", self.network, "-x",
                "TENON_RANKS_OVER_MPI=1"]


def why_no_hosts():
    if os.geteuid() != 0:
        return "this is not root"
    if not shutil.which("ip"):
        return "there is no `ip` (package iproute2)"
    done = subprocess.run(["ip", "netns", "add", "tenon-probe"], capture_output=True, text=True, check=False)
    subprocess.run(["ip", "netns", "del", "tenon-probe"], capture_output=True, check=False)
    return done.stderr.strip()
