"""What a model's own files say beside its weights: the ends of a text, recommended sampling, and
GGUF files in parts."""
import json
import pathlib
import shutil
import struct
import tempfile
import unittest

from program import MODEL, run, run_json, settings
from server import Server

END, PART_END = 4092, 4095  # <|endoftext|>, <|end|>
SIZES = {0: "B", 1: "b", 2: "H", 3: "h", 4: "I", 5: "i", 6: "f", 7: "B", 10: "Q", 11: "q", 12: "d"}


class Gguf:
    """The metadata of a file as bytes of each pair, so that a test may change one."""

    def __init__(self, data):
        self.data, self.at = data, 8
        self.tensors, pairs = self.number("Q"), self.number("Q")
        self.pairs = {}
        for _ in range(pairs):
            key, begin = self.text(), self.at
            self.skip(self.number("I"))
            self.pairs[key] = data[begin:self.at]
        begin = self.at
        for _ in range(self.tensors):
            self.text()
            extents = self.number("I")
            self.at += 8 * extents + 12
        self.directory = data[begin:self.at]
        self.rest = data[(self.at + 31) // 32 * 32:]

    def number(self, form):
        value = struct.unpack_from("<" + form, self.data, self.at)[0]
        self.at += struct.calcsize("<" + form)
        return value

    def text(self):
        size = self.number("Q")
        self.at += size
        return self.data[self.at - size:self.at].decode()

    def skip(self, kind):
        if kind == 8:
            self.text()
        elif kind == 9:
            inner, count = self.number("I"), self.number("Q")
            for _ in range(count):
                self.skip(inner)
        else:
            self.number(SIZES[kind])

    def put_real(self, key, value):
        self.pairs[key] = struct.pack("<If", 6, value)

    def put_text(self, key, value):
        self.pairs[key] = struct.pack("<IQ", 8, len(value)) + value.encode()

    def write(self, path):
        out = b"GGUF" + struct.pack("<IQQ", 3, self.tensors, len(self.pairs))
        for key, value in self.pairs.items():
            out += struct.pack("<Q", len(key)) + key.encode() + value
        out += self.directory
        path.write_bytes(out + bytes(-len(out) % 32) + self.rest)


class Files(unittest.TestCase):
    def setUp(self):
        self.temporary = tempfile.TemporaryDirectory()
        self.addCleanup(self.temporary.cleanup)
        self.folder = pathlib.Path(self.temporary.name)

    def model(self, **files):
        """A copy of the bundled model; tokenizer_config={"eos_token": "x"} changes a file, None
        takes a key away, and None in place of the keys the file."""
        folder = self.folder / "model"
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir()
        for file in MODEL.iterdir():
            if file.suffix == ".safetensors":
                (folder / file.name).symlink_to(file)
            else:
                shutil.copy(file, folder / file.name)
        for name, changes in files.items():
            path = folder / (name + ".json")
            if changes is None:
                path.unlink()
                continue
            content = json.loads(path.read_text()) if path.exists() else {}
            path.write_text(json.dumps({**content, **changes}))
        return folder

    def gguf(self, change=lambda gguf: None):
        """The bundled model as other programs' tools would leave it."""
        file = self.folder / "plain.gguf"
        if not file.exists():
            done = run("model", "convert", MODEL, file)
            self.assertEqual(done.returncode, 0, done.stderr)
        gguf = Gguf(file.read_bytes())
        gguf.pairs.pop("tokenizer.huggingface.json")
        for key in [key for key in gguf.pairs if key.startswith("general.sampling.")]:
            gguf.pairs.pop(key)
        change(gguf)
        out = self.folder / "changed.gguf"
        gguf.write(out)
        return out

    def text(self, model, *flags):
        done = run("run", "The old witch", "--model", model, "--max-tokens", 16, "--no-echo", *flags)
        self.assertEqual(done.returncode, 0, done.stderr)
        return done.stdout.strip()


class Ends(Files):
    def spoken(self, model, *tokens):
        replay = settings(sampler__plugin="replay",
                          sampler__options__tokens=" ".join(map(str, tokens)))
        request = run_json("x", "--model", model, "--max-tokens", len(tokens), *replay)["requests"][0]
        return request["tokens"], request["finish"]

    def expect_end(self, model, end):
        self.assertEqual(self.spoken(model, 264, 265, end, 266), ([264, 265, end], "eos"))

    def test_the_tokenizers_own_end_counts_beside_the_models(self):
        model = self.model(tokenizer_config={"eos_token": "<|end|>"})
        self.expect_end(model, PART_END)
        self.expect_end(model, END)

    def test_and_alone(self):
        model = self.model(tokenizer_config={"eos_token": {"content": "<|end|>"}},
                           config={"eos_token_id": None}, generation_config=None)
        self.expect_end(model, PART_END)
        self.assertEqual(self.spoken(model, 264, END, 265), ([264, END, 265], "length"))

    def test_a_map_of_special_tokens_counts_too(self):
        model = self.model(tokenizer_config={"eos_token": None}, config={"eos_token_id": None},
                           generation_config=None,
                           special_tokens_map={"eos_token": ["<|end|>", "<|user|>"]})
        self.expect_end(model, PART_END)
        self.expect_end(model, 4093)

    def test_both_configurations_count(self):
        model = self.model(config={"eos_token_id": 4094}, generation_config={"eos_token_id": [4093]})
        self.expect_end(model, 4094)
        self.expect_end(model, 4093)
        self.expect_end(model, END)  # the tokenizer's

    def test_a_name_that_is_no_token_is_said(self):
        model = self.model(tokenizer_config={"eos_token": "<|gone|>"})
        done = run("run", "x", "--model", model, "--max-tokens", 1)
        self.assertIn("tokenizer_config.json names the eos_token '<|gone|>', which is no token",
                      done.stderr)

    def test_a_file_ends_a_text_by_the_names_of_tokens(self):
        def change(gguf):
            gguf.pairs.pop("tokenizer.ggml.eos_token_id")
        model = self.gguf(change)
        self.expect_end(model, PART_END)
        self.expect_end(model, END)

    def test_who_named_which_end_is_shown(self):
        model = self.model(tokenizer_config={"eos_token": "<|end|>"})
        ends = json.loads(run("model", "info", model, "--json").stdout)["ends"]
        self.assertEqual(ends, [
            {"token": END, "text": "<|endoftext|>",
             "named_by": ["config.json", "generation_config.json"]},
            {"token": PART_END, "text": "<|end|>", "named_by": ["tokenizer_config.json"]}])
        explained = run("config", "explain", "--model", model).stdout
        self.assertIn("# ends of a text: 4092 '<|endoftext|>' (config.json, "
                      "generation_config.json); 4095 '<|end|>' (tokenizer_config.json)", explained)

    def test_a_converted_model_keeps_its_ends(self):
        model = self.model(tokenizer_config={"eos_token": "<|user|>"},
                           generation_config={"eos_token_id": [END, 4094]})
        file = self.folder / "converted.gguf"
        done = run("model", "convert", model, file)
        self.assertEqual(done.returncode, 0, done.stderr)
        for end in (4093, END, 4094):
            self.expect_end(file, end)


class Recommended(Files):
    def test_a_penalty_of_the_configuration_is_that_of_the_flag(self):
        model = self.model(generation_config={"do_sample": False, "repetition_penalty": 1.5})
        plain = self.model(generation_config={"do_sample": False})
        said = self.text(plain, "--repetition-penalty", 1.5)
        model = self.model(generation_config={"do_sample": False, "repetition_penalty": 1.5})
        self.assertEqual(self.text(model), said)
        self.assertNotEqual(self.text(model, "--repetition-penalty", 1), said)

    def test_whatever_a_file_recommends_is_what_the_flags_would_be(self):
        for keys, flags in (({"temp": 3, "top_p": 1, "min_p": 0.9}, ["--min-p", 0.9]),
                            ({"temp": 0, "penalty_repeat": 1.5}, ["--repetition-penalty", 1.5]),
                            ({"temp": 1, "xtc_probability": 0.9, "xtc_threshold": 0.2},
                             ["--xtc-probability", 0.9, "--xtc-threshold", 0.2]),
                            ({"temp": 0.9, "mirostat": 2, "mirostat_tau": 2, "top_k": 40},
                             ["--mirostat", 2, "--mirostat-tau", 2])):
            def change(gguf, keys=keys):
                for key, value in keys.items():
                    gguf.put_real("general.sampling." + key, value)
            with self.subTest(keys):
                advised = self.text(self.gguf(change))
                self.assertEqual(advised, self.text(
                    self.gguf(), "--temperature", keys["temp"], *flags))

    def test_flags_outweigh_what_excludes_them(self):
        def change(gguf):
            gguf.put_real("general.sampling.mirostat", 2)
            gguf.put_text("general.sampling.sequence", "top_k;temperature")
        model = self.gguf(change)
        for flags in (["--top-k", 3], ["--temperature", 0], ["--min-p", 0.3]):
            with self.subTest(flags):
                self.assertEqual(self.text(model, *flags), self.text(self.gguf(), *flags))
                self.gguf(change)

    def test_words_and_stops_of_the_configuration_count(self):
        model = self.model(generation_config={"do_sample": False})
        first = run_json("The old witch", "--model", model, "--max-tokens", 3)["requests"][0]["tokens"]
        model = self.model(generation_config={"do_sample": False, "suppress_tokens": [first[0]],
                                              "max_new_tokens": 5})
        request = run_json("The old witch", "--model", model)["requests"][0]
        self.assertEqual(len(request["tokens"]), 5)
        self.assertNotIn(first[0], request["tokens"])

    def test_a_server_follows_it_in_every_dialect_where_requests_do_not_say(self):
        model = self.model(generation_config={"do_sample": False, "repetition_penalty": 1.5,
                                              "max_new_tokens": 16})
        expected = self.text(model, "--repetition-penalty", 1)
        advised = self.text(model)
        self.assertNotEqual(advised, expected)
        chat = [{"role": "user", "content": "The old witch"}]
        with Server("--model", model, template="{{ messages[0].content }}") as server:
            def ask(path, body, *way):
                answer = server.post(path, {"model": "model", **body})[2]
                for key in way:
                    answer = answer[key]
                return answer.strip()
            plain = {"repetition_penalty": 1}
            for path, body, way in (
                    ("/v1/completions", {"prompt": "The old witch", "max_tokens": 16},
                     ("choices", 0, "text")),
                    ("/v1/chat/completions", {"messages": chat}, ("choices", 0, "message", "content")),
                    ("/v1/messages", {"messages": chat, "max_tokens": 16}, ("content", 0, "text")),
                    ("/v1/responses", {"input": "The old witch"},
                     ("output", 0, "content", 0, "text"))):
                with self.subTest(path):
                    self.assertEqual(ask(path, body, *way), advised)
                    if path.endswith("completions"):
                        self.assertEqual(ask(path, {**body, **plain}, *way), expected)

    def test_what_nothing_follows_is_one_warning_that_names_it(self):
        model = self.model(generation_config={"no_repeat_ngram_size": 3, "eta_cutoff": 0.1,
                                              "epsilon_cutoff": 0.0, "num_beams": 1})
        done = run("run", "x", "--model", model, "--max-tokens", 1)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(done.stderr.count("nothing in this pipeline follows"), 1)
        self.assertIn("generation_config.json: recommends eta_cutoff, no_repeat_ngram_size, which "
                      "nothing in this pipeline follows", done.stderr)
        model = self.model(generation_config={"no_repeat_ngram_size": 0, "length_penalty": 1.0})
        self.assertNotIn("recommends",
                         run("run", "x", "--model", model, "--max-tokens", 1).stderr)

    def test_explain_shows_who_recommends_what(self):
        model = self.model(generation_config={"repetition_penalty": 1.05, "max_new_tokens": 99})
        explained = run("config", "explain", "--model", model, "--set", "generation.top_p=0.5").stdout
        lines = {line.split(" =")[0]: line for line in explained.splitlines() if " =" in line}
        self.assertIn("generation_config.json (repetition_penalty)", lines["repetition_penalty"])
        self.assertIn("generation_config.json (max_new_tokens)", lines["max_tokens"])
        self.assertIn("generation_config.json (temperature)", lines["temperature"])
        self.assertIn("--set", lines["top_p"])

    def test_a_file_made_of_a_folder_recommends_the_same(self):
        keys = {"do_sample": False, "repetition_penalty": 1.5, "typical_p": 0.9,
                "no_repeat_ngram_size": 3}
        model = self.model(generation_config=keys)
        file, back = self.folder / "a.gguf", self.folder / "back"
        self.assertEqual(run("model", "convert", model, file).returncode, 0)
        self.assertEqual(run("model", "convert", file, back).returncode, 0)
        again = json.loads((back / "generation_config.json").read_text())
        self.assertEqual({key: again[key] for key in keys}, keys)
        self.assertEqual(self.text(file), self.text(model))


class Vocabularies(Files):
    def test_what_makes_other_tokens_is_refused_by_its_key(self):
        for key in ("tokenizer.ggml.merges", "tokenizer.ggml.tokens"):
            model = self.gguf(lambda gguf, key=key: gguf.pairs.pop(key))
            with self.subTest(key):
                for words in (["tokenize", "x"], ["run", "x"]):
                    done = run(*words, "--model", model)
                    self.assertEqual(done.returncode, 1)
                    self.assertIn(f"'{key}' is missing", done.stderr)
                # Also where nobody gives it a text yet.
                done = run("config", "check", "--model", model)
                self.assertIn("the model takes token ids alone, no text: ", done.stderr)
                self.assertIn(f"'{key}' is missing", done.stderr)

    def test_what_is_guessed_is_said(self):
        for key in ("tokenizer.ggml.token_type", "tokenizer.ggml.pre"):
            model = self.gguf(lambda gguf, key=key: gguf.pairs.pop(key))
            with self.subTest(key):
                self.assertIn(f"'{key}' is missing", run("tokenize", "x", "--model", model).stderr)


class Parts(Files):
    def split(self, *flags):
        done = run("model", "convert", MODEL, self.folder / "m.gguf", *flags)
        self.assertEqual(done.returncode, 0, done.stderr)
        return sorted(self.folder.glob("m-*.gguf"))

    def test_any_part_is_the_whole_model(self):
        whole = self.folder / "whole.gguf"
        run("model", "convert", MODEL, whole)
        parts = self.split("--split-tensors", 20)
        self.assertEqual([part.name for part in parts],
                         [f"m-0000{n}-of-00003.gguf" for n in (1, 2, 3)])
        for part in parts:
            self.assertEqual(self.text(part), self.text(whole))
            self.assertEqual(run("tokenize", "The fox", "--model", part).stdout,
                             run("tokenize", "The fox").stdout)
            info = json.loads(run("model", "info", part, "--json").stdout)
            self.assertEqual((info["parts"], info["parameters"]), (3, 5770496))
        merged = self.folder / "merged.gguf"
        self.assertEqual(run("model", "convert", parts[1], merged).returncode, 0)
        self.assertEqual(merged.stat().st_size // 4096, whole.stat().st_size // 4096)

    def test_sizes_are_bounds(self):
        parts = self.split("--split-max-size", "4M")
        self.assertGreater(len(parts), 2)
        for flags, text in ((["--split-max-size", "4x"], "--split-max-size is \"4x\"; expected"),
                            (["--split-max-size", "0"], "expected a size above 0")):
            done = run("model", "convert", MODEL, self.folder / "n.gguf", *flags)
            self.assertEqual(done.returncode, 1)
            self.assertIn(text, done.stderr)
        done = run("model", "convert", MODEL, self.folder / "n", "--split-tensors", 3)
        self.assertIn("would be a folder, which is not written in parts", done.stderr)

    def test_a_missing_part_is_one_sentence(self):
        parts = self.split("--split-tensors", 30)
        parts[0].unlink()
        for words in (["run", "x", "--model", parts[1]], ["model", "info", parts[1]],
                      ["tokenize", "x", "--model", parts[1]]):
            done = run(*words)
            self.assertEqual(done.returncode, 1)
            self.assertIn("part 1 of 2 of the model is missing", done.stderr)
            self.assertEqual(len(done.stderr.strip().splitlines()), 1)


if __name__ == "__main__":
    unittest.main()
