"""The checkpoints of latent_cases.py as GGUF files, the way llama.cpp's converter lays them out, for
make_gguf_goldens.py: since May 2025 with K and V of kv_b_proj apart and K turned, before that as it
is in the folder."""
import gguf
import numpy as np

from layouts import expert_gguf

NAMES = {
    "model.embed_tokens": "token_embd", "model.norm": "output_norm", "lm_head": "output",
    "input_layernorm": "attn_norm", "post_attention_layernorm": "ffn_norm",
    "self_attn.q_proj": "attn_q", "self_attn.q_a_proj": "attn_q_a",
    "self_attn.q_a_layernorm": "attn_q_a_norm", "self_attn.q_b_proj": "attn_q_b",
    "self_attn.kv_a_proj_with_mqa": "attn_kv_a_mqa", "self_attn.kv_a_layernorm": "attn_kv_a_norm",
    "self_attn.kv_b_proj": "attn_kv_b", "self_attn.o_proj": "attn_output",
    "mlp.gate_proj": "ffn_gate", "mlp.up_proj": "ffn_up", "mlp.down_proj": "ffn_down",
    "mlp.gate": "ffn_gate_inp", "mlp.shared_experts.gate_proj": "ffn_gate_shexp",
    "mlp.shared_experts.up_proj": "ffn_up_shexp",
    "mlp.shared_experts.down_proj": "ffn_down_shexp",
}
# Case, and whether its file is an old one.
FILES = (("deepseek_v2", False), ("deepseek_v3", True), ("deepseek_v2_experts", False),
         ("deepseek_v2_groups", False), ("deepseek_v3_experts", False))


def stored_name(name):
    stem, kind = name.rsplit(".", 1)
    if stem in NAMES:
        return f"{NAMES[stem]}.{kind}"
    _, _, layer, rest = stem.split(".", 3)
    if kind == "e_score_correction_bias":
        return f"blk.{layer}.exp_probs_b.bias"
    return f"blk.{layer}.{NAMES[rest]}.{kind}"


def add_config(writer, config, old):
    head = config["qk_nope_head_dim"] + config["qk_rope_head_dim"]
    row = config["kv_lora_rank"] + config["qk_rope_head_dim"]
    writer.add_context_length(config["max_position_embeddings"])
    writer.add_embedding_length(config["hidden_size"])
    writer.add_block_count(config["num_hidden_layers"])
    writer.add_feed_forward_length(config["intermediate_size"])
    writer.add_head_count(config["num_attention_heads"])
    writer.add_head_count_kv(config["num_attention_heads"] if old else 1)
    writer.add_key_length(head if old else row)
    writer.add_value_length(config["v_head_dim"] if old else config["kv_lora_rank"])
    if not old:
        writer.add_key_length_mla(head)
        writer.add_value_length_mla(config["v_head_dim"])
    writer.add_layer_norm_rms_eps(config["rms_norm_eps"])
    writer.add_leading_dense_block_count(config["first_k_dense_replace"])
    if config["q_lora_rank"] is not None:
        writer.add_q_lora_rank(config["q_lora_rank"])
    writer.add_kv_lora_rank(config["kv_lora_rank"])
    rope = config["rope_parameters"]
    writer.add_rope_dimension_count(config["qk_rope_head_dim"])
    writer.add_rope_freq_base(rope["rope_theta"])
    if rope["rope_type"] == "yarn":
        writer.add_rope_scaling_type(gguf.RopeScalingType.YARN)
        writer.add_rope_scaling_factor(rope["factor"])
        writer.add_rope_scaling_orig_ctx_len(rope["original_max_position_embeddings"])
        writer.add_rope_scaling_yarn_log_mul(0.1 * rope["mscale_all_dim"])


def add_expert_config(writer, config):
    if config["first_k_dense_replace"] == config["num_hidden_layers"]:
        return
    v3 = config["model_type"] == "deepseek_v3"
    writer.add_expert_count(config["n_routed_experts"])
    writer.add_expert_used_count(config["num_experts_per_tok"])
    writer.add_expert_shared_count(config["n_shared_experts"])
    writer.add_expert_feed_forward_length(config["moe_intermediate_size"])
    writer.add_expert_weights_scale(config["routed_scaling_factor"])
    writer.add_expert_weights_norm(bool(config["norm_topk_prob"]))
    writer.add_expert_gating_func(gguf.ExpertGatingFuncType.SIGMOID if v3
                                  else gguf.ExpertGatingFuncType.SOFTMAX)
    if config["n_group"] is not None:
        writer.add_expert_group_count(config["n_group"])
        writer.add_expert_group_used_count(config["topk_group"])


def write(out, config, tensors, old):
    writer = gguf.GGUFWriter(str(out), "deepseek2")
    add_config(writer, config, old)
    add_expert_config(writer, config)
    nope, v = config["qk_nope_head_dim"], config["v_head_dim"]
    for name, values in expert_gguf.add_experts(writer, "deepseek", tensors):
        stored = stored_name(name)
        if "attn_kv_b" not in stored or old:
            writer.add_tensor(stored, np.ascontiguousarray(values))
            continue
        heads = values.reshape(config["num_attention_heads"], nope + v, -1)
        k = heads[:, :nope].transpose(0, 2, 1)
        writer.add_tensor(stored.replace("kv_b", "k_b"), np.ascontiguousarray(k))
        writer.add_tensor(stored.replace("kv_b", "v_b"), np.ascontiguousarray(heads[:, nope:]))
    return writer
