"""The tiny checkpoints of tests/golden/models with DeepSeek-V3's router on attention of any kind, and
what came with them, for make_model_goldens.py. Sizes are odd on purpose."""
import torch
from transformers import (AXK1Config, Cohere2MoeConfig, Dots1Config, Ernie4_5_MoeConfig, ExaoneMoeConfig,
                          Glm4MoeConfig, Glm4MoeLiteConfig, GraniteMoeSWAConfig, HunYuanMoEV1Config, HYV3Config,
                          Kimi_K25Config, MellumConfig, MiniMaxM2Config, Ministral3Config,
                          Mistral3Config, Mistral4Config, SolarOpenConfig, YoutuConfig)

from cases import expert_cases

SMALL = dict(vocab_size=47, hidden_size=36, num_hidden_layers=2, num_attention_heads=6,
             num_key_value_heads=3, max_position_embeddings=128, bos_token_id=1, eos_token_id=2,
             pad_token_id=0)
LATENT = dict(num_attention_heads=3, num_key_value_heads=3, kv_lora_rank=20, q_lora_rank=14,
              qk_nope_head_dim=12, qk_rope_head_dim=8, v_head_dim=10)
PLAIN = dict(rope_type="default", rope_theta=1000.0)
YARN = dict(rope_type="yarn", rope_theta=1000.0, factor=16.0, beta_fast=32, beta_slow=1,
            original_max_position_embeddings=9)
# q grows every nine tokens.
GROWING = {**YARN, "mscale": 1.0, "mscale_all_dim": 1.0, "llama_4_scaling_beta": 0.3}
EXPERTS = dict(moe_intermediate_size=10, num_experts_per_tok=2)
ROUTED = dict(**EXPERTS, n_routed_experts=5, n_shared_experts=1)
GRANITE = dict(attention_multiplier=0.2, residual_multiplier=0.6, embedding_multiplier=1.7,
               logits_scaling=2.0)
VISION = dict(patch_size=8, hidden_size=8, intermediate_size=8, num_hidden_layers=1,
              num_attention_heads=1)
PIXTRAL = dict(model_type="pixtral", **VISION, head_dim=8, image_size=16)


def small(rope=PLAIN, **changes):
    return {**SMALL, "rope_parameters": dict(rope), **changes}  # some write into their own


