#!/usr/bin/env bash
# Models of today carry layers that draft their own next tokens (multi-token prediction): "mtp.*" in Qwen3.5 and 3.6,
# one layer beyond num_hidden_layers in DeepSeek-V3 and GLM-4.5. transformers 5.24.0 has no use for them; it leaves them
# out when it loads such a folder, and so out of what it saves. The config that it saves still says that they are there
# (mtp_num_hidden_layers 1, num_nextn_predict_layers 1). With Qwen3.5 nothing is said at all. With the others loading
# lists them as UNEXPECTED and adds that this can be ignored; saving says nothing. So every tool that loads, changes and
# saves (fine-tuning, merging an adapter, quantising) publishes a model without its drafts, which answers as before but
# can no longer draft for itself, and an engine that believes the config looks for tensors that are not there.
#
# Seen on 2026-11-30 (Python 3.11, x86-64, torch 2.15.0; torch and its CUDA libraries are a download of 3 GB), small
# models, after from_pretrained and save_pretrained:
#   qwen3_5_text   2 tensors of mtp.*            -> 0, config: mtp_num_hidden_layers 1      said: nothing
#   glm4_moe       2 tensors of model.layers.2.* -> 0, config: num_nextn_predict_layers 1   said: "can be ignored"
#   deepseek_v3    the same
# Fails where that is no longer so.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install -q torch==2.15.0 transformers==5.24.0
cd "$folder"
cat > see.py <<'PYTHON'
import json
import pathlib
import sys

import torch
from safetensors import safe_open
from safetensors.torch import load_file, save_file
from transformers import AutoConfig, AutoModelForCausalLM

kind, prefix, key, more = sys.argv[1], sys.argv[2], sys.argv[3], json.loads(sys.argv[4])
shape = {"hidden_size": 32, "intermediate_size": 32, "num_hidden_layers": 2, "num_attention_heads": 2,
         "num_key_value_heads": 2, "vocab_size": 64, "max_position_embeddings": 64}
model = AutoModelForCausalLM.from_config(AutoConfig.for_model(kind, **(shape | more)))
model.save_pretrained("published")
weights = load_file("published/model.safetensors")
weights[prefix + "eh_proj.weight"] = torch.randn(32, 64)
weights[prefix + "hnorm.weight"] = torch.ones(32)
save_file(weights, "published/model.safetensors", {"format": "pt"})
print("loading", file=sys.stderr)
AutoModelForCausalLM.from_pretrained("published").save_pretrained("saved")


def drafts(folder):
    with safe_open(f"{folder}/model.safetensors", "pt") as file:
        return sorted(name for name in file.keys() if name.startswith(prefix))


said = json.loads(pathlib.Path("saved/config.json").read_text())
print(kind, drafts("published"), "->", drafts("saved"), key, said[key])
assert len(drafts("published")) == 2 and drafts("saved") == [] and said[key] == 1
PYTHON
see() {
  mkdir "$folder/$1" && cd "$folder/$1"
  ../venv/bin/python ../see.py "$@" 2> heard
  sed -n '/^loading$/,$p' heard > after && cat after
}
moe='"n_routed_experts": 4, "num_experts_per_tok": 2, "moe_intermediate_size": 16, "n_group": 1, "topk_group": 1'
see qwen3_5_text mtp. mtp_num_hidden_layers '{"mtp_num_hidden_layers": 1, "head_dim": 16,
  "layer_types": ["linear_attention", "full_attention"]}'
! grep -qi "mtp\|unexpected\|warn" after
see glm4_moe model.layers.2. num_nextn_predict_layers "{\"num_nextn_predict_layers\": 1, \"head_dim\": 16, $moe}"
grep -q "can be ignored" after
see deepseek_v3 model.layers.2. num_nextn_predict_layers "{\"num_nextn_predict_layers\": 1, \"q_lora_rank\": 8,
  \"kv_lora_rank\": 8, \"qk_nope_head_dim\": 8, \"qk_rope_head_dim\": 8, \"v_head_dim\": 8, $moe}"
grep -q "can be ignored" after
echo "as it was seen"
