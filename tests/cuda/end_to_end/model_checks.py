"""Checks of models: tokens, logprobs and logits are those of others, within what rounding explains.

Models of f32 are held to the executor `ref` within 2e-4 of a logprob and 1e-3 of a tie, and to
logits that transformers made (tests/golden) within 2e-4 of the largest. Where bf16, packed weights,
or K and V in few bits round otherwise in each executor, more is allowed: the numbers stand with the
models.
"""
from functools import partial

from answers import Different, NearTies, hold_logits, hold_same_tokens
from program import Broken, answers_of
from prompts import text_requests, token_ids, token_requests

OF_F32 = ("mixtral", "mixtral_window", "qwen2_moe_sparse", "qwen3_moe_biases", "olmoe", "gpt_oss",
          "granitemoeshared", "deepseek_v2", "deepseek_v2_experts", "deepseek_v2_groups",
          "deepseek_v3_experts", "mistral_window", "qwen2_sliding_layers", "gemma3", "gemma2",
          "mamba", "mamba_biases", "mamba2", "mamba2_groups", "granite4_rope", "granite4_experts",
          "qwen3_next", "qwen3_5_moe", "lfm2", "lfm2_biases")
OF_BF16 = ("mixtral_bf16", "llama_bf16")
PACKED = ("awq_4bit", "gptq_8bit", "hqq_4bit", "mxfp4_experts", "modelopt_nvfp4", "ct_fp8")
PACKED_VOCABULARY = 16
BF16_TOLERANCE = 1.5e-1
# (model, elements of K and V, tolerance)
FEW_BITS = (("llama_gqa", "i8", 5e-2), ("llama_gqa", "i4", 2e-1), ("olmoe", "i8", 5e-2),
            ("mistral_window", "i4", 2e-1))
FEW_BITS_OF_TALE = (("i8", 1.5e-1), ("i4", 3e-1))
DRAWN = ("llama_gqa", "olmoe", "deepseek_v2", "granite4")
OF_TRANSFORMERS = ("bloom", "mpt_scaled", "gpt2", "falcon_grouped", "cohere", "starcoder2",
                   "stablelm_parallel", "phi3_long", "granite_biases", "olmo2",
                   "llama_rope_llama3", "deepseek_v3_one_group", "mamba", "mamba2", "granite4")


class ModelChecks:
    def __init__(self, tenon):
        self.tenon = tenon

    def tokens(self, model, logprob_tolerance=2e-4, tie=1e-3, settings=(), reference="ref",
               requests=None, logprobs=20):
        """Tokens and logprobs of a reference, which tells so many logprobs a token."""
        requests = requests or token_requests()
        expected = self.tenon.run(model, requests, settings, reference, logprobs)
        report = self.tenon.report(model, requests, settings, logprobs=logprobs)
        seen = NearTies(logprob_tolerance, tie).hold(answers_of(report), expected)
        return f"{seen} [{report['pipeline']['numerics']}]"

    def near_tokens(self, model, tolerance, **keywords):
        return self.tokens(model, tolerance, tolerance, **keywords)

    def near_tokens_of_cpu(self, tolerance, settings=(), requests=None):
        """For `tale`, with which `ref` takes long."""
        return self.near_tokens(self.tenon.bundled("tale"), tolerance, settings=settings,
                                reference="cpu",
                                requests=requests or text_requests(temperature=0, samples=1))

    def long_context(self):
        text = self.tenon.bundled("valid.txt").read_text()[:5200]
        requests = [{"prompt": prompt, "max_tokens": 30, "temperature": 0, "ignore_eos": True}
                    for prompt in (text, text[1000:4000])]
        return self.near_tokens_of_cpu(BF16_TOLERANCE, ("scheduler.plugin=chunked",), requests)

    def drawn(self, model):
        """What is drawn from f32 with a temperature is what `ref` draws."""
        requests = token_requests(temperature=0.9, seed=11, top_p=0.95, top_k=30)
        requests[1]["samples"] = 3
        return self._exact_tokens(model, requests)

    def beams(self, model):
        return self._exact_tokens(model, [{"prompt": token_ids(9, 3, 99), "max_tokens": 12,
                                           "beams": 4, "samples": 4, "temperature": 0}])

    def _exact_tokens(self, model, requests):
        expected = self.tenon.run(model, requests, executor="ref")
        found = self.tenon.run(model, requests)
        hold_same_tokens(found, expected)
        return f"{sum(len(answer['tokens']) for answer in found.values())} tokens"

    def logits(self, model):
        out = self.tenon.folder / f"{model.name}.npy"
        self.tenon.call("model", "logits", model, "--tokens-file", model / "tokens.npy",
                        "--out", out, "--chunks", "7,1,64", *self.tenon.flags())
        return hold_logits(out, model / "logits.npy", 2e-4)

    def refusal(self):
        """What docs/cuda.md says is refused is refused, with the executor's name."""
        if self.tenon.executor != "cuda":
            return f"not asked of {self.tenon.executor}"
        adapter = self.tenon.golden("adapters/granite4")
        try:
            self.tenon.run(self.tenon.golden("models/granite4"),
                           [{"prompt": token_ids(3, 1, 99), "max_tokens": 2}],
                           settings=(f"adapters.one={adapter}",))
        except Broken as broken:
            if "[adapters]" in str(broken) and "cuda" in str(broken):
                return str(broken)[:120]
            raise
        raise Different("a model ran with an adapter")

    def all(self):
        """(name, check) of each."""
        golden, near = self.tenon.golden, "(near ties forgiven)"
        for name in OF_F32:
            yield f"{name}: tokens of ref", partial(self.tokens, golden(f"models/{name}"))
        for name in OF_BF16:
            yield (f"{name}: bf16, tokens of ref {near}",
                   partial(self.near_tokens, golden(f"models/{name}"), BF16_TOLERANCE))
        for name in PACKED:
            yield (f"{name}: packed, tokens of ref {near}",
                   partial(self.near_tokens, golden(f"published/{name}"), BF16_TOLERANCE,
                           requests=token_requests(PACKED_VOCABULARY), logprobs=PACKED_VOCABULARY))
        for name, kind, tolerance in FEW_BITS:
            yield (f"{name}: K and V in {kind}, tokens of ref {near}",
                   partial(self.near_tokens, golden(f"models/{name}"), tolerance,
                           settings=(f"kv_cache.dtype={kind}",)))
        yield (f"tale: bf16, tokens of cpu {near}",
               partial(self.near_tokens_of_cpu, BF16_TOLERANCE))
        for kind, tolerance in FEW_BITS_OF_TALE:
            yield (f"tale: K and V in {kind}, tokens of cpu {near}",
                   partial(self.near_tokens_of_cpu, tolerance, (f"kv_cache.dtype={kind}",)))
        yield f"tale: 1,300 tokens of context, chunked, tokens of cpu {near}", self.long_context
        for name in DRAWN:
            yield (f"{name}: drawn with a temperature, tokens of ref",
                   partial(self.drawn, golden(f"models/{name}")))
        yield "llama_gqa: beams of ref", partial(self.beams, golden("models/llama_gqa"))
        for name in OF_TRANSFORMERS:
            yield (f"{name}: logits of transformers",
                   partial(self.logits, golden(f"models/{name}")))
        yield "granite4: adapters are refused", self.refusal
