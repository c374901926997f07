#!/usr/bin/env python3
"""Makes tests/golden/embeddings/: what Hugging Face transformers says of the bundled model's last
hidden states (fp32), pooled.

    pip install torch transformers numpy
    tests/golden/make_embedding_goldens.py

texts.txt has a text a line; last.npy, mean.npy and first.npy are float32 [texts, hidden].
"""
import pathlib

import numpy as np
import torch
from transformers import AutoModel, AutoTokenizer

HERE = pathlib.Path(__file__).resolve().parent
MODEL = HERE.parent.parent / "configs/models/tale"
TEXTS = ["Once upon a time", "The fox and the old tower met at the river.", "a"]


def main():
    out = HERE / "embeddings"
    out.mkdir(exist_ok=True)
    (out / "texts.txt").write_text("".join(text + "\n" for text in TEXTS))
    tokenizer = AutoTokenizer.from_pretrained(MODEL)
    model = AutoModel.from_pretrained(MODEL, dtype=torch.float32, attn_implementation="eager")
    rows = {"last": [], "mean": [], "first": []}
    for text in TEXTS:
        with torch.no_grad():
            ids = torch.tensor([tokenizer(text)["input_ids"]])
            states = model(ids).last_hidden_state[0].double()
        rows["last"].append(states[-1])
        rows["mean"].append(states.mean(0))
        rows["first"].append(states[0])
    for name, values in rows.items():
        np.save(out / f"{name}.npy", torch.stack(values).numpy().astype(np.float32))


if __name__ == "__main__":
    main()
