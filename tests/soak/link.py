#!/usr/bin/env python3
"""A link of a given delay and rate between two network name spaces, for kernels without netem.

    tests/soak/link.py NAMESPACE ADDRESS NAMESPACE ADDRESS DELAY_MS BITS_A_SECOND

Each name space gets a device `tn` with its address. A packet that one of them sends leaves once all before it have left
at that rate (0: at once), and comes to the other one the delay later. Prints "ready", and ends with its input. Needs
root, /dev/net/tun, and some of a processor: what it adds by itself is part of what one measures over the link, so
measure the link as well.
"""
import collections
import fcntl
import os
import select
import struct
import subprocess
import sys
import time

TUNSETIFF, IFF_TUN, IFF_NO_PI = 0x400454CA, 0x0001, 0x1000
MTU = 65000  # a message of a step is one packet
AWAKE_S = 80e-6  # before a packet is due, it is waited for without sleeping
MOST_BYTES = 64 << 20  # that are on their way in one direction; more is lost, as on any link


def device(namespace, address):
    """What is sent and received by a new device of a name space."""
    place = os.open("/dev/net/tun", os.O_RDWR | os.O_NONBLOCK)
    fcntl.ioctl(place, TUNSETIFF, struct.pack("16sH22x", b"tn-link%d", IFF_TUN | IFF_NO_PI))
    name = fcntl.ioctl(place, 0x800454D2, bytes(40))[:16].split(b"\0")[0].decode()  # TUNGETIFF
    for words in (["link", "set", name, "netns", namespace], ["-n", namespace, "link", "set", name, "name", "tn"],
                  ["-n", namespace, "addr", "add", f"{address}/24", "dev", "tn"],
                  ["-n", namespace, "link", "set", "tn", "mtu", str(MTU), "up"]):
        subprocess.run(["ip", *words], check=True)
    return place


class Way:
    """One direction."""

    def __init__(self, source, sink, delay_s, bytes_a_second):
        self.source, self.sink, self.delay_s, self.rate = source, sink, delay_s, bytes_a_second
        self.packets, self.free_at, self.bytes = collections.deque(), 0.0, 0

    def take(self):
        while True:
            try:
                packet = os.read(self.source, MTU + 100)
            except BlockingIOError:
                return
            now = time.monotonic()
            self.free_at = max(self.free_at, now) + (len(packet) / self.rate if self.rate else 0.0)
            if self.bytes + len(packet) <= MOST_BYTES:
                self.bytes += len(packet)
                self.packets.append((self.free_at + self.delay_s, packet))

    def give(self, now):
        while self.packets and self.packets[0][0] <= now:
            packet = self.packets.popleft()[1]
            self.bytes -= len(packet)
            try:
                os.write(self.sink, packet)
            except OSError:
                pass  # the other device is down: lost


def carry(ways):
    sources = {way.source: way for way in ways}
    while True:
        due = min((way.packets[0][0] for way in ways if way.packets), default=None)
        patience = None if due is None else max(0.0, due - time.monotonic() - AWAKE_S)
        for place in select.select([*sources, sys.stdin], [], [], patience)[0]:
            if place is sys.stdin:
                return
            sources[place].take()
        now = time.monotonic()
        for way in ways:
            way.give(now)


def main():
    first, first_address, second, second_address, delay_ms, bits = sys.argv[1:]
    try:
        os.setpriority(os.PRIO_PROCESS, 0, -20)
    except OSError:
        pass
    one, other = device(first, first_address), device(second, second_address)
    print("ready", flush=True)
    figures = float(delay_ms) / 1e3, float(bits) / 8
    carry([Way(one, other, *figures), Way(other, one, *figures)])


if __name__ == "__main__":
    main()
