"""Programs that are written for vLLM's offline API, as its examples are, with the import lines and the model's name changed:
they run, or are refused by name. What is imported is where vLLM has it, and at the top level of the package."""

import contextlib
import io
import json
import pathlib
import tempfile
import unittest
import warnings
from enum import Enum

import numpy as np
import tenon
from tenon import (LLM, AsyncLLM, BeamSearchParams, EngineArgs, FlexibleArgumentParser, LLMEngine, SamplingParams,
                   StructuredOutputsParams, UnsupportedError)
from tenon.distributed import cleanup_dist_env_and_memory
from tenon.engine.arg_utils import AsyncEngineArgs
from tenon.engine.arg_utils import EngineArgs as EngineArgsThere
from tenon.inputs import TextPrompt, TokensPrompt
from tenon.lora.request import LoRARequest
from tenon.vllm_settings import names_of_vllm
from tenon.outputs import RequestOutput
from tenon.pooling_params import PoolingParams
from tenon.sampling_params import RequestOutputKind
from tenon.utils.argparse_utils import FlexibleArgumentParser as ParserThere
from tenon.utils.print_utils import print_embeddings
from tenon.v1.engine.async_llm import AsyncLLM as AsyncLLMThere

MODEL = None  # the bundled one
PROMPTS = ["The king said", "Once upon a time", "The old witch", "In the wood"]
TOOLS = [{"type": "function", "function": {
    "name": "get_weather", "description": "The weather of a town",
    "parameters": {"type": "object", "properties": {"town": {"type": "string"}}, "required": ["town"]}}}]


def write_adapter(folder, seed):
    """A PEFT folder that changes the queries of tale."""
    drawn, tensors = np.random.default_rng(seed), {}
    for layer in range(6):
        name = f"base_model.model.model.layers.{layer}.self_attn.q_proj"
        tensors[f"{name}.lora_A.weight"] = drawn.normal(size=(4, 256)).astype("<f4")
        tensors[f"{name}.lora_B.weight"] = drawn.normal(size=(256, 4)).astype("<f4")
    header, data = {}, b""
    for name, tensor in tensors.items():
        header[name] = {"dtype": "F32", "shape": list(tensor.shape), "data_offsets": [len(data), len(data) + tensor.nbytes]}
        data += tensor.tobytes()
    text = json.dumps(header).encode()
    path = pathlib.Path(folder)
    path.mkdir(exist_ok=True)
    (path / "adapter_model.safetensors").write_bytes(len(text).to_bytes(8, "little") + text + data)
    (path / "adapter_config.json").write_text(json.dumps({
        "peft_type": "LORA", "task_type": "CAUSAL_LM", "r": 4, "lora_alpha": 8, "bias": "none", "target_modules": ["q_proj"],
        "base_model_name_or_path": "tale"}))
    return str(path)


