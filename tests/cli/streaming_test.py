"""kv_cache "streaming": logits are those of a mask, answers do not depend on what composes the
pipeline, memory does not grow, and what cannot be is refused by name."""
import json
import pathlib
import tempfile
import unittest

from combinations import AXES, Grid, covering
from commands_test import read_npy
from program import MODEL, SANITIZED, SOURCE, run, run_json, settings

GOLDEN = SOURCE / "tests/golden/streaming"
MODELS = SOURCE / "tests/golden/models"
# As tests/golden/make_streaming_goldens.py says.
MASK = settings(kv_cache__plugin="streaming", kv_cache__block_tokens=4, kv_cache__dtype="f32",
                kv_cache__options__sink_tokens=4, kv_cache__options__window_tokens=12,
                kv_cache__options__stride_tokens=8)
ROWS_APART = 5
OF_ITS_OWN = {**AXES, "kv_cache": ["streaming"], "drafter": ["none", "ngram", "suffix"]}


def streaming(**values):
    """Sinks of 4, a window of 32 and strides of 16, in blocks of 4."""
    options = {"sink_tokens": 4, "window_tokens": 32, "stride_tokens": 16}
    options = {f"kv_cache__options__{key}": value for key, value in options.items()}
    return settings(kv_cache__plugin="streaming", kv_cache__block_tokens=4, **{**options, **values})


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


class Answers(unittest.TestCase):
    def check(self, grid):
        grid.run(2)
        self.assertEqual([], [f"{words}: {result}" for words, result in grid.results.items()
                              if isinstance(result, str)])
        ids = {numerics for numerics, _ in grid.answers.values()}
        self.assertEqual(len(ids), len(OF_ITS_OWN["dtype"]))
        for numerics in ids:
            self.assertTrue(numerics.endswith(",streaming(sinks=8 window=24 stride=16)"), numerics)
        return {name: sum(result[name] for result in grid.results.values())
                for name in ["preemptions", "swaps", "copies", "drafted", "accepted"]}

    def test_are_the_same_for_every_pair_of_strategies(self):
        counters = self.check(Grid(OF_ITS_OWN, covering(OF_ITS_OWN), plain="streaming"))
        self.assertTrue(all(counters.values()), counters)

    @unittest.skipIf(SANITIZED, "slow")
    def test_are_the_same_when_steps_are_planned_ahead(self):
        self.check(Grid(OF_ITS_OWN, covering(OF_ITS_OWN), plan_ahead=True, plain="streaming"))

    def test_are_those_of_paged_while_nothing_is_evicted(self):
        def answer(*flags):
            report = run_json("Once upon a time", "--max-tokens", 60, "--ignore-eos", *flags)
            return report["pipeline"]["numerics"], report["requests"][0]["digest"]
        paged = answer(*settings(kv_cache__plugin="paged", kv_cache__block_tokens=4))
        roomy = {"kv_cache__options__window_tokens": 104, "limits__context_tokens": 120}
        self.assertEqual(answer(*streaming(**roomy)), paged)
        numerics, digest = answer(*streaming())
        self.assertEqual(numerics, paged[0] + ",streaming(sinks=4 window=32 stride=16)")
        self.assertNotEqual(digest, paged[1])


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
        self.assertIn("as much as is kept of it (streaming(sinks=4 window=32 stride=16))", done.stderr)


class Refusals(unittest.TestCase):
    def refused(self, *arguments):
        done = run("config", "check", *arguments)
        self.assertEqual(done.returncode, 1, done.stdout)
        return done.stderr

    def test_a_second_model_cannot_catch_up(self):
        error = self.refused(*streaming(drafter__plugin="draft_model",
                                        drafter__model=SOURCE / "configs/models/tale-draft"))
        self.assertIn("draft.needs", error)
        self.assertIn('kv_cache "streaming"', error)

    def test_a_model_of_windows_alone_has_nothing_to_evict(self):
        error = self.refused(*streaming(model__path=MODELS / "mistral_window"))
        self.assertIn("kv_cache 'streaming' has nothing to evict", error)


if __name__ == "__main__":
    unittest.main()
