"""Schedulers, drafters and samplers in Python."""

import json
import os
import pathlib
import subprocess
import sys
import tempfile
import threading
import unittest

import tenon
from tenon import LLM, SamplingParams, TenonError
from tenon.program import program

PROMPTS = [f"The {one} and the {other}" for one in ("fox", "old witch", "king", "miller")
           for other in ("crow", "youngest son of the poor miller", "goose")]
PARAMS = SamplingParams(temperature=0.8, seed=5, max_tokens=24)
FEW = {"limits": {"max_sequences": 3}}

SOURCE = """
class ShortestFirst:
    def plan(self, step):
        step.advance()
        for sequence in sorted(step.waiting, key=lambda one: one.prompt_tokens):
            if not step.grant(sequence):
                break
"""


class ShortestFirst:
    plans = 0
    order: list = []

    def plan(self, step):
        type(self).plans += 1
        assert step.budget <= step.max_batch_tokens and step.free_tokens <= step.kv_tokens
        step.advance()
        for sequence in sorted(step.waiting, key=lambda one: one.prompt_tokens):
            assert sequence.left == sequence.known_tokens - sequence.computed_tokens > 0
            assert step.cost(sequence, sequence.left) >= 0 <= step.cached(sequence)
            if not step.grant(sequence):
                break
            self.order.append(sequence.prompt_tokens)


class Listening:
    def __init__(self):
        self.events = []

    def on_event(self, event):
        self.events.append(event.kind)

    def plan(self, step):
        step.advance(prompts=4)
        for sequence in step.waiting:
            step.grant(sequence, 4)


def texts(llm, params=PARAMS):
    return [output.outputs[0].text for output in llm.generate(PROMPTS, params)]


