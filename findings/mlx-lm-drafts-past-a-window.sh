#!/usr/bin/env bash
# MLX-LM 0.32.2 decodes with a draft model to the same tokens as without one, until a layer with a sliding window (five
# of six in Gemma 3) has seen a window's length. From then on rejected drafts are not taken back: the cache of such a
# layer can no longer be trimmed, trim_prompt_cache then trims none of the layers, and answers 0 instead of an error.
# Everything that follows is computed behind tokens that are not in the text. Whether the cache can be trimmed is asked
# once, before the prompt, when it still can. With a window of 512 or 1024 a short test shows nothing.
#
# Seen on 2026-11-30 (Python 3.11, x86-64), small Gemma 3 models of random weights, window 16, 3 drafts a step, place of
# the first token that differs from plain greedy decoding:
#   6 tokens of prompt,  6 more: none          40 more: the 9th, for each of five seeds
#   the same with a window of 256, 40 more: none
# Fails where that is no longer so.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install -q "mlx-lm[cpu]==0.32.2" mlx==0.32.4 transformers==5.24.0 numpy==2.4.6
cd "$folder"
venv/bin/python - <<'PYTHON'
import mlx.core as mx
from mlx.utils import tree_map
from mlx_lm.generate import generate_step, speculative_generate_step
from mlx_lm.models.gemma3_text import Model, ModelArgs


def gemma(seed, window):
    model = Model(ModelArgs.from_dict({
        "model_type": "gemma3_text", "hidden_size": 32, "num_hidden_layers": 4, "intermediate_size": 64, "head_dim": 16,
        "num_attention_heads": 2, "num_key_value_heads": 1, "query_pre_attn_scalar": 16, "vocab_size": 64,
        "rms_norm_eps": 1e-6, "sliding_window": window, "sliding_window_pattern": 2, "max_position_embeddings": 512}))
    mx.random.seed(seed)
    model.update(tree_map(lambda each: 0.3 * mx.random.normal(each.shape) if each.ndim > 1 else each,
                          model.parameters()))
    return model


def answers(window, seed, prompt, count):
    model, drafter = gemma(seed, window), gemma(seed + 100, window)
    plain = [int(token) for token, _ in generate_step(prompt, model, max_tokens=count)]
    drafted = [int(token) for token, *_ in speculative_generate_step(prompt, model, drafter, num_draft_tokens=3,
                                                                     max_tokens=count)]
    return next((place for place in range(count) if plain[place] != drafted[place]), None)


prompt = mx.array([5, 9, 2, 33, 17, 60])
short = [answers(16, seed, prompt, 6) for seed in range(5)]
long = [answers(16, seed, prompt, 40) for seed in range(5)]
wide = [answers(256, seed, prompt, 40) for seed in range(5)]
print("prompt of 6 tokens, window 16,  6 more:", short)
print("prompt of 6 tokens, window 16, 40 more:", long)
print("prompt of 6 tokens, window 256, 40 more:", wide)
assert short == wide == [None] * 5 and all(place is not None and 6 <= place < 30 for place in long)
print("as it was seen")
PYTHON
