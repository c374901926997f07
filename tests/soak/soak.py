"""What the soaks share: a server whose memory is watched, and a client of plain sockets in one thread."""
import asyncio
import json
import os
import pathlib
import resource
import signal
import ssl
import subprocess
import tempfile
import time

BINARY = os.environ.get("TENON_BINARY", "build/release/bin/tenon")
PATIENCE = 600
WORDS = ("the old witch", "a king", "a small boat", "once upon a time", "the dog", "in the wood",
         "two sisters", "a cold night")


class Failure(Exception):
    """Something was lost, altered, or did not end."""


def expect(holds, what):
    if not holds:
        raise Failure(what)


def allow_files():
    """Each connection takes a descriptor, here and in the server, which inherits the limit."""
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    return hard


class Server:
    """`tenon serve` on a port; with `tls`, under a certificate made here."""

    def __init__(self, *arguments, tls=False, port=0):
        self.folder = tempfile.TemporaryDirectory()
        self.context = None
        if tls:
            arguments += self._certificate()
        self.arguments = arguments
        self.port = port
        self.start()

    def _certificate(self):
        files = [str(pathlib.Path(self.folder.name) / name) for name in ("certificate", "key")]
        subprocess.run(["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt",
                        "ec_paramgen_curve:P-256", "-nodes", "-days", "2", "-subj", "/CN=soak",
                        "-addext", "subjectAltName=IP:127.0.0.1", "-out", files[0], "-keyout", files[1]],
                       check=True, capture_output=True)
        self.context = ssl.create_default_context(cafile=files[0])
        return ("--tls-certificate", files[0], "--tls-key", files[1])

    def start(self):
        self.process = subprocess.Popen(
            [BINARY, "serve", "--port", str(self.port), *map(str, self.arguments)],
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True)
        line = self.process.stdout.readline()
        expect(line, "the server did not start")
        self.port = int(line.rsplit(":", 1)[1])

    def memory(self):
        """MiB that it holds in memory."""
        for line in pathlib.Path(f"/proc/{self.process.pid}/status").read_text().splitlines():
            if line.startswith("VmRSS:"):
                return int(line.split()[1]) / 1024
        raise Failure("the server is gone")

    def descriptors(self):
        return len(os.listdir(f"/proc/{self.process.pid}/fd"))

    def end(self, number=signal.SIGTERM):
        self.process.send_signal(number)
        return self.process.wait(PATIENCE)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait()
        self.process.stdout.close()
        self.folder.cleanup()


class Client:
    """One connection."""

    def __init__(self, server):
        self.server = server
        self.reader = self.writer = None

    async def open(self):
        self.reader, self.writer = await asyncio.open_connection(
            "127.0.0.1", self.server.port, ssl=self.server.context, limit=1 << 16)
        return self

    def close(self):
        if self.writer is not None:
            self.writer.close()
            self.writer = None

    def abort(self):
        """A reset in place of an end."""
        self.writer.transport.abort()
        self.writer = None

    async def send(self, method, path, body=None):
        data = b"" if body is None else json.dumps(body).encode()
        head = f"{method} {path} HTTP/1.1\r\nHost: soak\r\nContent-Type: application/json\r\n"
        self.writer.write(f"{head}Content-Length: {len(data)}\r\n\r\n".encode() + data)
        await self.writer.drain()

    async def head(self):
        """(status, fields)"""
        lines = (await self.reader.readuntil(b"\r\n\r\n")).decode().split("\r\n")
        fields = dict(line.lower().split(": ", 1) for line in lines[1:] if line)
        return int(lines[0].split()[1]), fields

    async def chunks(self):
        while True:
            size = int(await self.reader.readuntil(b"\r\n"), 16)
            data = await self.reader.readexactly(size + 2)
            if size == 0:
                return
            yield data[:-2]

    async def body(self, fields):
        if "content-length" in fields:
            return await self.reader.readexactly(int(fields["content-length"]))
        return b"".join([chunk async for chunk in self.chunks()])

    async def ask(self, method, path, body=None):
        """(status, what the body says)"""
        await self.send(method, path, body)
        status, fields = await self.head()
        return status, await self.body(fields)

    async def stream(self, body, on_first=None):
        """The text of a whole stream. Raises where it is no whole one."""
        await self.send("POST", "/v1/completions", body | {"stream": True})
        status, fields = await self.head()
        if status != 200:
            raise Failure(f"a stream has status {status}: {await self.body(fields)}")
        data = b""
        async for chunk in self.chunks():
            if not data and on_first is not None:
                on_first()
            data += chunk
        events = data.decode().split("\n\n")
        expect(events[-2:] == ["data: [DONE]", ""], f"a stream ends with {events[-2:]}")
        return "".join(json.loads(event[6:])["choices"][0]["text"] for event in events[:-2])


def question(number, tokens):
    """One of a few requests, and what tells it from others."""
    return {"prompt": f"{WORDS[number % len(WORDS)]}", "seed": number, "max_tokens": tokens,
            "ignore_eos": True}


async def expected_answers(server, count, tokens):
    """What each question is answered alone."""
    client = await Client(server).open()
    answers = [await client.stream(question(number, tokens)) for number in range(count)]
    client.close()
    return answers


async def figure(server, name):
    client = await Client(server).open()
    _, text = await client.ask("GET", "/metrics")
    client.close()
    for line in text.decode().splitlines():
        if line.startswith(name + "{"):
            return float(line.rsplit(" ", 1)[1])
    raise Failure(f"there is no figure {name}")


async def held_blocks(server):
    """Blocks that sequences hold at most while one small request is alone."""
    watcher, asker = await Client(server).open(), await Client(server).open()
    await watcher.send("GET", "/v1/engine/steps")
    await watcher.head()
    held, block_tokens = [], 1

    async def watch():
        nonlocal block_tokens
        data = ""
        async for chunk in watcher.chunks():
            *events, data = (data + chunk.decode()).split("\n\n")
            for event in events:
                fields = dict(line.split(": ", 1) for line in event.split("\n") if ": " in line)
                said = json.loads(fields.get("data", "{}"))
                block_tokens = said.get("block_tokens", block_tokens)
                if fields.get("event") == "step":
                    held.append(said["kv"]["reserved_tokens"] // block_tokens)

    watching = asyncio.create_task(watch())
    await asker.stream(question(0, 4))
    for _ in range(100):
        await asyncio.sleep(0.1)
        if held:
            break
    watching.cancel()
    watcher.close()
    asker.close()
    return max(held)


async def expect_quiet(server):
    """Until nothing runs or waits. Then all blocks must be free, but those of one more request."""
    names = ("vllm:num_requests_running", "vllm:num_requests_waiting")
    limit = time.monotonic() + 60
    while True:
        values = [await figure(server, name) for name in names]
        if values == [0, 0]:
            break
        expect(time.monotonic() < limit, f"{dict(zip(names, values))} once all clients are gone")
        await asyncio.sleep(0.2)
    held = await held_blocks(server)
    expect(held <= 4, f"{held} blocks are held while one small request runs")


def expect_flat(name, sizes, share=0.03, slack=8):
    """The last of several sizes in MiB is no larger than the first."""
    grown = sizes[-1] - sizes[0]
    text = ", ".join(f"{size:.1f}" for size in sizes)
    print(f"{name}: {text} MiB", flush=True)
    expect(grown <= sizes[0] * share + slack, f"{name} grew by {grown:.1f} MiB: {text}")
