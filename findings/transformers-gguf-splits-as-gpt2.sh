#!/usr/bin/env bash
# transformers 5.24.0 makes a tokenizer from a GGUF file and splits text as GPT-2 does where it does not know the name
# in tokenizer.ggml.pre, without a warning. It knows 23 of llama.cpp's names (Llama 3's, Qwen's, Tekken, GPT-4o's);
# not among them are those of DeepSeek, GLM 4, Kimi K2 and Hunyuan. Their vocabularies have tokens of a mark and the
# line end after it, such as ";\n" and "{\n", which are then never found: almost every line of code becomes other, and
# more, tokens than the model was trained with. They decode to the right text, so nothing shows it but the ids.
#
# Seen on 2026-11-30 (Python 3.11, x86-64, torch 2.15.0; torch and its CUDA libraries are a download of 3 GB),
# "if (a) {\n    b = 2024;\n}\n" by one vocabulary, in tokenizer.json and in GGUF files that differ in that name alone:
#   tokenizer.json, llama-bpe                                 13 tokens, " {\n" and ";\n" among them
#   deepseek-v3, glm4, kimi-k2, hunyuan-dense, no-such-name   17, with "{", "\n", ";", "\n" in their place
# Fails where that is no longer so.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install -q torch==2.15.0 transformers==5.24.0 tokenizers==0.23.3 gguf==0.19.0 numpy==2.4.6
cd "$folder"
venv/bin/python - <<'PYTHON'
import json
import os

import gguf
from tokenizers import Regex, Tokenizer, decoders, models, pre_tokenizers, trainers
from transformers import AutoTokenizer

# Words, numbers of up to three digits, marks with the line ends after them: about what these names stand for.
pattern = r"[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
original = Tokenizer(models.BPE())
original.pre_tokenizer = pre_tokenizers.Sequence([
    pre_tokenizers.Split(Regex(pattern), "isolated"),
    pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)])
original.decoder = decoders.ByteLevel()
code = "int main() {\n    if (a) {\n        b = 2024;\n    }\n    return f(x);\n}\n\n"
original.train_from_iterator([code] * 50, trainers.BpeTrainer(
    vocab_size=330, special_tokens=["<end>"], initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
    show_progress=False))
model = json.loads(original.to_str())["model"]
vocabulary = sorted(model["vocab"], key=model["vocab"].get)
text = "if (a) {\n    b = 2024;\n}\n"
wanted = original.encode(text)
print("tokenizer.json ", len(wanted.ids), wanted.tokens)
for name in ("llama-bpe", "deepseek-v3", "glm4", "kimi-k2", "hunyuan-dense", "no-such-name"):
    os.mkdir(name)
    writer = gguf.GGUFWriter(f"{name}/model.gguf", "llama")
    writer.add_context_length(64)
    writer.add_embedding_length(32)
    writer.add_block_count(1)
    writer.add_feed_forward_length(32)
    writer.add_head_count(2)
    writer.add_layer_norm_rms_eps(1e-5)
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre(name)
    writer.add_token_list(vocabulary)
    writer.add_token_types([gguf.TokenType.CONTROL] + [gguf.TokenType.NORMAL] * (len(vocabulary) - 1))
    writer.add_token_merges([" ".join(merge) for merge in model["merges"]])
    writer.add_eos_token_id(0)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    tokenizer = AutoTokenizer.from_pretrained(name, gguf_file="model.gguf")
    found = tokenizer(text, add_special_tokens=False)["input_ids"]
    print(f"{name:15}", len(found), tokenizer.convert_ids_to_tokens(found))
    assert tokenizer.decode(found) == text
    if name == "llama-bpe":
        assert found == wanted.ids
    else:
        assert len(found) > len(wanted.ids) and not any("Ċ" in token != "Ċ" for token in
                                                        tokenizer.convert_ids_to_tokens(found))
print("as it was seen")
PYTHON
