#!/usr/bin/env bash
# transformers 5 keeps the experts of a layer as one tensor of three dimensions, no longer as modules of their own.
# bitsandbytes 0.50.2 (load_in_4bit, load_in_8bit) and torchao 0.18.0 (TorchAoConfig, quantize_) quantise modules of the
# class Linear, and so they leave all experts as they are, in bf16, without a warning; only attention becomes smaller.
# In Qwen3-30B-A3B experts are 29 of 30.5 billion weights: "in 4 bits" it takes 60 GB in place of 61 (by arithmetic), and
# whoever measures what the quantisation costs in quality measures a model whose experts were never quantised. The
# config of the loaded model says the quantisation that was asked for.
#
# Seen on 2026-11-30 (Python 3.11, x86-64, torch 2.15.0; torch and its CUDA libraries are a download of 3 GB), one small
# model of each family, types of the weights of attention and experts, and warnings:
#   qwen3_moe, mixtral, gpt_oss, deepseek_v3
#     bitsandbytes, 4 bits   uint8, bfloat16    none
#     bitsandbytes, 8 bits   int8, bfloat16     none
#     torchao, int8          Int8Tensor, plain bfloat16   none
# Fails where that is no longer so.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install -q torch==2.15.0 transformers==5.24.0 bitsandbytes==0.50.2 torchao==0.18.0 accelerate==1.15.0
cd "$folder"
cat > see.py <<'PYTHON'
import logging
import warnings

import torch
import transformers
from torchao.quantization import Int8WeightOnlyConfig, quantize_
from transformers import AutoConfig, AutoModelForCausalLM, BitsAndBytesConfig, TorchAoConfig

said = []


class Listener(logging.Handler):
    def emit(self, record):
        if record.levelno >= logging.WARNING:
            said.append(record.getMessage())


transformers.logging.get_logger("transformers").addHandler(Listener())
shape = {"hidden_size": 128, "intermediate_size": 128, "num_hidden_layers": 1, "num_attention_heads": 2,
         "num_key_value_heads": 2, "vocab_size": 256, "max_position_embeddings": 4096}
families = {
    "qwen3_moe": {"num_experts": 4, "num_experts_per_tok": 2, "moe_intermediate_size": 128, "head_dim": 64},
    "mixtral": {"num_local_experts": 4},
    "gpt_oss": {"num_local_experts": 4, "num_experts_per_tok": 2, "head_dim": 64},
    "deepseek_v3": {"n_routed_experts": 4, "num_experts_per_tok": 2, "moe_intermediate_size": 128, "n_group": 1,
                    "topk_group": 1, "first_k_dense_replace": 0, "q_lora_rank": 64, "kv_lora_rank": 64,
                    "qk_nope_head_dim": 64, "qk_rope_head_dim": 64, "v_head_dim": 64}}


def loaded(folder, config=None):
    return AutoModelForCausalLM.from_pretrained(folder, quantization_config=config, dtype=torch.bfloat16,
                                                device_map="cpu")


def by_hand(folder):
    model = loaded(folder)
    quantize_(model, Int8WeightOnlyConfig())
    return model


ways = {
    "bitsandbytes, 4 bits": lambda folder: loaded(folder, BitsAndBytesConfig(load_in_4bit=True)),
    "bitsandbytes, 8 bits": lambda folder: loaded(folder, BitsAndBytesConfig(load_in_8bit=True)),
    "torchao, TorchAoConfig": lambda folder: loaded(folder, TorchAoConfig(Int8WeightOnlyConfig())),
    "torchao, quantize_": by_hand}
for family, more in families.items():
    torch.manual_seed(0)
    model = AutoModelForCausalLM.from_config(AutoConfig.for_model(family, **(shape | more)))
    model.to(torch.bfloat16).save_pretrained(family)
    for way, make in ways.items():
        said.clear()
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            model = make(family)
        heard = [text for text in said + [str(each.message) for each in caught] if "expert" in text.lower()]
        weights = dict(model.named_parameters())
        attention = next(weight for name, weight in weights.items() if "q_proj.weight" in name or "q_b_proj" in name)
        experts = [weight for name, weight in weights.items() if name.endswith("experts.gate_up_proj")
                   or name.endswith("experts.down_proj")]
        print(family, way, type(attention).__name__, attention.dtype, "experts:",
              *{f"{type(each).__name__} {each.dtype}" for each in experts}, "words of experts:", heard)
        quantised = attention.dtype in (torch.uint8, torch.int8) or type(attention).__name__ == "Int8Tensor"
        assert quantised and len(experts) == 2 and not heard
        assert all(type(each) is torch.nn.Parameter and each.dtype == torch.bfloat16 for each in experts)
print("as it was seen")
PYTHON
venv/bin/python see.py
