"""Adapters that requests load and unload while a server runs."""
import json
import os
import pathlib
import re
import shutil
import sys
import tempfile
import threading
import unittest

from program import MODEL, SOURCE, run
from server import PATIENCE, Server

sys.path.insert(0, str(SOURCE / "bench/adapters"))
from make_adapter import make  # noqa: E402

PROMPT = "Once upon a time there was a king who had a daughter, and the old witch lived in the wood. " * 3
NAMES = ("one", "two", "three")


class Adapters(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.kept = tempfile.TemporaryDirectory()
        cls.addClassCleanup(cls.kept.cleanup)
        cls.root = pathlib.Path(cls.kept.name) / "adapters"
        for seed, name in enumerate(NAMES):
            make(MODEL, cls.root / name, seed=seed, dtype="f32" if name == "two" else "bf16", rank=4 + 9 * seed)
        flags = [part for name in NAMES for part in ("--set", f"adapters.{name}={cls.root / name}")]
        with Server(*flags) as server:
            cls.expected = {name: cls.answer(server, name) for name in ("tale", *NAMES)}
        assert len(set(cls.expected.values())) == 4

    @staticmethod
    def ask(server, model, **fields):
        return server.post("/v1/completions",
                           {"model": model, "prompt": PROMPT, "max_tokens": 12, "temperature": 0, "logprobs": 3} | fields)

    @classmethod
    def answer(cls, server, model, **fields):
        """Tokens and log probabilities, as they were written."""
        status, _, body = cls.ask(server, model, **fields)
        assert status == 200, body
        return json.dumps([body["choices"][0][name] for name in ("text", "logprobs")])

    def served(self, *flags, root=None):
        server = Server("--adapters", root or self.root, *flags)
        self.addCleanup(server.__exit__)
        return server

    def load(self, server, name, path=None, **more):
        return server.post("/v1/load_lora_adapter", {"lora_name": name, "lora_path": str(path or name)} | more)

    def unload(self, server, name, **more):
        return server.post("/v1/unload_lora_adapter", {"lora_name": name} | more)

    def refused(self, answer, words, status=400):
        self.assertEqual(answer[0], status, answer[2])
        self.assertIn(words, answer[2]["error"]["message"])

    def listed(self, server):
        return {each["id"]: each.get("parent") for each in server.get("/v1/models")[2]["data"]}

    def told(self, server):
        [line] = [line for line in server.get("/metrics")[2].decode().splitlines()
                  if line.startswith("vllm:lora_requests_info{")]
        return dict(re.findall(r'(\w+)="([^"]*)"', line))

    def test_it_answers_as_one_that_was_there_from_the_start(self):
        server = self.served("--set", "kv_cache.plugin=prefix")
        self.assertEqual(self.listed(server), {"tale": None})
        self.assertEqual(self.ask(server, "one")[0], 404)
        for name in reversed(NAMES):
            status, _, text = self.load(server, name)
            self.assertEqual((status, text.decode()), (200, f"Success: LoRA adapter '{name}' added successfully."))
        self.assertEqual(self.listed(server), {"tale": None} | dict.fromkeys(NAMES, "tale"))
        self.assertEqual(server.get("/v1/models/two")[2]["parent"], "tale")
        answers = {}
        threads = [threading.Thread(target=lambda name=name: answers.update({name: self.answer(server, name)}))
                   for name in self.expected]
        for each in threads:
            each.start()
        for each in threads:
            each.join()
        self.assertEqual(answers, self.expected)
        self.assertEqual(self.answer(server, "tale", adapter="two"), self.expected["two"])
        self.assertEqual(self.answer(server, "tale", adapter="none"), self.expected["tale"])
        self.assertEqual(self.told(server)["max_lora"], "8")

    def test_one_takes_the_place_of_another_and_nothing_of_it_is_left(self):
        server = self.served("--max-adapters", 1, "--set", "kv_cache.plugin=prefix")
        before = self.weights(server)
        for name in ("one", "two", "one", "three"):
            self.assertEqual(self.load(server, name)[0], 200)
            self.assertGreater(self.weights(server), before)
            self.refused(self.load(server, "other", "two"), "all 1 places for adapters are taken", 409)
            # The name may be another adapter's by then.
            self.assertEqual(self.answer(server, name), self.expected[name])
            self.assertEqual(self.answer(server, "tale"), self.expected["tale"])
            status, _, text = self.unload(server, name)
            self.assertEqual((status, text.decode()), (200, f"Success: LoRA adapter '{name}' removed successfully."))
            self.assertEqual(self.ask(server, name)[0], 404)
            self.refused(self.ask(server, "tale", adapter=name), f'adapter is "{name}" – the pipeline has none')
            self.assertEqual(self.listed(server), {"tale": None})
        self.assertEqual(self.load(server, "a", "one")[0], 200)
        self.assertEqual(self.load(server, "a", "two", load_inplace=True)[0], 409)
        self.assertEqual(self.answer(server, "a"), self.expected["one"])
        self.assertEqual(self.unload(server, "a")[0], 200)
        self.until(lambda: self.weights(server) == before)

    def weights(self, server):
        return float(re.search(r'^tenon:weight_bytes{.*held="own"} (\S+)$', server.get("/metrics")[2].decode(), re.M)[1])

    def until(self, holds):
        for _ in range(PATIENCE * 50):
            if holds():
                return
            threading.Event().wait(0.02)
        self.fail("it never came to that")

    def test_a_name_may_be_given_to_another_while_requests_use_the_first(self):
        server = self.served("--max-adapters", 2)
        self.assertEqual(self.load(server, "a", "one")[0], 200)
        first = self.answer(server, "a", max_tokens=200, ignore_eos=True)
        answers = []
        asking = threading.Thread(target=lambda: answers.append(
            self.answer(server, "a", max_tokens=200, ignore_eos=True)))
        asking.start()
        self.until(lambda: self.told(server)["running_lora_adapters"] == "a")
        self.refused(self.load(server, "a", "two"), "there is an adapter 'a' already", 409)
        self.assertEqual(self.load(server, "a", "two", load_inplace=True)[0], 200)
        self.assertEqual(self.answer(server, "a"), self.expected["two"])
        asking.join()
        self.assertEqual(answers, [first])

    def test_one_that_is_used_goes_when_its_last_request_has_ended(self):
        server = self.served("--max-adapters", 1)
        before = self.weights(server)
        self.load(server, "one")
        connection = server.connect()
        connection.request("POST", "/v1/completions", json.dumps(
            {"model": "one", "prompt": PROMPT, "max_tokens": 1500, "ignore_eos": True, "stream": True}),
            {"Content-Type": "application/json"})
        answer = connection.getresponse()
        for _ in range(3):
            answer.readline()
        self.assertEqual(self.unload(server, "one")[0], 200)
        self.assertEqual(self.ask(server, "one")[0], 404)
        self.refused(self.load(server, "two"), "those that requests still use", 409)
        self.assertGreater(self.weights(server), before)
        self.assertEqual(self.told(server)["running_lora_adapters"], "one")
        connection.close()
        self.until(lambda: self.weights(server) == before)
        self.assertEqual(self.load(server, "two")[0], 200)
        self.assertEqual(self.answer(server, "two"), self.expected["two"])

    def test_what_cannot_be_an_adapter_is_refused_and_changes_nothing(self):
        with tempfile.TemporaryDirectory() as folder:
            root = pathlib.Path(folder) / "adapters"
            shutil.copytree(self.root / "one", root / "good")
            for name, config in (("rank", {"r": 7}), ("targets", {"target_modules": ["q_proj"]}),
                                 ("missing", {"target_modules": ["q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj",
                                                                 "down_proj", "lm_head"]}),
                                 ("dora", {"use_dora": True}), ("odd", {"shape": "round"})):
                shutil.copytree(root / "good", root / name)
                file = root / name / "adapter_config.json"
                file.write_text(json.dumps(json.loads(file.read_text()) | config))
            (root / "empty").mkdir()
            shutil.copytree(root / "good", root / "cut")
            tensors = root / "cut/adapter_model.safetensors"
            tensors.write_bytes(tensors.read_bytes()[:-100])
            shutil.copytree(root / "good", root / "text")
            (root / "text/adapter_config.json").write_text("{")
            make(MODEL, pathlib.Path(folder) / "outside")
            os.symlink(pathlib.Path(folder) / "outside", root / "link")
            server = self.served(root=root)
            for path, words in (("rank", "the model and adapter_config.json make it [7, "),
                                ("targets", "'target_modules' does not name"), ("dora", "use_dora"),
                                ("odd", "shape"), ("empty", "adapter_config.json"), ("cut", "adapter_model.safetensors"),
                                ("text", "adapter_config.json"), ("nothing", "there is no such folder"),
                                ("link", "leads out of the folder"), ("../outside", "leads out of the folder"),
                                (f"{folder}/outside", "leads out of the folder"), ("/", "leads out of the folder"),
                                ("good\0", "must be the path of an adapter's folder")):
                with self.subTest(path):
                    self.refused(self.load(server, "mine", path), words)
            for name in ("none", "a,b", "a b", "ü", "x" * 129, 'a"'):
                with self.subTest(name):
                    self.refused(self.load(server, name, "good"), "must have up to 128 letters")
            self.refused(self.load(server, "tale", "good"), "'tale' is served here already", 409)
            self.refused(self.unload(server, "mine"), 'there is no adapter "mine"', 404)
            self.refused(server.post("/v1/load_lora_adapter", {"lora_path": "good"}), '"lora_name" is missing')
            self.refused(server.post("/v1/load_lora_adapter", {"lora_name": "a"}), '"lora_path" is missing')
            self.refused(self.load(server, "a", "good", is_3d_lora_weight=True), "not built")
            self.refused(self.load(server, "a", "good", lora_alpha=5), "lora_alpha")
            self.refused(self.load(server, "a", "good", model="other"), "there is no model 'other'", 404)
            self.assertEqual(self.listed(server), {"tale": None})
            self.assertEqual(self.load(server, "org/poems-v1.2", root / "good", load_inplace=False, model="tale")[0], 200)
            self.assertEqual(self.answer(server, "org/poems-v1.2"), self.expected["one"])
            self.assertEqual(self.unload(server, "org/poems-v1.2", lora_int_id=3)[1]["Tenon-Ignored-Fields"],
                             "lora_int_id")

    def test_the_operator_allows_it_or_nobody_can(self):
        with Server() as server:
            self.refused(self.load(server, "one", self.root / "one"), "start it with --adapters FOLDER", 403)
            self.refused(self.unload(server, "one"), "start it with --adapters FOLDER", 403)
        for flags, words in ((("--adapters", "/nothing/here"), "--adapters is '/nothing/here', and there is no such folder"),
                             (("--max-adapters", 3), "--max-adapters is about adapters that requests load")):
            done = run("serve", "--port", 0, *flags)
            self.assertEqual(done.returncode, 1)
            self.assertIn(words, done.stderr)

    def test_a_list_of_models_allows_it_too(self):
        with tempfile.NamedTemporaryFile("w", suffix=".toml") as file:
            file.write(f'format = 1\n[server]\nadapters = "{self.root}"\nmax_adapters = 2\n')
            for name in ("a", "b"):
                file.write(f'[[server.models]]\nname = "{name}"\nmodel = "{MODEL}"\nkeep = {"true" if name == "a" else "false"}\n'
                           'limits.max_sequences = 4\nkv_cache.memory = "16MiB"\n')
            file.flush()
            server = Server("--models", file.name)
            self.addCleanup(server.__exit__)
            self.refused(self.load(server, "one"), '"model" is missing')
            self.assertEqual(self.load(server, "one", model="a")[0], 200)
            self.refused(self.load(server, "two", model="b"), "is not loaded", 503)
            self.assertEqual(server.post("/models/load", {"model": "b"})[0], 200)
            self.refused(self.load(server, "one", model="b"), "'one' is served here already", 409)
            self.assertEqual(self.load(server, "two", model="b")[0], 200)
            self.assertEqual(self.listed(server), {"a": None, "one": "a", "b": None, "two": "b"})
            self.assertEqual(self.answer(server, "two"), self.expected["two"])
            self.assertEqual(server.post("/models/unload", {"model": "b"})[0], 200)
            self.assertEqual(self.listed(server), {"a": None, "one": "a", "b": None})
            self.assertEqual(self.unload(server, "one")[0], 200)

    def test_replicas_and_the_oracle_take_them(self):
        for flags in (("--set", "parallel.data=2"), ("--set", "executor.plugin=ref")):
            with self.subTest(flags):
                fixed = [*flags, "--set", f"adapters.one={self.root / 'one'}"]
                server = self.served(*fixed)
                self.assertEqual(self.load(server, "two")[0], 200)
                self.refused(self.load(server, "one", "three"), "it is the pipeline's", 409)
                with Server(*fixed, "--set", f"adapters.two={self.root / 'two'}") as other:
                    for rank in range(2 if "parallel.data=2" in flags else 1):
                        for name in ("one", "two", "tale"):
                            self.assertEqual(self.answer(server, name, routed_dp_rank=rank), self.answer(other, name))
                self.assertEqual(self.unload(server, "two")[0], 200)
                self.assertEqual(self.load(server, "two", "three")[0], 200)

    def test_vectors_and_kept_prompts_are_the_adapters_own(self):
        with tempfile.TemporaryDirectory() as folder:
            tier = ["--set", "kv_cache.plugin=prefix", "--set", "kv_cache.tiers.1.kind=disk",
                    "--set", f"kv_cache.tiers.1.path={folder}", "--set", "kv_cache.tiers.1.memory=64MiB"]
            found = []
            for names in (("one", "two"), ("two", "one"), ("three", "two")):
                server = self.served(*tier)
                for name in names:
                    self.assertEqual(self.load(server, "mine", name)[0], 200)
                    self.assertEqual(self.answer(server, "mine"), self.expected[name])
                    self.assertEqual(self.unload(server, "mine")[0], 200)
                self.assertEqual(self.answer(server, "tale"), self.expected["tale"])
                found.append(self.found_tokens(server))
                server.end()
            # What a server before it has written is found by what the adapter is, not by its name or place.
            self.assertEqual(found[0], 0)
            self.assertGreater(found[1], found[2])
            self.assertGreater(found[2], 0)
        vectors = []
        server = self.served()
        for name in ("one", "two"):
            self.load(server, name)
            vectors.append(server.post("/v1/embeddings", {"model": name, "input": "a king"})[2]["data"])
        self.assertNotEqual(*vectors)

    def found_tokens(self, server):
        return float(re.search(r"^tenon:kv_tier_found_tokens_total{.*} (\S+)$",
                               server.get("/metrics")[2].decode(), re.M)[1])


if __name__ == "__main__":
    unittest.main()
