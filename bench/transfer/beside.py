#!/usr/bin/env python3
"""What a sequence that generates loses while prompts of others are read from a folder.

    TENON_BINARY=build/release/bin/tenon bench/transfer/beside.py MODEL [--prompt-tokens 4096] [--reads 3] [--rounds 3]

A sequence generates; meanwhile others ask for one token after a prompt whose K/V lie in the folder, one after the
other. In turn with that, the same sequence generates as many tokens while as many others ask for one token after a
prompt of as many tokens as are computed of the long ones: what remains is reading. Files have left the system's cache
of pages before. Printed are the tokens a second that the sequence gets from the first such request on.
"""
import argparse
import http.client
import json
import pathlib
import random
import statistics
import tempfile
import threading
import time

from tiers import Server, forget_pages

BLOCK = 16


class Stream(threading.Thread):
    """Generates until it is told to end; when each token came."""

    def __init__(self, server, prompt):
        super().__init__()
        self.server, self.prompt, self.times, self.ends = server, prompt, [], False
        self.start()

    def run(self):
        connection = http.client.HTTPConnection("127.0.0.1", self.server.port, timeout=3600)
        body = {"model": self.server.name, "prompt": self.prompt, "max_tokens": 4000, "temperature": 0,
                "ignore_eos": True, "stream": True}
        connection.request("POST", "/v1/completions", json.dumps(body), {"Content-Type": "application/json"})
        answer = connection.getresponse()
        while not self.ends and (line := answer.readline()):
            if line.startswith(b"data: {"):
                self.times.append(time.monotonic())
        connection.close()

    def wait_for(self, tokens):
        wanted = len(self.times) + tokens
        while len(self.times) < wanted:
            time.sleep(0.01)

    def end(self):
        self.ends = True
        self.join()


def rate(server, own, prompts, steps=0):
    """Tokens a second of a stream while these are asked for, and of how many tokens."""
    stream = Stream(server, own)
    stream.wait_for(10)
    first = len(stream.times) - 1
    for prompt in prompts:
        server.first_token_s(prompt)
    stream.wait_for(max(1, first + steps - len(stream.times) + 1))
    last = first + steps if steps else len(stream.times) - 1
    stream.end()
    return (last - first) / (stream.times[last] - stream.times[first]), last - first


def main():
    flags = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    flags.add_argument("model")
    flags.add_argument("--prompt-tokens", type=int, default=4096)
    flags.add_argument("--reads", type=int, default=3)
    flags.add_argument("--rounds", type=int, default=3)
    flags.add_argument("--threads", type=int, default=2)
    flags.add_argument("--kind", default="disk")
    flags.add_argument("--cache", default="200MiB", help="room for one long prompt and the stream, and no more")
    flags.add_argument("--folder", help="on the disk that is measured")
    flags = flags.parse_args()
    drawn = random.Random(1)
    draw = lambda tokens: [drawn.randrange(10, 200) for _ in range(tokens)]
    with tempfile.TemporaryDirectory(dir=flags.folder) as folder:
        server = Server(flags, flags.kind, folder, limits__max_sequences=2, kv_cache__memory=flags.cache,
                        scheduler__plugin="chunked")
        try:
            prompts = [draw(flags.prompt_tokens) for _ in range(flags.reads)]
            for prompt in prompts:
                server.first_token_s(prompt)
            server.settle()
            own = draw(64)
            rate(server, own, [draw(BLOCK)])
            ratios = []
            for _ in range(flags.rounds):
                forget_pages(pathlib.Path(folder).rglob("*.kv"))
                before = server.figure("kv_tier_read_bytes_total")
                beside, over = rate(server, own, prompts)
                megabytes = (server.figure("kv_tier_read_bytes_total") - before) / 1e6
                alone, _ = rate(server, own, [draw(BLOCK) for _ in prompts], over)
                ratios.append(beside / alone)
                print(f"{over} tokens: {alone:.2f} a second next to short prompts, {beside:.2f} next to {megabytes:.0f} MB "
                      f"that are read: {beside / alone:.3f}", flush=True)
            print(f"{flags.kind}: {statistics.median(ratios):.3f} ({min(ratios):.3f} to {max(ratios):.3f})")
        finally:
            server.end()


if __name__ == "__main__":
    main()
