#!/usr/bin/env bash
# PyTorch 2.15.0 turns whatever is too large for float8_e4m3fn into 448, the largest number of the type, infinity too;
# ml_dtypes 0.6.0, which NumPy and JAX use, makes NaN of both. In the other FP8 types (E5M2, and the two of AMD) the
# libraries agree: infinity or NaN. So whether a broken weight, or an activation that overflowed, can be seen at all
# depends on who converted it, and a converter in NumPy that leaves out the clamp before the cast, as PyTorch's may,
# writes NaN into a checkpoint. The scale type float8_e8m0fnu differs as well: 0 and negative numbers are NaN in
# ml_dtypes, and 2^-127 and their magnitude in PyTorch.
#
# Seen on 2026-11-30 (Python 3.11, x86-64; torch and its CUDA libraries are a download of 3 GB), PyTorch and ml_dtypes:
#   float8_e4m3fn     465: 448 nan     10000: 448 nan     inf: 448 nan     -inf: -448 nan
#   float8_e5m2       464: 448 448     1e6: inf inf       inf: inf inf
#   float8_e4m3fnuz   1000: nan nan    inf: nan nan       (E5M2FNUZ alike)
#   float8_e8m0fnu    0: 5.9e-39 nan   -3: 4 nan          3: 4 4
# Fails where that is no longer so.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install -q torch==2.15.0 ml-dtypes==0.6.0 numpy==2.4.6
"$folder/venv/bin/python" - <<'PYTHON'
import math

import ml_dtypes
import numpy as np
import torch

inf, nan = math.inf, math.nan
for name, values, by_torch, by_numpy in (
        ("float8_e4m3fn", [464, 465, 1e4, inf, -inf], [448, 448, 448, 448, -448], [448, nan, nan, nan, nan]),
        ("float8_e5m2", [464, 1e6, inf, -inf], [448, inf, inf, -inf], [448, inf, inf, -inf]),
        ("float8_e4m3fnuz", [240, 1000, inf], [240, nan, nan], [240, nan, nan]),
        ("float8_e5m2fnuz", [1e6, inf], [nan, nan], [nan, nan]),
        ("float8_e8m0fnu", [3, 0, -3, 2.0 ** -127], [4, 2.0 ** -127, 4, 2.0 ** -127], [4, nan, nan, 2.0 ** -127])):
    seen = torch.tensor(values, dtype=torch.float32).to(getattr(torch, name)).float().numpy()
    other = np.array(values, np.float32).astype(getattr(ml_dtypes, name)).astype(np.float32)
    print(name, values, "torch", seen.tolist(), "ml_dtypes", other.tolist())
    assert np.array_equal(seen, np.array(by_torch, np.float32), equal_nan=True)
    assert np.array_equal(other, np.array(by_numpy, np.float32), equal_nan=True)
print("as it was seen")
PYTHON
