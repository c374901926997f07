"""The tiny checkpoints of tests/golden/models whose attention is of a kind of its own in some layers
– gates, heads by layer, V of another width – with DeepSeek-V3's router, for make_model_goldens.py.
Sizes are odd on purpose."""
import torch
from transformers import AfmoeConfig, LagunaConfig, MiMoV2FlashConfig

from cases import expert_cases

TOKENS = 29
SLIDING, FULL = "sliding_attention", "full_attention"
SMALL = dict(vocab_size=31, hidden_size=36, intermediate_size=30, num_attention_heads=6,
             num_key_value_heads=3, max_position_embeddings=128, bos_token_id=1, eos_token_id=2,
             pad_token_id=None, sliding_window=7, moe_intermediate_size=10, num_experts_per_tok=2)
PLAIN = dict(rope_type="default", rope_theta=1000.0)
LOCAL = dict(rope_type="default", rope_theta=100.0)
YARN = dict(rope_type="yarn", rope_theta=1000.0, factor=16.0, beta_fast=32.0, beta_slow=1.0,
            original_max_position_embeddings=9)

CASES = {
    # Every fourth layer has no window, and does not turn.
    "afmoe": AfmoeConfig(
        **SMALL, num_hidden_layers=4, head_dim=8, num_experts=3, num_shared_experts=2,
        mup_enabled=True, route_scale=1.7, rope_parameters=dict(PLAIN)),
    "afmoe_stacked": AfmoeConfig(
        **SMALL, num_hidden_layers=3, head_dim=20, num_experts=3, num_shared_experts=1,
        num_dense_layers=2, layer_types=[FULL, SLIDING, SLIDING], attention_bias=True,
        tie_word_embeddings=True, rope_parameters=dict(PLAIN)),
    "laguna": LagunaConfig(
        **SMALL, num_hidden_layers=3, head_dim=8, num_experts=3, shared_expert_intermediate_size=14,
        num_attention_heads_per_layer=[3, 9, 6], layer_types=[FULL, SLIDING, FULL],
        moe_routed_scaling_factor=1.7,
        rope_parameters={FULL: {**YARN, "partial_rotary_factor": 0.5}, SLIDING: dict(LOCAL)}),
    "laguna_stacked": LagunaConfig(
        **SMALL, num_hidden_layers=2, head_dim=20, num_experts=3, shared_expert_intermediate_size=6,
        gating="per-element", mlp_layer_types=["sparse", "dense"], moe_router_logit_softcapping=1.5,
        attention_bias=True, tie_word_embeddings=True,
        rope_parameters={FULL: {**PLAIN, "partial_rotary_factor": 0.5}}),
    "mimo_v2": MiMoV2FlashConfig(
        **{**SMALL, "num_attention_heads": 12}, num_hidden_layers=3, head_dim=10, v_head_dim=6,
        n_routed_experts=3, layer_types=[FULL, SLIDING, FULL], routed_scaling_factor=1.7,
        rope_parameters={FULL: {**PLAIN, "partial_rotary_factor": 0.6},
                         SLIDING: {**LOCAL, "partial_rotary_factor": 0.6}}),
    # The last of its windows, its widths and its rotary settings are those that go without saying.
    "mimo_v2_stacked": MiMoV2FlashConfig(
        **{**SMALL, "num_attention_heads": 4, "num_key_value_heads": 1, "sliding_window": 21},
        num_hidden_layers=3, head_dim=12, v_head_dim=14, n_routed_experts=6, n_group=3,
        topk_group=2, norm_topk_prob=False, attention_value_scale=None, attention_bias=True,
        mlp_layer_types=["sparse", "dense", "sparse"], tie_word_embeddings=True),
}


def randomise(model, generator):
    """And what the choice of experts is corrected by, large enough that it decides."""
    expert_cases.randomise(model, generator)
    for name, values in [*model.named_parameters(), *model.named_buffers()]:
        if name.endswith(("e_score_correction_bias", "expert_bias")):
            with torch.no_grad():
                values.copy_(0.3 * torch.randn(values.shape, generator=generator))
