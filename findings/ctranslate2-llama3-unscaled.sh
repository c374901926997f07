#!/usr/bin/env bash
# CTranslate2 4.8.5 converts Llama 3.1 and 3.2 and computes them without the scaling of their rotary embedding. The
# converter knows rope_type "llama3", writes its two bounds into the model and leaves out the factor, which is then 1:
# the logits are those of the same weights without any scaling, to the last digits. Linear scaling keeps its factor, and
# yarn is refused by name. Short prompts show little of it; it grows with the position. Gemma 2 loses its soft caps, and
# its scores are divided by the root of head_dim whatever query_pre_attn_scalar says (the 27B has 144 and 128). Nothing
# is said of either. A test with ten tokens, or one that looks at the likeliest token alone, shows nothing.
#
# Seen on 2026-12-01 (Python 3.11, x86-64, torch 2.15.0; torch and its CUDA libraries are a download of 3 GB), small
# models of random weights, largest difference of the logits of transformers 5.24.0, of their range, and how often both
# find the same token likeliest:
#   Llama 3.1's settings, 1500 tokens     0.25 (0.0016 at the tenth token), 73 %; those without scaling: 1e-6, 100 %
#   Gemma 2, query_pre_attn_scalar 144    0.18, 97 %     with a head_dim of 32, no soft caps
#   Gemma 2, soft caps of 50 and 30       0.017, 100 %   with a query_pre_attn_scalar of 32, as head_dim
#   Gemma 2, neither                      2e-7, 100 %
# Fails where that is no longer so.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install -q torch==2.15.0 transformers==5.24.0 ctranslate2==4.8.5
cd "$folder"
"$folder/venv/bin/python" - <<'PYTHON' 2>&1 | grep -v "Writing model shards\|Loading weights"
import ctranslate2
import numpy as np
import torch
from tokenizers import Tokenizer, models
from transformers import AutoConfig, AutoModelForCausalLM, PreTrainedTokenizerFast

SHAPE = {"vocab_size": 96, "num_hidden_layers": 2, "num_attention_heads": 4, "num_key_value_heads": 2,
         "intermediate_size": 128, "max_position_embeddings": 131072, "bos_token_id": 1, "eos_token_id": 2,
         "pad_token_id": 0}
LLAMA = {"hidden_size": 512}
GEMMA = {"hidden_size": 64, "head_dim": 32, "query_pre_attn_scalar": 32, "attn_logit_softcapping": None,
         "final_logit_softcapping": None}
SCALED = {"rope_type": "llama3", "rope_theta": 500000.0, "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0,
          "original_max_position_embeddings": 8192}
PLAIN = {"rope_type": "default", "rope_theta": 500000.0}
vocabulary = {"<pad>": 0, "<s>": 1, "</s>": 2, **{f"w{i}": i for i in range(3, 96)}}


def make(kind, size, **settings):
    torch.manual_seed(0)
    model = AutoModelForCausalLM.from_config(AutoConfig.for_model(kind, **SHAPE, **settings)).float().eval()
    with torch.no_grad():
        for parameter in model.parameters():
            if parameter.ndim == 2:
                parameter.normal_(0, size)
    return model


def logits(model, ids):
    with torch.no_grad():
        return model(torch.tensor(ids)[None]).logits[0].numpy()


def converted(model, ids):
    model.save_pretrained("model")
    PreTrainedTokenizerFast(tokenizer_object=Tokenizer(models.WordLevel(vocabulary, unk_token="<pad>")),
                            bos_token="<s>", eos_token="</s>", unk_token="<pad>").save_pretrained("model")
    ctranslate2.converters.TransformersConverter("model").convert("converted", force=True)
    generator = ctranslate2.Generator("converted", compute_type="float32", intra_threads=2)
    return np.array(generator.forward_batch([list(ids)], return_log_probs=False))[0]


def apart(name, one, other):
    difference = np.abs(one - other).max(1) / (one.max() - one.min())
    same = (one.argmax(1) == other.argmax(1)).mean()
    print(f"{name}: {difference.max():.1e} ({difference[10]:.1e} at the tenth token), likeliest the same {same:.0%}")
    return difference.max()


ids = np.random.default_rng(2).integers(3, 95, 1500)
scaled = make("llama", 0.06, **LLAMA, rope_parameters=SCALED)
found = converted(scaled, ids)
assert apart("Llama 3.1", logits(scaled, ids), found) > 0.03
assert apart("the same without scaling", logits(make("llama", 0.06, **LLAMA, rope_parameters=PLAIN), ids), found) < 1e-4

ids = ids[:60]
for name, changed in (("Gemma 2, neither", {}), ("query_pre_attn_scalar 144", {"query_pre_attn_scalar": 144}),
                      ("soft caps", {"attn_logit_softcapping": 50.0, "final_logit_softcapping": 30.0})):
    model = make("gemma2", 0.15, **{**GEMMA, **changed})
    difference = apart(name, logits(model, ids), converted(model, ids))
    assert (difference > 0.01) == bool(changed) and (changed or difference < 1e-5)
print("as it was seen")
PYTHON
