"""`tenon serve` from outside: HTTP as it is spoken, and how the server ends."""
import json
import signal
import socket
import time
import unittest

from program import run
from server import PATIENCE, Server
from serving import STORY, WithServer, joined


def head(path="/health", method="GET", *fields, version="HTTP/1.1", host=True):
    lines = [f"{method} {path} {version}", *(["Host: x"] if host else []), *fields]
    return "\r\n".join(lines).encode() + b"\r\n\r\n"


class Protocol(WithServer):
    def status(self, data):
        read = self.server.talk(data)
        self.assertTrue(read.startswith(b"HTTP/1.1 "), read)
        return int(read.split()[1])

    def test_one_connection_serves_many_requests(self):
        connection = self.server.connect()
        for _ in range(5):
            self.assertEqual(self.server.get("/health", connection=connection)[0], 200)
            self.assertEqual(self.server.post("/v1/completions", STORY | {"max_tokens": 2},
                                              connection=connection)[0], 200)
            self.assertEqual(self.server.get("/nothing", connection=connection)[0], 404)
            self.assertEqual(self.server.post("/nothing", {}, connection=connection)[0], 404)
        connection.close()

    def test_requests_sent_ahead_are_answered_in_order(self):
        body = json.dumps(STORY | {"max_tokens": 8}).encode()
        post = head("/v1/completions", "POST", "Content-Type: application/json",
                    f"Content-Length: {len(body)}") + body
        read = self.server.talk(post + head("/version") + post + head(
            "/health", "GET", "Connection: close"))
        kinds = [b"text_completion" in part and "c" or b'"version"' in part and "v" or "h"
                 for part in read.split(b"HTTP/1.1 200 OK")[1:]]
        self.assertEqual(kinds, ["c", "v", "c", "h"])

    def test_a_body_in_chunks(self):
        body = json.dumps(STORY | {"max_tokens": 2}).encode()
        chunks = b"".join(b"%x\r\n%s\r\n" % (len(body[i:i + 7]), body[i:i + 7])
                          for i in range(0, len(body), 7)) + b"0\r\n\r\n"
        read = self.server.talk(head("/v1/completions", "POST", "Content-Type: application/json",
                                     "Transfer-Encoding: chunked", "Connection: close") + chunks)
        self.assertIn(b"200 OK", read)

    def test_http_1_0_gets_no_chunks(self):
        body = json.dumps(STORY | {"stream": True, "max_tokens": 4}).encode()
        read = self.server.talk(head("/v1/completions", "POST", "Content-Type: application/json",
                                     f"Content-Length: {len(body)}", "Connection: keep-alive",
                                     version="HTTP/1.0", host=False) + body)
        headers, text = read.split(b"\r\n\r\n", 1)
        self.assertNotIn(b"Transfer-Encoding", headers)
        self.assertIn(b"Connection: close", headers)
        self.assertTrue(text.startswith(b"data: {"), text)
        self.assertTrue(text.endswith(b"data: [DONE]\n\n"), text)

    def test_what_could_be_read_in_two_ways_is_refused(self):
        for fields in (("Content-Length: 2", "Transfer-Encoding: chunked"),
                       ("Transfer-Encoding: chunked", "Content-Length: 2"),
                       ("Content-Length: 2", "Content-Length: 2"),
                       ("Content-Length: 2", "Content-Length: 3"), ("Content-Length: 2, 2",),
                       ("Content-Length: +2",), ("Content-Length: -1",), ("Content-Length: 0x2",),
                       ("Content-Length : 2",), ("Transfer-Encoding: gzip, chunked",),
                       ("Transfer-Encoding: chunked, chunked",), ("Transfer-Encoding: identity",),
                       ("Transfer-Encoding: xchunked",), ("Host: y",), ("X: a\x00b",),
                       ("X: a\r\n b: c",), ("X: a\nY: b",), (": a",)):
            with self.subTest(fields=fields):
                data = head("/v1/completions", "POST", "Content-Type: application/json", *fields)
                self.assertEqual(self.status(data + b"{}"), 400)
        self.assertEqual(self.status(head("/health", host=False)), 400)
        self.assertEqual(self.status(b"GET /health HTTP/1.1\r\nHost: x/y\r\n\r\n"), 400)
        self.assertEqual(self.status(b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03\r\n\r\n"), 400)
        self.assertEqual(self.status(head(version="HTTP/2.0")) // 100, 5)
        read = self.server.talk(head("/health").replace(b"\r\n", b"\n"))
        self.assertTrue(read.startswith(b"HTTP/1.1 400 "), read)
        error = json.loads(read.split(b"\r\n\r\n")[1])["error"]
        self.assertIn("LF alone", error["message"])
        self.assertEqual(error["type"], "invalid_request_error")

    def test_a_head_that_is_too_large_is_431(self):
        self.assertEqual(self.status(head("/health", "GET", "X: " + "y" * 20000)), 431)
        self.assertEqual(self.status(head("/" + "y" * 20000)), 431)

    def test_a_body_that_is_expected_is_asked_for(self):
        body = json.dumps(STORY | {"max_tokens": 2}).encode()
        fields = ("Content-Type: application/json", f"Content-Length: {len(body)}",
                  "Expect: 100-continue", "Connection: close")
        with self.server.socket() as wire:
            wire.sendall(head("/v1/completions", "POST", *fields))
            self.assertEqual(wire.recv(100), b"HTTP/1.1 100 Continue\r\n\r\n")
            wire.sendall(body)
            self.assertTrue(wire.recv(100).startswith(b"HTTP/1.1 200"))
        # One that would be refused is not asked for.
        self.assertEqual(self.status(head("/nothing", "POST", *fields)), 404)
        self.assertEqual(self.status(head("/health", "GET", "Expect: magic")), 417)

    def test_head_has_no_body(self):
        read = self.server.talk(head("/version", "HEAD", "Connection: close"))
        self.assertTrue(read.endswith(b"\r\n\r\n"), read)
        self.assertIn(b"Content-Length:", read)

    def test_a_connection_that_ends_ends_its_request(self):
        body = json.dumps(STORY | {"max_tokens": 1900, "ignore_eos": True, "stream": True}).encode()
        with self.server.socket() as wire:
            wire.sendall(head("/v1/completions", "POST", "Content-Type: application/json",
                              f"Content-Length: {len(body)}") + body)
            wire.recv(1000)
        self.server.wait_for('vllm:request_success_total{model_name="tale",finished_reason="abort"} 1')
        self.server.wait_for('vllm:num_requests_running{model_name="tale"} 0')

    def test_a_slow_reader_harms_nobody(self):
        body = json.dumps(STORY | {"max_tokens": 1900, "n": 32, "ignore_eos": True, "stream": True,
                                   "logprobs": 20}).encode()
        with self.server.socket() as wire:
            wire.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            wire.sendall(head("/v1/completions", "POST", "Content-Type: application/json",
                              f"Content-Length: {len(body)}") + body)
            wire.recv(1000)
            alone = self.post("/v1/completions", STORY)["choices"][0]["text"]
            self.assertEqual(alone, self.post("/v1/completions", STORY)["choices"][0]["text"])
            self.server.wait_for('tenon:slow_readers_total{model_name="tale"} 1')
        self.server.wait_for('vllm:num_requests_running{model_name="tale"} 0')

    def test_idle_connections_cost_nothing_that_others_need(self):
        wires = [self.server.socket() for _ in range(200)]
        for wire in wires[::2]:
            wire.sendall(b"GET /hea")
        self.assertEqual(self.post("/v1/completions", STORY)["usage"]["completion_tokens"], 24)
        self.assertEqual(self.server.get("/health")[0], 200)
        for wire in wires:
            wire.close()


class Ends(unittest.TestCase):
    def test_a_signal_lets_requests_finish(self):
        for number in (signal.SIGTERM, signal.SIGINT):
            with self.subTest(signal=number.name), Server() as server:
                idle = server.socket()
                connection = server.connect()
                body = STORY | {"max_tokens": 400, "ignore_eos": True}
                whole = server.post("/v1/completions", body)[2]["choices"][0]["text"]
                connection.request("POST", "/v1/completions", json.dumps(body | {"stream": True}),
                                   {"Content-Type": "application/json"})
                answer = connection.getresponse()
                first = answer.read(10)
                server.process.send_signal(number)
                text = (first + answer.read()).decode()
                self.assertTrue(text.endswith("data: [DONE]\n\n"))
                events = [block[len("data: "):] for block in text.strip().split("\n\n")]
                self.assertEqual(joined(events), {0: whole})
                status, errors = server.wait()
                self.assertEqual(status, 0, errors)
                self.assertEqual(idle.recv(1), b"")
                idle.close()
                connection.close()

    def test_what_lasts_longer_than_the_limit_is_cut_off(self):
        with Server("--drain-seconds", 0) as server:
            connection = server.connect()
            body = STORY | {"max_tokens": 1900, "n": 8, "ignore_eos": True}
            connection.request("POST", "/v1/completions", json.dumps(body),
                               {"Content-Type": "application/json"})
            limit = time.monotonic() + PATIENCE
            while 'num_requests_running{model_name="tale"} 0' in server.get("/metrics")[2].decode():
                self.assertLess(time.monotonic(), limit)
            status, errors = server.end()
            self.assertEqual(status, 0, errors)
            with self.assertRaises(ConnectionError):
                connection.getresponse()
            connection.close()

    def test_a_second_signal_ends_at_once(self):
        with Server("--drain-seconds", 600) as server:
            connection = server.connect()
            body = STORY | {"max_tokens": 1900, "n": 32, "ignore_eos": True, "stream": True}
            connection.request("POST", "/v1/completions", json.dumps(body),
                               {"Content-Type": "application/json"})
            connection.getresponse().read(10)
            server.process.send_signal(signal.SIGTERM)
            # It accepts no more, so the first signal has arrived.
            limit = time.monotonic() + PATIENCE
            while True:
                self.assertLess(time.monotonic(), limit)
                try:
                    server.socket().close()
                except ConnectionRefusedError:
                    break
                except ConnectionResetError:  # it was in the queue when that closed
                    pass
            status, _ = server.end()
            self.assertEqual(status, 128 + signal.SIGTERM)
            connection.close()

    def test_a_port_that_is_taken_is_said(self):
        with Server() as server:
            done = run("serve", "--port", server.port)
            self.assertEqual(done.returncode, 1)
            self.assertIn(f"cannot listen on 127.0.0.1:{server.port}", done.stderr)

    def test_a_unix_socket_alone(self):
        with Server() as other:
            path = other.path("s.sock")
            for _ in range(2):  # the second time over what a killed server left
                with Server("--socket", path, tcp=False) as server:
                    self.assertEqual(server.line.split()[-1], f"unix:{path}")
                    with socket.socket(socket.AF_UNIX) as wire:
                        wire.connect(str(path))
                        wire.sendall(head("/health", "GET", "Connection: close"))
                        self.assertTrue(wire.recv(100).startswith(b"HTTP/1.1 200"))
            with Server("--socket", path, tcp=False) as server:
                self.assertEqual(server.end()[0], 0)
            self.assertFalse(path.exists())


if __name__ == "__main__":
    unittest.main()
