#!/usr/bin/env python3
"""The time to the first token of a prompt whose K/V lies in a tier, by that of computing it.

    TENON_BINARY=build/release/bin/tenon bench/transfer/tiers.py MODEL [--prompt-tokens 4096] [--rounds 5] [--kinds disk,host]

The cache has room for one prompt. Each round asks for a new prompt, which is computed, then for another one, which
takes its room, and then for the first one again: that is read. Files have left the system's cache of pages before, and
are read once more by themselves for comparison, out of it again.
"""
import argparse
import http.client
import itertools
import json
import os
import pathlib
import random
import re
import statistics
import subprocess
import tempfile
import time

BINARY = os.environ.get("TENON_BINARY", "build/release/bin/tenon")


class Server:
    def __init__(self, flags, kind, folder, **more):
        tokens = flags.prompt_tokens + 64
        settings = {"kv_cache.plugin": "prefix", "limits.context_tokens": tokens, "limits.max_batch_tokens": tokens,
                    "limits.max_sequences": 1, "scheduler.plugin": "continuous", "kv_cache.io_budget": "2GiB",
                    "kv_cache.tiers.1.kind": kind, "kv_cache.tiers.1.memory": "8GiB"}
        if kind == "disk":
            settings["kv_cache.tiers.1.path"] = folder
        settings |= {key.replace("__", "."): value for key, value in more.items()}
        self.process = subprocess.Popen(
            [BINARY, "serve", "--model", flags.model, "--port", "0", "--threads", str(flags.threads),
             *itertools.chain.from_iterable(("--set", f"{key}={value}") for key, value in settings.items())],
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True)
        line = self.process.stdout.readline()
        self.name, self.port = line.split()[1], int(line.rsplit(":", 1)[1])

    def first_token_s(self, prompt):
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=3600)
        body = {"model": self.name, "prompt": prompt, "max_tokens": 2, "temperature": 0, "ignore_eos": True,
                "stream": True, "return_token_ids": True}
        began = time.monotonic()
        connection.request("POST", "/v1/completions", json.dumps(body), {"Content-Type": "application/json"})
        answer = connection.getresponse()
        assert answer.status == 200, answer.read()
        answer.readline()
        took = time.monotonic() - began
        answer.read()
        connection.close()
        return took

    def figure(self, name):
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=600)
        connection.request("GET", "/metrics")
        found = re.findall(rf"^tenon:{name}{{.*}} (\S+)$", connection.getresponse().read().decode(), re.M)
        connection.close()
        return sum(map(float, found))

    def settle(self):
        """Until nothing more is written."""
        before = -1.0
        while (now := self.figure("kv_tier_written_bytes_total")) != before:
            before = now
            time.sleep(0.3)

    def end(self):
        self.process.kill()
        self.process.communicate()


def forget_pages(paths):
    for path in paths:
        with open(path, "rb") as file:
            os.fsync(file.fileno())
            os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)


def plain_read_s(paths):
    forget_pages(paths)
    began = time.monotonic()
    for path in paths:
        path.read_bytes()
    return time.monotonic() - began


def measure(flags, kind):
    drawn = random.Random(1)
    draw = lambda: [drawn.randrange(10, 200) for _ in range(flags.prompt_tokens)]
    shares, reads = [], []
    with tempfile.TemporaryDirectory(dir=flags.folder) as folder:
        server = Server(flags, kind, folder)
        try:
            server.first_token_s(draw())  # warms up
            for _ in range(flags.rounds):
                server.settle()
                known = set(pathlib.Path(folder).rglob("*.kv"))
                prompt = draw()
                computed = server.first_token_s(prompt)
                server.settle()
                paths = sorted(set(pathlib.Path(folder).rglob("*.kv")) - known)
                server.first_token_s(draw())
                server.settle()
                plain = plain_read_s(paths) if kind == "disk" else 0.0
                forget_pages(paths)
                before = server.figure("kv_tier_read_bytes_total")
                read = server.first_token_s(prompt)
                megabytes = (server.figure("kv_tier_read_bytes_total") - before) / 1e6
                shares.append(read / computed)
                text = f"{kind}: computed in {computed:.3f} s, read in {read:.3f} s: {read / computed:.3f} ({megabytes:.1f} MB)"
                if plain:
                    reads.append(plain / read)
                    text += f"; the same files alone in {plain:.3f} s"
                print(text, flush=True)
        finally:
            server.end()
    print(f"{kind}: {statistics.median(shares):.3f} of computing ({min(shares):.3f} to {max(shares):.3f}, {len(shares)} pairs)"
          + (f"; reading the files alone takes {statistics.median(reads):.2f} of it" if reads else ""))


def main():
    flags = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    flags.add_argument("model")
    flags.add_argument("--prompt-tokens", type=int, default=4096)
    flags.add_argument("--rounds", type=int, default=5)
    flags.add_argument("--threads", type=int, default=2)
    flags.add_argument("--kinds", default="disk,host")
    flags.add_argument("--folder", help="on the disk that is measured")
    flags = flags.parse_args()
    for kind in flags.kinds.split(","):
        measure(flags, kind)


if __name__ == "__main__":
    main()
