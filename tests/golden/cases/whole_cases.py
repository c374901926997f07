"""The tiny checkpoints of tests/golden/models of models of text and images, of which the text part
runs, for make_model_goldens.py: those that no other file has with its text part. Sizes are odd on
purpose: heads of 10 and 14, three KV heads, a vocabulary of 97."""
import torch
from transformers import (AyaVisionConfig, Exaone4_5_Config, InternVLConfig, Lfm2VlConfig, Lfm3VlConfig,
                          Llama4Config, LlavaNextConfig, LlavaOnevisionConfig, MiniCPMV4_6Config,
                          Qwen2_5_VLConfig, Qwen3VLConfig, Qwen3VLMoeConfig, SmolVLMConfig)

ENDS = dict(vocab_size=97, bos_token_id=1, eos_token_id=2, pad_token_id=0)
TEXT = dict(**ENDS, hidden_size=44, intermediate_size=66, num_hidden_layers=2,
            num_attention_heads=6, num_key_value_heads=3, max_position_embeddings=128)
LIQUID = dict(**TEXT, norm_eps=1e-4, conv_L_cache=3)
VISION = dict(hidden_size=16, intermediate_size=24, num_hidden_layers=1, num_attention_heads=2)
QWEN_VISION = dict(depth=1, hidden_size=16, intermediate_size=24, num_heads=2, patch_size=8,
                   spatial_merge_size=1, out_hidden_size=44)
IMAGES = dict(image_token_id=96, video_token_id=95, vision_start_token_id=94, vision_end_token_id=93)
LLAMA4_VISION = dict(**{**VISION, "intermediate_size": 64}, image_size=16, patch_size=8, vision_output_dim=16,
                     projector_input_dim=16, projector_output_dim=16)

CASES = {
    "qwen3_vl": Qwen3VLConfig(
        text_config=dict(model_type="qwen3_vl_text", **TEXT, head_dim=10, attention_bias=True,
                         rope_parameters=dict(rope_type="default", rope_theta=5e3,
                                              mrope_section=[1, 2, 2], mrope_interleaved=True)),
        vision_config=dict(**QWEN_VISION, num_position_embeddings=16, deepstack_visual_indexes=[0]),
        tie_word_embeddings=True, **IMAGES),
    "qwen2_5_vl": Qwen2_5_VLConfig(
        text_config=dict(model_type="qwen2_5_vl_text",
                         **{**TEXT, "hidden_size": 60, "num_hidden_layers": 3},
                         use_sliding_window=True, sliding_window=7, max_window_layers=1,
                         rope_parameters=dict(rope_type="default", rope_theta=5e3,
                                              mrope_section=[1, 2, 2])),
        vision_config=dict(**{**QWEN_VISION, "out_hidden_size": 60}, window_size=16,
                           fullatt_block_indexes=[0]), **IMAGES),
    "llava_next": LlavaNextConfig(
        text_config=dict(model_type="mistral", **TEXT, head_dim=14, sliding_window=9,
                         rope_parameters=dict(rope_type="linear", factor=3.0, rope_theta=1e4)),
        vision_config=dict(model_type="clip_vision_model", **VISION, image_size=16, patch_size=8),
        image_token_index=96),
    "lfm2_vl": Lfm2VlConfig(
        text_config=dict(model_type="lfm2", **{**LIQUID, "hidden_size": 48}, block_multiple_of=10,
                         layer_types=["conv", "full_attention"]),
        vision_config=dict(model_type="siglip2_vision_model", **VISION, num_patches=16, patch_size=8),
        projector_hidden_size=24, tie_word_embeddings=False, image_token_id=96),
    "lfm3_vl": Lfm3VlConfig(
        text_config=dict(model_type="lfm3", **LIQUID, head_dim=14, sliding_window=7,
                         layer_types=["sliding_attention", "conv"]),
        vision_config=dict(**VISION, num_key_value_heads=1, patch_size=8, spatial_merge_size=1),
        projector_hidden_size=24, **IMAGES),
    "llama4_vision": Llama4Config(
        text_config=dict(model_type="llama4_text", **{**TEXT, "num_hidden_layers": 4}, head_dim=14,
                         intermediate_size_mlp=50, num_experts_per_tok=2, num_local_experts=5,
                         interleave_moe_layer_step=2, attention_chunk_size=11, floor_scale=8,
                         rope_parameters=dict(rope_type="default", rope_theta=5e3)),
        vision_config=LLAMA4_VISION, image_token_index=96, boi_token_index=95, eoi_token_index=94),
}

