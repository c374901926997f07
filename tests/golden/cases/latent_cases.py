"""The tiny checkpoints of tests/golden/models with multi-head latent attention, for
make_model_goldens.py. transformers computes them with the heads expanded."""
import torch
from transformers import DeepseekV2Config, DeepseekV3Config

from cases import expert_cases

# Three heads whose parts fit no vector; all layers are dense, unless a case says otherwise.
SMALL = dict(vocab_size=99, hidden_size=48, intermediate_size=72, num_hidden_layers=3,
             num_attention_heads=3, num_key_value_heads=3, max_position_embeddings=128,
             kv_lora_rank=20, qk_nope_head_dim=12, qk_rope_head_dim=8, v_head_dim=10,
             first_k_dense_replace=3, bos_token_id=1, eos_token_id=2, pad_token_id=0)
PLAIN = dict(rope_type="default", rope_theta=10000.0)
YARN = dict(rope_type="yarn", rope_theta=10000.0, factor=40.0, beta_fast=32, beta_slow=1,
            mscale=0.707, mscale_all_dim=0.707, original_max_position_embeddings=32)


def small(**changes):
    return {**SMALL, **changes}


CASES = {
    "deepseek_v2": DeepseekV2Config(**small(), q_lora_rank=None, rope_parameters=YARN),
    "deepseek_v2_low_rank_q": DeepseekV2Config(
        **small(), q_lora_rank=14, attention_bias=True, mlp_bias=True, rms_norm_eps=0.05,
        rope_parameters={**YARN, "mscale": 1.2, "mscale_all_dim": 0.8}),
    "deepseek_v3": DeepseekV3Config(**small(), q_lora_rank=14, rope_parameters=PLAIN),
    "deepseek_v3_halves": DeepseekV3Config(
        **small(qk_rope_head_dim=6, v_head_dim=16), q_lora_rank=None, attention_bias=True,
        rope_interleave=False, tie_word_embeddings=True, hidden_act="gelu",
        rope_parameters={**YARN, "mscale_all_dim": 1.0, "mscale": 1.0}),
    "deepseek_v2_experts": DeepseekV2Config(
        **small(first_k_dense_replace=1), q_lora_rank=None, n_routed_experts=7,
        num_experts_per_tok=3, n_shared_experts=2, moe_intermediate_size=14,
        routed_scaling_factor=1.7, rope_parameters=PLAIN),
    "deepseek_v2_groups": DeepseekV2Config(
        **small(first_k_dense_replace=0, num_hidden_layers=2), q_lora_rank=14, n_routed_experts=12,
        num_experts_per_tok=2, n_shared_experts=1, moe_intermediate_size=6, n_group=4,
        topk_group=2, topk_method="group_limited_greedy", routed_scaling_factor=16.0,
        rope_parameters=YARN),
    "deepseek_v3_experts": DeepseekV3Config(
        **small(first_k_dense_replace=1), q_lora_rank=14, n_routed_experts=12,
        num_experts_per_tok=3, n_shared_experts=1, moe_intermediate_size=10, n_group=3,
        topk_group=2, rope_parameters=YARN),
    "deepseek_v3_one_group": DeepseekV3Config(
        **small(first_k_dense_replace=2), q_lora_rank=None, n_routed_experts=5,
        num_experts_per_tok=2, n_shared_experts=3, moe_intermediate_size=6, n_group=1,
        topk_group=1, norm_topk_prob=False, routed_scaling_factor=0.8, rope_parameters=PLAIN),
}


def randomise(model, generator):
    """And what the choice of experts is corrected by, large enough that it decides."""
    expert_cases.randomise(model, generator)
    for name, buffer in model.named_buffers():
        if name.endswith("e_score_correction_bias"):
            with torch.no_grad():
                buffer.copy_(0.3 * torch.randn(buffer.shape, generator=generator))
