#!/usr/bin/env bash
# lm-evaluation-harness 0.4.13 with the model type local-completions cuts every prompt to its last 2047 tokens, less
# those that the answer may have, whatever the server's context is: max_length defaults to 2048 and the server is not
# asked. What is lost is the beginning: the instruction, the first examples of a few-shot prompt, the document of a
# question. No warning, and the samples that are written out show the whole prompt. With local-chat-completions the same
# questions arrive whole. So a model's long-context score through the one is a score of other questions than through the
# other, and few-shot scores of a server differ from those of the model in process (which knows its own length).
#
# Seen on 2026-11-30 (Python 3.11, x86-64), a prompt of 3000 words, one token each, "begin" at its beginning:
#   local-completions        1791 words arrive (2047 - 256), without "begin"; the sample that is logged has all 3000
#   local-chat-completions   3000 words arrive
# Fails where that is no longer so.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install -q lm-eval==0.4.13 tenacity==9.2.1 aiohttp==3.14.5 requests==2.34.2 tiktoken==0.14.0 \
  tokenizers==0.23.3 transformers==5.24.0
cd "$folder"
cat > asks.yaml <<'YAML'
task: asks
dataset_path: json
dataset_kwargs: {data_files: {test: questions.jsonl}}
test_split: test
output_type: generate_until
doc_to_text: "{{question}}"
doc_to_target: "{{answer}}"
generation_kwargs: {until: ["\n"], temperature: 0.0, max_gen_toks: 256, do_sample: false}
metric_list: [{metric: exact_match}]
YAML
cat > see.py <<'PYTHON'
import json
import logging
import pathlib
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import lm_eval
from lm_eval.tasks import TaskManager
from tokenizers import Tokenizer, models, pre_tokenizers
from transformers import PreTrainedTokenizerFast

WORDS = ["begin"] + ["word"] * 2998 + ["end"]
pathlib.Path("questions.jsonl").write_text(json.dumps({"question": " ".join(WORDS), "answer": "4"}) + "\n")
tokens = Tokenizer(models.WordLevel({"[UNK]": 0, "word": 1, "begin": 2, "end": 3}, unk_token="[UNK]"))
tokens.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
PreTrainedTokenizerFast(tokenizer_object=tokens, unk_token="[UNK]", eos_token="end").save_pretrained("tokenizer")
asked, said = [], []


class Listener(logging.Handler):
    def emit(self, record):
        if record.levelno >= logging.WARNING:
            said.append(record.getMessage())


logging.getLogger().addHandler(Listener())


class Server(BaseHTTPRequestHandler):
    def do_POST(self):
        asked.append(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))
        choice = {"index": 0, "finish_reason": "stop", "text": "4", "message": {"role": "assistant", "content": "4"}}
        body = json.dumps({"choices": [choice]}).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def do_GET(self):
        self.send_error(404)

    def log_message(self, *_):
        pass


server = ThreadingHTTPServer(("127.0.0.1", 0), Server)
threading.Thread(target=server.serve_forever, daemon=True).start()
base = f"http://127.0.0.1:{server.server_port}/v1/"
names = {token: word for word, token in tokens.get_vocab().items()}


def arrives(kind, path, **more):
    found = lm_eval.simple_evaluate(model=kind, model_args={"model": "m", "base_url": base + path} | more, tasks=["asks"],
                                    task_manager=TaskManager(include_path=".", include_defaults=False),
                                    bootstrap_iters=0, apply_chat_template="chat" in path)
    body = asked[-1]
    prompt = body["messages"][-1]["content"] if "messages" in body else body["prompt"]
    prompt = prompt[0] if isinstance(prompt, list) and not isinstance(prompt[0], int) else prompt
    words = prompt.split() if isinstance(prompt, str) else [names[token] for token in prompt]
    logged = json.dumps(found["samples"]["asks"][0]["arguments"])
    print(kind, len(words), "words, the first:", words[0], "- logged:", logged.count("word"), "- warnings:",
          [text[:200] for text in said if "trunc" in text.lower() or "length" in text.lower()])
    return words, logged


completed, logged = arrives("local-completions", "completions", tokenizer="tokenizer", tokenizer_backend="huggingface")
chatted, _ = arrives("local-chat-completions", "chat/completions")
assert "begin" not in completed and 1700 < len(completed) < 2048 and completed[-1] == "end", len(completed)
assert logged.count("word") == 2998 and "begin" in logged
assert chatted == WORDS
assert not [text for text in said if "trunc" in text.lower()], said
print("as it was seen")
PYTHON
OPENAI_API_KEY=none HF_HUB_OFFLINE=1 venv/bin/python see.py
