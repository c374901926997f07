#!/usr/bin/env python3
"""Makes tests/golden/streaming/: logits of models of tests/golden/models whose attention sees what
kv_cache "streaming" keeps, computed by Hugging Face transformers in one pass with a mask (fp32,
eager attention).

    pip install torch transformers safetensors numpy
    tests/golden/make_streaming_goldens.py

tokens.npy (int32 [tokens]) are for all models; <model>.npy (float32 [rows, vocabulary]) has the
logits of every ROWS_APART-th row. The mask leaves the row at position p the first SINKS tokens and,
behind them, all but as many whole strides as leave it at least WINDOW. Layers with a window of their
own keep that. tests/cli/streaming_test.py compares.
"""
import pathlib

import numpy as np
import seeded_weights
import torch
from transformers import AutoModelForCausalLM

TOKENS, ROWS_APART = 100, 5
SINKS, WINDOW, STRIDE = 4, 12, 8
MODELS = ["llama_gqa", "gemma3", "deepseek_v2", "gpt_oss"]
HERE = pathlib.Path(__file__).resolve().parent
FOLDERS = seeded_weights.built(HERE / "models")


def streaming(row, key):
    gone = 0
    while SINKS + gone + STRIDE + WINDOW <= row + 1:
        gone += STRIDE
    return key <= row and (key < SINKS or key >= SINKS + gone)


def windowed(window):
    return lambda row, key: row - window < key <= row


def mask(sees):
    allowed = torch.tensor([[sees(row, key) for key in range(TOKENS)] for row in range(TOKENS)])
    return torch.where(allowed, 0.0, torch.finfo(torch.float32).min)[None, None]


def masks(config):
    if getattr(config, "layer_types", None) is None:
        return mask(streaming)
    return {"full_attention": mask(streaming),
            "sliding_attention": mask(windowed(config.sliding_window))}


def main():
    out = HERE / "streaming"
    out.mkdir(exist_ok=True)
    tokens = np.random.default_rng(17).integers(3, 99, TOKENS).astype(np.int32)
    np.save(out / "tokens.npy", tokens)
    for name in MODELS:
        model = AutoModelForCausalLM.from_pretrained(FOLDERS / name, dtype=torch.float32,
                                                     attn_implementation="eager",
                                                     experts_implementation="eager").eval()
        ids = torch.from_numpy(tokens.astype(np.int64))[None]
        with torch.no_grad():
            seen = model(ids, attention_mask=masks(model.config), use_cache=False).logits[0].numpy()
            plain = model(ids, use_cache=False).logits[0].numpy()
        first = SINKS + WINDOW + STRIDE - 1
        span = plain.max() - plain.min()
        same, other = abs(seen - plain)[:first].max() / span, abs(seen - plain)[first:].max() / span
        print(f"{name}: differs from full attention by {same:.1e} in front of {first}, then {other:.1e}")
        np.save(out / f"{name}.npy", seen[::ROWS_APART].astype(np.float32))


if __name__ == "__main__":
    main()
