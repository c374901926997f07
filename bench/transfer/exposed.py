#!/usr/bin/env python3
"""How much of K/V's way to a decode worker is left once its prompt is computed.

    TENON_BINARY=build/release/bin/tenon bench/transfer/exposed.py MODEL [--prompt-tokens 1024] [--rounds 5]
        [--chunk-tokens 0] [--megabytes-a-second 0] [--before OTHER_BINARY] [--set KEY=VALUE]

A prefill and a decode worker get the same request at the same time, as SGLang's routers send it. Printed are the time
until the prefill worker answered, the time until the decode worker's first token, and their ratio; with
--megabytes-a-second the way between them is a relay that is no faster, and with --before another build of Tenon takes
turns with this one. --chunk-tokens is how many tokens of a prompt a step has; 0: all of them.
"""
import argparse
import http.client
import json
import os
import random
import re
import socket
import statistics
import subprocess
import threading
import time

BINARY = os.environ.get("TENON_BINARY", "build/release/bin/tenon")


class Worker:
    def __init__(self, binary, role, flags):
        tokens = flags.prompt_tokens + 64
        scheduler = (["--set", "scheduler.plugin=chunked", "--set", f"scheduler.options.step_tokens={flags.chunk_tokens}"]
                     if flags.chunk_tokens else ["--set", "scheduler.plugin=continuous"])
        self.process = subprocess.Popen(
            [binary, "serve", "--model", flags.model, "--port", "0", "--threads", str(flags.threads), *scheduler,
             "--set", "kv_cache.plugin=prefix", "--set", f"limits.context_tokens={tokens}", "--set",
             f"limits.max_batch_tokens={tokens}", "--set", "limits.max_sequences=2", "--set",
             "kv_cache.io_budget=2GiB", "--set", "disaggregation.memory=2GiB", "--set", f"disaggregation.role={role}",
             *(part for setting in flags.set for part in ("--set", setting))],
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True)
        line = self.process.stdout.readline()
        self.name, self.port = line.split()[1], int(line.rsplit(":", 1)[1])
        self.address = re.search(r":(\d+), as role", self.process.stdout.readline())[1]

    def ask(self, body):
        """Seconds on the clock when the first token came: without their ids, some would have no event."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=3600)
        body = body | {"model": self.name, "stream": True, "return_token_ids": True}
        connection.request("POST", "/v1/completions", json.dumps(body), {"Content-Type": "application/json"})
        answer = connection.getresponse()
        assert answer.status == 200, answer.read()
        answer.readline()
        came = time.monotonic()
        answer.read()
        return came

    def figure(self, name):
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=60)
        connection.request("GET", "/metrics")
        text = connection.getresponse().read().decode()
        found = re.search(rf"^tenon:kv_transfer_{name}{{.*}} (\S+)$", text, re.M)
        return int(float(found[1])) if found else 0

    def end(self):
        self.process.kill()
        self.process.communicate()


class Relay:
    """Carries bytes to a port of this machine, at most so many a second."""

    def __init__(self, port, rate):
        self.port, self.rate = port, rate
        self.listener = socket.create_server(("127.0.0.1", 0))
        threading.Thread(target=self.accept, daemon=True).start()

    def accept(self):
        while True:
            one, _ = self.listener.accept()
            other = socket.create_connection(("127.0.0.1", self.port))
            for way in ((one, other), (other, one)):
                for end in way:
                    end.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 18)
                threading.Thread(target=self.carry, args=way, daemon=True).start()

    def carry(self, source, sink):
        free_at = time.monotonic()
        try:
            while bytes_ := source.recv(1 << 16):
                free_at = max(free_at, time.monotonic()) + len(bytes_) / self.rate
                time.sleep(max(0.0, free_at - time.monotonic()))
                sink.sendall(bytes_)
        except OSError:
            pass
        sink.close()


def one(pair, relay, tokens, room):
    prefill, decode = pair
    port = relay.listener.getsockname()[1] if relay else int(prefill.address)
    body = {"prompt": tokens, "max_tokens": 2, "temperature": 0, "ignore_eos": True, "bootstrap_host": "127.0.0.1",
            "bootstrap_port": port, "bootstrap_room": room}
    times = {}
    start = time.monotonic()
    threads = [threading.Thread(target=lambda worker=worker: times.update({worker: worker.ask(body) - start}))
               for worker in pair]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return times[prefill], times[decode]


def main():
    flags = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    flags.add_argument("model")
    flags.add_argument("--prompt-tokens", type=int, default=1024)
    flags.add_argument("--chunk-tokens", type=int, default=0)
    flags.add_argument("--rounds", type=int, default=5)
    flags.add_argument("--threads", type=int, default=1)
    flags.add_argument("--megabytes-a-second", type=float, default=0)
    flags.add_argument("--before", default="")
    flags.add_argument("--set", action="append", default=[])
    flags = flags.parse_args()
    binaries = {"this build": BINARY} | ({"the other": flags.before} if flags.before else {})
    pairs, relays, ratios = {}, {}, {name: [] for name in binaries}
    drawn = random.Random(1)
    try:
        for name, binary in binaries.items():
            pairs[name] = [Worker(binary, role, flags) for role in ("prefill", "decode")]
            rate = flags.megabytes_a_second * 1e6
            relays[name] = Relay(int(pairs[name][0].address), rate) if rate else None
        for round_ in range(-1, flags.rounds):  # the first one warms up
            tokens = [drawn.randrange(10, 200) for _ in range(flags.prompt_tokens)]
            for name in random.Random(round_).sample(sorted(pairs), len(pairs)):
                before = [pairs[name][0].figure(kind) for kind in ("sent_bytes_total", "sent_early_bytes_total")]
                computed, first = one(pairs[name], relays[name], tokens, drawn.getrandbits(60))
                sent, early = (pairs[name][0].figure(kind) - old for kind, old in zip(
                    ("sent_bytes_total", "sent_early_bytes_total"), before))
                if round_ >= 0:
                    ratios[name].append(first / computed)
                print(f"{name}: computed in {computed:.3f} s, first token at the decode worker after {first:.3f} s: "
                      f"{first / computed:.3f}; {sent / 1e6:.1f} MB, {early / 1e6:.1f} of them early", flush=True)
        for name, values in ratios.items():
            print(f"{name}: {statistics.median(values):.3f} ({min(values):.3f} to {max(values):.3f})")
    finally:
        for pair in pairs.values():
            for worker in pair:
                worker.end()


if __name__ == "__main__":
    main()
