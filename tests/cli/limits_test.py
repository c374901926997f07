"""Numbers, lists and texts on every way into the program: what is in range is taken, all else is
refused, in the same words everywhere. The parameters of a request are those of their page."""
import json
import pathlib
import re
import tempfile
import unittest

from program import MODEL, SANITIZED, SOURCE, run, run_json, settings

PAGE = SOURCE / "docs/formats/generation.md"
ROW = re.compile(r"\| `(\w+)` \| `(--[\w-]+)` \| (.*?) \| (.*?) \| .* \|$")
RANGE = re.compile(r"a (whole )?number (from|above) (\S+) (to|and at most|and below) (\S+)$")
TAIL = " – change it or leave it out"
# Everything that is read before a model is opened is right where this one is missed.
NOWHERE = ["--model", "nowhere"]


class Number:
    """A numeric parameter, with values in range and out of it, each as (written, shown)."""

    def __init__(self, name, option, values):
        self.name, self.option, self.values = name, option, values
        whole, first, least, last, most = RANGE.match(values).groups()
        self.whole = whole is not None
        if self.whole:
            self.good = [least, most]
            beyond = int(most) + 1
            shown = str(beyond) if beyond < 2**63 else f"{beyond}.0"  # no whole number is so large
            self.bad = [(str(int(least) - 1), str(int(least) - 1)), (str(beyond), shown),
                        ("1.5", "1.5"), ("3.0", "3.0")]
        else:
            self.good = [least] * (first == "from") + [most] * (last != "and below") or ["0.5"]
            below, above = str(float(least) - 1), str(float(most) + 1)
            self.bad = [(below, below), (above, above)]
            self.bad += [(least, least)] * (first == "above")
            self.bad += [(most, most)] * (last == "and below")
        self.bad.append(("1e300", "1e+300"))

    def fault(self, shown):
        return f"{self.name} is {shown} – it must be {self.values}{TAIL}"


def page_rows():
    return [match.groups() for match in map(ROW.match, PAGE.read_text().splitlines()) if match]


ROWS = page_rows()
NUMBERS = [Number(*row[:3]) for row in ROWS if RANGE.match(row[2])]
# Those that are tried with a process for each value, which takes sanitizers a second.
TRIED = NUMBERS[::6] if SANITIZED else NUMBERS
SHOWN_WITH_JSON = {"logprobs": ["--json"]}


class Case(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)

    def write(self, name, text):
        path = self.folder / name
        path.write_text(text)
        return path

    def refused(self, status, fault, *arguments, **keywords):
        done = run(*arguments, **keywords)
        self.assertEqual(done.returncode, status, f"{arguments}: {done.stdout}{done.stderr}")
        self.assertIn(fault, done.stderr, arguments)

    def read_well(self, *arguments):
        """Refused for nothing but its model, which is opened after everything else was read."""
        done = run(*arguments, *NOWHERE)
        self.assertEqual(done.returncode, 1, f"{arguments}: {done.stdout}{done.stderr}")
        self.assertIn("--model: cannot open 'nowhere", done.stderr, arguments)


