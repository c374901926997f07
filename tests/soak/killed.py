#!/usr/bin/env python3
"""A server that is killed in the middle of its answers, and started again.

    TENON_BINARY=build/release/bin/tenon tests/soak/killed.py [--times 5] [--clients 100] [--tls]

Each client must see at once that its stream has no end, and none may take half an answer for a whole one. The
next server has the same port and socket, and answers as before.
"""
import argparse
import asyncio
import pathlib
import random
import signal
import ssl
import tempfile
import time

from soak import PATIENCE, Client, Failure, Server, allow_files, expect, expected_answers, question

KINDS = 4


async def streams_are_cut(server, count):
    """Kills it once all have something. How long the last client took to notice, in seconds."""
    running = asyncio.Semaphore(0)

    async def read(number):
        client = await Client(server).open()
        try:
            text = await client.stream(question(number, 400), running.release)
        except (asyncio.IncompleteReadError, ConnectionError, ssl.SSLError):
            return time.monotonic()
        finally:
            client.close()
        raise Failure(f"a stream of a killed server seemed whole: {text!r}")

    readers = [asyncio.create_task(read(number)) for number in range(count)]
    for _ in readers:
        await asyncio.wait_for(running.acquire(), PATIENCE)
    await asyncio.sleep(random.random() * 0.2)
    killed = time.monotonic()
    server.end(signal.SIGKILL)
    return max(await asyncio.gather(*readers)) - killed


async def soak(server, flags):
    answers = await expected_answers(server, KINDS, 16)
    for number in range(flags.times):
        seconds = await streams_are_cut(server, flags.clients)
        expect(seconds < 5, f"clients noticed after {seconds:.1f} s")
        server.process.stdout.close()
        server.start()
        expect(await expected_answers(server, KINDS, 16) == answers, "the next server answers otherwise")
        print(f"killed {number + 1}: {flags.clients} streams cut, seen within {seconds * 1000:.0f} ms")


def main():
    flags = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    flags.add_argument("--times", type=int, default=5)
    flags.add_argument("--clients", type=int, default=100)
    flags.add_argument("--tls", action="store_true")
    flags = flags.parse_args()
    allow_files()
    with tempfile.TemporaryDirectory() as folder:
        socket = pathlib.Path(folder) / "socket"
        with Server("--socket", socket, "--set", f"limits.max_sequences={flags.clients}",
                    tls=flags.tls) as server:
            asyncio.run(soak(server, flags))
            expect(server.end() == 0, "the server's end was not clean")
        expect(not socket.exists(), "the socket is still there")
    print("killed: good")


if __name__ == "__main__":
    main()
