#!/usr/bin/env bash
# ONNX Runtime GenAI 0.18.0 gives the zeros of two sampling options other meanings than other engines do. With
# do_sample, top_k 0 (no limit in transformers, vLLM and llama.cpp) always takes the most likely token, at any
# temperature, unless top_p is set as well: top_p 1.0, which limits nothing, is enough to make top_k 0 mean "no limit".
# top_p 0.0 (refused elsewhere, or the most likely token alone) limits nothing. Nothing warns of either. A
# generation_config.json with "top_k": 0, carried over, makes a model that samples into one that does not.
#
# Seen on 2026-11-30 (Python 3.11, x86-64), the first token of 200 seeds, of five with 0.40, 0.30, 0.20, 0.06, 0.04:
#   top_k 0                  the most likely one, 200 times
#   top_k 0, temperature 5   the most likely one, 200 times
#   top_k 0, top_p 1         all five
#   top_p 0                  all five
#   top_k -1                 refused: "top_k must be 0 or greater"
# Fails where that is no longer so.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install -q onnxruntime-genai==0.18.0 onnx==1.23.2 numpy==2.4.6
cd "$folder"
venv/bin/python - <<'PYTHON'
import collections
import json

import numpy as np
import onnx
import onnxruntime_genai
from onnx import helper, numpy_helper

FLOAT, INT64 = onnx.TensorProto.FLOAT, onnx.TensorProto.INT64
table = np.full((64, 64), -20, np.float32)
table[:, 3:8] = np.log([0.40, 0.30, 0.20, 0.06, 0.04])


def value(name, element, *shape):
    return helper.make_tensor_value_info(name, element, shape)


# A model of one row of logits for each token. The cache that the library asks for is kept, and not read.
nodes = [helper.make_node("Gather", ["table", "input_ids"], ["logits"], axis=0),
         helper.make_node("Shape", ["input_ids"], ["rows"], start=0, end=1),
         helper.make_node("Shape", ["input_ids"], ["columns"], start=1, end=2),
         helper.make_node("Concat", ["rows", "ones", "columns", "ones"], ["shape"], axis=0),
         helper.make_node("ConstantOfShape", ["shape"], ["new"], value=helper.make_tensor("zero", FLOAT, [1], [0.0])),
         helper.make_node("Concat", ["past_key_values.0.key", "new"], ["present.0.key"], axis=2),
         helper.make_node("Concat", ["past_key_values.0.value", "new"], ["present.0.value"], axis=2)]
graph = helper.make_graph(
    nodes, "table",
    [value("input_ids", INT64, "batch", "count"), value("attention_mask", INT64, "batch", "total"),
     value("past_key_values.0.key", FLOAT, "batch", 1, "past", 1),
     value("past_key_values.0.value", FLOAT, "batch", 1, "past", 1)],
    [value("logits", FLOAT, "batch", "count", 64), value("present.0.key", FLOAT, "batch", 1, "total", 1),
     value("present.0.value", FLOAT, "batch", 1, "total", 1)],
    [numpy_helper.from_array(table, "table"), numpy_helper.from_array(np.array([1], np.int64), "ones")])
onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), "model.onnx")
decoder = {"filename": "model.onnx", "head_size": 1, "hidden_size": 1, "num_attention_heads": 1,
           "num_key_value_heads": 1, "num_hidden_layers": 1, "session_options": {"provider_options": []},
           "inputs": {"input_ids": "input_ids", "attention_mask": "attention_mask",
                      "past_key_names": "past_key_values.%d.key", "past_value_names": "past_key_values.%d.value"},
           "outputs": {"logits": "logits", "present_key_names": "present.%d.key",
                       "present_value_names": "present.%d.value"}}
with open("genai_config.json", "w") as file:
    json.dump({"model": {"type": "llama", "bos_token_id": 1, "eos_token_id": 2, "pad_token_id": 0, "vocab_size": 64,
                         "context_length": 32, "decoder": decoder},
               "search": {"max_length": 32, "past_present_share_buffer": False}}, file)
model = onnxruntime_genai.Model(".")


def drawn(options):
    seen = collections.Counter()
    for seed in range(200):
        params = onnxruntime_genai.GeneratorParams(model)
        params.set_search_options(max_length=2, do_sample=True, random_seed=seed, **options)
        generator = onnxruntime_genai.Generator(model, params)
        generator.append_tokens(np.array([[3]], np.int32))
        generator.generate_next_token()
        seen[int(generator.get_sequence(0)[1])] += 1
    return dict(sorted(seen.items()))


for options, count in (({"top_k": 0}, 1), ({"top_k": 0, "temperature": 5.0}, 1), ({"top_k": 0, "top_p": 1.0}, 5),
                       ({"top_p": 0.0}, 5)):
    seen = drawn(options)
    print(options, seen)
    assert seen == {3: 200} if count == 1 else len(seen) == 5
try:
    drawn({"top_k": -1})
    raise SystemExit("top_k -1 was taken")
except RuntimeError as error:
    print("top_k -1:", error)
print("as it was seen")
PYTHON