class Schedulers(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        with LLM(**FEW) as llm:
            cls.expected = texts(llm)

    def test_the_tokens_are_those_of_every_other_scheduler(self):
        ShortestFirst.plans, ShortestFirst.order = 0, []
        with LLM(scheduler=ShortestFirst, **FEW) as llm:
            self.assertEqual(texts(llm), self.expected)
        self.assertGreater(ShortestFirst.plans, 24)
        self.assertEqual(len(ShortestFirst.order), len(PROMPTS))
        # All but those that were let in before the others had come.
        self.assertEqual(ShortestFirst.order[3:], sorted(ShortestFirst.order[3:]))

    def test_an_object_hears_events_and_cuts_prompts(self):
        made = Listening()
        with LLM(scheduler=made, **FEW) as llm:
            self.assertEqual(texts(llm), self.expected)
        self.assertEqual(made.events.count("arrived"), len(PROMPTS))
        self.assertEqual(made.events.count("finished"), len(PROMPTS))
        self.assertGreater(made.events.count("progressed"), 24)

    def test_memory_may_be_short(self):
        with LLM(scheduler=ShortestFirst, kv_cache={"plugin": "paged", "memory": "2MiB"},
                 limits={"max_sequences": 12, "context_tokens": 128}) as llm:
            self.assertEqual(texts(llm), self.expected)

    def test_a_file_will_do_and_the_program_runs_it(self):
        with tempfile.TemporaryDirectory() as folder:
            file = pathlib.Path(folder) / "shortest.py"
            file.write_text(SOURCE)
            with LLM(scheduler=str(file), **FEW) as llm:
                self.assertEqual(texts(llm), self.expected)
            options = tenon.plugins.in_another_process("scheduler", file, file.parent)
            flags = [word for name, value in options.items()
                     for word in ("--set", f"scheduler.options.{name}={json.dumps(value)}")]
            done = subprocess.run([program(), "run", PROMPTS[0], "--json", "--set", "scheduler.plugin=python", *flags,
                                   "--temperature", "0.8", "--top-p", "1", "--seed", "5", "--max-tokens", "24"],
                                  capture_output=True, text=True, check=False)
            if "libpython cannot be loaded" in done.stderr:
                self.skipTest("there is no libpython here")
            self.assertEqual(done.returncode, 0, done.stderr)
            self.assertEqual(json.loads(done.stdout)["requests"][0]["text"], self.expected[0])

    def test_exceptions_are_said_with_their_place_and_the_engine_goes_on(self):
        class Broken:
            def plan(self, step):
                raise KeyError("no such idea")
        with LLM(scheduler=Broken) as llm:
            for _ in range(2):
                output = self.assert_fails(llm)
                self.assertIn("no such idea", output)
                self.assertIn("plugin_cases.py:", output)

    def assert_fails(self, llm):
        try:
            output = llm.generate("Once", PARAMS)
        except TenonError as fault:
            return str(fault)
        self.fail(f"it answered: {output}")

    def test_what_a_class_gives_wrong_is_said_where_it_did(self):
        class Much(ShortestFirst):
            def plan(self, step):
                step.advance()
                for sequence in step.waiting:
                    step.grant(sequence, "all of it")

        class Word:
            def sample(self, row):
                return "king"

        for settings, words in (({"scheduler": Much}, r"'str' object .* \(.*plugin_cases\.py:\d+\)"),
                                ({"sampler": Word}, "sample gave 'king', which is no token$")):
            with LLM(**settings) as llm, self.assertRaisesRegex(TenonError, words):
                llm.generate("Once", PARAMS)

    def test_what_is_none_is_refused(self):
        for wrong, words in [(object(), "'plan'"), ("nowhere.py", "no file nowhere.py"), (list, "'plan'")]:
            with self.assertRaises(tenon.InvalidArgumentError) as caught:
                LLM(scheduler=wrong)
            self.assertIn(words, str(caught.exception))
        with tempfile.TemporaryDirectory() as folder:
            file = pathlib.Path(folder) / "two.py"
            for text, words in [("", "no class with a method 'plan'"), (SOURCE + SOURCE.replace("Shortest", "Longest"),
                                                                        "ShortestFirst, LongestFirst"),
                                ("import nothing_of_that_name", "nothing_of_that_name")]:
                file.write_text(text)
                with self.assertRaises(TenonError) as caught:
                    LLM(scheduler=file)
                self.assertIn(words, str(caught.exception))

    def test_other_threads_of_python_go_on_meanwhile(self):
        counted = [0]
        done = threading.Event()

        def count():
            while not done.is_set():
                counted[0] += 1
        thread = threading.Thread(target=count)
        with LLM(scheduler=ShortestFirst, **FEW) as llm:
            thread.start()
            try:
                self.assertEqual(texts(llm), self.expected)
            finally:
                done.set()
                thread.join()
        self.assertGreater(counted[0], 0)

    def test_ideas_are_compared(self):
        with tempfile.TemporaryDirectory() as folder:
            options = {"pairs": 4, "max_tokens": 4, "settings": FEW, "out": pathlib.Path(folder) / "found"}
            try:
                found = tenon.compare(None, {"shortest": {"scheduler": ShortestFirst}}, PROMPTS, **options)
            except tenon.FailedError as fault:
                if "libpython cannot be loaded" in str(fault):
                    self.skipTest("there is no libpython here")
                raise
            self.assertNotEqual(found.verdict(), "different answers")
            options["out"] = pathlib.Path(folder) / "others"
            other = tenon.compare(None, {"second": {"sampler": Second}}, PROMPTS, **options)
            self.assertEqual(other.verdict(), "different answers")
            self.assertIn("second: different answers", repr(other))

    def test_a_comparison_that_measures_nothing_leaves_nothing(self):
        before = set(pathlib.Path(tempfile.gettempdir()).glob("tenon-compare-*"))
        with self.assertRaisesRegex(tenon.FailedError, "pairs is 2"):
            tenon.compare(None, ["scheduler.plugin=static"], PROMPTS, pairs=2)
        self.assertEqual(set(pathlib.Path(tempfile.gettempdir()).glob("tenon-compare-*")) - before, set())


class Second:
    def sample(self, row):
        logits = row.logits.tolist()
        return sorted(range(len(logits)), key=lambda token: logits[token])[-2]


class Again:
    calls = 0

    def propose(self, seq, history, most):
        type(self).calls += 1
        tokens = history.tolist()
        for place in range(len(tokens) - 2, -1, -1):
            if tokens[place] == tokens[-1]:
                return tokens[place + 1:place + 1 + most]
        return []

    def accept(self, seq, history, drafted, accepted):
        assert accepted <= drafted and len(history) > 0


class Drafters(unittest.TestCase):
    def test_drafts_change_no_token(self):
        with LLM(**FEW) as llm:
            expected = texts(llm)
        Again.calls = 0
        with LLM(drafter=Again, **FEW) as llm:
            self.assertEqual(texts(llm), expected)
        self.assertGreater(Again.calls, len(PROMPTS))

    def test_what_is_no_token_is_said_and_the_answer_goes_on(self):
        script = """
from tenon import *
class Wild:
    def propose(self, seq, history, most):
        return [1 << 30]
params = SamplingParams(temperature=0, max_tokens=6)
with LLM() as plain, LLM(drafter=Wild) as llm:
    print(plain.generate("Once", params)[0].outputs[0].token_ids == llm.generate("Once", params)[0].outputs[0].token_ids)
"""
        done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False)
        self.assertEqual(done.stdout, "True\n", done.stderr)
        self.assertIn("propose gave something that is no token of the vocabulary", done.stderr)


