#!/usr/bin/env bash
# In ONNX Runtime GenAI 0.18.0 the token that ends an answer is part of its sequence only if another row of the batch
# goes on after it. The step in which the last row ends is not appended: that row has no end of text, and rows that
# ended in the same step do not either, while rows that ended earlier have it, and pad tokens after it. The same prompt
# gives [6] alone and [6, 2, 0] next to a longer one. get_next_tokens gives the end of text in all of them. Whoever
# takes a sequence as the next turn's history, counts its tokens or asks its last token why it ended gets an answer
# that depends on the other requests.
#
# Seen on 2026-11-30 (Python 3.11, x86-64); 6 and 5 are followed by the end (2), 3 by 4, 5 and the end:
#   [6]               [6]
#   [3]               [3, 4, 5]
#   [6] and [3]       [6, 2, 0]   [3, 4, 5]
#   [6] and [6]       [6]   [6]
#   [5], [6] and [3]  [5, 2, 0]   [6, 2, 0]   [3, 4, 5]
# Fails where that is no longer so.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install -q onnxruntime-genai==0.18.0 onnx==1.23.2 numpy==2.4.6
cd "$folder"
venv/bin/python - <<'PYTHON'
import json

import numpy as np
import onnx
import onnxruntime_genai
from onnx import helper, numpy_helper

FLOAT, INT64 = onnx.TensorProto.FLOAT, onnx.TensorProto.INT64
followers = {3: 4, 4: 5, 5: 2, 6: 2, 2: 7, 7: 7, 0: 1, 1: 1}
table = np.full((8, 8), -20, np.float32)
for token, follower in followers.items():
    table[token, follower] = 5


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
    [value("logits", FLOAT, "batch", "count", 8), value("present.0.key", FLOAT, "batch", 1, "total", 1),
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
    json.dump({"model": {"type": "llama", "bos_token_id": 1, "eos_token_id": 2, "pad_token_id": 0, "vocab_size": 8,
                         "context_length": 32, "decoder": decoder},
               "search": {"max_length": 32, "past_present_share_buffer": False}}, file)
model = onnxruntime_genai.Model(".")


def answered(prompts):
    params = onnxruntime_genai.GeneratorParams(model)
    params.set_search_options(max_length=16, batch_size=len(prompts), do_sample=False)
    generator = onnxruntime_genai.Generator(model, params)
    generator.append_tokens(np.array([[prompt] for prompt in prompts], np.int32))
    steps = []
    while not generator.is_done():
        generator.generate_next_token()
        steps.append([int(token) for token in generator.get_next_tokens()])
    assert all(2 in row for row in zip(*steps)), steps  # each row was given its end of text
    return [[int(token) for token in generator.get_sequence(row)] for row in range(len(prompts))]


for prompts, expected in (((6,), [[6]]), ((3,), [[3, 4, 5]]), ((6, 3), [[6, 2, 0], [3, 4, 5]]), ((6, 6), [[6], [6]]),
                          ((5, 6, 3), [[5, 2, 0], [6, 2, 0], [3, 4, 5]])):
    seen = answered(prompts)
    print(*prompts, "->", seen)
    assert seen == expected
print("as it was seen")
PYTHON
