"""Rarer things of vLLM 0.33: where programs ask for them, they mean the same here, or are refused by name."""

import dataclasses
import json
import pathlib
import tempfile
import unittest
import warnings

import tenon
from tenon import (LLM, AsyncEngineArgs, AsyncLLM, BeamSearchParams, EngineArgs, FlexibleArgumentParser, LLMEngine,
                   LoRARequest, RequestOutputKind, SamplingParams, StructuredOutputsParams, TenonError, UnsupportedError)
from tenon.opening import PREFIX, overrides
from tenon.vllm_settings import check_weights, names_of_vllm

TALE = str(PREFIX / "share/tenon/configs/models/tale")
PROMPT = "Once upon a time"
# Public methods of vLLM 0.33.
METHODS = {
    LLM: "apply_model beam_search chat classify collective_rpc embed encode enqueue enqueue_chat from_engine_args generate "
         "get_default_sampling_params get_metrics get_tokenizer get_world_size release_kv_cache_memory reset_mm_cache "
         "reset_prefix_cache score sleep start_profile stop_profile wait_for_completion wake_up",
    AsyncLLM: "abort add_lora add_request check_admission check_health checkpoint_prepare checkpoint_restore collective_rpc "
              "compute_weight_checksums dead_error do_log_stats encode errored finish_weight_update from_engine_args "
              "from_vllm_config generate get_external_elastic_ep_status get_kv_event_sources get_num_queued_tokens "
              "get_num_unfinished_requests get_status get_supported_tasks get_tokenizer get_weight_version handle_fault "
              "init_weight_transfer_engine is_paused is_running is_sleeping is_stopped is_tracing_enabled list_loras "
              "notify_kv_transfer_request_rejected pause_generation pin_lora release_kv_cache_memory remove_lora "
              "reset_encoder_cache reset_mm_cache reset_prefix_cache resume_generation scale_elastic_ep "
              "should_keep_api_server_alive shutdown shutdown_weight_transfer_engine sleep start_draft_weight_update "
              "start_profile start_weight_update stop_profile tokenizer update_weight_version update_weights "
              "wait_for_requests_to_drain wake_up",
    LLMEngine: "abort_request add_lora add_request apply_model collective_rpc do_log_stats do_log_stats_with_interval "
               "from_engine_args from_vllm_config get_metrics get_num_unfinished_requests get_supported_tasks get_tokenizer "
               "get_weight_version has_unfinished_requests has_unfinished_requests_dp is_sleeping list_loras pin_lora "
               "release_kv_cache_memory remove_lora reset_encoder_cache reset_mm_cache reset_prefix_cache set_weight_version "
               "sleep start_profile step stop_profile tokenizer wake_up",
}


def tokens(output):
    return output.outputs[0].token_ids


