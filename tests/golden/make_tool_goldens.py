#!/usr/bin/env python3
"""Makes tests/golden/published/by_<tool>_<case>/: a tiny Llama, quantised and written by the formats' own tools.

    pip install torch transformers bitsandbytes hqq llmcompressor gptqmodel nvidia-modelopt
    tests/golden/make_tool_goldens.py [case ...]

AutoAWQ needs an older transformers (4.51.3), and so an environment of its own, with the cases autoawq_…;
gptqmodel's products are computed as they are written with TORCHDYNAMO_DISABLE=1, else after long compiling.

Each case is the folder that the tool wrote, plus products.npy as make_published_goldens.py makes it:
x · Wᵀ in float64 of the matrices as the tool itself takes them apart, so that neither our writing of a
layout nor our reading of it is in what is wanted. A tool that is not installed is left out, with a line.
"""
import contextlib
import copy
import json
import pathlib
import shutil
import sys
import tempfile

import numpy as np
import tokenizers
import torch
import transformers

from make_published_goldens import OUT, VOCABULARY, products

MATRICES = ["self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj", "self_attn.o_proj",
            "mlp.gate_proj", "mlp.up_proj", "mlp.down_proj"]
# What a folder needs of what tools write.
KEPT = {"config.json", "hf_quant_config.json", "model.safetensors"}


def base(folder, key_value_heads):
    """Full-precision weights with a few large ones, which ranges have to cover."""
    torch.manual_seed(1)
    config = transformers.LlamaConfig(
        hidden_size=64, intermediate_size=128, num_hidden_layers=1, num_attention_heads=2,
        num_key_value_heads=key_value_heads, vocab_size=VOCABULARY, max_position_embeddings=64,
        tie_word_embeddings=True, bos_token_id=1, eos_token_id=2)
    model = transformers.LlamaForCausalLM(config).to(torch.bfloat16)
    with torch.no_grad():
        for parameter in model.parameters():
            if parameter.ndim == 2:
                parameter.normal_(0, 0.08)
                parameter.view(-1)[::97] *= 6
            else:
                parameter.normal_(1, 0.1)
    model.save_pretrained(folder)
    words = tokenizers.models.WordLevel({f"w{i}": i for i in range(VOCABULARY)}, unk_token="w0")
    transformers.PreTrainedTokenizerFast(tokenizer_object=tokenizers.Tokenizer(words), bos_token="w1",
                                         eos_token="w2", pad_token="w0").save_pretrained(folder)


def calibration():
    random = np.random.default_rng(3)
    return [random.integers(3, VOCABULARY, 48).tolist() for _ in range(64)]


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


def unrounded_nvfp4(folder):
    """Loading a folder would round the values to bf16: the same functions of compressed-tensors in float64."""
    from compressed_tensors.compressors.nvfp4.helpers import unpack_fp4_from_uint8
    from compressed_tensors.quantization import QuantizationArgs
    from compressed_tensors.quantization.lifecycle.forward import dequantize
    from safetensors.torch import load_file
    tensors = load_file(folder / "model.safetensors")
    how = json.loads((folder / "config.json").read_text())["quantization_config"]
    args = QuantizationArgs(**how["config_groups"]["group_0"]["weights"])
    matrices = []
    for stem in (f"model.layers.0.{name}.weight_" for name in MATRICES):
        packed = tensors[stem + "packed"]
        codes = unpack_fp4_from_uint8(packed, packed.shape[0], 2 * packed.shape[1], torch.float64)
        matrices.append(dequantize(codes, tensors[stem + "scale"].double(), args=args,
                                   dtype=torch.float64,
                                   global_scale=tensors[stem + "global_scale"].double()))
    return matrices


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
        if scheme == "NVFP4A16":
            return unrounded_nvfp4(out)
        unpacked = transformers.CompressedTensorsConfig(run_compressed=False)
        return [linear.weight for linear in
                linears(loaded(out, quantization_config=unpacked, dtype=torch.float32))]
    return make


