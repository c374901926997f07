"""The tiny checkpoints of tests/golden/models of Gemma 3n and BitNet, for make_model_goldens.py. Sizes
are odd on purpose: heads of 6, a window of 7, a vocabulary of 83 of which 71 have per-layer
embeddings of their own."""
import torch
from transformers import BitNetConfig, Gemma3nTextConfig

SLIDING, FULL = "sliding_attention", "full_attention"
DENSE = dict(vocab_size=83, bos_token_id=1, eos_token_id=2, pad_token_id=0, num_attention_heads=4,
             max_position_embeddings=64, rms_norm_eps=1e-5)
SMALL = dict(DENSE, hidden_size=28, num_key_value_heads=2, head_dim=6)
STREAMS = dict(hidden_size_per_layer_input=10, vocab_size_per_layer_input=71, sliding_window=7)


def ropes(**more):
    return {FULL: dict(rope_type="default", rope_theta=500.0, **more),
            SLIDING: dict(rope_type="default", rope_theta=100.0)}


CASES = {
    # As E4B: K and V of earlier layers of either kind, gates cut in some layers.
    "gemma3n_text": Gemma3nTextConfig(
        **SMALL, **STREAMS, num_hidden_layers=5, intermediate_size=22,
        layer_types=[SLIDING, FULL, SLIDING, SLIDING, FULL], num_kv_shared_layers=2, laurel_rank=5,
        altup_num_inputs=3, activation_sparsity_pattern=[0.95, 0.5, 0.3, 0.0, 0.7],
        final_logit_softcapping=8.0, rope_parameters=ropes()),
    # Layers compute another stream than the first, and what per-layer embeddings read has no scale.
    "gemma3n_active": Gemma3nTextConfig(
        **SMALL, **STREAMS, num_hidden_layers=3, intermediate_size=[22, 18, 26], num_kv_shared_layers=0,
        layer_types=[FULL, SLIDING, FULL], laurel_rank=3, altup_num_inputs=4, altup_active_idx=2,
        altup_correct_scale=False, activation_sparsity_pattern=[0.0, 0.8, 0.0],
        attention_bias=True, tie_word_embeddings=False, hidden_activation="silu",
        final_logit_softcapping=6.0,
        rope_parameters={FULL: dict(rope_type="linear", factor=2.0, rope_theta=500.0),
                         SLIDING: dict(rope_type="default", rope_theta=100.0)}),
    "bitnet": BitNetConfig(
        **DENSE, hidden_size=24, num_key_value_heads=2, intermediate_size=22, num_hidden_layers=2,
        attention_bias=True, rope_parameters=dict(rope_type="default", rope_theta=500.0)),
    "bitnet_tied": BitNetConfig(
        **DENSE, hidden_size=40, num_key_value_heads=4, intermediate_size=26, num_hidden_layers=2,
        tie_word_embeddings=True, hidden_act="silu",
        rope_parameters=dict(rope_type="linear", factor=2.0, rope_theta=500.0)),
}


def randomise(model, generator):
    """Random values everywhere."""
    tied = model.config.tie_word_embeddings
    for name, parameter in model.named_parameters():
        values = torch.randn(parameter.shape, generator=generator)
        if "norm" in name or name.endswith("correct_output_scale"):
            values = 0.5 + torch.rand(parameter.shape, generator=generator)
        elif name.endswith(".bias"):
            values *= 0.4
        elif "_coefs" in name:
            values *= 0.3
        elif "embed_tokens" in name:
            values *= 0.3 if tied else 0.6
        elif "modality_router" in name:
            values *= 9.0  # of a product that is divided by the stream's width
        elif parameter.ndim > 1:
            values *= (3.0 if "lm_head" in name else 1.3) / parameter.shape[-1] ** 0.5
        with torch.no_grad():
            parameter.copy_(values)
