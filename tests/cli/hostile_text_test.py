"""Text from files, plugins and the command line is shown cut and escaped."""
import json
import os
import pathlib
import shutil
import subprocess
import tempfile
import unittest

from program import BINARY, MODEL, run, settings

ESCAPE = "\x1b[2J\x1b]0;owned\x07"
HOSTILE = [ESCAPE, "\u202egnp.exe", "\x9b31m", "a\rb", "x" * 500_000]
BAD_PLUGINS = pathlib.Path(BINARY).parent.parent / "tests/bad_plugins"


class HostileText(unittest.TestCase):
    def setUp(self):
        scratch = tempfile.TemporaryDirectory()
        self.addCleanup(scratch.cleanup)
        self.folder = pathlib.Path(scratch.name)

    def check(self, *arguments, status=1, **keywords):
        """The command is refused in few printable characters."""
        done = run(*arguments, **keywords)
        self.assertEqual(done.returncode, status, done.stderr[:1000])
        self.assertLess(len(done.stderr), 40_000)
        self.printable(done.stdout)
        self.printable(done.stderr)
        return done.stderr

    def printable(self, text):
        for character in text:
            self.assertTrue(character == "\n" or character.isprintable() or character == "\u00a0",
                            f"{character!r} in {text[:2000]!r}")

    def model_with(self, name, text):
        folder = self.folder / "model"
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir()
        for file in MODEL.iterdir():
            if file.name != name:
                (folder / file.name).symlink_to(file)
        (folder / name).write_text(text)
        return folder

    def test_flags(self):
        for text in HOSTILE:
            text = text[:100_000]  # as much as a command line takes
            for arguments in (["run", "x", "--set", text], ["run", "x", "--isa", text],
                              ["run", "x", "--set", f"{text}.plugin=a"],
                              ["run", "x", "--set", f"scheduler.plugin={text}"],
                              ["run", "x", "--model", text], ["run", "x", "--config", text],
                              ["run", "--file", text],
                              ["run", "--workload", text], ["run", "x", "--plugin-path", text],
                              ["plugins", "inspect", text], ["plugins", "inspect", f"scheduler/{text}"],
                              ["model", "info", text], ["model", "logits", text, "--out", "x"],
                              ["model", "synth", "--shape", text, "--out", "x"],
                              ["model", "convert", MODEL, "x", "--type", text],
                              ["model", "convert", text, "x"], ["detokenize", text],
                              ["tokenize", "x", "--tokenizer", text]):
                with self.subTest(arguments=arguments[:3], text=text[:10]):
                    self.check(*arguments)
            with self.subTest(text=text[:10]):
                self.check("run", "x", f"--{text}", status=2)
                self.check(text, status=2)
                self.check("run", "x", "--top-k", text, status=2)
                self.check("run", "x", "--order", text, status=2)
                self.check("run", "x", "--log-level", text, status=2)
                self.check("tokenize", "--input-limit", text, status=2)

    def test_no_message_names_the_reader_of_json(self):
        for name in ("tokenizer.json", "tokenizer_config.json", "special_tokens_map.json"):
            said = self.check("tokenize", "x", "--model", self.model_with(name, '{"a": 1e400}'))
            self.assertIn(f"{name}: not JSON at byte 11: number overflow", said)
        trace = self.folder / "trace.jsonl"
        for line in ('{"input_length": 1, "output_length": 1}',
                     '{"timestamp": "x", "input_length": 1, "output_length": 1}',
                     '{"timestamp": 1, "input_length": 1, "output_length": 1, "hash_ids": ["x"]}'):
            trace.write_text(line)
            said = self.check("workload", "trace", trace)
            self.assertIn("not a line of such a trace (", said)
            self.assertNotIn("json.exception", said)
        (self.folder / "comparison.json").write_text('{"format": 1, "plan": {"title": 1}}')
        said = self.check("compare", "show", self.folder)
        self.assertIn("comparison.json: the plan: type must be string, but is number", said)
        tokens = self.folder / "ids.txt"
        tokens.write_text("5,,6")
        said = self.check("model", "logits", MODEL, "--tokens-file", tokens, "--out", self.folder / "l")
        self.assertIn("ids.txt: the list of token ids has an empty entry", said)

    def test_configurations_and_workloads(self):
        path = self.folder / "bad.toml"
        for text in HOSTILE:
            quoted = json.dumps(text)
            for content in (f"format = 1\n[{quoted}]\na = 1\n", f"format = 1\n{quoted} = 1\n",
                            f"format = 1\n[scheduler]\n{quoted} = 1\n",
                            f"format = 1\n[scheduler]\nplugin = {quoted}\n",
                            f"format = 1\n[limits]\nmax_sequences = {quoted}\n",
                            f"format = 1\n[model]\npath = {quoted}\n",
                            f"format = 1\nextends = {quoted}\n",
                            f"format = {quoted}\n", f"format = 1\n{text}"):
                path.write_text(content)
                with self.subTest(content=content[:40]):
                    self.check("config", "check", path)
                    self.check("run", "--workload", path)

    def test_prompts(self):
        path = self.folder / "bad.jsonl"
        for text in HOSTILE:
            for content in ({"prompt": 1, text: 1}, {text: 1}, {"prompt": "x", "order": text},
                            {"prompt": "x", "logit_bias": {text: 1}}, {"prompt": "x", "seed": text},
                            {"prompt": "x", "params": {text: 1}},
                            {"prompt": "x", "early_stopping": text}):
                path.write_text(json.dumps(content) + "\n")
                with self.subTest(content=str(content)[:60]):
                    self.check("run", "--file", path)
            path.write_text(text + "\n")
            self.check("run", "--file", path)

    def test_a_models_files(self):
        config = json.loads((MODEL / "config.json").read_text())
        for text in HOSTILE:
            for key in ("model_type", "architectures", "hidden_act", "hidden_size", "rope_scaling"):
                value = {"rope_type": text} if key == "rope_scaling" else text
                value = [text] if key == "architectures" else value
                folder = self.model_with("config.json", json.dumps({**config, key: value}))
                with self.subTest(key=key, text=text[:10]):
                    self.check("model", "info", folder)
            folder = self.model_with("config.json", text)
            self.check("model", "info", folder)

    def test_a_tokenizers_file(self):
        tokenizer = json.loads((MODEL / "tokenizer.json").read_text())
        for text in HOSTILE:
            wrong = [{**tokenizer, "version": text}, {**tokenizer, "normalizer": {"type": text}},
                     {**tokenizer, "pre_tokenizer": {"type": text}},
                     {**tokenizer, "decoder": {"type": text}},
                     {**tokenizer, "post_processor": {"type": text}},
                     {**tokenizer, "model": {**tokenizer["model"], "type": text}},
                     {**tokenizer, "model": {**tokenizer["model"], "merges": [text]}},
                     {**tokenizer, "added_tokens": [{"id": 1 << 30, "content": text}]}]
            for document in wrong:
                path = self.folder / "tokenizer.json"
                path.write_text(json.dumps(document))
                with self.subTest(text=text[:10]):
                    self.check("tokenize", "x", "--tokenizer", path)

    def test_a_weight_file(self):
        for text in HOSTILE:
            header = json.dumps({text: {"dtype": text[:1000], "shape": [1], "data_offsets": [0, 4]}})
            folder = self.model_with("model.safetensors", "")
            data = header.encode()
            (folder / "model.safetensors").write_bytes(len(data).to_bytes(8, "little") + data + b"1234")
            with self.subTest(text=text[:10]):
                self.check("model", "info", folder)

    def test_names_of_files(self):
        for name in ("\x1b[2J", "\u202egnp", "a\nb"):
            path = self.folder / name
            path.mkdir()
            (path / "libtenon-x.so").write_bytes(b"\x7fELF")
            with self.subTest(name=name):
                self.check("model", "info", path)
                self.check("run", "--file", path)
                self.check("config", "check", path)
                self.check("plugins", "list", "--plugin-path", path, status=0)
                self.check("config", "check", "--plugin-path", path, "--log-level", "debug", status=0)

    def test_what_a_plugin_says(self):
        message = self.check("run", "x", "--plugin-path", BAD_PLUGINS,
                             *settings(sampler__plugin="shouts"))
        self.assertIn("the \\x1B[2Jtable", message)
        self.assertIn("(67108864 bytes)", message)

    def test_bytes_that_are_no_utf_8(self):
        for arguments in (["run", "--file"], ["model", "info"], ["run", "x", "--set"]):
            done = subprocess.run([os.fsencode(BINARY), *map(os.fsencode, arguments), b"\xff\xfe\x1b"],
                                  capture_output=True, timeout=60, check=False)
            self.assertEqual(done.returncode, 1)
            self.assertIn("\\xFF\\xFE\\x1B", done.stderr.decode())


if __name__ == "__main__":
    unittest.main(verbosity=2)
