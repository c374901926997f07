"""Prefill and decode by different processes: answers are those of one process, log probabilities included, whatever
becomes of the prefill worker and of the way to it; and nothing stays behind."""
import concurrent.futures
import json
import os
import pathlib
import re
import shutil
import signal
import subprocess
import tempfile
import threading
import time
import unittest

import layers_test
from program import GOLDEN_MODELS, MODEL, SOURCE, run
from server import PATIENCE, Server

STORY = "Once upon a time there was a king who had a daughter, and the old witch lived in the wood. "
HAND_OVER = {"do_remote_decode": True, "do_remote_prefill": False, "remote_engine_id": None,
             "remote_block_ids": None, "remote_host": None, "remote_port": None}
TEMPLATE = "{% for message in messages %}{{ message.content }}\n{% endfor %}"


def flags(role, **more):
    values = {"kv_cache.plugin": "prefix", "kv_cache.block_tokens": 8, "limits.context_tokens": 512,
              "disaggregation.role": role} | more
    return [part for key, value in values.items() for part in ("--set", f"{key}={value}")]


class Worker(Server):
    def __init__(self, role, *arguments, threads=1, **more):
        super().__init__("--threads", threads, *flags(role, **more), *arguments, template=TEMPLATE)
        # "handing over K/V of tale at 127.0.0.1:40911, as role prefill"
        self.told = self.process.stdout.readline()
        self.address = re.search(r" at (\S+), as role ", self.told).group(1)

    def figure(self, name):
        text = self.get("/metrics")[2].decode()
        return int(float(re.search(rf"^tenon:kv_transfer_{name}{{.*}} (\S+)$", text, re.M).group(1)))

    def settle(self, name, value):
        limit = time.monotonic() + PATIENCE
        while self.figure(name) != value:
            assert time.monotonic() < limit, f"{name} is {self.figure(name)}, not {value}"
            time.sleep(0.02)


def said(answer):
    status, _, body = answer
    assert status == 200, body
    return [(choice.get("text"), choice.get("message", {}).get("content"), choice["finish_reason"],
             json.dumps(choice.get("logprobs"))) for choice in body["choices"]]


def ask(worker, path, body, **more):
    return worker.post(path, {"model": worker_model(worker)} | body | more)


def worker_model(worker):
    return worker.line.split()[1]


def apart(prefill, decode, path, body):
    """What vllm-router does: the prompt there, then all of it here with what was answered."""
    status, _, first = ask(prefill, path, body, max_tokens=1, min_tokens=1, stream=False,
                           kv_transfer_params=HAND_OVER)
    assert status == 200, first
    return ask(decode, path, body, kv_transfer_params=first["kv_transfer_params"])


REQUESTS = [
    ("/v1/completions", {"prompt": STORY * 3, "max_tokens": 24, "temperature": 0, "logprobs": 3}),
    ("/v1/completions", {"prompt": STORY * 2 + "Then", "max_tokens": 16, "temperature": 0.9, "seed": 5, "n": 2,
                         "logprobs": 1}),
    ("/v1/completions", {"prompt": "A", "max_tokens": 8, "temperature": 0, "logprobs": 1}),
    ("/v1/chat/completions", {"messages": [{"role": "user", "content": STORY * 2}], "max_tokens": 12, "seed": 3,
                              "temperature": 1, "logprobs": True, "top_logprobs": 2}),
]


