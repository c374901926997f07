"""The tiny checkpoints of tests/golden/models whose layers have experts, for make_model_goldens.py.
Sizes are odd on purpose: five experts, three KV heads, heads of 20, a vocabulary of 99."""
import torch
from transformers import (GptOssConfig, GraniteMoeConfig, GraniteMoeSharedConfig, MixtralConfig,
                          OlmoeConfig, Qwen2MoeConfig, Qwen3MoeConfig)

SMALL = dict(vocab_size=99, hidden_size=48, num_hidden_layers=2, num_attention_heads=6,
             num_key_value_heads=3, max_position_embeddings=128, bos_token_id=1, eos_token_id=2,
             pad_token_id=0)
PLAIN = dict(rope_type="default", rope_theta=10000.0)
YARN = dict(rope_type="yarn", rope_theta=150000.0, factor=4.0, beta_fast=32.0, beta_slow=1.0,
            truncate=False, original_max_position_embeddings=32)


GRANITE = dict(embedding_multiplier=12.0, attention_multiplier=0.3, residual_multiplier=0.22,
               logits_scaling=4.0)


def small(**changes):
    return {**SMALL, "rope_parameters": PLAIN, **changes}


CASES = {
    "mixtral": MixtralConfig(**small(head_dim=20), intermediate_size=22, num_local_experts=5,
                             num_experts_per_tok=2),
    "mixtral_window": MixtralConfig(**small(num_attention_heads=3, num_key_value_heads=1,
                                            tie_word_embeddings=True),
                                    intermediate_size=30, num_local_experts=3,
                                    num_experts_per_tok=1, sliding_window=9, hidden_act="gelu"),
    # All experts of three: rounded activations change no choice.
    "mixtral_bf16": MixtralConfig(**small(), intermediate_size=34, num_local_experts=3,
                                  num_experts_per_tok=3),
    "mixtral_stacked": MixtralConfig(**small(num_attention_heads=3, num_key_value_heads=1),
                                     intermediate_size=14, num_local_experts=3,
                                     num_experts_per_tok=2),
    "qwen2_moe": Qwen2MoeConfig(**small(num_hidden_layers=3), intermediate_size=30, num_experts=5,
                                num_experts_per_tok=2, moe_intermediate_size=22,
                                shared_expert_intermediate_size=26, mlp_only_layers=[1]),
    "qwen2_moe_sparse": Qwen2MoeConfig(**small(num_hidden_layers=4), intermediate_size=30,
                                       num_experts=5, num_experts_per_tok=3,
                                       moe_intermediate_size=14, norm_topk_prob=True,
                                       shared_expert_intermediate_size=14, qkv_bias=False,
                                       decoder_sparse_step=2, use_sliding_window=True,
                                       sliding_window=7, max_window_layers=3,
                                       hidden_act="gelu_pytorch_tanh"),
    "qwen3_moe": Qwen3MoeConfig(**small(), head_dim=20, intermediate_size=30, num_experts=5,
                                num_experts_per_tok=2, moe_intermediate_size=22,
                                norm_topk_prob=True),
    "qwen3_moe_biases": Qwen3MoeConfig(**small(num_hidden_layers=3), head_dim=8,
                                       intermediate_size=30, num_experts=7, num_experts_per_tok=3,
                                       moe_intermediate_size=10, attention_bias=True,
                                       use_sliding_window=True, sliding_window=9,
                                       mlp_only_layers=[0], tie_word_embeddings=True),
    "qwen3_moe_stacked": Qwen3MoeConfig(**small(), head_dim=8, intermediate_size=30, num_experts=5,
                                        num_experts_per_tok=2, moe_intermediate_size=22),
    "olmoe": OlmoeConfig(**small(), intermediate_size=22, num_experts=5, num_experts_per_tok=2),
    "olmoe_clipped": OlmoeConfig(**small(), intermediate_size=18, num_experts=6,
                                 num_experts_per_tok=4, attention_bias=True, clip_qkv=0.7,
                                 norm_topk_prob=True),
    "gpt_oss": GptOssConfig(**small(rope_parameters=YARN), head_dim=20, intermediate_size=22,
                            num_local_experts=5, num_experts_per_tok=2, sliding_window=7),
    "gpt_oss_plain": GptOssConfig(**small(num_hidden_layers=3), head_dim=8, intermediate_size=14,
                                  num_local_experts=5, num_experts_per_tok=3, sliding_window=5,
                                  attention_bias=False, swiglu_alpha=1.3, swiglu_limit=0.6,
                                  layer_types=["full_attention", "sliding_attention",
                                               "sliding_attention"]),
    "granitemoe": GraniteMoeConfig(**small(), **GRANITE, intermediate_size=22,
                                   num_local_experts=5, num_experts_per_tok=2),
    "granitemoe_biases": GraniteMoeConfig(**small(tie_word_embeddings=True), **GRANITE,
                                          intermediate_size=14, num_local_experts=3,
                                          num_experts_per_tok=1, attention_bias=True),
    "granitemoeshared": GraniteMoeSharedConfig(**small(), **GRANITE, intermediate_size=18,
                                               num_local_experts=5, num_experts_per_tok=3,
                                               shared_intermediate_size=26),
    "granitemoeshared_stacked": GraniteMoeSharedConfig(
        **small(), **GRANITE, intermediate_size=14, num_local_experts=3, num_experts_per_tok=2,
        shared_intermediate_size=18),
}
DTYPES = {"mixtral_bf16": torch.bfloat16}


def inputs_of(name, parameter, config):
    if config.model_type == "gpt_oss" and ".experts." in name:
        return parameter.shape[1]
    return parameter.shape[-1]


def randomise(model, generator):
    """Random values everywhere, scaled so that activations and logits keep a real range, and
    routers prefer some experts clearly."""
    for name, parameter in model.named_parameters():
        values = torch.randn(parameter.shape, generator=generator)
        if name.endswith(("bias", "sinks")):
            values *= 0.4
        elif "norm" in name:
            values = 0.5 + torch.rand(parameter.shape, generator=generator)
        elif "embed" in name:
            values *= 0.6 if model.config.tie_word_embeddings else 1.0
        else:
            gain = 3.0 if "head" in name or "router" in name or ".gate.weight" in name else 1.3
            values *= gain / inputs_of(name, parameter, model.config) ** 0.5
        with torch.no_grad():
            parameter.copy_(values)
