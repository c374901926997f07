"""A model multiplied by oneDNN says what it says with our own kernels."""
import json
import pathlib
import tempfile
import unittest

from program import MODEL, SOURCE, run, run_json, settings

ONEDNN = settings(linear__plugin="onednn")
DENSE = settings(linear__plugin="dense")


class OneDnn(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory()
        cls.model = pathlib.Path(cls.folder.name) / "f32.gguf"
        made = run("model", "convert", MODEL, cls.model, "--type", "f32")
        assert made.returncode == 0, made.stderr

    @classmethod
    def tearDownClass(cls):
        cls.folder.cleanup()

    def greedy(self, *flags):
        report = run_json("Once upon a time", "--model", self.model, "--max-tokens", 48,
                          "--temperature", 0, "--ignore-eos", *flags)
        return report["requests"][0]["tokens"]

    def perplexity(self, model, *flags):
        done = run("model", "perplexity", model, "--json", "--max-tokens", 300,
                   "--file", SOURCE / "configs/models/valid.txt", *flags)
        self.assertEqual(done.returncode, 0, done.stderr)
        return json.loads(done.stdout)["perplexity"]

    def test_f32_weights_give_the_tokens_of_dense(self):
        for isa in ["portable", "avx2", "avx512"]:
            with self.subTest(isa=isa):
                expected = self.greedy(*DENSE, "--isa", isa)
                self.assertEqual(self.greedy(*ONEDNN, "--isa", isa), expected)

    def test_texts_are_predicted_as_well_as_by_dense(self):
        expected = self.perplexity(self.model, *DENSE)
        self.assertAlmostEqual(self.perplexity(self.model, *ONEDNN) / expected, 1, delta=1e-4)

    def test_activations_rounded_to_bf16_cost_little(self):
        if "avx512" not in pathlib.Path("/proc/cpuinfo").read_text():
            self.skipTest("oneDNN multiplies bf16 with AVX-512")
        expected = self.perplexity(MODEL, *DENSE)
        self.assertAlmostEqual(self.perplexity(MODEL, *ONEDNN) / expected, 1, delta=5e-3)

    def test_the_file_that_shows_it_composes(self):
        report = run_json("Hi", "--config", SOURCE / "configs/pipelines/onednn.toml", "--model",
                          self.model, "--max-tokens", 2)
        self.assertIn("onednn-2.", json.dumps(report))

    def test_a_pipeline_that_wants_invariant_rows_is_told_who_has_none_and_what_to_try(self):
        done = run("config", "check", *ONEDNN, *settings(executor__deterministic="true"))
        self.assertNotEqual(done.returncode, 0)
        self.assertRegex(done.stderr, r"linear onednn +: batch +\(--set\)")
        self.assertIn('try: executor.deterministic = false, or linear.plugin = "dense" (invariant)',
                      done.stderr)


if __name__ == "__main__":
    unittest.main()
