#!/usr/bin/env bash
# What gguf 0.19.0's GGUFWriter takes is not always what its GGUFReader gives back, and neither
# complains. An array of arrays comes back as one flat array: rows of unequal length cannot be told
# apart any more, though the file has them. An empty array and an empty text are not written at all:
# "none of them" becomes "nothing is said", for which readers have defaults of their own (a chat
# template that is empty on purpose, an empty list of suppressed tokens).
#
# Seen on 2026-11-29 (Python 3.11, x86-64):
#   add_array [[1, 2], [3]] -> [1, 2, 3]     add_array [] -> no such key     add_string "" -> no such key
# Fails where that is no longer so.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install -q gguf==0.19.0 numpy==2.4.6
cd "$folder"
venv/bin/python - <<'PYTHON'
from gguf import GGUFReader, GGUFWriter

writer = GGUFWriter("keys.gguf", "llama")
writer.add_array("own.rows", [[1, 2], [3]])
writer.add_array("own.suppressed", [])
writer.add_string("own.template", "")
writer.add_uint32("own.last", 7)
writer.write_header_to_file()
writer.write_kv_data_to_file()
writer.close()

fields = {name: field.contents() for name, field in GGUFReader("keys.gguf").fields.items() if name.startswith("own.")}
print(fields)
assert fields == {"own.rows": [1, 2, 3], "own.last": 7}, fields

# The nesting is in the file: type 9 (array) of 9 (array), two long, the first of them int32 (5), two long.
text = open("keys.gguf", "rb").read()
key = b"own.rows"
after = text[text.index(key) + len(key):]
numbers = [int.from_bytes(after[at:at + size], "little") for at, size in ((0, 4), (4, 4), (8, 8), (16, 4), (20, 8))]
assert numbers == [9, 9, 2, 5, 2], numbers
print("as it was seen")
PYTHON
