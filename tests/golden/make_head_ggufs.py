#!/usr/bin/env python3
"""Makes heads in GGUF files as llama.cpp's converters lay them out, of heads that are folders here.

Usage: make_head_ggufs.py   (needs numpy, safetensors and gguf)

  heads/plain.gguf        the EAGLE-3 head heads/plain, matrices in F16: rows of q and k in pairs,
                          ids of tokens in place of offsets
  mtp/mtp-qwen3_5.gguf    the layer for drafts of mtp/qwen3_5.gguf alone, in a file of its own
"""
import json
import pathlib

import gguf
import numpy as np
from safetensors.numpy import load_file

HERE = pathlib.Path(__file__).parent
NAMES = {"midlayer.input_layernorm": "blk.0.attn_norm", "midlayer.hidden_norm": "blk.0.attn_norm_2",
         "midlayer.post_attention_layernorm": "blk.0.ffn_norm",
         "midlayer.self_attn.q_proj": "blk.0.attn_q", "midlayer.self_attn.k_proj": "blk.0.attn_k",
         "midlayer.self_attn.v_proj": "blk.0.attn_v", "midlayer.self_attn.o_proj": "blk.0.attn_output",
         "midlayer.mlp.gate_proj": "blk.0.ffn_gate", "midlayer.mlp.up_proj": "blk.0.ffn_up",
         "midlayer.mlp.down_proj": "blk.0.ffn_down", "embed_tokens": "token_embd", "fc": "fc",
         "norm": "output_norm", "lm_head": "output"}


def in_pairs(rows, heads):
    return rows.reshape(heads, 2, -1, rows.shape[1]).swapaxes(1, 2).reshape(rows.shape)


def eagle3(folder, path):
    config = json.loads((folder / "config.json").read_text())
    tensors = load_file(folder / "model.safetensors")
    writer = gguf.GGUFWriter(str(path), "eagle3")
    for key, value in (("context_length", "max_position_embeddings"),
                       ("embedding_length", "hidden_size"), ("block_count", "num_hidden_layers"),
                       ("feed_forward_length", "intermediate_size"),
                       ("attention.head_count", "num_attention_heads"),
                       ("attention.head_count_kv", "num_key_value_heads"),
                       ("attention.key_length", "head_dim"), ("attention.value_length", "head_dim"),
                       ("rope.dimension_count", "head_dim"), ("vocab_size", "vocab_size")):
        writer.add_uint32("eagle3." + key, config[value])
    writer.add_float32("eagle3.attention.layer_norm_rms_epsilon", config["rms_norm_eps"])
    writer.add_float32("eagle3.rope.freq_base", config["rope_theta"])
    writer.add_array("eagle3.target_layers",
                     config["eagle_config"]["eagle_aux_hidden_state_layer_ids"])
    writer.add_uint32("eagle3.target_hidden_size", config["hidden_size"])
    writer.add_bool("eagle3.norm_before_residual", False)
    for name, own in NAMES.items():
        values = tensors[name + ".weight"]
        if name.endswith("q_proj"):
            values = in_pairs(values, config["num_attention_heads"])
        if name.endswith("k_proj"):
            values = in_pairs(values, config["num_key_value_heads"])
        writer.add_tensor(own + ".weight", values.astype(np.float16 if values.ndim > 1 else "f4"))
    writer.add_tensor("d2t", tensors["d2t"] + np.arange(len(tensors["d2t"])),
                      raw_dtype=gguf.GGMLQuantizationType.I64)
    finish(writer)


def layer_alone(whole, path):
    reader = gguf.GGUFReader(str(whole))
    architecture = reader.fields["general.architecture"].contents()
    writer = gguf.GGUFWriter(str(path), architecture)
    for name, field in reader.fields.items():
        if not name.startswith(architecture + "."):
            continue
        value, kind = field.contents(), field.types[0]
        if kind == gguf.GGUFValueType.ARRAY:
            writer.add_array(name, value)
        else:
            writer.add_key_value(name, value, kind)
    layer = "blk.%d." % (reader.fields[architecture + ".block_count"].contents() - 1)
    for tensor in reader.tensors:
        if tensor.name.startswith(layer):
            writer.add_tensor(tensor.name, np.array(tensor.data), raw_dtype=tensor.tensor_type)
    finish(writer)


def finish(writer):
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


if __name__ == "__main__":
    eagle3(HERE / "heads/plain", HERE / "heads/plain.gguf")
    layer_alone(HERE / "mtp/qwen3_5.gguf", HERE / "mtp/mtp-qwen3_5.gguf")
