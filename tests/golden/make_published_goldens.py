#!/usr/bin/env python3
"""Makes tests/golden/published/<case>/: tiny checkpoints quantised in the layouts that tools publish.

    pip install numpy
    tests/golden/make_published_goldens.py [case ...]

Each case is a Hugging Face folder plus products.npy: float32 [2, outputs], x · Wᵀ of every matrix of
its layer in float64, of the matrix that the published numbers stand for, for
x[r, k] = sin(0.37 · (k + 1) · (r + 1)). Layouts are written from their definitions (see
docs/formats/published-weights.md) and taken apart by nothing else here: what a matrix stands for is
known before it is packed. Codes, scales and zero points are random, extremes included.
Without a case it also makes the seeds of the fuzz target, tests/fuzz/corpus/published/.
"""
import json
import pathlib
import shutil
import struct
import sys

import numpy as np

OUT = pathlib.Path(__file__).resolve().parent / "published"
INNER, HEADS, VOCABULARY = 64, 2, 16
SMALL = {"gptq_8bit", "ct_w8a16", "ct_w8a8", "ct_fp8", "fp8_partial_blocks", "fp8_one_scale",
         "bnb_int8"}  # of hidden size 32, not 64
LLAMA = dict(architectures=["LlamaForCausalLM"], model_type="llama", intermediate_size=INNER, num_hidden_layers=1, num_attention_heads=HEADS,
             num_key_value_heads=1, vocab_size=VOCABULARY, max_position_embeddings=64,
             rms_norm_eps=1e-5, tie_word_embeddings=True, bos_token_id=1, eos_token_id=2,
             hidden_act="silu", rope_theta=10000.0)
def shapes(hidden):
    half = hidden // HEADS
    return {"self_attn.q_proj": (hidden, hidden), "self_attn.k_proj": (half, hidden),
            "self_attn.v_proj": (half, hidden), "self_attn.o_proj": (hidden, hidden),
            "mlp.gate_proj": (INNER, hidden), "mlp.up_proj": (INNER, hidden),
            "mlp.down_proj": (hidden, INNER)}


NF4 = [-1.0, -0.6961928009986877, -0.5250730514526367, -0.39491748809814453, -0.28444138169288635,
       -0.18477343022823334, -0.09105003625154495, 0.0, 0.07958029955625534, 0.16093020141124725,
       0.24611230194568634, 0.33791524171829224, 0.44070982933044434, 0.5626170039176941,
       0.7229568362236023, 1.0]
FP4 = [0, 0.0052083333, 0.66666667, 1, 0.33333333, 0.5, 0.16666667, 0.25]
FP4 = FP4 + [-level for level in FP4]
E2M1 = [0, 0.5, 1, 1.5, 2, 3, 4, 6]
E2M1 = E2M1 + [-level for level in E2M1]


class BF16:
    def __init__(self, values):
        bits = np.ascontiguousarray(values, np.float32).view(np.uint32)
        self.bits = ((bits + 0x7fff + (bits >> 16 & 1)) >> 16).astype(np.uint16)
        self.values = (self.bits.astype(np.uint32) << 16).view(np.float32)


class F8:
    """Codes of E4M3 without its two NaNs."""

    def __init__(self, codes):
        self.codes = np.where((codes & 0x7f) == 0x7f, codes ^ 1, codes).astype(np.uint8)
        exponent, mantissa = self.codes >> 3 & 15, (self.codes & 7).astype(np.float64)
        size = np.where(exponent == 0, mantissa * 2.0 ** -9,
                        (8 + mantissa) * 2.0 ** (exponent.astype(np.float64) - 10))
        self.values = np.where(self.codes & 0x80, -size, size)


TYPES = {np.dtype(np.float32): "F32", np.dtype(np.float16): "F16", np.dtype(np.int32): "I32",
         np.dtype(np.int64): "I64", np.dtype(np.int8): "I8", np.dtype(np.uint8): "U8"}


