"""Two models compared, and models made smaller."""
import json
import math
import pathlib
import shutil
import struct
import subprocess
import tempfile
import time
import unittest

from program import BINARY, MODEL, SOURCE, run

TEXT = SOURCE / "configs/models/valid.txt"


def tensors_of(path):
    """Name → (dtype, shape, bytes) of a .safetensors file."""
    data = pathlib.Path(path).read_bytes()
    length = struct.unpack("<Q", data[:8])[0]
    header = json.loads(data[8:8 + length])
    header.pop("__metadata__", None)
    begin = 8 + length
    return {name: (entry["dtype"], entry["shape"],
                   data[begin + entry["data_offsets"][0]:begin + entry["data_offsets"][1]])
            for name, entry in header.items()}


def change_tensor(path, name, change):
    """Writes change(bytes) over the bytes of one tensor."""
    data = bytearray(pathlib.Path(path).read_bytes())
    length = struct.unpack("<Q", data[:8])[0]
    begin, end = json.loads(data[8:8 + length])[name]["data_offsets"]
    begin, end = 8 + length + begin, 8 + length + end
    data[begin:end] = change(bytes(data[begin:end]))
    pathlib.Path(path).write_bytes(data)


class Case(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)

    def done(self, *arguments):
        done = run(*arguments)
        self.assertEqual(done.returncode, 0, done.stderr)
        return done.stdout

    def refused(self, text, *arguments):
        done = run(*arguments)
        self.assertEqual(done.returncode, 1, done.stdout)
        self.assertIn(text, done.stderr)

    def compare(self, other, *flags, base=MODEL):
        return json.loads(self.done("model", "compare", base, other, "--file", TEXT, "--max-tokens",
                                    1024, "--context", 128, "--json", *flags))

    def copy_of_model(self):
        copy = self.folder / "copy"
        shutil.copytree(MODEL, copy)
        return copy


class Compare(Case):
    def test_a_model_does_not_differ_from_itself(self):
        report = self.compare(MODEL)
        self.assertEqual(report["kl_nats_per_token"]["estimate"], 0)
        self.assertEqual(report["same_top"]["estimate"], 1)
        self.assertEqual(report["nats_per_token_more"]["estimate"], 0)
        self.assertEqual(report["layer_errors"], [0] * 7)
        self.assertNotIn("layer_that_adds_most", report)

    def test_both_perplexities_are_those_of_the_models_alone(self):
        report = self.compare(SOURCE / "configs/models/tale-draft")
        for which, model in [("base", MODEL), ("other", SOURCE / "configs/models/tale-draft")]:
            alone = json.loads(self.done("model", "perplexity", model, "--file", TEXT, "--max-tokens",
                                         1024, "--context", 128, "--json"))
            self.assertAlmostEqual(report[which]["perplexity"] / alone["perplexity"], 1, 6)
            self.assertEqual(report["predicted_tokens"], alone["predicted_tokens"])

    def test_intervals_hold_what_they_are_about(self):
        report = self.compare(SOURCE / "configs/models/tale-draft")
        for key in ["kl_nats_per_token", "same_top", "nats_per_token_more"]:
            value = report[key]
            self.assertLess(value["low"], value["estimate"], key)
            self.assertLess(value["estimate"], value["high"], key)
        more = math.log(report["other"]["perplexity"] / report["base"]["perplexity"])
        self.assertAlmostEqual(report["nats_per_token_more"]["estimate"], more, 9)

    def test_the_layer_is_found_where_a_difference_begins(self):
        copy = self.copy_of_model()
        change_tensor(copy / "model.safetensors", "model.layers.3.mlp.down_proj.weight",
                      lambda data: bytes(len(data)))
        report = self.compare(copy)
        self.assertEqual(report["layer_errors"][:3], [0, 0, 0])
        self.assertGreater(report["layer_errors"][3], 0.01)
        self.assertEqual(report["difference_begins_behind_layer"], 3)
        text = self.done("model", "compare", MODEL, copy, "--file", TEXT, "--max-tokens", 256)
        self.assertIn("the difference begins behind layer 3", text)

    def test_layers_are_left_out_where_models_have_others(self):
        self.assertEqual(self.compare(SOURCE / "configs/models/tale-draft")["layer_errors"], [])

    def test_what_cannot_be_compared_is_refused(self):
        compare = ["model", "compare", MODEL, MODEL, "--file", TEXT]
        self.refused("windows of 4096 tokens; expected 2 to the shorter context, 2048", *compare,
                     "--context", 4096)
        self.refused("the text has 1 tokens; a prediction needs at least 2", *compare,
                     "--max-tokens", 1)
        copy = self.copy_of_model()
        tokenizer = json.loads((copy / "tokenizer.json").read_text())
        vocabulary = tokenizer["model"]["vocab"]
        vocabulary["A"], vocabulary["T"] = vocabulary["T"], vocabulary["A"]
        (copy / "tokenizer.json").write_text(json.dumps(tokenizer))
        self.refused("read the text differently", "model", "compare", MODEL, copy, "--file", TEXT)


