"""The tiny checkpoints of tests/golden/models with recurrent layers, for make_model_goldens.py.
Sizes are odd on purpose: a state of 5, a convolution of 3, three groups, a vocabulary of 99."""
import torch
from transformers import GraniteMoeHybridConfig, Mamba2Config, MambaConfig

ENDS = dict(vocab_size=99, bos_token_id=1, eos_token_id=2, pad_token_id=0)
PLAIN = dict(rope_type="default", rope_theta=10000.0)
GRANITE = dict(**ENDS, hidden_size=36, num_hidden_layers=4, num_attention_heads=6,
               num_key_value_heads=3, max_position_embeddings=128, num_local_experts=0,
               num_experts_per_tok=0, shared_intermediate_size=54, intermediate_size=54,
               embedding_multiplier=12.0, attention_multiplier=0.3, residual_multiplier=0.22,
               logits_scaling=4.0)

CASES = {
    "mamba": MambaConfig(**ENDS, hidden_size=36, num_hidden_layers=3, state_size=5),
    "mamba_biases": MambaConfig(**ENDS, hidden_size=24, num_hidden_layers=2, state_size=16,
                                expand=3, conv_kernel=3, time_step_rank=7, use_bias=True,
                                use_conv_bias=False, tie_word_embeddings=False),
    "mamba2": Mamba2Config(**ENDS, hidden_size=40, num_hidden_layers=3, num_heads=5, head_dim=16,
                           n_groups=1, state_size=12, chunk_size=16),
    "mamba2_groups": Mamba2Config(**ENDS, hidden_size=24, num_hidden_layers=3, num_heads=6,
                                  head_dim=8, n_groups=3, state_size=16, conv_kernel=3,
                                  use_bias=True, use_conv_bias=False, chunk_size=8,
                                  time_step_limit=(0.1, 0.8), tie_word_embeddings=True),
    "granite4": GraniteMoeHybridConfig(
        **GRANITE, mamba_n_heads=4, mamba_n_groups=2, mamba_d_state=8, mamba_chunk_size=16,
        layer_types=["linear_attention", "linear_attention", "full_attention",
                     "linear_attention"]),
    "granite4_rope": GraniteMoeHybridConfig(
        **GRANITE, mamba_n_heads=3, mamba_n_groups=1, mamba_d_state=5, mamba_d_conv=3,
        mamba_expand=1, mamba_chunk_size=16, mamba_conv_bias=False, mamba_proj_bias=True,
        attention_bias=True, position_embedding_type="rope", rope_parameters=PLAIN,
        tie_word_embeddings=True,
        layer_types=["full_attention", "linear_attention", "linear_attention",
                     "full_attention"]),
    "granite4_experts": GraniteMoeHybridConfig(
        **{**GRANITE, "num_local_experts": 5, "num_experts_per_tok": 2, "intermediate_size": 22,
           "num_hidden_layers": 3},
        mamba_n_heads=4, mamba_n_groups=2, mamba_d_state=8, mamba_chunk_size=16,
        layer_types=["linear_attention", "full_attention", "linear_attention"]),
    "granite4_stacked": GraniteMoeHybridConfig(
        **{**GRANITE, "num_local_experts": 3, "num_experts_per_tok": 2, "intermediate_size": 14,
           "num_hidden_layers": 2},
        mamba_n_heads=4, mamba_n_groups=2, mamba_d_state=8, mamba_chunk_size=16,
        layer_types=["full_attention", "linear_attention"]),
}


def randomise(model, generator):
    """Random values everywhere. What decays does so within a few tokens, or within hundreds."""
    for name, parameter in model.named_parameters():
        values = torch.randn(parameter.shape, generator=generator)
        if name.endswith("A_log"):
            values = torch.log(0.05 + 4.0 * torch.rand(parameter.shape, generator=generator))
        elif name.endswith(("dt_bias", "dt_proj.bias")):
            values = values - 1.0
        elif name.endswith(".D"):
            values = 1.0 + 0.5 * values
        elif "conv1d.weight" in name:
            values *= 0.7
        elif name.endswith(".bias"):
            values *= 0.4
        elif "norm" in name:
            values = 0.5 + torch.rand(parameter.shape, generator=generator)
        elif "embed" in name:
            values *= 0.6 if model.config.tie_word_embeddings else 1.0
        else:
            gain = 3.0 if "head" in name or "router" in name else 1.3
            values *= gain / parameter.shape[-1 if values.dim() == 3 else 1] ** 0.5
        with torch.no_grad():
            parameter.copy_(values)
