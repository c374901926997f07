#!/usr/bin/env python3
"""Makes the small GGUF files of the tests with the `gguf` package of the format's own project.

    python3 tests/golden/make_gguf_goldens.py

needs gguf and numpy. Writes
  tests/golden/gguf/quants.npy + q8_0.bin + q4_0.bin   rows of f32 and their blocks
  tests/golden/gguf/blocks_q6_k.bin + .npy, …           blocks of random bytes and what they stand for
  tests/golden/gguf/llama_bf16.gguf, …q8_0.gguf         tests/golden/models/llama_gqa and others,
                                                        with the rows of q and k in pairs
  tests/golden/gguf/phi3_long_f32.gguf.json, …          the families of family_cases.py, as views
  tests/golden/gguf/deepseek_v2_f32.gguf.json, …        those of latent_cases.py
  tests/golden/gguf/mamba_f32.gguf.json, …              the families of recurrent_cases.py
  tests/golden/gguf/qwen3_5_f32.gguf.json, …            those of delta_cases.py
  tests/golden/gguf/gemma3n_text_f16.gguf, …            those of stream_cases.py
  tests/golden/gguf/llama4_usual_f16.gguf                of chunk_cases.py
  tests/golden/gguf/llama_mixed_blocks.gguf             a layer of random weights in eight formats
  tests/golden/gguf/llama_low_bits.gguf                 three layers in those of fewer bits
  tests/golden/published/gguf_nvfp4/                    a layer in NVFP4 and what its matrices multiply to
  tests/fuzz/corpus/gguf*/                              seeds of the fuzz targets
"""
import base64
import json
import pathlib
import struct

import gguf
import numpy as np

from layouts import (chunk_gguf, delta_gguf, family_gguf, latent_gguf, recurrent_gguf, stream_gguf)
import gguf_views
import seeded_weights
from make_published_goldens import products

HERE = pathlib.Path(__file__).resolve().parent
MODELS = seeded_weights.built(HERE / "models")
OUT = HERE / "gguf"
CORPUS = HERE.parent / "fuzz" / "corpus"
NUMPY = {"F32": np.float32, "F16": np.float16, "BF16": np.uint16}
LAYER = {
    "input_layernorm": "attn_norm", "post_attention_layernorm": "ffn_norm",
    "self_attn.q_proj": "attn_q", "self_attn.k_proj": "attn_k", "self_attn.v_proj": "attn_v",
    "self_attn.o_proj": "attn_output", "self_attn.q_norm": "attn_q_norm",
    "self_attn.k_norm": "attn_k_norm", "mlp.gate_proj": "ffn_gate", "mlp.up_proj": "ffn_up",
    "mlp.down_proj": "ffn_down",
}
OUTSIDE = {"model.embed_tokens": "token_embd", "model.norm": "output_norm", "lm_head": "output"}


def read_safetensors(path):
    raw = path.read_bytes()
    length = struct.unpack("<Q", raw[:8])[0]
    header = json.loads(raw[8:8 + length])
    for name, entry in header.items():
        if name == "__metadata__":
            continue
        begin, end = (8 + length + at for at in entry["data_offsets"])
        values = np.frombuffer(raw[begin:end], NUMPY[entry["dtype"]]).reshape(entry["shape"])
        if entry["dtype"] == "BF16":
            values = (values.astype(np.uint32) << 16).view(np.float32)
        yield name, values.astype(np.float32)


def stored_name(name):
    stem, kind = name.rsplit(".", 1)
    if stem in OUTSIDE:
        return f"{OUTSIDE[stem]}.{kind}"
    _, _, layer, rest = stem.split(".", 3)
    return f"blk.{layer}.{LAYER[rest]}.{kind}"


def in_pairs(values, heads):
    halves = values.reshape(heads, 2, -1, *values.shape[1:])
    return halves.swapaxes(1, 2).reshape(values.shape)


