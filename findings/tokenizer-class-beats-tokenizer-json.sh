#!/usr/bin/env bash
# A folder's tokenizer.json says the whole tokenizer, but transformers 5.24.0 takes its vocabulary
# and merges alone where tokenizer_config.json names certain classes, and puts the class's
# own normalizer, splitting and decoder around them. tokenizers 0.23.3, and every engine that reads
# the file as it stands, finds other ids with the same folder, without a word from either side; what
# transformers saves is the changed one. PreTrainedTokenizerFast as the class keeps the file.
#
# Seen on 2026-11-29 (Python 3.11, x86-64):
#   digits in threes, class Qwen2Tokenizer:        "123"  tokenizers [123]     transformers [1] [2] [3]
#   Llama 2's normalizer, class LlamaTokenizer:    " a"   tokenizers [▁] [▁a]  transformers [▁a], the same as for "a"
#   either with class PreTrainedTokenizerFast: as tokenizers
# Fails where that is no longer so.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install -q transformers==5.24.0 tokenizers==0.23.3
cd "$folder"
venv/bin/python - <<'PYTHON'
import json
import pathlib
import transformers
from tokenizers import Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers

transformers.logging.set_verbosity_error()
folder = pathlib.Path("model")
folder.mkdir()


def byte_level():
    vocabulary = {letter: at for at, letter in enumerate(sorted(pre_tokenizers.ByteLevel.alphabet()))}
    tokenizer = Tokenizer(models.BPE(vocabulary | {"12": 256, "123": 257}, [("1", "2"), ("12", "3")]))
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [pre_tokenizers.Split(Regex(r"\p{N}{1,3}|\P{N}+"), "isolated"),
         pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)])
    tokenizer.decoder = decoders.ByteLevel()
    return tokenizer


def llama():
    vocabulary = {"<unk>": 0, "<s>": 1, "</s>": 2, "▁": 3, "a": 4, "▁a": 5}
    tokenizer = Tokenizer(models.BPE(vocabulary, [("▁", "a")], unk_token="<unk>"))
    tokenizer.normalizer = normalizers.Sequence([normalizers.Prepend("▁"), normalizers.Replace(" ", "▁")])
    tokenizer.decoder = decoders.Sequence([decoders.Replace("▁", " "), decoders.Fuse(), decoders.Strip(" ", 1, 0)])
    return tokenizer


def both(tokenizer, name, text):
    """What the file says and what the class of that name makes of it, for one text"""
    tokenizer.save(str(folder / "tokenizer.json"))
    (folder / "tokenizer_config.json").write_text(json.dumps({"tokenizer_class": name}))
    loaded = transformers.AutoTokenizer.from_pretrained(folder)
    loaded.save_pretrained("saved")
    again = Tokenizer.from_file("saved/tokenizer.json").encode(text, add_special_tokens=False).tokens
    found = tokenizer.encode(text, add_special_tokens=False).tokens, loaded.tokenize(text), again
    print(name, repr(text), *found)
    return found


assert both(byte_level(), "Qwen2Tokenizer", "123") == (["123"], ["1", "2", "3"], ["1", "2", "3"])
assert both(llama(), "LlamaTokenizer", " a") == (["▁", "▁a"], ["▁a"], ["▁a"])
assert both(llama(), "LlamaTokenizer", "a") == (["▁a"], ["▁a"], ["▁a"])
assert both(byte_level(), "PreTrainedTokenizerFast", "123") == (["123"], ["123"], ["123"])
assert both(llama(), "PreTrainedTokenizerFast", " a") == (["▁", "▁a"], ["▁", "▁a"], ["▁", "▁a"])
print("as it was seen")
PYTHON
