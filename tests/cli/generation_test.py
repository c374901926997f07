"""What can be asked of an answer: beams against Hugging Face transformers, the best of several,
scores of the prompt, stops, penalties, watermarks; and what is refused."""
import json
import math
import pathlib
import tempfile
import unittest

from program import SOURCE, run, run_json, settings

PROMPT = "Once upon a time"
GOLDEN = SOURCE / "tests/golden"


def run_requests(requests, *flags):
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder) / "prompts.jsonl"
        path.write_text("".join(json.dumps(request) + "\n" for request in requests))
        return run_json("--file", path, *flags)["requests"]


class Beams(unittest.TestCase):
    def golden(self, **keys):
        golden = json.loads((GOLDEN / "beams.json").read_text())
        cases = golden["cases"]
        results = run_requests([case["request"] for case in cases],
                               "--model", GOLDEN / "models" / golden["model"],
                               *settings(kv_cache__dtype="f32", **keys))
        for index, case in enumerate(cases):
            found = [r["tokens"] for r in results if r["index"] == index]
            self.assertEqual(found, case["answers"], case["request"])

    def test_searches_find_what_transformers_finds(self):
        self.golden(executor__plugin="ref", attention__plugin="auto")

    def test_searches_find_it_on_the_cpu_in_short_memory_too(self):
        self.golden(kv_cache__block_tokens=4, limits__max_sequences=7)

    def test_answers_come_best_first_at_the_end(self):
        done = run("run", PROMPT, "--max-tokens", 12, "--beams", 4, "--n", 2, "--ignore-eos")
        self.assertEqual(done.returncode, 0, done.stderr)
        report = run_json(PROMPT, "--max-tokens", 12, "--beams", 4, "--n", 4, "--ignore-eos",
                          "--logprobs", 0)
        texts = [r["text"] for r in report["requests"]]
        self.assertEqual(len(set(texts)), 4)
        self.assertIn(texts[0], done.stdout)
        sums = [sum(t["logprob"] for t in r["logprobs"]) for r in report["requests"]]
        self.assertEqual(sums, sorted(sums, reverse=True))

    def test_what_has_no_place_in_a_search_is_refused(self):
        done = run("run", PROMPT, "--beams", 3, "--n", 5, "--top-k", 4, "--stop", "x")
        self.assertEqual(done.returncode, 1)
        for text in ["samples is 5, more than beams, 3", "top_k is 4", "stop strings"]:
            self.assertIn(text, done.stderr)


