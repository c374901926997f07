#!/usr/bin/env bash
# transformers 5 writes a model's rotary base and its scaling as "rope_parameters" into config.json, and no more
# "rope_theta" or "rope_scaling". MLX-LM 0.32.2, which requires transformers 5.7 or later, reads the old keys alone for
# Llama, Mistral, Qwen 2, Phi 3, Cohere and others, and takes its own default where they are missing (10000 for Llama;
# Llama 3 has 500000 and a scaling). So a model that was fine-tuned, merged or just saved again with transformers 5
# loads without a word and computes other positions. Qwen 3 and a few others know the new key. The originals of these
# models, which have the old keys, are right, so that the fine-tuning seems to be at fault.
#
# Seen on 2026-11-30 (Python 3.11, x86-64, transformers 5.24.0), small models with rope_theta 500000, largest difference
# of logits of 40 tokens from those with the old keys added to config.json, next to the largest logit:
#   llama 1.14   llama with Llama 3's scaling 1.17   mistral 1.14   qwen2 0.37   phi3 1.13   cohere 0.47   qwen3 0
# and Llama's logits are those of "rope_theta": 10000, bit for bit.
# Fails where that is no longer so.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install -q "mlx-lm[cpu]==0.32.2" mlx==0.32.4 transformers==5.24.0 numpy==2.4.6
cd "$folder"
venv/bin/python - <<'PYTHON'
import json
from pathlib import Path

import mlx.core as mx
from mlx.utils import tree_flatten, tree_map
from mlx_lm.utils import _get_classes, load_model
from transformers import AutoConfig

sizes = {"vocab_size": 128, "hidden_size": 64, "intermediate_size": 96, "num_hidden_layers": 2,
         "num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 16, "max_position_embeddings": 4096,
         "bos_token_id": 1, "eos_token_id": 2, "pad_token_id": 0}
prompt = mx.array([[(7 * place) % 125 + 3 for place in range(40)]])
llama3 = {"rope_type": "llama3", "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0,
          "original_max_position_embeddings": 1024}


def logits(folder, config):
    (folder / "config.json").write_text(json.dumps(config))
    return load_model(folder)[0](prompt)


for kind, scaling, changes in (("llama", {}, True), ("llama", llama3, True), ("mistral", {}, True), ("qwen2", {}, True),
                               ("phi3", {}, True), ("cohere", {}, True), ("qwen3", {}, False)):
    config = AutoConfig.for_model(kind, **sizes, rope_parameters={"rope_type": "default", "rope_theta": 5e5} | scaling)
    folder = Path(kind + str(len(scaling)))
    config.save_pretrained(folder)
    new = json.loads((folder / "config.json").read_text())
    rope = new["rope_parameters"]
    assert rope["rope_theta"] == 5e5 and "rope_theta" not in new and "rope_scaling" not in new
    old = new | {"rope_theta": 5e5} | ({"rope_scaling": rope} if scaling else {})
    model, arguments = _get_classes(old)
    weights = model(arguments.from_dict(old))
    mx.random.seed(0)
    weights.update(tree_map(lambda each: 0.15 * mx.random.normal(each.shape) if each.ndim > 1 else each,
                            weights.parameters()))
    mx.save_safetensors(str(folder / "model.safetensors"), dict(tree_flatten(weights.parameters())))
    right, as_saved = logits(folder, old), logits(folder, new)
    apart = (mx.abs(as_saved - right).max() / mx.abs(right).max()).item()
    print(f"{kind} {'with a scaling' if scaling else ''}: {apart:.2f}")
    assert (apart > 0.1) if changes else apart == 0
    if kind == "llama":
        by_default = logits(folder, new | {"rope_theta": 10000.0})
        assert mx.array_equal(by_default, as_saved)
print("as it was seen")
PYTHON
