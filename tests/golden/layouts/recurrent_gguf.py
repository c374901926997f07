"""The checkpoints of recurrent_cases.py as GGUF files, the way llama.cpp's converter lays them out,
for make_gguf_goldens.py."""
import gguf
import numpy as np

from layouts import expert_gguf
from layouts import family_gguf

MIXER = {
    "in_proj.weight": "ssm_in.weight", "in_proj.bias": "ssm_in.bias",
    "conv1d.weight": "ssm_conv1d.weight", "conv1d.bias": "ssm_conv1d.bias",
    "x_proj.weight": "ssm_x.weight", "dt_proj.weight": "ssm_dt.weight",
    "dt_proj.bias": "ssm_dt.bias", "dt_bias": "ssm_dt.bias", "A_log": "ssm_a", "D": "ssm_d",
    "norm.weight": "ssm_norm.weight", "out_proj.weight": "ssm_out.weight",
    "out_proj.bias": "ssm_out.bias",
}
OUTSIDE = {"backbone.embeddings": "token_embd", "backbone.norm_f": "output_norm"}
ARCHITECTURES = {"granitemoehybrid": "granitehybrid"}
FILES = ("mamba", "mamba2", "granite4", "granite4_experts")


def is_attention(kind):
    return kind in ("attention", "full_attention")


def add_ssm(writer, config):
    if config["model_type"] == "mamba":
        writer.add_ssm_conv_kernel(config["conv_kernel"])
        writer.add_ssm_inner_size(config["intermediate_size"])
        writer.add_ssm_state_size(config["state_size"])
        writer.add_ssm_time_step_rank(config["time_step_rank"])
        return
    own = "mamba_n_heads" in config
    heads = config["mamba_n_heads" if own else "num_heads"]
    writer.add_ssm_conv_kernel(config["mamba_d_conv" if own else "conv_kernel"])
    writer.add_ssm_inner_size(heads * config["mamba_d_head" if own else "head_dim"])
    writer.add_ssm_state_size(config["mamba_d_state" if own else "state_size"])
    writer.add_ssm_time_step_rank(heads)
    writer.add_ssm_group_count(config["mamba_n_groups" if own else "n_groups"])


def add_config(writer, config):
    writer.add_embedding_length(config["hidden_size"])
    writer.add_block_count(config["num_hidden_layers"])
    writer.add_layer_norm_rms_eps(config.get("rms_norm_eps", config.get("layer_norm_epsilon")))
    if "layer_types" not in config:
        writer.add_context_length(2 ** 20)
        writer.add_feed_forward_length(0)
        writer.add_head_count(0)
    else:
        writer.add_context_length(config["max_position_embeddings"])
        experts = config["num_local_experts"]
        writer.add_feed_forward_length(
            config["intermediate_size" if experts else "shared_intermediate_size"])
        writer.add_head_count(config["num_attention_heads"])
        writer.add_head_count_kv([config["num_key_value_heads"] if is_attention(kind) else 0
                                  for kind in config["layer_types"]])
        writer.add_attention_scale(config["attention_multiplier"])
        writer.add_embedding_scale(config["embedding_multiplier"])
        writer.add_residual_scale(config["residual_multiplier"])
        writer.add_logit_scale(config["logits_scaling"])
        writer.add_rope_scaling_finetuned(False)
        writer.add_expert_count(experts)
        if experts:
            writer.add_expert_used_count(config["num_experts_per_tok"])
            writer.add_expert_shared_feed_forward_length(config["shared_intermediate_size"])
    add_ssm(writer, config)


def of_mixer(config, rest, values):
    if rest == "conv1d.weight":
        return values[:, 0]
    if rest == "A_log":
        values = -np.exp(values.astype(np.float64)).astype(np.float32)
    if rest in ("A_log", "D") and values.ndim == 1 and config["model_type"] != "mamba":
        return values[:, None]
    if rest == "norm.weight":
        return values.reshape(config.get("mamba_n_groups", config.get("n_groups")), -1)
    return values


def tensors_of(config, name, values):
    """(name, values) of one tensor of the folder."""
    if ".layers." not in name:
        stem = name.removesuffix(".weight")
        yield OUTSIDE.get(stem, family_gguf.COMMON.get(stem)) + ".weight", values
        return
    layer, rest = name.split(".layers.")[1].split(".", 1)
    block = f"blk.{layer}."
    for mixer in ("mixer.", "mamba."):
        if rest.startswith(mixer):
            own = rest.removeprefix(mixer)
            yield block + MIXER[own], of_mixer(config, own, values)
            return
    experts = config.get("num_local_experts", 0) > 0
    apart = expert_gguf.parts_of_granite(name, values) if experts else []
    if apart:
        yield from ((block + own, part) for own, part in apart)
    elif rest == "block_sparse_moe.router.layer.weight":
        yield block + "ffn_gate_inp.weight", values
    elif rest == "norm.weight":
        yield block + "attn_norm.weight", values
    elif rest == "shared_mlp.input_linear.weight":
        gate, up = np.split(values, 2)
        yield block + "ffn_gate.weight", gate
        yield block + "ffn_up.weight", up
    elif rest == "shared_mlp.output_linear.weight":
        yield block + ("ffn_down_shexp.weight" if experts else "ffn_down.weight"), values
    else:
        if ".q_proj." in name:
            values = family_gguf.in_pairs(values, config["num_attention_heads"])
        if ".k_proj." in name:
            values = family_gguf.in_pairs(values, config["num_key_value_heads"])
        stem, kind = rest.rsplit(".", 1)
        yield f"{block}{family_gguf.COMMON[stem]}.{kind}", values


def write(folder, out, config, tensors):
    family = config["model_type"]
    writer = gguf.GGUFWriter(str(out), ARCHITECTURES.get(family, family))
    add_config(writer, config)
    for name, values in tensors:
        for stored, own in tensors_of(config, name, values):
            writer.add_tensor(stored, np.ascontiguousarray(own))
    return writer
