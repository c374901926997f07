#!/usr/bin/env bash
# llama.cpp's server (here of xllamacpp 2026.10.11549, which runs it inside of Python) takes presence_penalty and
# frequency_penalty, OpenAI's names, and counts the last 64 tokens before each new one, the prompt's as well. In a chat
# the prompt's tokens are those of the template: the mark that ends a turn stands there once for every turn before, and
# so the penalty is on exactly the token that ends the answer. A value that a program brings along from OpenAI or vLLM,
# which count what was generated alone, lets answers run on to max_tokens, the more surely the longer the conversation
# is; the first turns, which one tests with, end as they should.
#
# Seen on 2026-12-01 (Python 3.11, x86-64), a model that says "abcde" and ends, or else goes on with "f", its end being
# better by 0.5; temperature 0, at most 12 tokens:
#   no penalty                           abcde, "stop"         after 1 turn and after 7 turns
#   presence_penalty 1                   abcdefghijkl, "length"
#   frequency_penalty 0.1 after 1 turn   abcde, "stop"
#   frequency_penalty 0.1 after 7 turns  abcdefghijkl, "length"
#   the same as a completion of "x", whose prompt has no such mark, and presence_penalty 1: abcde, "stop"
# Fails where that is no longer so.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install -q xllamacpp==2026.10.11549 gguf==0.19.0 numpy==2.4.6
cd "$folder"
"$folder/venv/bin/python" - 2> log <<'PYTHON'
import gguf
import numpy as np
import xllamacpp

LETTERS = [chr(97 + i) for i in range(26)]
TOKENS = LETTERS + ["ab", "<end>"]
TOKENS += [f"<{i}>" for i in range(len(TOKENS), 64)]
SIZE, END = len(TOKENS), TOKENS.index("<end>")


def write(path, logits):
    """Logits of the next token, by the last one alone: embeddings are unit vectors, and the layer adds nothing."""
    writer = gguf.GGUFWriter(path, "llama")
    writer.add_context_length(512)
    writer.add_embedding_length(SIZE)
    writer.add_block_count(1)
    writer.add_feed_forward_length(SIZE)
    writer.add_head_count(2)
    writer.add_head_count_kv(2)
    writer.add_layer_norm_rms_eps(1e-6)
    writer.add_rope_dimension_count(SIZE // 2)
    writer.add_vocab_size(SIZE)
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre("gpt-2")
    writer.add_token_list(TOKENS)
    writer.add_token_types([1] * END + [3] * (SIZE - END))
    writer.add_token_merges(["a b"])
    writer.add_bos_token_id(END)
    writer.add_eos_token_id(END)
    writer.add_add_bos_token(False)
    writer.add_chat_template("{% for message in messages %}{{ message.content }}<end>{% endfor %}")
    unit = np.eye(SIZE, dtype=np.float32)
    writer.add_tensor("token_embd.weight", unit)
    writer.add_tensor("output_norm.weight", np.ones(SIZE, np.float32))
    writer.add_tensor("output.weight", (logits / np.sqrt(SIZE)).astype(np.float32))  # the norm makes 1 of 64 an 8
    for name in ("attn_q", "attn_k", "attn_v", "attn_output", "ffn_gate", "ffn_up", "ffn_down"):
        writer.add_tensor(f"blk.0.{name}.weight", np.zeros((SIZE, SIZE), np.float32))
    for name in ("attn_norm", "ffn_norm"):
        writer.add_tensor(f"blk.0.{name}.weight", np.ones(SIZE, np.float32))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


logits = np.full((SIZE, SIZE), -10.0)
for letter in range(26):
    logits[(letter + 1) % 26, letter] = 8.0
logits[0, END] = logits[0, LETTERS.index("x")] = 9.0
logits[END, LETTERS.index("e")] = 8.5
write("alphabet.gguf", logits)
parameters = xllamacpp.CommonParams()
parameters.model.path = "alphabet.gguf"
parameters.n_ctx = 256
parameters.n_parallel = 1
parameters.cpuparams.n_threads = 1
server = xllamacpp.Server(parameters)


def chat(turns, **penalty):
    messages = [{"role": ("user", "assistant")[i % 2], "content": "x"} for i in range(turns)]
    choice = server.handle_chat_completions({"messages": messages, "max_tokens": 12, "temperature": 0, **penalty})
    choice = choice["choices"][0]
    print(turns, "turns", penalty, choice["message"]["content"], choice["finish_reason"])
    return choice["message"]["content"], choice["finish_reason"]


def completion(**penalty):
    answer = server.handle_completions({"prompt": "x", "max_tokens": 12, "temperature": 0, **penalty})
    choice = answer["choices"][0]
    print("completion", penalty, choice["text"], choice["finish_reason"])
    return choice["text"], choice["finish_reason"]


ends, runs_on = ("abcde", "stop"), ("abcdefghijkl", "length")
assert chat(1) == chat(7) == ends
assert chat(1, presence_penalty=1.0) == runs_on
assert chat(1, frequency_penalty=0.1) == ends
assert chat(7, frequency_penalty=0.1) == runs_on
assert completion(presence_penalty=1.0) == ends
print("as it was seen")
PYTHON