def add_config(writer, arch, config):
    heads = config["num_attention_heads"]
    head_dim = config.get("head_dim") or config["hidden_size"] // heads
    writer.add_context_length(config["max_position_embeddings"])
    writer.add_embedding_length(config["hidden_size"])
    writer.add_block_count(config["num_hidden_layers"])
    writer.add_feed_forward_length(config["intermediate_size"])
    writer.add_head_count(heads)
    writer.add_head_count_kv(config.get("num_key_value_heads", heads))
    writer.add_key_length(head_dim)
    writer.add_value_length(head_dim)
    writer.add_layer_norm_rms_eps(config["rms_norm_eps"])
    rope = config.get("rope_scaling") or config.get("rope_parameters") or {}
    theta = config.get("rope_theta") or rope.get("rope_theta", 10000.0)
    writer.add_rope_freq_base(theta)
    if rope.get("rope_type") == "linear":
        writer.add_rope_scaling_type(gguf.RopeScalingType.LINEAR)
        writer.add_rope_scaling_factor(rope["factor"])
    if rope.get("rope_type") == "llama3":
        writer.add_tensor("rope_freqs.weight", llama3_factors(rope, theta, head_dim))


def llama3_factors(rope, theta, head_dim):
    low = rope["original_max_position_embeddings"] / rope["low_freq_factor"]
    high = rope["original_max_position_embeddings"] / rope["high_freq_factor"]
    factors = []
    for i in range(head_dim // 2):
        wave = 2 * np.pi * theta ** (2 * i / head_dim)
        if wave < high:
            factors.append(1.0)
        elif wave > low:
            factors.append(rope["factor"])
        else:
            smooth = (low / wave * rope["low_freq_factor"] - rope["low_freq_factor"]) / (
                rope["high_freq_factor"] - rope["low_freq_factor"])
            factors.append(1 / ((1 - smooth) / rope["factor"] + smooth))
    return np.array(factors, np.float32)


def write_model(name, kind, file_name):
    folder = MODELS / name
    config = json.loads((folder / "config.json").read_text())
    arch = "llama" if config["model_type"] in ("llama", "mistral") else config["model_type"]
    writer = gguf.GGUFWriter(str(OUT / file_name), arch)
    add_config(writer, arch, config)
    wanted = gguf.GGMLQuantizationType[kind]
    for tensor, values in read_safetensors(folder / "model.safetensors"):
        stored = stored_name(tensor)
        if arch == "llama" and ".attn_q." in stored:
            values = in_pairs(values, config["num_attention_heads"])
        if arch == "llama" and ".attn_k." in stored:
            values = in_pairs(values, config["num_key_value_heads"])
        fits = values.ndim == 2 and values.shape[1] % 32 == 0
        plain = wanted in (gguf.GGMLQuantizationType.F16, gguf.GGMLQuantizationType.BF16)
        type_ = wanted if values.ndim == 2 and (plain or fits) else gguf.GGMLQuantizationType.F32
        writer.add_tensor(stored, gguf.quants.quantize(np.ascontiguousarray(values), type_),
                          raw_dtype=type_)
    finish(writer)


def finish(writer):
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def write_family(name, writers=family_gguf, kind="f32"):
    folder = MODELS / name
    config = json.loads((folder / "config.json").read_text())
    store(name, OUT / f"{name}_{kind}.gguf",
          lambda path, tensors: finish(writers.write(folder, path, config, tensors)))


def write_latent(name, old):
    config = json.loads((MODELS / name / "config.json").read_text())
    store(name, OUT / f"{name}_f32.gguf",
          lambda path, tensors: finish(latent_gguf.write(path, config, tensors, old)))


def store(name, path, write):
    """Writes the file, or how it is made of the model's weights if those are computed."""
    weights = MODELS / name / "model.safetensors"
    write(path, read_safetensors(weights))
    if not path.stem.endswith("_f32") or not (HERE / "models" / name / "weights.json").exists():
        return
    numbered = path.with_suffix(".numbered")
    write(numbered, numbers_of(weights))
    recipe = {"model": name, **view_of_file(path, numbered, gguf_views.weights_of(weights))}
    if gguf_views.file_of(recipe, gguf_views.weights_of(weights)) != path.read_bytes():
        raise ValueError(f"{path}: what was made of its recipe is another file")
    lines = ",\n".join("  " + json.dumps(tensor) for tensor in recipe.pop("tensors"))
    path.with_suffix(".gguf.json").write_text(
        json.dumps(recipe)[:-1] + ', "tensors": [\n' + lines + "\n]}\n")
    path.unlink()
    numbered.unlink()


def numbers_of(path):
    """Tensors whose values are four times the places of the real ones."""
    at = 0
    for name, values in read_safetensors(path):
        yield name, 4 * np.arange(at, at + values.size, dtype=np.float32).reshape(values.shape)
        at += values.size


def view_of_file(path, numbered, weights):
    raw, tensors = path.read_bytes(), gguf.GGUFReader(path).tensors
    made = []
    for tensor, number in zip(tensors, gguf.GGUFReader(numbered).tensors):
        at, numbers = int(tensor.data_offset), np.asarray(number.data).reshape(-1)
        stored = raw[at:at + int(tensor.n_bytes)]
        view = {"at": at, "bytes": base64.b64encode(stored).decode()}
        if np.isfinite(numbers).all() and len({*(numbers % 4)}) == 1 and numbers[0] % 4 in (0, 1):
            places = (numbers // 4).astype(int).tolist()
            plus = {"plus": 1} if numbers[0] % 4 else {}
            short = {"at": at, "view": gguf_views.view_of(places), **plus}
            if max(places) < len(weights) and gguf_views.bytes_of(short, weights) == stored:
                view = short
        if len(view.get("bytes", "")) > 8192:
            raise ValueError(f"{path}: {tensor.name} is no view of the weights")
        made.append(view)
    head = raw[:made[0]["at"]]
    return {"size": len(raw), "head": base64.b64encode(head).decode(), "tensors": made}


def write_family_seed(name):
    """What says how a model is built: its metadata, and the tensors that are asked for."""
    config = json.loads((MODELS / name / "config.json").read_text())
    small = [(tensor, np.ones((3, 4), np.float32))
             for tensor, values in read_safetensors(MODELS / name / "model.safetensors")
             if "embed" in tensor or ".wte" in tensor]
    finish(family_gguf.write(None, CORPUS / "gguf" / name, config, small[:1]))


def write_quants():
    random = np.random.default_rng(7)
    rows = random.normal(size=(24, 64)).astype(np.float32)
    rows *= (10.0 ** random.integers(-6, 5, size=(24, 1))).astype(np.float32)
    rows[0] = 0
    rows[1, :32] = 0
    rows[2] = np.linspace(-1, 1, 64, dtype=np.float32)
    rows[3] = np.where(np.arange(64) % 2, 1, -1)
    rows[4] = np.float32(1e-30)
    np.save(OUT / "quants.npy", rows)
    for kind in ("Q8_0", "Q4_0"):
        blocks = gguf.quants.quantize(rows, gguf.GGMLQuantizationType[kind])
        (OUT / f"{kind.lower()}.bin").write_bytes(blocks.tobytes())


# Where the f16 scales of a block stand.
HALVES = {"Q8_0": [0], "Q4_0": [0], "Q4_1": [0, 2], "Q5_0": [0], "Q5_1": [0, 2],
          "Q4_K": [0, 2], "Q5_K": [0, 2], "Q6_K": [208],
          "IQ4_NL": [0], "MXFP4": [], "Q2_K": [80, 82], "Q3_K": [108], "IQ4_XS": [0],
          "TQ1_0": [52], "TQ2_0": [64], "IQ2_XXS": [0], "IQ2_XS": [0], "IQ2_S": [0],
          "IQ3_XXS": [0], "IQ3_S": [0], "IQ1_S": [0], "IQ1_M": []}


def spread_scales(blocks, scales):
    """The f16 scale of iq1_m is four top nibbles."""
    for i in range(4):
        nibble = (scales.view(np.uint16) >> (4 * i) & 15).astype(np.uint8)
        blocks[:, 49 + 2 * i] = blocks[:, 49 + 2 * i] & 15 | nibble << 4


def write_blocks():
    """One after the other: what is added at the end changes none of those before."""
    random = np.random.default_rng(11)
    for kind, halves in HALVES.items():
        type_ = gguf.GGMLQuantizationType[kind]
        values, size = gguf.GGML_QUANT_SIZES[type_]
        count = 1024 // values
        blocks = random.integers(0, 256, size=(count, size)).astype(np.uint8)
        for at in halves:
            scales = random.normal(size=count).astype(np.float16)
            scales[0] = 6e-8  # the smallest f16
            scales[1] = -65504
            blocks[:, at:at + 2] = scales.reshape(-1, 1).view(np.uint8)
        if kind == "IQ1_M":
            spread_scales(blocks, random.normal(size=count).astype(np.float16))
        (OUT / f"blocks_{kind.lower()}.bin").write_bytes(blocks.tobytes())
        np.save(OUT / f"blocks_{kind.lower()}.npy",
                gguf.quants.dequantize(blocks, type_).reshape(-1).astype(np.float32))


# f16 scale and minimum that make random blocks of a kind spread by about 0.05.
SPREAD = {"Q4_0": [1e-2], "Q4_1": [1e-2, -8e-2], "Q5_0": [6e-3], "Q5_1": [6e-3, -9e-2],
          "Q4_K": [3e-4, 2e-3], "Q5_K": [2e-4, 2e-3], "Q6_K": [4e-5], "Q8_0": [7e-4],
          "Q2_K": [5e-3, 5e-3], "Q3_K": [1.5e-3], "IQ4_XS": [5e-5], "TQ1_0": [5e-2],
          "TQ2_0": [5e-2], "IQ2_XXS": [1e-3], "IQ2_XS": [1e-3], "IQ2_S": [1e-3],
          "IQ3_XXS": [4e-4], "IQ3_S": [4e-4], "IQ1_S": [6e-3], "IQ1_M": []}


def random_blocks(random, kind, rows, columns):
    values, size = gguf.GGML_QUANT_SIZES[gguf.GGMLQuantizationType[kind]]
    blocks = random.integers(0, 256, size=(rows * columns // values, size)).astype(np.uint8)
    for at, spread in zip(HALVES[kind], SPREAD[kind]):
        blocks[:, at:at + 2] = np.array([spread], np.float16).view(np.uint8)
    if kind == "IQ1_M":
        spread_scales(blocks, np.full(len(blocks), 6e-3, np.float16))
    return blocks.reshape(rows, -1)


def write_mixed():
    random = np.random.default_rng(13)
    writer = gguf.GGUFWriter(str(OUT / "llama_mixed_blocks.gguf"), "llama")
    add_config(writer, "llama", {
        "num_attention_heads": 2, "num_key_value_heads": 1, "hidden_size": 256, "head_dim": 32,
        "max_position_embeddings": 64, "num_hidden_layers": 1, "intermediate_size": 64,
        "rms_norm_eps": 1e-5, "rope_theta": 1e4})
    for name, kind, rows, columns in (
            ("token_embd", "Q6_K", 32, 256), ("blk.0.attn_q", "Q5_K", 64, 256),
            ("blk.0.attn_k", "Q4_K", 32, 256), ("blk.0.attn_v", "Q8_0", 32, 256),
            ("blk.0.attn_output", "Q5_1", 256, 64), ("blk.0.ffn_gate", "Q4_1", 64, 256),
            ("blk.0.ffn_up", "Q5_0", 64, 256), ("blk.0.ffn_down", "Q4_0", 256, 64)):
        writer.add_tensor(f"{name}.weight", random_blocks(random, kind, rows, columns),
                          raw_dtype=gguf.GGMLQuantizationType[kind])
    for name in ("output_norm", "blk.0.attn_norm", "blk.0.ffn_norm"):
        writer.add_tensor(f"{name}.weight", np.ones(256, np.float32))
    finish(writer)


def write_low_bits():
    """What is read in blocks of 256 and has fewer than five bits, with a tokenizer of letters."""
    random = np.random.default_rng(17)
    writer = gguf.GGUFWriter(str(OUT / "llama_low_bits.gguf"), "llama")
    add_config(writer, "llama", {
        "num_attention_heads": 2, "num_key_value_heads": 1, "hidden_size": 256, "head_dim": 32,
        "max_position_embeddings": 64, "num_hidden_layers": 3, "intermediate_size": 32,
        "rms_norm_eps": 1e-5, "rope_theta": 1e4})
    tokens = ["<unk>", "<s>", "</s>", "\u2581"] + [chr(ord("a") + i) for i in range(26)]
    writer.add_tokenizer_model("llama")
    writer.add_token_list(tokens)
    writer.add_token_scores([-float(i) for i in range(len(tokens))])
    writer.add_token_types([2, 3, 3] + [1] * (len(tokens) - 3))
    writer.add_bos_token_id(1)
    writer.add_eos_token_id(2)
    kinds = iter(["Q2_K", "Q3_K", "TQ1_0", "TQ2_0", "IQ2_XXS", "IQ2_XS", "IQ2_S", "IQ3_XXS",
                  "IQ3_S", "IQ1_S", "IQ1_M", "Q2_K", "Q3_K", "IQ4_XS", "IQ3_S"])
    matrices = [("token_embd", "IQ4_XS", len(tokens), 256)]
    for layer in range(3):
        for name, rows in (("attn_q", 64), ("attn_k", 32), ("attn_v", 32), ("ffn_gate", 32),
                           ("ffn_up", 32)):
            matrices.append((f"blk.{layer}.{name}", next(kinds), rows, 256))
        matrices += [(f"blk.{layer}.attn_output", "Q8_0", 256, 64),
                     (f"blk.{layer}.ffn_down", "Q4_0", 256, 32)]
    for name, kind, rows, columns in matrices:
        writer.add_tensor(f"{name}.weight", random_blocks(random, kind, rows, columns),
                          raw_dtype=gguf.GGMLQuantizationType[kind])
    for name in ["output_norm"] + [f"blk.{layer}.{norm}" for layer in range(3)
                                   for norm in ("attn_norm", "ffn_norm")]:
        writer.add_tensor(f"{name}.weight", np.ones(256, np.float32))
    finish(writer)


def write_nvfp4():
    """Blocks of 16 values with a scale each, and next to a matrix its factor, unless that is 1."""
    random = np.random.default_rng(19)
    folder = HERE / "published" / "gguf_nvfp4"
    folder.mkdir(exist_ok=True)
    writer = gguf.GGUFWriter(str(folder / "model.gguf"), "llama")
    add_config(writer, "llama", {
        "num_attention_heads": 2, "num_key_value_heads": 1, "hidden_size": 64, "head_dim": 32,
        "max_position_embeddings": 64, "num_hidden_layers": 1, "intermediate_size": 128,
        "rms_norm_eps": 1e-5, "rope_theta": 1e4})
    type_ = gguf.GGMLQuantizationType.NVFP4
    matrices = []
    for name, rows, columns in (("attn_q", 64, 64), ("attn_k", 32, 64), ("attn_v", 32, 64),
                                ("attn_output", 64, 64), ("ffn_gate", 128, 64),
                                ("ffn_up", 128, 64), ("ffn_down", 64, 128)):
        blocks = random.integers(0, 256, size=(rows, columns // 64, 36)).astype(np.uint8)
        has_factor = name != "attn_v"
        blocks[:, :, :4] = random.integers(*((1, 0x7f) if has_factor else (1, 0x20)),
                                           size=blocks[:, :, :4].shape)
        factor = np.float32(1e-4 * (0.5 + random.random())) if has_factor else np.float32(1)
        values = gguf.quants.dequantize(blocks.reshape(-1, 36), type_).reshape(rows, columns)
        matrices.append(values.astype(np.float64) * np.float64(factor))
        blocks = blocks.reshape(rows, -1)
        if name in ("attn_q", "attn_k"):
            blocks = in_pairs(blocks, rows // 32)
        writer.add_tensor(f"blk.0.{name}.weight", blocks, raw_dtype=type_)
        if has_factor:
            writer.add_tensor(f"blk.0.{name}.scale", factor.reshape(1))
        writer.add_tensor(f"blk.0.{name}.input_scale", np.array([0.01], np.float32))
    writer.add_tensor("token_embd.weight", random.normal(size=(16, 64)).astype(np.float32))
    for name in ("output_norm", "blk.0.attn_norm", "blk.0.ffn_norm"):
        writer.add_tensor(f"{name}.weight", np.ones(64, np.float32))
    finish(writer)
    np.save(folder / "products.npy", products(matrices))


def write_seeds():
    for folder in ("gguf", "gguf_tokenizer"):
        (CORPUS / folder).mkdir(parents=True, exist_ok=True)
    writer = gguf.GGUFWriter(str(CORPUS / "gguf" / "model"), "llama")
    add_config(writer, "llama", {
        "num_attention_heads": 2, "num_key_value_heads": 1, "hidden_size": 4,
        "max_position_embeddings": 8, "num_hidden_layers": 1, "intermediate_size": 4,
        "rms_norm_eps": 1e-5, "rope_theta": 1e4})
    writer.add_array("llama.attention.sliding_window_pattern", [True])
    writer.add_sliding_window(4)
    writer.add_tensor("token_embd.weight", np.ones((3, 4), np.float32))
    writer.add_tensor("rope_freqs.weight", np.ones(1, np.float32))
    finish(writer)
    writer = gguf.GGUFWriter(str(CORPUS / "gguf" / "blocks"), "llama")
    for kind in HALVES:
        type_ = gguf.GGMLQuantizationType[kind]
        values, size = gguf.GGML_QUANT_SIZES[type_]
        blocks = np.full((2, 256 // values * size), 60, np.uint8)
        writer.add_tensor(f"{kind.lower()}.weight", blocks, raw_dtype=type_)
    finish(writer)
    raw = struct.pack("<4sIII", b"GGUF", 1, 1, 1)
    raw += struct.pack("<I1sIIII", 1, b"k", 9, 8, 1, 2) + b"hi"
    raw += struct.pack("<I1sIIIQ", 1, b"t", 1, 1, 0, 0)
    raw += b"\0" * (-len(raw) % 32 + 4)
    (CORPUS / "gguf" / "version1").write_bytes(raw)
    for name in family_gguf.FILES:
        write_family_seed(name)
    write_tokenizer_seeds()


def write_tokenizer_seeds():
    writer = gguf.GGUFWriter(str(CORPUS / "gguf_tokenizer" / "llama"), "llama")
    writer.add_tokenizer_model("llama")
    writer.add_token_list(["<unk>", "<s>", "</s>", "<0x0A>", "\u2581", "l", "o", "lo", "\u2581lo"])
    writer.add_token_scores([0.0, 0.0, 0.0, 0.0, -1.0, -2.0, -3.0, -4.0, -5.0])
    writer.add_token_types([2, 3, 3, 6, 1, 1, 1, 1, 4])
    writer.add_bos_token_id(1)
    writer.add_eos_token_id(2)
    finish(writer)
    for pre in ("gpt-2", "deepseek-llm", "qwen2"):
        writer = gguf.GGUFWriter(str(CORPUS / "gguf_tokenizer" / pre), "llama")
        writer.add_tokenizer_model("gpt2")
        writer.add_tokenizer_pre(pre)
        writer.add_token_list(["<s>", "l", "o", "w", "\u0120", "lo", "\u0120w", "<x>"])
        writer.add_token_types([3, 1, 1, 1, 1, 1, 1, 4])
        writer.add_token_merges(["l o", "\u0120 w"])
        writer.add_bos_token_id(0)
        writer.add_add_bos_token(True)
        finish(writer)


def main():
    OUT.mkdir(exist_ok=True)
    write_quants()
    write_blocks()
    write_mixed()
    write_low_bits()
    write_nvfp4()
    write_model("llama_gqa", "F32", "llama_gqa_f32.gguf")
    write_model("llama_bf16", "BF16", "llama_bf16.gguf")
    write_model("llama_biases", "F32", "llama_biases_f32.gguf")
    write_model("llama_rope_llama3", "F32", "llama_rope_llama3_f32.gguf")
    write_model("llama_tied", "Q8_0", "llama_tied_q8_0.gguf")
    write_model("qwen2", "F16", "qwen2_f16.gguf")
    write_model("qwen3", "F32", "qwen3_f32.gguf")
    for name in family_gguf.FILES:
        write_family(name)
    for name, old in latent_gguf.FILES:
        write_latent(name, old)
    for name in recurrent_gguf.FILES:
        write_family(name, recurrent_gguf)
    for name in delta_gguf.FILES:
        write_family(name, delta_gguf)
    for name in stream_gguf.FILES:
        write_family(name, stream_gguf, "f16")
    for name in chunk_gguf.FILES:
        write_family(name, chunk_gguf, "f16")
    write_seeds()


if __name__ == "__main__":
    main()
