"""NVIDIA's Dynamo in front of workers: its sidecar for vLLM's gRPC next to each, discovery by files, its own frontend.

Needs a build with TENON_GRPC, and a python3 on PATH that has ai-dynamo and ai-dynamo-runtime.
"""
import json
import os
import pathlib
import re
import shutil
import subprocess
import tempfile
import time
import unittest
import urllib.error
import urllib.request

from program import run
from serve_routers_test import free_port
from server import PATIENCE, Server, has_zmq

LONG = "Once upon a time there was a king who had a daughter in the wood, and the old witch saw her. " * 8


def needed():
    """Skips with a reason where something is missing."""
    if "this build has no gRPC" in run("serve", "--grpc-port", 0, "--port", 0, "--host", "256.0.0.1").stderr:
        raise unittest.SkipTest("built without TENON_GRPC")
    python = shutil.which("python3")
    asked = subprocess.run([python, "-c", "import dynamo._core, dynamo.frontend.main, dynamo.vllm.sidecar"],
                           capture_output=True, text=True, check=False)
    if asked.returncode != 0:
        raise unittest.SkipTest(f"{asked.stderr.strip().splitlines()[-1]} – install ai-dynamo in what python3 is on PATH")
    return python


class Cluster:
    """Workers with a sidecar each, and a frontend that finds them."""

    @classmethod
    def setUpClass(cls):
        cls.python = needed()
        cls.folder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(cls.folder.cleanup)
        cls.environment = os.environ | {
            "DYN_DISCOVERY_BACKEND": "file", "DYN_FILE_KV": f"{cls.folder.name}/found", "DYN_REQUEST_PLANE": "tcp",
            "DYN_EVENT_PLANE": "zmq", "DYN_LOG": "info", "HF_HUB_OFFLINE": "1"}
        cls.port = free_port()
        cls.workers = cls.start_workers()
        cls.launch("frontend", "dynamo.frontend", "--http-host", "127.0.0.1", "--http-port", cls.port, *cls.frontend_flags())
        cls.wait_until_ready()

    @classmethod
    def launch(cls, name, module, *flags):
        log = open(pathlib.Path(cls.folder.name) / f"{name}.log", "w+", encoding="utf-8")
        process = subprocess.Popen([cls.python, "-m", module, *map(str, flags)], stdin=subprocess.DEVNULL, stdout=log,
                                   stderr=subprocess.STDOUT, env=cls.environment)

        def end():
            process.kill()
            process.wait()
            log.close()
        cls.addClassCleanup(end)

    @classmethod
    def worker(cls, *arguments, side=()):
        """A worker, and its sidecar."""
        worker = Server("--grpc-port", 0, "--threads", 1, "--set", "kv_cache.plugin=prefix", *arguments)
        cls.addClassCleanup(worker.__exit__)
        line = worker.process.stdout.readline()
        address = re.search(r"by gRPC at (\S+)", line)[1]
        cls.launch(f"sidecar{address.rsplit(':', 1)[1]}", "dynamo.vllm.sidecar", "--grpc-endpoint", f"http://{address}",
                   "--custom-jinja-template", worker.path("template.jinja"), *side)
        return worker

    @classmethod
    def logs(cls):
        return "\n".join(path.read_text()[-1500:] for path in pathlib.Path(cls.folder.name).glob("*.log"))

    @classmethod
    def wait_until_ready(cls):
        limit = time.monotonic() + PATIENCE
        while True:
            try:
                if cls.post("/v1/completions", {"prompt": "A king", "max_tokens": 1})[0] == 200:
                    return
            except OSError:
                pass
            assert time.monotonic() < limit, cls.logs()
            time.sleep(0.5)

    @classmethod
    def post(cls, path, body):
        request = urllib.request.Request(f"http://127.0.0.1:{cls.port}{path}", json.dumps({"model": "tale"} | body).encode(),
                                         {"Content-Type": "application/json"})
        try:
            with urllib.request.urlopen(request, timeout=PATIENCE) as answer:
                return answer.status, answer.read().decode()
        except urllib.error.HTTPError as error:
            return error.code, error.read().decode()

    @classmethod
    def frontend_flags(cls):
        return []

    def ask(self, path, body):
        status, text = self.post(path, body)
        self.assertEqual(status, 200, text)
        return json.loads(text)

    @staticmethod
    def figure(worker, name):
        found = re.findall(rf"^{name}{{.*}} (\S+)$", worker.get("/metrics")[2].decode(), re.M)
        return sum(int(float(value)) for value in found)

    def expect_alike(self, path, body):
        """The frontend's answer is that of the worker."""
        said = self.ask(path, body)["choices"][0]
        status, _, alone = self.workers[0].post(path, {"model": "tale"} | body)
        self.assertEqual(status, 200, alone)
        alone = alone["choices"][0]
        self.assertEqual(said.get("text"), alone.get("text"))
        self.assertEqual((said.get("message") or {}).get("content"), (alone.get("message") or {}).get("content"))
        self.assertEqual(said["finish_reason"], alone["finish_reason"])


