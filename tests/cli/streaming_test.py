"""kv_cache "streaming": logits are those of a mask, answers do not depend on what composes the
pipeline, memory does not grow, and what cannot be is refused by name."""
import pathlib
import tempfile
import unittest

from combinations import AXES
from commands_test import read_npy
from evicting import GOLDEN, MODELS, EvictingAnswers, EvictingRefusals, kept_by
from program import run, run_json, settings

# As tests/golden/make_streaming_goldens.py says.
MASK = kept_by("streaming", sink_tokens=4, window_tokens=12, stride_tokens=8)(kv_cache__dtype="f32")
ROWS_APART = 5
# Sinks of 4, a window of 32 and strides of 16, in blocks of 4.
streaming = kept_by("streaming", sink_tokens=4, window_tokens=32, stride_tokens=16)
SEES = "streaming(sinks=4 window=32 stride=16)"


class Masks(unittest.TestCase):
    def logits(self, model, *flags):
        with tempfile.TemporaryDirectory() as folder:
            out = pathlib.Path(folder) / "logits.npy"
            done = run("model", "logits", MODELS / model, "--tokens-file", GOLDEN / "tokens.npy",
                       "--out", out, *MASK, *flags)
            self.assertEqual(done.returncode, 0, done.stderr)
            self.assertIn("streaming(sinks=4 window=12 stride=8)", done.stdout)
            return read_npy(out)

    def check(self, model):
        expected = read_npy(GOLDEN / f"{model}.npy")
        spread = max(map(max, expected)) - min(map(min, expected))
        for executor in ["ref", "cpu"]:
            with self.subTest(model=model, executor=executor):
                whole = self.logits(model, *settings(executor__plugin=executor))
                found = whole[::ROWS_APART]
                self.assertEqual(len(found), len(expected))
                worst = max(abs(a - b) for x, y in zip(found, expected) for a, b in zip(x, y))
                self.assertLess(worst, 1e-4 * spread)
                chunks = settings(executor__plugin=executor) + ["--chunks", "3,1,7"]
                self.assertEqual(self.logits(model, *chunks), whole)

    def test_rotated_keys(self):
        self.check("llama_gqa")

    def test_layers_with_a_window_beside_those_that_evict(self):
        self.check("gemma3")
        self.check("gpt_oss")

    def test_latent_rows(self):
        self.check("deepseek_v2")


class Answers(EvictingAnswers, unittest.TestCase):
    MANAGER, IN_GRID, SEES = "streaming", "streaming(sinks=8 window=24 stride=16)", SEES
    ALONE = streaming()
    ROOMY = streaming(kv_cache__options__window_tokens=104, limits__context_tokens=120)


class Memory(unittest.TestCase):
    def test_holds_a_window_of_a_text_as_long_as_the_context(self):
        report = run_json("Once upon a time", "--max-tokens", 500, "--ignore-eos",
                          *streaming(limits__max_sequences=1))
        kv = report["kv"]
        self.assertEqual(kv["blocks"] * kv["block_tokens"], 52)
        self.assertEqual(len(report["requests"][0]["tokens"]), 500)
        self.assertEqual(report["totals"]["preemptions"], 0)

    def test_is_enough_for_prompts_that_are_longer(self):
        prompt = "The fox said to the crow, come down. " * 12
        expected = None
        for scheduler in AXES["scheduler"]:
            with self.subTest(scheduler=scheduler):
                report = run_json(prompt, "--max-tokens", 20, "--ignore-eos", *streaming(
                    limits__max_sequences=1, scheduler__plugin=scheduler))
                self.assertGreater(report["requests"][0]["prompt_tokens"], 100)
                expected = expected or report["requests"][0]["digest"]
                self.assertEqual(report["requests"][0]["digest"], expected)

    def test_that_is_too_little_is_told_in_what_is_kept(self):
        done = run("run", "Hi", *streaming(kv_cache__memory=1000))
        self.assertEqual(done.returncode, 1)
        self.assertIn(f"as much as is kept of it ({SEES})", done.stderr)


class Refusals(EvictingRefusals, unittest.TestCase):
    MANAGER, WITH = "streaming", staticmethod(streaming)


if __name__ == "__main__":
    unittest.main()
