"""The checkpoints of stream_cases.py as GGUF files, the way llama.cpp's converter lays them out, for
make_gguf_goldens.py."""
import statistics

import gguf
import numpy as np

from layouts import family_gguf

NAMES = {
    "bitnet": {**family_gguf.COMMON, "self_attn.attn_sub_norm": "attn_sub_norm",
               "mlp.ffn_sub_norm": "ffn_sub_norm"},
    "gemma3n_text": {
        **family_gguf.COMMON, **family_gguf.BEHIND,
        "model.embed_tokens_per_layer": "per_layer_token_embd",
        "model.per_layer_model_projection": "per_layer_model_proj",
        "model.per_layer_projection_norm": "per_layer_proj_norm",
        "per_layer_input_gate": "inp_gate", "per_layer_projection": "proj",
        "post_per_layer_input_norm": "post_norm", "altup.correct_output_scale": "altup_correct_scale",
        "altup.correction_coefs": "altup_correct_coef",
        "altup.prediction_coefs": "altup_predict_coef", "altup.modality_router": "altup_router",
        "altup.router_norm": "altup_router_norm", "laurel.linear_left": "laurel_l",
        "laurel.linear_right": "laurel_r", "laurel.post_laurel_norm": "laurel_post_norm"},
}
# One tensor of all streams.
STACKED = {"model.altup_projections": "altup_proj",
           "model.altup_unembed_projections": "altup_unembd_proj"}
FILES = ("bitnet", "gemma3n_text")


def add_streams(writer, config):
    rope = config["rope_parameters"]
    writer.add_altup_active_idx(config["altup_active_idx"])
    writer.add_altup_num_inputs(config["altup_num_inputs"])
    writer.add_embedding_length_per_layer_input(config["hidden_size_per_layer_input"])
    writer.add_shared_kv_layers(config["num_kv_shared_layers"])
    writer.add_sliding_window_pattern(
        [kind == "sliding_attention" for kind in config["layer_types"]])
    writer.add_rope_freq_base_swa(rope["sliding_attention"]["rope_theta"])
    writer.add_activation_sparsity_scale(
        [float(np.float32(statistics.NormalDist().inv_cdf(float(np.float32(part)))))
         if part > 0 else float("-inf") for part in config["activation_sparsity_pattern"]])


def stored_name(family, name):
    stem = name.removesuffix(".weight").removesuffix(".bias")
    kind = "bias" if name.endswith(".bias") else "weight"
    if stem.startswith("model.layers."):
        layer, rest = stem.removeprefix("model.layers.").split(".", 1)
        return f"blk.{layer}.{NAMES[family][rest]}.{kind}"
    return f"{NAMES[family][stem]}.{kind}"


def add(writer, name, values):
    """Matrices in half the size: recipes' values are such that F16 holds them exactly."""
    halves = values.astype(np.float16)
    exact = values.ndim > 1 and "_coef." not in name and (halves == values).all()
    writer.add_tensor(name, np.ascontiguousarray(halves if exact else values))


def write(_folder, out, config, tensors):
    family = config["model_type"]
    writer = gguf.GGUFWriter(str(out), {"gemma3n_text": "gemma3n"}.get(family, family))
    family_gguf.add_config(writer, family, config)
    if family == "gemma3n_text":
        add_streams(writer, config)
    stacked = {stored: {} for stored in STACKED.values()}
    for name, values in tensors:
        stem, _, number = name.removesuffix(".weight").rpartition(".")
        if stem in STACKED:
            stacked[STACKED[stem]][int(number)] = values
        else:
            add(writer, stored_name(family, name), values)
    for stored, matrices in stacked.items():
        if matrices:
            add(writer, f"{stored}.weight",
                np.stack([matrices[i] for i in range(len(matrices))]))
    return writer
