"""`tenon serve`: the engine's steps as they are made, and the page that shows them."""
import base64
import hashlib
import json
import re
import socket
import time
import unittest

from program import settings
from server import PATIENCE, Server
from serve_service_test import keys_file

STORY = {"prompt": "The old witch", "max_tokens": 12, "seed": 3, "ignore_eos": True}


class Watch:
    """Reads the feed of a server; `with` ends it."""

    def __init__(self, server, query="", headers=None):
        self.connection = server.connect()
        self.connection.request("GET", "/v1/engine/steps" + query, headers=headers or {})
        self.answer = self.connection.getresponse()
        assert self.answer.status == 200, self.answer.read()
        self.engine = self.event()[1]

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.connection.close()

    def event(self):
        """(name, data); None at the end."""
        name, data = "message", None
        while True:
            line = self.answer.readline().decode()
            if line == "":
                return None
            if line == "\n" and data is not None:
                return name, json.loads(data)
            if line.startswith("event: "):
                name = line[7:].strip()
            if line.startswith("data: "):
                data = line[6:]

    def steps_until_ended(self, sequences=1):
        """All steps until so many sequences have ended."""
        steps, ended = [], 0
        while ended < sequences:
            name, step = self.event()
            assert name == "step", name
            steps.append(step)
            ended += sum(sequence["state"] == "ended" for sequence in step["sequences"])
        return steps


def sum_of(steps, field):
    return sum(sequence[field] for step in steps for sequence in step["sequences"])


def blocks_of(sequence):
    return [first + i for first, length in sequence["blocks"] for i in range(length)]


def drafts_in(figures):
    """Tokens of drafts, and how many of them were kept."""
    return tuple(int(re.search(f'^vllm:spec_decode_num_{name}_tokens_total{{model_name="tale"}} (\\d+)$',
                               figures, re.MULTILINE)[1]) for name in ("draft", "accepted"))