class Parameters(Case):
    def test_the_page_has_a_row_for_every_option_of_the_help(self):
        shown = run("run", "--help").stdout
        self.assertGreater(len(NUMBERS), 30)
        for name, option, values, default in ROWS:
            self.assertRegex(shown, rf"\n  {option}\b")
            if RANGE.match(values):
                text = " ".join(shown[shown.index(f"\n  {option} "):].split())
                self.assertIn(f"{values} (default: {default})", text[:400], name)

    def test_the_command_line_takes_numbers_in_range_alone(self):
        for number in TRIED:
            more = SHOWN_WITH_JSON.get(number.name, [])
            for value in number.good:
                self.read_well("run", "x", number.option, value, *more)
            for value, shown in [*number.bad, ("5x", '"5x"'), ("", '""'), ("nan", "nan")]:
                self.refused(2, number.fault(shown), "run", "x", number.option, value, *more)

    def test_prompt_files_take_numbers_in_range_alone(self):
        for number in TRIED:
            # JSON has one kind of number: 3.0 is a whole one.
            whole = {"3.0"} if number.whole and int(number.good[0]) <= 3 <= int(number.good[1]) else set()
            for value in [*number.good, *whole]:
                path = self.write("p.jsonl", f'{{"prompt": "x", "{number.name}": {value}}}\n')
                self.read_well("run", "--file", path)
            bad = [(value, shown.removesuffix(".0") if abs(float(value)) < 2**53 else shown)
                   for value, shown in number.bad if value not in whole]
            for value, shown in [*bad, ('"5x"', '"5x"'), ("true", "true")]:
                path = self.write("p.jsonl", f'{{"prompt": "x", "{number.name}": {value}}}\n')
                self.refused(1, f"p.jsonl:1: {number.fault(shown)}", "run", "--file", path)

    def workload(self, number, value):
        length = "" if number.name == "max_tokens" else "max_tokens = 4\n"
        return f"[[request]]\nprompt = 'x'\n{length}{number.name} = {value}\n"

    def test_workloads_take_numbers_in_range_alone(self):
        good = "".join(self.workload(n, value) for n in NUMBERS for value in n.good)
        self.read_well("run", "--workload", self.write("w.toml", "format = 1\n" + good))
        cases = [(n, value, shown) for n in NUMBERS
                 for value, shown in [*n.bad, ("'5x'", '"5x"'), ("nan", "nan"), ("true", "true")]
                 if value != str(2**63)]  # no TOML
        bad = "".join(self.workload(n, value) for n, value, _ in cases)
        done = run("run", "--workload", self.write("w.toml", "format = 1\n" + bad))
        self.assertEqual(done.returncode, 1)
        faults = [line.split(": ", 1)[1] for line in done.stderr.splitlines()]
        faults[0] = faults[0].split(": ", 1)[-1]  # behind "tenon:"
        self.assertEqual(sorted(faults), sorted(n.fault(shown) for n, _, shown in cases))

    def test_pipelines_take_numbers_in_range_alone(self):
        known = run("config", "check", *settings(generation__nothing=1)).stderr
        numbers = [n for n in NUMBERS if re.search(rf"\b{n.name}\b", known)]
        self.assertGreater(len(numbers), 25)
        for pick in (0, -1):
            flags = [f for n in numbers for f in settings(**{f"generation__{n.name}": n.good[pick]})]
            self.assertEqual(run("config", "check", *flags).returncode, 0, flags)
        for pick in range(3):
            flags = [f for n in numbers
                     for f in settings(**{f"generation__{n.name}": n.bad[pick][0]})]
            done = run("config", "check", *flags)
            self.assertEqual(done.returncode, 1)
            for number in numbers:
                if number.bad[pick][0] != str(2**63):
                    self.assertIn(f"--set: generation.{number.fault(number.bad[pick][1])}",
                                  done.stderr)

    def test_words_and_lists_are_refused_in_the_same_words_everywhere(self):
        for key, option, value, fault in [
                ("order", "--order", ",", "order has an empty entry"),
                ("order", "--order", "", "order is empty"),
                ("order", "--order", "top_k,,xtc", "order has an empty entry"),
                ("order", "--order", "heat", "'heat' is no stage of sampling"),
                ("early_stopping", "--early-stopping", "maybe",
                 'early_stopping is "maybe" – it must be one of false, true, never' + TAIL),
                ("stop", "--stop", "", "stop has an empty text"),
                ("bad_words", "--bad-word", "", "bad_words has an empty text"),
                ("dry_breakers", "--dry-breaker", "", "dry_breakers has an empty text"),
                ("stop_tokens", "--stop-token", -1, "an id of stop_tokens is -1 – it must be"),
                ("stop_tokens", "--stop-token", 2**31, "an id of stop_tokens is 2147483648 –"),
                ("allowed_tokens", "--allow-token", 1.5, "an id of allowed_tokens is 1.5 –")]:
            whole = value if key in ("order", "early_stopping") else [value]
            self.refused(2, fault, "run", "x", option, value)
            path = self.write("p.jsonl", json.dumps({"prompt": "x", key: whole}))
            self.refused(1, fault, "run", "--file", path)
            path = self.write("w.toml", "format = 1\n[[request]]\nprompt = 'x'\nmax_tokens = 1\n"
                                        f"{key} = {json.dumps(whole)}\n")
            self.refused(1, fault, "run", "--workload", path)

    def test_a_list_that_allows_no_token_is_refused_wherever_it_stands(self):
        fault = "allowed_tokens is empty, which allows no token"
        self.refused(1, fault, "run", "--file",
                     self.write("p.jsonl", '{"prompt": "x", "allowed_tokens": []}'))
        self.refused(1, fault, "run", "--workload", self.write(
            "w.toml", "format = 1\n[[request]]\nprompt = 'x'\nmax_tokens = 1\nallowed_tokens = []\n"))

    def test_biases_and_parameters_of_third_parties_are_numbers_that_fit(self):
        for flags, fault in [(["--logit-bias", "5"], "is no token id and number"),
                             (["--logit-bias", "x=1"], 'an id of logit_bias is "x"'),
                             (["--logit-bias", "5=1x"], 'a number of logit_bias is "1x"'),
                             (["--logit-bias", "5=1e300"], "a number of logit_bias is 1e+300"),
                             (["--logit-bias", "5=nan"], "a number of logit_bias is nan"),
                             (["--param", "acme.heat=inf"], 'the parameter "acme.heat" is inf'),
                             (["--param", "acme.heat=1e999"], "has a number that no double holds"),
                             (["--param", "=1"], "is no key and value")]:
            self.refused(2, fault, "run", "x", *flags)
        path = self.write("p.jsonl", '{"prompt": "x", "logit_bias": {"5": 1e300}}')
        self.refused(1, "a number of logit_bias is 1e+300", "run", "--file", path)

    def test_prompt_files_have_no_keys_that_nobody_knows(self):
        for line, fault in [
                ('{"prompt": "x", "n": 4}', '"n" is no key of a prompt; did you mean \'samples\'?'),
                ('{"prompt": "x", "max_token": 4}', '"max_token" is no key of a prompt; did you '
                                                    "mean 'max_tokens'?"),
                ('{"prompt": "x", "acme.heat": 4}', 'parameters of third parties stand in "params"'),
                ('{"prompt": "x", "seed": 1, "seed": 2}', '"seed" stands there twice'),
                (json.dumps({"prompt": "x", "logit_bias": {str(i): 1 for i in range(4097)}}),
                 "an object of the line has more than 4096 keys"),
                ('{"prompt": "x", "json_schema": ' + '{"not": ' * 65 + "1" + "}" * 66,
                 "the line is nested deeper than 65 levels"),
                ('{"prompt": [1, -1]}', "an id of prompt is -1 –"),
                ('{"prompt": [1.5]}', "an id of prompt is 1.5 –")]:
            self.refused(1, "p.jsonl:1: ", "run", "--file", self.write("p.jsonl", line))
            self.refused(1, fault, "run", "--file", self.write("p.jsonl", line))
        self.read_well("run", "--file",
                       self.write("p.jsonl", '{"prompt": "x", "seed": null, "params": {"a.b": 1}}'))


