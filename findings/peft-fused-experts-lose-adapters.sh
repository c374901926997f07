#!/usr/bin/env bash
# PEFT 0.21.2 takes a LoRA adapter that was trained when each expert was a module of its own (transformers 4) to the
# experts of transformers 5.24.0, which are one tensor, and loses parts of it on the way. Which parts depends on the
# family. DeepSeek-V3, GLM-4.5 and ERNIE 4.5: what the adapter has for the shared experts and the dense first layers,
# where their matrices have the same names as the experts'. Qwen2-MoE: all of the routed experts. And with
# use_rslora, gate and up of every expert get sqrt(2) times what they should: the conversion doubles rank and alpha,
# which keeps alpha / r but not alpha / sqrt(r). No error, and no warning that names a lost tensor (there is one on
# patterns of PEFT's own that match nothing). The model still answers, by half of the adapter.
#
# Seen on 2026-11-30 (Python 3.11, x86-64, torch 2.15.0; torch and its CUDA libraries are a download of 3 GB), share of
# what the adapter says that is in the merged model:
#                experts: gate, up   down   shared experts   dense layers   gate, up with use_rslora
#   mixtral                1         1      -                -              1.414
#   qwen3_moe              1         1      -                -              1.414
#   deepseek_v3            1         1      0                0              1.414
#   glm4_moe               1         1      0                0              1.414
#   qwen2_moe              0         0      1                -              0
# Fails where that is no longer so.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install -q torch==2.15.0 transformers==5.24.0 peft==0.21.2 accelerate==1.15.0 safetensors==0.8.0
cd "$folder"
OMP_NUM_THREADS=1 venv/bin/python - <<'PYTHON'
import json
import math
import os

import peft
import torch
import transformers
from safetensors.torch import load_file, save_file
from transformers import AutoConfig, AutoModelForCausalLM

transformers.logging.set_verbosity_error()
torch.manual_seed(0)
SIZES = {"vocab_size": 97, "hidden_size": 32, "intermediate_size": 40, "num_hidden_layers": 2, "num_attention_heads": 4,
         "num_key_value_heads": 2, "head_dim": 8, "pad_token_id": 0, "num_experts_per_tok": 2}
EXPERTS = {"moe_intermediate_size": 48, "n_routed_experts": 4, "n_shared_experts": 1, "first_k_dense_replace": 1,
           "n_group": 1, "topk_group": 1}
LATENT = {"kv_lora_rank": 16, "q_lora_rank": 16, "qk_rope_head_dim": 8, "qk_nope_head_dim": 8, "v_head_dim": 16}
FAMILIES = {"mixtral": {"num_local_experts": 4},
            "qwen3_moe": {"num_experts": 4, "moe_intermediate_size": 48},
            "deepseek_v3": EXPERTS | LATENT,
            "glm4_moe": EXPERTS,
            "qwen2_moe": {"num_experts": 4, "moe_intermediate_size": 48, "shared_expert_intermediate_size": 56}}
RANK, ALPHA = 4, 8


def kind_of(name):
    part = "shared" if "shared_expert" in name else "experts" if ".experts." in name else "dense"
    return part, "down" if name.split(".")[-2] in ("w2", "down_proj") else "gate, up"


def shares(family, stabilised):
    """what part of each change of a matrix the merged model has, by kind of matrix"""
    folder = f"{family}-{stabilised}"
    os.makedirs(f"{folder}/adapter")
    model = AutoModelForCausalLM.from_config(AutoConfig.for_model(family, **SIZES, **FAMILIES[family]))
    for parameter in model.parameters():
        if parameter.dim() > 1:
            torch.nn.init.normal_(parameter, std=0.1)
    model.save_pretrained(f"{folder}/base")  # an expert has tensors of its own in the file, as it had before
    base = load_file(f"{folder}/base/model.safetensors")
    targets = {"w1", "w2", "w3"} if family == "mixtral" else {"gate_proj", "up_proj", "down_proj"}
    scale = ALPHA / (math.sqrt(RANK) if stabilised else RANK)
    adapter, changes = {}, {}
    for name, matrix in base.items():
        if name.split(".")[-2] in targets:
            down, up = torch.randn(RANK, matrix.shape[1]), torch.randn(matrix.shape[0], RANK)
            stem = "base_model.model." + name.removesuffix(".weight")
            adapter |= {stem + ".lora_A.weight": down, stem + ".lora_B.weight": up}
            changes[name] = scale * up @ down
    save_file(adapter, f"{folder}/adapter/adapter_model.safetensors")
    with open(f"{folder}/adapter/adapter_config.json", "w") as file:
        json.dump({"peft_type": "LORA", "task_type": "CAUSAL_LM", "base_model_name_or_path": f"{folder}/base",
                   "r": RANK, "lora_alpha": ALPHA, "use_rslora": stabilised, "target_modules": sorted(targets),
                   "bias": "none", "lora_dropout": 0.0, "inference_mode": True}, file)
    adapted = peft.PeftModel.from_pretrained(AutoModelForCausalLM.from_pretrained(f"{folder}/base"),
                                             f"{folder}/adapter")
    adapted.merge_and_unload().save_pretrained(f"{folder}/merged")
    merged, found = load_file(f"{folder}/merged/model.safetensors"), {}
    for name, change in changes.items():
        share = ((merged[name] - base[name]) * change).sum() / (change * change).sum()
        found.setdefault(kind_of(name), set()).add(round(share.item(), 3))
    return found


for family in FAMILIES:
    plain, stabilised = shares(family, False), shares(family, True)
    print(family, plain, "use_rslora:", stabilised)
    lost = {"deepseek_v3": {"shared", "dense"}, "glm4_moe": {"shared", "dense"}, "qwen2_moe": {"experts"}}
    for found in (plain, stabilised):
        for (part, side), values in found.items():
            expected = 0 if part in lost.get(family, ()) else 1
            if found is stabilised and part == "experts" and side == "gate, up" and expected:
                expected = 1.414
            assert values == {expected}, (part, side, values)
print("as it was seen")
PYTHON
