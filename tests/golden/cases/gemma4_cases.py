"""The tiny checkpoints of tests/golden/models of Gemma 4, for make_model_goldens.py. Sizes are odd
on purpose: heads of 6 and of 10, a window of 7, a vocabulary of 83."""
import torch
from transformers import Gemma4Config, Gemma4TextConfig, Gemma4UnifiedTextConfig, Gemma4VisionConfig

SLIDING, FULL = "sliding_attention", "full_attention"
SMALL = dict(vocab_size=83, bos_token_id=1, eos_token_id=2, pad_token_id=0, hidden_size=28,
             intermediate_size=22, num_attention_heads=4, num_key_value_heads=2, head_dim=6,
             global_head_dim=10, max_position_embeddings=64, sliding_window=7, rms_norm_eps=1e-5)
INPUTS = dict(hidden_size_per_layer_input=10, vocab_size_per_layer_input=83)
PLAIN = dict(hidden_size_per_layer_input=0)
EXPERTS = dict(enable_moe_block=True, num_experts=5, top_k_experts=2, moe_intermediate_size=14)


def ropes(part, **more):
    return {FULL: dict(rope_type="proportional", rope_theta=500.0, partial_rotary_factor=part, **more),
            SLIDING: dict(rope_type="default", rope_theta=100.0)}


CASES = {
    # As E4B: per-layer embeddings, K and V of earlier layers of either kind, wider MLPs there.
    "gemma4_text": Gemma4TextConfig(
        **SMALL, **INPUTS, num_hidden_layers=5, layer_types=[SLIDING, FULL, SLIDING, SLIDING, FULL],
        num_kv_shared_layers=2, use_double_wide_mlp=True, final_logit_softcapping=8.0,
        rope_parameters=ropes(0.5)),
    # As 26B-A4B: experts next to the MLP, fewer KV heads without a window, V of K's product.
    "gemma4_text_experts": Gemma4TextConfig(
        **SMALL, **PLAIN, **EXPERTS, num_hidden_layers=3, layer_types=[SLIDING, FULL, FULL],
        attention_k_eq_v=True, num_global_key_value_heads=1, attention_bias=True,
        tie_word_embeddings=False, rope_parameters=ropes(0.7, factor=2.0)),
    # Whose last layer sees everything whatever is said, and all frequencies turn.
    "gemma4_unified": Gemma4UnifiedTextConfig(
        **SMALL, num_hidden_layers=3, layer_types=[FULL, SLIDING, SLIDING], attention_k_eq_v=True,
        num_global_key_value_heads=4, num_kv_shared_layers=1, rope_parameters=ropes(1.0)),
    # Tokens of images and sounds, which would be replaced, are none of the text.
    "gemma4_vision": Gemma4Config(
        text_config=Gemma4TextConfig(
            **SMALL, hidden_size_per_layer_input=8, vocab_size_per_layer_input=90,
            num_hidden_layers=2, hidden_activation="silu").to_dict(),
        vision_config=Gemma4VisionConfig(
            hidden_size=16, intermediate_size=20, num_hidden_layers=1, num_attention_heads=2,
            num_key_value_heads=2, head_dim=8, patch_size=4, position_embedding_size=9).to_dict(),
        audio_config=None, image_token_id=85, video_token_id=86, audio_token_id=87),
}


def randomise(model, generator):
    """Random values everywhere, buffers that are stored among them."""
    tied = model.config.get_text_config().tie_word_embeddings
    stored = {**dict(model.named_parameters()),
              **{name: value for name, value in model.named_buffers()
                 if name.endswith("layer_scalar")}}
    for name, parameter in stored.items():
        values = torch.randn(parameter.shape, generator=generator)
        if "norm" in name or name.endswith(("router.scale", "per_expert_scale", "layer_scalar")):
            values = 0.5 + torch.rand(parameter.shape, generator=generator)
        elif name.endswith(".bias"):
            values *= 0.4
        elif "embed_tokens" in name:
            values *= 0.3 if tied else 0.6
        elif parameter.ndim > 1:
            wide = "lm_head" in name or name.endswith("router.proj.weight")
            values *= (3.0 if wide else 1.3) / parameter.shape[-1] ** 0.5
        with torch.no_grad():
            parameter.copy_(values)
