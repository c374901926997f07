#!/usr/bin/env bash
# SGLang 0.5.23 (--tool-call-parser minimax-m2) takes every argument that may be null for null, whatever the model
# wrote: the value of a parameter whose schema is {"anyOf": [{"type": "string"}, {"type": "null"}]} is dropped, whole
# and in streams. pydantic writes Optional[str] that way, so for most tools of programs in Python all optional
# arguments are lost, and nothing is said. MiniMax's models write values without types, which is why the schema is
# asked; --tool-call-parser glm45 and qwen3_coder have the same to do and keep the value.
#
# Seen on 2026-11-30 (Python 3.11, x86-64, pydantic 2.14.4), arguments of the same call of
# search(city: str, region: Optional[str] = None, limit: Optional[int] = None) with Springfield, Illinois and 5:
#   minimax-m2   {"city": "Springfield", "region": null, "limit": null}
#   qwen3_coder  {"city": "Springfield", "region": "Illinois", "limit": 5}, and glm45 the same
# SGLang's parsers are used without the rest of it, which loads torch; empty modules stand in for its packages.
# Fails where that is no longer so.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install -q orjson==3.13.0 partial-json-parser==0.2.1.1.post7 pydantic==2.14.4 \
  msgspec==0.23.0 openai==3.57.0 numpy==2.4.6 pybase64==1.5.1 requests==2.34.2 ipython==9.18.1 tqdm==4.70.1
"$folder/venv/bin/pip" install -q --no-deps sglang==0.5.23
"$folder/venv/bin/python" - <<'PYTHON'
import importlib.util
import json
import os
import sys
import types
from typing import Optional

from pydantic import BaseModel

root = importlib.util.find_spec("sglang").submodule_search_locations[0]
for package in ("", ".srt", ".srt.entrypoints", ".srt.entrypoints.openai", ".srt.function_call"):
    module = types.ModuleType("sglang" + package)
    module.__path__ = [os.path.join(root, *package.split("."))]
    sys.modules[module.__name__] = module
from sglang.srt.entrypoints.openai.protocol import Tool  # noqa: E402
from sglang.srt.function_call.minimax_m2 import MinimaxM2Detector  # noqa: E402
from sglang.srt.function_call.qwen3_coder_detector import Qwen3CoderDetector  # noqa: E402
from sglang.srt.function_call.glm4_moe_detector import Glm4MoeDetector  # noqa: E402


class Search(BaseModel):
    city: str
    region: Optional[str] = None
    limit: Optional[int] = None


tools = [Tool(type="function", function={"name": "search", "parameters": Search.model_json_schema()})]
written = {"city": "Springfield", "region": "Illinois", "limit": "5"}
parameters = "".join(f'<parameter name="{name}">{value}</parameter>\n' for name, value in written.items())
minimax = f'<minimax:tool_call>\n<invoke name="search">\n{parameters}</invoke>\n</minimax:tool_call>'
parameters = "".join(f"<parameter={name}>\n{value}\n</parameter>\n" for name, value in written.items())
qwen = f"<tool_call>\n<function=search>\n{parameters}</function>\n</tool_call>"
parameters = "".join(f"<arg_key>{name}</arg_key>\n<arg_value>{value}</arg_value>\n" for name, value in written.items())
glm = f"<tool_call>search\n{parameters}</tool_call>"


def whole(parser, answer):
    return json.loads(parser.detect_and_parse(answer, tools).calls[0].parameters)


def streamed(parser, answer):
    pieces = [answer[:19], *(answer[at:at + 4] for at in range(19, len(answer), 4))]  # the mark is one token
    return json.loads("".join(call.parameters for piece in pieces
                              for call in parser.parse_streaming_increment(piece, tools).calls))


for read in (whole, streamed):
    found = read(MinimaxM2Detector(), minimax)
    print("minimax-m2", read.__name__, found)
    assert found == {"city": "Springfield", "region": None, "limit": None}
for parser, answer in ((Qwen3CoderDetector(), qwen), (Glm4MoeDetector(), glm)):
    found = whole(parser, answer)
    print(type(parser).__name__, found)
    assert found["region"] == "Illinois" and str(found["limit"]) == "5"
print("as it was seen")
PYTHON
