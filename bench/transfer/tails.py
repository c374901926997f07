#!/usr/bin/env python3
"""The tail of the time between tokens: prefill and decode apart, against chunked prefill in one process.

    TENON_BINARY=build/release/bin/tenon bench/transfer/tails.py MODEL [--rate 2] [--requests 60] [--rounds 3]
        [--prompt-tokens 1024] [--answer-tokens 48] [--step-tokens 512] [--workers 2,2] [--threads 2] [--nice 10]

Both get the same requests at the same random moments (Poisson), in turn, with prompts of half to one and a half of the
tokens, drawn anew in each round. One process has --threads threads. Workers have one each, and where there are more of
them than processors, prefill workers stand back (--nice): a decode worker then gets a processor whenever it has a step
to compute, and prompts get what is left. Requests go to workers in turn, as SGLang's routers send them. Printed are the
gaps between tokens, the time to the first one, and tokens a second, of each and of all rounds.
"""
import argparse
import http.client
import itertools
import json
import os
import random
import re
import statistics
import subprocess
import threading
import time

BINARY = os.environ.get("TENON_BINARY", "build/release/bin/tenon")


class Worker:
    def __init__(self, flags, role, threads, nice):
        tokens = flags.prompt_tokens * 3 // 2 + flags.answer_tokens + 32
        settings = {"kv_cache.plugin": "prefix", "limits.context_tokens": tokens, "limits.max_sequences": 32,
                    "scheduler.plugin": "chunked", "scheduler.options.step_tokens": flags.step_tokens}
        if role:
            settings |= {"disaggregation.role": role, "kv_cache.io_budget": "1GiB", "disaggregation.memory": "1GiB"}
        self.process = subprocess.Popen(
            ["nice", "-n", str(nice), BINARY, "serve", "--model", flags.model, "--port", "0", "--threads", str(threads),
             *itertools.chain.from_iterable(("--set", f"{key}={value}") for key, value in settings.items()),
             *itertools.chain.from_iterable(("--set", setting) for setting in flags.set)],
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True)
        line = self.process.stdout.readline()
        self.name, self.port = line.split()[1], int(line.rsplit(":", 1)[1])
        self.address = int(re.search(r":(\d+), as role", self.process.stdout.readline())[1]) if role else None

    def ask(self, body, came):
        """Appends the moment of every token to `came`."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=3600)
        connection.request("POST", "/v1/completions", json.dumps(body | {"model": self.name, "stream": True}),
                           {"Content-Type": "application/json"})
        answer = connection.getresponse()
        assert answer.status == 200, answer.read()
        for line in answer:
            if line.startswith(b"data: {"):
                came.append(time.monotonic())
        connection.close()

    def end(self):
        self.process.kill()
        self.process.communicate()


class Together:
    name = "one process"

    def __init__(self, flags):
        self.worker = Worker(flags, None, flags.threads, 0)

    def answer(self, _, body, came):
        self.worker.ask(body, came)

    def end(self):
        self.worker.end()


class Apart:
    name = "apart"

    def __init__(self, flags):
        prefill, decode = map(int, flags.workers.split(","))
        self.prefill = [Worker(flags, "prefill", 1, flags.nice) for _ in range(prefill)]
        self.decode = [Worker(flags, "decode", 1, 0) for _ in range(decode)]

    def answer(self, number, body, came):
        prefill, decode = self.prefill[number % len(self.prefill)], self.decode[number % len(self.decode)]
        body = body | {"bootstrap_host": "127.0.0.1", "bootstrap_port": prefill.address,
                       "bootstrap_room": random.getrandbits(60)}
        other = threading.Thread(target=prefill.ask, args=(body, []))
        other.start()
        decode.ask(body, came)
        other.join()

    def end(self):
        for worker in self.prefill + self.decode:
            worker.end()


def load(way, flags, seed):
    """Gaps, times to the first token, and tokens a second, of one load."""
    drawn = random.Random(seed)
    spans = []
    began = time.monotonic()

    def one(number, body, at):
        came = []
        way.answer(number, body, came)
        spans.append((at, came))

    threads, at = [], 0.0
    for number in range(flags.requests):
        at += drawn.expovariate(flags.rate)
        body = {"prompt": [drawn.randrange(10, 200) for _ in range(drawn.randint(
            flags.prompt_tokens // 2, flags.prompt_tokens * 3 // 2))],
                "max_tokens": flags.answer_tokens, "temperature": 0, "ignore_eos": True, "return_token_ids": True}
        time.sleep(max(0.0, began + at - time.monotonic()))
        threads.append(threading.Thread(target=one, args=(number, body, time.monotonic())))
        threads[-1].start()
    for thread in threads:
        thread.join()
    last = max(came[-1] for _, came in spans)
    gaps = sorted(later - earlier for _, came in spans for earlier, later in itertools.pairwise(came))
    tokens = sum(len(came) for _, came in spans)
    return gaps, [came[0] - at for at, came in spans], tokens / (last - began)


def at_share(values, share):
    return values[min(len(values) - 1, int(len(values) * share))]


def main():
    flags = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    flags.add_argument("model")
    flags.add_argument("--rate", type=float, default=2)
    flags.add_argument("--requests", type=int, default=60)
    flags.add_argument("--rounds", type=int, default=3)
    flags.add_argument("--prompt-tokens", type=int, default=1024)
    flags.add_argument("--answer-tokens", type=int, default=48)
    flags.add_argument("--step-tokens", type=int, default=512)
    flags.add_argument("--workers", default="2,2")
    flags.add_argument("--threads", type=int, default=2)
    flags.add_argument("--nice", type=int, default=10)
    flags.add_argument("--seed", type=int, default=1)
    flags.add_argument("--set", action="append", default=[])
    flags = flags.parse_args()
    ways, ratios = [], []
    try:
        for kind in (Together, Apart):
            ways.append(kind(flags))
            load(ways[-1], argparse.Namespace(**vars(flags) | {"requests": 4}), 0)  # warms up
        for number in range(flags.rounds):
            found = {}
            for way in ways if number % 2 == 0 else ways[::-1]:
                gaps, firsts, speed = load(way, flags, flags.seed * 1000 + number)
                found[way.name] = at_share(gaps, 0.99), speed
                print(f"{way.name:11} gaps p50 {at_share(gaps, 0.5) * 1e3:7.1f} p99 {at_share(gaps, 0.99) * 1e3:7.1f} most "
                      f"{gaps[-1] * 1e3:7.1f} ms; first token p50 {statistics.median(firsts) * 1e3:7.0f} ms; "
                      f"{speed:6.1f} tokens/s", flush=True)
            (together, fast), (apart, also) = found["one process"], found["apart"]
            ratios.append((apart / together, also / fast))
        for what, values in zip(("p99 of gaps", "tokens a second"), zip(*ratios)):
            print(f"apart by one process, {what}: {statistics.median(values):.2f} ({min(values):.2f} to {max(values):.2f}, "
                  f"{len(values)} rounds)")
    finally:
        for way in ways:
            way.end()


if __name__ == "__main__":
    main()
