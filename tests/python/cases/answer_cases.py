"""Answers of the package: those of the program."""

import copy
import ctypes
import json
import pathlib
import pickle
import random
import subprocess
import sys
import tempfile
import time
import unittest
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import tenon
from tenon import LLM, SamplingParams, StructuredOutputsParams
from tenon.opening import PREFIX
from tenon.program import program

TALES = ["Once upon a time", "The old witch", "There was a king", "A tailor", "In a wood"]
GREEDY = SamplingParams(temperature=0, max_tokens=12)


def drawn_request(random_numbers):
    """A prompt and a few parameters, under the program's names and under ours."""
    program_names = {"max_tokens": random_numbers.randint(1, 24), "temperature": random_numbers.choice([0, 0.7, 1.3]),
                     "seed": random_numbers.randint(0, 1 << 40)}
    ours = dict(program_names)
    # Ours are given whatever they are; the program's are the model's own advice otherwise.
    program_names.update(top_k=0, top_p=1.0, min_p=0.0)
    for name, other, value in [("top_k", "top_k", 20), ("top_p", "top_p", 0.8), ("min_p", "min_p", 0.05),
                               ("samples", "n", 2), ("stop", "stop", ["the", ","]), ("stop_tokens", "stop_token_ids", [262]),
                               ("ignore_eos", "ignore_eos", True), ("repetition_penalty", "repetition_penalty", 1.2),
                               ("presence_penalty", "presence_penalty", 0.5), ("min_tokens", "min_tokens", 1),
                               ("include_stop", "include_stop_str_in_output", True),
                               ("logit_bias", "logit_bias", {"262": -5}), ("bad_words", "bad_words", ["old"]),
                               ("typical_p", "typical_p", 0.9), ("dry_multiplier", "dry_multiplier", 0.8)]:
        if random_numbers.random() < 0.2:
            program_names[name], ours[other] = value, value
    return random_numbers.choice(TALES), program_names, ours


def program_answers(requests):
    """[[tokens, text and digest of each sample] of each request]"""
    with tempfile.TemporaryDirectory() as folder:
        file = pathlib.Path(folder) / "requests.jsonl"
        file.write_text("".join(json.dumps({"prompt": prompt, **names}) + "\n" for prompt, names, _ in requests))
        done = subprocess.run([program(), "run", "--file", file, "--json"], capture_output=True, text=True, check=True)
    answers = [[] for _ in requests]
    for one in sorted(json.loads(done.stdout)["requests"], key=lambda one: (one["index"], one["sample"])):
        answers[one["index"]].append((one["tokens"], one["text"], one["digest"]))
    return answers


