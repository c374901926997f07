"""The checkpoints of chunk_cases.py as GGUF files, the way llama.cpp's converter lays them out, for
make_gguf_goldens.py."""
import gguf
import numpy as np

from layouts import family_gguf

NAMES = {**family_gguf.COMMON, **{
    f"feed_forward.{part}": stored for part, stored in (
        ("router", "ffn_gate_inp"), ("gate_proj", "ffn_gate"), ("up_proj", "ffn_up"),
        ("down_proj", "ffn_down"), ("shared_expert.gate_proj", "ffn_gate_shexp"),
        ("shared_expert.up_proj", "ffn_up_shexp"), ("shared_expert.down_proj", "ffn_down_shexp"))}}
FILES = ("llama4_usual",)


def add(writer, name, values):
    """Matrices in half the size, which hold a recipe's values exactly, but for routers."""
    halves = values.astype(np.float16)
    exact = values.ndim > 1 and "ffn_gate_inp" not in name and (halves == values).all()
    writer.add_tensor(name, np.ascontiguousarray(halves if exact else values))


def add_tensor(writer, name, values):
    if not name.startswith("model.layers."):
        return add(writer, NAMES[name.removesuffix(".weight")] + ".weight", values)
    layer, rest = name.removeprefix("model.layers.").split(".", 1)
    if rest == "feed_forward.experts.gate_up_proj":
        gate, up = np.split(values.swapaxes(1, 2), 2, axis=1)
        add(writer, f"blk.{layer}.ffn_gate_exps.weight", gate)
        return add(writer, f"blk.{layer}.ffn_up_exps.weight", up)
    if rest == "feed_forward.experts.down_proj":
        return add(writer, f"blk.{layer}.ffn_down_exps.weight", values.swapaxes(1, 2))
    stem, kind = rest.rsplit(".", 1)
    return add(writer, f"blk.{layer}.{NAMES[stem]}.{kind}", values)


def write(_folder, out, config, tensors):
    writer = gguf.GGUFWriter(str(out), "llama4")
    writer.add_context_length(config["max_position_embeddings"])
    writer.add_embedding_length(config["hidden_size"])
    writer.add_block_count(config["num_hidden_layers"])
    writer.add_feed_forward_length(config["intermediate_size_mlp"])
    writer.add_expert_feed_forward_length(config["intermediate_size"])
    writer.add_expert_count(config["num_local_experts"])
    writer.add_expert_used_count(config["num_experts_per_tok"])
    writer.add_interleave_moe_layer_step(config["interleave_moe_layer_step"])
    writer.add_head_count(config["num_attention_heads"])
    writer.add_head_count_kv(config["num_key_value_heads"])
    writer.add_key_length(config["head_dim"])
    writer.add_value_length(config["head_dim"])
    writer.add_layer_norm_rms_eps(config["rms_norm_eps"])
    writer.add_rope_dimension_count(config["head_dim"])
    writer.add_rope_freq_base(config["rope_parameters"]["rope_theta"])
    for name, values in tensors:
        add_tensor(writer, name, values)
    return writer
