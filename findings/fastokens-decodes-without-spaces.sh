#!/usr/bin/env bash
# fastokens 0.3.5, which offers itself in place of tokenizers, finds the same ids as tokenizers
# 0.23.3 in a Llama 2 kind of tokenizer.json but makes another text of them where tokens were added
# without saying normalized=False (the default of add_tokens): tokenizers decodes the normalised
# form of such a token, which begins with a space, fastokens the form that was added. A server that
# looks for a stop text or counts characters sees another text than the one it replaced.
#
# Seen on 2026-11-29 (Python 3.11, x86-64), both [4, 3, 4, 3] for "<tool> a <tool> a", and decoded:
#   tokenizers "<tool> a <tool> a"     fastokens "<tool> a<tool> a"
# Fails where that is no longer so.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install -q tokenizers==0.23.3 fastokens==0.3.5
"$folder/venv/bin/python" - <<'PYTHON'
import fastokens
from tokenizers import Tokenizer, decoders, models, normalizers

tokenizer = Tokenizer(models.BPE({"<unk>": 0, "▁": 1, "a": 2, "▁a": 3}, [("▁", "a")], unk_token="<unk>"))
tokenizer.normalizer = normalizers.Sequence([normalizers.Prepend("▁"), normalizers.Replace(" ", "▁")])
tokenizer.decoder = decoders.Sequence([decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse(),
                                       decoders.Strip(" ", 1, 0)])
tokenizer.add_tokens(["<tool>"])
other = fastokens.Tokenizer.from_json_str(tokenizer.to_str())

text = "<tool> a <tool> a"
ids = tokenizer.encode(text).ids
print(ids, list(other.encode(text).ids), repr(tokenizer.decode(ids)), repr(other.decode(ids)))
assert ids == list(other.encode(text).ids) == [4, 3, 4, 3]
assert tokenizer.decode(ids) == text and other.decode(ids) == "<tool> a<tool> a"
print("as it was seen")
PYTHON
