"""A checkpoint whose numbers are none is told by the name of the tensor, and nothing is made of it."""
import json
import math
import os
import pathlib
import shutil
import struct
import tempfile
import unittest

from program import GOLDEN_MODELS, SOURCE, run

SMALL = SOURCE / "configs/models/tale-draft"
TEXT = SOURCE / "configs/models/valid.txt"
MATRIX = "model.layers.0.mlp.down_proj.weight"
NORM = "model.norm.weight"
HEAD = "model.embed_tokens.weight"


class DamagedWeights(unittest.TestCase):
    def setUp(self):
        scratch = tempfile.TemporaryDirectory()
        self.addCleanup(scratch.cleanup)
        self.folder = pathlib.Path(scratch.name)

    def model_with(self, tensor, value, element=0):
        """The small model with one bf16 of `tensor` changed."""
        folder = self.folder / "model"
        shutil.rmtree(folder, ignore_errors=True)
        shutil.copytree(SMALL, folder)
        file = folder / "model.safetensors"
        data = bytearray(file.read_bytes())
        length = struct.unpack("<Q", data[:8])[0]
        entry = json.loads(data[8:8 + length])[tensor]
        self.assertEqual(entry["dtype"], "BF16")
        at = 8 + length + entry["data_offsets"][0] + 2 * element
        data[at:at + 2] = struct.pack("<f", value)[2:]
        file.write_bytes(data)
        return folder

    def made(self):
        return sorted(path.name for path in self.folder.iterdir() if path.name != "model")

    def test_the_matrix_is_named_when_it_is_loaded(self):
        for value in (math.nan, math.inf, -math.inf):
            model = self.model_with(MATRIX, value, element=4711)
            done = run("run", "The king", "--model", model, "--max-tokens", 4)
            self.assertEqual(done.returncode, 1)
            self.assertIn(f"no finite numbers, so that what is computed with them is none either: "
                          f"tensor '{MATRIX}'\n", done.stderr)
            self.assertIn("found no token", done.stderr)

    def test_the_scale_of_a_block_counts_as_the_values_of_the_matrix(self):
        sound, other, damaged = (self.folder / name for name in ("a.gguf", "b.gguf", "c.gguf"))
        for value, file in ((0.0, sound), (3.0, other)):
            model = self.model_with(MATRIX, value, element=4711)
            done = run("model", "convert", model, file, "--type", "q8_0")
            self.assertEqual(done.returncode, 0, done.stderr)
        # The files differ in one block, which begins with its scale: 3 / 127.
        data, before = bytearray(other.read_bytes()), sound.read_bytes()
        first = next(i for i, (a, b) in enumerate(zip(before, data)) if a != b)
        scale = struct.pack("<e", 3 / 127)
        at = next(i for i in (first, first - 1) if data[i:i + 2] == scale)
        for value in (math.nan, math.inf):
            data[at:at + 2] = struct.pack("<e", value)
            damaged.write_bytes(data)
            done = run("run", "The king", "--model", damaged, "--max-tokens", 4)
            self.assertEqual(done.returncode, 1)
            self.assertIn("either: tensor 'blk.0.ffn_down.weight'\n", done.stderr)
        self.assertEqual(run("run", "The king", "--model", sound, "--max-tokens", 4, "--quiet").stderr, "")

    def test_a_vector_is_named_when_the_model_is_opened(self):
        done = run("model", "info", self.model_with(NORM, math.nan))
        self.assertEqual(done.returncode, 0)
        self.assertIn(f"tensor '{NORM}'\n", done.stderr)

    def test_a_token_of_the_head_that_is_never_likely_is_named_too(self):
        model = self.model_with(HEAD, math.nan, element=128 * 4000)
        done = run("run", "The king", "--model", model, "--max-tokens", 4)
        self.assertEqual(done.returncode, 0)
        self.assertIn(f"'{HEAD}'", done.stderr)

    def test_sound_weights_are_told_nothing_of(self):
        self.assertEqual(run("run", "The king", "--model", SMALL, "--max-tokens", 4, "--quiet").stderr,
                         "")

    def test_no_perplexity_is_made_of_them(self):
        for tensor in (MATRIX, NORM, HEAD):
            done = run("model", "perplexity", self.model_with(tensor, math.nan), "--file", TEXT,
                       "--max-tokens", 40)
            self.assertEqual((done.returncode, done.stdout), (1, ""), tensor)
            self.assertIn("nothing predicts token 2 of the text: a logit is no finite number", done.stderr)

    def test_no_vector_is_made_of_them(self):
        for arguments in ([], ["--json"], ["--no-normalise"], ["--output", self.folder / "v.npy"]):
            done = run("embed", "The king", "--model", self.model_with(NORM, math.nan), *arguments)
            self.assertEqual((done.returncode, done.stdout), (1, ""), arguments)
            self.assertIn("vector has values that are no finite numbers", done.stderr)
        self.assertEqual(self.made(), [])

    def test_logits_are_written_as_they_are_and_told_of(self):
        out = self.folder / "l.npy"
        done = run("model", "logits", self.model_with(NORM, math.nan), "--tokens", "5,6", "--out", out)
        self.assertEqual(done.returncode, 0)
        self.assertIn("warning: 8192 of the logits are no finite numbers", done.stderr)

    def test_blocks_cannot_hold_them(self):
        model = self.model_with(MATRIX, math.nan)
        for arguments in (["convert", model, self.folder / "a.gguf", "--type", "q8_0"],
                          ["quantize", model, self.folder / "b.gguf", "--method", "q4_k"],
                          ["quantize", model, self.folder / "c", "--method", "rtn"]):
            done = run("model", *arguments)
            self.assertEqual(done.returncode, 1, arguments)
            self.assertIn(f"tensor '{MATRIX}' holds values that are no finite numbers", done.stderr)
        self.assertEqual(self.made(), [])

    def test_a_type_that_cannot_hold_a_value_is_refused(self):
        model = self.model_with(MATRIX, 1e6)
        for name, kind in (("a.gguf", "f16"), ("folder", "f16"), ("b.gguf", "q8_0")):
            done = run("model", "convert", model, self.folder / name, "--type", kind)
            self.assertEqual(done.returncode, 1, name)
            self.assertIn(f"tensor '{MATRIX}' holds a value of 999424.0, which '{kind}' cannot hold",
                          done.stderr)
        self.assertEqual(self.made(), [])
        for kind in ("f32", "bf16"):
            done = run("model", "convert", model, self.folder / kind, "--type", kind)
            self.assertEqual(done.returncode, 0, done.stderr)

    def test_a_run_that_failed_before_its_first_layer_leaves_nothing(self):
        damaged, out = self.model_with("model.layers.0.self_attn.q_proj.weight", math.nan), self.folder / "q"
        self.assertEqual(run("model", "quantize", damaged, out, "--method", "rtn").returncode, 1)
        self.assertEqual(self.made(), [])
        os.mkdir(out)  # this one is the user's
        self.assertEqual(run("model", "quantize", damaged, out, "--method", "rtn").returncode, 1)
        self.assertEqual(list(out.iterdir()), [])


