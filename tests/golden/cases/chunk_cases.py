"""The tiny checkpoints of tests/golden/models of Llama 4, Step 3.7, MiniMax-01 and
LongCat, for make_model_goldens.py. Sizes are odd on purpose: chunks of 7 and 11, blocks of 8, widths that no
number of lanes divides."""
import torch
from safetensors.torch import load_file, save_file
from transformers import Llama4TextConfig, LongcatFlashConfig, MiniMaxConfig, Step3p7Config

TOKENS = 37
SLIDING, FULL, CHUNKED = "sliding_attention", "full_attention", "chunked_attention"
LINEAR = "linear_attention"
SMALL = dict(vocab_size=47, hidden_size=36, num_attention_heads=6, num_key_value_heads=3,
             max_position_embeddings=128, bos_token_id=1, eos_token_id=2, pad_token_id=None)
PLAIN = dict(rope_type="default", rope_theta=1000.0)
LLAMA3 = dict(rope_type="llama3", factor=4.0, low_freq_factor=1.0, high_freq_factor=4.0,
              original_max_position_embeddings=32, rope_theta=1000.0)
LATENT = dict(q_lora_rank=14, kv_lora_rank=20, qk_nope_head_dim=12, qk_rope_head_dim=8, head_dim=8,
              v_head_dim=10)
VISION = dict(hidden_size=8, num_hidden_layers=1, num_attention_heads=1, intermediate_size=8,
              image_size=28, patch_size=14, width=8, layers=1, heads=1)


def step(**more):
    text = dict({**SMALL, "pad_token_id": 46}, num_hidden_layers=4, head_dim=8, intermediate_size=30, sliding_window=7,
                moe_intermediate_size=10, share_expert_dim=14, n_routed_experts=5,
                num_experts_per_tok=2, **more)
    return Step3p7Config(text_config=text, vision_config=VISION)


