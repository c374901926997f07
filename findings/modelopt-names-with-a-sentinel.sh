#!/usr/bin/env bash
# ModelOpt 0.47.0 with transformers 5.24.0 lists what a Nemotron-H checkpoint leaves in full precision under names
# that no module has: each entry of "ignore" (config.json) and of "exclude_modules" (hf_quant_config.json) ends in a
# NUL character and "backbone.pt_name_sentinel", a mark of the renaming between names in memory and in the file that
# was not taken off again. The tensors have the right names. Whoever follows the lists, as engines do, takes lm_head
# for a quantised matrix. A Llama of the same process has plain names.
#
# Seen on 2026-11-30 (Python 3.11, x86-64, torch 2.15.0; torch and its CUDA libraries are a download of 3 GB):
#   llama      ['lm_head', 'model.embed_tokens']
#   nemotron_h ['lm_head.\x00backbone.pt_name_sentinel', 'backbone.embeddings.\x00backbone.pt_name_sentinel', …]
# Fails where that is no longer so.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install -q torch==2.15.0 transformers==5.24.0 safetensors==0.8.0 accelerate omegaconf \
  nvidia-ml-py pulp ninja pydantic scipy requests datasets torchprofile
"$folder/venv/bin/pip" install -q --no-deps nvidia-modelopt==0.47.0
cd "$folder"
cat > made.py <<'PYTHON'
import json

import modelopt.torch.quantization as quantization
import torch
import transformers
from modelopt.torch.export import export_hf_checkpoint
from safetensors import safe_open

sizes = dict(hidden_size=64, intermediate_size=96, num_attention_heads=2, num_key_value_heads=1, head_dim=32,
             vocab_size=128, tie_word_embeddings=False)
configs = {"llama": transformers.LlamaConfig(num_hidden_layers=1, **sizes),
           "nemotron_h": transformers.NemotronHConfig(
               num_hidden_layers=3, hybrid_override_pattern="M*-", mamba_num_heads=2, mamba_head_dim=32,
               ssm_state_size=16, n_groups=1, chunk_size=16, **sizes)}
for name, config in configs.items():
    transformers.AutoModelForCausalLM.from_config(config).to(torch.bfloat16).save_pretrained(name)
    model = transformers.AutoModelForCausalLM.from_pretrained(name, dtype=torch.bfloat16).eval()
    quantization.quantize(model, quantization.FP8_DEFAULT_CFG, lambda own: own(torch.randint(0, 128, (1, 32))))
    export_hf_checkpoint(model, export_dir=f"{name}-fp8")
    ignored = json.load(open(f"{name}-fp8/config.json"))["quantization_config"]["ignore"]
    excluded = json.load(open(f"{name}-fp8/hf_quant_config.json"))["quantization"]["exclude_modules"]
    with safe_open(f"{name}-fp8/model.safetensors", "pt") as tensors:
        plain = "lm_head.weight" in tensors.keys() and not any("\0" in key for key in tensors.keys())
    print(f"{name}: {ignored}; tensors have plain names: {plain}")
    marked = [each.endswith("\0backbone.pt_name_sentinel") for each in ignored + excluded]
    assert plain and (all(marked) if name == "nemotron_h" else not any(marked)), excluded
PYTHON
OMP_NUM_THREADS=1 venv/bin/python made.py 2>> log | grep -a -E '^(llama|nemotron_h): ' || { tail -n 30 log; exit 1; }
