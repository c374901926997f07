#!/usr/bin/env bash
# MLX 0.32.4 quantises to nvfp4 without a scale for the whole tensor, which the format has elsewhere (ModelOpt,
# compressed-tensors). The scales of its groups are FP8 numbers, and those of weights as small as a language model's
# lie where FP8 has few bits left. At a standard deviation of 0.01 nvfp4 is worse than mxfp4, which takes less memory;
# at 0.002 almost everything becomes zero, without a word. A test with weights of 1.0 shows nothing of it. quantize has
# a parameter global_scale that mends it, but it wants the tensor's largest magnitude, not the factor that ModelOpt
# stores next to such a tensor (that magnitude / (6 * 448)): with the factor, all weights are lost.
#
# Seen on 2026-11-30 (Python 3.11, x86-64), norm of the error / norm of the weights, normal weights:
#   deviation   nvfp4   mxfp4   nvfp4, global_scale: largest   largest / (6 * 448)
#   1.0         0.095   0.116   0.095                          0.999
#   0.02        0.103   0.119   0.095                          0.999
#   0.01        0.125   0.119   0.095                          0.999
#   0.002       0.958   0.116   0.095                          0.999
# Fails where that is no longer so.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install -q mlx==0.32.4 mlx-cpu==0.32.4 numpy==2.4.6
"$folder/venv/bin/python" - <<'PYTHON'
import mlx.core as mx
import numpy as np

normal = np.random.default_rng(0).standard_normal((64, 1024)).astype(np.float32)


def error(weights, mode, **scale):
    quantised = mx.quantize(mx.array(weights), mode=mode, **scale)
    back = np.array(mx.dequantize(*quantised, mode=mode, **scale).astype(mx.float32))
    return float(np.linalg.norm(back - weights) / np.linalg.norm(weights))


seen = {}
for deviation in (1.0, 0.02, 0.01, 0.002):
    weights = normal * np.float32(deviation)
    largest = np.abs(weights).max()
    seen[deviation] = (error(weights, "nvfp4"), error(weights, "mxfp4"),
                       error(weights, "nvfp4", global_scale=mx.array(largest)),
                       error(weights, "nvfp4", global_scale=mx.array(largest / (6 * 448))))
    print(deviation, *(f"{part:.3f}" for part in seen[deviation]))
    assert seen[deviation][2] < 0.096 and seen[deviation][3] > 0.99
assert seen[1.0][0] < 0.096 < 0.100 < seen[0.02][0]
assert seen[0.01][0] > 0.122 > seen[0.01][1]
assert seen[0.002][0] > 0.9 and seen[0.002][1] < 0.122
print("as it was seen")
PYTHON
