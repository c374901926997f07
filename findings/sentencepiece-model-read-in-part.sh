#!/usr/bin/env bash
# transformers 5.24.0 takes the pieces of a SentencePiece tokenizer.model (0.2.3) and leaves what
# else the file says: its normalizer, whether a space is put first, which piece stands for the
# unknown. LlamaTokenizer finds other ids than SentencePiece with the same file; T5Tokenizer takes
# piece 2 for the unknown whatever the file says, which in a model trained with SentencePiece's own
# defaults is </s>: each unknown character becomes an end of text.
#
# Seen on 2026-11-29 (Python 3.11, x86-64):
#   NFKC (the trainer's default), LlamaTokenizer, "ｔｗｏ": SentencePiece finds the pieces of "two", transformers bytes
#   add_dummy_prefix=False, LlamaTokenizer, "two": SentencePiece begins with t, transformers with ▁
#   unigram, defaults, T5Tokenizer, "two ж": SentencePiece ends with <unk> (0), transformers with </s> (2)
# Fails where that is no longer so.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install -q transformers==5.24.0 sentencepiece==0.2.3 protobuf==7.36.2
cd "$folder"
venv/bin/python - <<'PYTHON'
import json
import os
import sentencepiece
import transformers

transformers.logging.set_verbosity_error()
with open("text", "w") as text:
    text.write("one two three two one\nsix sets of two, ten of three\n" * 50)


def both(words, name, **options):
    """SentencePiece's pieces and those of the class of that name, from one file"""
    os.makedirs("model", exist_ok=True)
    sentencepiece.SentencePieceTrainer.train(input="text", model_prefix="model/tokenizer", minloglevel=2, hard_vocab_limit=False,
                                                 **options)
    with open("model/tokenizer_config.json", "w") as config:
        json.dump({"tokenizer_class": name}, config)
    own = sentencepiece.SentencePieceProcessor(model_file="model/tokenizer.model").encode(words)
    other = getattr(transformers, name).from_pretrained("model")
    theirs = other.encode(words, add_special_tokens=False)
    print(name, options, words, *(other.convert_ids_to_tokens(ids) for ids in (own, theirs)))
    return own, theirs, other


own, theirs, tokenizer = both("ｔｗｏ", "LlamaTokenizer", model_type="bpe", byte_fallback=True, vocab_size=300)
assert own == tokenizer.encode("two", add_special_tokens=False) != theirs
assert all(piece.startswith("<0x") for piece in tokenizer.convert_ids_to_tokens(theirs)[1:])
own, theirs, tokenizer = both("two", "LlamaTokenizer", model_type="bpe", byte_fallback=True, vocab_size=300,
                              add_dummy_prefix=False)
assert tokenizer.convert_ids_to_tokens(own)[0][0] == "t" and tokenizer.convert_ids_to_tokens(theirs)[0][0] == "▁"
own, theirs, tokenizer = both("two ж", "T5Tokenizer", model_type="unigram", vocab_size=40)
assert own[-1] == 0 and theirs[-1] == 2 and tokenizer.convert_ids_to_tokens(2) == "</s>"
print("as it was seen")
PYTHON
