#!/usr/bin/env python3
"""Makes tests/golden/published/by_<tool>_<case>/: a tiny Llama, quantised and written by the formats' own tools.

    pip install torch transformers bitsandbytes hqq llmcompressor
    tests/golden/make_tool_goldens.py [case ...]

Each case is the folder that the tool wrote, plus products.npy as make_published_goldens.py makes it:
x · Wᵀ in float64 of the matrices as the tool itself takes them apart, so that neither our writing of a
layout nor our reading of it is in what is wanted. A tool that is not installed is left out, with a line.
"""
import json
import pathlib
import shutil
import sys
import tempfile

import numpy as np
import torch
import transformers

from make_published_goldens import OUT, products

MATRICES = ["self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj", "self_attn.o_proj",
            "mlp.gate_proj", "mlp.up_proj", "mlp.down_proj"]
# What a folder needs of what tools write.
KEPT = {"config.json", "model.safetensors"}


def base(folder):
    """Full-precision weights with a few large ones, which ranges have to cover."""
    torch.manual_seed(1)
    config = transformers.LlamaConfig(
        hidden_size=64, intermediate_size=128, num_hidden_layers=1, num_attention_heads=2,
        num_key_value_heads=1, vocab_size=16, max_position_embeddings=64, tie_word_embeddings=True,
        bos_token_id=1, eos_token_id=2)
    model = transformers.LlamaForCausalLM(config).to(torch.bfloat16)
    with torch.no_grad():
        for parameter in model.parameters():
            if parameter.ndim == 2:
                parameter.normal_(0, 0.08)
                parameter.view(-1)[::97] *= 6
            else:
                parameter.normal_(1, 0.1)
    model.save_pretrained(folder)


def linears(model):
    named = dict(model.named_modules())
    return [named["model.layers.0." + name] for name in MATRICES]


def loaded(folder, **options):
    return transformers.AutoModelForCausalLM.from_pretrained(folder, device_map="cpu", **options)


def bitsandbytes(**options):
    def make(source, out):
        import bitsandbytes.functional as functional
        config = transformers.BitsAndBytesConfig(**options)
        loaded(source, quantization_config=config).save_pretrained(out)
        matrices = []
        for linear in linears(loaded(out)):
            weight = linear.weight
            if linear.weight.dtype == torch.int8:
                scales = linear.state.SCB if linear.state.SCB is not None else weight.SCB
                matrices.append(weight.double() * scales.double()[:, None] / 127)
                continue
            state = weight.quant_state
            state.dtype = torch.float32  # as it is, not rounded to what is computed in
            matrices.append(functional.dequantize_4bit(weight.data, state))
        return matrices
    return make


def hqq(bits, group):
    """As transformers 4 saved it: the state of hqq's own modules; transformers 5.24 does not write it."""
    def make(source, out):
        from hqq.core.quantize import BaseQuantizeConfig, HQQLinear, Quantizer
        from safetensors.torch import save_file
        model = loaded(source, dtype=torch.float16)
        tensors = model.state_dict()
        tensors.pop("lm_head.weight")  # tied
        matrices = []
        for name, linear in zip(MATRICES, linears(model)):
            stem = f"model.layers.0.{name}"
            made = HQQLinear(linear, BaseQuantizeConfig(nbits=bits, group_size=group, axis=1),
                             compute_dtype=torch.float16, device="cpu", del_orig=False)
            del tensors[stem + ".weight"]
            tensors |= {f"{stem}.{key}": value for key, value in made.state_dict().items()}
            exact = {key: made.meta[key].double() for key in ("scale", "zero")}
            matrices.append(Quantizer.dequantize(
                made.W_q, dict(made.meta) | exact | {"compute_dtype": torch.float64}))
        out.mkdir()
        save_file({key: value.contiguous() for key, value in tensors.items()}, out / "model.safetensors")
        config = model.config.to_dict()
        config.pop("_name_or_path")  # a folder of this run
        config["quantization_config"] = transformers.HqqConfig(
            nbits=bits, group_size=group, axis=1, skip_modules=["lm_head"]).to_dict()
        (out / "config.json").write_text(json.dumps(config, indent=1, default=str) + "\n")
        return matrices
    return make


def compressed(scheme=None, **weights):
    """By one of llm-compressor's schemes, or by what it is to do with weights."""
    def make(source, out):
        from compressed_tensors.quantization import QuantizationArgs, QuantizationScheme
        from llmcompressor import oneshot
        from llmcompressor.modifiers.quantization import QuantizationModifier
        groups = {"group_0": QuantizationScheme(targets=["Linear"], weights=QuantizationArgs(**weights))}
        recipe = (QuantizationModifier(targets="Linear", scheme=scheme, ignore=["lm_head"]) if scheme
                  else QuantizationModifier(config_groups=groups, ignore=["lm_head"]))
        model = loaded(source, dtype=torch.bfloat16)
        oneshot(model=model, recipe=recipe)
        model.save_pretrained(out, save_compressed=True)
        unpacked = transformers.CompressedTensorsConfig(run_compressed=False)
        return [linear.weight for linear in
                linears(loaded(out, quantization_config=unpacked, dtype=torch.float32))]
    return make


CASES = {
    "bnb_nf4": bitsandbytes(load_in_4bit=True, bnb_4bit_quant_type="nf4"),
    "bnb_nf4_nested": bitsandbytes(load_in_4bit=True, bnb_4bit_quant_type="nf4",
                                   bnb_4bit_use_double_quant=True),
    "bnb_fp4": bitsandbytes(load_in_4bit=True, bnb_4bit_quant_type="fp4"),
    "bnb_int8": bitsandbytes(load_in_8bit=True),
    "hqq_4bit": hqq(4, 64), "hqq_3bit": hqq(3, 64), "hqq_2bit": hqq(2, 32), "hqq_8bit": hqq(8, 64),
    "llmcompressor_w4a16": compressed(num_bits=4, strategy="group", group_size=32),
    "llmcompressor_w4a16_zeros": compressed(num_bits=4, strategy="group", group_size=64,
                                            symmetric=False),
    "llmcompressor_w8a16": compressed(num_bits=8, strategy="channel"),
    "llmcompressor_w8a8": compressed("W8A8"), "llmcompressor_fp8": compressed("FP8_DYNAMIC"),
    "llmcompressor_fp8_block": compressed("FP8_BLOCK"), "llmcompressor_mxfp4": compressed("MXFP4A16"),
}


def main():
    chosen = sys.argv[1:] or list(CASES)
    with tempfile.TemporaryDirectory() as work:
        source = pathlib.Path(work) / "base"
        base(source)
        for name in chosen:
            made = pathlib.Path(work) / name
            try:
                matrices = [matrix.detach().double().numpy() for matrix in CASES[name](source, made)]
            except ImportError as error:
                print(f"{name}: left out, {error}")
                continue
            folder = OUT / f"by_{name}"
            shutil.rmtree(folder, ignore_errors=True)
            folder.mkdir()
            for file in made.iterdir():
                if file.name in KEPT:
                    shutil.copy(file, folder)
            np.save(folder / "products.npy", products(matrices))
            print(f"{name}: {sum(file.stat().st_size for file in folder.iterdir())} bytes")


if __name__ == "__main__":
    main()
