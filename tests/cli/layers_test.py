"""Models whose layers keep something else than K and V of their own heads, under every scheduler, KV
manager, drafter and K/V type: the tokens and digests are those of static + naive."""
import json
import pathlib
import shutil
import tempfile
import unittest

from combinations import covering
from program import GOLDEN_MODELS, run, run_json, settings

MODELS = ["deepseek_v2", "deepseek_v3_experts", "llama_shared_kv", "glm_moe_dsa"]
HYBRID = "granite4"  # its first layer keeps a state, a later one K and V
AXES = {
    "scheduler": ["static", "continuous", "chunked", "fair"],
    "kv_cache": ["naive", "paged", "prefix", "radix"],
    "drafter": ["none", "ngram", "suffix", "draft_model"],
    "dtype": ["f32", "f16", "bf16", "i8", "i4"],
    "plan_ahead": [0, 1],
}
CONTEXT = 96


def tokenizer():
    """Printable characters as tokens 3 to 97, whatever the model was made for."""
    letters = ["Ġ" if code == 32 else chr(code) for code in range(32, 127)]
    return {
        "version": "1.0", "truncation": None, "padding": None, "added_tokens": [],
        "normalizer": None, "post_processor": None,
        "pre_tokenizer": {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True,
                          "use_regex": True},
        "decoder": {"type": "ByteLevel", "add_prefix_space": True, "trim_offsets": True,
                    "use_regex": True},
        "model": {"type": "BPE", "dropout": None, "unk_token": None,
                  "continuing_subword_prefix": None, "end_of_word_suffix": None,
                  "fuse_unk": False, "byte_fallback": False, "ignore_merges": False,
                  "vocab": {letter: 3 + i for i, letter in enumerate(letters)}, "merges": []},
    }


def workload():
    """Prompts that share beginnings, repeat themselves and fork."""
    story = "the fox and the crow and the fox and the crow"
    lines = ["format = 1"]
    for number in range(6):
        lines += ["[[request]]", f"prompt = {json.dumps(story[:20 + 5 * number])}",
                  f"seed = {number}", f"max_tokens = {30 + number}", "ignore_eos = true",
                  f"temperature = {0.8 if number % 2 else 0.0}",
                  f"samples = {2 if number == 1 else 1}"]
    return "\n".join(lines) + "\n"


class Layers(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory()
        root = pathlib.Path(cls.folder.name)
        cls.file = root / "requests.toml"
        cls.file.write_text(workload())
        for name in [*MODELS, HYBRID]:
            shutil.copytree(GOLDEN_MODELS / name, root / name)
            (root / name / "tokenizer.json").write_text(json.dumps(tokenizer()))

    @classmethod
    def tearDownClass(cls):
        cls.folder.cleanup()

    def report(self, name, cell, memory=None):
        model = pathlib.Path(self.folder.name) / name
        values = {"limits__context_tokens": CONTEXT, "kv_cache__dtype": cell["dtype"],
                  "scheduler__plugin": cell["scheduler"], "kv_cache__plugin": cell["kv_cache"],
                  "engine__plan_ahead": cell["plan_ahead"]}
        if cell["kv_cache"] != "naive":
            values["kv_cache__block_tokens"] = 8
        if memory:
            values["kv_cache__memory"] = memory
            values["kv_cache__swap_memory"] = memory // 4
            values["limits__max_batch_tokens"] = 64
        if cell["drafter"] != "none":
            values["drafter__plugin"] = cell["drafter"]
        if cell["drafter"] == "draft_model":
            values["drafter__model"] = model
        return run_json("--model", model, "--workload", self.file, "--quiet", *settings(**values))

    def outcome(self, report):
        return [(r["tokens"], r["digest"]) for r in report["requests"]]

    def check(self, name):
        base = {}
        fired = {"preemptions": 0, "drafted_tokens": 0, "accepted_tokens": 0}
        for words in covering(AXES):
            cell = dict(zip(AXES, words))
            plain = {**cell, "scheduler": "static", "kv_cache": "naive", "drafter": "none",
                     "plan_ahead": 0}
            if cell["dtype"] not in base:
                report = self.report(name, plain)
                tokens = report["kv"]["blocks"] * report["kv"]["block_tokens"]
                base[cell["dtype"]] = self.outcome(report), report["kv"]["bytes"] // tokens
            expected, bytes_per_token = base[cell["dtype"]]
            # Memory for two sequences, or six regions; a draft model keeps as much again.
            memory = bytes_per_token * CONTEXT * (6 if cell["kv_cache"] == "naive" else 2)
            report = self.report(name, cell, memory * (2 if cell["drafter"] == "draft_model" else 1))
            with self.subTest(model=name, **cell):
                self.assertEqual(self.outcome(report), expected)
            for counter in fired:
                fired[counter] += report["totals"][counter]
        for counter, count in fired.items():
            self.assertGreater(count, 0, f"{name}: no {counter}")

    def test_latent_rows(self):
        self.check("deepseek_v2")
        self.check("deepseek_v3_experts")

    def test_positions_that_an_index_chooses(self):
        self.check("glm_moe_dsa")

    def test_an_index_needs_all_tokens(self):
        model = pathlib.Path(self.folder.name) / "glm_moe_dsa"
        kept = {"window_tokens": 32, "stride_tokens": 16}
        for plugin, options in [("streaming", kept), ("heavy_hitters", {**kept, "heavy_tokens": 16})]:
            done = run("run", "--model", model, "the fox", *settings(
                kv_cache__plugin=plugin,
                **{f"kv_cache__options__{key}": value for key, value in options.items()}))
            self.assertNotEqual(done.returncode, 0)
            self.assertIn("an index chooses among all of them", done.stderr)

    def test_layers_that_share_k_and_v(self):
        self.check("llama_shared_kv")

    def test_k_and_v_take_what_the_layers_store_to_the_byte(self):
        cell = {"scheduler": "static", "kv_cache": "paged", "drafter": "none", "dtype": "f32",
                "plan_ahead": 0}
        for name, elements in [("deepseek_v2", 3 * (20 + 8)), ("llama_shared_kv", 2 * 2 * 3 * 8),
                               ("glm_moe_dsa", 4 * (20 + 8) + 2 * 11)]:
            kv = self.report(name, cell)["kv"]
            self.assertEqual(kv["bytes"], 4 * elements * kv["blocks"] * kv["block_tokens"], name)

    def test_memory_of_tokens_and_of_states_are_told_apart(self):
        cell = {"scheduler": "continuous", "kv_cache": "paged", "drafter": "none", "dtype": "f32",
                "plan_ahead": 0}
        kv = self.report(HYBRID, cell)["kv"]
        self.assertEqual((kv["dtype"], kv["block_tokens"]), ("f32", 8))
        self.assertLessEqual(kv["peak_used_tokens"], kv["blocks"] * kv["block_tokens"])
        model = pathlib.Path(self.folder.name) / HYBRID
        said = run("config", "explain", *settings(model__path=model)).stdout
        # One layer attends with three heads of 6 for K and V each, in f32.
        self.assertRegex(said, r"# KV memory: \d+ blocks of \d+ tokens, 144 bytes a token\n")
        self.assertRegex(said, r"# state memory: \d+ slots of \d+ bytes\n")


if __name__ == "__main__":
    unittest.main()