CASES = {
    "glm4_moe": Glm4MoeConfig(
        **small(num_hidden_layers=3), intermediate_size=30, **{**ROUTED, "n_routed_experts": 6},
        head_dim=20, use_qk_norm=True, attention_bias=True, n_group=3, topk_group=2,
        first_k_dense_replace=1, routed_scaling_factor=1.7),
    "glm4_moe_stacked": Glm4MoeConfig(
        **small(rope={**PLAIN, "partial_rotary_factor": 1.0}, tie_word_embeddings=True),
        intermediate_size=30, **ROUTED, head_dim=8, first_k_dense_replace=0, norm_topk_prob=False),
    "glm4_moe_lite": Glm4MoeLiteConfig(
        **small(num_hidden_layers=3) | LATENT, intermediate_size=30,
        **{**ROUTED, "n_shared_experts": 2}, mlp_layer_types=["sparse", "dense", "sparse"]),
    "axk1": AXK1Config(
        **small(num_hidden_layers=3) | LATENT, intermediate_size=30,
        **{**ROUTED, "n_routed_experts": 6}, n_group=3, topk_group=2,
        mlp_layer_types=["dense", "sparse", "sparse"]),
    "axk1_stacked": AXK1Config(
        **small(tie_word_embeddings=True) | LATENT, intermediate_size=30, **ROUTED, n_group=1,
        topk_group=1, rope_interleave=False, mlp_layer_types=["sparse", "dense"],
        attention_bias=True),
    "minimax_m2": MiniMaxM2Config(**small(rope={**PLAIN, "partial_rotary_factor": 0.5}),
                                  head_dim=20, intermediate_size=10, num_local_experts=5,
                                  num_experts_per_tok=2),
    "minimax_m2_stacked": MiniMaxM2Config(**small(), head_dim=8, intermediate_size=14,
                                          num_local_experts=3, num_experts_per_tok=1),
    "ministral3": Ministral3Config(**small(rope=GROWING, tie_word_embeddings=True),
                                   head_dim=20, intermediate_size=30, sliding_window=21),
    # Which transformers runs with images alone.
    "mistral3_mistral4": Mistral3Config(
        text_config=Mistral4Config(
            **small(num_hidden_layers=3, rope=GROWING) | LATENT, intermediate_size=30,
            **{**ROUTED, "n_routed_experts": 6}, n_group=3, topk_group=2, first_k_dense_replace=1,
            routed_scaling_factor=1.3, attention_bias=True).to_dict(),
        vision_config=PIXTRAL, image_token_index=46, spatial_merge_size=1,
        tie_word_embeddings=False),
    "mistral3_mistral4_halves": Mistral3Config(
        text_config=Mistral4Config(
            **small(rope=GROWING) | {**LATENT, "q_lora_rank": None}, intermediate_size=30,
            **ROUTED, norm_topk_prob=False, rope_interleave=False).to_dict(),
        vision_config=PIXTRAL, image_token_index=46, spatial_merge_size=1,
        tie_word_embeddings=True),
    "kimi_k25": Kimi_K25Config(
        text_config=dict(model_type="deepseek_v3", **small(rope=YARN) | LATENT,
                         intermediate_size=30, **ROUTED, n_group=1, topk_group=1,
                         first_k_dense_replace=1),
        vision_config=dict(**VISION, pos_emb_height=2, pos_emb_width=2, pos_emb_time=1),
        projection_hidden_size=8, image_token_id=93, video_token_id=92,
        vision_start_token_id=91, vision_end_token_id=90, tie_word_embeddings=False),
    "dots1": Dots1Config(
        **small(num_hidden_layers=3), intermediate_size=30, **{**ROUTED, "n_shared_experts": 2},
        head_dim=20, first_k_dense_replace=1, attention_bias=True, norm_topk_prob=True,
        routed_scaling_factor=2.5, sliding_window=7, max_window_layers=1),
    "ernie4_5_moe": Ernie4_5_MoeConfig(
        **small(num_hidden_layers=3), intermediate_size=30, moe_intermediate_size=10,
        moe_num_experts=5, moe_k=2, moe_num_shared_experts=2, tie_word_embeddings=True),
    "ernie4_5_moe_biases": Ernie4_5_MoeConfig(
        **small(num_hidden_layers=4), head_dim=8, intermediate_size=22, moe_intermediate_size=6,
        moe_num_experts=5, moe_k=3, moe_num_shared_experts=1, use_bias=True,
        moe_layer_start_index=0, moe_layer_end_index=2, moe_layer_interval=2,
        tie_word_embeddings=False),
    "solar_open": SolarOpenConfig(
        **small(rope=YARN), head_dim=20, **ROUTED,
        attention_bias=True),
    "exaone_moe": ExaoneMoeConfig(
        **small(num_hidden_layers=4), intermediate_size=30, **EXPERTS, num_experts=5,
        num_shared_experts=2, head_dim=8, sliding_window=7, first_k_dense_replace=1),
    "mellum": MellumConfig(
        **small(num_hidden_layers=3, rope={
            "full_attention": dict(YARN), "sliding_attention": {**PLAIN, "rope_theta": 100.0}}),
        intermediate_size=30, **EXPERTS, num_experts=5, head_dim=8, sliding_window=7,
        attention_bias=True, layer_types=["sliding_attention", "full_attention",
                                          "sliding_attention"],
        mlp_layer_types=["sparse", "dense", "sparse"]),
    "hy_v3": HYV3Config(**small(num_hidden_layers=3), intermediate_size=30, **EXPERTS,
                        num_experts=5, num_shared_experts=2, head_dim=20),
    "hy_v3_stacked": HYV3Config(**small(tie_word_embeddings=True), intermediate_size=22, **EXPERTS,
                                num_experts=5, num_shared_experts=1, head_dim=8, mlp_bias=True,
                                attention_bias=True, router_scaling_factor=0.7),
    # Its base becomes a whole number, which GGUF files can hold.
    "hunyuan_v1_moe": HunYuanMoEV1Config(
        **small(rope=dict(rope_type="dynamic", rope_theta=1000.0, factor=1.0, alpha=4.0)),
        head_dim=6, intermediate_size=10, num_experts=5, moe_topk=2, attention_bias=True,
        tie_word_embeddings=True),
    "cohere2_moe": Cohere2MoeConfig(
        **small(num_hidden_layers=4), head_dim=8, intermediate_size=10, num_experts=5,
        num_experts_per_tok=2, num_shared_experts=2, expert_selection_fn="sigmoid",
        prefix_dense_intermediate_size=22, first_k_dense_replace=1, sliding_window=7,
        sliding_window_pattern=2, attention_bias=True),
    "cohere2_moe_sum": Cohere2MoeConfig(
        **small(num_hidden_layers=3, tie_word_embeddings=False), head_dim=8, intermediate_size=10,
        num_experts=5, num_experts_per_tok=2, num_shared_experts=1, rms_norm_eps=1e-5,
        shared_expert_combination_strategy="sum", prefix_dense_sliding_window_pattern=2,
        mlp_layer_types=["dense", "sparse", "sparse"], sliding_window=7,
        layer_types=["full_attention", "sliding_attention", "full_attention"]),
    "granitemoe_swa": GraniteMoeSWAConfig(
        **small(num_hidden_layers=3), **GRANITE, intermediate_size=10, num_local_experts=5,
        num_experts_per_tok=2, shared_intermediate_size=14, sliding_window=7,
        layer_rope_theta=[0, 500.0, 100.0]),
    # Every fourth layer has no window, and all turn alike.
    "granitemoe_swa_stacked": GraniteMoeSWAConfig(
        **small(num_hidden_layers=2, tie_word_embeddings=True), **GRANITE, intermediate_size=6,
        num_local_experts=3, num_experts_per_tok=1, attention_bias=True, sliding_window=5),
    # transformers clears the row of the padding token while loading, and with it a tied head's.
    "youtu": YoutuConfig(**small(pad_token_id=None) | LATENT, intermediate_size=30, tie_word_embeddings=True),
}


def randomise(model, generator):
    """And what the choice of experts is corrected by, large enough that it decides."""
    expert_cases.randomise(model, generator)
    corrections = [*model.named_parameters(), *model.named_buffers()]
    for name, values in corrections:
        if name.endswith("e_score_correction_bias"):
            spread = 0.1 if "moe_statics" in name else 0.3
            with torch.no_grad():
                values.copy_(spread * torch.randn(values.shape, generator=generator))