def compressed_mixed(attention, mlp):
    """Two schemes in one folder; taken apart by compressed-tensors in float64, since transformers 5.24 takes one."""
    def make(source, out):
        from compressed_tensors.compressors import BaseCompressor
        from compressed_tensors.quantization import QuantizationArgs, QuantizationScheme
        from llmcompressor import oneshot
        from llmcompressor.modifiers.quantization import QuantizationModifier
        from safetensors.torch import load_file
        schemes = {"self_attn": QuantizationScheme(targets=["re:.*self_attn.*"], weights=QuantizationArgs(**attention)),
                   "mlp": QuantizationScheme(targets=["re:.*mlp.*"], weights=QuantizationArgs(**mlp))}
        model = loaded(source, dtype=torch.bfloat16)
        oneshot(model=model, recipe=QuantizationModifier(
            config_groups=dict(zip(("group_0", "group_1"), schemes.values())), ignore=["lm_head"]))
        model.save_pretrained(out, save_compressed=True)
        tensors = load_file(out / "model.safetensors")
        groups = json.loads((out / "config.json").read_text())["quantization_config"]["config_groups"].values()
        matrices = []
        for name in MATRICES:
            stem = f"model.layers.0.{name}."
            own = {key.removeprefix(stem): value.double() if value.dtype == torch.bfloat16 else value
                   for key, value in tensors.items() if key.startswith(stem)}
            scheme = schemes[name.split(".", maxsplit=1)[0]]
            form = next(group["format"] for group in groups if group["targets"] == scheme.targets)
            matrices.append(BaseCompressor.get_value_from_registry(form).decompress(own, scheme)["weight"])
        return matrices
    return make


def modelopt_matrix(codes, scale, scale_2):
    """By the classes of ModelOpt itself, in float64."""
    from modelopt.torch.quantization.qtensor import FP8QTensor, MXFP8QTensor, NVFP4QTensor
    if codes.dtype == torch.uint8:
        matrix = NVFP4QTensor((codes.shape[0], 2 * codes.shape[1]), torch.float64, codes)
        return matrix.dequantize(scale=scale.double(), block_sizes={-1: 16}, double_scale=scale_2.double())
    if scale.dtype == torch.uint8:
        return MXFP8QTensor(codes.shape, torch.float64, codes).dequantize(scale=scale)
    return FP8QTensor(codes.shape, torch.float64, codes).dequantize(scale=scale.double())


def modelopt(name, mlp=None):
    """By one of ModelOpt's configurations, and perhaps another one for the MLP, in its layout for Hugging Face."""
    def make(source, out):
        import modelopt.torch.quantization as quantization
        from modelopt.torch.export import export_hf_checkpoint
        from safetensors.torch import load_file
        model = loaded(source, dtype=torch.bfloat16)
        how = copy.deepcopy(getattr(quantization, name))
        if mlp:
            own = [dict(each, quantizer_name="*mlp" + each["quantizer_name"])
                   for each in getattr(quantization, mlp)["quant_cfg"]
                   if each["quantizer_name"] in ("*weight_quantizer", "*input_quantizer")]
            how["quant_cfg"][3:3] = own  # after those of all, before those that are left out
        quantization.quantize(model, how, lambda own: own(torch.tensor(calibration())))
        export_hf_checkpoint(model, export_dir=out)
        tensors = load_file(out / "model.safetensors")
        return [modelopt_matrix(*(tensors.get(f"model.layers.0.{matrix}.weight{suffix}")
                                  for suffix in ("", "_scale", "_scale_2"))) for matrix in MATRICES]
    return make


def gptqmodel(**options):
    def make(source, out):
        from gptqmodel import GPTQModel, QuantizeConfig
        from gptqmodel.quantization.awq.utils.packing_utils import dequantize_gemm
        from gptqmodel.utils.backend import BACKEND
        model = GPTQModel.load(str(source), QuantizeConfig(
            device="cpu", offload_to_disk=False, pack_impl="original", **options))
        model.quantize([dict(input_ids=tokens, attention_mask=[1] * len(tokens))
                        for tokens in calibration()], batch_size=8)
        model.save(str(out))
        config = json.loads((out / "config.json").read_text())
        quantization = config["quantization_config"]
        quantization["meta"] = {"quantizer": quantization["meta"]["quantizer"]}  # the rest: how and where
        (out / "config.json").write_text(json.dumps(config, indent=1) + "\n")
        awq = options.get("method") == "awq"
        backend = BACKEND.AWQ_TORCH if awq else BACKEND.GPTQ_TORCH
        matrices = []
        # Scales are stored in f16; the model's own element type, bf16, would round them.
        read = GPTQModel.load(str(out), device="cpu", backend=backend, dtype=torch.float16)
        for linear in linears(read.model.eval()):
            if isinstance(linear, torch.nn.Linear):
                matrices.append(linear.weight)
                continue
            linear.scales = linear.scales.double()  # what is computed with them is so too
            matrices.append((dequantize_gemm(linear.qweight, linear.qzeros, linear.scales, linear.bits,
                                             linear.group_size) if awq
                             else linear.dequantize_weight()).T)
        return matrices
    return make


