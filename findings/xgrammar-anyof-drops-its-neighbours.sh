#!/usr/bin/env bash
# xgrammar 0.2.9 takes a JSON schema's anyOf or oneOf for the whole of the schema: "type", "properties", "required" and
# "additionalProperties" next to it are dropped without a word, and so are keywords next to a $ref. A common way to ask
# for one of two members (anyOf of two "required") then allows any JSON at all, a number too, and a union with a common
# part refuses every answer that has the common part. Several schemas in allOf allow anything as well, for which there
# is at least a warning on standard error (oneOf has one too, of something else).
#
# Seen on 2026-11-30 (Python 3.11, x86-64):
#   {"type": "object", "properties": {"k", "l": strings}, "anyOf": [{"required": ["k"]}, {"required": ["l"]}]}
#     fits: {"k": "a"}, and also {} and 3
#   {"type": "object", "properties": {"k": string}, "required": ["k"],
#    "anyOf": [{"properties": {"t": {"const": 1}}, "required": ["t"]}, the same with 2]}, and with oneOf
#     fits: {"t": 1}, and not {"k": "a", "t": 1}
#   {"$ref": "#/$defs/text", "maxLength": 1}, where text is a string
#     fits: "ab"
# llguidance 1.9.1 allows the valid ones alone, or refuses the schema (oneOf).
# xgrammar loads torch and transformers, for masks and vocabularies; neither is used here, so empty modules stand in
# for them. Fails where that is no longer so.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install -q apache-tvm-ffi==0.1.15.post2 numpy==2.4.6 pydantic==2.14.4 llguidance==1.9.1 \
  jsonschema==4.26.0
"$folder/venv/bin/pip" install -q --no-deps xgrammar==0.2.9
"$folder/venv/bin/python" - <<'PYTHON'
import json
import sys
import types

import jsonschema
import tvm_ffi  # looks for torch as well, so it comes before what stands in


class Anything(type):
    def __getattr__(cls, name):
        if name.startswith("__"):
            raise AttributeError(name)
        return Some


class Some(metaclass=Anything):
    def __init__(self, *_, **__):
        pass


class Module(types.ModuleType):
    def __getattr__(self, name):
        return getattr(Some, name)


sys.modules.update({name: Module(name) for name in ("torch", "transformers")})
import xgrammar  # noqa: E402
from llguidance import LLMatcher, LLTokenizer, TokenizerWrapper  # noqa: E402
from xgrammar.testing import _is_grammar_accept_string as accepts  # noqa: E402


class Bytes:
    eos_token_id, bos_token_id = 256, None
    tokens, special_token_ids = [bytes([i]) for i in range(256)] + [b"<end>"], [256]

    def __call__(self, text):
        return list(text)


vocabulary = LLTokenizer(TokenizerWrapper(Bytes()))
text = {"type": "string"}
kind = [{"properties": {"t": {"const": number}}, "required": ["t"]} for number in (1, 2)]
one_of_two = {"type": "object", "properties": {"k": text, "l": text},
              "anyOf": [{"required": ["k"]}, {"required": ["l"]}]}
union = {"type": "object", "properties": {"k": text}, "required": ["k"]}
for schema, answers, expected, other in (
        (one_of_two, [{"k": "a"}, {"l": "a"}, {}, 3], [{"k": "a"}, {"l": "a"}, {}, 3], [{"k": "a"}, {"l": "a"}]),
        (union | {"anyOf": kind}, [{"k": "a", "t": 1}, {"t": 1}], [{"t": 1}], [{"k": "a", "t": 1}]),
        (union | {"oneOf": kind}, [{"k": "a", "t": 1}, {"t": 1}], [{"t": 1}], None),
        ({"$ref": "#/$defs/text", "maxLength": 1, "$defs": {"text": text}}, ["a", "ab"], ["a", "ab"], ["a"])):
    told = json.dumps(schema)
    valid = [answer for answer in answers if jsonschema.Draft202012Validator(schema).is_valid(answer)]
    seen = [answer for answer in answers if accepts(xgrammar.Grammar.from_json_schema(told), json.dumps(answer))]
    guided = []
    for answer in answers:
        matcher = LLMatcher(vocabulary, LLMatcher.grammar_from_json_schema(told))
        if matcher.is_error():
            guided = None
            break
        written = json.dumps(answer).encode()
        if matcher.try_consume_tokens(list(written)) == len(written) and matcher.is_accepting():
            guided.append(answer)
    print(f"{told}\n  valid {valid}\n  xgrammar {seen}\n  llguidance {guided}")
    assert seen == expected != valid and guided == other and guided in (valid, None)
print("as it was seen")
PYTHON
