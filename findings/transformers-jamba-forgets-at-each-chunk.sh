#!/usr/bin/env bash
# transformers 5.24.0 computes a Jamba prompt in pieces (generate with prefill_chunk_size, which is to save memory on
# long prompts), and each piece of more than one token begins its Mamba layers with an empty state, though the cache has
# the state of what came before. The answers are other ones, without a word. Whole prompts and pieces of one token agree.
# Bamba, Granite 4, Nemotron-H, Zamba 2, Falcon-H1 and Qwen3.5 begin with the state. Whoever takes transformers with
# pieces for the oracle of an engine finds an error that is not there.
#
# Seen on 2026-11-30 (Python 3.11, x86-64, torch 2.15.0; torch and its CUDA libraries are a download of 3 GB), small models
# of random weights, largest difference of the logits after 24 tokens from those of the prompt computed at once:
#                      pieces of 12   of 4      of 1      of a largest logit of
#   jamba              1.3e-03        2.6e-02   5.1e-07   1.21, and other tokens with pieces of 4
#   bamba              1.2e-07        1.5e-07   4.8e-07   1.12
#   granitemoehybrid   1.2e-07        1.2e-07   5.4e-07   1.07
# Fails where that is no longer so.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install -q torch==2.15.0 transformers==5.24.0
cat > "$folder/see.py" <<'PYTHON'
import torch
import transformers
from transformers import AutoConfig, AutoModelForCausalLM

transformers.logging.set_verbosity_error()
shape = {"hidden_size": 64, "intermediate_size": 64, "num_hidden_layers": 4, "num_attention_heads": 4,
         "num_key_value_heads": 2, "vocab_size": 64, "max_position_embeddings": 256}
mamba = {"mamba_n_heads": 8, "mamba_d_head": 16, "mamba_n_groups": 1, "mamba_d_state": 16, "mamba_expand": 2}
families = {
    "jamba": {"attn_layer_period": 2, "attn_layer_offset": 1, "num_experts": 2, "use_mamba_kernels": False,
              "mamba_d_state": 8},
    "bamba": {"attn_layer_indices": [1, 3]} | mamba,
    "granitemoehybrid": {"layer_types": ["mamba", "attention"] * 2, "num_local_experts": 0,
                         "shared_intermediate_size": 64} | mamba}
prompt = torch.tensor([[(7 * i * i + 3 * i) % 61 + 3 for i in range(24)]])


def answer(model, **way):
    """The logits that the first new token is drawn from, and eight tokens."""
    made = model.generate(prompt, attention_mask=torch.ones_like(prompt), do_sample=False, max_new_tokens=8,
                          pad_token_id=0, eos_token_id=None, return_dict_in_generate=True, output_logits=True, **way)
    return made.logits[0][0], made.sequences[0, 24:].tolist()


for family, more in families.items():
    torch.manual_seed(0)
    model = AutoModelForCausalLM.from_config(AutoConfig.for_model(family, **(shape | more))).float().eval()
    with torch.no_grad():
        for weight in model.parameters():
            weight += 0.05 * torch.randn_like(weight)
        whole, tokens = answer(model)
        pieces = {size: answer(model, prefill_chunk_size=size) for size in (12, 4, 1)}
    off = {size: float((logits - whole).abs().max()) for size, (logits, _) in pieces.items()}
    same = {size: found == tokens for size, (_, found) in pieces.items()}
    print(family, "pieces of 12, 4, 1:", *(f"{value:.1e}" for value in off.values()),
          f"of {float(whole.abs().max()):.2f}; eight tokens the same:", *same.values())
    assert off[1] < 1e-4 and same[1]
    if family == "jamba":
        assert off[12] > 3e-4 and off[4] > 5e-3 and not same[4]
    else:
        assert max(off.values()) < 1e-4 and all(same.values())
print("as it was seen")
PYTHON
"$folder/venv/bin/python" "$folder/see.py"
