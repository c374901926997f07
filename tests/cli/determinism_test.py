"""The determinism contract on real text: whatever composes the pipeline, the same request gives
the same tokens and the same digest of its logits."""
import itertools
import json
import pathlib
import tempfile
import unittest

from program import AARCH64, SANITIZED, run, run_json, settings

PROMPTS = ["Once upon a time there was a king who", "The fox", "Alice was beginning to get very",
           "In the middle of the night the old witch came to the door and said"]


class Determinism(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory()
        cls.file = pathlib.Path(cls.folder.name) / "prompts.jsonl"
        # Every prompt with several seeds and lengths.
        lines = [{"prompt": PROMPTS[i % 4], "seed": i, "max_tokens": 4 + i % 9}
                 for i in range(8 if SANITIZED else 32)]
        cls.file.write_text("".join(json.dumps(line) + "\n" for line in lines))
        cls.expected = cls.outcome([])

    @classmethod
    def tearDownClass(cls):
        cls.folder.cleanup()

    @classmethod
    def outcome(cls, flags):
        report = run_json("--file", cls.file, "--temperature", "0.8", "--ignore-eos", *flags)
        return [(r["tokens"], r["digest"]) for r in report["requests"]]

    def check(self, flags):
        self.assertEqual(self.outcome(flags), self.expected, " ".join(map(str, flags)))

    def test_schedulers_and_kv_managers(self):
        for scheduler, cache in itertools.product(["static", "continuous", "chunked", "fair"],
                                                  ["naive", "paged", "prefix", "radix"]):
            with self.subTest(scheduler=scheduler, cache=cache):
                self.check(settings(scheduler__plugin=scheduler, kv_cache__plugin=cache))

    def test_block_sizes(self):
        for tokens in [1, 16, 64]:
            with self.subTest(block_tokens=tokens):
                self.check(settings(kv_cache__block_tokens=tokens))

    def test_chunks_of_odd_sizes(self):
        for tokens in [1, 3, 7]:
            with self.subTest(chunk_tokens=tokens):
                self.check(settings(scheduler__options__chunk_tokens=tokens))
                for scheduler in ["chunked", "fair"]:
                    self.check(settings(scheduler__plugin=scheduler,
                                        scheduler__options__step_tokens=tokens))

    def test_threads(self):
        for threads in [1, 2, 3]:
            with self.subTest(threads=threads):
                self.check(["--threads", threads])

    def test_batches_of_any_size(self):
        for rows in [1, 5]:
            with self.subTest(max_sequences=rows):
                self.check(settings(limits__max_sequences=rows))

    def test_every_type_of_kv_keeps_the_contract(self):
        for dtype in ["f32", "f16", "i8", "i4"]:
            kind = settings(kv_cache__dtype=dtype)
            base = self.outcome(kind)
            for other in [settings(scheduler__plugin="static", kv_cache__plugin="naive"),
                          settings(kv_cache__block_tokens=1), ["--threads", 1],
                          settings(scheduler__options__chunk_tokens=3),
                          settings(limits__max_sequences=3)]:
                with self.subTest(dtype=dtype, flags=other):
                    self.assertEqual(self.outcome([*kind, *other]), base)

    def test_memory_so_short_that_sequences_wait_and_are_preempted(self):
        flags = settings(limits__context_tokens=64, kv_cache__memory="200KiB",
                         kv_cache__block_tokens=4)
        self.check(flags)
        totals = run_json("--file", self.file, "--temperature", "0.8", "--ignore-eos", *flags)["totals"]
        self.assertGreater(totals["preemptions"], 0)
        for scheduler in ["chunked", "fair"]:
            with self.subTest(scheduler=scheduler):
                self.check([*flags, *settings(scheduler__plugin=scheduler,
                                              scheduler__options__victim="least_cost",
                                              scheduler__options__preempt="swap")])

    def test_preempted_sequences_that_are_swapped(self):
        for cache, dtype in itertools.product(["paged", "prefix", "radix"], ["bf16", "i8"]):
            kind = settings(kv_cache__dtype=dtype)
            flags = [*kind, *settings(
                scheduler__options__preempt="swap", kv_cache__plugin=cache,
                kv_cache__swap_memory="1MiB", limits__context_tokens=64, kv_cache__block_tokens=4,
                kv_cache__memory="200KiB" if dtype == "bf16" else "105KiB")]
            with self.subTest(kv_cache=cache, dtype=dtype):
                self.assertEqual(self.outcome(flags), self.outcome(kind))
                totals = run_json("--file", self.file, "--temperature", "0.8", "--ignore-eos",
                                  *flags)["totals"]
                self.assertGreater(totals["swapped_out_tokens"], 0)
                self.assertGreater(totals["swapped_in_tokens"], 0)

    def test_drafters(self):
        models = pathlib.Path(__file__).parents[2] / "configs/models"
        kinds = [dict(drafter__plugin="ngram"),
                 dict(drafter__plugin="suffix", drafter__options__min_match=1),
                 dict(drafter__plugin="draft_model", drafter__model=models / "tale-draft"),
                 dict(drafter__plugin="eagle3", drafter__model=models / "tale-eagle3")]
        for kind, adaptive in itertools.product(kinds, ["true", "false"]):
            with self.subTest(**kind, adaptive=adaptive):
                self.check(settings(**kind, drafter__options__adaptive=adaptive))

    def test_drafters_with_memory_so_short_that_sequences_are_preempted(self):
        second = str(pathlib.Path(__file__).parents[2] / "configs/models/tale-draft")
        self.check(settings(drafter__plugin="draft_model", drafter__model=second,
                            drafter__options__adaptive="false", limits__context_tokens=64,
                            kv_cache__memory="233KiB", kv_cache__block_tokens=4))

    def test_drafters_with_shared_prefixes(self):
        second = str(pathlib.Path(__file__).parents[2] / "configs/models/tale-draft")
        for cache in ["prefix", "radix"]:
            with self.subTest(kv_cache=cache):
                self.check(settings(drafter__plugin="draft_model", drafter__model=second,
                                    drafter__options__adaptive="false", kv_cache__plugin=cache))

    def test_instruction_sets_have_numerics_of_their_own_and_keep_the_contract(self):
        for isa in ["portable", "neon"] if AARCH64 else ["portable", "avx2", "avx512"]:
            with self.subTest(isa=isa):
                base = self.outcome(["--isa", isa])
                static = self.outcome(["--isa", isa, "--threads", 1, *settings(
                    scheduler__plugin="static", kv_cache__plugin="naive")])
                self.assertEqual(base, static)


@unittest.skipIf(SANITIZED, "a grown model is too slow with sanitizers")
class GrownModel(unittest.TestCase):
    def test_a_grown_model_says_the_same_and_keeps_the_contract(self):
        with tempfile.TemporaryDirectory() as folder:
            grown = pathlib.Path(folder) / "grown"
            source = pathlib.Path(__file__).parents[2] / "configs/models/tale"
            done = run("model", "synth", "--grow", source, "--shape", "smollm-135m", "--out", grown)
            self.assertEqual(done.returncode, 0, done.stderr)
            flags = [PROMPTS[0], "--model", grown, "--temperature", 0, "--max-tokens", 12]
            small = run_json(PROMPTS[0], "--temperature", 0, "--max-tokens", 12)["requests"][0]
            base = run_json(*flags)["requests"][0]
            self.assertEqual(base["text"], small["text"])
            for other in [["--threads", 1], settings(scheduler__plugin="static"),
                          settings(kv_cache__plugin="naive"), settings(kv_cache__block_tokens=1),
                          settings(scheduler__options__chunk_tokens=3)]:
                with self.subTest(flags=other):
                    digest = run_json(*flags, *other)["requests"][0]["digest"]
                    self.assertEqual(digest, base["digest"])


if __name__ == "__main__":
    unittest.main(verbosity=2)
