"""More of the tiny checkpoints of tests/golden/models, for make_model_goldens.py: families with
ALiBi, cut-off q, k and v, fused tensors of several layouts, biases at the logits; and models of
text and images, of which the text part runs. Sizes are odd on purpose: heads of 9 and 20, three KV
heads, a vocabulary of 99."""
import torch
from transformers import (BloomConfig, FalconConfig, Gemma2Config, Gemma3Config, Gemma3TextConfig, LlavaConfig,
                          MptConfig, NemotronConfig, OlmoConfig, PhiConfig, Qwen2VLConfig)

from cases.family_cases import PLAIN, YARN, small

ENDS = dict(vocab_size=99, bos_token_id=1, eos_token_id=2, pad_token_id=0)
VISION = dict(hidden_size=16, intermediate_size=24, num_hidden_layers=1, num_attention_heads=2,
              image_size=16, patch_size=8)
FALCON = dict(**ENDS, num_hidden_layers=2, max_position_embeddings=128, rope_parameters=PLAIN)

CASES = {
    "mpt": MptConfig(**ENDS, d_model=27, n_heads=3, n_layers=3, max_seq_len=64,
                     attn_config=dict(clip_qkv=0.8)),
    # transformers overlooks the first two.
    "mpt_scaled": MptConfig(**ENDS, d_model=40, n_heads=4, n_layers=2, max_seq_len=64,
                            tie_word_embeddings=False,
                            attn_config=dict(alibi=False, alibi_bias_max=16, softmax_scale=0.5)),
    "bloom": BloomConfig(**ENDS, hidden_size=45, n_head=5, n_layer=3),
    "falcon": FalconConfig(**FALCON, hidden_size=36, num_attention_heads=3),
    "falcon_grouped": FalconConfig(**FALCON, hidden_size=48, num_attention_heads=6, num_kv_heads=3,
                                   new_decoder_architecture=True, bias=True, ffn_hidden_size=70),
    "falcon_one_norm": FalconConfig(**FALCON, hidden_size=32, num_attention_heads=4, num_kv_heads=2,
                                    new_decoder_architecture=True, num_ln_in_parallel_attn=1,
                                    activation="relu", tie_word_embeddings=False),
    "falcon_serial": FalconConfig(**FALCON, hidden_size=30, num_attention_heads=5,
                                  multi_query=False, parallel_attn=False),
    "olmo": OlmoConfig(**small(), clip_qkv=0.9, rope_parameters=PLAIN),
    "olmo_biases": OlmoConfig(**small(), attention_bias=True, rope_parameters=YARN),
    "phi": PhiConfig(**small(num_attention_heads=3, num_key_value_heads=1),
                     rope_parameters={**PLAIN, "partial_rotary_factor": 0.5}),
    "phi_norms": PhiConfig(**small(), qk_layernorm=True, hidden_act="relu",
                           rope_parameters={**PLAIN, "partial_rotary_factor": 0.75}),
    "nemotron": NemotronConfig(**small(head_dim=20),
                               rope_parameters={**PLAIN, "partial_rotary_factor": 0.5}),
    "nemotron_biases": NemotronConfig(**small(), attention_bias=True, mlp_bias=True,
                                      tie_word_embeddings=True, hidden_act="gelu",
                                      rope_parameters={**PLAIN, "partial_rotary_factor": 1.0}),
    # What files of llama.cpp's converter can say: a scale that follows from the heads, every sixth
    # layer without a window.
    "gemma2_plain": Gemma2Config(**small(head_dim=12, num_hidden_layers=2), sliding_window=7,
                                 query_pre_attn_scalar=12),
    "gemma3_deep": Gemma3TextConfig(
        **small(hidden_size=24, intermediate_size=36, num_hidden_layers=7, head_dim=12,
                num_attention_heads=3, num_key_value_heads=1),
        sliding_window=9, query_pre_attn_scalar=12,
        rope_parameters={"full_attention": dict(rope_type="linear", factor=8.0, rope_theta=1e6),
                         "sliding_attention": dict(rope_type="default", rope_theta=1e4)}),
    "gemma3_vision": Gemma3Config(
        text_config=Gemma3TextConfig(
            **small(head_dim=12, num_hidden_layers=2), sliding_window=7, query_pre_attn_scalar=24,
            layer_types=["sliding_attention", "full_attention"]).to_dict(),
        vision_config=dict(model_type="siglip_vision_model", **VISION), mm_tokens_per_image=4,
        image_token_index=98, boi_token_index=97, eoi_token_index=96, eos_token_id=2),
    "llava": LlavaConfig(
        text_config=dict(model_type="mistral", **small(num_hidden_layers=2), head_dim=12,
                         sliding_window=9, rope_parameters=PLAIN),
        vision_config=dict(model_type="clip_vision_model", **VISION), image_token_index=98),
    "qwen2_vl": Qwen2VLConfig(
        text_config=dict(model_type="qwen2_vl_text", **small(num_hidden_layers=2),
                         rope_parameters=dict(rope_type="default", rope_theta=1e4,
                                              mrope_section=[2, 1, 1])),
        vision_config=dict(depth=1, embed_dim=16, hidden_size=48, num_heads=2, mlp_ratio=2,
                           patch_size=8, spatial_merge_size=1),
        image_token_id=98, video_token_id=97, vision_start_token_id=96, vision_end_token_id=95),
}


def randomise(model, generator):
    """Random values everywhere, scaled so that activations and logits keep a real range."""
    gemma = model.config.model_type.startswith("gemma")
    less_one = gemma or model.config.model_type == "nemotron"
    tied = model.config.tie_word_embeddings
    for name, parameter in model.named_parameters():
        values = torch.randn(parameter.shape, generator=generator)
        if name.endswith(".bias"):
            values *= 0.4
        elif "norm" in name or ".ln_" in name:
            values = (-0.5 if less_one else 0.5) + torch.rand(parameter.shape, generator=generator)
        elif "embed" in name or name.endswith("wte.weight"):
            values *= 0.6 if tied else 1.0
            if gemma:
                values *= 0.3
        elif parameter.ndim > 1:
            values *= (3.0 if "lm_head" in name else 1.3) / parameter.shape[1] ** 0.5
        with torch.no_grad():
            parameter.copy_(values)
