"""The tiny checkpoints of tests/golden/models with gated delta rules, for make_model_goldens.py.
Sizes are odd on purpose: keys of 6 and values of 10, a convolution of 3, a vocabulary of 99."""
import torch
from transformers import (Qwen3_5Config, Qwen3_5MoeConfig, Qwen3_5MoeTextConfig, Qwen3_5TextConfig,
                          Qwen3NextConfig)

ENDS = dict(vocab_size=99, bos_token_id=1, eos_token_id=2, pad_token_id=0)
ROPE = dict(rope_type="default", rope_theta=1000.0, partial_rotary_factor=0.5)
LINEAR, FULL = "linear_attention", "full_attention"
SMALL = dict(**ENDS, hidden_size=36, num_attention_heads=6, num_key_value_heads=3, head_dim=8,
             max_position_embeddings=128, rms_norm_eps=1e-5, rope_parameters=ROPE)
DENSE = dict(**SMALL, intermediate_size=54)
EXPERTS = dict(num_experts=5, num_experts_per_tok=2, moe_intermediate_size=14,
               shared_expert_intermediate_size=18)
VISION = dict(depth=1, hidden_size=16, intermediate_size=24, num_heads=2, patch_size=8,
              spatial_merge_size=1, temporal_patch_size=1, out_hidden_size=36,
              num_position_embeddings=16)


def delta(keys, values, k_dim=6, v_dim=6, width=4):
    return dict(linear_num_key_heads=keys, linear_num_value_heads=values,
                linear_key_head_dim=k_dim, linear_value_head_dim=v_dim,
                linear_conv_kernel_dim=width)


CASES = {
    # Every fourth layer attends where nothing says which.
    "qwen3_next": Qwen3NextConfig(**DENSE, **EXPERTS, **delta(2, 4), num_hidden_layers=4),
    "qwen3_next_biases": Qwen3NextConfig(
        **DENSE, **EXPERTS, **delta(2, 6, k_dim=10, v_dim=5, width=3), num_hidden_layers=3,
        attention_bias=True, norm_topk_prob=False, mlp_only_layers=[0], tie_word_embeddings=True,
        layer_types=[FULL, LINEAR, LINEAR]),
    "qwen3_next_stacked": Qwen3NextConfig(**DENSE, **EXPERTS, **delta(3, 3), num_hidden_layers=2,
                                          layer_types=[LINEAR, FULL]),
    "qwen3_5": Qwen3_5TextConfig(**DENSE, **delta(2, 6, v_dim=10), num_hidden_layers=4),
    "qwen3_5_tied": Qwen3_5TextConfig(
        **DENSE, **delta(3, 3, width=2), num_hidden_layers=3, attention_bias=True,
        tie_word_embeddings=True, layer_types=[LINEAR, FULL, LINEAR]),
    "qwen3_5_moe": Qwen3_5MoeTextConfig(**SMALL, **EXPERTS, **delta(2, 4, k_dim=8, v_dim=8),
                                        num_hidden_layers=4),
    "qwen3_5_vision": Qwen3_5Config(
        text_config=Qwen3_5TextConfig(
            **{**DENSE, "rope_parameters": {**ROPE, "mrope_section": [1, 1, 0],
                                            "mrope_interleaved": True}},
            **delta(2, 4), num_hidden_layers=2, layer_types=[LINEAR, FULL]).to_dict(),
        vision_config=VISION, image_token_id=98, video_token_id=97, vision_start_token_id=96,
        vision_end_token_id=95),
    "qwen3_5_moe_vision": Qwen3_5MoeConfig(
        text_config=Qwen3_5MoeTextConfig(**SMALL, **EXPERTS, **delta(2, 4), num_hidden_layers=2,
                                         layer_types=[LINEAR, FULL]).to_dict(),
        vision_config=VISION, image_token_id=98, video_token_id=97, vision_start_token_id=96,
        vision_end_token_id=95),
}


def randomise(model, generator):
    """Random values everywhere. What decays does so within a few tokens, or within hundreds."""
    tied = model.config.get_text_config().tie_word_embeddings
    for name, parameter in model.named_parameters():
        values = torch.randn(parameter.shape, generator=generator)
        if name.endswith("A_log"):
            values = torch.log(0.05 + 4.0 * torch.rand(parameter.shape, generator=generator))
        elif name.endswith("dt_bias"):
            values = values - 1.0
        elif "conv1d" in name:
            values *= 0.7
        elif name.endswith(".bias"):
            values *= 0.4
        elif "norm" in name:
            plain = 1.0 if "linear_attn" in name else 0.0
            values = plain - 0.5 + torch.rand(parameter.shape, generator=generator)
        elif "embed_tokens" in name:
            values *= 0.6 if tied else 1.0
        elif parameter.ndim > 1:
            wide = "lm_head" in name or name.endswith("mlp.gate.weight")
            values *= (3.0 if wide else 1.3) / parameter.shape[-1] ** 0.5
        with torch.no_grad():
            parameter.copy_(values)