CASES = {
    # As Scout: every fourth layer sees all and does not turn; q and k are normed after they turn.
    "llama4": Llama4TextConfig(
        **SMALL, num_hidden_layers=5, head_dim=8, intermediate_size=10, intermediate_size_mlp=26,
        num_local_experts=3, num_experts_per_tok=1, attention_chunk_size=11, floor_scale=4,
        attn_scale=0.3, rope_parameters=dict(LLAMA3)),
    # As Maverick: experts in every other layer, no norm of q and k; two experts a token, biases.
    "llama4_interleaved": Llama4TextConfig(
        **SMALL, num_hidden_layers=4, head_dim=20, intermediate_size=10, intermediate_size_mlp=26,
        num_local_experts=5, num_experts_per_tok=2, interleave_moe_layer_step=2,
        use_qk_norm=False, attention_chunk_size=7, no_rope_layers=[1, 0, 1, 1], attention_bias=True,
        tie_word_embeddings=True, floor_scale=8, rope_parameters=dict(PLAIN)),
    # With all that GGUF files do not say.
    "llama4_usual": Llama4TextConfig(
        **SMALL, num_hidden_layers=4, head_dim=8, intermediate_size=10, intermediate_size_mlp=14,
        num_local_experts=3, num_experts_per_tok=1, interleave_moe_layer_step=2,
        rope_parameters=dict(PLAIN)),
    # Neither chunks nor a growing q.
    "llama4_whole": Llama4TextConfig(
        **SMALL, num_hidden_layers=2, head_dim=6, intermediate_size=14, intermediate_size_mlp=22,
        num_local_experts=3, num_experts_per_tok=3, moe_layers=[0], attention_chunk_size=None,
        no_rope_layer_interval=2, attn_temperature_tuning=False, rope_parameters=dict(PLAIN)),
    # The first layer is dense, and the last two are clamped.
    "step3p7": step(
        layer_types=[FULL, SLIDING, SLIDING, FULL], num_sliding_attention_heads=9,
        mlp_layer_types=["dense", "sparse", "sparse", "sparse"], moe_router_scaling_factor=1.7,
        swiglu_limits=[None, 0.0, 0.6, 0.4], swiglu_limits_shared=[0.5, None, 0.3, 0.0],
        rope_theta=[1000.0, 100.0, 100.0, 1000.0], partial_rotary_factors=[0.5, 1.0, 1.0, 0.5]),
    "step3p7_stacked": step(
        layer_types=[SLIDING, FULL, SLIDING, FULL], num_sliding_attention_heads=3,
        mlp_layer_types=["sparse", "dense", "sparse", "sparse"], attention_bias=True,
        mlp_bias=False, query_pre_attn_scalar=20, tie_word_embeddings=False,
        rope_parameters={FULL: dict(LLAMA3), SLIDING: dict(PLAIN)}),
    "minimax": MiniMaxConfig(
        **SMALL, num_hidden_layers=3, head_dim=10, intermediate_size=14, num_local_experts=3,
        num_experts_per_tok=2, layer_types=[LINEAR, FULL, LINEAR], block_size=8,
        full_attn_alpha_factor=1.5, full_attn_beta_factor=0.7, linear_attn_alpha_factor=1.3,
        linear_attn_beta_factor=0.8, mlp_alpha_factor=1.2, mlp_beta_factor=0.9,
        rope_parameters=dict(PLAIN)),
    "minimax_stacked": MiniMaxConfig(
        **{**SMALL, "vocab_size": 19, "hidden_size": 20, "num_attention_heads": 2,
           "num_key_value_heads": 1}, num_hidden_layers=2, intermediate_size=6,
        num_local_experts=3, num_experts_per_tok=1, block_size=5, tie_word_embeddings=True,
        rope_parameters=dict(PLAIN)),
    # Of seven experts three do nothing.
    "longcat": LongcatFlashConfig(
        **{**SMALL, "num_attention_heads": 3, "num_key_value_heads": 3}, num_layers=2,
        ffn_hidden_size=26, **LATENT, moe_topk=3, n_routed_experts=4, zero_expert_num=3,
        expert_ffn_hidden_size=10, routed_scaling_factor=1.7, rope_parameters=dict(PLAIN)),
    "longcat_stacked": LongcatFlashConfig(
        **{**SMALL, "num_attention_heads": 2, "num_key_value_heads": 2}, num_layers=1,
        ffn_hidden_size=22, **LATENT, moe_topk=2, n_routed_experts=3, zero_expert_num=1,
        expert_ffn_hidden_size=14, attention_bias=True, tie_word_embeddings=True,
        rope_parameters=dict(rope_type="yarn", rope_theta=1000.0, factor=4.0, mscale=1.0,
                             mscale_all_dim=0.7, original_max_position_embeddings=32)),
}
# transformers stores decays that follow from each other, which random numbers would not. The other
# case has none of them.
STORED = {"minimax_stacked"}
STRIPPED = {"minimax"}


def strip(folder):
    """Takes the decays out of a folder."""
    path = folder / "model.safetensors"
    tensors = {name: values for name, values in load_file(path).items()
               if not name.endswith(("_decay", ".slope_rate"))}
    save_file(tensors, path, metadata={"format": "pt"})


def share(model):
    """transformers has computed them anew."""


def randomise(model, generator):
    """Random values everywhere, and what the choice of experts is corrected by large enough that it
    decides. Norms that are stored less one stay near zero."""
    text = model.config.get_text_config()
    for name, values in [*model.named_parameters(), *model.named_buffers()]:
        drawn = torch.randn(values.shape, generator=generator)
        if name.endswith("e_score_correction_bias"):
            drawn *= 0.3
        elif "decay" in name or "slope_rate" in name or "inv_freq" in name:
            continue
        elif "norm" in name and text.model_type == "step3p5":
            drawn *= 0.3
        elif "norm" in name:
            drawn = 0.5 + torch.rand(values.shape, generator=generator)
        elif name.endswith("bias"):
            drawn *= 0.4
        elif "embed_tokens" in name:
            drawn *= 0.6 if text.tie_word_embeddings else 1.0
        elif values.ndim > 1:
            gain = 3.0 if "lm_head" in name or "router" in name or ".gate.weight" in name else 1.3
            turned = ".experts." in name and text.model_type == "llama4_text"
            drawn *= gain / values.shape[1 if turned else -1]**0.5
        with torch.no_grad():
            values.copy_(drawn)
