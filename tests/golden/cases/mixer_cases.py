"""The tiny checkpoints of tests/golden/models whose layers mix kinds of mixers, for
make_model_goldens.py: Kimi Linear, Ling 3, OLMo Hybrid, Bamba, Nemotron-H, Falcon-H1, Jamba and Zamba 2; and xLSTM.
Sizes are odd on purpose."""
import torch
from transformers import (BailingHybridConfig, BambaConfig, FalconH1Config, JambaConfig, KimiLinearConfig, NemotronHConfig,
                          OlmoHybridConfig, Zamba2Config, xLSTMConfig)

TOKENS = 16  # short, so that the folders are small
ENDS = dict(vocab_size=61, bos_token_id=1, eos_token_id=2, pad_token_id=0)
SMALL = dict(**ENDS, hidden_size=36, max_position_embeddings=128)
LINEAR, FULL, MLP, MOE, HYBRID = "linear_attention", "full_attention", "mlp", "moe", "hybrid"
KIMI = dict(**SMALL, intermediate_size=50, moe_intermediate_size=14, num_attention_heads=3,
            num_key_value_heads=3, kv_lora_rank=12, qk_rope_head_dim=6, qk_nope_head_dim=8,
            v_head_dim=10, num_experts_per_tok=2, rms_norm_eps=1e-3)
LING = {**KIMI, "n_group": 1, "topk_group": 1}
NEMOTRON = dict(**SMALL, intermediate_size=50, num_attention_heads=6, num_key_value_heads=2,
                head_dim=8, ssm_state_size=10, mamba_num_heads=6, mamba_head_dim=7, n_groups=3,
                moe_intermediate_size=12, moe_shared_expert_intermediate_size=17)
FALCON = dict(intermediate_size=50, num_hidden_layers=2, num_attention_heads=3,
              num_key_value_heads=1, mamba_d_state=5,
              rope_parameters=dict(rope_type="default", rope_theta=1000.0))
ZAMBA = dict(intermediate_size=22, num_attention_heads=4, n_mamba_heads=6, mamba_d_state=5,
             adapter_rank=3)
JAMBA = dict(intermediate_size=22, num_attention_heads=3, num_key_value_heads=1, mamba_d_state=6,
             use_mamba_kernels=False)

# Caches of transformers' have widths that are rounded up, unlike the model's.
XLSTM = dict(**ENDS, hidden_size=36, use_cache=False, norm_eps=1e-3)

