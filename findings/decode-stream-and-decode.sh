#!/usr/bin/env bash
# tokenizers 0.23.3: the text from DecodeStream, token by token, is not always the text from decode
# of the same ids, both of valid ids that a model may draw. (1) With a byte-level vocabulary
# whatever is held back for an unfinished character is never given out: there is no way to say that
# the stream is at its end. (2) With byte fallback (Llama 2, Gemma) a byte token of a letter
# followed by one that no character goes on with takes the letter back, since the whole run becomes
# U+FFFD, and step raises an error at a later token; decode just answers.
#
# Seen on 2026-11-29 (Python 3.11, x86-64):
#   byte level      [a, 0xE4]          decode "a\ufffd", stream "a"
#   byte fallback   [<0x68>, <0x8B>, a]  decode "\ufffd\ufffda", stream: "Invalid prefix encountered while decoding stream"
# Fails where that is no longer so.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install -q tokenizers==0.23.3
"$folder/venv/bin/python" - <<'PYTHON'
from tokenizers import Tokenizer, decoders, models
from tokenizers.decoders import DecodeStream

leveled = Tokenizer(models.BPE({"a": 0, "ä": 1}, []))  # "ä" stands for the byte 0xE4
leveled.decoder = decoders.ByteLevel()
stream = DecodeStream(skip_special_tokens=False)
streamed = "".join(stream.step(leveled, token) or "" for token in (0, 1))
print("byte level:", ascii(leveled.decode([0, 1])), ascii(streamed))
assert leveled.decode([0, 1]) == "a\ufffd" and streamed == "a"

fallback = Tokenizer(models.BPE({"<0x68>": 0, "<0x8B>": 1, "a": 2}, [], byte_fallback=True))
fallback.decoder = decoders.Sequence([decoders.ByteFallback(), decoders.Fuse()])
print("byte fallback:", ascii(fallback.decode([0, 1, 2])))
assert fallback.decode([0, 1, 2]) == "\ufffd\ufffda"
stream = DecodeStream(skip_special_tokens=False)
given = []
try:
    for token in (0, 1, 2):
        given.append(stream.step(fallback, token))
    raise SystemExit(f"the stream answers now: {given}")
except Exception as error:
    print(given, error)
    assert given[0] == "h" and "Invalid prefix encountered" in str(error), (given, error)
print("as it was seen")
PYTHON
