"""vllm-router and sglang-router in front of two workers: whatever clients ask comes through and is what a worker
answers by itself; and a router that reads KV events sends a prompt to where its beginning is. Both routers write fields of SGLang's into every body. Skipped where they are not on PATH."""
import json
import re
import shutil
import socket
import struct
import subprocess
import time
import unittest
import urllib.error
import urllib.request

from program import MODEL
from server import PATIENCE, Server, has_zmq

MESSAGES = [{"role": "user", "content": "Once upon a time"}]
SCHEMA = {"type": "object", "properties": {"age": {"type": "integer", "minimum": 0, "maximum": 99}},
          "required": ["age"], "additionalProperties": False}
FUNCTION = {"name": "count", "description": "counts", "parameters": SCHEMA}
TOOL = {"type": "function", "function": FUNCTION}
CALLED = [*MESSAGES, {"role": "assistant", "content": None, "tool_calls": [
    {"id": "c1", "type": "function", "function": {"name": "count", "arguments": "{\"age\": 3}"}}]},
    {"role": "tool", "tool_call_id": "c1", "content": "3"}]
# It takes results of tools, and shows which tools there are.
TEMPLATE = ("{% for tool in tools or [] %}{{ tool.function.name }}\n{% endfor %}"
            "{% for message in messages %}{{ message.content or '' }}"
            "{% for call in message.tool_calls or [] %}{{ call.function.name }}{% endfor %}\n{% endfor %}")
FEW = {"max_tokens": 12, "temperature": 0}
REQUESTS = {
    "a chat": ("/v1/chat/completions", FEW | {"messages": MESSAGES}),
    "a chat of parts": ("/v1/chat/completions", FEW | {"messages": [
        {"role": "system", "content": "Be short."},
        {"role": "user", "content": [{"type": "text", "text": "A king"}]}]}),
    "samples with log probabilities": ("/v1/chat/completions", FEW | {
        "messages": MESSAGES, "logprobs": True, "top_logprobs": 2, "n": 2, "seed": 7, "temperature": 1}),
    "a chat with a form": ("/v1/chat/completions", FEW | {"messages": MESSAGES, "max_tokens": 60, "response_format": {
        "type": "json_schema", "json_schema": {"name": "age", "schema": SCHEMA, "strict": True}}}),
    "a call that is forced": ("/v1/chat/completions", FEW | {
        "messages": MESSAGES, "max_tokens": 80, "tools": [TOOL], "tool_choice": "required"}),
    "a result of a call": ("/v1/chat/completions", FEW | {"messages": CALLED}),
    "reasoning that is sent back": ("/v1/chat/completions", FEW | {"messages": [
        *MESSAGES, {"role": "assistant", "content": "x", "reasoning_content": "hm"}, *MESSAGES]}),
    "a completion": ("/v1/completions", FEW | {"prompt": "The old witch", "logprobs": 2}),
    "completions": ("/v1/completions", FEW | {"prompt": ["A king", "A queen"], "stop": ["."]}),
    "a response": ("/v1/responses", {"input": "A king", "max_output_tokens": 12, "temperature": 0}),
    "a response with tools": ("/v1/responses", {
        "input": MESSAGES, "max_output_tokens": 80, "temperature": 0, "tools": [{"type": "function"} | FUNCTION],
        "tool_choice": "required", "instructions": "Call."}),
}


def free_port():
    with socket.socket() as own:
        own.bind(("127.0.0.1", 0))
        return own.getsockname()[1]


def ask(port, path, body):
    """(status, text)"""
    request = urllib.request.Request(f"http://127.0.0.1:{port}{path}", json.dumps(body).encode(),
                                     {"Content-Type": "application/json"})
    try:
        with urllib.request.urlopen(request, timeout=PATIENCE) as answer:
            return answer.status, answer.read().decode()
    except urllib.error.HTTPError as error:
        return error.code, error.read().decode()


def said(text):
    """What an answer says, without what differs from one to the next."""
    answer = json.loads(text)
    if "output" in answer:
        return [[item["type"], item.get("content", item.get("arguments"))] for item in answer["output"]]
    def of(choice):
        message = choice.get("message", {})
        calls = [call["function"] for call in message.get("tool_calls") or []]
        return [choice.get("text"), message.get("content"), calls, choice["finish_reason"], choice.get("logprobs")]
    return [of(choice) for choice in answer["choices"]]