class Steps(unittest.TestCase):
    def test_every_token_of_an_answer_is_in_a_step(self):
        with Server() as server, Watch(server) as watch:
            self.assertEqual(watch.answer.headers["Content-Type"], "text/event-stream; charset=utf-8")
            usage = server.post("/v1/completions", STORY)[2]["usage"]
            steps = watch.steps_until_ended()
            self.assertEqual(sum_of(steps, "prefill"), usage["prompt_tokens"])
            self.assertEqual(sum_of(steps, "tokens"), usage["completion_tokens"])
            self.assertEqual(sum_of(steps, "decode"), usage["completion_tokens"] - 1)
            ids = [step["step"] for step in steps]
            self.assertEqual(ids, sorted(set(ids)))
            delivered = [s for step in steps for s in step["sequences"] if s["tokens"] > 0]
            self.assertEqual(["first_token_us" in s for s in delivered], [True] + [False] * 11)
            self.assertEqual(["gap_us" in s for s in delivered], [False] + [True] * 11)
            for step in steps:
                self.assertGreater(step["time_us"], 0)
                self.assertLessEqual(sum(step["times_us"].values()), step["time_us"] + 1)

    def test_the_engine_says_what_it_is_made_of(self):
        with Server() as server, Watch(server, "?model=tale") as watch:
            self.assertEqual(watch.engine["model"], "tale")
            self.assertEqual(watch.engine["plugins"], {
                "scheduler": "continuous", "kv_cache": "paged", "sampler": "standard", "executor": "cpu"})

    def test_blocks_sum_up_and_are_given_back(self):
        with Server() as server, Watch(server) as watch:
            server.post("/v1/completions", STORY | {"prompt": "A king and a queen. " * 12, "max_tokens": 40})
            steps = watch.steps_until_ended()
            size, total = watch.engine["block_tokens"], watch.engine["blocks"]
            for step in steps[:-1]:
                held = {block for sequence in step["sequences"] for block in blocks_of(sequence)}
                self.assertTrue(all(0 <= block < total for block in held))
                self.assertEqual(step["kv"]["total_tokens"], total * size)
                self.assertEqual(step["kv"]["reserved_tokens"], len(held) * size)
                self.assertEqual(step["kv"]["free_tokens"], (total - len(held)) * size)
                for sequence in step["sequences"]:
                    self.assertGreaterEqual(len(held) * size, sequence["computed_tokens"])
            server.post("/v1/completions", STORY)
            after = watch.steps_until_ended()[0]
            held = {block for sequence in after["sequences"] for block in blocks_of(sequence)}
            self.assertEqual(after["kv"]["reserved_tokens"], len(held) * size)

    def test_samples_of_a_request_share_the_blocks_of_its_prompt(self):
        with Server() as server, Watch(server) as watch:
            server.post("/v1/completions", STORY | {"prompt": "A king and a queen. " * 12, "n": 3,
                                                    "temperature": 1.0})
            steps = watch.steps_until_ended(3)
            second = [blocks_of(sequence) for sequence in steps[1]["sequences"]]
            self.assertEqual(len(second), 3)
            shared = set(second[0]) & set(second[1]) & set(second[2])
            self.assertGreater(len(shared), 1)
            self.assertEqual({sequence["sample"] for sequence in steps[1]["sequences"]}, {0, 1, 2})

    def test_drafts_are_told_with_what_became_of_them(self):
        with Server(*settings(drafter__plugin="ngram")) as server, Watch(server) as watch:
            self.assertEqual(watch.engine["plugins"]["drafter"], "ngram")
            # One word over and over, whatever the processor's last bits say: drafts of it are kept.
            server.post("/v1/completions", STORY | {"max_tokens": 40, "temperature": 0,
                                                    "logit_bias": {"100": 100}})
            steps = watch.steps_until_ended()
            expected = sum_of(steps, "drafts"), sum_of(steps, "kept")
            self.assertGreater(expected[1], 0)
            # A step is told while it ends; the figures take it up directly after that.
            end = time.monotonic() + PATIENCE
            while (found := drafts_in(server.get("/metrics")[2].decode())) != expected:
                self.assertLess(time.monotonic(), end, f"{found} instead of {expected}")

    def test_waiting_requests_are_seen(self):
        with Server(*settings(limits__max_sequences=1)) as server, Watch(server) as watch:
            server.post("/v1/completions", STORY | {"prompt": ["A king", "A queen", "A fox"]})
            steps = watch.steps_until_ended(3)
            waiting = [s for step in steps for s in step["sequences"] if s["state"] == "waiting"]
            self.assertGreater(len(waiting), 0)
            self.assertTrue(all(s["blocks"] == [] for s in waiting))

    def test_a_reader_goes_on_behind_a_step(self):
        with Server() as server, Watch(server) as watch:
            server.post("/v1/completions", STORY)
            steps = watch.steps_until_ended()
            with Watch(server, f"?since={steps[4]['step']}") as later:
                again = later.steps_until_ended()
            self.assertEqual([step["step"] for step in again], [step["step"] for step in steps[5:]])

    def test_a_reader_that_does_not_read_loses_steps_and_harms_nobody(self):
        # A long queue makes steps long to tell.
        with Server(*settings(limits__max_sequences=1)) as server:
            wire = socket.socket()
            wire.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 8192)
            wire.settimeout(PATIENCE)
            wire.connect(("127.0.0.1", server.port))
            wire.sendall(b"GET /v1/engine/steps HTTP/1.0\r\nHost: x\r\n\r\n")
            self.assertTrue(wire.recv(100).startswith(b"HTTP/1.1 200"))
            connection = server.connect()
            body = STORY | {"prompt": ["A king"] * 500, "max_tokens": 600, "stream": True}
            connection.request("POST", "/v1/completions", json.dumps(body),
                               {"Content-Type": "application/json"})
            self.assertEqual(connection.getresponse().status, 200)
            limit = time.monotonic() + PATIENCE
            while int(re.search(r"tenon:steps_total\S* (\d+)", server.get("/metrics")[2].decode())[1]) < 600:
                self.assertLess(time.monotonic(), limit)
                time.sleep(0.05)
            wire.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 20)
            text = b""
            while b"event: dropped" not in text:
                piece = wire.recv(65536)
                self.assertTrue(piece, "nothing was lost")
                text = text[-100:] + piece
            text += wire.recv(100)
            self.assertGreater(int(re.search(rb'event: dropped\ndata: \{"steps":(\d+)\}', text)[1]), 0)
            wire.close()
            connection.close()

    def test_a_key_is_needed(self):
        with Server() as other:
            file = keys_file(other.path("keys"), alice=("secret-a", ""))
            with Server("--keys", file) as server:
                self.assertEqual(server.get("/v1/engine/steps")[0], 401)
                with Watch(server, headers={"Authorization": "Bearer secret-a"}) as watch:
                    self.assertEqual(watch.engine["model"], "tale")

    def test_what_cannot_be_watched_is_refused(self):
        with Server() as server:
            for query, status, param in (("?model=other", 404, "model"), ("?since=x", 400, "since"),
                                         ("?since=-1", 400, "since"), ("?colour=red", 400, "colour"),
                                         ("?since", 400, None), ("?model=%zz", 400, None)):
                answer = server.get("/v1/engine/steps" + query)
                self.assertEqual((answer[0], answer[2]["error"]["param"]), (status, param), query)
            status, headers, _ = server.post("/v1/engine/steps", {})
            self.assertEqual((status, headers["Allow"]), (405, "GET, HEAD"))
            status, headers, body = server.request("HEAD", "/v1/engine/steps")
            self.assertEqual((status, headers["Content-Type"], body),
                             (200, "text/event-stream; charset=utf-8", b""))

    def test_readers_are_let_go_when_the_server_ends(self):
        with Server("--drain-seconds", 600) as server, Watch(server) as watch:
            self.assertEqual(server.end()[0], 0)
            self.assertIsNone(watch.event(), "the stream has a proper end")


