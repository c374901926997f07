"""Experts in the GGUF files of family_gguf.py: one tensor for all experts of a layer."""
import gguf
import numpy as np

PLAIN = {"mlp.gate": "ffn_gate_inp"}
NAMES = {
    "mixtral": {"block_sparse_moe.gate": "ffn_gate_inp"},
    "qwen2_moe": {**PLAIN, "mlp.shared_expert.gate_proj": "ffn_gate_shexp",
                  "mlp.shared_expert.up_proj": "ffn_up_shexp",
                  "mlp.shared_expert.down_proj": "ffn_down_shexp",
                  "mlp.shared_expert_gate": "ffn_gate_inp_shexp"},
    "qwen3_moe": PLAIN,
    "olmoe": PLAIN,
    "granitemoeshared": {"block_sparse_moe.router.layer": "ffn_gate_inp",
                         "shared_mlp.output_linear": "ffn_down_shexp"},
    "gpt_oss": {"mlp.router": "ffn_gate_inp", "post_attention_layernorm": "post_attention_norm"},
}
ARCHITECTURES = {"mixtral": "llama", "qwen2_moe": "qwen2moe", "qwen3_moe": "qwen3moe",
                 "gpt_oss": "gpt-oss", "granitemoeshared": "granitemoe"}
FILES = ("mixtral", "qwen2_moe", "qwen3_moe", "olmoe", "gpt_oss", "granitemoeshared")
KINDS = {"w1": "gate", "w3": "up", "w2": "down", "gate_proj": "gate", "up_proj": "up",
         "down_proj": "down"}


def add_config(writer, family, config):
    if family not in NAMES:
        return
    count = config.get("num_local_experts", config.get("num_experts"))
    writer.add_expert_count(count)
    writer.add_expert_used_count(config["num_experts_per_tok"])
    if "moe_intermediate_size" in config:
        writer.add_expert_feed_forward_length(config["moe_intermediate_size"])
    for shared in ("shared_expert_intermediate_size", "shared_intermediate_size"):
        if shared in config:
            writer.add_expert_shared_feed_forward_length(config[shared])
    if family == "gpt_oss":
        rope = config["rope_parameters"]
        writer.add_key_length(config["head_dim"])
        writer.add_value_length(config["head_dim"])
        writer.add_expert_feed_forward_length(config["intermediate_size"])
        writer.add_rope_scaling_type(gguf.RopeScalingType.YARN)
        writer.add_rope_scaling_factor(rope["factor"])
        writer.add_rope_scaling_orig_ctx_len(rope["original_max_position_embeddings"])
    elif config.get("head_dim"):
        writer.add_key_length(config["head_dim"])
        writer.add_value_length(config["head_dim"])


def add_gpt_oss(writer, name, values):
    """One of gpt-oss's tensors of all experts or its sinks, taken apart; false: it is no such."""
    layer = name.removeprefix("model.layers.").split(".")[0]
    if name.endswith("self_attn.sinks"):
        writer.add_tensor(f"blk.{layer}.attn_sinks.weight", values)
        return True
    if ".mlp.experts." not in name:
        return False
    ending = "bias" if name.endswith("_bias") else "weight"
    matrices = values if ending == "bias" else values.swapaxes(1, 2)
    parts = ({"down": matrices} if "down_proj" in name
             else {"gate": matrices[:, ::2], "up": matrices[:, 1::2]})
    for kind, part in parts.items():
        writer.add_tensor(f"blk.{layer}.ffn_{kind}_exps.{ending}", np.ascontiguousarray(part))
    return True


def parts_of_granite(name, values):
    """(the rest of the stored name, values) of one of Granite's tensors that files have apart."""
    if name.endswith("block_sparse_moe.output_linear.weight"):
        return [("ffn_down_exps.weight", values)]
    kind = {"block_sparse_moe": "exps", "shared_mlp": "shexp"}.get(name.split(".")[3])
    if not name.endswith("input_linear.weight"):
        return []
    gate, up = np.split(values, 2, axis=-2)
    return [(f"ffn_gate_{kind}.weight", gate), (f"ffn_up_{kind}.weight", up)]


def add_granite(writer, name, values):
    """False: the tensor is none that files have apart."""
    parts = parts_of_granite(name, values)
    for rest, part in parts:
        writer.add_tensor(f"blk.{name.split('.')[2]}.{rest}", np.ascontiguousarray(part))
    return bool(parts)


def add_experts(writer, family, tensors):
    """Writes those of `tensors` that are experts, and gives back the others."""
    stacks, others = {}, []
    for name, values in tensors:
        if family == "gpt_oss" and add_gpt_oss(writer, name, values):
            continue
        if family.startswith("granite") and name.count(".") > 3 and add_granite(writer, name, values):
            continue
        if ".experts." not in name:
            # The converter drops dimensions of one.
            others.append((name, values.squeeze() if "shared_expert_gate" in name else values))
            continue
        layer = name.removeprefix("model.layers.").split(".")[0]
        expert, kind, _ = name.split(".experts.")[1].split(".")
        stacks.setdefault((layer, KINDS[kind]), {})[int(expert)] = values
    for (layer, kind), experts in stacks.items():
        writer.add_tensor(f"blk.{layer}.ffn_{kind}_exps.weight",
                          np.stack([experts[i] for i in range(len(experts))]))
    return others