class Rare(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.llm = LLM()
        cls.addClassCleanup(cls.llm.close)

    def asked(self, **parameters):
        return self.llm.generate(PROMPT, SamplingParams(**{"temperature": 0, "max_tokens": 8} | parameters),
                                 use_tqdm=False)[0].outputs[0]

    def test_every_method_runs_or_is_refused(self):
        for owner, names in METHODS.items():
            self.assertEqual([name for name in names.split() if not hasattr(owner, name)], [])

    def test_without_detokenize_there_are_tokens_and_no_text(self):
        plain, bare = self.asked(logprobs=1), self.asked(detokenize=False, logprobs=1)
        self.assertEqual((bare.text, bare.token_ids), ("", plain.token_ids))
        self.assertIsNone(bare.logprobs[0][bare.token_ids[0]].decoded_token)
        self.assertIsNotNone(plain.logprobs[0][plain.token_ids[0]].decoded_token)
        deltas = list(self.llm.stream(PROMPT, SamplingParams(temperature=0, max_tokens=8, detokenize=False)))
        self.assertEqual({delta.text for delta in deltas}, {""})
        self.assertEqual([token for delta in deltas for token in delta.token_ids], plain.token_ids)

    def test_odd_values_mean_what_they_mean_there(self):
        self.assertIsNone(SamplingParams(seed=-1).seed)
        self.assertEqual((SamplingParams(logprobs=True).logprobs, SamplingParams(prompt_logprobs=True).prompt_logprobs), (1, 1))
        self.assertIsNone(SamplingParams.from_optional(max_tokens=None, n=None).max_tokens)
        self.assertEqual(SamplingParams.from_optional(n=None).n, 1)
        self.assertEqual(self.asked(watermarking=False).token_ids, self.asked().token_ids)
        self.assertEqual(self.asked(logit_bias={"262": 100}).token_ids, [262] * 8)

    def test_a_token_that_stops_is_in_the_tokens_and_not_in_the_text(self):
        plain = self.asked(max_tokens=20)
        stopped = self.asked(max_tokens=20, stop_token_ids=[plain.token_ids[3]] * 2)
        self.assertEqual((stopped.token_ids, stopped.stop_reason), (plain.token_ids[:4], plain.token_ids[3]))
        text = self.llm.get_tokenizer().decode
        self.assertEqual(stopped.text, text(plain.token_ids[:3]))
        kept = self.asked(max_tokens=20, stop_token_ids=[plain.token_ids[3]], include_stop_str_in_output=True)
        self.assertEqual(kept.text, text(plain.token_ids[:4]))

    def test_beams_have_the_text_of_prompt_and_answer(self):
        beam = self.llm.beam_search([{"prompt": PROMPT}], BeamSearchParams(beam_width=2, max_tokens=4))[0].sequences[0]
        self.assertTrue(beam.text.startswith(PROMPT))
        self.assertEqual(beam.text, self.llm.get_tokenizer().decode(beam.tokens))
        form = StructuredOutputsParams(choice=[" a cat", " a dog"])
        held = self.llm.beam_search(PROMPT, BeamSearchParams(beam_width=2, max_tokens=20, structured_outputs=form))
        self.assertIn(held[0].sequences[0].text, [PROMPT + " a cat", PROMPT + " a dog"])

    def test_what_is_enqueued_is_waited_for(self):
        params = SamplingParams(temperature=0, max_tokens=4)
        expected = [tokens(one) for one in self.llm.generate(["A king", "A ship"], params, use_tqdm=False)]
        ids = self.llm.enqueue(["A king", "A ship"], params, use_tqdm=False)
        ids += self.llm.enqueue_chat([{"role": "user", "content": "A king"}], params)
        found = self.llm.wait_for_completion(use_tqdm=False)
        self.assertEqual([one.request_id for one in found], ids)
        self.assertEqual([tokens(one) for one in found[:2]], expected)
        self.assertEqual(self.llm.wait_for_completion(), [])
        with LLM(max_calls=1) as narrow:
            narrow.enqueue(["A king", "A ship"] * 2, params)
            self.assertEqual([tokens(one) for one in narrow.wait_for_completion(use_tqdm=False)], expected * 2)

    def test_the_lowest_priority_runs_first_and_answers_are_the_same(self):
        params = SamplingParams(temperature=0, max_tokens=4, ignore_eos=True)
        prompts = ["A king", "A ship", "A wood", "A fox"]
        expected = [tokens(one) for one in self.llm.generate(prompts, params, use_tqdm=False)]
        with LLM(scheduling_policy="priority", max_num_seqs=1) as llm:
            engine = LLMEngine(llm)
            engine.add_request("long", "Once", SamplingParams(temperature=0, max_tokens=1900, ignore_eos=True))
            for number, prompt in enumerate(prompts):
                engine.add_request(str(number), prompt, params, priority=-number)
            engine.abort_request("long")
            ended = []
            while engine.has_unfinished_requests():
                ended += [one for one in engine.step() if one.finished]
            self.assertEqual({one.request_id: tokens(one) for one in ended if one.request_id != "long"},
                             {str(number): ids for number, ids in enumerate(expected)})
            self.assertEqual(llm.generate(prompts, params, priority=[3, 1, 2, 0], use_tqdm=False)[1].outputs[0].token_ids,
                             expected[1])
            order = [one.request_id for one in ended if one.request_id != "long"]
            self.assertEqual(order, sorted(order, reverse=True))

    def test_tokenizers_have_transformers_names(self):
        tokenizer = self.llm.get_tokenizer()
        ids = tokenizer.encode(PROMPT)
        self.assertEqual(tokenizer(PROMPT).input_ids, ids)
        self.assertEqual(tokenizer([PROMPT, "a"])["attention_mask"], [[1] * len(ids), [1]])
        self.assertEqual(tokenizer.batch_decode([ids, ids[:1]]), [PROMPT, tokenizer.decode(ids[0])])
        self.assertEqual((tokenizer.eos_token, tokenizer.eos_token_id, tokenizer.bos_token, len(tokenizer)),
                         ("<|endoftext|>", 4092, None, 4096))
        self.assertFalse(hasattr(tokenizer, "pad_token_id"))
        with self.assertRaisesRegex(UnsupportedError, "convert_ids_to_tokens is of transformers' tokenizers"):
            tokenizer.convert_ids_to_tokens(ids)
        with self.assertRaisesRegex(UnsupportedError, "return_tensors of a tokenizer"):
            tokenizer(PROMPT, return_tensors="pt")
        with self.assertRaisesRegex(AttributeError, "no attribute 'nobodys'"):
            tokenizer.nobodys()

    def test_settings_that_ask_for_what_is_so_are_taken(self):
        expected = self.asked().token_ids
        for settings in ({"dtype": "bfloat16"}, {"kv_cache_dtype": "bfloat16"}, {"moe_backend": "auto", "enable_eplb": False},
                         {"speculative_config": {"method": "ngram", "num_speculative_tokens": 3, "prompt_lookup_max": 4}},
                         {"speculative_config": json.dumps({"model": TALE + "-draft", "num_speculative_tokens": 2})}):
            with self.subTest(settings=settings), LLM(TALE, **settings) as llm:
                self.assertEqual(tokens(llm.generate(PROMPT, SamplingParams(temperature=0, max_tokens=8))[0]), expected)

    def test_drafts_have_a_drafter(self):
        self.assertEqual(overrides({"speculative_config": {"method": "ngram", "num_speculative_tokens": 5, "prompt_lookup_max": 4,
                                                           "prompt_lookup_min": 2}}),
                         ['drafter.plugin="ngram"', "drafter.options.max_draft_tokens=5", "drafter.options.max_ngram=4",
                          "drafter.options.min_ngram=2"])
        self.assertEqual(overrides({"speculative_config": {"method": "eagle", "model": "head"}}),
                         ['drafter.plugin="eagle3"', 'drafter.model="head"'])
        for given, said in (({"method": "lookahead"}, "'lookahead'"), ({"method": "eagle"}, "eagle needs the path"),
                            ({"method": "ngram", "disable_by_batch_size": 4}, "disable_by_batch_size"), ("x", "must be a dict")):
            with self.assertRaisesRegex(TenonError, said):
                overrides({"speculative_config": given})

    def test_weights_stay_as_the_files_have_them(self):
        with tempfile.TemporaryDirectory() as folder:
            config = pathlib.Path(folder) / "config.json"
            config.write_text(json.dumps({"torch_dtype": "float16", "quantization_config": {"quant_method": "awq"}}))
            check_weights(folder, "half", "awq_marlin")
            check_weights(folder, "auto", None)
            for dtype, quantization, said in (("bfloat16", None, "which is float16"), ("auto", "gptq", "which is awq"),
                                              ("int5", None, "dtype is 'int5'")):
                with self.assertRaisesRegex(UnsupportedError, said):
                    check_weights(folder, dtype, quantization)

    def test_engine_arguments_are_a_dataclass(self):
        given = EngineArgs(TALE, max_model_len=64)
        self.assertEqual((given.tensor_parallel_size, given.dtype, given.model), (1, "auto", TALE))
        self.assertEqual(repr(given), f"EngineArgs(model={TALE!r}, max_model_len=64)")
        with warnings.catch_warnings():
            warnings.simplefilter("error")  # what asks for nothing is no reason to warn
            with LLM(**dataclasses.asdict(given)) as llm:
                self.assertEqual(llm.max_model_len, 64)
            with LLM.from_engine_args(given) as llm:
                self.assertEqual(llm.max_model_len, 64)
        with self.assertRaisesRegex(TenonError, "no setting 'modl'"):
            EngineArgs(modl="x")
        parser = EngineArgs.add_cli_args(FlexibleArgumentParser())
        args = parser.parse_args(["-tp", "1", "--max_model_len", "32"])
        self.assertEqual((args.tensor_parallel_size, args.data_parallel_size, args.max_model_len), (1, 1, 32))
        self.assertEqual(repr(EngineArgs.from_cli_args(args)), "EngineArgs(max_model_len=32)")
        self.assertGreater(len(names_of_vllm()), 250)

    def test_adapters_are_their_names(self):
        one, same = LoRARequest("one", 1, "a"), LoRARequest(lora_name="one", lora_int_id=2, lora_path="b")
        self.assertEqual({one, same}, {one})
        self.assertEqual((one.name, one.adapter_id, one.path), ("one", 1, "a"))
        with self.assertRaisesRegex(UnsupportedError, "load_inplace"):
            LoRARequest("one", 1, "a", load_inplace=True)

    def test_names_are_refused_where_they_are_imported_from(self):
        for line in ("from tenon.sampling_params import SamplingType", "from tenon.outputs import PoolingRequestOutput",
                     "from tenon.inputs import EmbedsPrompt", "from tenon import initialize_ray_cluster"):
            with self.assertRaisesRegex(ImportError, "Tenon has no counterpart of vLLM's"):
                exec(line)
        for line in ("from tenon.entrypoints.llm import LLM", "from tenon.logprobs import Logprob",
                     "from tenon import PromptType", "from tenon.inputs import PromptType"):
            exec(line)
        for module in ("entrypoints.chat_utils", "distributed.weight_transfer.base", "inputs.engine", "lora.resolver"):
            with self.assertRaisesRegex(ModuleNotFoundError, f"no counterpart of vLLM's module vllm.{module.rsplit('.', 1)[0]}"):
                exec(f"import tenon.{module}")
        with self.assertRaises(ImportError):
            exec("from tenon.outputs import Nobodys")
        self.assertFalse(hasattr(tenon.outputs, "nobodys"))


class RareCoroutines(unittest.IsolatedAsyncioTestCase):
    async def test_what_vllms_engine_takes_with_a_request(self):
        engine = AsyncLLM.from_engine_args(AsyncEngineArgs(max_model_len=128))
        self.addCleanup(engine.shutdown)
        self.assertEqual((await engine.get_tokenizer()).decode([64]), engine.tokenizer.decode([64]))
        params = SamplingParams(temperature=0, max_tokens=6, detokenize=False, output_kind=RequestOutputKind.DELTA)
        ids = []
        async for output in engine.generate("a", params, "one", priority=1, trace_headers={"a": "b"}, data_parallel_rank=None):
            ids += tokens(output)
            self.assertEqual(output.outputs[0].text, "")
        self.assertEqual(len(ids), 6)
        with self.assertRaisesRegex(UnsupportedError, "session_id is 'x'"):
            engine.generate("a", params, "two", session_id="x")
        with self.assertRaisesRegex(TypeError, "unexpected keyword argument 'foo'"):
            engine.generate("a", params, "three", foo=1)
        long = SamplingParams(max_tokens=100, ignore_eos=True)
        running = engine.generate("a", long, "four")
        await anext(running)
        self.assertEqual(engine.get_num_unfinished_requests(), 1)
        await engine.abort(["four", "nobodys"])
        async for output in running:
            pass
        self.assertEqual(output.outputs[0].finish_reason, "abort")
        self.assertEqual((engine.is_running, engine.errored), (True, False))
        engine.shutdown()
        self.assertEqual((engine.is_running, engine.is_stopped), (False, True))


if __name__ == "__main__":
    unittest.main()
