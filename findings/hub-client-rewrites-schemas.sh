#!/usr/bin/env bash
# huggingface_hub 2.4.0's InferenceClient does not send the response_format that it is given to a server
# of one's own. With base_url, whatever speaks OpenAI's API there, {"type": "json_schema", "json_schema":
# {"name", "schema", "strict"}} goes out as {"type": "json_object", "value": SCHEMA}, text-generation-inference's
# words: name and strict are gone, and a server that knows json_object but not "value" gives any JSON object,
# without a word, where a schema was asked for. The openai package sends the same request as it was written.
# A server that wants these clients' schemas has to read "value". The client's documentation of the
# parameter, and its name for OpenAI's method (client.chat.completions.create), say nothing of it.
#
# Seen on 2026-11-30 (Python 3.11, x86-64), what arrives for the same request:
#   huggingface_hub 2.4.0  {"type": "json_object", "value": {"type": "boolean"}}
#   openai 3.57.0          {"type": "json_schema", "json_schema": {"name": "x", "strict": true, "schema": …}}
# Fails where that is no longer so.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install -q huggingface_hub==2.4.0 openai==3.57.0
"$folder/venv/bin/python" - <<'PYTHON'
import http.server
import json
import threading

import huggingface_hub
import openai

message = {"index": 0, "message": {"role": "assistant", "content": "true"}, "finish_reason": "stop"}
answer = {"id": "x", "object": "chat.completion", "created": 1, "model": "m", "choices": [message],
          "system_fingerprint": "f", "usage": {"prompt_tokens": 1, "completion_tokens": 1, "total_tokens": 2}}
arrived = []


class Server(http.server.BaseHTTPRequestHandler):
    def do_POST(self):
        arrived.append(json.loads(self.rfile.read(int(self.headers["Content-Length"])))["response_format"])
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.end_headers()
        self.wfile.write(json.dumps(answer).encode())

    def log_message(self, *_):
        pass


server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Server)
threading.Thread(target=server.serve_forever, daemon=True).start()
url = f"http://127.0.0.1:{server.server_port}"
form = {"type": "json_schema", "json_schema": {"name": "x", "strict": True, "schema": {"type": "boolean"}}}
asked = {"messages": [{"role": "user", "content": "a"}], "model": "m", "response_format": form}
huggingface_hub.InferenceClient(base_url=url, api_key="none").chat_completion(**asked)
openai.OpenAI(base_url=url + "/v1", api_key="none").chat.completions.create(**asked)
for form_sent in arrived:
    print(json.dumps(form_sent))
assert arrived == [{"type": "json_object", "value": {"type": "boolean"}}, form]
print("as it was seen")
PYTHON
