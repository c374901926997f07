#!/usr/bin/env bash
# safetensors 0.8.0 for NumPy writes an array as it lies in memory, with the shape that it has next
# to it: a transposed matrix (or every second column) is saved with other values in other places,
# and nobody is told. Converters transpose weights all the time. The same package refuses such a
# tensor from PyTorch ("non contiguous").
#
# Seen on 2026-11-29 (Python 3.11, x86-64):
#   [[0, 1, 2], [3, 4, 5]].T        saved and loaded: [[0, 1], [2, 3], [4, 5]]
#   [[0, 1, 2, 3], [4, 5, 6, 7]][:, ::2]              [[0, 1], [2, 3]]
# Fails where that is no longer so.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install -q safetensors==0.8.0 numpy==2.4.6
cd "$folder"
venv/bin/python - <<'PYTHON'
import numpy as np
from safetensors.numpy import load_file, save_file

transposed = np.arange(6, dtype=np.float32).reshape(2, 3).T
columns = np.arange(8, dtype=np.float32).reshape(2, 4)[:, ::2]
save_file({"transposed": transposed, "columns": columns}, "x.safetensors")
back = load_file("x.safetensors")
for name, array in (("transposed", transposed), ("columns", columns)):
    print(name, array.tolist(), "->", back[name].tolist())
assert transposed.tolist() == [[0, 3], [1, 4], [2, 5]] and back["transposed"].tolist() == [[0, 1], [2, 3], [4, 5]]
assert columns.tolist() == [[0, 2], [4, 6]] and back["columns"].tolist() == [[0, 1], [2, 3]]
print("as it was seen")
PYTHON