class Offline(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.llm = LLM(model=MODEL)
        cls.addClassCleanup(cls.llm.close)

    def test_names_are_where_they_are_imported_from(self):
        self.assertIs(EngineArgsThere, EngineArgs)
        self.assertIs(ParserThere, FlexibleArgumentParser)
        self.assertIs(LoRARequest, tenon.LoRARequest)
        self.assertIs(RequestOutput, tenon.RequestOutput)
        self.assertIs(PoolingParams, tenon.PoolingParams)

    def test_basic(self):
        outputs = self.llm.generate(PROMPTS, SamplingParams(temperature=0.8, top_p=0.95), use_tqdm=False)
        for prompt, output in zip(PROMPTS, outputs, strict=True):
            self.assertEqual(output.prompt, prompt)
            self.assertEqual(len(output.outputs[0].token_ids), 16)
            self.assertIsInstance(output.outputs[0].text, str)

    def test_dicts(self):
        ids = self.llm.get_tokenizer().encode(PROMPTS[0])
        given = [TextPrompt(prompt=PROMPTS[0]), TokensPrompt(prompt_token_ids=ids)]
        params = SamplingParams(temperature=0)
        one, two = self.llm.generate(given, params, priority=[0, 0], use_tqdm=False)
        self.assertEqual(one.outputs[0].token_ids, two.outputs[0].token_ids)

    def test_a_bar_of_ones_own(self):
        seen = []

        class Bar:
            def __init__(self, total, desc):
                seen.append(total)

            def update(self, count=1):
                seen.append(count)

            def close(self):
                seen.append("closed")

        self.llm.generate(PROMPTS, SamplingParams(max_tokens=1), use_tqdm=Bar)
        self.assertEqual(seen, [4, 1, 1, 1, 1, "closed"])

    def test_chat_from_a_command_line(self):
        parser = FlexibleArgumentParser()
        EngineArgs.add_cli_args(parser)
        parser.set_defaults(model=MODEL)
        group = parser.add_argument_group("Sampling parameters")
        group.add_argument("--max-tokens", type=int)
        group.add_argument("--temperature", type=float)
        args = vars(parser.parse_args(["--max_model_len", "512", "--max-tokens=5", "--temperature", "0"]))
        max_tokens, temperature = args.pop("max_tokens"), args.pop("temperature")
        with LLM(**args) as llm:
            self.assertEqual(llm.max_model_len, 512)
            params = llm.get_default_sampling_params()
            self.assertEqual((params.top_p, params.temperature), (np.float64(0.9), 0.6))
            params.max_tokens, params.temperature = max_tokens, temperature
            conversation = [{"role": "user", "content": "Hello"}, {"role": "assistant", "content": "Good day."},
                            {"role": "user", "content": "Tell me a tale."}]
            one = llm.chat(conversation, params, use_tqdm=False)
            many = llm.chat([conversation] * 3, params, use_tqdm=False)
            self.assertEqual([output.outputs[0].text for output in many], [one[0].outputs[0].text] * 3)
            self.assertEqual(len(one[0].outputs[0].token_ids), 5)
            with self.assertRaisesRegex(UnsupportedError, "chat_template is"):
                llm.chat(conversation, params, chat_template="{{ messages }}")

    def test_chat_with_tools(self):
        messages = [{"role": "user", "content": "What is the weather in Delft?"}]
        params = SamplingParams(max_tokens=8, temperature=0.0)
        output = self.llm.chat(messages, sampling_params=params, tools=TOOLS, use_tqdm=False)[0].outputs[0].text
        messages += [{"role": "assistant", "content": output},
                     {"role": "tool", "content": "It rains.", "tool_call_id": "chatcmpl1"}]
        again = self.llm.chat(messages, params, tools=TOOLS, use_tqdm=False)[0]
        self.assertEqual(len(again.outputs[0].token_ids), 8)

    def test_structured_outputs(self):
        class Kind(str, Enum):
            king = "king"
            witch = "witch"

        schema = {"type": "object",
                  "properties": {"name": {"type": "string", "maxLength": 8}, "kind": {"$ref": "#/$defs/Kind"}},
                  "required": ["name", "kind"], "$defs": {"Kind": {"type": "string", "enum": [one.value for one in Kind]}}}
        grammar = ('root ::= select_statement\nselect_statement ::= "SELECT " column " from " table\n'
                   'column ::= "col_1 " | "col_2 "\ntable ::= "table_1 " | "table_2 "\n')
        forms = [StructuredOutputsParams(choice=["Positive", "Negative"]),
                 StructuredOutputsParams(regex=r"\w{1,9}@\w{1,9}\.com\n"),
                 StructuredOutputsParams(json=schema), StructuredOutputsParams(grammar=grammar)]
        choice, mail, text, query = (
            self.llm.generate("Write", sampling_params=SamplingParams(
                structured_outputs=form, stop=["\n"] if form.regex else None, max_tokens=200, seed=4))[0].outputs[0].text
            for form in forms)
        self.assertIn(choice, ["Positive", "Negative"])
        self.assertRegex(mail, r"^\w+@\w+\.com$")
        self.assertIn(json.loads(text)["kind"], [one.value for one in Kind])
        self.assertRegex(query, "^SELECT col_[12]  from table_[12] $")
        with self.assertRaisesRegex(UnsupportedError, "structural_tag"):
            StructuredOutputsParams(structural_tag="{}")

    def test_logprobs(self):
        output = self.llm.generate(PROMPTS[0], SamplingParams(temperature=0, logprobs=1, prompt_logprobs=1, max_tokens=4))[0]
        for token, place in zip(output.outputs[0].token_ids, output.outputs[0].logprobs, strict=True):
            self.assertEqual((place[token].rank, len(place)), (1, 1))
        self.assertIsNone(output.prompt_logprobs[0])

    def test_prefix_caching_changes_no_answer(self):
        prefix = "There was once a king who had a daughter, and she was the fairest in all the land. " * 4
        prompts, params = [prefix + prompt for prompt in PROMPTS], SamplingParams(temperature=0.0)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            regular = LLM(model=MODEL, enable_prefix_caching=False, gpu_memory_utilization=0.4)
            expected = [one.outputs[0].text for one in regular.generate(prompts, params, use_tqdm=False)]
            del regular
            cleanup_dist_env_and_memory()
            cached = LLM(model=MODEL, enable_prefix_caching=True, gpu_memory_utilization=0.4)
        cached.generate(prompts[0], params)
        outputs = cached.generate(prompts, params, use_tqdm=False)
        cached.close()
        self.assertEqual([one.outputs[0].text for one in outputs], expected)
        self.assertGreater(outputs[1].num_cached_tokens, 64)

    def test_beam_search(self):
        params = BeamSearchParams(beam_width=3, max_tokens=6)
        outputs = self.llm.beam_search([{"prompt": PROMPTS[0]}, {"prompt": PROMPTS[1]}], params)
        ids = self.llm.get_tokenizer().encode(PROMPTS[0])
        beams = outputs[0].sequences
        self.assertEqual(len(beams), 3)
        self.assertEqual(len({tuple(beam.tokens) for beam in beams}), 3)
        # Of one length, so that they are ranked by their log probability, which a prompt of the beam's tokens has, too.
        self.assertEqual([beam.cum_logprob for beam in beams], sorted((beam.cum_logprob for beam in beams), reverse=True))
        for beam in beams:
            self.assertEqual(beam.tokens[:len(ids)], ids)
            scored = self.llm.score([beam.tokens])[0].logprobs[len(ids) - 1:]
            self.assertAlmostEqual(float(scored.sum()), beam.cum_logprob, places=3)
        alone = self.llm.beam_search([PROMPTS[1]], params, concurrency_limit=1)
        self.assertEqual(alone[0].sequences[0].tokens, outputs[1].sequences[0].tokens)
        with self.assertRaisesRegex(UnsupportedError, "temperature is 0.5"):
            self.llm.beam_search(PROMPTS, BeamSearchParams(beam_width=2, max_tokens=2, temperature=0.5))

    def test_embed_and_score(self):
        with warnings.catch_warnings(record=True) as told:
            warnings.simplefilter("always")
            llm = LLM(model=MODEL, runner="pooling", enforce_eager=True)
        self.assertEqual([str(one.message) for one in told], ["enforce_eager has no effect here"])
        with llm:
            vectors = [output.outputs.embedding for output in llm.embed(PROMPTS, use_tqdm=False)]
            self.assertEqual([len(vector) for vector in vectors], [256] * 4)
            with contextlib.redirect_stdout(io.StringIO()) as told:
                print_embeddings(vectors[0])
                print_embeddings([0.5], prefix="One")
            self.assertRegex(told.getvalue(), r"^Embeddings: \[-?[\d.e-]+(, -?[\d.e-]+){3}, \.\.\.\] \(size=256\)\n"
                                              r"One: \[0\.5\] \(size=1\)\n$")
            scores = [output.outputs.score for output in llm.score(PROMPTS[0], PROMPTS, use_tqdm=False)]
            np.testing.assert_allclose(scores, [float(vectors[0] @ vector) for vector in vectors], atol=1e-5)
            pairs = llm.score(PROMPTS, PROMPTS, use_tqdm=False)
            np.testing.assert_allclose([pair.outputs.score for pair in pairs], 1.0, atol=1e-5)
            for wanted in (None, False, True):
                params = PoolingParams(use_activation=wanted, task="embed")
                found = llm.embed(PROMPTS, pooling_params=params, use_tqdm=False)[0].outputs.embedding
                np.testing.assert_array_equal(found, llm.embed(PROMPTS, normalise=wanted, use_tqdm=False)[0].outputs.embedding)
            self.assertEqual(llm.score("a", "a", pooling_params=PoolingParams())[0].outputs.score, llm.score("a", "a")[0].outputs.score)
            for wrong, text in (({"pooling_params": 3}, "pooling_params is 3"),
                                ({"pooling_params": PoolingParams(False), "normalise": True}, "differ")):
                with self.assertRaisesRegex(ValueError, text):
                    llm.embed("a", **wrong)
            with self.assertRaisesRegex(ValueError, "3 and 4 texts"):
                llm.score(PROMPTS[:3], PROMPTS)

    def test_adapters_come_with_requests(self):
        params = SamplingParams(temperature=0, max_tokens=12)
        with tempfile.TemporaryDirectory() as folder:
            one, two = write_adapter(f"{folder}/one", 1), write_adapter(f"{folder}/two", 2)
            with LLM(model=MODEL, enable_lora=True) as llm, LLM(model=MODEL, adapters={"a": one, "b": two}) as loaded:
                plain = llm.generate(PROMPTS[0], params)[0].outputs[0].token_ids
                requests = [LoRARequest("one", 1, one), LoRARequest("two", 2, two), None]
                outputs = llm.generate([PROMPTS[0]] * 3, params, lora_request=requests, use_tqdm=False)
                found = [output.outputs[0].token_ids for output in outputs]
                expected = [loaded.generate(PROMPTS[0], params, lora_request=name)[0].outputs[0].token_ids
                            for name in ("a", "b")]
                self.assertEqual(found, [*expected, plain])
                self.assertEqual(len({tuple(tokens) for tokens in found}), 3)
                with self.assertRaisesRegex(ValueError, "another name"):
                    llm.generate(PROMPTS[0], params, lora_request=LoRARequest("one", 1, two))
                with self.assertRaises(tenon.TenonError):
                    llm.generate(PROMPTS[0], params, lora_request=LoRARequest("none", 3, f"{folder}/none"))
                # It still has what it had.
                again = llm.generate(PROMPTS[0], params, lora_request=requests[0])[0].outputs[0].token_ids
                self.assertEqual(again, expected[0])

    def test_several_adapters_in_a_loop_of_steps(self):
        with tempfile.TemporaryDirectory() as folder:
            path = write_adapter(f"{folder}/one", 1)
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                engine = LLMEngine.from_engine_args(EngineArgs(model=MODEL, enable_lora=True, max_loras=1, max_lora_rank=8,
                                                               max_cpu_loras=2, max_num_seqs=8))
            params = SamplingParams(temperature=0.0, logprobs=1, max_tokens=40)
            waiting = [(PROMPTS[0], params, None), (PROMPTS[1], SamplingParams(temperature=0.8, top_k=5, max_tokens=40), None),
                       (PROMPTS[0], params, LoRARequest("sql", 1, path)), (PROMPTS[0], params, LoRARequest("sql2", 2, path))]
            ended, number = {}, 0
            while waiting or engine.has_unfinished_requests():
                if waiting:
                    prompt, one, lora = waiting.pop(0)
                    engine.add_request(str(number), prompt, one, lora_request=lora)
                    number += 1
                for output in engine.step():
                    if output.finished:
                        ended[output.request_id] = output
        self.assertEqual(sorted(ended), ["0", "1", "2", "3"])
        tokens = {name: output.outputs[0].token_ids for name, output in ended.items()}
        self.assertEqual([len(tokens[name]) for name in sorted(tokens)], [40] * 4)
        self.assertEqual(tokens["2"], tokens["3"])
        self.assertNotEqual(tokens["0"], tokens["2"])
        self.assertEqual(tokens["0"], self.llm.generate(PROMPTS[0], params)[0].outputs[0].token_ids)
        self.assertEqual(engine.step(), [])

    def test_what_is_not_there_is_refused_by_name(self):
        for name in ("classify", "encode", "reward", "apply_model", "collective_rpc", "sleep", "wake_up", "get_metrics"):
            with self.assertRaisesRegex(UnsupportedError, f"LLM.{name} is vLLM's"):
                getattr(self.llm, name)(PROMPTS)
        for name in ("PoolerConfig", "ModelRegistry", "GuidedDecodingParams"):
            with self.assertRaisesRegex(ImportError, name):
                exec(f"from tenon import {name}")
        for line, expected in [("from tenon.config import VllmConfig", "vllm.config – tables of a pipeline file"),
                               ("from tenon.v1.sample.logits_processor import LogitsProcessor",
                                r"vllm.v1.sample – a sampler may be a class in Python"),
                               ("import tenon.assets.image", "vllm.assets – only text is read"),
                               ("from tenon.utils.func import x", "vllm.utils.func – what programs import")]:
            with self.assertRaisesRegex(ModuleNotFoundError, expected):
                exec(line)
        with self.assertRaisesRegex(ModuleNotFoundError, "^No module named 'tenon.nobodys'"):
            exec("import tenon.nobodys")
        self.assertIsNone(getattr(self.llm, "llm_engine", None))
        with self.assertRaisesRegex(UnsupportedError, "LLM.renderer is vLLM's"):
            self.llm.renderer.render_cmpl([])
        with self.assertRaisesRegex(AttributeError, "'LLM' object has no attribute 'nobodys'"):
            self.llm.nobodys()
        for parameter in ("trace_decode_token_ids", "return_last_hidden_states"):
            with self.assertRaisesRegex(tenon.TenonError, parameter):
                self.llm.generate("a", SamplingParams(**{parameter: [1]}))
        with self.assertRaises(ImportError):
            exec("from tenon import Nobodys")
        self.assertFalse(hasattr(tenon, "nobodys"))
        for setting, value in [("dtype", "float16"), ("quantization", "fp8"), ("tensor_parallel_size", 4), ("runner", "draft"),
                               ("load_format", "mistral"), ("logits_processors", ["x:Y"]), ("pooler_config", {"a": 1}),
                               ("kv_cache_dtype", "fp8"), ("moe_backend", "triton"), ("enable_eplb", True)]:
            with self.assertRaisesRegex(UnsupportedError, f"{setting} is "):
                LLM(MODEL, **{setting: value})
        for call in (lambda: self.llm.generate("a", tokenization_kwargs={"truncation": True}),
                     lambda: self.llm.embed("a", pooling_params=PoolingParams(dimensions=32)),
                     lambda: PoolingParams(task="classify"), lambda: PoolingParams(late_chunking_params=3),
                     lambda: self.llm.reset_prefix_cache()):
            with self.assertRaises(UnsupportedError):
                call()

    def test_every_name_of_a_command_line_is_one_of_a_model(self):
        self.assertGreater(len(names_of_vllm()), 40)
        parser = EngineArgs.add_cli_args(FlexibleArgumentParser())
        made = EngineArgs.from_cli_args(parser.parse_args(["--max-num-seqs", "3", "--enforce-eager"]))
        self.assertEqual(repr(made), "EngineArgs(max_num_seqs=3, enforce_eager=True)")


class OfflineCoroutines(unittest.IsolatedAsyncioTestCase):
    async def test_streams_as_vllms_example_has_them(self):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            engine = AsyncLLMThere.from_engine_args(AsyncEngineArgs(model=MODEL, enforce_eager=True))
        self.addCleanup(engine.shutdown)
        self.assertIs(AsyncLLMThere, AsyncLLM)
        self.assertIs(tenon.AsyncLLMEngine, AsyncLLM)
        params = SamplingParams(max_tokens=40, temperature=0.8, top_p=0.95, seed=42, output_kind=RequestOutputKind.DELTA)
        for number, prompt in enumerate(PROMPTS):
            text, ids = "", []
            async for output in engine.generate(request_id=f"stream-example-{number}", prompt=prompt, sampling_params=params):
                text += output.outputs[0].text
                ids += output.outputs[0].token_ids
                if output.finished:
                    break
            self.assertEqual(len(ids), 40)
            self.assertEqual(engine.get_tokenizer().decode(ids), text)
        await engine.check_health()
        with self.assertRaisesRegex(UnsupportedError, "AsyncLLM.pause_generation is vLLM's"):
            await engine.pause_generation(mode="keep")

    async def test_an_adapter_comes_with_a_coroutine(self):
        params = SamplingParams(temperature=0, max_tokens=12)
        with tempfile.TemporaryDirectory() as folder:
            path = write_adapter(f"{folder}/one", 1)
            llm = AsyncLLM(MODEL, enable_lora=True)
            self.addCleanup(llm.shutdown)
            answers = []
            for lora in (None, LoRARequest("one", 1, path), None):
                async for output in llm.generate(PROMPTS[0], params, lora_request=lora):
                    last = output
                answers.append(last.outputs[0].token_ids)
        self.assertEqual(answers[0], answers[2])
        self.assertNotEqual(answers[0], answers[1])


if __name__ == "__main__":
    unittest.main()