FEW = {"max_tokens": 12, "temperature": 0}


class Together(Cluster, unittest.TestCase):
    @classmethod
    def start_workers(cls):
        return [cls.worker()]

    def test_answers_are_those_of_the_worker(self):
        for body in (FEW, {"max_tokens": 12, "seed": 7, "temperature": 0.8, "top_p": 0.9},
                     FEW | {"stop": ["the"], "max_tokens": 60}, FEW | {"frequency_penalty": 0.5}):
            with self.subTest(body):
                self.expect_alike("/v1/completions", body | {"prompt": "The old witch"})
        self.expect_alike("/v1/chat/completions", FEW | {"messages": [{"role": "user", "content": "A king"}]})

    def test_streams_come_through(self):
        body = FEW | {"prompt": "The old witch"}
        text = self.post("/v1/completions", body | {"stream": True})[1]
        events = [line[len("data: "):] for line in text.split("\n") if line.startswith("data: ")]
        self.assertEqual(events[-1], "[DONE]", text)
        said = "".join(choice["text"] for event in events[:-1] for choice in json.loads(event)["choices"])
        self.assertEqual(said, self.ask("/v1/completions", body)["choices"][0]["text"])

    def test_who_goes_away_takes_the_request_along(self):
        body = {"model": "tale", "prompt": "The king", "max_tokens": 1500, "stream": True, "ignore_eos": True}
        request = urllib.request.Request(f"http://127.0.0.1:{self.port}/v1/completions", json.dumps(body).encode(),
                                         {"Content-Type": "application/json"})
        with urllib.request.urlopen(request, timeout=PATIENCE) as answer:
            answer.readline()
            self.assertGreater(self.figure(self.workers[0], "vllm:num_requests_running"), 0)
        limit = time.monotonic() + PATIENCE
        while self.figure(self.workers[0], "vllm:num_requests_running") > 0:
            self.assertLess(time.monotonic(), limit, "it runs on")
            time.sleep(0.05)


class ByEvents(Cluster, unittest.TestCase):
    """Its router reads the KV events of two workers."""

    @classmethod
    def setUpClass(cls):
        if not has_zmq():
            raise unittest.SkipTest("there is no ZeroMQ – install libzmq5")
        super().setUpClass()

    @classmethod
    def start_workers(cls):
        return [cls.worker("--kv-events", "tcp://*:0", "--kv-events-replay", "tcp://*:0") for _ in range(2)]

    @classmethod
    def frontend_flags(cls):
        return ["--router-mode", "kv"]

    def test_a_prompt_goes_where_its_beginning_is(self):
        # By chance eight in a row are sent right once in 256.
        right = 0
        for attempt in range(60):
            worker = self.workers[attempt * 5 % 7 % 2]
            beginning = f"{attempt} {LONG}"
            status, _, answer = worker.post("/v1/completions", {"prompt": beginning, "max_tokens": 1})
            self.assertEqual(status, 200, answer)
            time.sleep(0.2)
            hits = self.figure(worker, "vllm:prefix_cache_hits_total")
            self.ask("/v1/completions", {"prompt": beginning + "And then", "max_tokens": 1})
            right = right + 1 if self.figure(worker, "vllm:prefix_cache_hits_total") > hits else 0
            if right == 8:
                return
        self.fail("the router does not send prompts to where their beginnings are")


class Apart(Cluster, unittest.TestCase):
    """A prefill and a decode worker."""

    @classmethod
    def start_workers(cls):
        workers = []
        for role in ("decode", "prefill"):
            workers.append(cls.worker("--set", "kv_cache.block_tokens=4", "--set", f"disaggregation.role={role}",
                                      side=["--disaggregation-mode", role]))
        return workers

    def test_answers_are_those_of_one_worker(self):
        for body in (FEW | {"prompt": LONG}, FEW | {"prompt": "The old witch", "max_tokens": 1},
                     {"prompt": "A queen", "max_tokens": 20, "seed": 3, "temperature": 0.9}):
            with self.subTest(body):
                self.expect_alike("/v1/completions", body)
        self.assertGreater(self.figure(self.workers[0], "tenon:kv_transfer_found_tokens_total"), 100)
        self.assertEqual(self.figure(self.workers[0], "tenon:kv_transfer_lost_links_total"), 0)
        limit = time.monotonic() + PATIENCE
        while self.figure(self.workers[1], "tenon:kv_transfer_held_bytes") > 0:
            self.assertLess(time.monotonic(), limit, "K/V is kept")
            time.sleep(0.1)


if __name__ == "__main__":
    unittest.main()
