#!/usr/bin/env bash
# transformers 5.24.0 divides `out_proj.weight` of Mamba and Mamba-2 by the square root of the number of layers each
# time that a checkpoint is loaded whose config says `rescale_prenorm_residual`: what is meant for fresh weights runs
# over those from the file. A model that is saved and loaded again is another one, and again at the next round. Files
# without that key, the usual ones, are loaded as they are.
#
# Seen on 2026-12-01 (Python 3.11, x86-64, torch 2.15.0; torch and its CUDA libraries are a download of 3 GB), models
# of four layers:
#   rescale_prenorm_residual   loaded / stored, after one round and after two
#   true                       0.5 and 0.25
#   false                      1 and 1
# Fails where that is no longer so.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install -q torch==2.15.0 transformers==5.24.0 safetensors==0.8.0
cd "$folder"
OMP_NUM_THREADS=1 venv/bin/python - <<'PYTHON'
import torch
import transformers
from transformers import Mamba2Config, Mamba2ForCausalLM, MambaConfig, MambaForCausalLM

transformers.logging.set_verbosity_error()
sizes = {"vocab_size": 97, "hidden_size": 16, "num_hidden_layers": 4, "state_size": 4, "bos_token_id": 1, "eos_token_id": 2,
         "pad_token_id": 0}


def out_proj(model):
    return model.backbone.layers[1].mixer.out_proj.weight.detach().clone()


for name, model_class, config in (("mamba", MambaForCausalLM, MambaConfig(**sizes)),
                                  ("mamba2", Mamba2ForCausalLM, Mamba2Config(**sizes, num_heads=4, head_dim=8))):
    for rescale, expected in ((True, (0.5, 0.25)), (False, (1.0, 1.0))):
        config.rescale_prenorm_residual = rescale
        model = model_class(config)
        torch.nn.init.normal_(model.backbone.layers[1].mixer.out_proj.weight)
        stored, seen = out_proj(model), []
        for _ in expected:
            model.save_pretrained(name)
            model = model_class.from_pretrained(name)
            seen.append((out_proj(model) / stored).mean().item())
        print(f"{name}, rescale_prenorm_residual {rescale}: {seen}")
        assert all(abs(a - b) < 1e-5 for a, b in zip(seen, expected))
print("as it was seen")
PYTHON