class Options(Case):
    NUMBERS = [(["run", "x"], "--threads", 1, 512), (["bench"], "--prompt-tokens", 2, 1 << 20),
               (["bench"], "--decode-tokens", 1, 1 << 20), (["bench"], "--batch", 1, 4096),
               (["bench"], "--verify", 1, 33), (["bench"], "--repeat", 1, 1000),
               (["bench", "--verify", 4], "--acceptance", 0.0, 1.0),
               (["bench"], "--limit-seconds", 0.0, 60.0), (["bench"], "--threads", 1, 512),
               (["model", "perplexity", "--file", "x"], "--context", 2, 1 << 24),
               (["model", "perplexity", "--file", "x"], "--stride", 1, 1 << 24),
               (["model", "perplexity", "--file", "x"], "--max-tokens", 1, 1 << 30),
               (["model", "compare", "a", "b", "--file", "x"], "--context", 2, 1 << 24),
               (["model", "quantize", "a", "b", "--method", "rtn"], "--context", 16, 1 << 24),
               (["model", "synth"], "--seed", 0, 2**63 - 1),
               (["watermark", "detect", "x"], "--key", 0, 2**53 - 1),
               (["watermark", "detect", "x"], "--context", 0, 16)]

    def test_numbers_of_every_command_are_refused_outside_of_their_range(self):
        for command, option, least, most in self.NUMBERS:
            kind = "a number" if isinstance(least, float) else "a whole number"
            unit = " threads" if option == "--threads" else ""
            expected = f" – it must be {kind} from {least} to {most}{unit}{TAIL}"
            help_text = " ".join(run(*command, "--help").stdout.split())
            self.assertIn(f"{kind} from {least} to {most}", help_text)
            for value in [least - 1, most + 1, "1e300", "-1", "nan", "5x", "", "0x1"]:
                self.refused(2, f"{option} is ", *command, option, value)
                self.refused(2, expected, *command, option, value)
            if command[0] not in ("model", "watermark"):
                self.read_well(*command, option, least)
                self.read_well(*command, option, most)

    def test_shares_of_green_tokens_lie_between_none_and_all(self):
        for value in ["0", "1", "0.99999999999", "1e-99", "nan"]:
            self.refused(2, "--gamma is ", "watermark", "detect", "x", "--gamma", value)

    def test_texts_are_never_empty(self):
        for command, options in [
                (["run", "x"], ["--model", "--config", "--isa", "--set", "--plugin-path",
                                "--log-level"]),
                (["run"], ["--file", "--workload"]), (["tokenize", "x"], ["--model", "--tokenizer"]),
                (["plugins", "list"], ["--plugin-path"]),
                (["model", "synth"], ["--shape", "--out", "--grow", "--dtype", "--tokenizer"]),
                (["model", "convert", "a", "b"], ["--type"]),
                (["model", "logits"], ["--tokens", "--tokens-file", "--text-file", "--out"]),
                (["model", "perplexity"], ["--file"]), (["watermark", "detect"], ["--model"])]:
            for option in options:
                self.refused(2, f"{option} is empty", *command, option, "")
        self.refused(2, "model is empty", "model", "logits", "", "--out", "x")
        self.refused(2, "file is empty", "config", "check", "")

    def test_lists_have_no_empty_entries(self):
        for ids in ["1,,2", ",1", "1,", "1 , ,2"]:
            self.refused(1, "the list of token ids has an empty entry", "model", "logits", MODEL,
                         "--out", self.folder / "x.npy", "--tokens", ids)
            self.refused(1, "the list of token ids has an empty entry", "detokenize", stdin=ids)
        for ids in ["1,x", "-1", "1.5", "99999999999"]:
            self.refused(1, "a token id is ", "detokenize", stdin=ids)
            self.refused(1, "a token id is ", "watermark", "detect", "--ids", stdin=ids)
        for chunks in ["2,,1", "2,0", ",", "", "2,1048577", "2,x"]:
            self.refused(2, "--chunks", "model", "logits", MODEL, "--out", self.folder / "x.npy",
                         "--tokens", "1,2", "--chunks", chunks)

    def test_what_would_go_unheard_is_refused(self):
        for command in [["run", "x", "--logprobs", 2], ["run", "x", "--prompt-logprobs"],
                        ["bench", "--limits", "--batch", 2], ["bench", "--limits", "--repeat", 2],
                        ["bench", "--limits", "--model", MODEL], ["bench", "--limits", "--set", "a=b"],
                        ["tokenize", "x", "--model", MODEL, "--tokenizer", "y"],
                        ["tokenize", "x", "--json", "--pieces"],
                        ["model", "logits", MODEL, "--model", MODEL, "--out", "x", "--tokens", "1"],
                        ["model", "logits", "--tokens", "1", "--text-file", "x", "--out", "x"],
                        ["config", "check", "a.toml", "--config", "b.toml"],
                        ["run", "x", "--ignore-eos=maybe"]]:
            self.assertEqual(run(*command).returncode, 2, command)
        self.refused(1, "there is no interface 'nonsense'; expected one of scheduler", "plugins",
                     "list", "nonsense")
        self.refused(1, "'drafter.verify' is set, but there is no drafter", "config", "check",
                     *settings(drafter__verify="exact"))
        self.refused(1, "--limit-seconds is 0", "bench", "--limits", "--limit-seconds", 0)
        for flags in [["--length-penalty", 0.5], ["--early-stopping", "true"]]:
            self.refused(1, "leave it out or set beams", "run", "x", *flags)

    def test_the_oracle_says_that_it_runs_on_one_thread(self):
        done = run("config", "check", "--threads", 2, *settings(
            executor__plugin="ref", executor__isa="avx2", kv_cache__dtype="f32"))
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("--threads: executor.threads is set, but executor 'ref' runs on", done.stderr)
        self.assertIn("--set: executor.isa is set, but executor 'ref' is portable", done.stderr)

    def test_errors_name_the_flag_that_was_typed(self):
        self.refused(1, "tenon: --model: cannot open 'nowhere", "run", "x", "--model", "nowhere")
        self.refused(1, "tenon: model: cannot open 'nowhere", "model", "perplexity", "nowhere",
                     "--file", "x")
        self.refused(1, 'tenon: --isa: \'executor.isa\' is the text "mmx"', "run", "x", "--isa", "mmx")
        self.assertIn("# --threads", run("config", "explain", "--threads", 1).stdout)