CASES = {
    # Every fourth layer but the first attends where nothing says which.
    "kimi_linear": KimiLinearConfig(**KIMI, num_local_experts=4, linear_head_dim=6,
                                    linear_num_heads=3, num_hidden_layers=5),
    "kimi_linear_ranks": KimiLinearConfig(
        **KIMI, num_local_experts=6, n_group=3, topk_group=2, norm_topk_prob=False,
        routed_scaling_factor=1.5, n_shared_experts=2, q_lora_rank=9, attention_bias=True,
        linear_head_dim=9, linear_num_heads=2, linear_conv_kernel_dim=3, num_hidden_layers=3,
        layer_types=[FULL, LINEAR, FULL], mlp_layer_types=["sparse", "dense", "sparse"]),
    "bailing_hybrid": BailingHybridConfig(
        **LING, num_experts=4, num_hidden_layers=3, layer_group_size=2, first_k_dense_replace=2,
        head_dim=6, kda_lower_bound=-2.5,
        rope_parameters=dict(rope_type="yarn", rope_theta=10000.0, factor=4.0, mscale=1.0,
                             mscale_all_dim=1.0, original_max_position_embeddings=32)),
    "bailing_hybrid_plain": BailingHybridConfig(
        **{**LING, "n_group": 3, "topk_group": 2}, num_experts=6, num_hidden_layers=2, q_lora_rank=9,
        attention_bias=True, head_dim=9, short_conv_kernel_size=3, kda_safe_gate=False,
        norm_topk_prob=False, routed_scaling_factor=1.5, first_k_dense_replace=0,
        layer_types=[FULL, LINEAR]),
    "olmo_hybrid": OlmoHybridConfig(**SMALL, intermediate_size=50, num_hidden_layers=4,
                                    num_attention_heads=3,
                                    rope_parameters=dict(rope_type="default", rope_theta=1000.0)),
    # The published models turn nothing.
    "olmo_hybrid_still": OlmoHybridConfig(
        **SMALL, intermediate_size=50, num_hidden_layers=3, num_attention_heads=6,
        num_key_value_heads=2, rope_parameters=dict(rope_type="default", rope_theta=None),
        attention_bias=True, linear_num_key_heads=2, linear_num_value_heads=4,
        linear_key_head_dim=5, linear_value_head_dim=7, linear_conv_kernel_dim=3,
        linear_allow_neg_eigval=False, layer_types=[FULL, LINEAR, FULL],
        tie_word_embeddings=True),
    "bamba": BambaConfig(
        **SMALL, intermediate_size=50, num_hidden_layers=3, num_attention_heads=3,
        num_key_value_heads=1, mamba_n_heads=6, mamba_n_groups=2, mamba_d_state=5,
        mamba_d_conv=3, attention_bias=True, mlp_bias=True, mamba_proj_bias=True,
        attn_layer_indices=[1], rope_parameters=dict(rope_type="default", rope_theta=1000.0)),
    "nemotron_h": NemotronHConfig(
        **NEMOTRON, n_routed_experts=5, num_experts_per_tok=2, routed_scaling_factor=2.5,
        layers_block_type=[LINEAR, MLP, LINEAR, MOE, FULL, MOE], conv_kernel=3,
        time_step_min=0.05),
    "nemotron_h_latent": NemotronHConfig(
        **NEMOTRON, n_routed_experts=6, num_experts_per_tok=2, moe_latent_size=20, n_group=3,
        topk_group=2, norm_topk_prob=False, use_bias=True, use_conv_bias=False,
        tie_word_embeddings=True,
        layers_block_type=[MOE, FULL, LINEAR, MLP, MLP]),
    # Every factor is another.
    "falcon_h1": FalconH1Config(
        **SMALL, **FALCON, head_dim=10, mamba_d_ssm=42, mamba_n_heads=6, mamba_n_groups=2,
        mamba_conv_bias=True, mlp_bias=True, time_step_limit=(0.1, 2.0),
        lm_head_multiplier=0.7, embedding_multiplier=1.4, mlp_multipliers=[0.8, 1.3],
        key_multiplier=0.6, attention_out_multiplier=0.9, attention_in_multiplier=1.2,
        ssm_multipliers=[0.7, 1.1, 1.3, 0.8, 1.5], ssm_in_multiplier=0.85, ssm_out_multiplier=1.15),
    "falcon_h1_norms": FalconH1Config(
        **SMALL, **FALCON, mamba_d_ssm=None, mamba_n_heads=4, mamba_n_groups=2, mamba_d_conv=3,
        mamba_conv_bias=False, mamba_rms_norm=True, attention_bias=True, mamba_proj_bias=True,
        projectors_bias=True, tie_word_embeddings=True, attention_out_multiplier=0.75,
        key_multiplier=0.5),
    # Factors that are not on the biases of the products behind them; biases of one projection alone.
    "falcon_h1_biases": FalconH1Config(
        **SMALL, **FALCON, mamba_d_ssm=30, mamba_n_heads=3, mamba_conv_bias=True,
        attention_bias=True, mamba_proj_bias=True, attention_in_multiplier=1.3,
        attention_out_multiplier=0.8, key_multiplier=0.6, ssm_in_multiplier=0.7,
        ssm_out_multiplier=1.2, ssm_multipliers=[0.7, 1.1, 1.3, 0.8, 1.5]),
    "falcon_h1_norm_after": FalconH1Config(
        **SMALL, **FALCON, mamba_d_ssm=30, mamba_n_heads=3, mamba_rms_norm=True,
        mamba_norm_before_gate=False),
    "jamba": JambaConfig(
        **SMALL, **JAMBA, num_hidden_layers=5, num_experts=4, num_experts_per_tok=2,
        attn_layer_period=3, attn_layer_offset=1, expert_layer_period=2, expert_layer_offset=1,
        mamba_dt_rank=5),
    "jamba_dense": JambaConfig(
        **SMALL, **JAMBA, num_hidden_layers=3, num_experts=1, num_experts_per_tok=1,
        attn_layer_period=2, attn_layer_offset=0, expert_layer_period=1, expert_layer_offset=0,
        mamba_proj_bias=True, mamba_conv_bias=False, mamba_d_conv=3, tie_word_embeddings=True),
    # One block, whose q, k and v turn and have parts of low rank, before the last layer as well.
    "zamba2": Zamba2Config(
        **SMALL, **ZAMBA, num_hidden_layers=5, layers_block_type=[LINEAR, HYBRID, LINEAR, HYBRID, HYBRID],
        use_mem_rope=True, use_shared_attention_adapter=True, time_step_min=0.05,
        rope_parameters=dict(rope_type="default", rope_theta=1000.0)),
    "zamba2_plain": Zamba2Config(
        **SMALL, **{**ZAMBA, "num_attention_heads": 6}, num_key_value_heads=2, num_hidden_layers=3,
        layers_block_type=[HYBRID, LINEAR, LINEAR], mamba_ngroups=2, mamba_d_conv=3,
        add_bias_linear=True, hidden_act="silu", tie_word_embeddings=False),
    "zamba2_blocks": Zamba2Config(
        **SMALL, **ZAMBA, num_hidden_layers=6, num_mem_blocks=2, use_shared_attention_adapter=True,
        layers_block_type=[HYBRID, HYBRID, LINEAR, HYBRID, HYBRID, HYBRID], hidden_act="gelu_pytorch_tanh"),
    # Two chunks and then rows, as transformers computes them.
    "xlstm": xLSTMConfig(**XLSTM, num_hidden_layers=3, num_heads=3, chunk_size=7),
    "xlstm_wide": xLSTMConfig(
        **XLSTM, num_hidden_layers=2, num_heads=2, qk_dim_factor=0.78, v_dim_factor=1.5, eps=0.05,
        ffn_proj_factor=1.4, ffn_round_up_to_multiple_of=7, gate_soft_cap=0.9,
        output_logit_soft_cap=4.0),
}


def randomise(model, generator):
    """Random values everywhere. What decays does so within a few tokens, or within hundreds."""
    tied = model.config.tie_word_embeddings
    with torch.no_grad():
        for name, buffer in model.named_buffers():
            if name.endswith("e_score_correction_bias"):
                buffer.copy_(0.3 * torch.randn(buffer.shape, generator=generator))
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
        elif "norm" in name or name.endswith(".D"):
            values = 0.5 + torch.rand(parameter.shape, generator=generator)
        elif "embed" in name:
            values *= 0.6 if tied else 1.0
        elif parameter.ndim > 1:
            wide = "lm_head" in name or name.endswith(".gate.weight")
            values *= (3.0 if wide else 1.3) / parameter.shape[-1] ** 0.5
        with torch.no_grad():
            parameter.copy_(values)