def autoawq(group):
    def make(source, out):
        from awq import AutoAWQForCausalLM
        from awq.utils.packing_utils import dequantize_gemm
        model = AutoAWQForCausalLM.from_pretrained(str(source), device_map="cpu")
        tokenizer = transformers.PreTrainedTokenizerFast.from_pretrained(source)
        model.quantize(tokenizer, calib_data=calibration(), max_calib_seq_len=48, quant_config=dict(
            zero_point=True, q_group_size=group, w_bit=4, version="GEMM"))
        model.save_quantized(str(out))
        return [dequantize_gemm(linear.qweight, linear.qzeros, linear.scales.double(), linear.w_bit,
                                linear.group_size).T for linear in linears(model.model)]
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
    "llmcompressor_nvfp4": compressed("NVFP4A16"),
    "modelopt_nvfp4": modelopt("NVFP4_DEFAULT_CFG"),
    "modelopt_nvfp4_weights": modelopt("W4A16_NVFP4_CFG"),
    "modelopt_mixed": modelopt("FP8_DEFAULT_CFG", mlp="W4A16_NVFP4_CFG"),
    "modelopt_mxfp8": modelopt("MXFP8_DEFAULT_CFG"),
    "llmcompressor_mixed": compressed_mixed(
        dict(num_bits=4, strategy="group", group_size=32),
        dict(num_bits=8, type="float", strategy="group", group_size=32, scale_dtype=torch.uint8)),
    "gptqmodel_2bit": gptqmodel(bits=2, group_size=32, sym=False, desc_act=False),
    "gptqmodel_3bit_order": gptqmodel(bits=3, group_size=32, sym=False, desc_act=True),
    "gptqmodel_4bit": gptqmodel(bits=4, group_size=64, sym=True, desc_act=False),
    "gptqmodel_4bit_order_v2": gptqmodel(bits=4, group_size=32, sym=False, desc_act=True,
                                         format="gptq_v2"),
    "gptqmodel_8bit_column_v2": gptqmodel(bits=8, group_size=-1, sym=False, desc_act=True,
                                          format="gptq_v2"),
    "gptqmodel_dynamic": gptqmodel(bits=4, group_size=32, sym=True, desc_act=False, dynamic={
        r"+:.*\.(?:gate|up)_proj.*": dict(bits=8, group_size=64), r"-:.*\.down_proj.*": {}}),
    "gptqmodel_3bit_planes": gptqmodel(bits=3, group_size=32, sym=False, desc_act=False,
                                       format="gptq_p"),
    "gptqmodel_7bit_planes": gptqmodel(bits=7, group_size=32, sym=True, desc_act=False),
    "gptqmodel_awq_3bit": gptqmodel(method="awq", format="gemm", bits=3, group_size=32, sym=False),
    "gptqmodel_awq_symmetric": gptqmodel(method="awq", format="gemm", bits=4, group_size=32, sym=True),
    "autoawq_4bit": autoawq(32), "autoawq_4bit_64": autoawq(64),
}


def main():
    chosen = sys.argv[1:] or list(CASES)
    with tempfile.TemporaryDirectory() as work, contextlib.chdir(work):  # some write their logs here
        for heads in (1, 2):
            base(pathlib.Path(work) / f"base{heads}", heads)
        for name in chosen:
            made = pathlib.Path(work) / name
            # Both searches for AWQ's ranges take 64 rows at a time.
            source = pathlib.Path(work) / ("base2" if "awq" in name else "base1")
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
