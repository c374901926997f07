"""Names, refusals and coroutines."""

import asyncio
import copy
import inspect
import os
import pickle
import subprocess
import sys
import tempfile
import time
import tomllib
import unittest
import warnings
from pathlib import Path

import numpy as np

import tenon
from tenon import (LLM, AsyncLLM, BeamSearchParams, RequestOutputKind, SamplingParams, StructuredOutputsParams,
                   TenonError)
from tenon import toml
from tenon.comparison import _comparison
from tenon.opening import overrides, pipeline_file
from tenon.program import program

GREEDY = SamplingParams(temperature=0, max_tokens=12)


class Words(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.llm = LLM()
        cls.addClassCleanup(cls.llm.close)

    def test_what_is_wrong_is_said_in_the_programs_words(self):
        for ours, flags in [({"min_p": 1.5}, ["--min-p", "1.5"]), ({"mirostat": 2, "top_k": 40}, ["--mirostat", "2", "--top-k",
                                                                                                 "40"])]:
            done = subprocess.run([program(), "run", "Once", *flags], capture_output=True, text=True, check=False)
            with self.assertRaises(ValueError) as caught:
                self.llm.generate("Once", SamplingParams(**ours))
            self.assertIn(str(caught.exception).splitlines()[0], done.stderr)

    def test_refusals_have_classes(self):
        cases = [
            (lambda: LLM("/nowhere"), tenon.NotFoundError, "/nowhere"),
            (lambda: LLM(scheduler="nobodys"), tenon.NotFoundError, "no scheduler plugin 'nobodys'"),
            (lambda: LLM(pipeline="nobodys"), tenon.NotFoundError, "no bundled pipeline"),
            (lambda: LLM(kv_cash=1), tenon.InvalidArgumentError, "no setting 'kv_cash'"),
            (lambda: LLM(threads=0), tenon.InvalidArgumentError, "threads is 0"),
            (lambda: LLM(tensor_parallel_size=2), tenon.UnsupportedError, "tensor_parallel_size is 2"),
            (lambda: LLM(dtype="float16"), tenon.UnsupportedError, "dtype is 'float16'"),
            (lambda: self.llm.generate("x", SamplingParams(min_pp=1)), tenon.InvalidArgumentError, "did you mean 'min_p'"),
            (lambda: self.llm.generate("x", SamplingParams(logprobs=-1)), tenon.UnsupportedError, "whole vocabulary"),
            (lambda: self.llm.generate([[1 << 40]]), tenon.InvalidArgumentError, "no token id"),
            (lambda: self.llm.generate([[1 << 70]]), tenon.InvalidArgumentError, "no token id"),
            (lambda: self.llm.generate("\ud800"), tenon.InvalidArgumentError, "UTF-8"),
            (lambda: self.llm.generate("a", {"max_tokens": 3}), tenon.InvalidArgumentError, "sampling_params are {"),
            (lambda: self.llm.generate(["a", "b"], 5), tenon.InvalidArgumentError, "sampling_params are 5"),
            (lambda: self.llm.generate("a", SamplingParams(structured_outputs={"json": {}})), tenon.InvalidArgumentError,
             "give StructuredOutputsParams"),
            (lambda: self.llm.chat([{"role": "user", "content": [{"type": "text"}]}]), tenon.InvalidArgumentError, "'text'"),
            (lambda: self.llm.chat([{"role": "user", "content": "\ud800"}]), tenon.InvalidArgumentError, "UTF-8"),
            (lambda: self.llm.chat([{"role": "user", "content": "a"}], tools=5), tenon.InvalidArgumentError, "tools are 5"),
            (lambda: LLM(5), tenon.InvalidArgumentError, "model is 5"),
            (lambda: pickle.dumps(self.llm), tenon.UnsupportedError, "open one there"),
            (lambda: copy.copy(self.llm), tenon.UnsupportedError, "open one there"),
            (lambda: self.llm.generate([[1 << 20]]), tenon.InvalidArgumentError, "1048576"),
            (lambda: self.llm.generate([["a"]]), tenon.InvalidArgumentError, "a token id is 'a'"),
            (lambda: self.llm.generate([[True]]), tenon.InvalidArgumentError, "a token id is True"),
            (lambda: self.llm.generate([[]]), tenon.InvalidArgumentError, "no tokens"),
            (lambda: self.llm.generate(3), tenon.InvalidArgumentError, "prompts are 3"),
            (lambda: self.llm.generate([None]), tenon.InvalidArgumentError, "a prompt is None"),
            (lambda: self.llm.generate("a " * 4000), tenon.InvalidArgumentError, "the context has 2048"),
            (lambda: self.llm.generate(["a", "b"], [GREEDY]), tenon.InvalidArgumentError, "2 prompts and 1"),
            (lambda: self.llm.generate({"prompt": "a", "multi_modal_data": 1}), tenon.UnsupportedError, "multi_modal_data"),
            (lambda: self.llm.generate("a", lora_request="nobodys"), TenonError, "nobodys"),
            (lambda: self.llm.chat([{"role": "user", "content": [{"type": "image_url"}]}]), tenon.UnsupportedError,
             "image_url"),
            (lambda: self.llm.chat("hello"), tenon.InvalidArgumentError, "a list of messages"),
            (lambda: self.llm.chat([{"content": {1}}]), tenon.InvalidArgumentError, "JSON"),
            (lambda: self.llm.embed("a", pooling="all"), tenon.InvalidArgumentError, "last, mean or first"),
            (lambda: SamplingParams(skip_special_tokens=False), tenon.UnsupportedError, "skip_special_tokens"),
            (lambda: SamplingParams(detokenize=False, stop="a"), tenon.InvalidArgumentError, "detokenize is False"),
            (lambda: self.llm.generate("a", SamplingParams(n=0)), tenon.InvalidArgumentError, "n is 0"),
            (lambda: self.llm.generate("a", SamplingParams(n="2")), tenon.InvalidArgumentError, "n is '2'"),
            (lambda: self.llm.generate("a", SamplingParams(seed=-5)), tenon.InvalidArgumentError, "seed is -5"),
            (lambda: self.llm.generate("a", SamplingParams(allowed_token_ids=[])), tenon.InvalidArgumentError,
             "allowed_tokens is empty"),
            (lambda: self.llm.generate("a", priority="x"), tenon.InvalidArgumentError, "priority is 'x'"),
            (lambda: self.llm.generate("a", priority=[1, 2]), tenon.InvalidArgumentError, "1 prompts and 2 of priority"),
            (lambda: BeamSearchParams(beam_width=0, max_tokens=1), tenon.InvalidArgumentError, "beam_width is 0"),
            (lambda: StructuredOutputsParams(), tenon.InvalidArgumentError, "no form"),
            (lambda: StructuredOutputsParams(regex="a", json_object=True), tenon.InvalidArgumentError, "regex and"),
            (lambda: StructuredOutputsParams(json={}, regex=""), tenon.InvalidArgumentError, "json and regex"),
            (lambda: StructuredOutputsParams(choice=[]), tenon.InvalidArgumentError, "one at least"),
            (lambda: StructuredOutputsParams(choice=["a", 5]), tenon.InvalidArgumentError, "a list of texts"),
            (lambda: self.llm.get_tokenizer().decode([1 << 30]), tenon.InvalidArgumentError, "1073741824"),
            (lambda: tenon.set_log_level("loud"), tenon.InvalidArgumentError, "loud"),
            (lambda: tenon.compare(None, ["scheduler.plugin=nobodys"], ["a"]), tenon.FailedError, "nobodys"),
            (lambda: LLM(limits={"max_sequences": {1}}), tenon.InvalidArgumentError, "{1} is of type set"),
            (lambda: self.llm.generate("a", SamplingParams(stop=[b"x"])), tenon.InvalidArgumentError, "an entry of stop is b'x'"),
        ]
        self.refused(cases)
        # None of it has hurt the pipeline.
        self.assertEqual(len(self.llm.generate("Once", GREEDY)[0].outputs[0].token_ids), 12)

    def test_what_is_of_the_wrong_kind_is_said_by_its_name(self):
        # Some of these Python would take: a text for a list of characters.
        asked = [{"role": "user", "content": "a"}]
        self.refused([(call, tenon.InvalidArgumentError, text) for call, text in [
            (lambda: LLM(pipeline=5), "pipeline is 5"),
            (lambda: LLM(plugin_path=5), "plugin_path is 5"),
            (lambda: LLM(plugin_path=[5]), "one of plugin_path is 5"),
            (lambda: LLM(threads=1 << 40), "threads is 1099511627776"),
            (lambda: tenon.Pipeline(5), "pipeline is 5"),
            (lambda: tenon.Pipeline(model=5), "model is 5"),
            (lambda: tenon.pull(5), "name is 5"),
            (lambda: tenon.pull("a/b", files=5), "files is 5"),
            (lambda: tenon.compare(5, ["scheduler.plugin=static"], ["a"]), "base is 5"),
            (lambda: tenon.compare(None, 5, ["a"]), "arms is 5"),
            (lambda: tenon.compare(None, {"b": 5}, ["a"]), "the arm 'b' is 5"),
            (lambda: tenon.compare(None, ["scheduler.plugin=static"], 5), "workload is 5"),
            (lambda: SamplingParams(stop=5), "stop is 5"),
            (lambda: SamplingParams(stop=[5]), "an entry of stop is 5"),
            (lambda: SamplingParams(bad_words=[5]), "an entry of bad_words is 5"),
            (lambda: SamplingParams(allowed_token_ids=5), "allowed_token_ids is 5"),
            (lambda: StructuredOutputsParams(regex=5), "regex is 5"),
            (lambda: StructuredOutputsParams(grammar=b"root"), "grammar is b'root'"),
            (lambda: LLM(limits="big"), "limits is 'big'"),
            (lambda: LLM(adapters="poems"), "adapters is 'poems'"),
            (lambda: SamplingParams(stop_token_ids=5), "stop_token_ids is 5"),
            (lambda: SamplingParams(bad_words="old"), "bad_words is 'old'"),
            (lambda: SamplingParams(output_kind="delta"), "output_kind is 'delta'"),
            (lambda: self.llm.generate("a", SamplingParams(logprobs="all")), "logprobs is 'all'"),
            (lambda: self.llm.generate("a", SamplingParams(prompt_logprobs=1.5)), "prompt_logprobs is 1.5"),
            (lambda: self.llm.generate("a", SamplingParams(logit_bias=[5])), "logit_bias is [5]"),
            (lambda: self.llm.generate("a", SamplingParams(extra_args="x=1")), "extra_args is 'x=1'"),
            (lambda: self.llm.generate("a", lora_request=5), 'adapter is "5"'),
            (lambda: self.llm.embed("a", pooling=5), "last, mean or first"),
            (lambda: self.llm.beam_search("a", SamplingParams()), "give BeamSearchParams"),
            (lambda: self.llm.chat(["hello"]), "a conversation is 'hello'"),
            (lambda: self.llm.chat([["hello"]]), "a message is 'hello'"),
            (lambda: self.llm.chat([*asked, "hello"]), "a message is 'hello'"),
            (lambda: self.llm.chat(asked, chat_template_kwargs=5), "chat_template_kwargs is 5"),
            (lambda: self.llm.get_tokenizer().apply_chat_template("hello"), "a conversation is 'hello'"),
            (lambda: self.llm.get_tokenizer().decode("hello"), "token_ids is 'hello'"),
            (lambda: self.llm.get_tokenizer().decode(None), "token_ids is None"),
            (lambda: self.llm.get_tokenizer().batch_decode(5), "sequences is 5"),
            (lambda: self.llm.get_tokenizer()(5), "text is 5"),
        ]])

    def test_a_comparison_says_what_is_wrong_and_not_where_its_file_lay(self):
        with self.assertRaisesRegex(tenon.FailedError, "^'budgit' is no key of a comparison; did you mean 'budget'"):
            tenon.compare(None, ["scheduler.plugin=static"], ["a"], budgit="1m")

    def test_a_closed_model_says_so(self):
        llm = LLM()
        llm.close()
        for call in (lambda: llm.generate("a"), lambda: llm.embed("a"), lambda: llm.get_tokenizer().encode("a")):
            with self.assertRaisesRegex(tenon.InvalidArgumentError, "^the model was closed"):
                call()

    def refused(self, cases):
        for call, kind, text in cases:
            with self.assertRaises(kind, msg=text) as caught:
                call()
            self.assertIn(text, str(caught.exception))

    def test_defaults_are_those_of_vllm(self):
        default = {"n": 1, "presence_penalty": 0.0, "frequency_penalty": 0.0, "repetition_penalty": 1.0, "temperature": 1.0,
                   "top_p": 1.0, "top_k": 0, "min_p": 0.0, "seed": None, "ignore_eos": False, "max_tokens": 16,
                   "min_tokens": 0, "logprobs": None, "prompt_logprobs": None, "include_stop_str_in_output": False}
        made = vars(SamplingParams())
        self.assertEqual({name: made[name] for name in default}, default)
        # Values of vLLM's that ask for nothing are taken; top_k = -1 is its older way to say all.
        SamplingParams(detokenize=True, skip_special_tokens=True, flat_logprobs=False)
        self.assertIn(("top_k", "0"), SamplingParams(top_k=-1).settings(9))

    def test_settings_that_have_no_effect_are_named(self):
        with warnings.catch_warnings(record=True) as told:
            warnings.simplefilter("always")
            self.assertEqual(overrides({"gpu_memory_utilization": 0.5, "dtype": "auto", "seed": 4}), ["generation.seed=4"])
        self.assertIn("gpu_memory_utilization has no effect", str(told[0].message))

    def test_a_plugin_is_set_before_its_options(self):
        self.assertEqual(overrides({"scheduler": {"options": {"chunk_tokens": 64}, "plugin": "chunked"}}),
                         ['scheduler.plugin="chunked"', "scheduler.options.chunk_tokens=64"])

    def test_values_are_what_toml_reads(self):
        for value, read in [("🦊 says \x7f, \"\\\" and\n", ...), (Path("/a 🦊"), "/a 🦊"), (np.int64(-8), -8), (np.float32(0.5), 0.5),
                            (1e-9, ...), (float("inf"), ...), (True, ...), (np.arange(3).tolist(), ...), ([1, "a", [False]], ...),
                            ({"a b": {"🦊": [0.5]}}, ...), (("x", 1), ["x", 1])]:
            self.assertEqual(tomllib.loads(f"x = {toml.written(value)}")["x"], value if read is ... else read)
        made = tomllib.loads(_comparison(None, {"🦊": {"model.path": Path("/🦊")}}, "w.toml", {}, {"pairs": np.int64(4)}, Path("/")))
        self.assertEqual((made["arm"], made["pairs"]), ([{"name": "🦊", "set": ['model.path="/🦊"']}], 4))

    def test_a_bar_says_nothing_of_widgets(self):
        with tempfile.TemporaryDirectory() as folder:
            (Path(folder) / "tqdm").mkdir()
            (Path(folder) / "tqdm/__init__.py").touch()
            (Path(folder) / "tqdm/auto.py").write_text(
                "import warnings\nwarnings.warn('IProgress not found')\nclass tqdm:\n    def __init__(self, **_): print('bar')\n"
                "    def update(self): pass\n    def close(self): pass\n")
            done = subprocess.run([sys.executable, "-c", "import tenon; tenon.LLM().generate(['a', 'b'])"], check=False,
                                  capture_output=True, text=True,
                                  env={**os.environ, "PYTHONPATH": f"{folder}:{Path(tenon.__file__).parents[1]}"})
        self.assertEqual((done.stdout, done.stderr), ("bar\n", ""))

    def test_numbers_of_numpy_are_numbers(self):
        params = SamplingParams(temperature=np.float32(0), max_tokens=np.int64(2), stop_token_ids=[np.int64(1)],
                                allowed_token_ids=np.array([300, 301]), logit_bias={np.int64(301): np.float64(50)})
        self.assertEqual(self.llm.generate("a", params)[0].outputs[0].token_ids, [301, 301])

    def test_representations_say_what_differs(self):
        self.assertEqual(repr(SamplingParams(top_k=5, typical_p=0.5)), "SamplingParams(top_k=5, typical_p=0.5)")
        self.assertIn("tale", repr(self.llm))
        self.assertIn("<table>", self.llm.generate("<b>", GREEDY)[0]._repr_html_())
        self.assertIn("&lt;b&gt;", self.llm.generate("<b>", GREEDY)[0]._repr_html_())

    def test_what_the_package_offers_is_explained(self):
        for name in tenon.__all__:
            self.assertTrue(inspect.getdoc(getattr(tenon, name)), name)

    def test_the_program_is_in_the_package(self):
        done = subprocess.run([sys.executable, "-m", "tenon", "run", "Once", "--max-tokens", "2", "--no-echo", "--temperature",
                               "0"],
                              capture_output=True, text=True, check=False)
        self.assertEqual(done.returncode, 0, done.stderr)
        expected = self.llm.generate("Once", SamplingParams(max_tokens=2, temperature=0))[0].outputs[0].text
        self.assertEqual(done.stdout, expected + "\n")
        self.assertEqual(subprocess.run([sys.executable, "-m", "tenon", "run", "--nonsense"], capture_output=True,
                                        check=False).returncode, 2)


class Pipelines(unittest.TestCase):
    def test_a_pipeline_explains_itself(self):
        pipeline = tenon.Pipeline("prefix", kv_cache={"dtype": "i8"}, limits={"max_sequences": 3})
        self.assertEqual(pipeline.values["kv_cache"]["dtype"], "i8")
        self.assertEqual(pipeline.values["limits"]["max_sequences"], 3)
        self.assertEqual(pipeline.origins["kv_cache.dtype"], "--set")
        self.assertIn("prefix.toml", pipeline.origins["kv_cache.plugin"])
        self.assertEqual(pipeline.facts["kv.dtype"], "i8")
        self.assertRegex(repr(pipeline), r"^Pipeline\(.*kv_cache=prefix.*, hash=[0-9a-f]{16}\)$")
        self.assertIn("# hash: " + pipeline.hash, str(pipeline))
        self.assertIn("<td style='text-align:left'><b>&quot;i8&quot;</b></td>", pipeline._repr_html_())
        with pipeline.open(threads=1) as llm:
            self.assertIn("i8", llm.numerics)
        with pipeline.open() as llm:
            self.assertEqual(llm.pipeline_hash, pipeline.hash)
        self.assertEqual(pipeline, tenon.Pipeline("prefix", kv_cache={"dtype": "i8"}, limits={"max_sequences": 3}))
        self.assertNotEqual(pipeline, tenon.Pipeline("prefix"))
        text = 'format = 1\nextends = "' + pipeline_file("default") + '"\n[scheduler]\nplugin = "static"\n'
        self.assertEqual(tenon.Pipeline(text).values["scheduler"]["plugin"], "static")

    def test_parts_that_do_not_fit_say_why(self):
        with self.assertRaisesRegex(tenon.InvalidArgumentError, "do not fit\n.*2048"):
            tenon.Pipeline(kv_cache={"plugin": "naive", "block_tokens": 16})
        with self.assertRaisesRegex(tenon.NotFoundError, "no bundled pipeline 'nobodys'"):
            tenon.Pipeline("nobodys")


class Coroutines(unittest.IsolatedAsyncioTestCase):
    def setUp(self):
        self.llm = AsyncLLM()
        self.addCleanup(self.llm.shutdown)

    async def outputs(self, prompt, params, **more):
        return [output async for output in self.llm.generate(prompt, params, **more)]

    async def test_outputs_grow_until_the_answer_is_whole(self):
        with LLM() as plain:
            expected = plain.generate("Once upon a time", GREEDY)[0].outputs[0]
        outputs = await self.outputs("Once upon a time", GREEDY)
        self.assertEqual(outputs[-1].outputs[0].text, expected.text)
        self.assertEqual(outputs[-1].outputs[0].token_ids, expected.token_ids)
        self.assertEqual([one.finished for one in outputs], [False] * (len(outputs) - 1) + [True])
        for before, after in zip(outputs, outputs[1:], strict=False):
            self.assertTrue(after.outputs[0].text.startswith(before.outputs[0].text))

    async def test_deltas_together_are_the_answer_and_a_final_output_comes_alone(self):
        whole = (await self.outputs("A king", SamplingParams(max_tokens=20, seed=2)))[-1].outputs[0]
        deltas = await self.outputs("A king", SamplingParams(max_tokens=20, seed=2, output_kind=RequestOutputKind.DELTA))
        self.assertEqual("".join(one.text for output in deltas for one in output.outputs), whole.text)
        self.assertEqual([token for output in deltas for one in output.outputs for token in one.token_ids], whole.token_ids)
        final = await self.outputs("A king", SamplingParams(max_tokens=20, seed=2,
                                                            output_kind=RequestOutputKind.FINAL_ONLY))
        self.assertEqual([output.outputs[0].text for output in final], [whole.text])

    async def test_an_event_loop_is_not_woken_for_every_token(self):
        begin, outputs = time.monotonic(), 0
        async for output in self.llm.generate("Once upon a time", SamplingParams(temperature=0, max_tokens=400, ignore_eos=True)):
            outputs += 1
        self.assertEqual(len(output.outputs[0].token_ids), 400)
        # The first piece and the end come at once, the others 10 ms apart.
        self.assertLessEqual(outputs, 3 + (time.monotonic() - begin) / 0.01)

    async def test_many_run_at_once(self):
        prompts = [f"Once upon {i}" for i in range(64)]
        together = await asyncio.gather(*(self.outputs(prompt, GREEDY) for prompt in prompts))
        with LLM() as plain:
            expected = [one.outputs[0].token_ids for one in plain.generate(prompts, GREEDY, use_tqdm=False)]
        self.assertEqual([outputs[-1].outputs[0].token_ids for outputs in together], expected)

    async def test_a_request_is_aborted_and_a_task_cancelled(self):
        long = SamplingParams(max_tokens=1900, ignore_eos=True)
        async for output in self.llm.generate("Once", long, "mine"):
            if not output.finished:
                await self.llm.abort("mine")
        self.assertEqual(output.outputs[0].finish_reason, "abort")
        task = asyncio.create_task(self.outputs("Once", long))
        await asyncio.sleep(0.05)
        task.cancel()
        with self.assertRaises(asyncio.CancelledError):
            await task
        self.assertEqual(len((await self.outputs("Once", GREEDY))[-1].outputs[0].token_ids), 12)

    async def test_vectors_scores_and_refusals_come_as_elsewhere(self):
        with LLM() as plain:
            self.assertEqual((await self.llm.embed("Once")).outputs.embedding.tolist(),
                             plain.embed("Once")[0].outputs.embedding.tolist())
            self.assertEqual((await self.llm.score("Once upon")).logprobs.tolist(),
                             plain.score("Once upon")[0].logprobs.tolist())
        with self.assertRaises(tenon.InvalidArgumentError):
            await self.outputs("Once", SamplingParams(min_p=2))


if __name__ == "__main__":
    unittest.main()
