#!/usr/bin/env bash
# One safetensors file with an FP8 weight, two readers. safetensors 0.8.0 for NumPy writes an
# array of ml_dtypes' float8_e4m3fn and cannot load its own file: it looks for the type in numpy.
# MLX 0.32.4 loads the weight as uint8, so that arithmetic on it is arithmetic on the codes (1.0 is
# 56), and what MLX saves again says U8: whoever reads that copy can no longer know that it was FP8.
# The header tells both of them F8_E4M3.
#
# Seen on 2026-11-29 (Python 3.11, x86-64), for [1.0, 0.5]:
#   safetensors.numpy.load_file: AttributeError module 'numpy' has no attribute 'float8_e4m3fn'
#   mlx.core.load: uint8 [56, 48], times 2.0: [112, 96]; saved again: U8
# Fails where that is no longer so.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install -q safetensors==0.8.0 numpy==2.4.6 ml_dtypes==0.6.0 mlx==0.32.4 mlx-cpu==0.32.4
cd "$folder"
venv/bin/python - <<'PYTHON'
import json
import ml_dtypes
import mlx.core as mx
import numpy as np
from safetensors.numpy import load_file, save_file


def told(path):
    data = open(path, "rb").read()
    return json.loads(data[8:8 + int.from_bytes(data[:8], "little")])["w"]["dtype"]


save_file({"w": np.array([1.0, 0.5], ml_dtypes.float8_e4m3fn)}, "x.safetensors")
assert told("x.safetensors") == "F8_E4M3"
try:
    print("numpy:", load_file("x.safetensors"))
    raise SystemExit("safetensors for NumPy reads FP8 now")
except AttributeError as error:
    print("numpy:", error)
    assert str(error) == "module 'numpy' has no attribute 'float8_e4m3fn'"

mx.set_default_device(mx.cpu)
loaded = mx.load("x.safetensors")
print("mlx:", loaded["w"].dtype, loaded["w"].tolist(), "times 2.0:", (loaded["w"] * 2.0).tolist())
assert loaded["w"].dtype == mx.uint8 and (loaded["w"] * 2.0).tolist() == [112, 96]
mx.save_safetensors("again.safetensors", loaded)
print("saved again:", told("again.safetensors"))
assert told("again.safetensors") == "U8"
print("as it was seen")
PYTHON
