#!/usr/bin/env bash
# transformers 5.24.0 looks for a stop string only at the end of what each step has added. With prompt lookup a step
# may add several tokens, and a stop string that ends before the last of them is never seen: the answer goes on to
# max_new_tokens or the end of text. The same call without drafts stops. So drafts, which are to give the same tokens,
# change the answer, and the more often the better they are: an agent that stops at "Observation:" goes on and invents
# one. Tokens that end a text are found among drafts. (An assistant model raises an error next to stop_strings.)
#
# Seen on 2026-11-30 (Python 3.11, x86-64, torch 2.15.0; torch and its CUDA libraries are a download of 3 GB), a model
# that says the alphabet, after "abcdefghijka", at most 20 tokens:
#   stop string   without drafts   prompt_lookup_num_tokens=5
#   "d"           bcd              bcdefghijklmnopqrstu
#   "gh"          bcdefgh          bcdefghijklmnopqrstu
#   none; the token of "f" ends a text: bcdef with both
# Fails where that is no longer so.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install -q torch==2.15.0 transformers==5.24.0
OMP_NUM_THREADS=1 "$folder/venv/bin/python" - <<'PYTHON'
import string

import torch
import transformers
from tokenizers import Tokenizer, decoders, models, pre_tokenizers
from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast

transformers.logging.set_verbosity_error()
words = ["<end>", "<unknown>", *string.ascii_lowercase]
letters = Tokenizer(models.WordLevel({word: place for place, word in enumerate(words)}, unk_token="<unknown>"))
letters.pre_tokenizer = pre_tokenizers.Split("", "isolated")
letters.decoder = decoders.Fuse()
tokenizer = PreTrainedTokenizerFast(tokenizer_object=letters, eos_token="<end>")

# Each letter is followed by the next one: embeddings are unit vectors, and attention and MLP add nothing to them.
size = len(words)
model = LlamaForCausalLM(LlamaConfig(vocab_size=size, hidden_size=size, intermediate_size=8, num_hidden_layers=1,
                                     num_attention_heads=7, bos_token_id=1, eos_token_id=0, pad_token_id=0)).eval()
with torch.no_grad():
    for parameter in model.parameters():
        parameter.zero_()
    model.model.norm.weight.fill_(1)
    model.model.embed_tokens.weight.copy_(torch.eye(size))
    for letter in range(2, size):
        model.lm_head.weight[letter + 1 if letter + 1 < size else 0, letter] = 5
prompt = tokenizer("abcdefghijka", return_tensors="pt")


def answer(**options):
    tokens = model.generate(prompt.input_ids, attention_mask=prompt.attention_mask, tokenizer=tokenizer,
                            do_sample=False, max_new_tokens=20, **options)
    return tokenizer.decode(tokens[0, prompt.input_ids.shape[1]:])


for options, alone in (({"stop_strings": "d"}, "bcd"), ({"stop_strings": "gh"}, "bcdefgh"),
                       ({"eos_token_id": tokenizer.convert_tokens_to_ids("f")}, "bcdef")):
    plain, drafted = answer(**options), answer(prompt_lookup_num_tokens=5, **options)
    print(options, plain, drafted)
    assert plain == alone
    assert drafted == ("bcdefghijklmnopqrstu" if "stop_strings" in options else alone)
print("as it was seen")
PYTHON