class Greedy:
    def sample(self, row):
        logits = row.logits.tolist()
        return logits.index(max(logits))


class Samplers(unittest.TestCase):
    def test_it_draws_and_its_log_probabilities_are_the_models(self):
        greedy = SamplingParams(temperature=0, max_tokens=12, logprobs=2)
        with LLM() as llm:
            expected = llm.generate("Once upon a time", greedy)[0].outputs[0]
        with LLM(sampler=Greedy) as llm:
            self.assertNotEqual(llm.numerics, "")
            found = llm.generate("Once upon a time", SamplingParams(temperature=1, max_tokens=12, logprobs=2))[0].outputs[0]
        self.assertEqual(found.text, expected.text)
        for ours, theirs in zip(found.logprobs.values, expected.logprobs.values, strict=True):
            self.assertAlmostEqual(float(ours), float(theirs), places=4)
        self.assertEqual(found.logprobs.ranks.tolist(), expected.logprobs.ranks.tolist())

    def test_it_verifies_drafts(self):
        with LLM(sampler=Greedy) as llm:
            expected = texts(llm)
        with LLM(sampler=Greedy, drafter="ngram") as llm:
            self.assertEqual(texts(llm), expected)

    def test_it_is_refused_where_bits_must_not_depend_on_the_batch(self):
        with self.assertRaises(TenonError) as caught:
            LLM(sampler=Greedy, executor={"deterministic": True})
        self.assertIn("numerics.rows", str(caught.exception))
        self.assertIn("sampler python", str(caught.exception))

    def test_other_parameters_are_refused_by_name(self):
        with LLM(sampler=Greedy) as llm, self.assertRaises(TenonError) as caught:
            llm.generate("Once", SamplingParams(repetition_penalty=1.2))
        self.assertIn("repetition_penalty", str(caught.exception))


class Ends(unittest.TestCase):
    def test_the_interpreter_may_end_in_the_middle_of_an_answer(self):
        code = ("import sys; sys.path.insert(0, %r)\nfrom tenon import LLM, SamplingParams\n%s\n"
                "llm = LLM(scheduler=ShortestFirst)\nstream = llm.stream('Once', SamplingParams(max_tokens=1500))\nnext(stream)\n"
                % (str(pathlib.Path(tenon.__file__).parents[1]), SOURCE))
        with tempfile.TemporaryDirectory() as folder:
            file = pathlib.Path(folder) / "main.py"
            file.write_text(code)
            done = subprocess.run([sys.executable, str(file)], capture_output=True, text=True, timeout=120, check=False,
                                  env=dict(os.environ))
            self.assertEqual(done.returncode, 0, done.stderr)


if __name__ == "__main__":
    unittest.main()
