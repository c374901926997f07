#!/usr/bin/env bash
# SGLang 0.5.23 (--tool-call-parser mistral) reads several calls out of a whole answer, and only the first out of the
# same answer as a stream: the others come as text, however the text is cut. The list form of Mistral's models,
# [TOOL_CALLS] [{...}, {...}], is meant for parallel calls. An agent that streams carries one of them out, shows the
# user the JSON of the rest, and sends that back as part of the conversation. With --tool-call-parser minimax-m2 a
# stream drops something else: the last brace of the arguments, if the value of a text has more } than {; so the
# arguments of a call with a piece of code cannot be parsed, and those of the whole answer can.
#
# Seen on 2026-11-30 (Python 3.11, x86-64), calls in an answer whole, and as a stream of tokens:
#   [TOOL_CALLS] [{"name": "search", ...}, {"name": "add", ...}]   search, add    search, and the text
#     ', {"name": "add", "arguments": {"a": 1, "b": 2}}'
#   <parameter name="q">a } b</parameter>                          {"q": "a } b"}  {"q": "a } b"
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

root = importlib.util.find_spec("sglang").submodule_search_locations[0]
for package in ("", ".srt", ".srt.entrypoints", ".srt.entrypoints.openai", ".srt.function_call"):
    module = types.ModuleType("sglang" + package)
    module.__path__ = [os.path.join(root, *package.split("."))]
    sys.modules[module.__name__] = module
from sglang.srt.entrypoints.openai.protocol import Tool  # noqa: E402
from sglang.srt.function_call.minimax_m2 import MinimaxM2Detector  # noqa: E402
from sglang.srt.function_call.mistral_detector import MistralDetector  # noqa: E402

schema = {"type": "object", "properties": {"q": {"type": "string"}, "a": {"type": "integer"}, "b": {"type": "integer"}}}
tools = [Tool(type="function", function={"name": name, "parameters": schema}) for name in ("search", "add")]


def whole(parser, pieces):
    found = parser.detect_and_parse("".join(pieces), tools)
    return found.normal_text.strip(), [(call.name, call.parameters) for call in found.calls]


def streamed(parser, pieces):
    text, calls = "", {}
    for piece in pieces:
        found = parser.parse_streaming_increment(piece, tools)
        text += found.normal_text
        for call in found.calls:
            name, arguments = calls.get(call.tool_index, ("", ""))
            calls[call.tool_index] = (name or call.name, arguments + call.parameters)
    return text.strip(), [calls[index] for index in sorted(calls)]


# The mark is one token of the model, the rest is cut into pieces as tokens are.
search, add = {"name": "search", "arguments": {"q": "x"}}, {"name": "add", "arguments": {"a": 1, "b": 2}}
answer = json.dumps([search, add])
both = [(call["name"], json.dumps(call["arguments"])) for call in (search, add)]
for length in (1, 2, 3, 4, 5, 6, 7, 8):
    pieces = ["[TOOL_CALLS]", " ", *(answer[at:at + length] for at in range(0, len(answer), length))]
    assert whole(MistralDetector(), pieces) == ("", both)
    text, calls = streamed(MistralDetector(), pieces)
    assert calls == both[:1] and text in (", " + json.dumps(add), ", " + json.dumps(add) + "]"), (length, text, calls)
print("mistral: whole", both, "stream", calls, "and the text", repr(text))

for value in ("a } b", "{ a }"):
    pieces = ["<minimax:tool_call>", "\n<invoke", ' name="search">\n', "<parameter", ' name="q">', value,
              "</parameter>", "\n</invoke>\n", "</minimax:tool_call>"]
    arguments = whole(MinimaxM2Detector(), pieces)[1][0][1]
    shorter = streamed(MinimaxM2Detector(), pieces)[1][0][1]
    print("minimax-m2: whole", arguments, "stream", shorter)
    assert json.loads(arguments) == {"q": value} and shorter + ("}" if value == "a } b" else "") == arguments
print("as it was seen")
PYTHON
