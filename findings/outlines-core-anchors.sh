#!/usr/bin/env bash
# outlines-core 0.2.14 puts a JSON schema's `pattern` between two quotes of a regular expression as
# it stands, so the same schema means other answers than in a validator (where a pattern may match
# anywhere): without anchors it must be the whole text; with one anchor the anchor stands inside the
# quotes and nothing at all can be generated; alternatives part the quotes from each other, so that
# no valid answer is left. allOf becomes its parts one after the other, and refuses every answer
# that has both. llguidance 1.9.1 takes the valid answers to all of these.
#
# Seen on 2026-11-29 (Python 3.11, x86-64):
#   "pattern": "b"       ("b")     "abc" refused
#   "pattern": "^b"      ("^b")    Index: "Found no transitions"
#   "pattern": "^b|c$"   ("b|c")   "bcd" refused
#   allOf of {"a": integer} and {"b": integer}: \{ "a" ... \}\{ "b" ... \}, {"a":1,"b":2} refused
# Fails where that is no longer so.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install -q outlines-core==0.2.14 llguidance==1.9.1
"$folder/venv/bin/python" - <<'PYTHON'
import json
import re
from llguidance import LLMatcher, LLTokenizer, TokenizerWrapper
from outlines_core import Index, Vocabulary
from outlines_core.json_schema import build_regex_from_schema


class Bytes:
    """A vocabulary of one byte a token."""
    eos_token_id, bos_token_id, special_token_ids = 256, None, [256]
    tokens = [bytes([byte]) for byte in range(256)] + [b"<eos>"]

    def __call__(self, text):
        return list(text if isinstance(text, bytes) else text.encode())


tokenizer = LLTokenizer(TokenizerWrapper(Bytes()))
vocabulary = Vocabulary(256, {bytes([byte]): [byte] for byte in range(128)})


def llguidance_takes(schema, text):
    matcher = LLMatcher(tokenizer, LLMatcher.grammar_from_json_schema(json.dumps(schema)))
    return matcher.try_consume_tokens(list(text.encode())) == len(text) and matcher.is_accepting()


def part(name):
    return {"type": "object", "properties": {name: {"type": "integer"}}, "required": [name]}


def text(pattern):
    return {"type": "string", "pattern": pattern}


for schema, answer in ((text("b"), '"abc"'), (text("^b"), '"bcd"'), (text("^b|c$"), '"bcd"'),
                       ({"allOf": [part("a"), part("b")]}, '{"a":1,"b":2}')):
    expression = build_regex_from_schema(json.dumps(schema))
    print(json.dumps(schema), expression)
    assert re.fullmatch(expression, answer) is None and llguidance_takes(schema, answer), (expression, answer)
assert build_regex_from_schema(json.dumps(text("b"))) == '("b")'
assert build_regex_from_schema(json.dumps(text("^b"))) == '("^b")'
try:
    Index('("^b")', vocabulary)
    raise SystemExit("there is something to generate now")
except ValueError as error:
    print(error)
    assert "Found no transitions" in str(error)
assert build_regex_from_schema(json.dumps(text("^b|c$"))) == '("b|c")'
print("as it was seen")
PYTHON