class Page(unittest.TestCase):
    def test_it_is_there_without_a_key(self):
        with Server() as other:
            file = keys_file(other.path("keys"), alice=("secret-a", ""))
            with Server("--keys", file) as server:
                status, headers, body = server.get("/")
                self.assertEqual((status, headers["Content-Type"]), (200, "text/html; charset=utf-8"))
                self.assertEqual(headers["X-Content-Type-Options"], "nosniff")
                self.assertTrue(body.startswith(b"<!doctype html>"))

    def test_its_policy_allows_exactly_what_is_in_it(self):
        with Server() as server:
            _, headers, body = server.get("/")
            policy = dict(part.strip().split(" ", 1) for part in headers["Content-Security-Policy"].split(";"))
            self.assertEqual(policy["default-src"], "'none'")
            self.assertEqual(policy["connect-src"], "'self'")
            for element, directive in (("style", "style-src"), ("script", "script-src")):
                inline = re.findall(rb"<%b[^>]*>(.*?)</%b>" % (element.encode(), element.encode()), body, re.S)
                self.assertEqual(len(inline), 1)
                digest = base64.b64encode(hashlib.sha256(inline[0]).digest()).decode()
                self.assertEqual(policy[directive], f"'sha256-{digest}'")
            self.assertNotIn(b"innerHTML", body)
            self.assertEqual(re.findall(rb"""(?:src|href)=["'](?!data:|#)""", body), [])

    def test_it_is_not_sent_again_to_who_has_it(self):
        with Server() as server:
            connection = server.connect()
            status, headers, body = server.request("GET", "/", connection=connection)
            tag = headers["ETag"]
            self.assertRegex(tag, '^"[0-9a-f]{32}"$')
            for known in (tag, f'"other", W/{tag}', "*"):
                again = server.request("GET", "/", headers={"If-None-Match": known}, connection=connection)
                self.assertEqual((again[0], again[1]["ETag"], again[2]), (304, tag, b""))
                self.assertNotIn("Content-Length", again[1])
            other = server.request("GET", "/", headers={"If-None-Match": '"other"'}, connection=connection)
            self.assertEqual((other[0], other[2]), (200, body))
            status, headers, nothing = server.request("HEAD", "/", connection=connection)
            self.assertEqual((status, int(headers["Content-Length"]), nothing), (200, len(body), b""))
            self.assertEqual(server.post("/", {})[0], 405)
            connection.close()


if __name__ == "__main__":
    unittest.main()