class Texts(Case):
    def test_tokenize_takes_standard_input_byte_for_byte(self):
        for text in ["a\n", "a\n\n", "\n", "a", " a \n"]:
            ids = run("tokenize", stdin=text).stdout
            self.assertEqual(ids, run("tokenize", text).stdout)
            self.assertEqual(run("detokenize", stdin=ids).stdout, text)

    def test_nothing_gives_nothing(self):
        for done in [run("tokenize", ""), run("tokenize", stdin="")]:
            self.assertEqual((done.returncode, done.stdout), (0, "\n"))
        self.assertEqual(json.loads(run("tokenize", "", "--json").stdout), [])
        for done in [run("detokenize", stdin=""), run("detokenize", stdin="\n")]:
            self.assertEqual((done.returncode, done.stdout), (0, ""), done.stderr)

    def padded_model(self):
        """The bundled model with a tokenizer that has fewer tokens than the model has rows."""
        for name in ["config.json", "model.safetensors"]:
            (self.folder / name).symlink_to(MODEL / name)
        tokenizer = json.loads((MODEL / "tokenizer.json").read_text())
        vocabulary = tokenizer["model"]["vocab"]
        kept = {piece for piece, id in vocabulary.items() if id < 4000}
        tokenizer["model"]["vocab"] = {p: i for p, i in vocabulary.items() if p in kept}
        parts = lambda merge: merge.split(" ") if isinstance(merge, str) else merge  # noqa: E731
        tokenizer["model"]["merges"] = [merge for merge in tokenizer["model"]["merges"]
                                        if "".join(parts(merge)) in kept]
        tokenizer["added_tokens"] = []
        (self.folder / "tokenizer.json").write_text(json.dumps(tokenizer))
        return self.folder

    def test_ids_that_a_padded_model_says_are_decoded_as_it_did(self):
        folder = self.padded_model()
        ids = ["400", "4095", "500", "4000", "3999"]
        said = run_json("x", "--model", folder, "--max-tokens", len(ids), "--ignore-eos", *settings(
            sampler__plugin="replay", sampler__options__tokens='"' + " ".join(ids) + '"'))
        answer = said["requests"][0]
        self.assertEqual(answer["tokens"], list(map(int, ids)))
        text = run("detokenize", "--model", folder, *ids)
        self.assertEqual(text.returncode, 0, text.stderr)
        self.assertEqual(text.stdout, answer["text"])
        self.assertEqual(text.stdout, run("detokenize", 400, 500, 3999).stdout)
        self.refused(1, "a token id is 4096 – it must be a whole number from 0 to 4095", "detokenize",
                     "--model", folder, 4096)
        self.refused(1, "a token id is 4095 – it must be a whole number from 0 to 3999", "detokenize",
                     "--tokenizer", folder / "tokenizer.json", 4095)


class Contexts(Case):
    def test_a_context_beyond_the_models_needs_a_word(self):
        longer = settings(limits__context_tokens=2200)
        self.refused(1, "or limits.exceed_model_context = true", "config", "check", *longer)
        path = self.write("p.jsonl", json.dumps({"prompt": [5] * 2100, "max_tokens": 3}))
        report = run_json("--file", path, "--ignore-eos", *longer,
                          *settings(limits__exceed_model_context="true"))
        self.assertEqual(len(report["requests"][0]["tokens"]), 3)


if __name__ == "__main__":
    unittest.main(verbosity=2)
