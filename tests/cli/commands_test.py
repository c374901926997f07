"""The commands beside `run`."""
import json
import math
import os
import pathlib
import struct
import subprocess
import sys
import tempfile
import unittest

from program import BINARY, GOLDEN_MODELS, MODEL, SOURCE, run, settings


def read_npy(path):
    """A two-dimensional f32 .npy as a list of rows."""
    data = pathlib.Path(path).read_bytes()
    assert data[:6] == b"\x93NUMPY"
    length = struct.unpack("<H", data[8:10])[0]
    header = eval(data[10:10 + length].decode())  # noqa: S307 - our own file
    rows, columns = header["shape"]
    values = struct.unpack(f"<{rows * columns}f", data[10 + length:])
    return [values[r * columns:(r + 1) * columns] for r in range(rows)]


class CommandLine(unittest.TestCase):
    def test_words_that_mean_nothing_are_named_with_what_was_probably_meant(self):
        for words, expected in (
                (["rum", "Hi"], "'rum' is no command of 'tenon'; did you mean 'run'?"),
                (["perplexity", "--model", "x"], "did you mean 'tenon model perplexity'?"),
                (["model", "inf"], "'inf' is no command of 'tenon model'; did you mean 'info'?"),
                (["version"], "'version' is no command of 'tenon'; did you mean 'tenon --version'?"),
                (["help"], "'help' is no command of 'tenon'; did you mean 'tenon --help'?"),
                (["model"], "a command is missing behind 'tenon model' – expected one of info, "),
                (["run", "Hi", "--modle=x"], "'--modle' is no option of 'tenon run'; did you mean '--model'?"),
                (["run", "Hi", "--api-key", "x"], "'--api-key' is no option of 'tenon run'; 'tenon serve' has --keys"),
                (["run", "Hi", "--chat-template", "x"],
                 "; 'tenon chat', 'tenon chat render' and 'tenon serve' have --chat-template"),
                (["run", "Hi", "--max-new-tokens=8"], "; here that is --max-tokens"),
                (["serve", "--api-key", "x"], "'--api-key' is no option of 'tenon serve'; here that is --keys"),
                (["load", "http://127.0.0.1:1", "--api-key", "x"], "; here that is the variable TENON_API_KEY"),
                (["model", "info", "x", "--config", "y"], "'--config' is no option of 'tenon model info' – "),
                (["compare", "--config", "x.toml"], "'--config' is no option of 'tenon compare'; here that is --base"),
                (["run", "Hi", "--base", "x.toml"], "'--base' is no option of 'tenon run'; here that is --config"),
                (["run", "Hi", "there"], "'there' is one argument too many for 'tenon run'"),
                (["run", "--max-tokens"], "'--max-tokens' has no value – expected N"),
                (["plugins", "inspect"], "'tenon plugins inspect' lacks 'name'")):
            with self.subTest(words):
                done = run(*words)
                self.assertEqual(done.returncode, 2)
                self.assertIn(expected, done.stderr)
                self.assertEqual(done.stderr.count("\n"), 1)

    def test_a_file_that_is_not_there_is_named_as_it_was_given(self):
        done = run("model", "info", "nowhere/t.gguf")
        self.assertEqual((done.returncode, done.stderr), (1, "tenon: cannot open 'nowhere/t.gguf': No such file or directory\n"))


class Tokenize(unittest.TestCase):
    def test_ids_and_back(self):
        text = "Once upon a time, in a far-off land…\n\tthe end."
        ids = run("tokenize", text).stdout.split()
        self.assertGreater(len(ids), 5)
        self.assertEqual(run("detokenize", *ids).stdout, text)

    def test_json_and_pieces_tell_the_same(self):
        ids = json.loads(run("tokenize", "The fox", "--json").stdout)
        pieces = run("tokenize", "The fox", "--pieces").stdout.splitlines()
        self.assertEqual([int(line.split()[0]) for line in pieces], ids)

    def test_a_tokenizer_file_by_itself_is_enough(self):
        file = MODEL / "tokenizer.json"
        self.assertEqual(run("tokenize", "The fox", "--tokenizer", file).stdout,
                         run("tokenize", "The fox").stdout)

    def test_an_id_outside_the_vocabulary_is_refused(self):
        done = run("detokenize", "5000")
        self.assertEqual(done.returncode, 1)
        self.assertIn("5000", done.stderr)


