"""The tiny checkpoints of tests/golden/models of dense families that vary Llama's layer, for
make_model_goldens.py. Sizes are odd on purpose, and small: a vocabulary of 53, few tokens."""
import torch
from transformers import (ApertusConfig, ArceeConfig, Cohere2Config, CwmConfig, DogeConfig, Ernie4_5Config,
                          Exaone4Config, ExaoneConfig, GemmaConfig, Glm4Config, GlmConfig, GraniteSWAConfig,
                          HeliumConfig, HunYuanDenseV1Config, HyperCLOVAXConfig, InternLM3Config,
                          IQuestCoderConfig, Jais2Config, MinistralConfig, NanoChatConfig, Olmo3Config,
                          SeedOssConfig, VaultGemmaConfig)

TOKENS = 24
FULL, SLIDING = "full_attention", "sliding_attention"
PLAIN = dict(rope_type="default", rope_theta=1000.0)
LLAMA3 = dict(rope_type="llama3", factor=4.0, low_freq_factor=1.0, high_freq_factor=4.0,
              original_max_position_embeddings=16, rope_theta=1000.0)
YARN = dict(rope_type="yarn", factor=4.0, original_max_position_embeddings=32, rope_theta=1000.0)


def small(**more):
    return {**dict(vocab_size=53, bos_token_id=1, eos_token_id=2, pad_token_id=0, hidden_size=36,
                   intermediate_size=44, num_hidden_layers=2, num_attention_heads=6,
                   num_key_value_heads=3, max_position_embeddings=128, rope_parameters=PLAIN),
            **more}


CASES = {
    "olmo3": Olmo3Config(**small(
        num_hidden_layers=4, attention_bias=True, sliding_window=7,
        rope_parameters={FULL: YARN, SLIDING: dict(rope_type="default", rope_theta=300.0)})),
    "ernie4_5": Ernie4_5Config(**small(head_dim=10, use_bias=True)),
    "seed_oss": SeedOssConfig(**small(head_dim=8, mlp_bias=True, attention_out_bias=True)),
    "arcee": ArceeConfig(**small(head_dim=8, attention_bias=True, mlp_bias=True,
                                 rope_parameters=YARN)),
    "jais2": Jais2Config(**small(head_dim=10)),
    "apertus": ApertusConfig(**small(attention_bias=True, rope_parameters=LLAMA3)),
    "helium": HeliumConfig(**small(head_dim=6, attention_bias=True, mlp_bias=True)),
    "exaone": ExaoneConfig(**small(head_dim=8, rope_parameters=LLAMA3)),
    "exaone4": Exaone4Config(**small(num_hidden_layers=3, sliding_window=7,
                                     layer_types=[SLIDING, FULL, SLIDING],
                                     rope_parameters=LLAMA3)),
    "cohere2": Cohere2Config(**small(num_hidden_layers=4, attention_bias=True, sliding_window=7,
                                     logit_scale=0.25)),
    "glm": GlmConfig(**small(head_dim=12,
                             rope_parameters={**PLAIN, "partial_rotary_factor": 0.5})),
    "glm4": Glm4Config(**small(head_dim=8, attention_bias=False,
                               rope_parameters={**PLAIN, "partial_rotary_factor": 0.75})),
    "hunyuan_v1_dense": HunYuanDenseV1Config(**small(
        head_dim=8, attention_bias=True,
        rope_parameters=dict(rope_type="dynamic", alpha=50.0, factor=1.0, rope_theta=100.0))),
    "cwm": CwmConfig(**small(num_hidden_layers=3, head_dim=8, mlp_bias=True, sliding_window=7,
                             rope_parameters=LLAMA3)),
    "gemma": GemmaConfig(**small(head_dim=10, attention_bias=True, hidden_act="gelu")),
    "vaultgemma": VaultGemmaConfig(**small(head_dim=10, sliding_window=7,
                                           query_pre_attn_scalar=24)),
    "hyperclovax": HyperCLOVAXConfig(**small(head_dim=10, attention_bias=True, mlp_bias=True,
                                             attention_multiplier=0.2, residual_multiplier=0.6,
                                             embedding_multiplier=1.7, logits_scaling=0.5)),
    "granite_swa": GraniteSWAConfig(**small(
        num_hidden_layers=4, attention_bias=True, mlp_bias=True, sliding_window=7,
        attention_multiplier=0.2, residual_multiplier=0.6, embedding_multiplier=1.7,
        logits_scaling=2.0, layer_rope_theta=[0, 500.0, 1000, 500.0])),
    # One layer does not turn; GGUF files have one base for all others.
    "granite_swa_plain": GraniteSWAConfig(**small(
        sliding_window=7, tie_word_embeddings=False, layer_rope_theta=[0, 300.0])),
    "iquestcoder": IQuestCoderConfig(**small(head_dim=8)),
    "internlm3": InternLM3Config(**small(
        head_dim=8, attention_bias=True, mlp_bias=True)),
    "ministral": MinistralConfig(**small(head_dim=8, sliding_window=7,
                                         layer_types=[FULL, SLIDING])),
    "nanochat": NanoChatConfig(**small(attention_bias=True)),
    "doge": DogeConfig(**small(head_dim=10, sliding_window=7, keep_window_size=9)),
    "doge_biases": DogeConfig(**small(num_key_value_heads=2, attention_bias=True, mlp_bias=True,
                                      hidden_act="gelu", tie_word_embeddings=True)),
}


def randomise(model, generator):
    """Random values everywhere, scaled so that activations and logits keep a real range."""
    less_one = "gemma" in model.config.model_type
    tied = model.config.tie_word_embeddings
    for name, parameter in model.named_parameters():
        values = torch.randn(parameter.shape, generator=generator)
        if name.endswith(".bias"):
            values *= 0.4
        elif name.endswith("self_attn.A"):
            values *= 0.5
        elif "norm" in name or name.endswith("_residual"):
            values = (-0.5 if less_one else 0.5) + torch.rand(parameter.shape, generator=generator)
        elif ".act_fn.alpha_" in name:
            values = 1.0 + values.abs()
        elif "embed" in name:
            values *= (0.6 if tied else 1.0) * (0.3 if less_one else 1.0)
        elif parameter.ndim > 1:
            values *= (3.0 if "lm_head" in name else 1.3) / parameter.shape[1] ** 0.5
        with torch.no_grad():
            parameter.copy_(values)