def write_safetensors(path, tensors):
    header, data = {}, b""
    for name, tensor in tensors.items():
        if isinstance(tensor, BF16):
            kind, shape, raw = "BF16", tensor.bits.shape, tensor.bits.tobytes()
        elif isinstance(tensor, F8):
            kind, shape, raw = "F8_E4M3", tensor.codes.shape, tensor.codes.tobytes()
        else:
            kind, shape = TYPES[tensor.dtype], tensor.shape
            raw = np.ascontiguousarray(tensor).tobytes()
        header[name] = dict(dtype=kind, shape=list(shape), data_offsets=[len(data), len(data) + len(raw)])
        data += raw
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    path.write_bytes(struct.pack("<Q", len(text)) + text + data)


def stream(codes, bits):
    """Codes along axis 0 as one stream of bits in 32-bit words, lowest bits first."""
    count, rest = codes.shape[0], codes.shape[1:]
    words = np.zeros((count * bits // 32,) + rest, np.uint64)
    for i in range(count):
        word, shift = i * bits // 32, i * bits % 32
        value = codes[i].astype(np.uint64) << np.uint64(shift)
        words[word] |= value & np.uint64(0xffffffff)
        if shift + bits > 32:
            words[word + 1] |= value >> np.uint64(32)
    return words.astype(np.uint32).view(np.int32)


def grouped(random, shape, bits, group, zero_low=0):
    """Codes, scales and zero points [n, groups] of an affine matrix."""
    n, k = shape
    groups = k // group
    codes = random.integers(0, 2 ** bits, (n, k))
    scales = (0.25 / 2 ** bits * (0.5 + random.random((n, groups)))).astype(np.float16)
    zeros = random.integers(zero_low, 2 ** bits, (n, groups))
    return codes, scales, zeros


def affine(codes, scales, zeros, group_of_column):
    return (codes - zeros[:, group_of_column].astype(np.float64)) * \
        scales.astype(np.float64)[:, group_of_column]


def gptq(bits, group, order=False, symmetric=False, second=False):
    config = dict(quant_method="gptq", bits=bits, group_size=group, desc_act=order, sym=symmetric)
    if second:
        config["checkpoint_format"] = "gptq_v2"

    def make(random, stem, shape):
        n, k = shape
        size = k if group == -1 else group
        codes, scales, zeros = grouped(random, shape, bits, size)
        if symmetric:
            zeros[:] = 2 ** (bits - 1)
        of_column = np.arange(k) // size
        if order:
            # q, k and v, and gate and up, are made with one order, as they see the same inputs.
            of_column = np.random.default_rng(k).permutation(of_column)
        stored = zeros if second else (zeros - 1) % 2 ** bits
        return affine(codes, scales, zeros, of_column), {
            stem + ".qweight": stream(codes.T, bits), stem + ".scales": scales.T.copy(),
            stem + ".qzeros": stream(stored, bits).T.copy(),
            stem + ".g_idx": of_column.astype(np.int32)}
    return config, make


def awq(group):
    config = dict(quant_method="awq", bits=4, group_size=group, zero_point=True, version="gemm")
    nibble = [0, 4, 1, 5, 2, 6, 3, 7]

    def pack(codes):
        words = np.zeros((codes.shape[0], codes.shape[1] // 8), np.uint32)
        for column in range(codes.shape[1]):
            words[:, column // 8] |= codes[:, column].astype(np.uint32) << 4 * nibble[column % 8]
        return words.view(np.int32)

    def make(random, stem, shape):
        codes, scales, zeros = grouped(random, shape, 4, group)
        return affine(codes, scales, zeros, np.arange(shape[1]) // group), {
            stem + ".qweight": pack(codes.T), stem + ".qzeros": pack(zeros.T),
            stem + ".scales": scales.T.copy()}
    return config, make


def scheme(format, weights):
    return dict(quant_method="compressed-tensors", format=format, quantization_status="compressed",
                ignore=["lm_head"], config_groups=dict(group_0=dict(
                    targets=["Linear"], weights=weights, input_activations=None)))


def packed(bits, group, symmetric):
    weights = dict(num_bits=bits, type="int", symmetric=symmetric, dynamic=False,
                   strategy="group" if group else "channel", group_size=group)

    def make(random, stem, shape):
        n, k = shape
        size = group or k
        codes, scales, zeros = grouped(random, shape, bits, size)
        scales = BF16(scales)
        if symmetric:
            zeros[:] = 2 ** (bits - 1)
        tensors = {stem + ".weight_packed": stream(codes.T, bits).T.copy(),
                   stem + ".weight_scale": scales,
                   stem + ".weight_shape": np.array(shape, np.int64)}
        if not symmetric:
            tensors[stem + ".weight_zero_point"] = stream(zeros, bits)
        return affine(codes, scales.values, zeros, np.arange(k) // size), tensors
    return scheme("pack-quantized", weights), make


def integers():
    def make(random, stem, shape):
        codes = random.integers(-128, 128, shape).astype(np.int8)
        scales = BF16(0.001 * (0.5 + random.random((shape[0], 1))))
        return codes * scales.values.astype(np.float64), {
            stem + ".weight": codes, stem + ".weight_scale": scales}
    weights = dict(num_bits=8, type="int", symmetric=True, strategy="channel")
    return scheme("int-quantized", weights), make


def float8(config, scale_name, rows, columns, kind=np.float32):
    """One scale for `rows` by `columns` values; partial blocks at the edges."""
    def make(random, stem, shape):
        codes = F8(random.integers(0, 256, shape))
        n, k = shape
        r, c = rows or n, columns or k
        scales = (0.002 * (0.5 + random.random((-(-n // r), -(-k // c))))).astype(kind)
        each = scales.astype(np.float64)[np.arange(n) // r][:, np.arange(k) // c]
        stored = scales.reshape(()) if not rows and not columns else scales
        return codes.values * each, {stem + ".weight": codes, stem + scale_name: stored}
    return config, make


def bitsandbytes4(kind, nested, block=64):
    levels = np.array(NF4 if kind == "nf4" else FP4, np.float32)
    config = dict(quant_method="bitsandbytes", load_in_4bit=True, load_in_8bit=False,
                  bnb_4bit_quant_type=kind, bnb_4bit_use_double_quant=nested,
                  bnb_4bit_quant_storage="uint8")

    def make(random, stem, shape):
        n, k = shape
        codes = random.integers(0, 16, n * k).astype(np.uint8)
        blocks = n * k // block
        state = dict(quant_type=kind, blocksize=block, dtype="bfloat16", shape=[n, k])
        weight = stem + ".weight"
        tensors = {weight: ((codes[::2] << 4) | codes[1::2]).reshape(-1, 1),
                   weight + ".quant_map": levels}
        if nested:
            offset = 0.0625
            outer = (0.02 * (0.5 + random.random(-(-blocks // 256)))).astype(np.float32)
            steps = np.linspace(-1, 1, 256).astype(np.float32)
            inner = random.integers(0, 256, blocks).astype(np.uint8)
            absmax = steps[inner].astype(np.float64) * outer[np.arange(blocks) // 256] + offset
            state |= dict(nested_blocksize=256, nested_dtype="float32", nested_offset=offset)
            tensors |= {weight + ".absmax": inner, weight + ".nested_absmax": outer,
                        weight + ".nested_quant_map": steps}
        else:
            absmax = (0.1 * (0.5 + random.random(blocks))).astype(np.float32)
            tensors[weight + ".absmax"] = absmax
        tensors[weight + ".quant_state.bitsandbytes__" + kind] = \
            np.frombuffer(json.dumps(state).encode(), np.uint8)
        values = levels.astype(np.float64)[codes] * np.repeat(absmax, block)
        return values.reshape(n, k), tensors
    return config, make


def bitsandbytes8():
    def make(random, stem, shape):
        codes = random.integers(-127, 128, shape).astype(np.int8)
        largest = (0.1 * (0.5 + random.random(shape[0]))).astype(np.float32)
        return codes * largest.astype(np.float64)[:, None] / 127, {
            stem + ".weight": codes, stem + ".SCB": largest,
            stem + ".weight_format": np.array(0, np.uint8)}
    return dict(quant_method="bitsandbytes", load_in_8bit=True, load_in_4bit=False), make


def hqq(bits, group):
    config = dict(quant_method="hqq", quant_config=dict(weight_quant_params=dict(
        nbits=bits, group_size=group, axis=1, channel_wise=True, optimize=True,
        round_zero=False, view_as_float=False)), skip_modules=["lm_head"])

    def make(random, stem, shape):
        n, k = shape
        codes = random.integers(0, 2 ** bits, (n * k // group, group))
        scales = (0.25 / 2 ** bits * (0.5 + random.random((len(codes), 1)))).astype(np.float16)
        zeros = (2 ** bits * random.random((len(codes), 1))).astype(np.float16)
        values = (codes - zeros.astype(np.float64)) * scales.astype(np.float64)
        planes, width = (10, np.int32) if bits == 3 else (8 // bits, np.uint8)
        step = -(-len(codes) // planes)
        padded = np.zeros((step * planes, group), np.uint32)
        padded[:len(codes)] = codes
        words = np.zeros((step, group), np.uint32)
        for plane in range(planes):
            words |= padded[plane * step:(plane + 1) * step] << bits * (planes - 1 - plane)
        return values.reshape(n, k), {stem + ".W_q": words.astype(width), stem + ".scale": scales,
                                      stem + ".zero": zeros,
                                      stem + ".shape": np.array(shape, np.int64)}
    return config, make


def nvfp4(config, codes_name, common_name, divides):
    """E2M1 with a scale in E4M3 for 16 values and one in f32 for all, a factor or a divisor."""
    def make(random, stem, shape):
        n, k = shape
        codes = random.integers(0, 16, shape)
        scales = F8(random.integers(1, 0x7f, (n, k // 16)))
        common = np.float32(1e-4 * (0.5 + random.random()))
        stored = np.float32(1) / common if divides else common
        factor = 1 / np.float64(stored) if divides else np.float64(stored)
        values = np.array(E2M1)[codes] * np.repeat(scales.values, 16, axis=1) * factor
        return values, {stem + codes_name: (codes[:, 0::2] | codes[:, 1::2] << 4).astype(np.uint8),
                        stem + ".weight_scale": scales,
                        stem + common_name: stored.reshape((1,) if divides else ()),
                        stem + (".input_global_scale" if divides else ".input_scale"):
                            np.float32(0.01).reshape((1,) if divides else ())}
    return config, make


NVFP4_WEIGHTS = dict(num_bits=4, type="float", group_size=16, dynamic=False)
SMALL_BLOCKS = dict(quant_method="fp8", activation_scheme="dynamic", weight_block_size=[48, 32])
CASES = {
    "gptq_2bit": gptq(2, 32), "gptq_3bit_order": gptq(3, 32, order=True),
    "gptq_4bit": gptq(4, 64), "gptq_4bit_order": gptq(4, 32, order=True, symmetric=True),
    "gptq_4bit_column_v2": gptq(4, -1, second=True), "gptq_8bit": gptq(8, 32),
    "awq_4bit": awq(32),
    "ct_w4a16": packed(4, 32, True), "ct_w4a16_zeros": packed(4, 64, False),
    "ct_w8a16": packed(8, None, True), "ct_w8a8": integers(),
    "ct_fp8": float8(scheme("float-quantized", dict(num_bits=8, type="float", symmetric=True,
                                                    strategy="channel")),
                     ".weight_scale", 1, 0),
    "fp8_partial_blocks": float8(SMALL_BLOCKS, ".weight_scale_inv", 48, 32),
    "fp8_one_scale": float8(dict(quant_method="fp8", activation_scheme="static"),
                            ".weight_scale", 0, 0),
    "bnb_nf4": bitsandbytes4("nf4", False), "bnb_nf4_nested": bitsandbytes4("nf4", True),
    "bnb_fp4": bitsandbytes4("fp4", False), "bnb_int8": bitsandbytes8(),
    "ct_nvfp4": nvfp4(scheme("nvfp4-pack-quantized", NVFP4_WEIGHTS |
                             dict(strategy="tensor_group", symmetric=True)),
                      ".weight_packed", ".weight_global_scale", True),
    "modelopt_nvfp4": nvfp4(dict(quant_method="modelopt", quant_algo="NVFP4", ignore=["lm_head"],
                                 producer=dict(name="modelopt"), config_groups=dict(group_0=dict(
                                     targets=["Linear"], weights=NVFP4_WEIGHTS))),
                            ".weight", ".weight_scale_2", False),
    "hqq_4bit": hqq(4, 64), "hqq_3bit": hqq(3, 64), "hqq_2bit": hqq(2, 32),
}


def products(matrices):
    rows = []
    for r in range(2):
        outputs = []
        for values in matrices:
            k = np.arange(1, values.shape[1] + 1)
            outputs.append(values @ np.sin(0.37 * k * (r + 1)).astype(np.float32).astype(np.float64))
        rows.append(np.concatenate(outputs))
    return np.stack(rows).astype(np.float32)


def write(name, config, tensors, matrices):
    folder = OUT / name
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    (folder / "config.json").write_text(json.dumps(config, indent=1) + "\n")
    write_safetensors(folder / "model.safetensors", tensors)
    np.save(folder / "products.npy", products(matrices))


def llama(name, quantization, make):
    hidden = 32 if name in SMALL else 64
    random = np.random.default_rng(list(name.encode()))
    prefix = "model.layers.0."
    tensors = {"model.embed_tokens.weight": BF16(random.normal(size=(VOCABULARY, hidden))),
               "model.norm.weight": BF16(1 + 0.1 * random.normal(size=hidden)),
               prefix + "input_layernorm.weight": BF16(1 + 0.1 * random.normal(size=hidden)),
               prefix + "post_attention_layernorm.weight": BF16(1 + 0.1 * random.normal(size=hidden))}
    matrices = []
    for stem, shape in shapes(hidden).items():
        values, parts = make(random, prefix + stem, shape)
        matrices.append(values)
        tensors |= parts
    if name == "gptq_4bit":  # as AutoGPTQ writes where there is no bias
        tensors[prefix + "self_attn.o_proj.bias"] = np.zeros(hidden, np.float16)
    write(name, LLAMA | dict(hidden_size=hidden, quantization_config=quantization), tensors, matrices)


def gpt_oss(name):
    """Experts in MXFP4, gate and up in turn; the rest in BF16."""
    random = np.random.default_rng(7)
    hidden, experts, width = 32, 3, 32
    config = dict(architectures=["GptOssForCausalLM"], model_type="gpt_oss", hidden_size=hidden,
                  intermediate_size=width, num_hidden_layers=1, num_attention_heads=2,
                  num_key_value_heads=1, head_dim=32, vocab_size=VOCABULARY,
                  max_position_embeddings=64, num_local_experts=experts, num_experts_per_tok=2,
                  sliding_window=16, layer_types=["full_attention"], rms_norm_eps=1e-5,
                  rope_theta=10000.0, tie_word_embeddings=False, attention_bias=True,
                  quantization_config=dict(quant_method="mxfp4", modules_to_not_convert=["lm_head"]))
    prefix = "model.layers.0."

    def plain(*shape):
        return BF16(0.1 * random.normal(size=shape))
    tensors = {"model.embed_tokens.weight": plain(VOCABULARY, hidden),
               "lm_head.weight": plain(VOCABULARY, hidden), "model.norm.weight": plain(hidden),
               prefix + "input_layernorm.weight": plain(hidden),
               prefix + "post_attention_layernorm.weight": plain(hidden),
               prefix + "self_attn.sinks": plain(2), prefix + "mlp.router.weight": plain(experts, hidden),
               prefix + "mlp.router.bias": plain(experts)}
    matrices = []
    for stem, rows, columns in [("q", 64, hidden), ("k", 32, hidden), ("v", 32, hidden), ("o", hidden, 64)]:
        weight = plain(rows, columns)
        tensors[f"{prefix}self_attn.{stem}_proj.weight"] = weight
        tensors[f"{prefix}self_attn.{stem}_proj.bias"] = plain(rows)
        matrices.append(weight.values.astype(np.float64))
    matrices.append(tensors[prefix + "mlp.router.weight"].values.astype(np.float64))
    stacked = {}
    for stem, rows, columns in [("gate_up_proj", 2 * width, hidden), ("down_proj", hidden, width)]:
        codes = random.integers(0, 16, (experts, rows, columns))
        scales = random.integers(121, 126, (experts, rows, columns // 32))
        pairs = codes.reshape(experts, rows, columns // 32, 16, 2)
        name_of = f"{prefix}mlp.experts.{stem}"
        tensors[name_of + "_blocks"] = (pairs[..., 0] | pairs[..., 1] << 4).astype(np.uint8)
        tensors[name_of + "_scales"] = scales.astype(np.uint8)
        tensors[name_of + "_bias"] = plain(experts, rows)
        stacked[stem] = np.array(E2M1)[codes] * np.repeat(2.0 ** (scales - 127), 32, axis=2)
    for expert in range(experts):
        matrices += [stacked["gate_up_proj"][expert][0::2], stacked["gate_up_proj"][expert][1::2],
                     stacked["down_proj"][expert]]
    write(name, config, tensors, matrices)


def write_seeds():
    """tests/fuzz/corpus/published: the config on a line, then a file with one small matrix."""
    folder = OUT.parents[1] / "fuzz" / "corpus" / "published"
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    for name in ("gptq_3bit_order", "awq_4bit", "ct_w4a16_zeros", "ct_w8a8", "fp8_partial_blocks",
                 "bnb_nf4_nested", "bnb_int8", "hqq_3bit", "ct_nvfp4", "modelopt_nvfp4"):
        quantization, make = CASES[name]
        _, tensors = make(np.random.default_rng(1), "q", (32, 64))
        write_safetensors(folder / name, tensors)
        line = json.dumps(quantization).encode() + b"\n"
        (folder / name).write_bytes(line + (folder / name).read_bytes())
    # Configs that leave the form of a matrix to its tensors, in front of those of others.
    four, eight = (dict(weights=dict(num_bits=bits, strategy="group", group_size=32, symmetric=False)) for bits in (4, 8))
    for name, source, config in (
            ("auto_round", "gptq_3bit_order", dict(quant_method="auto-round", packing_format="auto_round", bits=4, sym=False,
                                                   group_size=32, extra_config=dict(q=dict(bits=3)))),
            ("modelopt_mixed", "modelopt_nvfp4", dict(
                quant_method="modelopt", quant_algo="MIXED_PRECISION",
                quantized_layers=dict(q=dict(quant_algo="NVFP4", group_size=16), k=dict(quant_algo="MXFP8")))),
            ("modelopt_fp8", "fp8_partial_blocks", dict(quant_method="modelopt", quant_algo="FP8_PB_WO")),
            ("ct_groups", "ct_w4a16_zeros", dict(quant_method="compressed-tensors", format="pack-quantized",
                                                 config_groups=dict(a=four, b=eight)))):
        file = (folder / source).read_bytes().split(b"\n", 1)[1]
        (folder / name).write_bytes(json.dumps(config).encode() + b"\n" + file)
    pairs = np.arange(2 * 32 * 16, dtype=np.uint32).astype(np.uint8).reshape(2, 16, 2, 16)
    write_safetensors(folder / "mxfp4", {"q_blocks": pairs,
                                         "q_scales": np.full((2, 16, 2), 120, np.uint8)})
    (folder / "mxfp4").write_bytes(b'{"quant_method": "mxfp4"}\n' + (folder / "mxfp4").read_bytes())


def main():
    if not sys.argv[1:]:
        write_seeds()
    wanted = sys.argv[1:]
    for name, (quantization, make) in CASES.items():
        if not wanted or name in wanted:
            llama(name, quantization, make)
    if not wanted or "mxfp4_experts" in wanted:
        gpt_oss("mxfp4_experts")


if __name__ == "__main__":
    main()
