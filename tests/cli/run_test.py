"""`tenon run` as a person or a script uses it, on the bundled model."""
import json
import pathlib
import signal
import subprocess
import tempfile
import time
import unittest

from program import BINARY, MODEL, SOURCE, run, run_json, settings

PROMPT = "Once upon a time"


class Run(unittest.TestCase):
    def test_the_plain_command_streams_a_story_behind_its_prompt(self):
        done = run("run", PROMPT, "--max-tokens", 24)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertTrue(done.stdout.startswith(PROMPT))
        self.assertGreater(len(done.stdout), len(PROMPT) + 24)
        self.assertIn("24 tokens", done.stderr)
        self.assertIn("tokens/s", done.stderr)

    def test_streamed_text_is_the_text_of_the_json_report(self):
        flags = [PROMPT, "--max-tokens", 40, "--seed", 7]
        streamed = run("run", *flags, "--no-echo").stdout
        reported = run_json(*flags)["requests"][0]["text"]
        self.assertEqual(streamed, reported + "\n")

    def test_a_trace_has_every_call_of_the_plugins_with_its_times(self):
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder) / "trace.json"
            done = run("run", PROMPT, "--max-tokens", 4, "--trace", path)
            self.assertEqual(done.returncode, 0, done.stderr)
            trace = json.loads(path.read_text())
        calls = [event for event in trace["traceEvents"] if event["ph"] == "X"]
        names = [call["name"] for call in calls]
        self.assertGreaterEqual(names.count("plan of scheduler 'continuous'"), 4)
        self.assertGreaterEqual(names.count("sample of sampler 'standard'"), 4)
        self.assertIn("linear", {call["cat"] for call in calls})
        self.assertEqual(trace["lost_calls"], 0)
        for call in calls:
            self.assertGreaterEqual(call["ts"], 0)
            self.assertGreaterEqual(call["dur"], 0)

    def test_the_same_seed_gives_the_same_text_and_another_one_another(self):
        def text(seed):
            return run_json(PROMPT, "--max-tokens", 32, "--seed", seed)["requests"][0]["text"]
        self.assertEqual(text(1), text(1))
        self.assertNotEqual(text(1), text(2))

    def test_samples_of_one_prompt_differ_and_the_first_is_that_of_a_single_run(self):
        three = run_json(PROMPT, "--max-tokens", 16, "--n", 3)["requests"]
        self.assertEqual([r["sample"] for r in three], [0, 1, 2])
        self.assertEqual(len({r["text"] for r in three}), 3)
        single = run_json(PROMPT, "--max-tokens", 16)["requests"][0]
        self.assertEqual(three[0]["tokens"], single["tokens"])
        self.assertEqual(three[0]["digest"], single["digest"])

    def test_text_goes_on_from_its_prompt_with_a_tokenizer_that_drops_leading_spaces(self):
        with tempfile.TemporaryDirectory() as folder:
            folder = pathlib.Path(folder)
            for name in ["config.json", "model.safetensors"]:
                (folder / name).symlink_to(MODEL / name)
            tokenizer = SOURCE / "tests/unit/tokenizer/data/llama2.json"
            (folder / "tokenizer.json").symlink_to(tokenizer)

            def ids(text):
                return run("tokenize", text, "--tokenizer", tokenizer).stdout.split()
            whole, start = ids("hello a time"), ids("hello")
            self.assertEqual(whole[:len(start)], start)
            rest = whole[len(start):]
            request = run_json("hello", "--model", folder, "--max-tokens", len(rest), *settings(
                sampler__plugin="replay", sampler__options__tokens='"' + " ".join(rest) + '"'))
        self.assertEqual(request["requests"][0]["text"], " a time")

    def test_a_stop_text_ends_the_output_before_itself(self):
        full = run_json(PROMPT, "--max-tokens", 40, "--temperature", 0)["requests"][0]["text"]
        word = full.split()[5]
        stopped = run_json(PROMPT, "--max-tokens", 40, "--temperature", 0, "--stop", word)
        request = stopped["requests"][0]
        self.assertEqual(request["finish"], "stop")
        self.assertEqual(request["text"], full[:full.index(word)])

    def test_max_tokens_is_exact_and_named_as_the_reason(self):
        request = run_json(PROMPT, "--max-tokens", 5, "--ignore-eos")["requests"][0]
        self.assertEqual(len(request["tokens"]), 5)
        self.assertEqual(request["finish"], "length")

    def test_standard_input_is_a_prompt(self):
        piped = run("run", "--max-tokens", 8, "--json", stdin=PROMPT + "\n")
        self.assertEqual(json.loads(piped.stdout)["requests"][0]["tokens"],
                         run_json(PROMPT, "--max-tokens", 8)["requests"][0]["tokens"])

    def test_a_file_of_prompts_runs_together_and_each_as_if_alone(self):
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder) / "prompts.jsonl"
            path.write_text('{"prompt": "The king", "max_tokens": 9}\n'
                            '{"prompt": [1, 2, 3], "max_tokens": 12, "seed": 5}\n\n'
                            '{"prompt": "A fox", "max_tokens": 20, "temperature": 0}\n')
            report = run_json("--file", path, "--ignore-eos")
        requests = report["requests"]
        self.assertEqual([len(r["tokens"]) for r in requests], [9, 12, 20])
        self.assertLess(report["totals"]["steps"], 9 + 12 + 20)
        alone = run_json("A fox", "--max-tokens", 20, "--temperature", 0, "--ignore-eos")
        self.assertEqual(alone["requests"][0]["digest"], requests[2]["digest"])

    def test_blocks_of_several_prompts_come_in_order(self):
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder) / "prompts.txt"
            path.write_text("The king\nThe queen\n")
            done = run("run", "--file", path, "--max-tokens", 6)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertLess(done.stdout.index("prompt 1"), done.stdout.index("The king"))
        self.assertLess(done.stdout.index("The king"), done.stdout.index("The queen"))

    def test_logprobs_are_ordered_and_contain_the_greedy_token_first(self):
        request = run_json(PROMPT, "--max-tokens", 4, "--temperature", 0, "--logprobs", 3)[
            "requests"][0]
        for token, entry in zip(request["tokens"], request["logprobs"]):
            values = [logprob for _, logprob in entry["top"]]
            self.assertEqual(entry["top"][0][0], token)
            self.assertEqual(values, sorted(values, reverse=True))
            self.assertLess(values[0], 0)

    def test_the_second_interrupt_is_not_needed(self):
        process = subprocess.Popen(
            [BINARY, "run", PROMPT, "--max-tokens", "1900", "--ignore-eos"],
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        process.stdout.read(len(PROMPT) + 20)  # it has begun to speak
        process.send_signal(signal.SIGINT)
        _, errors = process.communicate(timeout=60)
        self.assertEqual(process.returncode, 130)
        self.assertIn("tokens/s", errors)


class Refusals(unittest.TestCase):
    def check(self, arguments, *words, status=1):
        done = run(*arguments)
        self.assertEqual(done.returncode, status, done.stdout + done.stderr)
        for word in words:
            self.assertIn(word, done.stderr)

    def test_a_prompt_longer_than_the_context_is_refused_before_any_work(self):
        started = time.monotonic()
        self.check(["run", "word " * 5000, "--max-tokens", "4"], "2048")
        self.assertLess(time.monotonic() - started, 30)

    def test_an_empty_prompt_is_refused(self):
        self.check(["run", ""], "prompt")

    def test_an_unknown_plugin_names_the_nearest(self):
        self.check(["run", "x", *settings(scheduler__plugin="continous")], "continuous", "--set")

    def test_an_unknown_key_names_the_nearest(self):
        self.check(["run", "x", *settings(kv_cache__plugn="paged")], "plugin")

    def test_a_missing_model_folder_is_named(self):
        self.check(["run", "x", "--model", "no/such/folder"], "no/such/folder")

    def test_a_missing_prompt_file_is_named(self):
        self.check(["run", "--file", "no-such-file.txt"], "no-such-file.txt")

    def test_a_bad_line_of_a_prompt_file_is_named(self):
        with tempfile.NamedTemporaryFile("w", suffix=".jsonl") as file:
            file.write('{"prompt": "a"}\n{"prompt": 3}\n')
            file.flush()
            self.check(["run", "--file", file.name], ":2:", "list of token ids")

    def test_a_token_id_outside_the_vocabulary_is_refused(self):
        with tempfile.NamedTemporaryFile("w", suffix=".jsonl") as file:
            file.write('{"prompt": [4096]}\n')
            file.flush()
            self.check(["run", "--file", file.name], "4096")

    def test_kernels_are_refused_where_the_executor_takes_none(self):
        self.check(["run", "x", *settings(executor__plugin="ref", attention__plugin="cpu")],
                   "ref", "attention")

    def test_too_little_kv_memory_says_how_much_is_needed(self):
        self.check(["run", "x", *settings(kv_cache__memory="64KiB")], "kv_cache.memory", "needs")

    def test_wrong_usage_has_its_own_exit_status(self):
        self.check(["run", "x", "--no-such-flag"], "no-such-flag", status=2)


if __name__ == "__main__":
    unittest.main(verbosity=2)
