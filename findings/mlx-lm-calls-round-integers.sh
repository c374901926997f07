#!/usr/bin/env bash
# MLX-LM 0.32.2 reads the arguments of Qwen3-Coder's calls (and of others in its form) by way of a float: an integer
# of more than 15 digits arrives as another one. Identifiers have 17 to 19 digits in many services (messages, orders,
# posts, accounts), and a schema that says "integer" is exactly what spoils them. The tool gets a number that is in
# range, of the right type, and wrong. A text that reads "null" becomes null even where the schema wants a text. Calls
# written as JSON keep their integers.
#
# Seen on 2026-11-30 (Python 3.11, x86-64), the parameter "id" of type integer:
#   written              parser qwen3_coder    parser json_tools
#   1234567890123456789  1234567890123456768   1234567890123456789
#   9007199254740993     9007199254740992      9007199254740993
#   100000000000000001   100000000000000000    100000000000000001
# Fails where that is no longer so.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install -q "mlx-lm[cpu]==0.32.2" mlx==0.32.4 transformers==5.24.0 numpy==2.4.6
"$folder/venv/bin/python" - <<'PYTHON'
import json

from mlx_lm.tool_parsers import json_tools, qwen3_coder

properties = {"id": {"type": "integer"}, "title": {"type": "string"}}
tools = [{"type": "function", "function": {"name": "get", "parameters": {"type": "object", "properties": properties}}}]


def by_parameters(**arguments):
    lines = "".join(f"<parameter={name}>\n{value}\n</parameter>\n" for name, value in arguments.items())
    return qwen3_coder.parse_tool_call(f"<function=get>\n{lines}</function>", tools)["arguments"]


def by_json(**arguments):
    return json_tools.parse_tool_call(json.dumps({"name": "get", "arguments": arguments}), tools)["arguments"]


for written, rounded in ((1234567890123456789, 1234567890123456768), (9007199254740993, 9007199254740992),
                         (100000000000000001, 100000000000000000), (123456789012345, 123456789012345)):
    found, exact = by_parameters(id=written)["id"], by_json(id=written)["id"]
    print(written, found, exact)
    assert type(found) is int and found == rounded and exact == written
assert by_parameters(title="null") == {"title": None} and by_json(title="null") == {"title": "null"}
print("as it was seen")
PYTHON
