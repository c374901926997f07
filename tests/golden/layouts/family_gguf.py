"""The checkpoints of family_cases.py as GGUF files, the way llama.cpp's converter lays them out, for
make_gguf_goldens.py."""
import gguf
import numpy as np

from layouts import expert_gguf

COMMON = {
    "self_attn.dense": "attn_output", "mlp.fc1": "ffn_up", "mlp.fc2": "ffn_down",
    "model.final_layernorm": "output_norm",
    "model.embed_tokens": "token_embd", "model.norm": "output_norm", "lm_head": "output",
    "input_layernorm": "attn_norm", "post_attention_layernorm": "ffn_norm",
    "self_attn.q_proj": "attn_q", "self_attn.k_proj": "attn_k", "self_attn.v_proj": "attn_v",
    "self_attn.o_proj": "attn_output", "self_attn.q_norm": "attn_q_norm",
    "self_attn.k_norm": "attn_k_norm", "mlp.gate_proj": "ffn_gate", "mlp.up_proj": "ffn_up",
    "mlp.down_proj": "ffn_down", "self_attn.qkv_proj": "attn_qkv", "mlp.gate_up_proj": "ffn_up",
    "post_feedforward_layernorm": "post_ffw_norm", "mlp.c_fc": "ffn_up",
    "mlp.c_proj": "ffn_down",
}
BEHIND = {"post_attention_layernorm": "post_attention_norm",
          "pre_feedforward_layernorm": "ffn_norm"}
NAMES = {
    "gemma2": {**COMMON, **BEHIND}, "gemma3_text": {**COMMON, **BEHIND},
    "olmo2": {**COMMON, **BEHIND},
    "gpt2": {"transformer.wte": "token_embd", "transformer.wpe": "position_embd",
             "transformer.ln_f": "output_norm", "ln_1": "attn_norm", "attn.c_attn": "attn_qkv",
             "attn.c_proj": "attn_output", "ln_2": "ffn_norm", "mlp.c_fc": "ffn_up",
             "mlp.c_proj": "ffn_down"},
    "gpt_neox": {**COMMON, "gpt_neox.embed_in": "token_embd", "embed_out": "output",
                 "gpt_neox.final_layer_norm": "output_norm",
                 "attention.query_key_value": "attn_qkv", "attention.dense": "attn_output",
                 "mlp.dense_h_to_4h": "ffn_up", "mlp.dense_4h_to_h": "ffn_down"},
    **{family: {**COMMON, **names} for family, names in expert_gguf.NAMES.items()},
}
for _family, _norms in (("bloom", {}), ("falcon", {"ln_attn": "attn_norm_2",
                                                   "ln_mlp": "attn_norm"})):
    NAMES[_family] = {
        **COMMON, **_norms, "transformer.word_embeddings": "token_embd",
        "transformer.word_embeddings_layernorm": "token_embd_norm",
        "transformer.ln_f": "output_norm", "self_attention.query_key_value": "attn_qkv",
        "self_attention.dense": "attn_output", "mlp.dense_h_to_4h": "ffn_up",
        "mlp.dense_4h_to_h": "ffn_down"}
NAMES["mpt"] = {"transformer.wte": "token_embd", "transformer.norm_f": "output_norm",
                "lm_head": "output", "norm_1": "attn_norm", "attn.Wqkv": "attn_qkv",
                "attn.out_proj": "attn_output", "norm_2": "ffn_norm", "ffn.up_proj": "ffn_up",
                "ffn.down_proj": "ffn_down"}
ARCHITECTURES = {"phi": "phi2", "gemma3_text": "gemma3", "gpt_neox": "gptneox", "cohere": "command-r",
                 **expert_gguf.ARCHITECTURES}
LAYER_PREFIXES = ("model.layers.", "transformer.h.", "gpt_neox.layers.", "transformer.blocks.")
PAIRED = ("granite", "granitemoeshared", "smollm3", "olmo", "mixtral")
# Which files are made, of which case.
FILES = ("phi3_long", "olmo2", "granite", "smollm3", "starcoder2", "gpt2", "gpt_neox",
         "stablelm_parallel", "cohere", "gemma2_plain", "gemma3_deep", "mpt", "bloom",
         "falcon_grouped", "olmo", "phi", "nemotron", *expert_gguf.FILES)


def stored_name(family, name):
    names = NAMES.get(family, COMMON)
    stem, kind = name.rsplit(".", 1)
    for prefix in LAYER_PREFIXES:
        if stem.startswith(prefix):
            layer, rest = stem[len(prefix):].split(".", 1)
            return f"blk.{layer}.{names[rest]}.{kind}"
    return f"{names[stem]}.{kind}"


def in_pairs(values, heads):
    halves = values.reshape(heads, 2, -1, *values.shape[1:])
    return halves.swapaxes(1, 2).reshape(values.shape)