class Answers(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.llm = LLM()
        cls.addClassCleanup(cls.llm.close)

    def test_code_in_c_asks_the_same_engine(self):
        class Facts(ctypes.Structure):
            _fields_ = [("size", ctypes.c_uint32), ("context_tokens", ctypes.c_uint32), ("vocabulary", ctypes.c_uint32),
                        ("embedding_values", ctypes.c_uint32), ("model", ctypes.c_char_p), ("numerics", ctypes.c_char_p),
                        ("pipeline_hash", ctypes.c_char_p)]
        library = ctypes.CDLL(str(next((PREFIX / "lib").rglob("libtenon.so.*"))))
        library.tenon_llm_get_facts.restype = ctypes.c_void_p
        facts = Facts(size=ctypes.sizeof(Facts))
        address = ctypes.c_void_p(self.llm.current_engine().address())
        self.assertIsNone(library.tenon_llm_get_facts(address, ctypes.byref(facts)))
        self.assertEqual((facts.context_tokens, facts.pipeline_hash.decode()), (self.llm.max_model_len, self.llm.pipeline_hash))

    def test_drawn_requests_get_the_tokens_and_digests_of_the_program(self):
        random_numbers = random.Random(7)
        requests = [drawn_request(random_numbers) for _ in range(500)]
        with LLM(digests=True) as llm:
            outputs = llm.generate([prompt for prompt, _, _ in requests],
                                   [SamplingParams(**ours) for _, _, ours in requests], use_tqdm=False)
        said = [[(one.token_ids, one.text, one.digest) for one in output.outputs] for output in outputs]
        for request, ours, expected in zip(requests, said, program_answers(requests), strict=True):
            self.assertEqual(ours, expected, request)
        self.assertGreater(len({digest for answers in said for _, _, digest in answers}), 400)
        self.assertIsNone(self.llm.generate(TALES[0], GREEDY)[0].outputs[0].digest)

    def test_a_prompt_comes_in_every_form(self):
        ids = self.llm.get_tokenizer().encode(TALES[0])
        forms = [TALES[0], ids, np.array(ids), tuple(ids), {"prompt": TALES[0]}, {"prompt_token_ids": ids}]
        answers = [self.llm.generate(form, GREEDY)[0] for form in forms] + self.llm.generate(forms, GREEDY)
        for answer in answers:
            self.assertEqual(answer.outputs[0].token_ids, answers[0].outputs[0].token_ids)
            self.assertEqual(answer.prompt_token_ids, ids)
        self.assertEqual(answers[0].prompt, TALES[0])
        self.assertEqual(self.llm.generate([], GREEDY), [])

    def test_prompts_may_come_one_after_the_other(self):
        outputs = self.llm.generate((tale for tale in TALES[:2]), GREEDY)
        self.assertEqual([one.prompt for one in outputs], TALES[:2])

    def test_without_parameters_it_is_the_pipeline_that_says(self):
        done = subprocess.run([program(), "run", TALES[0], "--json"], capture_output=True, text=True, check=True)
        expected = json.loads(done.stdout)["requests"][0]["tokens"]
        self.assertEqual(self.llm.generate(TALES[0])[0].outputs[0].token_ids, expected)

    def test_an_answer_of_any_length_ends_with_the_context(self):
        with LLM(max_model_len=40) as short:
            output = short.generate(TALES[0], SamplingParams(temperature=0, max_tokens=None, ignore_eos=True))[0]
        self.assertEqual(len(output.prompt_token_ids) + len(output.outputs[0].token_ids), 40)
        self.assertEqual(output.outputs[0].finish_reason, "length")

    def test_a_stream_is_the_answer_in_pieces(self):
        params = SamplingParams(max_tokens=40, n=2, seed=3)
        whole = self.llm.generate(TALES[1], params)[0]
        stream = self.llm.stream(TALES[1], params)
        texts, ids = ["", ""], [[], []]
        for delta in stream:
            texts[delta.index] += delta.text
            ids[delta.index] += delta.token_ids
        self.assertEqual(texts, [one.text for one in whole.outputs])
        self.assertEqual(ids, [one.token_ids for one in whole.outputs])
        self.assertEqual(stream.output.outputs[1].token_ids, ids[1])

    def test_a_reader_of_a_stream_is_woken_a_hundred_times_a_second_at_most(self):
        params = SamplingParams(temperature=0, max_tokens=300, ignore_eos=True)
        begin, times, sizes = time.monotonic(), [], []
        for delta in self.llm.stream(TALES[0], params):
            times.append(time.monotonic() - begin)
            sizes.append(len(delta.token_ids))
        self.assertEqual(sum(sizes), 300)
        self.assertLessEqual(len(sizes), times[-1] / 0.01 + 2)  # the first one, and the end, wait for nothing

    def test_a_stream_that_is_cancelled_ends(self):
        stream = self.llm.stream(TALES[0], SamplingParams(max_tokens=1900, ignore_eos=True))
        next(stream)
        stream.cancel()
        list(stream)
        self.assertEqual(stream.output.outputs[0].finish_reason, "abort")
        self.assertLess(len(stream.output.outputs[0].token_ids), 1900)

    def test_log_probabilities_are_those_of_vllm_and_their_arrays_are_not_copied(self):
        output = self.llm.generate(TALES[0], SamplingParams(temperature=0, max_tokens=5, logprobs=3, prompt_logprobs=0))[0]
        one = output.outputs[0]
        self.assertEqual(len(one.logprobs), 5)
        for token, place in zip(one.token_ids, one.logprobs, strict=True):
            self.assertEqual(len(place), 3)
            self.assertEqual(next(iter(place)), token)
            self.assertEqual(place[token].rank, 1)
            self.assertEqual(place[token].decoded_token, self.llm.get_tokenizer().decode([token]))
        self.assertAlmostEqual(one.cumulative_logprob, sum(place[token].logprob for token, place in
                                                           zip(one.token_ids, one.logprobs, strict=True)), places=5)
        self.assertFalse(one.logprobs.values.flags.owndata)
        self.assertFalse(one.logprobs.values.flags.writeable)
        self.assertIsNone(output.prompt_logprobs[0])
        self.assertEqual(len(output.prompt_logprobs), len(output.prompt_token_ids))
        self.assertEqual([len(place) for place in output.prompt_logprobs[1:]], [1] * (len(output.prompt_token_ids) - 1))
        scored = self.llm.score(TALES[0])[0]
        self.assertEqual([place[token].logprob for token, place in
                          zip(output.prompt_token_ids[1:], output.prompt_logprobs[1:], strict=True)],
                         scored.logprobs.tolist())
        chosen = self.llm.generate(TALES[0], SamplingParams(max_tokens=2, logprobs=0))[0].outputs[0]
        self.assertEqual([len(place) for place in chosen.logprobs], [1, 1])

    def test_outputs_are_copied_and_go_to_other_processes(self):
        params = SamplingParams(temperature=0, max_tokens=5, logprobs=3, prompt_logprobs=2)
        output = self.llm.generate(TALES[0], params)[0]
        for other in (pickle.loads(pickle.dumps(output)), copy.deepcopy(output)):
            self.assertEqual(other, output)
            self.assertEqual(list(other.outputs[0].logprobs), list(output.outputs[0].logprobs))
            self.assertEqual(list(other.prompt_logprobs), list(output.prompt_logprobs))
        # The process that reads it has no pipeline.
        script = "import pickle, sys; print(pickle.load(sys.stdin.buffer).outputs[0].logprobs[0])"
        done = subprocess.run([sys.executable, "-c", script], input=pickle.dumps(output), capture_output=True, check=True)
        self.assertEqual(done.stdout.decode().strip(), str(output.outputs[0].logprobs[0]))

    def test_arrays_outlive_what_they_came_with(self):
        scores = self.llm.score(TALES)
        expected = [one.logprobs.copy() for one in scores]
        arrays = [one.logprobs for one in scores]
        del scores
        self.llm.score(TALES * 20)
        for array, same in zip(arrays, expected, strict=True):
            np.testing.assert_array_equal(array, same)

    def test_embeddings_are_vectors_of_length_1_unless_asked_otherwise(self):
        first, second = self.llm.embed(TALES[:2])
        self.assertEqual(first.outputs.embedding.dtype, np.float32)
        self.assertAlmostEqual(float(np.linalg.norm(first.outputs.embedding)), 1.0, places=5)
        self.assertFalse(np.array_equal(first.outputs.embedding, second.outputs.embedding))
        raw = self.llm.embed(TALES[0], pooling="mean", normalise=False)[0].outputs
        self.assertNotAlmostEqual(float(np.linalg.norm(raw.embedding)), 1.0, places=3)
        self.assertEqual(raw.hidden_size, 256)

    def test_a_conversation_goes_through_the_models_template(self):
        messages = [{"role": "user", "content": [{"type": "text", "text": "Tell me"}, {"type": "text", "text": "a tale."}]}]
        one = self.llm.chat(messages, GREEDY)[0]
        self.assertEqual(one.prompt, "Tell me\na tale.")
        self.assertEqual(one.outputs[0].token_ids, self.llm.generate(one.prompt_token_ids, GREEDY)[0].outputs[0].token_ids)
        self.assertEqual([same.outputs[0].text for same in self.llm.chat([messages, messages], GREEDY)],
                         [one.outputs[0].text] * 2)
        self.assertEqual("".join(delta.text for delta in self.llm.stream(messages, GREEDY)), one.outputs[0].text)

    def test_choices_and_empty_forms_are_what_they_say(self):
        for text in ("a\b\f\x01", 'x"\\', "é\n😀"):
            params = SamplingParams(max_tokens=60, structured_outputs=StructuredOutputsParams(choice=[text]))
            self.assertEqual(self.llm.generate("x", params)[0].outputs[0].text, text)
        anything = SamplingParams(max_tokens=30, structured_outputs=StructuredOutputsParams(json={}))
        self.assertTrue(self.llm.generate("x", anything)[0].outputs[0].text)

    def test_an_answer_keeps_its_form(self):
        forms = StructuredOutputsParams
        params = [SamplingParams(max_tokens=200, structured_outputs=form) for form in (
            forms(choice=['yes "a"\n', "é|no"]), forms(regex="[a-c]{3}"), forms(json={"enum": ["left", "right"]}))]
        one, two, three = [output.outputs[0].text for output in self.llm.generate(["She said"] * 3, params, use_tqdm=False)]
        self.assertIn(one, ['yes "a"\n', "é|no"])
        self.assertRegex(two, "^[a-c]{3}$")
        self.assertIn(json.loads(three), ["left", "right"])

    def test_as_many_threads_as_there_are_get_their_own_answers(self):
        prompts = [f"{tale} {i}" for i in range(13) for tale in TALES][:64]
        expected = [output.outputs[0].token_ids for output in self.llm.generate(prompts, GREEDY, use_tqdm=False)]
        with ThreadPoolExecutor(64) as pool:
            answers = list(pool.map(lambda prompt: self.llm.generate(prompt, GREEDY)[0].outputs[0].token_ids, prompts))
        self.assertEqual(answers, expected)

    def test_more_prompts_than_calls_wait_for_their_turn(self):
        with LLM(max_calls=2) as narrow:
            outputs = narrow.generate(TALES * 3, GREEDY, use_tqdm=False)
        expected = self.llm.generate(TALES * 3, GREEDY, use_tqdm=False)
        self.assertEqual([one.outputs[0].token_ids for one in outputs], [one.outputs[0].token_ids for one in expected])

    def test_settings_are_those_of_pipeline_files(self):
        with LLM(scheduler="static", kv_cache={"dtype": "i8", "plugin": "naive"}, limits={"max_sequences": 2}) as other:
            self.assertNotEqual(other.pipeline_hash, self.llm.pipeline_hash)
            self.assertIn("i8", other.numerics)
        with LLM(pipeline="static") as bundled, LLM(scheduler="static") as same:
            self.assertEqual(bundled.numerics, same.numerics)

    def test_a_comparison_is_a_table_and_a_page(self):
        found = tenon.compare(None, {"static": {"scheduler": "static"}}, TALES, max_tokens=4, budget="20s", pairs=4,
                              noise_pairs=0, unlike=100)
        self.assertIn(found.verdict(), ("better", "worse", "equivalent", "inconclusive"))
        rows = {row["metric"]: row for row in found.rows()}
        self.assertAlmostEqual(rows["throughput"]["ratio"], rows["throughput"]["arm"] / rows["throughput"]["base"], places=1)
        self.assertIn("static", repr(found))
        self.assertIn("<iframe", found._repr_html_())


if __name__ == "__main__":
    unittest.main()