class Apart(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.alone = Server("--threads", 1, "--set", "kv_cache.plugin=prefix", "--set", "kv_cache.block_tokens=8",
                           "--set", "limits.context_tokens=512", template=TEMPLATE)
        cls.addClassCleanup(cls.alone.__exit__)
        cls.expected = [said(ask(cls.alone, path, body)) for path, body in REQUESTS]

    def worker(self, role, *arguments, **more):
        worker = Worker(role, *arguments, **more)
        self.addCleanup(worker.__exit__)
        return worker

    def refused(self, answer, words, status=400):
        self.assertEqual(answer[0], status, answer[2])
        self.assertIn(words, answer[2]["error"]["message"])

    def test_answers_are_those_of_one_process(self):
        prefill, decode = self.worker("prefill"), self.worker("decode")
        for (path, body), expected in zip(REQUESTS, self.expected):
            with self.subTest(path=path, body=body):
                self.assertEqual(said(apart(prefill, decode, path, body)), expected)
        self.assertGreater(decode.figure("found_tokens_total"), 50)
        self.assertEqual(decode.figure("partial_total"), 0)
        self.assertEqual(decode.figure("received_bytes_total"), prefill.figure("sent_bytes_total"))
        # What was fetched is freed, on both sides.
        prefill.settle("leases", 0)
        self.assertEqual(prefill.figure("held_bytes"), 0)
        self.assertEqual(prefill.figure("expired_total"), 0)
        self.assertEqual(decode.figure("awaited"), 0)

    def test_what_the_prefill_worker_answers(self):
        prefill = self.worker("prefill")
        _, _, answer = ask(prefill, *REQUESTS[0], max_tokens=1, kv_transfer_params=HAND_OVER)
        params = answer["kv_transfer_params"]
        host, port = prefill.address.split(":")
        self.assertEqual((params["remote_host"], params["remote_port"]), (host, int(port)))
        self.assertEqual((params["do_remote_prefill"], params["do_remote_decode"]), (True, False))
        self.assertEqual(len(params["remote_block_ids"]), answer["usage"]["prompt_tokens"] // 8)
        self.assertEqual(params["remote_engine_id"], prefill.get("/v1/engine/role")[2]["engine_id"])
        # So does a stream, with its end.
        events = prefill.events("/v1/completions", REQUESTS[0][1] | {
            "model": "tale", "max_tokens": 1, "stream": True, "kv_transfer_params": HAND_OVER})
        self.assertIn("remote_request_id", json.loads(events[-2])["kv_transfer_params"])

    def test_a_port_may_be_a_text(self):
        """Dynamo's sidecar makes one of it."""
        prefill, decode = self.worker("prefill"), self.worker("decode")
        path, body = REQUESTS[0]
        params = ask(prefill, path, body, max_tokens=1, kv_transfer_params=HAND_OVER)[2]["kv_transfer_params"]
        params["remote_port"] = str(params["remote_port"])
        self.assertEqual(said(ask(decode, path, body, kv_transfer_params=params)), self.expected[0])
        self.assertGreater(decode.figure("found_tokens_total"), 0)

    def test_only_what_the_decode_worker_lacks_is_sent(self):
        prefill, decode = self.worker("prefill"), self.worker("decode")
        turn = {"prompt": STORY * 2, "max_tokens": 16, "temperature": 0, "logprobs": 1}
        first = apart(prefill, decode, "/v1/completions", turn)
        sent = prefill.figure("sent_blocks_total")
        turn["prompt"] += first[2]["choices"][0]["text"] + STORY
        alone = said(ask(self.alone, "/v1/completions", turn))
        self.assertEqual(said(apart(prefill, decode, "/v1/completions", turn)), alone)
        tokens = len(self.alone.post("/tokenize", {"prompt": STORY})[2]["tokens"])
        self.assertLessEqual(prefill.figure("sent_blocks_total") - sent, tokens // 8 + 1)

    def test_both_at_the_same_time_like_sglangs_router(self):
        prefill, decode = self.worker("prefill"), self.worker("decode")
        host, port = prefill.address.split(":")
        with concurrent.futures.ThreadPoolExecutor(2) as pool:
            for room, ((path, body), expected) in enumerate(zip(REQUESTS, self.expected)):
                with self.subTest(path=path, body=body):
                    both = {"bootstrap_host": host, "bootstrap_port": int(port), "bootstrap_room": 2**62 + room}
                    later = pool.submit(ask, decode, path, body, **both)
                    time.sleep(0.05 * (room % 2))
                    first = ask(prefill, path, body, **both)
                    self.assertEqual(first[2]["usage"]["completion_tokens"], body.get("n", 1))
                    self.assertEqual(said(later.result()), expected)
        self.assertGreater(decode.figure("found_tokens_total"), 50)
        prefill.settle("leases", 0)

    def test_several_prompts_have_a_room_each(self):
        prefill, decode = self.worker("prefill"), self.worker("decode")
        host, port = prefill.address.split(":")
        body = {"prompt": [STORY * 2, "The end. " + STORY], "max_tokens": 8, "temperature": 0}
        both = {"bootstrap_host": [host] * 2, "bootstrap_port": [int(port)] * 2, "bootstrap_room": [5, 6]}
        with concurrent.futures.ThreadPoolExecutor(1) as pool:
            later = pool.submit(ask, decode, "/v1/completions", body, **both)
            ask(prefill, "/v1/completions", body, **both)
            self.assertEqual(said(later.result()), said(ask(self.alone, "/v1/completions", body)))
        self.assertEqual(decode.figure("complete_total"), 2)

    def test_a_prefill_worker_that_is_killed_costs_no_answer(self):
        prefill, decode = self.worker("prefill"), self.worker("decode")
        params = []
        for path, body in REQUESTS:
            _, _, first = ask(prefill, path, body, max_tokens=1, kv_transfer_params=HAND_OVER)
            params.append(first["kv_transfer_params"])
        prefill.process.kill()
        for (path, body), transfer, expected in zip(REQUESTS, params, self.expected):
            with self.subTest(path=path, body=body):
                self.assertEqual(said(ask(decode, path, body, kv_transfer_params=transfer)), expected)
        self.assertEqual(decode.figure("found_tokens_total"), 0)
        self.assertEqual(decode.figure("awaited"), 0)

    def test_kills_at_any_moment_while_many_are_under_way(self):
        decode = self.worker("decode", threads=2)
        workers, stop = [self.worker("prefill"), self.worker("prefill")], threading.Event()
        bodies = [{"prompt": f"{number} " + STORY * 3, "max_tokens": 8, "temperature": 0, "logprobs": 1}
                  for number in range(24)]
        expected = [said(ask(self.alone, "/v1/completions", body)) for body in bodies]

        def one(number):
            worker = workers[number % 2]
            transfer = {}
            try:
                _, _, first = ask(worker, "/v1/completions", bodies[number], max_tokens=1,
                                  kv_transfer_params=HAND_OVER)
                transfer = {"kv_transfer_params": first["kv_transfer_params"]}
            except (OSError, ConnectionError, json.JSONDecodeError):
                pass  # its router would send it on without
            except Exception as error:  # noqa: BLE001: http.client's own, of a cut answer
                self.assertEqual(type(error).__module__, "http.client", error)
            return said(ask(decode, "/v1/completions", bodies[number], **transfer))

        def kill():
            for round_ in range(3):
                if stop.wait(0.4):
                    return
                index = round_ % 2
                workers[index].process.send_signal(signal.SIGKILL)
                workers[index].process.wait()
                workers[index] = self.worker("prefill")

        killer = threading.Thread(target=kill)
        killer.start()
        with concurrent.futures.ThreadPoolExecutor(6) as pool:
            answers = list(pool.map(one, range(len(bodies))))
        stop.set()
        killer.join()
        self.assertEqual(answers, expected)
        self.assertEqual(decode.figure("awaited"), 0)
        for worker in workers:
            if worker.process.poll() is None:
                worker.settle("leases", 0)

    def test_a_decode_worker_that_is_killed_leaves_nothing_at_the_prefill_worker(self):
        prefill = self.worker("prefill", **{"disaggregation.lease": "500ms"})
        decode = self.worker("decode", **{"disaggregation.lease": "500ms"})
        ask(prefill, *REQUESTS[0], max_tokens=1, kv_transfer_params=HAND_OVER)
        host, port = prefill.address.split(":")
        body = REQUESTS[0][1] | {"bootstrap_host": host, "bootstrap_port": int(port), "bootstrap_room": 9}
        threading.Thread(target=lambda: self._try(decode, body), daemon=True).start()
        prefill.settle("leases", 2)
        decode.process.kill()
        prefill.settle("leases", 0)
        self.assertEqual(prefill.figure("held_bytes"), 0)
        self.assertEqual(prefill.figure("expired_total"), 1)

    @staticmethod
    def _try(worker, body):
        try:
            ask(worker, "/v1/completions", body)
        except Exception:  # noqa: BLE001: it is killed meanwhile
            pass

    def test_every_type_of_k_and_v_and_other_layers(self):
        with tempfile.TemporaryDirectory() as folder:
            model = pathlib.Path(folder) / "granite4"
            shutil.copytree(GOLDEN_MODELS / "granite4", model)
            (model / "tokenizer.json").write_text(json.dumps(layers_test.tokenizer()))
            latent = pathlib.Path(folder) / "deepseek_v2"
            shutil.copytree(GOLDEN_MODELS / "deepseek_v2", latent)
            (latent / "tokenizer.json").write_text(json.dumps(layers_test.tokenizer()))
            for path, more in ((MODEL, {"kv_cache.dtype": "i4"}), (MODEL, {"kv_cache.dtype": "i8"}),
                               (model, {"limits.context_tokens": 96}), (latent, {"limits.context_tokens": 96})):
                with self.subTest(model=path.name, **more):
                    body = {"prompt": "the fox and the crow and the fox and the crow", "max_tokens": 20,
                            "temperature": 0, "logprobs": 1, "ignore_eos": True}
                    prefill = self.worker("prefill", "--model", path, **more)
                    decode = self.worker("decode", "--model", path, **more)
                    both = self.worker("both", "--model", path, **more)
                    expected = said(ask(both, "/v1/completions", body))
                    self.assertEqual(said(apart(prefill, decode, "/v1/completions", body)), expected)
                    self.assertGreater(decode.figure("found_tokens_total"), 0)
                    for worker in (prefill, decode, both):
                        worker.__exit__()

    def test_drafters_compute_their_own(self):
        more = {"drafter.plugin": "draft_model", "drafter.model": SOURCE / "configs/models/tale-draft"}
        prefill, decode = self.worker("prefill"), self.worker("decode", **more)
        for (path, body), expected in zip(REQUESTS, self.expected):
            with self.subTest(path=path, body=body):
                self.assertEqual(said(apart(prefill, decode, path, body)), expected)
        self.assertGreater(decode.figure("found_tokens_total"), 50)

    def test_workers_that_differ_exchange_nothing_and_answer_all_the_same(self):
        prefill, decode = self.worker("prefill", **{"kv_cache.dtype": "i8"}), self.worker("decode")
        path, body = REQUESTS[0]
        self.assertEqual(said(apart(prefill, decode, path, body)), self.expected[0])
        self.assertEqual(prefill.figure("sent_bytes_total"), 0)
        self.assertEqual(decode.figure("partial_total"), 1)
        _, errors = decode.end()
        self.assertIn("its K/V are others", errors)

    def test_memory_for_hardly_anything(self):
        prefill = self.worker("prefill", **{"disaggregation.memory": "20KiB"})
        decode = self.worker("decode", **{"kv_cache.io_budget": "20KiB"})
        for (path, body), expected in zip(REQUESTS, self.expected):
            with self.subTest(path=path, body=body):
                self.assertEqual(said(apart(prefill, decode, path, body)), expected)
        prefill.settle("leases", 0)

    def test_a_role_is_changed_while_it_runs(self):
        one, other = self.worker("prefill"), self.worker("decode")
        path, body = REQUESTS[0]
        self.assertEqual(said(apart(one, other, path, body)), self.expected[0])
        for worker, role in ((one, "decode"), (other, "prefill")):
            status, _, answer = worker.post("/v1/engine/role", {"role": role})
            self.assertEqual((status, answer["role"]), (200, role))
            self.assertEqual(worker.get("/server_info")[2]["disaggregation_mode"], role)
        # The part that it has no more is not done, and the answer says so.
        _, headers, answer = ask(one, path, body, kv_transfer_params=HAND_OVER)
        self.assertEqual(headers["Tenon-Ignored-Fields"], "kv_transfer_params")
        self.assertNotIn("kv_transfer_params", answer)
        body = body | {"prompt": "Again: " + body["prompt"]}
        expected = said(ask(self.alone, path, body))
        self.assertEqual(said(apart(other, one, path, body)), expected)
        self.assertGreater(one.figure("found_tokens_total"), 0)
        self.refused(one.post("/v1/engine/role", {"role": "idle"}),
                     "\"role\" is 'idle' – it must be \"prefill\", \"decode\" or \"both\"")
        self.refused(self.alone.post("/v1/engine/role", {"role": "decode"}),
                     "does both parts by itself – start it with disaggregation.role to change that")
        self.assertIsNone(self.alone.get("/v1/engine/role")[2]["role"])

    def test_what_is_not_understood_is_refused(self):
        decode, both = self.worker("decode"), self.worker("both")
        known = {"do_remote_prefill": True, "remote_host": "127.0.0.1", "remote_port": 5600,
                 "remote_request_id": "00000000000000ff"}
        path, body = REQUESTS[2]
        for change, words in (({"remote_host": None}, "without a \"remote_host\""),
                              ({"remote_port": 70000}, "must be a number up to 65535"),
                              ({"remote_port": None}, "must be a number up to 65535"),
                              ({"remote_port": "70000"}, "must be a number up to 65535"),
                              ({"remote_port": "5600x"}, "must be a number up to 65535"),
                              ({"remote_port": ""}, "must be a number up to 65535"),
                              ({"remote_request_id": "cmpl-1"}, "that no Tenon gave"),
                              ({"do_remote_decode": True}, "asks for both"),
                              ({"do_remote_prefill": 1}, "which must be true or false"),
                              ({"remote_host": "10.0.0.7"}, "which is no peer of this server – add it to "
                                                            "disaggregation.peers")):
            with self.subTest(change):
                self.refused(ask(decode, path, body, kv_transfer_params=known | change), words)
        self.refused(ask(self.alone, path, body, kv_transfer_params=known),
                     "this server is not set up for that – set disaggregation.role")
        room = {"bootstrap_host": "127.0.0.1", "bootstrap_port": 5600, "bootstrap_room": 7}
        self.refused(ask(both, path, body, **room), "its role is \"both\" – set disaggregation.role to one of them")
        self.refused(ask(decode, path, body, **room | {"bootstrap_port": None}), "tell the router (--prefill URL PORT)")
        self.refused(ask(decode, path, body, **room | {"bootstrap_room": [7, 8]}), "one number for each prompt")
        self.refused(ask(decode, path, body, **room | {"bootstrap_room": -1}), "must be a whole number, 0 or more")
        # A member that says nothing here is named.
        _, headers, _ = ask(decode, path, body, kv_transfer_params=known | {"remote_color": "red"})
        self.assertEqual(headers["Tenon-Ignored-Fields"], "kv_transfer_params.remote_color")

    def test_what_cannot_be_apart_says_so(self):
        def complaint(*arguments):
            done = run("run", "x", "--max-tokens", 1, *arguments)
            self.assertNotEqual(done.returncode, 0)
            return done.stderr
        self.assertIn("--set: prefill and decode are to be apart, but kv_cache 'paged' keeps nothing of sequences that "
                      "ended, and what comes from another worker would be lost",
                      complaint(*flags("both", **{"kv_cache.plugin": "paged"})))
        self.assertIn("by which no other machine finds this one",
                      complaint(*flags("both", **{"disaggregation.address": "0.0.0.0:5600"})))
        self.assertIn("is no address – write HOST:PORT", complaint(*flags("both", **{"disaggregation.address": "here"})))
        self.assertIn("is no host – write names", complaint(*flags("both", **{"disaggregation.peers": "a b"})))
        self.assertIn("is set, but no role; set disaggregation.role too",
                      complaint("--set", "disaggregation.lease=5s"))

    def test_the_commands_of_the_page_do_what_it_says(self):
        page = (SOURCE / "docs/disaggregation.md").read_text()
        workers = []
        for line in re.findall(r"^\$ tenon serve --port \d+ (.*)$", page, re.M):
            server = Server("--threads", 1, *re.sub(r"127.0.0.1:\d+", "127.0.0.1:0", line).split(), template=TEMPLATE)
            self.addCleanup(server.__exit__)
            self.assertRegex(server.process.stdout.readline(), r"^handing over K/V of tale at 127.0.0.1:\d+, as role ")
            workers.append(server)
        self.assertEqual(said(apart(*workers, *REQUESTS[0])), self.expected[0])
        for line in re.findall(r"^\$ (curl .*)$", page, re.M):
            line = line.replace("127.0.0.1:8000", f"127.0.0.1:{workers[0].port}").replace("curl ", "curl --fail ", 1)
            done = subprocess.run(["bash", "-c", line], capture_output=True, text=True, timeout=PATIENCE, check=True)
            self.assertEqual(set(json.loads(done.stdout)), {"model", "role", "address", "engine_id"})
        self.assertEqual(workers[0].get("/v1/engine/role")[2]["role"], "decode")

    def test_engines_of_one_server_hand_over_at_one_address(self):
        with tempfile.TemporaryDirectory() as folder:
            prefill = self.worker("prefill", **{"parallel.data": 2, "kv_cache.memory": "32MiB",
                                                "disaggregation.address": f"unix:{folder}/kv.sock"})
            decode = self.worker("decode", **{"parallel.data": 2, "kv_cache.memory": "32MiB"})
            for rank in (0, 1):
                path, body = "/v1/completions", {"prompt": f"{rank} " + STORY * 3, "max_tokens": 8, "temperature": 0,
                                                 "logprobs": 1}
                expected = said(ask(self.alone, path, body))
                self.assertEqual(said(apart(prefill, decode, path, body | {"routed_dp_rank": rank})), expected)
                # SGLang's routers know one address of a worker.
                room = body | {"prompt": "Again " + body["prompt"], "routed_dp_rank": rank, "bootstrap_room": 70 + rank,
                               "bootstrap_host": f"unix:{folder}/kv.sock", "bootstrap_port": 0}
                expected = said(ask(self.alone, path, body | {"prompt": room["prompt"]}))
                with concurrent.futures.ThreadPoolExecutor(1) as pool:
                    later = pool.submit(ask, decode, path, room)
                    ask(prefill, path, room)
                    self.assertEqual(said(later.result()), expected)
            found = re.findall(r'^tenon:kv_transfer_found_tokens_total{.*engine="(\d)".*} (\d+)$',
                               decode.get("/metrics")[2].decode(), re.M)
            self.assertEqual([engine for engine, tokens in found if int(tokens) > 80], ["0", "1"])
            prefill.settle("leases", 0)

    def test_unix_sockets_and_memory_connect_workers_of_one_machine(self):
        for kind in ("unix", "memory"):
            with self.subTest(kind), tempfile.TemporaryDirectory() as folder:
                path = os.path.join(folder, "kv.sock")
                prefill = self.worker("prefill", **{"disaggregation.address": f"{kind}:{path}"})
                decode = self.worker("decode")
                self.assertEqual(said(apart(prefill, decode, *REQUESTS[0])), self.expected[0])
                self.assertGreater(decode.figure("found_tokens_total"), 0)
                prefill.end()
                self.assertFalse(os.path.exists(path))
                self.assertEqual(said(ask(decode, *REQUESTS[0])), self.expected[0])


if __name__ == "__main__":
    unittest.main()
