"""Low-rank adapters: chosen by request, several in one batch, each with the tokens it has alone."""
import itertools
import json
import pathlib
import re
import sys
import tempfile
import unittest

from program import MODEL, SOURCE, run, run_json, settings

sys.path.insert(0, str(SOURCE / "bench/adapters"))
from make_adapter import make  # noqa: E402

PROMPTS = ["Once upon a time there was a king who", "The fox", "Alice was beginning to get very"]
NAMES = ["all", "attention", "mlp", "wide"]
SCHEDULERS = ["static", "continuous", "chunked", "fair"]
CACHES = ["naive", "paged", "prefix", "radix"]


class Adapters(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory()
        root = pathlib.Path(cls.folder.name)
        make(MODEL, root / "all", seed=1)
        make(MODEL, root / "attention", seed=2, rank=8, targets="q_proj,v_proj")
        make(MODEL, root / "mlp", seed=3, targets="gate_proj,down_proj")
        make(MODEL, root / "wide", seed=4, rank=40, dtype="f32")
        cls.root = root
        cls.flags = [flag for name in NAMES for flag in ("--set", f"adapters.{name}={root / name}")]
        # Every prompt with each adapter and with none, between each other.
        cls.requests = [{"prompt": PROMPTS[i % 3], "adapter": (NAMES + ["none"])[i % 5],
                         "max_tokens": 6 + i % 4, "seed": i, "temperature": 0.8 if i % 2 else 0.0,
                         "samples": 2 if i == 7 else 1} for i in range(15)]
        cls.file = root / "requests.jsonl"
        cls.file.write_text("".join(json.dumps(line) + "\n" for line in cls.requests))
        cls.alone = [cls.one(request) for request in cls.requests]

    @classmethod
    def tearDownClass(cls):
        cls.folder.cleanup()

    @classmethod
    def outcome(cls, *flags):
        report = run_json("--file", cls.file, "--ignore-eos", *cls.flags, *flags)
        return cls.by_request(report)

    @staticmethod
    def by_request(report):
        made = {}
        for entry in report["requests"]:
            made.setdefault(entry["index"], []).append((entry["tokens"], entry["digest"]))
        return [made[index] for index in sorted(made)]

    @classmethod
    def one(cls, request, *more):
        flags = [*more, "--max-tokens", request["max_tokens"], "--seed", request["seed"],
                 "--temperature", request["temperature"], "--n", request["samples"]]
        if request["adapter"] != "none":
            flags += ["--adapter", request["adapter"], "--set",
                      f"adapters.{request['adapter']}={cls.root / request['adapter']}"]
        return cls.by_request(run_json(request["prompt"], "--ignore-eos", *flags))[0]

    def test_together_each_has_what_it_has_alone(self):
        self.assertEqual(self.outcome(), self.alone)
        self.assertEqual(len({str(tokens) for tokens in self.alone}), len(self.alone))

    def test_schedulers_and_kv_managers_change_no_token(self):
        for scheduler, cache in itertools.product(SCHEDULERS, CACHES):
            with self.subTest(scheduler=scheduler, cache=cache):
                flags = settings(scheduler__plugin=scheduler, kv_cache__plugin=cache)
                self.assertEqual(self.outcome(*flags), self.alone)

    def test_chunks_preemption_threads_and_planning_ahead_change_no_token(self):
        for flags in (settings(limits__max_batch_tokens=5, limits__max_sequences=5),
                      settings(limits__max_sequences=2), settings(engine__plan_ahead=1),
                      ["--threads", 1], ["--threads", 3],
                      settings(limits__context_tokens=48, kv_cache__memory="400KiB"),
                      settings(limits__context_tokens=48, kv_cache__memory="400KiB",
                               kv_cache__swap_memory="1MiB")):
            with self.subTest(flags=flags):
                self.assertEqual(self.outcome(*flags), self.alone)

    def test_drafters_change_no_token(self):
        for flags in (settings(drafter__plugin="ngram"), settings(drafter__plugin="suffix"),
                      settings(drafter__plugin="draft_model", drafter__model=MODEL)):
            with self.subTest(flags=flags):
                self.assertEqual(self.outcome(*flags), self.alone)

    def test_the_oracle_agrees(self):
        greedy = [{**request, "temperature": 0.0, "samples": 1} for request in self.requests]
        file = self.root / "greedy.jsonl"
        file.write_text("".join(json.dumps(line) + "\n" for line in greedy))

        def tokens(executor):
            report = run_json("--file", file, "--ignore-eos", *self.flags, "--isa", "avx2",
                              *settings(executor__plugin=executor, kv_cache__dtype="f32"))
            return [entry["tokens"] for entry in report["requests"]]
        if run("run", "a", "--isa", "avx2", "--max-tokens", 1).returncode != 0:
            self.skipTest("this processor has no AVX2")
        self.assertEqual(tokens("cpu"), tokens("ref"))

    def test_a_model_in_blocks_takes_adapters_in_bf16(self):
        file = self.root / "tale.gguf"
        done = run("model", "convert", MODEL, file, "--type", "q8_0")
        self.assertEqual(done.returncode, 0, done.stderr)
        alone = [self.one(request, "--model", file) for request in self.requests]
        self.assertEqual(self.outcome("--model", file), alone)
        self.assertNotEqual(alone, self.alone)
        # Nobody rounds the base model otherwise because adapters are there.
        base = ["--model", file, "--max-tokens", 9, "--temperature", 0]
        self.assertEqual(self.by_request(run_json(PROMPTS[0], *base)),
                         self.by_request(run_json(PROMPTS[0], *base, *self.flags)))

    def test_beams_take_adapters(self):
        flags = ["--beams", 3, "--max-tokens", 8, *self.flags]
        base = run_json("The fox", *flags)["requests"][0]["tokens"]
        adapted = run_json("The fox", *flags, "--adapter", "all")["requests"][0]["tokens"]
        again = run_json("The fox", *flags, "--adapter", "all",
                         *settings(scheduler__plugin="fair", kv_cache__plugin="radix"))
        self.assertNotEqual(base, adapted)
        self.assertEqual(again["requests"][0]["tokens"], adapted)

    def test_prefixes_are_shared_within_an_adapter_alone(self):
        def reused(adapters):
            file = self.root / "shared.toml"
            requests = [f'[[request]]\nprompt = "{PROMPTS[0] * 4}"\nmax_tokens = 2\n'
                        f'adapter = "{adapter}"\n' for adapter in adapters]
            file.write_text("format = 1\n" + "\n".join(requests))
            # One after the other.
            report = run_json("--workload", file, *self.flags, "--temperature", 0,
                              *settings(kv_cache__plugin="prefix", limits__max_sequences=1))
            return [entry["reused_tokens"] for entry in report["requests"]]
        self.assertEqual(reused(["all", "mlp", "none"]), [0, 0, 0])
        first, second = reused(["all", "all"])
        self.assertEqual(first, 0)
        self.assertGreater(second, 0)

    def test_without_a_request_for_them_adapters_change_nothing(self):
        base = self.by_request(run_json(PROMPTS[0], "--max-tokens", 12, "--temperature", 0))
        loaded = self.by_request(
            run_json(PROMPTS[0], "--max-tokens", 12, "--temperature", 0, *self.flags))
        self.assertEqual(base, loaded)

    def test_an_unknown_adapter_is_refused_with_those_that_there_are(self):
        done = run("run", "a", "--adapter", "atention", *self.flags)
        self.assertEqual(done.returncode, 1)
        self.assertIn('adapter is "atention" – the pipeline has all, attention, mlp, wide; did you '
                      "mean 'attention'? – name one of them, or leave it out", done.stderr)
        done = run("run", "a", "--adapter", "all")
        self.assertIn("the pipeline has none – leave it out, or give its folder a name in "
                      "[adapters]", done.stderr)

    def test_a_folder_that_does_not_fit_is_refused_with_where_it_was_named(self):
        pipeline = self.root / "pipeline.toml"
        pipeline.write_text(f'format = 1\n[model]\npath = "{MODEL}"\n[adapters]\nmine = "nowhere"\n')
        done = run("run", "a", "--config", pipeline)
        self.assertEqual(done.returncode, 1)
        self.assertIn("pipeline.toml:5:1: adapter 'mine'", done.stderr)
        golden = SOURCE / "tests/golden/adapters/llama"
        done = run("run", "a", "--set", f"adapters.small={golden}")
        self.assertIn("the model and adapter_config.json make it [4, 256]", done.stderr)

    def test_the_resolved_configuration_names_them(self):
        shown = run("config", "explain", *self.flags).stdout
        self.assertRegex(shown, rf'\[adapters\]\nall = "{re.escape(str(self.root))}/all" +# --set\n')

    def test_embeddings_logits_and_perplexity_take_adapters(self):
        embed = [run("embed", "The fox", *self.flags, *flags).stdout
                 for flags in ([], ["--adapter", "mlp"], ["--adapter", "mlp"])]
        self.assertNotEqual(embed[0], embed[1])
        self.assertEqual(embed[1], embed[2])
        text = self.root / "text.txt"
        text.write_text("The fox and the crow went to the river. " * 3)
        values = [json.loads(run("model", "perplexity", "--model", MODEL, "--file", text, "--json",
                                 *self.flags, *flags).stdout)["perplexity"]
                  for flags in ([], ["--adapter", "none"], ["--adapter", "all"])]
        self.assertEqual(values[0], values[1])
        self.assertNotEqual(values[0], values[2])
        done = run("bench", "--batch", 3, "--prompt-tokens", 8, "--decode-tokens", 2, "--repeat", 1,
                   "--limit-seconds", 0, *self.flags, "--adapter", "all", "--adapter", "none")
        self.assertEqual(done.returncode, 0, done.stderr)


if __name__ == "__main__":
    unittest.main()
