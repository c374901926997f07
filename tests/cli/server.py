"""A running `tenon serve` for tests."""
import ctypes
import http.client
import json
import pathlib
import signal
import socket
import subprocess
import tempfile
import time

from program import BINARY, SANITIZED

TEMPLATE = ("{% for message in messages %}{% if message.role not in ['system', 'user', 'assistant'] %}"
            "{{ raise_exception('no such role') }}{% endif %}{{ message.content }}\n{% endfor %}")
PATIENCE = 300 if SANITIZED else 60


def has_zmq():
    try:
        ctypes.CDLL("libzmq.so.5")
        return True
    except OSError:
        return False


class Server:
    """Starts on a port that is free; `with` ends it."""

    def __init__(self, *arguments, tcp=True, template=TEMPLATE):
        self.folder = tempfile.TemporaryDirectory()
        file = self.path("template.jinja")
        file.write_text(template)
        self.process = subprocess.Popen(
            [BINARY, "serve", *map(str, arguments), *(["--port", "0"] if tcp else []),
             "--chat-template", str(file)],
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        self.line = self.process.stdout.readline()
        if not self.line:
            raise AssertionError(self.process.stderr.read())
        self.port = int(self.line.rsplit(":", 1)[1]) if tcp else 0

    def path(self, name):
        return pathlib.Path(self.folder.name) / name

    def __enter__(self):
        return self

    def __exit__(self, *_):
        if self.process.poll() is None:
            self.process.kill()
        self.process.communicate()
        self.folder.cleanup()

    def end(self, number=signal.SIGTERM):
        """Its exit status, and what it said on standard error."""
        self.process.send_signal(number)
        return self.wait()

    def wait(self):
        _, errors = self.process.communicate(timeout=PATIENCE)
        return self.process.returncode, errors

    def connect(self):
        return http.client.HTTPConnection("127.0.0.1", self.port, timeout=PATIENCE)

    def socket(self):
        return socket.create_connection(("127.0.0.1", self.port), timeout=PATIENCE)

    def request(self, method, path, body=None, headers=None, connection=None):
        """(status, headers, what the body says)"""
        own = connection or self.connect()
        headers = dict(headers or {})
        if body is not None and not isinstance(body, (bytes, str)):
            body = json.dumps(body)
        if body is not None:
            headers.setdefault("Content-Type", "application/json")
        own.request(method, path, body, headers)
        answer = own.getresponse()
        data = answer.read()
        if connection is None:
            own.close()
        if method != "HEAD" and (answer.headers.get("Content-Type") or "").startswith("application/json"):
            data = json.loads(data)
        return answer.status, answer.headers, data

    def get(self, path, **keywords):
        return self.request("GET", path, **keywords)

    def post(self, path, body, **keywords):
        return self.request("POST", path, body, **keywords)

    def wait_for(self, line):
        """Until the figures have the line: they are those of the last whole step."""
        limit = time.monotonic() + PATIENCE
        while f"\n{line}\n" not in self.get("/metrics")[2].decode():
            assert time.monotonic() < limit, line

    def events(self, path, body):
        """The data of all server-sent events."""
        connection = self.connect()
        connection.request("POST", path, json.dumps(body), {"Content-Type": "application/json"})
        answer = connection.getresponse()
        text = answer.read().decode()
        connection.close()
        assert answer.status == 200, text
        return [block[len("data: "):] for block in text.split("\n\n") if block.startswith("data: ")]

    def talk(self, data, end=b""):
        """Sends bytes as they are and reads until the server closes, or `end` has come."""
        with self.socket() as wire:
            wire.sendall(data)
            read = b""
            while not (end and end in read):
                try:
                    piece = wire.recv(65536)
                except ConnectionResetError:
                    break
                if not piece:
                    break
                read += piece
            return read