class ChatRender(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        self.messages = self.folder / "messages.json"
        self.messages.write_text(json.dumps([{"role": "user", "content": "Hi <s>"}]))
        self.template = self.folder / "t.jinja"
        self.template.write_text("{% for m in messages %}[{{ m.content }}]{% endfor %}"
                                 "{{ ' A:' if add_generation_prompt }}{{ mood }}\n")

    def render(self, *flags):
        return run("chat", "render", "--messages", self.messages, "--chat-template",
                   self.template, *flags)

    def test_a_conversation_is_printed_as_the_template_writes_it(self):
        self.assertEqual(self.render().stdout, "[Hi <s>]")
        done = self.render("--add-generation-prompt", "--variables", '{"mood": "!"}')
        self.assertEqual(done.stdout, "[Hi <s>] A:!")

    def test_json_says_what_the_template_wrote_itself(self):
        report = json.loads(self.render("--json").stdout)
        self.assertEqual(report["text"], "[Hi <s>]")
        self.assertEqual(report["trusted"], [[0, 1], [7, 8]])

    def test_what_cannot_be_rendered_is_refused_with_its_place(self):
        self.template.write_text("{{ messages | nosuch }}")
        done = self.render()
        self.assertEqual(done.returncode, 1)
        self.assertIn("t.jinja:1:15: there is no filter 'nosuch'", done.stderr)

    def test_what_this_conversation_does_not_reach_is_only_named(self):
        self.template.write_text("{% if messages | length > 1 %}{{ 1 | nosuch }}{% endif %}{{ messages[0].content }}")
        done = self.render()
        self.assertEqual((done.returncode, done.stdout), (0, "Hi <s>"))
        self.assertIn("t.jinja:1:38: there is no filter 'nosuch'", done.stderr)
        self.assertIn("conversations that reach it are refused, others are not", done.stderr)

    def test_a_model_without_a_template_says_so(self):
        done = run("chat", "render", "--messages", self.messages, "--model", self.folder)
        self.assertEqual(done.returncode, 1)
        self.assertIn("has no chat template", done.stderr)


def perplexity(text, *flags):
    done = run("model", "perplexity", MODEL, "--file", text, "--json", *flags)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


class Models(unittest.TestCase):
    def test_info_says_what_is_not_loaded_of_a_model_of_text_and_images(self):
        done = run("model", "info", GOLDEN_MODELS / "gemma3_vision", "--json")
        self.assertEqual(json.loads(done.stdout)["part"],
                         "text part of a gemma3 model; 34 tensors of its other parts are not loaded")
        self.assertIn("34 tensors of its other parts are not loaded", done.stderr)

    def test_info_describes_every_golden_folder(self):
        goldens = GOLDEN_MODELS
        for folder in sorted(goldens.iterdir()):
            with self.subTest(folder.name):
                done = run("model", "info", folder, "--json")
                self.assertEqual(done.returncode, 0, done.stderr)
                self.assertIn("features", json.loads(done.stdout))

    def test_info_tells_shape_and_size(self):
        info = json.loads(run("model", "info", MODEL, "--json").stdout)
        self.assertEqual(info["parameters"], 5770496)
        self.assertEqual((info["layers"], info["heads"], info["kv_heads"]), (6, 4, 2))

    def test_logits_are_the_same_in_any_chunks_and_close_to_the_oracle(self):
        with tempfile.TemporaryDirectory() as folder:
            def logits(name, *flags):
                out = pathlib.Path(folder) / f"{name}.npy"
                done = run("model", "logits", MODEL, "--tokens", "5,6,7,8,9,10,11", "--out", out, *flags)
                self.assertEqual(done.returncode, 0, done.stderr)
                return read_npy(out)
            whole = logits("whole")
            self.assertEqual(whole, logits("chunks", "--chunks", "2,1,3"))
            oracle = logits("oracle", *settings(executor__plugin="ref"))
            spread = max(map(max, oracle)) - min(map(min, oracle))
            worst = max(abs(a - b) for x, y in zip(whole, oracle) for a, b in zip(x, y))
            self.assertLess(worst, 0.02 * spread)

    def test_texts_come_from_files_standard_input_and_pipes_alike(self):
        prose = (pathlib.Path(SOURCE) / "configs/models/valid.txt").read_text()[:2000]
        schema = '{"type": "object", "properties": {"name": {"type": "string"}}}'
        commands = {"perplexity": (prose, ["model", "perplexity", MODEL, "--json", "--file"]),
                    "prompts": ("The king\nThe fox\n", ["run", "--max-tokens", "4", "--json", "--file"]),
                    "schema": (schema, ["run", "The king", "--max-tokens", "8", "--json", "--json-schema"])}

        def told(done):
            self.assertEqual(done.returncode, 0, done.stderr)
            said = json.loads(done.stdout)
            return said["perplexity"] if "perplexity" in said else [r["digest"] for r in said["requests"]]
        for name, (text, words) in commands.items():
            with self.subTest(name), tempfile.TemporaryDirectory() as folder:
                file, fifo = pathlib.Path(folder) / "text", pathlib.Path(folder) / "fifo"
                file.write_text(text)
                expected = told(run(*words, file))
                self.assertEqual(told(run(*words, "-", stdin=text)), expected)
                self.assertEqual(told(run(*words, "/dev/stdin", stdin=text)), expected)
                # As a shell's <(…).
                out_of, into = os.pipe()
                os.write(into, text.encode())
                os.close(into)
                self.assertEqual(told(subprocess.run(
                    [BINARY, *map(str, words), f"/dev/fd/{out_of}"], pass_fds=[out_of],
                    stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False)), expected)
                os.close(out_of)
                # Nobody writes: an empty text, and no reason to wait.
                os.mkfifo(fifo)
                self.assertEqual(run(*words, fifo, timeout=60).returncode, 1)
                self.assertIn("is not a regular file", run(*words, folder).stderr)

    def test_a_converted_model_says_the_same_in_every_container(self):
        with tempfile.TemporaryDirectory() as folder:
            file, back = pathlib.Path(folder) / "tale.gguf", pathlib.Path(folder) / "back"
            for source, out in ((MODEL, file), (file, back)):
                done = run("model", "convert", source, out)
                self.assertEqual(done.returncode, 0, done.stderr)
            digests = set()
            for model in (MODEL, file, back):
                done = run("run", "The old witch", "--model", model, "--max-tokens", "12", "--json")
                self.assertEqual(done.returncode, 0, done.stderr)
                digests.add(json.loads(done.stdout)["requests"][0]["digest"])
            self.assertEqual(len(digests), 1)
            info = json.loads(run("model", "info", file, "--json").stdout)
            self.assertEqual(info["parameters"], 5770496)
            self.assertEqual(run("tokenize", "The fox", "--model", file).stdout,
                             run("tokenize", "The fox").stdout)
            self.assertIn("already there", run("model", "convert", MODEL, file).stderr)

    def test_a_file_without_a_tokenizer_says_so_to_every_program(self):
        with tempfile.TemporaryDirectory() as folder:
            source, file = pathlib.Path(folder) / "bare", pathlib.Path(folder) / "bare.gguf"
            run("model", "synth", "--shape", "stories-260k", "--out", source)
            self.assertIn("without a tokenizer", run("model", "convert", source, file).stdout)
            self.assertIn(b"tokenizer.ggml.model", file.read_bytes())
            self.assertIn(b"no_vocab", file.read_bytes())
            self.assertIn("tokenizer.ggml.tokens", run("model", "info", file).stdout)
            back = pathlib.Path(folder) / "back"
            self.assertEqual(run("model", "convert", file, back).returncode, 0)

    def test_a_quantised_file_is_small_and_runs(self):
        with tempfile.TemporaryDirectory() as folder:
            file = pathlib.Path(folder) / "tale.gguf"
            done = run("model", "convert", MODEL, file, "--type", "q8_0")
            self.assertEqual(done.returncode, 0, done.stderr)
            info = json.loads(run("model", "info", file, "--json").stdout)
            self.assertEqual(info["formats"], {"q8_0": 43})
            for executor in ("cpu", "ref"):
                done = run("run", "The old witch", "--model", file, "--max-tokens", "4",
                           *settings(executor__plugin=executor, kv_cache__dtype="f32"))
                self.assertEqual(done.returncode, 0, done.stderr)

    def test_a_model_in_formats_of_few_bits_is_described_converted_and_run(self):
        source = SOURCE / "tests/golden/gguf/llama_low_bits.gguf"
        formats = {"q2_k": 2, "q3_k": 2, "iq4_xs": 2, "tq1_0": 1, "tq2_0": 1, "iq2_xxs": 1,
                   "iq2_xs": 1, "iq2_s": 1, "iq3_xxs": 1, "iq3_s": 2, "iq1_s": 1, "iq1_m": 1,
                   "q8_0": 3, "q4_0": 3}
        with tempfile.TemporaryDirectory() as folder:
            file = pathlib.Path(folder) / "again.gguf"
            done = run("model", "convert", source, file)
            self.assertEqual(done.returncode, 0, done.stderr)
            for path in (source, file):
                info = json.loads(run("model", "info", path, "--json").stdout)
                self.assertEqual({name: count for name, count in info["formats"].items()
                                  if name != "f32"}, formats)
            done = run("model", "convert", source, pathlib.Path(folder) / "folder")
            self.assertEqual(done.returncode, 0, done.stderr)
            for model in (file, pathlib.Path(folder) / "folder"):
                for executor in ("cpu", "ref"):
                    done = run("run", "the old witch", "--model", model, "--max-tokens", "4",
                               "--json", *settings(executor__plugin=executor,
                                                   kv_cache__dtype="f32"))
                    self.assertEqual(done.returncode, 0, done.stderr)

    def test_info_lists_what_a_file_holds_that_cannot_be_run(self):
        text = lambda value: struct.pack("<Q", len(value)) + value.encode()  # noqa: E731
        raw = b"GGUF" + struct.pack("<IQQ", 3, 1, 1) + text("general.architecture")
        raw += struct.pack("<I", 8) + text("rwkv7") + text("a.weight")
        raw += struct.pack("<IQIQ", 1, 256, 14, 0)
        raw += bytes(-len(raw) % 32 + 210)
        with tempfile.TemporaryDirectory() as folder:
            file = pathlib.Path(folder) / "rwkv7.gguf"
            file.write_bytes(raw)
            info = json.loads(run("model", "info", file, "--json").stdout)
            self.assertEqual(info["formats"], {"q6_k": 1})
            self.assertIn("'general.architecture' is 'rwkv7'", info["runs"])
            done = run("run", "x", "--model", file)
            self.assertEqual(done.returncode, 1)
            self.assertIn("'rwkv7'", done.stderr)
    def test_perplexity_is_what_the_logits_say(self):
        with tempfile.TemporaryDirectory() as folder:
            text = pathlib.Path(folder) / "text.txt"
            text.write_text("Once upon a time there was a king who had three sons.")
            ids = [int(i) for i in run("tokenize", text.read_text()).stdout.split()]
            out = pathlib.Path(folder) / "logits.npy"
            run("model", "logits", MODEL, "--text-file", text, "--out", out)
            nats = 0.0
            for row, following in zip(read_npy(out), ids[1:]):
                most = max(row)
                nats += most + math.log(sum(math.exp(x - most) for x in row)) - row[following]
            report = perplexity(text)
            self.assertEqual(report["predicted_tokens"], len(ids) - 1)
            self.assertAlmostEqual(report["nats_per_token"], nats / (len(ids) - 1), 5)
            self.assertAlmostEqual(report["perplexity"], math.exp(nats / (len(ids) - 1)), 3)
            first = len(run("detokenize", ids[0]).stdout)
            self.assertEqual(report["predicted_bytes"], len(text.read_text()) - first)

    def test_overlapping_windows_predict_every_token_but_the_first_once(self):
        with tempfile.TemporaryDirectory() as folder:
            text = pathlib.Path(folder) / "text.txt"
            text.write_text("The fox went to the river and the wolf went to the hill. " * 4)
            apart = perplexity(text, "--context", 16)
            over = perplexity(text, "--context", 16, "--stride", 4)
            tokens = apart["tokens"]
            self.assertEqual(over["predicted_tokens"], tokens - 1)
            self.assertEqual(apart["predicted_tokens"], tokens - -(-tokens // 16))
            self.assertLess(over["nats_per_token"], apart["nats_per_token"])
            cached = perplexity(text, "--context", 16, "--stride", 4,
                                *settings(kv_cache__plugin="prefix"))
            self.assertEqual(cached["nats_per_token"], over["nats_per_token"])

    def test_quantised_kv_predicts_nearly_as_well(self):
        valid = SOURCE / "configs/models/valid.txt"
        exact = perplexity(valid, "--context", 512, "--max-tokens", 1024)
        for dtype, most in [("i8", 1.005), ("i4", 1.03)]:
            kept = perplexity(valid, "--context", 512, "--max-tokens", 1024,
                              *settings(kv_cache__dtype=dtype))
            self.assertLess(kept["perplexity"] / exact["perplexity"], most, dtype)
            self.assertIn(f"kv={dtype}", kept["numerics"])

    def test_windows_that_leave_tokens_out_are_refused(self):
        valid = SOURCE / "configs/models/valid.txt"
        done = run("model", "perplexity", MODEL, "--file", valid, "--context", 1)
        self.assertEqual(done.returncode, 2)
        self.assertIn("--context is 1 – it must be a whole number from 2 to", done.stderr)
        for flags, text in [(["--context", 9999], "expected 2 to the pipeline's context of 2048"),
                            (["--context", 8, "--stride", 9], "expected 1 to the windows' 8")]:
            done = run("model", "perplexity", MODEL, "--file", valid, *flags)
            self.assertEqual(done.returncode, 1)
            self.assertIn(text, done.stderr)

    def test_a_random_checkpoint_of_a_shape_runs(self):
        with tempfile.TemporaryDirectory() as folder:
            out = pathlib.Path(folder) / "m"
            self.assertEqual(run("model", "synth", "--shape", "no-such", "--out", out).returncode, 1)
            self.assertIn("llama-3.2-1b", run("model", "synth", "--list").stdout)


class Plugins(unittest.TestCase):
    def test_the_list_has_every_interface_of_the_default_pipeline(self):
        listed = run("plugins", "list").stdout
        for name in ["scheduler  continuous", "scheduler  static", "kv_cache   naive",
                     "kv_cache   paged", "attention ", "linear ", "sampler    standard",
                     "sampler    replay"]:
            self.assertIn(name, listed)

    def test_inspect_shows_options_with_defaults_and_facts(self):
        shown = run("plugins", "inspect", "scheduler/continuous").stdout
        self.assertIn("chunk_tokens", shown)
        self.assertIn("sched.emits", shown)

    def test_an_unknown_plugin_names_the_nearest(self):
        done = run("plugins", "inspect", "kv_cache/pagd")
        self.assertEqual(done.returncode, 1)
        self.assertIn("paged", done.stderr)

    def test_the_current_folder_is_never_searched(self):
        with tempfile.TemporaryDirectory() as folder:
            (pathlib.Path(folder) / "libtenon-evil.so").write_bytes(b"\x7fELF")
            listed = run("plugins", "list", cwd=folder)
            self.assertNotIn("evil", listed.stdout + listed.stderr)


class Configurations(unittest.TestCase):
    # What may be missing here, and nothing else.
    MISSING = {"cuda.toml": "is not installed here|there is no CUDA driver here"}

    def test_every_bundled_pipeline_is_good(self):
        files = sorted((SOURCE / "configs/pipelines").glob("*.toml"))
        self.assertTrue(files)
        for path in files:
            with self.subTest(path=path.name):
                done = run("config", "check", path)
                if done.returncode == 1 and path.name in self.MISSING:
                    self.assertRegex(done.stderr, self.MISSING[path.name])
                    self.assertEqual(done.stderr.count("\n"), 1, done.stderr)
                    continue
                self.assertEqual(done.returncode, 0, done.stderr)

    def test_explain_shows_origins_facts_and_a_hash_that_comments_do_not_change(self):
        explained = run("config", "explain", *settings(scheduler__plugin="static")).stdout
        self.assertIn("--set", explained)
        self.assertIn("default.toml:", explained)
        self.assertIn("kv.dtype", explained)
        with tempfile.TemporaryDirectory() as folder:
            base = SOURCE / "configs/pipelines/default.toml"
            child = pathlib.Path(folder) / "child.toml"
            child.write_text(f'# nothing new\nformat = 1\nextends = "{base}"\n')
            def hash_of(*flags):
                return run("config", "explain", *flags).stdout.splitlines()[-1]
            self.assertEqual(hash_of(child), hash_of())
            self.assertNotEqual(hash_of(*settings(scheduler__plugin="static")), hash_of())

    def test_all_faults_of_a_file_are_reported_with_their_places(self):
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder) / "bad.toml"
            path.write_text('format = 1\n[schedular]\nplugin = "static"\n[limits]\nmax_sequences = "many"\n')
            done = run("config", "check", path)
        self.assertEqual(done.returncode, 1)
        self.assertIn("bad.toml:2:", done.stderr)
        self.assertIn("scheduler", done.stderr)
        self.assertIn("bad.toml:5:", done.stderr)

    def test_facts_that_do_not_fit_list_who_said_what(self):
        done = run("config", "check", *settings(kv_cache__plugin="naive", kv_cache__block_tokens=16))
        self.assertEqual(done.returncode, 1)
        for word in ["kv.block_tokens", "naive", "16", "--set"]:
            self.assertIn(word, done.stderr)


class Bench(unittest.TestCase):
    def test_bench_prints_the_fraction_of_the_limit(self):
        done = run("bench", "--prompt-tokens", 32, "--decode-tokens", 4, "--repeat", 1, "--json")
        self.assertEqual(done.returncode, 0, done.stderr)
        report = json.loads(done.stdout)
        for phase in ["prefill", "decode"]:
            if not report[phase].get("busy"):
                self.assertGreater(report[phase]["fraction_of_limit"], 0)
        self.assertGreater(report["machine"]["read_gbps"], 0)

    def test_bench_says_busy_where_others_have_the_processors(self):
        one = min(os.sched_getaffinity(0))

        def on_one_processor():
            os.sched_setaffinity(0, {one})
        other = subprocess.Popen([sys.executable, "-c", "while True: pass"],
                                 preexec_fn=on_one_processor)
        self.addCleanup(other.wait)
        self.addCleanup(other.kill)

        def on_it_too(*arguments):
            done = subprocess.run([BINARY, "bench", "--threads", "1", "--limit-seconds", "0.3",
                                   *arguments], preexec_fn=on_one_processor, capture_output=True,
                                  text=True, timeout=300, check=False)
            self.assertEqual(done.returncode, 0, done.stderr)
            return done.stdout
        limits = json.loads(on_it_too("--limits", "--json"))
        self.assertTrue(limits["busy"])
        self.assertLess(limits["processor_share"], 0.9)
        self.assertIn("busy: measuring was given", on_it_too("--limits"))
        short = ["--prompt-tokens", "32", "--decode-tokens", "4", "--repeat", "1"]
        report = json.loads(on_it_too(*short, "--json"))
        self.assertTrue(report["decode"]["busy"])
        self.assertNotIn("fraction_of_limit", report["decode"])
        self.assertNotIn("of the limit", on_it_too(*short))

    def test_bench_counts_the_bytes_and_operations_of_the_model(self):
        done = run("bench", "--prompt-tokens", 8, "--decode-tokens", 2, "--repeat", 1, "--json",
                   "--limit-seconds", 0)
        work = json.loads(done.stdout)["work"]
        matrices = json.loads(run("model", "info", MODEL, "--json").stdout)["parameters"] - 13 * 256
        self.assertEqual(work["weight_bytes"], 2 * matrices)
        self.assertEqual(work["row_operations"]["bf16"] + work["head_operations"]["bf16"],
                         2 * matrices)

    def test_bench_measures_no_limits_where_none_are_wanted(self):
        done = run("bench", "--prompt-tokens", 8, "--decode-tokens", 2, "--repeat", 1, "--json",
                   "--limit-seconds", 0)
        report = json.loads(done.stdout)
        self.assertGreater(report["decode"]["mean_step_seconds"], 0)
        self.assertNotIn("fraction_of_limit", report["decode"])
        self.assertNotIn("read_gbps", report["machine"])

    def test_bench_verifies_several_tokens_of_a_sequence_at_once(self):
        done = run("bench", "--prompt-tokens", 8, "--decode-tokens", 12, "--repeat", 1, "--json",
                   "--limit-seconds", 0, "--verify", 4, "--batch", 2)
        self.assertEqual(done.returncode, 0, done.stderr)
        verify = json.loads(done.stdout)["verify"]
        self.assertEqual(verify["tokens"], 4)
        self.assertAlmostEqual(verify["tokens_per_second"] * verify["seconds"], 8, places=3)

    def test_bench_lets_drafts_be_kept_as_often_as_is_said(self):
        bench = ["bench", "--prompt-tokens", 8, "--decode-tokens", 24, "--repeat", 1, "--json",
                 "--limit-seconds", 0, "--batch", 2]
        for acceptance, tokens in [(1, 4), (0, 1)]:
            for manager in ["paged", "prefix"]:
                done = run(*bench, "--verify", 4, "--acceptance", acceptance,
                           *settings(kv_cache__plugin=manager))
                self.assertEqual(done.returncode, 0, done.stderr)
                verify = json.loads(done.stdout)["verify"]
                self.assertEqual(verify["tokens_a_step"], tokens)
                self.assertGreater(verify["speedup"], 0)
        done = run(*bench, "--acceptance", 0.5, "--verify", 1)
        self.assertIn("--verify 1 leaves no room for drafts", done.stderr)
        self.assertIn("--verify", run(*bench, "--acceptance", 0.5).stderr)

    def test_bench_says_when_a_batch_never_ran_whole(self):
        done = run("bench", "--prompt-tokens", 8, "--decode-tokens", 4, "--repeat", 1, "--batch", 4,
                   "--limit-seconds", 0, *settings(limits__max_sequences=2))
        self.assertEqual(done.returncode, 1)
        self.assertIn("no step decoded all 4 sequences; raise", done.stderr)

    def test_bench_of_limits_needs_no_model(self):
        done = run("bench", "--limits", "--json", "--limit-seconds", 0.02, "--threads", 1)
        limits = json.loads(done.stdout)
        self.assertEqual(limits["threads"], 1)
        for name in ["read_gbps", "fma_tflops", "int8_tops"]:
            self.assertGreater(limits[name], 0)
        self.assertIn('"mmx" is not known', run("bench", "--limits", "--isa", "mmx").stderr)


if __name__ == "__main__":
    unittest.main(verbosity=2)
