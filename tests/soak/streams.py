#!/usr/bin/env python3
"""Ten thousand streams that wait and a thousand that run, in rounds over the same connections.

    TENON_BINARY=build/release/bin/tenon tests/soak/streams.py [--idle 10000] [--active 1000]
        [--rounds 4] [--tls]

A round: the active streams begin; once all of them run, the idle ones are sent, and wait in the engine's
queue; all are read to their ends. Every answer must be the one that its question gets alone, and memory at
the busiest and at the end of a round must be what it was in the second round (the first one warms up).
"""
import argparse
import asyncio
import time

from soak import (PATIENCE, Client, Server, allow_files, expect, expect_flat, expect_quiet, expected_answers, question)

KINDS = 16


async def connect(server, count):
    clients = []
    for start in range(0, count, 200):
        batch = [Client(server) for _ in range(min(200, count - start))]
        await asyncio.gather(*(client.open() for client in batch))
        clients += batch
    return clients


async def one_round(server, active, idle, answers, tokens):
    """(busiest, seconds)"""
    begun = asyncio.Semaphore(0)

    async def ask(client, number, kind, on_first=None):
        text = await client.stream(question(number % KINDS, tokens[kind]), on_first)
        expect(text == answers[kind][number % KINDS], f"question {number % KINDS} got {text!r}")

    start = time.monotonic()
    tasks = [asyncio.create_task(ask(client, number, 0, begun.release))
             for number, client in enumerate(active)]
    for _ in active:
        await asyncio.wait_for(begun.acquire(), PATIENCE)
    tasks += [asyncio.create_task(ask(client, number, 1)) for number, client in enumerate(idle)]
    everything = asyncio.gather(*tasks)
    busiest = 0
    while not everything.done():
        busiest = max(busiest, server.memory())
        await asyncio.wait([everything], timeout=0.5)
    await everything
    return busiest, time.monotonic() - start


async def soak(server, flags):
    tokens = (flags.active_tokens, flags.idle_tokens)
    answers = [await expected_answers(server, KINDS, count) for count in tokens]
    before = server.memory()
    active, idle = await connect(server, flags.active), await connect(server, flags.idle)
    connected = server.memory()
    count = flags.active + flags.idle
    print(f"{count} connections, {before:.1f} → {connected:.1f} MiB, "
          f"{(connected - before) * 1024 / count:.1f} KiB each", flush=True)
    busiest, quiet = [], []
    for number in range(flags.rounds):
        most, seconds = await one_round(server, active, idle, answers, tokens)
        await expect_quiet(server)
        busiest.append(most)
        quiet.append(server.memory())
        generated = flags.active * tokens[0] + flags.idle * tokens[1]
        print(f"round {number + 1}: {count} answers, none lost or altered, in {seconds:.1f} s "
              f"({generated / seconds:.0f} tokens/s); {most:.1f} MiB at most, {quiet[-1]:.1f} behind it",
              flush=True)
    expect_flat("the busiest moment of rounds", busiest[1:])
    expect_flat("the end of rounds", quiet[1:])
    for client in active + idle:
        client.close()


def main():
    flags = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    flags.add_argument("--idle", type=int, default=10000)
    flags.add_argument("--active", type=int, default=1000)
    flags.add_argument("--rounds", type=int, default=4)
    flags.add_argument("--active-tokens", type=int, default=48)
    flags.add_argument("--idle-tokens", type=int, default=4)
    flags.add_argument("--tls", action="store_true")
    flags = flags.parse_args()
    needed = flags.idle + flags.active + 300
    files = allow_files()
    expect(files >= needed, f"{needed} files are needed, and {files} allowed – ulimit -n {needed}")
    with Server("--max-requests", 16384, "--set", f"limits.max_sequences={flags.active}",
                tls=flags.tls) as server:
        asyncio.run(soak(server, flags))
        expect(server.end() == 0, "the server's end was not clean")
    print("streams: good")


if __name__ == "__main__":
    main()
