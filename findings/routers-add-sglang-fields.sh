#!/bin/bash
# vllm-router 0.1.17 and sglang-router 0.3.2 do not pass bodies on as they came: they write SGLang's own fields into
# every chat and completion, also for workers that are no SGLang, so that a server which refuses unknown fields answers
# nothing that comes through them. vllm-router also sends each request to a worker's …/render first and, where there is
# none, a chat's to /tokenize, so that a worker may meet each prompt twice. sglang-router
# writes temperature 1.0, top_p 1.0, top_k -1 and store true into a response that says none of it, and so replaces what
# the model's generation_config.json recommends.
#
# Seen on 2026-11-28 (Python 3.11, x86-64), at a worker that records what it is sent:
#   vllm-router, {"model", "messages", "max_tokens": 4}: POST /v1/chat/completions/render (404), POST /tokenize, then
#     POST /v1/chat/completions with stream, logprobs, no_stop_trim, ignore_eos, continue_final_message,
#     skip_special_tokens, separate_reasoning, stream_reasoning, return_hidden_states, include_reasoning more
#   sglang-router: the same without include_reasoning, and max_tokens has become max_completion_tokens
#   sglang-router, {"model", "input"}: store true, stream null, temperature 1.0, top_p 1.0, priority 0, top_k -1,
#     min_p 0.0, repetition_penalty 1.0 more
# Fails where that is no longer so.
set -euo pipefail
folder=$(mktemp -d)
trap 'for file in "$folder"/*.pid; do kill "$(cat "$file")" 2>/dev/null || true; done; rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install -q vllm-router==0.1.17 sglang-router==0.3.2

cat > "$folder/see.py" <<'PYTHON'
import http.server, json, pathlib, socket, subprocess, sys, threading, time, urllib.request

folder = pathlib.Path(sys.argv[1])
seen = []

class Worker(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def reply(self, status, answer):
        data = json.dumps(answer).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def do_GET(self):
        self.reply(200 if self.path == "/health" else 404, {})

    def do_POST(self):
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        seen.append((self.path, body))
        message = {"role": "assistant", "content": "x"}
        self.reply(404 if self.path.endswith("/render") else 200, {
            "id": "x", "object": "chat.completion", "created": 1, "model": "m",
            "choices": [{"index": 0, "message": message, "finish_reason": "stop"}]})

    def log_message(self, *_):
        pass

def free_port():
    with socket.socket() as own:
        own.bind(("127.0.0.1", 0))
        return own.getsockname()[1]

worker = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Worker)
threading.Thread(target=worker.serve_forever, daemon=True).start()

def ask(name, words):
    """What the worker is sent: [(path, {member more or other than asked: value})]"""
    port = free_port()
    router = subprocess.Popen(
        [folder / "venv/bin" / name, *words, "--host", "127.0.0.1", "--port", str(port), "--prometheus-port",
         str(free_port()), "--worker-urls", f"http://127.0.0.1:{worker.server_port}"],
        stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    (folder / f"{name}.pid").write_text(str(router.pid))
    for _ in range(300):
        try:
            ready = urllib.request.urlopen(f"http://127.0.0.1:{port}/readiness")
            if json.load(ready).get("healthy_workers") == 1:
                break
        except OSError:
            pass
        time.sleep(0.2)
    found = []
    for path, body in (("/v1/chat/completions", {"model": "m", "messages": [{"role": "user", "content": "a"}],
                                                 "max_tokens": 4}),
                       ("/v1/responses", {"model": "m", "input": "a"})):
        seen.clear()
        urllib.request.urlopen(urllib.request.Request(
            f"http://127.0.0.1:{port}{path}", json.dumps(body).encode(), {"Content-Type": "application/json"})).read()
        for way, sent in seen:
            more = {key: value for key, value in sent.items() if body.get(key, ...) != value}
            print(name, way, json.dumps(more))
            found.append((way, more))
    router.kill()
    return found

sglangs = {"stream": False, "logprobs": False, "no_stop_trim": False, "ignore_eos": False,
           "continue_final_message": False, "skip_special_tokens": True, "separate_reasoning": True,
           "stream_reasoning": True, "return_hidden_states": False}
vllm = ask("vllm-router", [])
assert ("/v1/chat/completions/render", sglangs | {"include_reasoning": True}) in vllm, vllm
assert ("/tokenize", {"continue_final_message": False}) in vllm, vllm
assert ("/v1/chat/completions", sglangs | {"include_reasoning": True}) in vllm, vllm
sglang = ask("sglang-router", ["launch"])
assert ("/v1/chat/completions", sglangs | {"max_completion_tokens": 4}) in sglang, sglang
assert ("/v1/responses", {"store": True, "stream": None, "temperature": 1.0, "top_p": 1.0, "priority": 0,
                          "top_k": -1, "min_p": 0.0, "repetition_penalty": 1.0}) in sglang, sglang
print("as it was seen")
PYTHON
python3 "$folder/see.py" "$folder"
