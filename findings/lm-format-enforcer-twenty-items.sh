#!/usr/bin/env bash
# lm-format-enforcer 0.11.3 holds answers to other things than their JSON schema says. A list without maxItems ends
# after 20 items: then only "]" is allowed, so that whoever extracts names or rows from a text gets twenty of them, as
# valid JSON (minItems beyond 20 lifts it). additionalProperties: true allows none where there are properties.
# minimum and maximum have no effect. oneOf of a number and a text allows neither, only an object. A text of an enum
# that has to be written with an escape (it has a quote or a line end in it) cannot be chosen.
# There is no warning of any of it; llguidance 1.9.1 takes the valid answers.
#
# Seen on 2026-11-30 (Python 3.11, x86-64), answer, and what fits:                       lm-format-enforcer  llguidance
#   list of integers, [0, ..., 19] and [0, ..., 20]                                      yes, no             yes, yes
#   {"a": integer}, additionalProperties: true; {"a": 1, "b": 2}                         no                  yes
#   integer with minimum 5; 3                                                            yes                 no
#   oneOf integer and string; 3 and {}                                                   no, yes             yes, no
#   enum of one text, 5" wide; "5\" wide"                                                no                  yes
# Fails where that is no longer so.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install -q lm-format-enforcer==0.11.3 pydantic==2.14.4 interegular==0.3.3 llguidance==1.9.1
"$folder/venv/bin/python" - <<'PYTHON'
import json

from llguidance import LLMatcher, LLTokenizer, TokenizerWrapper
from lmformatenforcer import JsonSchemaParser


class Bytes:
    eos_token_id, bos_token_id = 256, None
    tokens, special_token_ids = [bytes([i]) for i in range(256)] + [b"<end>"], [256]

    def __call__(self, text):
        return list(text)


vocabulary = LLTokenizer(TokenizerWrapper(Bytes()))


def enforced(schema, answer):
    parser = JsonSchemaParser(schema)
    for character in answer:
        if character not in parser.get_allowed_characters():
            return False
        parser = parser.add_character(character)
    return parser.can_end()


def guided(schema, answer):
    matcher = LLMatcher(vocabulary, LLMatcher.grammar_from_json_schema(schema))
    return matcher.try_consume_tokens(list(answer.encode())) == len(answer) and matcher.is_accepting()


integer = {"type": "integer"}
numbers = {"type": "array", "items": integer}
member = {"type": "object", "properties": {"a": integer}, "additionalProperties": True}
either = {"oneOf": [integer, {"type": "string"}]}
wide = {"enum": ['5" wide']}
for schema, answer, first, second in (
        (numbers, json.dumps([*range(20)]), True, True), (numbers, json.dumps([*range(21)]), False, True),
        (numbers | {"minItems": 21}, json.dumps([*range(30)]), True, True),
        (member, '{"a": 1, "b": 2}', False, True),
        ({"type": "integer", "minimum": 5}, "3", True, False),
        (either, "3", False, True), (either, '"x"', False, True), (either, "{}", True, False),
        (wide, json.dumps('5" wide'), False, True)):
    seen, other = enforced(schema, answer), guided(schema, answer)
    print(json.dumps(schema), answer, seen, other)
    assert (seen, other) == (first, second)
print("as it was seen")
PYTHON
