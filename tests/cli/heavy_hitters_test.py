"""kv_cache "heavy_hitters": answers do not depend on what composes the pipeline, memory does not
grow, and what cannot be is refused by name."""
import pathlib
import tempfile
import unittest

from commands_test import read_npy
from evicting import GOLDEN, MODELS, EvictingAnswers, EvictingRefusals, answer, kept_by
from program import run, run_json

# Sinks of 4, 12 heavy ones, a window of 16 and strides of 16, in blocks of 4.
heavy = kept_by("heavy_hitters", sink_tokens=4, heavy_tokens=12, window_tokens=16, stride_tokens=16)
SEES = "heavy_hitters(sinks=4 heavy=12 window=16 stride=16)"


class Logits(unittest.TestCase):
    def logits(self, model, *flags):
        with tempfile.TemporaryDirectory() as folder:
            out = pathlib.Path(folder) / "logits.npy"
            done = run("model", "logits", MODELS / model, "--tokens-file", GOLDEN / "tokens.npy",
                       "--out", out, *flags)
            self.assertEqual(done.returncode, 0, done.stderr)
            self.assertIn(SEES, done.stdout)
            return read_npy(out)

    def test_are_the_same_bits_for_every_chunking_block_size_and_number_of_threads(self):
        for model in ["llama_gqa", "gemma3", "gpt_oss", "deepseek_v2"]:
            for executor in ["ref", "cpu"]:
                with self.subTest(model=model, executor=executor):
                    whole = self.logits(model, *heavy(executor__plugin=executor))
                    for blocks, chunks in [(4, "3,1,7"), (1, "13"), (16, "1")]:
                        cut = heavy(executor__plugin=executor, kv_cache__block_tokens=blocks)
                        self.assertEqual(
                            self.logits(model, *cut, "--chunks", chunks, "--threads", 2), whole)

    def test_of_both_executors_are_near(self):
        both = [self.logits("llama_gqa", *heavy(executor__plugin=executor, kv_cache__dtype="f32"))
                for executor in ["ref", "cpu"]]
        spread = max(map(max, both[0])) - min(map(min, both[0]))
        worst = max(abs(a - b) for x, y in zip(*both) for a, b in zip(x, y))
        self.assertLess(worst, 1e-4 * spread)


class Answers(EvictingAnswers, unittest.TestCase):
    MANAGER, IN_GRID, SEES = "heavy_hitters", SEES, SEES
    ALONE = heavy()
    ROOMY = heavy(kv_cache__options__window_tokens=88, limits__context_tokens=119)

    def test_are_not_those_of_as_many_sinks_and_the_same_window(self):
        first = kept_by("streaming", sink_tokens=16, window_tokens=16, stride_tokens=16)
        self.assertNotEqual(answer(*first())[1], answer(*heavy())[1])

    def test_of_beams_are_the_same_in_little_memory(self):
        def beams(**values):
            report = run_json("Once upon a time there was a", "--max-tokens", 60, "--beams", 3,
                              "--ignore-eos", *heavy(limits__max_sequences=3, **values))
            return [request["tokens"] for request in report["requests"]]
        per_token = run_json("Hi", "--max-tokens", 1, *heavy())["kv"]
        per_token = per_token["bytes"] // (per_token["blocks"] * per_token["block_tokens"])
        self.assertEqual(beams(kv_cache__memory=144 * per_token, scheduler__plugin="chunked",
                               limits__max_batch_tokens=16), beams())


class Memory(unittest.TestCase):
    def test_holds_the_same_of_a_text_as_long_as_the_context(self):
        report = run_json("Once upon a time", "--max-tokens", 500, "--ignore-eos",
                          *heavy(limits__max_sequences=1))
        kv = report["kv"]
        self.assertEqual(kv["blocks"] * kv["block_tokens"], 48)
        self.assertEqual(len(report["requests"][0]["tokens"]), 500)
        self.assertEqual(report["totals"]["preemptions"], 0)


class Refusals(EvictingRefusals, unittest.TestCase):
    MANAGER, WITH = "heavy_hitters", staticmethod(heavy)

    def test_entries_that_are_moved_cannot_count_distances(self):
        error = self.refused(model__path=MODELS / "bloom", limits__context_tokens=64)
        self.assertIn("layer 0 weighs distances (ALiBi)", error)
        self.assertIn("kv_cache 'streaming' keeps their order", error)


if __name__ == "__main__":
    unittest.main()
