#!/usr/bin/env bash
# Where two added tokens become the same text by the normalizer (here: lower case), tokenizers
# 0.23.3 finds one of them by chance: two tokenizers made from the same tokenizer.json in the same
# process give other ids for the same text. Nothing warns of it, neither when the second token is
# added nor when the file is loaded. Processes that share a prefix cache, or a trainer and a server,
# then disagree on prompts.
#
# Seen on 2026-11-29 (Python 3.11, x86-64), "a <tool>" in 200 tokenizers from one text: [1, 2] 112 times, [1, 3] 88 times.
# Fails where all of them agree.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install -q tokenizers==0.23.3
"$folder/venv/bin/python" - <<'PYTHON'
import collections
from tokenizers import AddedToken, Tokenizer, models, normalizers, pre_tokenizers

tokenizer = Tokenizer(models.WordLevel({"[UNK]": 0, "a": 1}, unk_token="[UNK]"))
tokenizer.normalizer = normalizers.Lowercase()
tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
tokenizer.add_tokens([AddedToken("<Tool>", normalized=True), AddedToken("<tool>", normalized=True)])
saved = tokenizer.to_str()
seen = collections.Counter(tuple(Tokenizer.from_str(saved).encode("a <tool>").ids) for _ in range(200))
print(dict(seen))
assert set(seen) == {(1, 2), (1, 3)}, seen  # two hundred equal draws do not happen by chance
print("as it was seen")
PYTHON
