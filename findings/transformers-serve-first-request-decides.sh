#!/usr/bin/env bash
# transformers 5.24.0: "transformers serve --continuous-batching" samples all requests as the first one asked, until
# the server is restarted. temperature and logit_bias of later requests have no effect, a stop string has none in any
# request, and no answer says so, nor does --help; without the option they are followed. If a load test or a health
# check with temperature 0 comes first, everybody gets greedy answers; if a chat comes first, an evaluation with
# temperature 0 is sampled; a bias that the first client asked for is in everybody's answers.
#
# Seen on 2026-11-30 (Python 3.11, x86-64, torch 2.15.0; torch and its CUDA libraries are a download of 3 GB), a model
# that says the alphabet and now and then leaves a letter out, eight letters after "a":
#   first request                     later: temperature 0 twice   temperature 1 twice   temperature 0, stop "d"
#   temperature 0                     bcdefghi bcdefghi            bcdefghi bcdefghi     bcdefghi
#   temperature 1                     sampled                      sampled               bcdefghi or another
#   temperature 1, bias of 100 for x  xxxxxxxx xxxxxxxx            xxxxxxxx xxxxxxxx     xxxxxxxx
#   without the option                bcdefghi bcdefghi            sampled               bcd
# Fails where that is no longer so. The options of the K/V cache keep it from taking most of the machine's memory.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install -q torch==2.15.0 transformers==5.24.0 accelerate==1.15.0 openai==3.57.0 \
  fastapi==0.165.0 starlette==1.10.0 uvicorn==0.54.0 python-multipart==0.0.34 rich==15.0.0
cd "$folder"
cat > model.py <<'PYTHON'
import string

import torch
from tokenizers import Tokenizer, decoders, models, pre_tokenizers
from transformers import GenerationConfig, LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast

words = ["<end>", "<unknown>", *string.ascii_lowercase]
letters = Tokenizer(models.WordLevel({word: place for place, word in enumerate(words)}, unk_token="<unknown>"))
letters.pre_tokenizer = pre_tokenizers.Split("", "isolated")
letters.decoder = decoders.Fuse()
tokenizer = PreTrainedTokenizerFast(tokenizer_object=letters, eos_token="<end>", pad_token="<end>")
tokenizer.chat_template = "{% for message in messages %}{{ message.content }}{% endfor %}"
tokenizer.save_pretrained("alphabet")
size = len(words)
model = LlamaForCausalLM(LlamaConfig(vocab_size=size, hidden_size=size, intermediate_size=8, num_hidden_layers=1,
                                     num_attention_heads=7, bos_token_id=1, eos_token_id=0, pad_token_id=0))
with torch.no_grad():
    for parameter in model.parameters():
        parameter.zero_()
    model.model.norm.weight.fill_(1)
    model.model.embed_tokens.weight.copy_(torch.eye(size))
    for letter in range(2, size):
        model.lm_head.weight[letter + 1 if letter + 1 < size else 0, letter] += 3.0
        model.lm_head.weight[letter + 2 if letter + 2 < size else 0, letter] += 2.9
model.generation_config = GenerationConfig(do_sample=True, eos_token_id=0, pad_token_id=0)
model.save_pretrained("alphabet")
PYTHON
export OMP_NUM_THREADS=1 HF_HUB_OFFLINE=1
venv/bin/python model.py 2> /dev/null
venv/bin/python - <<'PYTHON'
import contextlib
import socket
import subprocess
import time

import openai

BATCHED = ("--continuous-batching", "--cb-num-blocks", "16", "--cb-max-batch-tokens", "64")


@contextlib.contextmanager
def served(*options):
    """a function that asks a server of its own"""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    server = subprocess.Popen(["venv/bin/transformers", "serve", "--host", "127.0.0.1", "--port", str(port),
                               "--device", "cpu", *options], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    client = openai.OpenAI(base_url=f"http://127.0.0.1:{port}/v1", api_key="none", max_retries=0, timeout=120)

    def ask(**fields):
        answer = client.chat.completions.create(model="alphabet", max_tokens=8, **fields,
                                                messages=[{"role": "user", "content": "a"}])
        return answer.choices[0].message.content

    try:
        for _ in range(600):
            with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port)):
                break
            time.sleep(0.2)
        yield ask
    finally:
        server.terminate()
        server.wait()


first = "bcdefghi"
with served(*BATCHED) as ask:
    ask(temperature=0)
    later = [ask(temperature=1, seed=seed) for seed in range(10)] + [ask(temperature=0, stop=["d"])]
    print("temperature 0 first:", *later)
    assert set(later) == {first}
with served(*BATCHED) as ask:
    ask(temperature=1)
    later = [ask(temperature=0) for _ in range(10)]
    print("temperature 1 first:", *later)
    assert len(set(later)) > 2
with served(*BATCHED) as ask:
    ask(temperature=1, logit_bias={"25": 100.0})
    later = [ask(temperature=0), ask(temperature=1), ask(temperature=0, stop=["d"])]
    print("a bias first:", *later)
    assert set(later) == {8 * "x"}
with served() as ask:
    ask(temperature=1)
    later = [ask(temperature=0), ask(temperature=0), ask(temperature=0, stop=["d"])]
    drawn = [ask(temperature=1, seed=seed) for seed in range(10)]
    print("without the option:", *later, *drawn)
    assert later == [first, first, "bcd"] and len(set(drawn)) > 2
print("as it was seen")
PYTHON
