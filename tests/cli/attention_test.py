"""`attention.options.products`: other bits under another name, the same however they are made."""
import json
import pathlib
import tempfile
import unittest

from program import GOLDEN_MODELS, run, run_json, settings

PAIRS = settings(attention__options__products="bf16", kv_cache__dtype="bf16")
PROCESSOR = pathlib.Path("/proc/cpuinfo")
HAS_PAIRS = PROCESSOR.exists() and "avx512_bf16" in PROCESSOR.read_text()
HAS_BYTES = PROCESSOR.exists() and "avx512_vnni" in PROCESSOR.read_text()
LATENT = GOLDEN_MODELS / "deepseek_v2"
HEADS = GOLDEN_MODELS / "qwen2"


def in_bytes(dtype):
    return settings(attention__options__products="int8", kv_cache__dtype=dtype)


class Attention(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory()
        cls.file = pathlib.Path(cls.folder.name) / "prompts.jsonl"
        lines = [{"prompt": [(5 * i + 7 * j) % 99 for j in range(9 + 11 * i)], "seed": i,
                  "max_tokens": 5 + i} for i in range(6)]
        cls.file.write_text("".join(json.dumps(line) + "\n" for line in lines))

    @classmethod
    def tearDownClass(cls):
        cls.folder.cleanup()

    def report(self, *flags, model=LATENT):
        return run_json("--file", self.file, "--model", model, "--ignore-eos", *flags)

    @staticmethod
    def outcome(report):
        return [(request["tokens"], request["digest"]) for request in report["requests"]]

    @unittest.skipUnless(HAS_PAIRS, "no AVX-512 BF16")
    def test_pairs_have_numerics_of_their_own_and_the_same_bits_whatever_a_step_is_made_of(self):
        alone = self.report(*PAIRS)
        self.assertIn("+cpu/avx512_bf16 kv=bf16", alone["pipeline"]["numerics"])
        plain = self.report(*settings(kv_cache__dtype="bf16"))
        self.assertIn("+cpu/avx512 kv=bf16", plain["pipeline"]["numerics"])
        self.assertNotEqual(self.outcome(alone), self.outcome(plain))
        for flags in self.WAYS:
            with self.subTest(flags=flags):
                self.assertEqual(self.outcome(self.report(*PAIRS, *flags)), self.outcome(alone))

    @unittest.skipUnless(HAS_BYTES, "no AVX-512 VNNI")
    def test_bytes_have_numerics_of_their_own_and_the_same_bits_whatever_a_step_is_made_of(self):
        for dtype in ["i8", "i4"]:
            alone = self.report(*in_bytes(dtype), model=HEADS)
            self.assertIn(f"+cpu/avx512_vnni kv={dtype}", alone["pipeline"]["numerics"])
            plain = self.report(*settings(kv_cache__dtype=dtype), model=HEADS)
            self.assertIn(f"+cpu/avx512 kv={dtype}", plain["pipeline"]["numerics"])
            self.assertNotEqual(self.outcome(alone), self.outcome(plain))
            for flags in self.WAYS:
                with self.subTest(dtype=dtype, flags=flags):
                    other = self.report(*in_bytes(dtype), *flags, model=HEADS)
                    self.assertEqual(self.outcome(other), self.outcome(alone))

    # A step is made of other rows and blocks, and shared out otherwise.
    WAYS = [["--threads", 1], ["--threads", 3],
            settings(scheduler__plugin="chunked", scheduler__options__step_tokens=7),
            settings(kv_cache__block_tokens=1), settings(kv_cache__plugin="prefix"),
            settings(limits__max_sequences=1), settings(drafter__plugin="suffix")]

    def refused(self, words, *flags):
        done = run("run", "--file", self.file, "--model", LATENT, *flags)
        self.assertNotEqual(done.returncode, 0)
        for word in words:
            self.assertIn(word, done.stderr)

    def test_what_pairs_lack_is_named(self):
        self.refused(["avx512_bf16", "--isa"], *PAIRS, "--isa", "avx2")
        if HAS_PAIRS:
            self.refused(["kv.dtype is f32", "products"], *PAIRS, *settings(kv_cache__dtype="f32"))
        self.refused(["products", "f32"], *settings(attention__options__products="f8"))

    def test_what_bytes_lack_is_named(self):
        self.refused(["avx512_vnni", "--isa"], *in_bytes("i8"), "--isa", "avx2")
        if HAS_BYTES:
            self.refused(["kv.dtype is bf16", "products"], *in_bytes("bf16"))


if __name__ == "__main__":
    unittest.main(verbosity=2)
