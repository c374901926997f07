#!/usr/bin/env python3
"""What a sequence that generates loses while prompts of others are read from a tier.

    TENON_BINARY=build/release/bin/tenon bench/transfer/beside.py MODEL [--prompt-tokens 4096] [--reads 3] [--rounds 3]
        [--kind disk] [--cache 150MiB]

A sequence generates. Meanwhile others ask, one after the other, for two tokens after a prompt whose K/V lie in the tier
and no longer in the cache, and then for the same once more: now the cache has them, and what differs is reading. Files
have left the system's cache of pages before. Printed is how long the sequence takes, from when a request is sent, for
as many tokens as it got until the answer that was read had ended.
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

OWN = 64  # tokens of the prompt of the sequence that generates


class Stream(threading.Thread):
    """Generates until it is told to end; when each token came."""

    def __init__(self, server, prompt, tokens):
        super().__init__(daemon=True)
        self.server, self.prompt, self.tokens, self.times, self.ends, self.problem = server, prompt, tokens, [], False, ""
        self.start()

    def run(self):
        connection = http.client.HTTPConnection("127.0.0.1", self.server.port, timeout=600)
        # Without their ids, tokens that have no text of their own would not be told of.
        body = {"model": self.server.name, "prompt": self.prompt, "max_tokens": self.tokens, "temperature": 0,
                "ignore_eos": True, "stream": True, "return_token_ids": True}
        connection.request("POST", "/v1/completions", json.dumps(body), {"Content-Type": "application/json"})
        answer = connection.getresponse()
        if answer.status != 200:
            self.problem = answer.read().decode()
        while not self.ends and (line := answer.readline()):
            if line.startswith(b"data: {"):
                self.times.append(time.monotonic())
        if not self.ends:
            self.problem = self.problem or f"it has ended after {self.tokens} tokens (--stream-tokens)"
        connection.close()

    def wait_for(self, tokens):
        """Until there are so many."""
        while len(self.times) < tokens:
            if self.problem:
                raise SystemExit(f"the sequence that generates: {self.problem}")
            time.sleep(0.002)

    def after(self, moment):
        """How many tokens had come by then."""
        return sum(came <= moment for came in list(self.times))

    def end(self):
        self.ends = True
        self.join()


def asked(server, stream, prompt, tokens=0):
    """Seconds that the stream takes for so many tokens from this request on, and how many: 0 is until its end."""
    before = stream.after(time.monotonic())
    server.first_token_s(prompt)
    over = tokens or stream.after(time.monotonic()) - before + 1
    stream.wait_for(before + over)
    return stream.times[before + over - 1] - stream.times[before - 1], over


def main():
    flags = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    flags.add_argument("model")
    flags.add_argument("--prompt-tokens", type=int, default=4096)
    flags.add_argument("--stream-tokens", type=int, default=600)
    flags.add_argument("--reads", type=int, default=3)
    flags.add_argument("--rounds", type=int, default=3)
    flags.add_argument("--threads", type=int, default=2)
    flags.add_argument("--kind", default="disk", choices=("disk", "host"))
    flags.add_argument("--cache", default="150MiB", help="room for one long prompt and the stream, and no more")
    flags.add_argument("--folder", help="on the disk that is measured")
    flags = flags.parse_args()
    drawn = random.Random(1)
    draw = lambda tokens: [drawn.randrange(10, 200) for _ in range(tokens)]
    with tempfile.TemporaryDirectory(dir=flags.folder) as folder:
        server = Server(flags, flags.kind, folder, limits__max_sequences=2, kv_cache__memory=flags.cache,
                        scheduler__plugin="chunked",
                        limits__context_tokens=max(flags.prompt_tokens, OWN + flags.stream_tokens) + 16)
        read = lambda: server.figure("kv_tier_read_bytes_total")
        try:
            prompts = [draw(flags.prompt_tokens) for _ in range(flags.reads)]
            for prompt in prompts:
                print(f"computed in {server.first_token_s(prompt):.1f} s", flush=True)
            ratios = []
            for _ in range(flags.rounds):
                server.settle()
                forget_pages(pathlib.Path(folder).rglob("*.kv"))
                stream = Stream(server, draw(OWN), flags.stream_tokens)
                stream.wait_for(10)
                found = {"read": 0.0, "cached": 0.0}
                tokens, before = 0, read()
                for prompt in prompts:
                    took, over = asked(server, stream, prompt)
                    found["read"] += took
                    tokens += over
                    between = read()
                    found["cached"] += asked(server, stream, prompt, over)[0]
                    if between == before or read() != between:
                        raise SystemExit("a prompt was not read once and then found (--cache)")
                    megabytes, before = (between - before) / 1e6, between
                stream.end()
                ratios.append(found["cached"] / found["read"])
                print(f"{tokens} tokens: {tokens / found['cached']:.2f} a second next to prompts that the cache has, "
                      f"{tokens / found['read']:.2f} next to prompts of {megabytes:.0f} MB that are read: {ratios[-1]:.3f}",
                      flush=True)
            print(f"{flags.kind}: {statistics.median(ratios):.3f} of the speed ({min(ratios):.3f} to {max(ratios):.3f}, "
                  f"{len(ratios)} rounds of {flags.reads})")
        finally:
            server.end()


if __name__ == "__main__":
    main()
