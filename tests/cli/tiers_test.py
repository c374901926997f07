"""K/V that outlives its process: what a folder has is read instead of computed, and tokens and digests
are those of computing everything, for every kind of layer, K/V type and drafter."""
import concurrent.futures
import json
import pathlib
import shutil
import tempfile
import unittest

import combinations
import layers_test
from program import GOLDEN_MODELS, SOURCE, run, run_json, settings

HYBRIDS = ["granite4"]
LAYERS = layers_test.MODELS + HYBRIDS
DTYPES = ["f32", "f16", "bf16", "i8", "i4"]


def answers(report):
    return [(request["tokens"], request["digest"]) for request in report["requests"]]


class Tiers(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory()
        cls.root = pathlib.Path(cls.folder.name)
        cls.stories = cls.root / "stories.toml"
        cls.stories.write_text(combinations.workload())
        cls.letters = cls.root / "letters.toml"
        cls.letters.write_text(layers_test.workload())
        for name in LAYERS:
            shutil.copytree(GOLDEN_MODELS / name, cls.root / name)
            (cls.root / name / "tokenizer.json").write_text(json.dumps(layers_test.tokenizer()))

    @classmethod
    def tearDownClass(cls):
        cls.folder.cleanup()

    def setUp(self):
        scratch = tempfile.TemporaryDirectory()
        self.addCleanup(scratch.cleanup)
        self.kv = pathlib.Path(scratch.name) / "kv"

    def tiers(self, **more):
        return settings(kv_cache__tiers__1__kind="disk", kv_cache__tiers__1__path=self.kv,
                        kv_cache__tiers__1__memory="64 MiB", **more)

    def days(self, flags, twice=True):
        """Without tiers, then with them on two days. Returns what the last one says of them."""
        expected = answers(run_json(*flags))
        for day in ["first", "second"] if twice else ["first"]:
            report = run_json(*flags, *self.tiers())
            self.assertEqual(answers(report), expected, f"{day} day: {' '.join(map(str, flags))}")
        said = report["kv_tiers"]
        self.assertEqual(said["stores"][0]["damaged"], 0)
        self.assertEqual(said["stores"][0]["faults"], 0)
        return said

    def flags(self, model, requests, **values):
        values.setdefault("limits__context_tokens", 192)
        values.setdefault("kv_cache__plugin", "prefix")
        values.setdefault("kv_cache__block_tokens", 8)
        flags = ["--workload", requests, *settings(**values)]
        return flags if model is None else ["--model", model, *flags]

    def test_every_type_of_k_and_v_under_both_managers(self):
        for index, dtype in enumerate(DTYPES):
            with self.subTest(dtype=dtype):
                manager = ["prefix", "radix"][index % 2]
                said = self.days(self.flags(None, self.stories, kv_cache__dtype=dtype,
                                            kv_cache__plugin=manager,
                                            engine__plan_ahead=index // 2 % 2))
                self.assertGreater(said["found_tokens"], 40)
                shutil.rmtree(self.kv)

    def test_latent_shared_chosen_and_recurrent_layers(self):
        for index, name in enumerate(LAYERS):
            with self.subTest(name):
                said = self.days(self.flags(self.root / name, self.letters,
                                            limits__context_tokens=96,
                                            kv_cache__plugin=["prefix", "radix"][index % 2],
                                            scheduler__plugin=["chunked", "continuous"][index % 2]))
                self.assertGreater(said["found_tokens"], 0)
                shutil.rmtree(self.kv)

    def test_drafters(self):
        for drafter in ["ngram", "draft_model"]:
            with self.subTest(drafter):
                more = {"drafter__plugin": drafter}
                if drafter == "draft_model":
                    more["drafter__model"] = SOURCE / "configs/models/tale-draft"
                said = self.days(self.flags(None, self.stories, **more))
                self.assertGreater(said["found_tokens"], 40)
                shutil.rmtree(self.kv)

    def test_memory_for_hardly_one_sequence_so_that_everything_goes_down_and_up(self):
        bytes_per_token = run_json(*self.flags(None, self.stories, limits__max_sequences=1))["kv"]
        tokens = bytes_per_token["blocks"] * bytes_per_token["block_tokens"]
        memory = bytes_per_token["bytes"] // tokens * 2 * 192
        for preempt in ["recompute", "swap"]:
            with self.subTest(preempt):
                said = self.days(self.flags(
                    None, self.stories, scheduler__plugin="chunked", kv_cache__memory=memory,
                    kv_cache__swap_memory=memory // 2 if preempt == "swap" else 0,
                    scheduler__options__preempt=preempt))
                self.assertGreater(said["found_tokens"], 40)

    def test_processes_that_share_a_folder(self):
        flags = self.flags(None, self.stories)
        expected = answers(run_json(*flags))
        with concurrent.futures.ThreadPoolExecutor(3) as pool:
            reports = list(pool.map(lambda _: run_json(*flags, *self.tiers()), range(3)))
        for report in reports:
            self.assertEqual(answers(report), expected)
            self.assertEqual(report["kv_tiers"]["stores"][0]["damaged"], 0)

    def test_a_copy_of_a_model_finds_the_same_and_another_model_nothing(self):
        model, copy = self.root / LAYERS[0], self.kv.parent / "copy"
        flags = lambda path: self.flags(path, self.letters, limits__context_tokens=96)
        run_json(*flags(model), *self.tiers())
        shutil.copytree(model, copy)
        found = run_json(*flags(copy), *self.tiers())["kv_tiers"]["found_tokens"]
        self.assertGreater(found, 0)
        config = json.loads((copy / "config.json").read_text())
        config["rope_theta"] = 12345.0
        (copy / "config.json").write_text(json.dumps(config))
        found = run_json(*flags(copy), *self.tiers())["kv_tiers"]["found_tokens"]
        self.assertEqual(found, 0)

    def test_files_that_were_cut_or_changed_cost_no_token(self):
        flags = self.flags(None, self.stories)
        expected = answers(run_json(*flags, *self.tiers()))
        for number, path in enumerate(sorted(self.kv.glob("*/*.kv"))):
            data = bytearray(path.read_bytes())
            if number % 3 == 0:
                data[len(data) // 2] ^= 1
            path.write_bytes(data[:-5] if number % 3 == 1 else data)
        report = run_json(*flags, *self.tiers())
        self.assertEqual(answers(report), expected)
        self.assertGreater(report["kv_tiers"]["stores"][0]["damaged"], 0)

    def test_a_quota_is_kept(self):
        run_json(*self.flags(None, self.stories), *settings(
            kv_cache__tiers__1__kind="disk", kv_cache__tiers__1__path=self.kv,
            kv_cache__tiers__1__memory="300 KiB"))
        held = sum(path.stat().st_size for path in self.kv.glob("*/*.kv"))
        self.assertGreater(held, 0)
        self.assertLessEqual(held, 300 * 1024)

    def test_a_tier_that_no_block_fits_into_is_refused(self):
        for kind in ("disk", "host"):
            path = {"kv_cache__tiers__1__path": self.kv} if kind == "disk" else {}
            self.assertRegex(self.refused(*settings(
                kv_cache__plugin="prefix", kv_cache__block_tokens=8, kv_cache__tiers__1__kind=kind,
                kv_cache__tiers__1__memory="4KiB", **path)),
                r"kv_cache.tiers.1.memory is 4096 bytes, but a block of 8 tokens takes \d+ there – raise it")

    def refused(self, *flags):
        done = run("run", "x", "--max-tokens", 1, *flags)
        self.assertNotEqual(done.returncode, 0)
        return done.stderr

    def test_what_cannot_have_tiers_says_so(self):
        self.assertIn(
            "there are [[kv_cache.tiers]], but kv_cache \"paged\" keeps nothing of sequences that ended, "
            "and what comes from a tier would be lost – set kv_cache.plugin to \"prefix\" or \"radix\"",
            self.refused(*self.tiers(kv_cache__plugin="paged")).replace("'paged'", '"paged"'))
        (self.kv.parent / "file").write_text("")
        self.assertIn("making the folder", self.refused(*settings(
            kv_cache__plugin="prefix", kv_cache__tiers__1__kind="disk",
            kv_cache__tiers__1__path=self.kv.parent / "file", kv_cache__tiers__1__memory="1GiB")))


if __name__ == "__main__":
    unittest.main()
