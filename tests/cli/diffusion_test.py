"""Diffusion models in the program: `tenon run` makes the published answers, and what belongs to other
models is refused by name."""
import json
import pathlib
import tempfile
import unittest

from program import GOLDEN_MODELS, MODEL, run, run_json, settings

GOLDEN = GOLDEN_MODELS / "llada"
ANSWERS = json.loads((GOLDEN / "answers.json").read_text())
MODEL_FLAGS = ["--model", GOLDEN]


def line_of(answer, **more):
    return {"prompt": answer["prompt"], "max_tokens": answer["gen_length"],
            "block_length": answer["block_length"], "steps": answer["steps"],
            "remasking": answer["remasking"], "seed": answer["seed"], "ignore_eos": True, **more}


class Diffusion(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)

    def prompts(self, *lines):
        path = self.folder / "prompts.jsonl"
        path.write_text("".join(json.dumps(line) + "\n" for line in lines))
        return ["--file", path]

    def refused(self, status, fault, *arguments):
        done = run(*arguments)
        self.assertEqual(done.returncode, status, done.stderr)
        self.assertIn(fault, " ".join(done.stderr.split()))

    def test_answers_are_those_of_the_published_algorithm_without_noise_by_default(self):
        flags = self.prompts(*map(line_of, ANSWERS))
        for executor in ("cpu", "ref"):
            report = run_json(*flags, *MODEL_FLAGS, *settings(executor__plugin=executor))
            self.assertEqual([request["tokens"] for request in report["requests"]],
                             [answer["tokens"] for answer in ANSWERS], executor)

    def test_flags_say_what_files_say(self):
        answer = ANSWERS[5]
        flags = self.prompts({"prompt": answer["prompt"]})
        report = run_json(*flags, *MODEL_FLAGS, "--max-tokens", answer["gen_length"],
                          "--block-length", answer["block_length"], "--steps", answer["steps"],
                          "--remasking", answer["remasking"], "--seed", answer["seed"],
                          "--ignore-eos")
        self.assertEqual(report["requests"][0]["tokens"], answer["tokens"])

    def test_strategies_and_company_change_neither_tokens_nor_digests(self):
        lines = [line_of(answer, temperature=0.8) for answer in ANSWERS]

        def outcome(*flags):
            requests = run_json(*flags, *MODEL_FLAGS)["requests"]
            return [(request["tokens"], request["digest"]) for request in requests]
        alone = [outcome(*self.prompts(line))[0] for line in lines]
        for scheduler in ("static", "continuous", "chunked", "fair"):
            for manager in ("naive", "paged", "prefix", "radix"):
                together = outcome(*self.prompts(*lines), "--threads", 2, *settings(
                    scheduler__plugin=scheduler, kv_cache__plugin=manager))
                self.assertEqual(together, alone, (scheduler, manager))

    def test_an_answer_of_no_given_length_fills_what_fits_in_whole_blocks(self):
        flags = self.prompts({"prompt": ANSWERS[0]["prompt"], "ignore_eos": True,
                              "block_length": 10, "steps": 12})
        report = run_json(*flags, *MODEL_FLAGS)
        self.assertEqual(len(report["requests"][0]["tokens"]), 120)

    def test_what_grows_token_by_token_is_refused(self):
        flags = [*self.prompts({"prompt": [3, 4, 5]}), *MODEL_FLAGS]
        self.refused(1, "beams is 2 – the model generates by diffusion", "run", *flags,
                     "--beams", 2)
        self.refused(1, "samples is 3 – a model that generates by diffusion", "run", *flags,
                     "--n", 3)
        self.refused(1, "there is a [drafter], but the llada model generates by diffusion", "run",
                     *flags, *settings(drafter__plugin="ngram"))
        self.refused(1, "the model generates by diffusion", "bench", *MODEL_FLAGS)

    def test_other_models_refuse_its_settings(self):
        for flag, value in (("block-length", 4), ("steps", 4), ("remasking", "random")):
            self.refused(1, "it belongs to diffusion models, and this one generates token by token",
                         "run", "x", "--model", MODEL, f"--{flag}", value)
        self.refused(2, "remasking is \"some\" – it must be one of low_confidence, random", "run",
                     "x", "--remasking", "some")

    def test_info_names_the_mask(self):
        done = run("model", "info", GOLDEN)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("diffusion (mask 98)", done.stdout)


if __name__ == "__main__":
    unittest.main()
