#!/usr/bin/env python3
"""Random traffic: whole answers and streams, clients that leave, stay silent, or read slowly.

    TENON_BINARY=build/release/bin/tenon tests/soak/traffic.py [--minutes 60] [--clients 48] [--pause 0] [--seed 1] [--tls]

Clients come one behind the other as fast as they can, or with pauses of so many seconds on average.
Every answer that is read must be the one that its question gets alone. Memory, looked at in equal parts of the
time, must be what it was behind the first quarter; at the end everything has ended, all blocks are free, and
the server has as few files open as at its start.

Where the whole machine stood still for seconds (it slept, or was frozen), connections may have run into the server's
time limits meanwhile: connections that were lost across such a time are counted and not held against anybody.
"""
import argparse
import asyncio
import collections
import json
import random
import time

from soak import (Client, Server, allow_files, expect, expect_flat, expect_quiet, expected_answers, question)

KINDS = 24
TOKENS = 24
FORM = {"type": "object", "properties": {"name": {"type": "string", "maxLength": 8},
                                         "age": {"type": "integer", "minimum": 0, "maximum": 99}},
        "required": ["name", "age"], "additionalProperties": False}


class Pulse:
    """Knows when this process last stood still for longer than a busy machine explains."""
    STILL_S = 5

    def __init__(self):
        self.last, self.stood_still, self.seconds = time.monotonic(), 0.0, 0.0

    def beat(self):
        now = time.monotonic()
        if now - self.last > self.STILL_S:
            self.stood_still, self.seconds = now, self.seconds + now - self.last
        self.last = now

    async def go_on(self):
        while True:
            self.beat()
            await asyncio.sleep(0.5)

    def stood_still_since(self, start):
        self.beat()
        return self.stood_still >= start