class WhatIsNotUsed(unittest.TestCase):
    def setUp(self):
        scratch = tempfile.TemporaryDirectory()
        self.addCleanup(scratch.cleanup)
        self.folder = pathlib.Path(scratch.name)

    def test_bytes_behind_the_tensors_of_a_file_are_told_of(self):
        whole = (SOURCE / "tests/golden/gguf/llama_gqa_f32.gguf").read_bytes()
        file = self.folder / "m.gguf"
        for more, told in ((0, None), (1, "the last 1 bytes belong to no tensor"),
                           (4096, "the last 4096 bytes belong to no tensor")):
            file.write_bytes(whole + bytes(more))
            done = run("model", "info", file)
            self.assertEqual(done.returncode, 0)
            self.assertIn(told, done.stderr) if told else self.assertEqual(done.stderr, "")

    def test_layers_behind_the_last_are_told_of(self):
        model = self.folder / "model"
        shutil.copytree(GOLDEN_MODELS / "llama_gqa", model)
        config = json.loads((model / "config.json").read_text())
        self.assertEqual(config["num_hidden_layers"], 2)
        self.assertEqual(run("model", "info", model).stderr, "")
        (model / "config.json").write_text(json.dumps({**config, "num_hidden_layers": 1}))
        done = run("model", "info", model)
        self.assertEqual(done.returncode, 0)
        self.assertIn("tensors of layers 1 to 1 are not used: config.json has 1 layers", done.stderr)


    def test_zero_points_that_a_config_does_not_speak_of_are_refused(self):
        model = self.folder / "model"
        shutil.copytree(SOURCE / "tests/golden/published/ct_w4a16_zeros", model)
        asked = ["model", "logits", model, "--tokens", "5", "--out", self.folder / "l.npy"]
        config = json.loads((model / "config.json").read_text())
        weights = config["quantization_config"]["config_groups"]["group_0"]["weights"]
        self.assertEqual(weights["symmetric"], False)
        self.assertEqual(run(*asked).returncode, 0)
        del weights["symmetric"]
        (model / "config.json").write_text(json.dumps(config))
        done = run(*asked)
        self.assertEqual(done.returncode, 1)
        self.assertIn("zero points off the middle, but 'symmetric' is not false", done.stderr)


class LinksToNothing(unittest.TestCase):
    def test_a_file_that_is_a_link_to_nothing_is_not_taken_for_absent(self):
        with tempfile.TemporaryDirectory() as scratch:
            model = pathlib.Path(scratch) / "model"
            messages = pathlib.Path(scratch) / "m.json"
            messages.write_text('[{"role": "user", "content": "Hi"}]')
            for name, command in (("generation_config.json", ["run", "Hi", "--max-tokens", 1]),
                                  ("tokenizer_config.json", ["tokenize", "Hi"]),
                                  ("special_tokens_map.json", ["tokenize", "Hi"]),
                                  ("tokenizer.json", ["tokenize", "Hi"]),
                                  ("chat_template.jinja", ["chat", "render", "--messages", messages]),
                                  ("model.safetensors", ["model", "info"])):
                shutil.rmtree(model, ignore_errors=True)
                shutil.copytree(SOURCE / "configs/models/tale", model)
                (model / name).unlink(missing_ok=True)
                (model / name).symlink_to("blobs/0123")
                where = [model] if command[0] == "model" else ["--model", model]
                done = run(*command, *where)
                self.assertEqual(done.returncode, 1, name)
                self.assertIn(f"{name}': it is a link to nothing", done.stderr)


if __name__ == "__main__":
    unittest.main()