CASES |= {
    # A factor on logits that the whole's own head does not have.
    "aya_vision": AyaVisionConfig(
        text_config=dict(model_type="cohere2", **{**TEXT, "num_hidden_layers": 3}, head_dim=10,
                         sliding_window=7, logit_scale=0.3,
                         layer_types=["sliding_attention", "full_attention", "sliding_attention"]),
        vision_config=dict(model_type="siglip_vision_model", **VISION, image_size=16, patch_size=8),
        image_token_index=96),
    "exaone4_5": Exaone4_5_Config(
        text_config=dict(model_type="exaone4", **{**TEXT, "num_hidden_layers": 3}, head_dim=14,
                         sliding_window=7,
                         layer_types=["sliding_attention", "sliding_attention", "full_attention"]),
        vision_config=dict(**QWEN_VISION, num_key_value_heads=1, window_size=16,
                           fullatt_block_indexes=[0]),
        image_token_id=96, video_token_id=95),
    # Untied by the whole, whatever the text model says.
    "internvl": InternVLConfig(
        text_config=dict(model_type="qwen3", **TEXT, head_dim=14, attention_bias=True,
                         tie_word_embeddings=True),
        vision_config=dict(**VISION, image_size=[16, 16], patch_size=[8, 8]),
        tie_word_embeddings=False, image_token_id=96),
    "llava_onevision": LlavaOnevisionConfig(
        text_config=dict(model_type="qwen2", **{**TEXT, "hidden_size": 60}, tie_word_embeddings=True),
        vision_config=dict(model_type="siglip_vision_model", **VISION, image_size=16, patch_size=8),
        image_token_index=96, video_token_index=95),
    "minicpmv4_6": MiniCPMV4_6Config(
        text_config=dict(model_type="qwen3_5_text", **{**TEXT, "num_hidden_layers": 3}, head_dim=16,
                         linear_num_key_heads=3, linear_num_value_heads=6, linear_key_head_dim=10,
                         linear_value_head_dim=14, linear_conv_kernel_dim=3,
                         layer_types=["linear_attention", "full_attention", "linear_attention"]),
        vision_config=dict(**VISION, image_size=16, patch_size=8), image_token_id=96,
        video_token_id=95),
    # Factors are divided by their sum whatever the config says.
    "qwen3_vl_moe": Qwen3VLMoeConfig(
        text_config=dict(model_type="qwen3_vl_moe_text", **{**TEXT, "num_hidden_layers": 3},
                         head_dim=10, attention_bias=True, num_experts=5, num_experts_per_tok=3,
                         moe_intermediate_size=18, mlp_only_layers=[1], norm_topk_prob=False,
                         rope_parameters=dict(rope_type="default", rope_theta=5e3,
                                              mrope_section=[1, 2, 2], mrope_interleaved=True)),
        vision_config=dict(**QWEN_VISION, num_position_embeddings=16, deepstack_visual_indexes=[0]),
        **IMAGES),
    # Tensors of the text model under "model.text_model."
    "smolvlm": SmolVLMConfig(
        text_config=dict(model_type="llama", **{**TEXT, "hidden_size": 42}, head_dim=14,
                         rms_norm_eps=1e-4),
        vision_config=dict(**VISION, image_size=16, patch_size=8), scale_factor=1,
        image_token_id=96),
}


def randomise(model, generator):
    """Random values everywhere, scaled so that activations and logits keep a real range."""
    tied = model.config.tie_word_embeddings
    for name, parameter in model.named_parameters():
        values = torch.randn(parameter.shape, generator=generator)
        if name.endswith(".bias"):
            values *= 0.4
        elif "norm" in name:
            values = 0.5 + torch.rand(parameter.shape, generator=generator)
        elif "embed_tokens" in name:
            values *= 0.6 if tied else 1.0
        elif parameter.ndim > 1:
            stacked = parameter.ndim == 3 and "experts" in name  # [experts, columns, rows]
            values *= (3.0 if "lm_head" in name or "router" in name else 1.3)
            values /= parameter.shape[1 if stacked else -1] ** 0.5
        with torch.no_grad():
            parameter.copy_(values)