class Answers(unittest.TestCase):
    def test_the_best_of_several_is_the_most_likely_of_them(self):
        flags = [PROMPT, "--max-tokens", 12, "--ignore-eos", "--seed", 3, "--logprobs", 1]
        all_six = run_json(*flags, "--n", 6)["requests"]
        best = run_json(*flags, "--best-of", 6)["requests"]
        self.assertEqual(len(best), 1)
        likely = max(all_six, key=lambda r: sum(t["logprob"] for t in r["logprobs"]))
        self.assertEqual(best[0]["tokens"], likely["tokens"])

    def test_prompts_are_scored_as_answers_are(self):
        answer = run_json(PROMPT, "--max-tokens", 6, "--temperature", 0, "--ignore-eos",
                          "--logprobs", 2)["requests"][0]
        ids = [int(i) for i in run("tokenize", PROMPT).stdout.split()] + answer["tokens"]
        scored = run_requests([{"prompt": ids, "max_tokens": 1, "logprobs": 2,
                                "prompt_logprobs": True, "temperature": 0}])[0]
        self.assertEqual(len(scored["prompt_logprobs"]), len(ids) - 1)
        for given, again in zip(answer["logprobs"], scored["prompt_logprobs"][-6:]):
            self.assertEqual(given, again)
            self.assertEqual(given["rank"], 1)

    def test_a_stop_can_be_part_of_the_output(self):
        full = run_json(PROMPT, "--max-tokens", 30, "--temperature", 0)["requests"][0]["text"]
        word = full.split()[4]
        request = run_json(PROMPT, "--max-tokens", 30, "--temperature", 0, "--stop", word,
                           "--include-stop")["requests"][0]
        self.assertEqual(request["text"], full[:full.index(word)] + word)
        self.assertEqual(request["stop"], word)

    def test_bias_bans_and_allowed_tokens_decide_what_is_said(self):
        flags = [PROMPT, "--max-tokens", 8, "--temperature", 0, "--ignore-eos"]
        plain = run_json(*flags)["requests"][0]
        biased = run_json(*flags, "--logit-bias", "400=100")["requests"][0]
        self.assertEqual(biased["tokens"], [400] * 8)
        allowed = run_json(*flags, "--allow-token", 300, "--allow-token", 301)["requests"][0]
        self.assertLessEqual(set(allowed["tokens"]), {300, 301})
        word = plain["text"].split()[1]
        banned = run_json(*flags, "--bad-word", word)["requests"][0]
        self.assertNotEqual(banned["tokens"], plain["tokens"])
        repeats = run_json(*flags, "--presence-penalty", 100)["requests"][0]
        self.assertEqual(len(set(repeats["tokens"])), 8)

    def test_workloads_take_the_same_names(self):
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder) / "workload.toml"
            path.write_text(f'format = 1\n[[request]]\nprompt = "{PROMPT}"\nmax_tokens = 8\n'
                            'temperature = 0\nlogit_bias = { 400 = 100 }\nmin_p = 0.1\n'
                            f'[[request]]\nprompt = "{PROMPT}"\nmax_tokens = 8\nbeams = 3\n')
            requests = run_json("--workload", path)["requests"]
            self.assertEqual(requests[0]["tokens"], [400] * 8)
            beams = run_json(PROMPT, "--max-tokens", 8, "--beams", 3, "--ignore-eos")["requests"]
            self.assertEqual(requests[1]["tokens"], beams[0]["tokens"])
            path.write_text('format = 1\n[[request]]\nprompt = "x"\nmax_tokens = 8\nmin_p = 2\n'
                            'minp = 1\nstop = 4\n')
            done = run("run", "--workload", path)
        self.assertEqual(done.returncode, 1)
        self.assertIn(":5:9: min_p is 2 – it must be a number from 0.0 to 1.0", done.stderr)
        self.assertIn("'minp' is no key of a workload, did you mean 'min_p'", done.stderr.replace(
            "; did", ", did").replace(" – did", ", did"))
        self.assertIn("'stop' must be a list of texts", done.stderr)

    def test_values_out_of_range_are_refused_with_the_range(self):
        done = run("run", PROMPT, "--min-p", 1.5)
        self.assertEqual(done.returncode, 2)
        self.assertIn("min_p is 1.5 – it must be a number from 0.0 to 1.0", done.stderr)
        done = run("run", PROMPT, "--mirostat", 2, "--top-k", 5)
        self.assertEqual(done.returncode, 1)
        self.assertIn("mirostat decides how many tokens stay, but top_k is 5", done.stderr)
        done = run("run", PROMPT, "--order", "top_k heat")
        self.assertIn("'heat' is no stage of sampling", done.stderr)

    def test_every_stage_runs_from_the_command_line(self):
        done = run_json(
            PROMPT, "--max-tokens", 20, "--min-p", 0.02, "--typical-p", 0.95, "--top-n-sigma", 3,
            "--xtc-probability", 0.5, "--dynamic-temperature-range", 0.5, "--repetition-penalty",
            1.1, "--frequency-penalty", 0.2, "--dry-multiplier", 0.8, "--order",
            "dry,penalties,top_k,typical_p,min_p,xtc,temperature")
        self.assertGreater(len(done["requests"][0]["tokens"]), 0)


class Watermark(unittest.TestCase):
    def test_is_found_with_its_key_and_with_no_other(self):
        text = run("run", PROMPT, "--max-tokens", 150, "--ignore-eos", "--no-echo", "--quiet",
                   "--temperature", 1, "--watermark-delta", 4, "--watermark-key", 42).stdout
        plain = run("run", PROMPT, "--max-tokens", 150, "--ignore-eos", "--no-echo", "--quiet",
                    "--temperature", 1).stdout

        def z(given, *flags):
            done = run("watermark", "detect", "--json", *flags, stdin=given)
            self.assertEqual(done.returncode, 0, done.stderr)
            report = json.loads(done.stdout)
            self.assertAlmostEqual(report["p"], 0.5 * math.erfc(report["z"] / math.sqrt(2)))
            return report["z"]
        self.assertGreater(z(text, "--key", 42), 5.0)
        self.assertLess(z(text, "--key", 43), 4.0)
        self.assertLess(z(plain, "--key", 42), 4.0)

    def test_counts_ids_as_well_as_text(self):
        done = run("watermark", "detect", "5 6 7 8 9", "--ids", "--context", 2)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("of 3 tokens are green", done.stdout)
        done = run("watermark", "detect", "5", "--ids")
        self.assertEqual(done.returncode, 1)
        self.assertIn("1 tokens cannot be judged", done.stderr)


if __name__ == "__main__":
    unittest.main()
