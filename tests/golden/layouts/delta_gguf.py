"""The checkpoints of delta_cases.py as GGUF files, the way llama.cpp's converter lays them out, for
make_gguf_goldens.py. Heads of values that share a key head stand apart in files of Qwen 3.5: the
first of each key head, then the second of each, and so on."""
import re

import gguf
import numpy as np

from layouts import family_gguf

ARCHITECTURES = {"qwen3_next": "qwen3next", "qwen3_5_text": "qwen35",
                 "qwen3_5_moe_text": "qwen35moe"}
FILES = ("qwen3_next", "qwen3_5", "qwen3_5_moe")
NAMES = {
    **family_gguf.COMMON, "post_attention_layernorm": "post_attention_norm",
    "linear_attn.in_proj_qkv": "attn_qkv", "linear_attn.in_proj_z": "attn_gate",
    "linear_attn.in_proj_b": "ssm_beta", "linear_attn.in_proj_a": "ssm_alpha",
    "linear_attn.in_proj_ba": "ssm_ba", "linear_attn.conv1d": "ssm_conv1d",
    "linear_attn.norm": "ssm_norm", "linear_attn.out_proj": "ssm_out", "mlp.gate": "ffn_gate_inp",
    "mlp.shared_expert.gate_proj": "ffn_gate_shexp", "mlp.shared_expert.up_proj": "ffn_up_shexp",
    "mlp.shared_expert.down_proj": "ffn_down_shexp", "mlp.shared_expert_gate": "ffn_gate_inp_shexp",
}


class Delta:
    def __init__(self, config):
        self.keys, self.values = config["linear_num_key_heads"], config["linear_num_value_heads"]
        self.k_dim, self.v_dim = config["linear_key_head_dim"], config["linear_value_head_dim"]
        self.shared = self.values // self.keys
        self.tiles = config["model_type"] != "qwen3_next"

    def tiled(self, values, axis, rows):
        """Along one axis, heads of `rows` each."""
        if not self.tiles:
            return values
        shape = values.shape
        parts = values.reshape(*shape[:axis], self.keys, self.shared, rows, *shape[axis + 1:])
        return parts.swapaxes(axis, axis + 1).reshape(shape)

    def with_tiled_values(self, values):
        """Rows of q and k, then those of v."""
        at = 2 * self.keys * self.k_dim
        return np.concatenate([values[:at], self.tiled(values[at:], 0, self.v_dim)])

    def apart(self, qkvz):
        """Key heads one after the other → q, k and v of all, and the gates."""
        values = self.shared * self.v_dim
        groups = qkvz.reshape(self.keys, 2 * self.k_dim + 2 * values, -1)
        cuts = np.cumsum([self.k_dim, self.k_dim, values])
        q, k, v, z = (part.reshape(-1, groups.shape[-1]) for part in np.split(groups, cuts, axis=1))
        return np.concatenate([q, k, v]), z


def add_config(writer, config):
    rope = config["rope_parameters"]
    writer.add_context_length(config["max_position_embeddings"])
    writer.add_embedding_length(config["hidden_size"])
    writer.add_block_count(config["num_hidden_layers"])
    if "intermediate_size" in config:
        writer.add_feed_forward_length(config["intermediate_size"])
    writer.add_head_count(config["num_attention_heads"])
    writer.add_head_count_kv(config["num_key_value_heads"])
    writer.add_key_length(config["head_dim"])
    writer.add_value_length(config["head_dim"])
    writer.add_layer_norm_rms_eps(config["rms_norm_eps"])
    writer.add_rope_freq_base(rope["rope_theta"])
    writer.add_rope_dimension_count(int(config["head_dim"] * rope["partial_rotary_factor"]))
    if config["model_type"] != "qwen3_next":
        writer.add_rope_dimension_sections([11, 11, 10, 0])
    if "num_experts" in config:
        writer.add_expert_count(config["num_experts"])
        writer.add_expert_used_count(config["num_experts_per_tok"])
        writer.add_expert_feed_forward_length(config["moe_intermediate_size"])
        writer.add_expert_shared_feed_forward_length(config["shared_expert_intermediate_size"])
    writer.add_ssm_conv_kernel(config["linear_conv_kernel_dim"])
    writer.add_ssm_state_size(config["linear_key_head_dim"])
    writer.add_ssm_group_count(config["linear_num_key_heads"])
    writer.add_ssm_time_step_rank(config["linear_num_value_heads"])
    writer.add_ssm_inner_size(config["linear_num_value_heads"] * config["linear_value_head_dim"])
    writer.add_full_attention_interval(4)


def of_layer(delta, rest, values):
    """(stored name, values) of one tensor of a layer."""
    if rest == "linear_attn.A_log":
        minus = -np.exp(values.astype(np.float64)).astype(np.float32)
        return [("ssm_a", delta.tiled(minus, 0, 1))]
    if rest == "linear_attn.dt_bias":
        return [("ssm_dt.bias", delta.tiled(values, 0, 1))]
    stem, kind = rest.rsplit(".", 1)
    own = stem.removeprefix("linear_attn.")
    if own == "in_proj_qkvz":
        qkv, z = delta.apart(values)
        return [("attn_qkv.weight", qkv), ("attn_gate.weight", z)]
    if own == "conv1d":
        values = delta.with_tiled_values(values[:, 0])
    elif own == "in_proj_qkv":
        values = delta.with_tiled_values(values)
    elif own == "in_proj_z":
        values = delta.tiled(values, 0, delta.v_dim)
    elif own in ("in_proj_a", "in_proj_b"):
        values = delta.tiled(values, 0, 1)
    elif own == "out_proj":
        values = delta.tiled(values, 1, delta.v_dim)
    elif stem == "mlp.shared_expert_gate":
        values = values[0]
    elif "norm" in stem and stem != "linear_attn.norm":
        values = values + 1
    return [(f"{NAMES[stem]}.{kind}", values)]


def write(_, out, config, tensors):
    writer = gguf.GGUFWriter(str(out), ARCHITECTURES[config["model_type"]])
    add_config(writer, config)
    delta, experts = Delta(config), {}
    for name, values in tensors:
        expert = re.fullmatch(r"model\.layers\.(\d+)\.mlp\.experts\.(\d+)\.(\w+)_proj\.weight", name)
        if expert:
            layer, number, kind = expert.groups()
            experts.setdefault((layer, kind), {})[int(number)] = values
            continue
        layer = re.match(r"model\.layers\.(\d+)\.(.*)", name)
        if layer is None:
            stem = name.removesuffix(".weight")
            writer.add_tensor(NAMES[stem] + ".weight", values + 1 if stem == "model.norm" else values)
            continue
        for stored, own in of_layer(delta, layer[2], values):
            writer.add_tensor(f"blk.{layer[1]}.{stored}", np.ascontiguousarray(own))
    for (layer, kind), matrices in experts.items():
        stacked = np.stack([matrices[number] for number in sorted(matrices)])
        writer.add_tensor(f"blk.{layer}.ffn_{kind}_exps.weight", stacked)
    return writer
