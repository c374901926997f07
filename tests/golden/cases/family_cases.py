"""The tiny checkpoints of tests/golden/models that show the options of each model family, for
make_model_goldens.py. Sizes are odd on purpose: three KV heads, heads of 20, a vocabulary of 99."""
import torch
from transformers import (CohereConfig, Gemma2Config, Gemma3TextConfig, GPT2Config, GPTNeoXConfig,
                          GraniteConfig, Olmo2Config, Phi3Config, SmolLM3Config, StableLmConfig,
                          Starcoder2Config)

SMALL = dict(vocab_size=99, hidden_size=48, intermediate_size=72, num_hidden_layers=3,
             num_attention_heads=6, num_key_value_heads=3, max_position_embeddings=128,
             bos_token_id=1, eos_token_id=2, pad_token_id=0)
PLAIN = dict(rope_type="default", rope_theta=10000.0)
YARN = dict(rope_type="yarn", rope_theta=10000.0, factor=4.0,
            original_max_position_embeddings=32)
LONG = dict(rope_type="longrope", rope_theta=10000.0, original_max_position_embeddings=32,
            short_factor=[1.0, 1.1, 1.2, 1.3], long_factor=[1.0, 1.5, 2.5, 4.0])


def small(**changes):
    return {**SMALL, **changes}


CASES = {
    "gemma2": Gemma2Config(**small(head_dim=20), sliding_window=7, query_pre_attn_scalar=24,
                           attn_logit_softcapping=3.0, final_logit_softcapping=5.0),
    "gemma2_biases": Gemma2Config(**small(head_dim=8), sliding_window=9, attention_bias=True,
                                  attn_logit_softcapping=None, final_logit_softcapping=None,
                                  tie_word_embeddings=False, query_pre_attn_scalar=8),
    "gemma3": Gemma3TextConfig(
        **small(head_dim=20), sliding_window=7, query_pre_attn_scalar=24,
        layer_types=["sliding_attention", "sliding_attention", "full_attention"],
        rope_parameters={"full_attention": dict(rope_type="linear", factor=8.0, rope_theta=1e6),
                         "sliding_attention": dict(rope_type="default", rope_theta=1e4)}),
    "gemma3_capped": Gemma3TextConfig(
        **small(head_dim=16), sliding_window=9, query_pre_attn_scalar=16, attention_bias=True,
        final_logit_softcapping=4.0,
        layer_types=["full_attention", "sliding_attention", "sliding_attention"]),
    "phi3": Phi3Config(**small(), sliding_window=9, rope_parameters=PLAIN),
    "phi3_long": Phi3Config(**small(num_attention_heads=3, num_key_value_heads=1),
                            original_max_position_embeddings=32,
                            rope_parameters={**LONG, "partial_rotary_factor": 0.5}),
    "olmo2": Olmo2Config(**small(), rope_parameters=PLAIN),
    "olmo2_biases": Olmo2Config(**small(), attention_bias=True, rope_parameters=YARN),
    "granite": GraniteConfig(**small(), embedding_multiplier=12.0, attention_multiplier=0.3,
                             residual_multiplier=0.22, logits_scaling=4.0, rope_parameters=PLAIN),
    "granite_biases": GraniteConfig(**small(), embedding_multiplier=3.0, attention_multiplier=0.2,
                                    residual_multiplier=0.5, logits_scaling=0.5,
                                    attention_bias=True, mlp_bias=True, tie_word_embeddings=True,
                                    rope_parameters=PLAIN),
    "smollm3": SmolLM3Config(**small(num_hidden_layers=5), rope_parameters=PLAIN),
    "smollm3_window": SmolLM3Config(**small(), no_rope_layers=[0, 1, 0], use_sliding_window=True,
                                    sliding_window=7, attention_bias=True, mlp_bias=True,
                                    tie_word_embeddings=False, rope_parameters=YARN),
    "starcoder2": Starcoder2Config(**small(), sliding_window=9, rope_parameters=PLAIN),
    "starcoder2_plain": Starcoder2Config(**small(), use_bias=False, tie_word_embeddings=False,
                                         hidden_act="relu", rope_parameters=PLAIN),
    "gpt2": GPT2Config(vocab_size=99, n_positions=128, n_embd=60, n_layer=3, n_head=3,
                       bos_token_id=1, eos_token_id=2),
    "gpt2_scaled": GPT2Config(vocab_size=99, n_positions=64, n_embd=48, n_layer=3, n_head=6,
                              n_inner=70, activation_function="relu", bos_token_id=1,
                              eos_token_id=2, scale_attn_by_inverse_layer_idx=True,
                              tie_word_embeddings=False),
    "gpt_neox": GPTNeoXConfig(vocab_size=99, hidden_size=60, num_hidden_layers=3,
                              num_attention_heads=3, intermediate_size=70,
                              max_position_embeddings=128, bos_token_id=1, eos_token_id=2,
                              rope_parameters={**PLAIN, "partial_rotary_factor": 0.5}),
    "gpt_neox_serial": GPTNeoXConfig(vocab_size=99, hidden_size=48, num_hidden_layers=2,
                                     num_attention_heads=6, intermediate_size=70,
                                     max_position_embeddings=128, bos_token_id=1, eos_token_id=2,
                                     use_parallel_residual=False, attention_bias=False,
                                     hidden_act="gelu_fast", tie_word_embeddings=True,
                                     rope_parameters={**PLAIN, "partial_rotary_factor": 1.0}),
    "stablelm": StableLmConfig(**small(num_attention_heads=3),
                               rope_parameters={**PLAIN, "partial_rotary_factor": 0.25}),
    "stablelm_parallel": StableLmConfig(**small(), use_qkv_bias=True, qk_layernorm=True,
                                        use_parallel_residual=True,
                                        rope_parameters={**PLAIN, "partial_rotary_factor": 0.5}),
    "cohere": CohereConfig(**small(), logit_scale=0.3, rope_parameters=PLAIN),
    "cohere_norms": CohereConfig(**small(), logit_scale=2.0, use_qk_norm=True,
                                 attention_bias=True, tie_word_embeddings=False,
                                 rope_parameters=PLAIN),
}


def randomise(model, generator):
    """Random values everywhere, scaled so that activations and logits keep a real range."""
    less_one = model.config.model_type.startswith("gemma")
    for name, parameter in model.named_parameters():
        values = torch.randn(parameter.shape, generator=generator)
        if name.endswith(".bias"):
            values *= 0.4
        elif "norm" in name or ".ln_" in name:
            values = (-0.5 if less_one else 0.5) + torch.rand(parameter.shape, generator=generator)
        elif "embed" in name or name.endswith(("wte.weight", "wpe.weight")):
            values *= 0.6 if model.config.tie_word_embeddings else 1.0
            # Families that scale embeddings are trained with small ones.
            if less_one:
                values *= 0.3
        else:
            # Conv1D of GPT-2 keeps its inputs in the first dimension.
            transposed = ".c_" in name and model.config.model_type == "gpt2"
            inputs = parameter.shape[0 if transposed else 1]
            values *= (3.0 if "head" in name or "embed_out" in name else 1.3) / inputs ** 0.5
        with torch.no_grad():
            parameter.copy_(values)