class Traffic:
    def __init__(self, server, answers, seed, pause):
        self.server, self.answers, self.pause = server, answers, pause
        self.random = random.Random(seed)
        self.counts = collections.Counter()
        self.pulse = Pulse()

    def draw(self):
        number = self.random.randrange(KINDS)
        return question(number, TOKENS), self.answers[number]

    async def client(self):
        return await Client(self.server).open()

    # What clients do.

    async def reads_streams(self):
        client = await self.client()
        for _ in range(self.random.randrange(1, 4)):
            body, answer = self.draw()
            expect(await client.stream(body) == answer, "a stream was altered")
        client.close()

    async def reads_answers(self):
        client = await self.client()
        body, answer = self.draw()
        samples = self.random.choice((1, 1, 3))
        status, text = await client.ask("POST", "/v1/completions", body | {"n": samples})
        choices = json.loads(text)["choices"]
        expect(status == 200 and len(choices) == samples, f"{samples} samples were {len(choices)}")
        expect(choices[0]["text"] == answer, "an answer was altered")
        client.close()

    async def reads_a_form(self):
        client = await self.client()
        body = {"prompt": "a king", "max_tokens": 200, "guided_json": FORM,
                "seed": self.random.randrange(1000)}
        status, text = await client.ask("POST", "/v1/completions", body)
        expect(status == 200, f"a form was answered by {status}")
        choice = json.loads(text)["choices"][0]
        if choice["finish_reason"] == "stop":
            said = json.loads(choice["text"])
            expect(set(said) == {"name", "age"}, f"an answer does not fit its schema: {said}")
        client.close()

    async def leaves_a_stream(self):
        client = await self.client()
        body, _ = self.draw()
        await client.send("POST", "/v1/completions",
                          body | {"stream": True, "max_tokens": 200, "n": self.random.choice((1, 2))})
        status, _ = await client.head()
        expect(status == 200, f"a stream was answered by {status}")
        await client.reader.read(self.random.randrange(1, 2000))
        client.abort() if self.random.random() < 0.5 else client.close()

    async def leaves_before_the_answer(self):
        client = await self.client()
        body, _ = self.draw()
        await client.send("POST", "/v1/completions", body | {"max_tokens": 200})
        await asyncio.sleep(self.random.random() * 0.2)
        client.abort() if self.random.random() < 0.5 else client.close()

    async def sends_half_and_stays(self):
        client = await self.client()
        whole = b"POST /v1/completions HTTP/1.1\r\nHost: x\r\nContent-Length: 400\r\n\r\n{\"prompt\": \"a"
        client.writer.write(whole[:self.random.randrange(len(whole))])
        await asyncio.sleep(self.random.random() * 20)
        client.abort() if self.random.random() < 0.5 else client.close()

    async def stays_silent(self):
        reader, writer = await asyncio.open_connection("127.0.0.1", self.server.port)
        if self.random.random() < 0.5:
            writer.write(b"\x16\x03\x01\x02")
        closed = asyncio.create_task(reader.read(1))
        await asyncio.wait([closed], timeout=self.random.random() * 20)
        closed.cancel()
        writer.transport.abort()

    async def reads_slowly(self):
        client = await self.client()
        body, answer = self.draw()
        await client.send("POST", "/v1/completions", body | {"stream": True, "logprobs": 5})
        await client.head()
        data = b""
        async for chunk in client.chunks():
            data += chunk
            await asyncio.sleep(self.random.random() * 0.3)
        events = data.decode().split("\n\n")
        expect(events[-2] == "data: [DONE]", "a slow reader did not get the end")
        text = "".join(json.loads(event[6:])["choices"][0]["text"] for event in events[:-2])
        expect(text == answer, "a slow reader's stream was altered")
        client.close()

    async def stops_reading(self):
        client = await self.client()
        body, _ = self.draw()
        await client.send("POST", "/v1/completions",
                          body | {"stream": True, "max_tokens": 400, "logprobs": 5})
        await asyncio.sleep(self.random.random() * 20)
        client.abort()

    async def asks_badly(self):
        client = await self.client()
        for body in self.random.sample(({"prompt": 3}, {"prompt": "a", "n": 0}, [], {"model": "none"},
                                        {"prompt": "a", "temperatur": 1}), 2):
            status, text = await client.ask("POST", "/v1/completions", body)
            expect(status in (400, 404) and b'"error"' in text, f"{body} was answered by {status}")
        client.close()

    async def act(self, until):
        ways = [(self.reads_streams, 6), (self.reads_answers, 4), (self.reads_a_form, 2),
                (self.leaves_a_stream, 4), (self.leaves_before_the_answer, 3),
                (self.sends_half_and_stays, 1), (self.stays_silent, 1), (self.reads_slowly, 1),
                (self.stops_reading, 1), (self.asks_badly, 2)]
        while time.monotonic() < until:
            way = self.random.choices([way for way, _ in ways], [weight for _, weight in ways])[0]
            start = time.monotonic()
            try:
                await asyncio.wait_for(way(), 300)
                self.counts[way.__name__] += 1
            except (OSError, EOFError, asyncio.TimeoutError):
                if not self.pulse.stood_still_since(start):
                    raise
                self.counts["lost across a standstill"] += 1
            if self.pause > 0:
                await asyncio.sleep(min(self.random.random() * 2 * self.pause, max(0, until - time.monotonic())))


async def soak(server, flags):
    answers = await expected_answers(server, KINDS, TOKENS)
    files = server.descriptors()
    traffic = Traffic(server, answers, flags.seed, flags.pause)
    seconds, parts = flags.minutes * 60, 8
    start = time.monotonic()
    pulse = asyncio.create_task(traffic.pulse.go_on())
    clients = asyncio.gather(*(traffic.act(start + seconds) for _ in range(flags.clients)))
    sizes = []
    for part in range(parts):
        await asyncio.wait([clients], timeout=max(0, start + seconds * (part + 1) / parts - time.monotonic()))
        if clients.done():
            await clients
        sizes.append(server.memory())
    await clients
    pulse.cancel()
    print(f"{traffic.pulse.seconds:8.0f} seconds the machine stood still")
    for name, count in traffic.counts.most_common():
        print(f"{count:8} {name}")
    await expect_quiet(server)
    await asyncio.sleep(1)
    expect(server.descriptors() <= files + 1, f"{server.descriptors()} files are open, {files} at the start")
    expect_flat("memory", sizes[parts // 4 - 1:])


def main():
    flags = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    flags.add_argument("--minutes", type=float, default=60)
    flags.add_argument("--clients", type=int, default=48)
    flags.add_argument("--pause", type=float, default=0)
    flags.add_argument("--seed", type=int, default=1)
    flags.add_argument("--tls", action="store_true")
    flags = flags.parse_args()
    allow_files()
    with Server(tls=flags.tls) as server:
        asyncio.run(soak(server, flags))
        expect(server.end() == 0, "the server's end was not clean")
    print("traffic: good")


if __name__ == "__main__":
    main()