def streamed(text):
    """The text of a stream that came to its end."""
    data = [line[len("data: "):] for line in text.split("\n") if line.startswith("data: ")]
    events = [json.loads(event) for event in data if event != "[DONE]"]
    if any("choices" in event for event in events):
        assert data[-1] == "[DONE]", text
        choices = [event["choices"][0] for event in events if event["choices"]]
        return "".join(choice.get("text", choice.get("delta", {}).get("content")) or "" for choice in choices)
    assert events[-1]["type"] in ("response.completed", "response.incomplete"), text
    return "".join(event["delta"] for event in events if event["type"] == "response.output_text.delta")


class Launched:
    """A router in front of two workers."""
    NAME = ""
    LAUNCH = []
    POLICY = "round_robin"
    WORKERS = []

    @classmethod
    def setUpClass(cls):
        program = shutil.which(cls.NAME)
        if program is None:
            raise unittest.SkipTest(f"{cls.NAME} is not on PATH (pip install {cls.NAME})")
        cls.workers = cls.start_workers()
        cls.port = free_port()
        cls.router = subprocess.Popen(
            [program, *cls.LAUNCH, "--host", "127.0.0.1", "--port", str(cls.port), "--policy", cls.POLICY,
             "--prometheus-port", str(free_port()), *cls.more_flags(),
             *cls.worker_flags()],
            stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        cls.addClassCleanup(cls.end_router)
        cls.wait_until_ready()

    @classmethod
    def start_workers(cls):
        workers = []
        for _ in range(2):
            workers.append(Server("--threads", 1, *cls.WORKERS, template=TEMPLATE))
            cls.addClassCleanup(workers[-1].__exit__)
        return workers

    @classmethod
    def worker_flags(cls):
        return ["--worker-urls", *(cls.url(worker) for worker in cls.workers)]

    @classmethod
    def more_flags(cls):
        return []

    @staticmethod
    def url(worker):
        return f"http://127.0.0.1:{worker.port}"

    @classmethod
    def end_router(cls):
        cls.router.kill()
        cls.router.wait()

    @classmethod
    def wait_until_ready(cls):
        limit = time.monotonic() + PATIENCE
        while True:
            try:
                with urllib.request.urlopen(f"http://127.0.0.1:{cls.port}/readiness", timeout=5) as answer:
                    if json.load(answer).get("healthy_workers") == 2:
                        return
            except OSError:
                pass
            assert time.monotonic() < limit and cls.router.poll() is None, "the router is not ready"
            time.sleep(0.2)

    def ask(self, path, body):
        status, text = ask(self.port, path, {"model": "tale"} | body)
        self.assertEqual(status, 200, text)
        return text


class Router(Launched):
    def test_answers_are_those_of_a_worker(self):
        for name, (path, body) in REQUESTS.items():
            with self.subTest(name):
                status, alone = ask(self.workers[0].port, path, {"model": "tale"} | body)
                self.assertEqual(status, 200, alone)
                # One for each worker.
                for _ in self.workers:
                    self.assertEqual(said(self.ask(path, body)), said(alone))

    def test_streams_come_through(self):
        for name, (path, body) in REQUESTS.items():
            body = {"model": "tale"} | {key: value for key, value in body.items() if key != "n"}
            if path == "/v1/completions":
                body["prompt"] = "The old witch"
            if path != "/v1/responses":
                body["stream_options"] = {"include_usage": True}
            with self.subTest(name):
                alone = streamed(ask(self.workers[0].port, path, body | {"stream": True})[1])
                for _ in self.workers:
                    self.assertEqual(streamed(self.ask(path, body | {"stream": True})), alone)

    def test_both_workers_had_their_part(self):
        for _ in range(8):
            self.ask("/v1/chat/completions", FEW | {"messages": MESSAGES})
        for worker in self.workers:
            figures = worker.get("/metrics")[2].decode()
            self.assertNotIn("vllm:generation_tokens_total{model_name=\"tale\"} 0\n", figures)

    def test_refusals_come_through(self):
        status, text = ask(self.port, "/v1/chat/completions",
                           {"model": "tale", "messages": MESSAGES, "return_hidden_states": True})
        self.assertEqual(status, 400)
        self.assertIn("hidden states are not given out", text)


class VllmRouter(Router, unittest.TestCase):
    NAME = "vllm-router"


class VllmRouterByCache(Launched, unittest.TestCase):
    """The policy that hashes prompts itself: it asks workers for nothing more."""
    NAME = "vllm-router"
    POLICY = "cache_aware"

    def test_answers_are_those_of_a_worker(self):
        path, body = REQUESTS["a chat"]
        alone = said(ask(self.workers[0].port, path, {"model": "tale"} | body)[1])
        for _ in range(4):
            self.assertEqual(said(self.ask(path, body)), alone)


class SglangRouterByCache(VllmRouterByCache):
    NAME = "sglang-router"
    LAUNCH = ["launch"]


class VllmRouterByEvents(Launched, unittest.TestCase):
    NAME = "vllm-router"
    POLICY = "kv_aware"
    WORKERS = ["--set", "kv_cache.plugin=prefix", "--kv-events", "tcp://*:0", "--kv-events-replay", "tcp://*:0"]

    @classmethod
    def setUpClass(cls):
        if not has_zmq():
            raise unittest.SkipTest("there is no ZeroMQ – install libzmq5")
        super().setUpClass()

    @classmethod
    def more_flags(cls):
        flags = []
        for worker in cls.workers:
            # "publishing KV events at tcp://*:5557, again at tcp://*:5558"
            words = worker.process.stdout.readline().replace("*", "127.0.0.1").split()
            flags += ["--kv-event-source", f"{cls.url(worker)}={words[4].rstrip(',')}",
                      "--kv-event-replay-source", f"{cls.url(worker)}={words[-1]}"]
        size = cls.workers[0].get("/server_info")[2]["page_size"]
        return [*flags, "--kv-event-block-size", str(size), "--kv-event-model", str(MODEL)]

    @staticmethod
    def figures(worker):
        text = worker.get("/metrics")[2].decode()
        return [int(float(re.search(rf"^vllm:{name}_total{{.*}} (\S+)$", text, re.M).group(1)))
                for name in ("prompt_tokens", "prefix_cache_hits")]

    def test_a_prompt_goes_where_its_beginning_is(self):
        if not (MODEL / "tokenizer.json").exists():
            self.skipTest("the router reads tokenizer.json, and the model has none")
        # The router hears of a beginning in its own time; by chance a dozen in a row are sent right once in 4096.
        right = 0
        for attempt in range(60):
            worker = self.workers[attempt * 5 % 7 % 2]
            beginning = f"{attempt} Once upon a time there was a king who had a daughter in the wood. " * 8
            status, _, answer = worker.post("/v1/completions", {"prompt": beginning, "max_tokens": 1})
            self.assertEqual(status, 200, answer)
            prompts, hits = self.figures(worker)
            self.ask("/v1/completions", {"prompt": beginning + "And then", "max_tokens": 1})
            if self.figures(worker)[0] > prompts:
                self.assertGreater(self.figures(worker)[1], hits, "it went there, and nothing of it was found")
                right += 1
            else:
                right = 0
            if right == 12:
                return
        self.fail("the router does not send prompts to where their beginnings are")


class VllmRouterByItself(VllmRouterByEvents):
    """The same without flags: it asks /kv_event_sources and /get_server_info."""
    @classmethod
    def more_flags(cls):
        # It asks once, when it starts: workers are up by then.
        for worker in cls.workers:
            worker.process.stdout.readline()
        return []


class SglangRouter(Router, unittest.TestCase):
    NAME = "sglang-router"
    LAUNCH = ["launch"]


class Smg(Router, unittest.TestCase):
    """What sglang-router has become."""
    NAME = "smg"
    LAUNCH = ["launch"]


class Apart(Launched):
    """Two prefill and two decode workers (docs/disaggregation.md): answers are those of one worker that does both parts."""
    @classmethod
    def start_workers(cls):
        cls.alone = Server("--threads", 1, template=TEMPLATE)
        cls.addClassCleanup(cls.alone.__exit__)
        cls.prefill, cls.decode = [], []
        for role, workers in (("prefill", cls.prefill), ("decode", cls.decode)) * 2:
            worker = Server("--threads", 1, "--set", "kv_cache.plugin=prefix", "--set", "kv_cache.block_tokens=4",
                            "--set", f"disaggregation.role={role}", template=TEMPLATE)
            cls.addClassCleanup(worker.__exit__)
            # "handing over K/V of tale at 127.0.0.1:40911, as role prefill"
            worker.kv_port = re.search(r":(\d+), as role", worker.process.stdout.readline()).group(1)
            workers.append(worker)
        return [*cls.prefill, *cls.decode]

    @classmethod
    def wait_until_ready(cls):
        limit = time.monotonic() + PATIENCE
        path, body = REQUESTS["a completion"]
        while True:
            try:
                if ask(cls.port, path, {"model": "tale"} | body)[0] == 200:
                    return
            except OSError:
                pass
            assert time.monotonic() < limit and cls.router.poll() is None, "the router is not ready"
            time.sleep(0.2)

    @classmethod
    def told(cls, text):
        return said(text)

    @staticmethod
    def figure(workers, name):
        return sum(int(float(re.search(rf"^tenon:kv_transfer_{name}{{.*}} (\S+)$",
                                       worker.get("/metrics")[2].decode(), re.M).group(1))) for worker in workers)

    def test_answers_are_those_of_a_worker(self):
        for name, (path, body) in REQUESTS.items():
            if path == "/v1/responses" or (name == "completions" and not self.SEVERAL):
                continue
            with self.subTest(name):
                alone = self.told(ask(self.alone.port, path, {"model": "tale"} | body)[1])
                for _ in self.decode:
                    self.assertEqual(self.told(self.ask(path, body)), alone)
        self.assertGreater(self.figure(self.decode, "found_tokens_total"), 0)
        self.assertEqual(self.figure(self.decode, "lost_links_total"), 0)

    def test_streams_come_through(self):
        for name in ("a chat", "a completion"):
            path, body = REQUESTS[name]
            body = {"model": "tale", "stream": True, "stream_options": {"include_usage": True}} | body
            with self.subTest(name):
                alone = streamed(ask(self.alone.port, path, body)[1])
                for _ in self.decode:
                    self.assertEqual(streamed(self.ask(path, body)), alone)

    def test_a_long_prompt_comes_over_whole_and_is_freed(self):
        before = self.figure(self.decode, "found_tokens_total")
        body = FEW | {"prompt": "There was a princess in the tower, who saw the sea and the ships on it. " * 12}
        alone = said(ask(self.alone.port, "/v1/completions", {"model": "tale"} | body)[1])
        self.assertEqual(said(self.ask("/v1/completions", body)), alone)
        tokens = len(self.alone.post("/tokenize", {"prompt": body["prompt"]})[2]["tokens"])
        self.assertGreaterEqual(self.figure(self.decode, "found_tokens_total") - before, tokens - 5)
        limit = time.monotonic() + PATIENCE
        while self.figure(self.prefill, "leases") > 0:
            self.assertLess(time.monotonic(), limit, "a lease is left")
        self.assertEqual(self.figure(self.prefill, "held_bytes"), 0)


class VllmRouterApart(Apart, unittest.TestCase):
    NAME = "vllm-router"
    SEVERAL = True  # prompts in a request: they are computed where it is sent

    @classmethod
    def told(cls, text):
        """It reads log probabilities and writes them again, off by one in the last digit of 17: the f32 is the same."""
        return json.loads(json.dumps(said(text)),
                          parse_float=lambda digits: struct.unpack("f", struct.pack("f", float(digits)))[0])

    @classmethod
    def worker_flags(cls):
        flags = ["--vllm-pd-disaggregation"]
        for worker in cls.prefill:
            flags += ["--prefill", cls.url(worker)]
        for worker in cls.decode:
            flags += ["--decode", cls.url(worker)]
        return flags


class SglangRouterApart(Apart, unittest.TestCase):
    NAME = "sglang-router"
    LAUNCH = ["launch"]
    SEVERAL = True  # a room for each

    @classmethod
    def told(cls, text):
        """It reads log probabilities and writes them again, with fewer digits."""
        return json.loads(json.dumps(said(text)), parse_float=lambda digits: round(float(digits), 4))

    @classmethod
    def worker_flags(cls):
        flags = ["--pd-disaggregation"]
        for worker in cls.prefill:
            flags += ["--prefill", cls.url(worker), worker.kv_port]
        for worker in cls.decode:
            flags += ["--decode", cls.url(worker)]
        return flags


if __name__ == "__main__":
    unittest.main()
