"""The check of `tenon serve`: many clients of several pipelines get the tokens of `tenon run`.

Rows are drawn on the device here. `tenon run --json`, which gives what is expected, draws them on
the host."""
import concurrent.futures
import json
import subprocess
import threading
import urllib.request

from answers import hold_tokens
from program import Broken
from prompts import mixed_token_requests, text_requests

END_SECONDS = 20
CLIENTS = 16
AHEAD = """
[engine]
plan_ahead = 1
[scheduler]
plugin = "chunked"
[kv_cache]
plugin = "radix"
"""
# name → (a model, as one of tests/golden or a bundled one, settings)
OF_TEXTS = {"tale": ("tale", ""), "ahead": ("tale", AHEAD)}
OF_TOKENS = {"olmoe": ("models/olmoe", ""),
             "deepseek": ("models/deepseek_v3_experts", ""),
             "windows": ("models/mistral_window", "")}


def folder_of(tenon, model):
    return tenon.golden(model) if "/" in model else tenon.bundled(model)


class Server:
    """`tenon serve` on a port that is free; `with` ends it and holds that it ends well."""

    def __init__(self, tenon, pipelines):
        files = [f"{name}={self._write(tenon, name, *pipeline)}"
                 for name, pipeline in pipelines.items()]
        self.patience = tenon.call_seconds
        self.log = tenon.folder / "serve.log"
        with self.log.open("w") as log:
            self.process = subprocess.Popen(
                [str(tenon.binary), "serve", *files, "--port", "0"], text=True,
                stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=log)
        timer = threading.Timer(self.patience, self.process.kill)
        timer.start()
        line = self.process.stdout.readline()
        timer.cancel()
        if not line:
            self.process.wait()
            raise Broken(f"the server does not start: {self.log.read_text()[-300:]}")
        self.port = int(line.rsplit(":", 1)[1])

    @staticmethod
    def _write(tenon, name, model, settings):
        path = tenon.folder / f"{name}.toml"
        threads = "threads = 2\n" if tenon.executor == "cpu" else ""
        path.write_text(f"format = 1\n[model]\npath = {json.dumps(str(folder_of(tenon, model)))}\n"
                        f'[executor]\nplugin = "{tenon.executor}"\n{threads}{settings}')
        return path

    def __enter__(self):
        return self

    def __exit__(self, kind, *_):
        self.process.terminate()
        try:
            status = self.process.wait(END_SECONDS)
        except subprocess.TimeoutExpired:
            self.process.kill()
            status = self.process.wait()
        self.process.stdout.close()
        # What went wrong before says more.
        if status != 0 and kind is None:
            raise Broken(f"the server ends with status {status}: {self.log.read_text()[-300:]}")

    def tokens(self, body, stream=True, leave_after=None):
        """The ids of an answer; a client of a stream may leave after so many."""
        body = json.dumps({**body, "stream": stream, "return_token_ids": True})
        request = urllib.request.Request(f"http://127.0.0.1:{self.port}/v1/completions",
                                         body.encode(), {"Content-Type": "application/json"})
        with urllib.request.urlopen(request, timeout=self.patience) as answer:
            if not stream:
                return json.load(answer)["choices"][0]["token_ids"]
            tokens = []
            for event in events_of(answer):
                for choice in event["choices"]:
                    tokens += choice.get("token_ids") or []
                if leave_after and len(tokens) >= leave_after:
                    break
            return tokens


def events_of(answer):
    """What a stream of server-sent events says."""
    for line in answer:
        text = line.decode().strip()
        if text.startswith("data: ") and text != "data: [DONE]":
            event = json.loads(text.removeprefix("data: "))
            if "error" in event:
                raise Broken(str(event["error"]))
            yield event


class ServerCheck:
    def __init__(self, tenon, baseline):
        self.tenon, self.baseline = tenon, baseline

    def questions(self):
        """(pipeline, index, request without its samples, tokens that `tenon run` gives)."""
        for name in OF_TEXTS:
            answers = self.baseline.answers()
            for i, request in enumerate(text_requests()):
                del request["samples"]
                yield name, i, request, answers[i, 0]["tokens"]
        for name, (model, _) in OF_TOKENS.items():
            requests = mixed_token_requests(temperature=0.8, seed=3, top_p=0.9)
            answers = self.tenon.run(folder_of(self.tenon, model), requests)
            for i, request in enumerate(requests):
                yield name, i, request, answers[i, 0]["tokens"]

    def check(self):
        pipelines = {**OF_TEXTS, **OF_TOKENS}
        questions = list(self.questions())

        def ask(question):
            name, i, request, _ = question
            return server.tokens({"model": name, **request}, stream=i % 4 != 3)

        with Server(self.tenon, pipelines) as server, \
                concurrent.futures.ThreadPoolExecutor(CLIENTS + 1) as pool:
            long = {"model": "tale", "prompt": "The", "max_tokens": 400, "ignore_eos": True}
            leaver = pool.submit(server.tokens, long, leave_after=3)
            for (name, i, _, expected), tokens in zip(questions, pool.map(ask, questions)):
                hold_tokens(f"{name}, prompt {i}", tokens, expected)
            leaver.result()
        return f"{len(questions)} answers of {len(pipelines)} pipelines, {CLIENTS} at once"

    def all(self):
        yield "serve: tokens of run", self.check
