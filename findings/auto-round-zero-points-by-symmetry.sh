#!/usr/bin/env bash
# AutoRound 0.16.1, asked for 4 bits in its own format, stores GPTQ's zero points in one of two ways under
# tensors of the same names, types and shapes: less one, as GPTQ does, where matrices are symmetric, and as they are
# where they are not. Only "packing_format" in the config tells which ("auto_round:auto_gptq" or "auto_round").
# Whoever reads both as GPTQ's layout gets matrices that are off by a third of their size in place of a tenth, and
# no error.
#
# Seen on 2026-11-30 (Python 3.11, x86-64, torch 2.15.0; torch and its CUDA libraries are a download of 3 GB):
#   sym True   packing_format auto_round:auto_gptq: off by 0.10 less one, by 0.37 as they are
#   sym False  packing_format auto_round: off by 0.36 less one, by 0.10 as they are
# Fails where that is no longer so.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install -q auto-round==0.16.1 torch==2.15.0 transformers==5.24.0 safetensors==0.8.0
cd "$folder"
cat > made.py <<'PYTHON'
import json
import pathlib

import numpy as np
import tokenizers
import torch
import transformers
from auto_round import AutoRound
from safetensors.torch import load_file

NAME = "model.layers.0.mlp.down_proj"


def codes(words, count):
    """4 bits each, along the last axis."""
    return np.stack([words >> 4 * i & 15 for i in range(8)], -1).reshape(*words.shape[:-1], -1)[..., :count]


def main():
    torch.manual_seed(1)
    config = transformers.LlamaConfig(hidden_size=128, intermediate_size=256, num_hidden_layers=1, num_attention_heads=4,
                                      num_key_value_heads=2, vocab_size=256, tie_word_embeddings=False)
    model = transformers.LlamaForCausalLM(config).to(torch.bfloat16)
    model.save_pretrained("plain")
    words = tokenizers.models.WordLevel({f"w{i}": i for i in range(256)}, unk_token="w0")
    transformers.PreTrainedTokenizerFast(tokenizer_object=tokenizers.Tokenizer(words), bos_token="w1",
                                         eos_token="w2").save_pretrained("plain")
    plain = load_file("plain/model.safetensors")[NAME + ".weight"].double().numpy()
    for sym in (True, False):
        AutoRound("plain", scheme="W4A16", sym=sym, iters=0, disable_opt_rtn=True, device_map="cpu").quantize_and_save(
            f"sym{sym}", format="auto_round")
        place = next(pathlib.Path(f"sym{sym}").rglob("config.json")).parent
        how = json.loads((place / "config.json").read_text())["quantization_config"]
        tensors = load_file(place / "model.safetensors")
        down, across = (tensors[f"{NAME}.{name}"].numpy().astype(np.int64) & 0xffffffff for name in ("qweight", "qzeros"))
        scales = tensors[NAME + ".scales"].double().numpy()
        values, zeros = codes(down.T, 256).T, codes(across, 128)
        each = 256 // len(scales)
        off = []
        for add in (1, 0):
            matrix = (values - (zeros + add & 15).repeat(each, 0)) * scales.repeat(each, 0)
            off.append(float(np.linalg.norm(matrix.T - plain) / np.linalg.norm(plain)))
        print(f"sym {sym}: sym in config {how['sym']}, packing_format {how['packing_format']}, "
              f"{ {name: list(tensors[f'{NAME}.{name}'].shape) for name in ('qweight', 'qzeros', 'scales')} }: "
              f"off by {off[0]:.2f} less one, by {off[1]:.2f} as they are")
        right, wrong = off if sym else reversed(off)
        assert right < 0.15 < 0.25 < wrong
        assert how["packing_format"] == ("auto_round:auto_gptq" if sym else "auto_round")


if __name__ == "__main__":
    main()
PYTHON
TORCHDYNAMO_DISABLE=1 OMP_NUM_THREADS=1 venv/bin/python made.py 2>> log | grep '^sym' || { tail -n 30 log; exit 1; }
