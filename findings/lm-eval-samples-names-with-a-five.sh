#!/usr/bin/env bash
# lm-evaluation-harness 0.4.13 looks for "5" (or "o1") in a model's name. With the model type openai-chat-completions,
# which many point at servers of their own by base_url, a name such as Qwen2.5-7B-Instruct has every request sent
# without its stop strings and with temperature 1, whatever the task says; the report goes on to print the task's
# temperature 0.0 and "until". Scores are those of a sampled answer that runs on, and differ from run to run if the
# server draws seeds. Llama-3-8B on the same server gets what the task says. Nothing warns of it. Both chat types also
# send only the first four of a task's stop strings (the limit of OpenAI's own service), again without a word.
#
# Seen on 2026-11-30 (Python 3.11, x86-64), what arrives of temperature 0.0 and until ["\n", "Q:", "A:", "###", "##"]:
#   openai-chat-completions  Llama-3-8B     temperature 0.0, stop ["\n", "Q:", "A:", "###"]
#   openai-chat-completions  Qwen2.5-7B     temperature 1, no stop
#   local-chat-completions   Qwen2.5-7B     temperature 0.0, stop ["\n", "Q:", "A:", "###"]
# Fails where that is no longer so.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install -q lm-eval==0.4.13 tenacity==9.2.1 aiohttp==3.14.5 requests==2.34.2 tiktoken==0.14.0
cd "$folder"
cat > asks.yaml <<'YAML'
task: asks
dataset_path: json
dataset_kwargs: {data_files: {test: questions.jsonl}}
test_split: test
output_type: generate_until
doc_to_text: "{{question}}"
doc_to_target: "{{answer}}"
generation_kwargs: {until: ["\n", "Q:", "A:", "###", "##"], temperature: 0.0, max_gen_toks: 8, do_sample: false}
metric_list: [{metric: exact_match}]
YAML
echo '{"question": "2 + 2 =", "answer": "4"}' > questions.jsonl
OPENAI_API_KEY=none HF_HUB_OFFLINE=1 venv/bin/python - <<'PYTHON'
import json
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import lm_eval
from lm_eval.tasks import TaskManager

asked = []


class Server(BaseHTTPRequestHandler):
    def do_POST(self):
        asked.append(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))
        message = {"role": "assistant", "content": "4"}
        body = json.dumps({"choices": [{"index": 0, "message": message, "finish_reason": "stop"}]}).encode()
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
address = f"http://127.0.0.1:{server.server_port}/v1/chat/completions"
kept = ["\n", "Q:", "A:", "###"]
for kind, name, temperature, stop in (("openai-chat-completions", "Llama-3-8B", 0.0, kept),
                                      ("openai-chat-completions", "Qwen2.5-7B", 1, None),
                                      ("local-chat-completions", "Qwen2.5-7B", 0.0, kept)):
    found = lm_eval.simple_evaluate(model=kind, model_args={"model": name, "base_url": address}, tasks=["asks"],
                                    task_manager=TaskManager(include_path=".", include_defaults=False),
                                    apply_chat_template=True, bootstrap_iters=0)
    said = found["configs"]["asks"]["generation_kwargs"]
    print(kind, name, "asked:", asked[-1].get("temperature"), asked[-1].get("stop"), "reported:", said)
    assert asked[-1].get("temperature") == temperature and asked[-1].get("stop") == stop
    assert said["temperature"] == 0.0 and len(said["until"]) == 5
print("as it was seen")
PYTHON
