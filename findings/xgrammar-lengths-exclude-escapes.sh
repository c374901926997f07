#!/usr/bin/env bash
# In xgrammar 0.2.9 a JSON schema's minLength or maxLength changes which characters a string may have. Without one, a
# string is JSON's: escapes, and no bare control characters. With one, any character counts but the quote, the
# backslash and line ends, each as it stands. So a field of code, a quotation or a path of Windows with a maxLength
# cannot be written: neither \n nor \" nor \\ is allowed in it. And a tab, or any other control character, may be
# written bare, which is no JSON: the answer that fits the grammar cannot be parsed. minLength 1, which many schemas
# have, is enough. A pattern excludes escapes as well, but keeps control characters out.
#
# Seen on 2026-11-30 (Python 3.11, x86-64), which of the answers "a\nb", "a\"b" (escaped) and "a<tab>b" (bare) fit:
#   {"type": "string"}                   escaped ones
#   {"type": "string", "minLength": 1}   the bare one
#   {"type": "string", "maxLength": 10}  the bare one
# llguidance 1.9.1: escaped ones for all three.
# xgrammar loads torch and transformers, for masks and vocabularies; neither is used here, so empty modules stand in
# for them. Fails where that is no longer so.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install -q apache-tvm-ffi==0.1.15.post2 numpy==2.4.6 pydantic==2.14.4 llguidance==1.9.1
"$folder/venv/bin/pip" install -q --no-deps xgrammar==0.2.9
"$folder/venv/bin/python" - <<'PYTHON'
import json
import sys
import types

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


def guided(schema, answer):
    matcher = LLMatcher(vocabulary, LLMatcher.grammar_from_json_schema(schema))
    return matcher.try_consume_tokens(list(answer.encode())) == len(answer) and matcher.is_accepting()


def is_json(answer):
    try:
        return isinstance(json.loads(answer), str)
    except ValueError:
        return False


escaped, bare = [json.dumps("a\nb"), json.dumps('a"b')], '"a\tb"'
assert all(map(is_json, escaped)) and not is_json(bare)
for limits, expected in (({}, escaped), ({"minLength": 1}, [bare]), ({"maxLength": 10}, [bare])):
    schema = json.dumps({"type": "string", **limits})
    seen = [answer for answer in (*escaped, bare) if accepts(xgrammar.Grammar.from_json_schema(schema), answer)]
    other = [answer for answer in (*escaped, bare) if guided(schema, answer)]
    print(f"{schema}: xgrammar {seen}, llguidance {other}")
    assert seen == expected and other == escaped
print("as it was seen")
PYTHON
