#!/usr/bin/env bash
# A weight that is not a number shows itself in other block formats, not in MXFP4: gguf 0.19.0 quantises
# a block of 32 weights with one NaN or infinity among them to 32 zeros, where Q8_0 and Q4_0 give NaN or infinity back and everybody sees at the first token that
# the checkpoint is broken. The bare FP4 types have nowhere to put it either: ml_dtypes 0.6.0 rounds
# NaN to -0.0 and infinity to 6.0, ONNX 1.23.2's reference casts alike.
#
# Seen on 2026-11-29 (Python 3.11, x86-64), one block [value, 1, 1, ...], its first two weights after the round trip:
#   NaN   Q8_0 nan nan   Q4_0 nan nan   MXFP4 0 0
#   inf   Q8_0 nan nan   Q4_0 inf nan   MXFP4 0 0     (Q4_0 of a negative infinity: -inf nan)
#   FP4 [nan, inf, -inf] -> [-0, 6, -6]
# Fails where that is no longer so.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install -q gguf==0.19.0 numpy==2.4.6 ml_dtypes==0.6.0 onnx==1.23.2
cd "$folder"
venv/bin/python -W ignore - <<'PYTHON'
import ml_dtypes
import numpy as np
import onnx
from gguf import GGMLQuantizationType as Type, quants
from onnx import TensorProto, helper
from onnx.reference import ReferenceEvaluator

seen = {}
for value in (np.nan, np.inf):
    block = np.ones((1, 32), np.float32)
    block[0, 0] = value
    for kind in (Type.Q8_0, Type.Q4_0, Type.MXFP4):
        seen[f"{value} {kind.name}"] = quants.dequantize(quants.quantize(block, kind), kind)[0].tolist()
        print(value, kind.name, seen[f"{value} {kind.name}"][:2])
for value in ("nan", "inf"):
    assert np.isnan(seen[f"{value} Q8_0"][1]) and np.isnan(seen[f"{value} Q4_0"][1]), seen
    assert seen[f"{value} MXFP4"] == [0.0] * 32, seen

asked = np.array([np.nan, np.inf, -np.inf], np.float32)
bare = asked.astype(ml_dtypes.float4_e2m1fn).astype(np.float32)
there = helper.make_node("Cast", ["x"], ["y"], to=TensorProto.FLOAT4E2M1)
back = helper.make_node("Cast", ["y"], ["z"], to=TensorProto.FLOAT)
graph = helper.make_graph([there, back], "casts", [helper.make_tensor_value_info("x", TensorProto.FLOAT, [3])],
                          [helper.make_tensor_value_info("z", TensorProto.FLOAT, [3])])
reference = ReferenceEvaluator(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 23)]))
onnxs = reference.run(None, {"x": asked})[0]
print("FP4:", bare, onnxs)
assert bare.tolist() == onnxs.tolist() == [0.0, 6.0, -6.0] and np.signbit(bare[0]), (bare, onnxs)
print("as it was seen")
PYTHON