class Quantize(Case):
    """Of the bundled model, by its draft where a small one will do."""
    SMALL = SOURCE / "configs/models/tale-draft"

    def setUp(self):
        super().setUp()
        words = TEXT.read_text()
        self.learn, self.judge = self.folder / "learn.txt", self.folder / "judge.txt"
        self.learn.write_text(words[:12000])
        self.judge.write_text(words[60000:68000])

    def quantize(self, name, *flags, model=MODEL):
        out = self.folder / name
        self.said = self.done("model", "quantize", model, out, *flags)
        return out

    def loss(self, model, base=MODEL):
        report = json.loads(self.done("model", "compare", base, model, "--file", self.judge,
                                      "--context", 256, "--json", "--set", "linear.plugin=dense"))
        return report["kl_nats_per_token"]["estimate"]

    def test_gptq_and_awq_lose_less_than_rounding(self):
        text = ["--calibrate", self.learn, "--context", 64]
        three = ["--bits", 3, "--group", 64]
        rounded = self.loss(self.quantize("rtn3", "--method", "rtn", *three))
        gptq = self.loss(self.quantize("gptq3", "--method", "gptq", *three, *text))
        self.assertLess(gptq, 0.8 * rounded)
        rounded = self.loss(self.quantize("rtn4", "--method", "rtn"))
        awq = self.loss(self.quantize("awq4", "--method", "awq", *text))
        self.assertLess(awq, 0.85 * rounded)

    def test_a_budget_is_kept_and_buys_more_than_one_width_for_all(self):
        text = ["--calibrate", self.learn, "--context", 64, "--windows", 8]
        flags = ["--method", "rtn", "--group", 64]
        one = self.quantize("one", *flags, "--bits", 3, model=self.SMALL)
        width = float(self.said.split("with ")[1].split()[0])
        mixed = self.quantize("mixed", *flags, "--bits", width - 0.001, *text, model=self.SMALL)
        self.assertLessEqual(float(self.said.split("with ")[1].split()[0]), width)
        self.assertIn(" matrices with 3 bits", self.said)
        self.assertLess(self.loss(mixed, base=self.SMALL), self.loss(one, base=self.SMALL))
        dynamic = json.loads((mixed / "config.json").read_text())["quantization_config"]["dynamic"]
        self.assertTrue(all(key.startswith("+:^model\\.layers\\.") for key in dynamic), dynamic)
        self.refused("a budget of 2.100 bits a weight; the least that these groups allow is 2.",
                     "model", "quantize", self.SMALL, self.folder / "x", *flags, "--bits", 2.1,
                     *text)

    def test_eight_bits_lose_next_to_nothing(self):
        for method, most in [("int8", 2e-4), ("fp8", 2e-3)]:
            out = self.quantize(method, "--method", method, model=self.SMALL)
            self.assertLess(self.loss(out, base=self.SMALL), most, method)

    def test_a_folder_is_whole_and_says_how_it_was_made(self):
        out = self.quantize("q", "--method", "rtn", "--group", 64, model=self.SMALL)
        self.assertIn("14 matrices with 4.", self.said)
        config = json.loads((out / "config.json").read_text())["quantization_config"]
        self.assertEqual((config["quant_method"], config["bits"], config["group_size"]),
                         ("gptq", 4, 64))
        self.assertEqual(sorted(path.name for path in out.iterdir()),
                         sorted(path.name for path in self.SMALL.iterdir()))
        tensors, before = tensors_of(out / "model.safetensors"), tensors_of(
            self.SMALL / "model.safetensors")
        name = "model.layers.1.mlp.down_proj"
        self.assertEqual(tensors[name + ".qweight"][:2], ("I32", [384 // 8, 128]))
        self.assertNotIn(name + ".weight", tensors)
        for plain in ["model.embed_tokens.weight", "model.layers.1.input_layernorm.weight"]:
            self.assertEqual(tensors[plain], before[plain])
        self.assertIn("a", self.done("run", "The", "--model", out, "--max-tokens", 8))

    def test_the_same_bytes_come_out_again(self):
        flags = ["--method", "gptq", "--act-order", "--group", 32, "--calibrate", self.learn,
                 "--context", 128]
        first = self.quantize("a", *flags, model=self.SMALL)
        second = self.quantize("b", *flags, model=self.SMALL)
        self.assertEqual((first / "model.safetensors").read_bytes(),
                         (second / "model.safetensors").read_bytes())

    def test_an_interrupted_run_goes_on(self):
        flags = ["--method", "gptq", "--calibrate", self.learn, "--context", 64, "--windows", 8]
        whole = self.quantize("whole", *flags)
        out = self.folder / "part"
        first = out / "quantize.partial" / "layer-00000.json"
        process = subprocess.Popen([BINARY, "model", "quantize", str(MODEL), str(out),
                                    *map(str, flags)], stdout=subprocess.DEVNULL,
                                   stderr=subprocess.DEVNULL)
        while process.poll() is None and not first.exists():
            time.sleep(0.005)
        process.kill()
        if process.wait() == 0:
            self.skipTest("it was done before it could be stopped")
        self.refused("holds an unfinished run of another model, text or setting (--method gptq "
                     "--bits 4 --group 128 --search-ranges --sweeps 3)", "model", "quantize", MODEL, out, "--method", "rtn")
        said = self.done("model", "quantize", MODEL, out, *flags)
        self.assertIn("went on after ", said)
        self.assertFalse((out / "quantize.partial").exists())
        self.assertEqual((whole / "model.safetensors").read_bytes(),
                         (out / "model.safetensors").read_bytes())

    def test_files_of_blocks_lose_less_with_a_calibration_text(self):
        plain = self.quantize("plain.gguf", "--method", "q4_k")
        learnt = self.quantize("learnt.gguf", "--method", "q4_k", "--calibrate", self.learn,
                               "--context", 64)
        self.assertIn("43 matrices", self.said)
        self.assertEqual(plain.stat().st_size, learnt.stat().st_size)
        self.assertLess(self.loss(learnt), self.loss(plain))

    def test_files_of_more_bits_lose_less(self):
        losses = [self.loss(self.quantize(f"{method}.gguf", "--method", method))
                  for method in ["q2_k", "q3_k", "iq4_xs", "q5_0", "q6_k", "q8_0"]]
        self.assertEqual(losses, sorted(losses, reverse=True))

    def test_a_model_without_whole_blocks_stays_as_it_is_and_is_said_to(self):
        self.assertIn("no matrix has columns in whole blocks, so all are as they were",
                      self.done("model", "quantize", SOURCE / "tests/golden/models/llava",
                                self.folder / "x.gguf", "--method", "q8_0"))

    def test_what_cannot_be_quantised_is_refused_by_name_and_reason(self):
        model, out = self.SMALL, self.folder / "x"
        quantize = ["model", "quantize"]
        self.refused("the method 'gptk' is not known; a folder is written with rtn, gptq, awq",
                     *quantize, model, out, "--method", "gptk")
        self.refused("q4_k is a format of GGUF files; expected an OUT that ends in .gguf",
                     *quantize, model, out, "--method", "q4_k")
        self.refused("gptq is a method for folders; expected an OUT that does not end in .gguf",
                     *quantize, model, self.folder / "x.gguf", "--method", "gptq")
        self.refused("gptq needs a text to calibrate with; give --calibrate FILE",
                     *quantize, model, out, "--method", "gptq")
        self.refused("5 bits; rtn is written with 2, 3, 4 or 8", *quantize, model, out, "--method",
                     "rtn", "--bits", 5)
        for method, name, *flag in [("nf4", "x", "--bits", 3), ("int8", "x", "--act-order"),
                                    ("rtn", "x", "--calibrate", self.learn), ("fp8", "x", "--bits", 4.25),
                                    ("awq", "x", "--symmetric"), ("q4_0", "x.gguf", "--group", 32)]:
            self.refused(f"; {method} would ignore it – leave it out", *quantize, model,
                         self.folder / name, "--method", method, *flag)
        self.learn.write_text("Once upon a time.")
        self.refused("tokens, 0 windows of 512; expected at least 4 windows",
                     *quantize, model, out, "--method", "awq", "--calibrate", self.learn)
        self.assertFalse(out.exists())
        done = self.quantize("q", "--method", "int8", model=model)
        self.refused("is quantised already (quant_method 'compressed-tensors')", *quantize, done,
                     out, "--method", "rtn")
        self.refused("already holds a model", *quantize, model, done, "--method", "rtn")
        self.assertFalse(out.exists())


class Prune(Case):
    def setUp(self):
        super().setUp()
        words = TEXT.read_text()
        self.learn = self.folder / "learn.txt"
        self.learn.write_text(words[:12000])
        self.flags = ["--calibrate", self.learn, "--context", 128, "--windows", 16]

    def prune(self, name, *flags):
        out = self.folder / name
        self.said = self.done("model", "prune", MODEL, out, *flags, *self.flags)
        return out

    def test_parts_of_every_layer_go_and_the_model_runs(self):
        out = self.prune("p", "--channels", 0.25, "--kv-heads", 1)
        config = json.loads((out / "config.json").read_text())
        self.assertEqual([config[key] for key in ["intermediate_size", "num_attention_heads",
                                                  "num_key_value_heads", "head_dim"]],
                         [576, 2, 1, 64])
        self.assertIn("of each layer without 1 KV heads and 192 channels", self.said)
        self.assertTrue(self.done("run", "The", "--model", out, "--max-tokens", 4))
        tensors = tensors_of(out / "model.safetensors")
        before = tensors_of(MODEL / "model.safetensors")
        name = "model.layers.2.mlp.up_proj.weight"
        rows = {before[name][2][i:i + 512] for i in range(0, len(before[name][2]), 512)}
        kept = [tensors[name][2][i:i + 512] for i in range(0, len(tensors[name][2]), 512)]
        self.assertEqual(len(kept), 576)
        self.assertTrue(rows.issuperset(kept))

    def test_the_channels_that_matter_least_go(self):
        # Channels that nothing reads are noticed.
        copy = self.copy_of_model()
        for layer in range(6):
            change_tensor(copy / "model.safetensors", f"model.layers.{layer}.mlp.down_proj.weight",
                          lambda data: b"".join(data[i:i + 1536 - 64] + bytes(64)
                                                for i in range(0, len(data), 1536)))
        out = self.folder / "p"
        self.done("model", "prune", copy, out, "--channels", 32 / 768, *self.flags)
        report = self.compare(out, base=copy)
        self.assertLess(report["kl_nats_per_token"]["estimate"], 1e-5)

    def test_whole_layers_go_and_those_behind_them_move_up(self):
        out = self.prune("p", "--layers", 2)
        self.assertEqual(json.loads((out / "config.json").read_text())["num_hidden_layers"], 4)
        gone = [int(i) for i in self.said.split("without layers: ")[1].split(";")[0].split(",")]
        self.assertEqual(len(gone), 2)
        kept = [layer for layer in range(6) if layer not in gone]
        tensors = tensors_of(out / "model.safetensors")
        before = tensors_of(MODEL / "model.safetensors")
        for place, layer in enumerate(kept):
            self.assertEqual(tensors[f"model.layers.{place}.self_attn.q_proj.weight"],
                             before[f"model.layers.{layer}.self_attn.q_proj.weight"])

    def test_what_cannot_go_is_refused(self):
        prune = ["model", "prune", MODEL, self.folder / "x", *self.flags]
        self.refused("nothing is to go; give --layers, --kv-heads or --channels", *prune)
        self.refused("6 of 6 layers are to go; expected fewer", *prune, "--layers", 6)
        self.refused("2 of 2 KV heads are to go; expected fewer", *prune, "--kv-heads", 2)
        self.refused("no channels would stay", *prune, "--channels", 0.99)
        self.assertFalse((self.folder / "x").exists())


if __name__ == "__main__":
    unittest.main()