def arranged(family, config, name, values):
    heads = next(config[key] for key in ("num_attention_heads", "n_head", "n_heads")
                 if key in config)
    if family in PAIRED and ".q_proj." in name:
        return in_pairs(values, heads)
    if family in PAIRED and ".k_proj." in name:
        return in_pairs(values, config["num_key_value_heads"])
    if family == "gpt2" and values.ndim == 2 and ".c_" in name:
        return values.T
    if "query_key_value" in name:
        kv_heads = config["num_kv_heads"] if family == "falcon" else heads
        apart = values.reshape(kv_heads, heads // kv_heads + 2, -1, *values.shape[1:])
        whole = (apart.shape[2], *values.shape[1:])
        return np.concatenate([part.reshape(-1, *whole[1:])
                               for part in (apart[:, :-2], apart[:, -2], apart[:, -1])])
    if (family.startswith("gemma") or family == "nemotron") and name.endswith("norm.weight"):
        return values + 1
    return values


def add_config(writer, family, config):
    def first(*keys, default=None):
        return next((config[key] for key in keys if config.get(key) is not None), default)
    hidden = first("hidden_size", "n_embd", "d_model")
    heads = first("num_attention_heads", "n_head", "n_heads")
    head_dim = first("head_dim", default=hidden // heads)
    context = first("max_position_embeddings", "n_positions", "max_seq_len", "seq_length",
                    default=2048)
    writer.add_context_length(context)
    writer.add_embedding_length(hidden)
    writer.add_block_count(first("num_hidden_layers", "n_layer", "n_layers"))
    writer.add_feed_forward_length(
        first("intermediate_size", "n_inner", "ffn_hidden_size", default=4 * hidden))
    writer.add_head_count(heads)
    kv_heads = first("num_key_value_heads", "num_kv_heads")
    if kv_heads:
        writer.add_head_count_kv(kv_heads)
    if family.startswith("gemma") or family == "nemotron":
        writer.add_key_length(head_dim)
        writer.add_value_length(head_dim)
    if "rms_norm_eps" in config:
        writer.add_layer_norm_rms_eps(config["rms_norm_eps"])
    else:
        writer.add_layer_norm_eps(first("layer_norm_eps", "layer_norm_epsilon", "norm_epsilon",
                                        "norm_eps", default=1e-5))
    clip = first("clip_qkv", default=config.get("attn_config", {}).get("clip_qkv"))
    if clip:
        writer.add_clamp_kqv(clip)
    if family == "mpt":
        writer.add_max_alibi_bias(config["attn_config"]["alibi_bias_max"])
    for cap in ("attn_logit_softcapping", "final_logit_softcapping"):
        if config.get(cap):
            getattr(writer, f"add_{cap}")(config[cap])
    rope = config.get("rope_parameters") or {}
    if "full_attention" in rope:
        rope = rope["full_attention"]
        writer.add_rope_freq_base(rope["rope_theta"])
        if rope["rope_type"] == "linear":
            writer.add_rope_scaling_type(gguf.RopeScalingType.LINEAR)
            writer.add_rope_scaling_factor(rope["factor"])
    elif rope:
        writer.add_rope_freq_base(rope["rope_theta"])
        part = rope.get("partial_rotary_factor", 1.0)
        writer.add_rope_dimension_count(int(head_dim * part))
    if rope.get("rope_type") == "longrope":
        original = config["original_max_position_embeddings"]
        writer.add_rope_scaling_orig_ctx_len(original)
        writer.add_rope_scaling_attn_factors(
            float(np.sqrt(1 + np.log(context / original) / np.log(original))))
        for length in ("short", "long"):
            writer.add_tensor(f"rope_factors_{length}.weight",
                              np.array(rope[f"{length}_factor"], np.float32))
    if config.get("sliding_window"):
        writer.add_sliding_window(config["sliding_window"])
    if "use_parallel_residual" in config:
        writer.add_parallel_residual(config["use_parallel_residual"])
    expert_gguf.add_config(writer, family, config)
    if family.startswith("granite"):
        writer.add_attention_scale(config["attention_multiplier"])
        writer.add_embedding_scale(config["embedding_multiplier"])
        writer.add_residual_scale(config["residual_multiplier"])
        writer.add_logit_scale(config["logits_scaling"])
    if family == "cohere":
        writer.add_logit_scale(config["logit_scale"])


def add_tensors(writer, family, config, tensors):
    """StableLM's norms of single heads become one tensor."""
    by_head = {}
    for name, values in expert_gguf.add_experts(writer, family, tensors):
        if ".norms." in name:
            stem, head = name.removesuffix(".weight").split(".norms.")
            by_head.setdefault(stem, {})[int(head)] = values
            continue
        writer.add_tensor(stored_name(family, name),
                          np.ascontiguousarray(arranged(family, config, name, values)))
    for stem, heads in by_head.items():
        layer = stem.removeprefix("model.layers.").split(".")[0]
        kind = "attn_q_norm" if stem.endswith("q_layernorm") else "attn_k_norm"
        writer.add_tensor(f"blk.{layer}.{kind}.weight",
                          np.stack([heads[i] for i in range(len(heads))]))


def write(folder, out, config, tensors):
    family = config["model_type"]
    writer = gguf.GGUFWriter(str(out), ARCHITECTURES.get(family, family))
    add_config(writer, family, config)
    add_tensors(writer, family, config, tensors)
    return writer
