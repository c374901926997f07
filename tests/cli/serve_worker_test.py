"""What routers of clusters ask a worker for: whether it sleeps, which rank it has, whether it has enough of a prompt,
and adapters by their names."""
import pathlib
import re
import sys
import tempfile
import time
import unittest

from program import MODEL, SOURCE
from server import PATIENCE, Server

sys.path.insert(0, str(SOURCE / "bench/adapters"))
from make_adapter import make  # noqa: E402

LONG = "Once upon a time there was a king who had a daughter, and the old witch lived in the wood. " * 6
PREFIX = ["--set", "kv_cache.plugin=prefix"]


class Worker(unittest.TestCase):
    def complete(self, server, **fields):
        return server.post("/v1/completions", {"prompt": LONG, "max_tokens": 4, "temperature": 0} | fields)

    def refused(self, answer, words):
        status, _, body = answer
        self.assertEqual(status, 400, body)
        self.assertIn(words, body["error"]["message"])

    def test_it_never_sleeps_and_answers_pings(self):
        with Server() as server:
            self.assertEqual(server.get("/is_sleeping")[2], {"is_sleeping": False})
            self.assertEqual(server.get("/ping")[0], 200)

    def test_its_rank_is_0(self):
        with Server() as server:
            for rank, status in (("0", 200), ("1", 400), ("x", 400)):
                answer = server.post("/v1/completions", {"prompt": "a", "max_tokens": 1},
                                     headers={"X-data-parallel-rank": rank})
                self.assertEqual(answer[0], status)
            self.refused(answer, "X-data-parallel-rank is 'x' – one engine runs a model here, whose rank is 0")

    def test_a_prompt_of_which_too_little_is_there_is_not_computed(self):
        with Server(*PREFIX) as server:
            for path, prompt in (("/v1/completions", {"prompt": LONG}),
                                 ("/v1/chat/completions", {"messages": [{"role": "user", "content": "Again: " + LONG}]})):
                with self.subTest(path):
                    asked = prompt | {"max_tokens": 4, "temperature": 0, "cache_hit_threshold": 0.8}
                    _, _, cold = server.post(path, asked)
                    choice = cold["choices"][0]
                    self.assertEqual(choice["finish_reason"], "cache_threshold")
                    self.assertIn(choice.get("text", ""), ("",))
                    self.assertEqual(cold["usage"]["completion_tokens"], 0)
                    _, _, computed = server.post(path, asked | {"cache_hit_threshold": 0})
                    _, _, warm = server.post(path, asked)
                    for name in ("text", "message", "finish_reason"):
                        self.assertEqual(warm["choices"][0].get(name), computed["choices"][0].get(name))
                    self.assertEqual(warm["choices"][0]["finish_reason"], "length")
            server.wait_for('vllm:request_success_total{model_name="tale",finished_reason="cache_threshold"} 2')

    def test_a_threshold_that_is_none_is_refused(self):
        with Server() as server:
            for value in (-0.1, 1.5, "much"):
                self.refused(self.complete(server, cache_hit_threshold=value),
                             '"cache_hit_threshold" must be a number from 0 to 1')
            # A cache that keeps nothing has nothing.
            self.assertEqual(self.complete(server, cache_hit_threshold=0.01)[2]["choices"][0]["finish_reason"],
                             "cache_threshold")

    def test_transfers_are_taken_where_they_ask_for_nothing(self):
        with Server() as server:
            nothing = {"do_remote_decode": False, "do_remote_prefill": False, "remote_engine_id": None,
                       "remote_block_ids": []}
            for transfer in ({}, nothing, None):
                self.assertEqual(self.complete(server, kv_transfer_params=transfer)[0], 200)
            self.refused(self.complete(server, kv_transfer_params=nothing | {"do_remote_decode": True}),
                         "\"kv_transfer_params\" asks for K/V to go between workers, and this server is not set up for that – "
                         "set disaggregation.role")
            self.refused(self.complete(server, kv_transfer_params=5), "must be an object")

    def test_an_adapter_is_a_model_of_its_own(self):
        with tempfile.TemporaryDirectory() as folder:
            flags = []
            for seed, name in enumerate(("one", "two")):
                make(MODEL, pathlib.Path(folder) / name, seed=seed)
                flags += ["--set", f"adapters.{name}={folder}/{name}"]
            with Server(*flags) as server:
                listed = {each["id"]: each.get("parent") for each in server.get("/v1/models")[2]["data"]}
                self.assertEqual(listed, {"tale": None, "one": "tale", "two": "tale"})
                _, _, by_field = self.complete(server, adapter="one")
                _, _, by_model = self.complete(server, model="one")
                _, _, base = self.complete(server, model="tale")
                self.assertEqual(by_model["choices"][0]["text"], by_field["choices"][0]["text"])
                self.assertNotEqual(by_model["choices"][0]["text"], base["choices"][0]["text"])
                self.assertEqual((by_model["model"], by_field["model"]), ("one", "tale"))
                self.refused(self.complete(server, model="one", adapter="two"),
                             "\"model\" names the adapter 'one', and \"adapter\" is 'two'")
                self.assertEqual(self.complete(server, model="three")[0], 404)
                self.every_path_knows_it(server)
                connection = server.socket()
                body = b'{"prompt": "a", "model": "two", "max_tokens": 1500, "ignore_eos": true, "stream": true}'
                connection.sendall(b"POST /v1/completions HTTP/1.1\r\nHost: a\r\nContent-Type: application/json\r\n"
                                   b"Content-Length: %d\r\n\r\n%s" % (len(body), body))
                seen = b""
                while seen.count(b"data: ") < 2:
                    seen += connection.recv(4096)
                told = self.adapters_told(server)
                self.assertEqual((told["max_lora"], told["running_lora_adapters"]), ("2", "two"))
                connection.close()
                server.wait_for('vllm:num_requests_running{model_name="tale"} 0')
                limit = time.monotonic() + PATIENCE
                while any(self.adapters_told(server)[name] for name in ("running_lora_adapters",
                                                                         "waiting_lora_adapters")):
                    self.assertLess(time.monotonic(), limit, "an adapter is told of whose request is gone")

    def every_path_knows_it(self, server):
        status, _, one = server.get("/v1/models/one")
        self.assertEqual((status, one["id"], one["parent"]), (200, "one", "tale"))
        anthropics = {"anthropic-version": "2023-06-01"}
        self.assertEqual([each["id"] for each in server.get("/v1/models", headers=anthropics)[2]["data"]],
                         ["tale", "one", "two"])
        self.assertEqual(server.get("/v1/models/two", headers=anthropics)[2]["id"], "two")
        chat = {"model": "one", "messages": [{"role": "user", "content": "a"}]}
        for path, body in (("/tokenize", {"model": "one", "prompt": "a"}),
                           ("/detokenize", {"model": "one", "tokens": [5]}),
                           ("/v1/messages/count_tokens", chat),
                           ("/v1/responses/input_tokens", {"model": "one", "input": "a"})):
            with self.subTest(path=path):
                self.assertEqual(server.post(path, body)[0], 200)
        vectors = [server.post("/v1/embeddings", {"model": model, "input": "a king"})[2]
                   for model in ("tale", "one", "two")]
        self.assertEqual([each["model"] for each in vectors], ["tale", "one", "two"])
        self.assertEqual(len({str(each["data"][0]["embedding"]) for each in vectors}), 3)
        status, _, refused = server.post("/models/unload", {"model": "one"})
        self.assertEqual(status, 400)
        self.assertIn("'one' is an adapter of the model 'tale'", refused["error"]["message"])

    def adapters_told(self, server):
        [line] = [line for line in server.get("/metrics")[2].decode().splitlines()
                  if line.startswith("vllm:lora_requests_info{")]
        self.assertGreater(float(line.split()[-1]), 1e9)
        return dict(re.findall(r'(\w+)="([^"]*)"', line))


if __name__ == "__main__":
    unittest.main()
