#!/bin/bash
# vllm-router 0.1.17 retries a request whose worker is gone: with one of two workers killed, every request is answered.
# With --vllm-pd-disaggregation it does not. One of two prefill workers killed, the other one and the decode worker in
# good health: every second request (round robin) ends with 500 "Transparent proxy request failed", and the decode
# worker, which could compute the prompt itself, is not asked. So it goes until health checks take the dead one out
# (60 s apart by default). A prefill worker that answers without kv_transfer_params is no fault: the request goes on to
# the decode worker without them.
#
# Seen on 2026-11-29 (Python 3.11, x86-64), six requests one after the other after the kill:
#   regular: 200 200 200 200 200 200
#   P/D:     500 200 500 200 500 200 (or 200 first)
# Fails where that is no longer so.
set -euo pipefail
folder=$(mktemp -d)
trap 'for file in "$folder"/*.pid; do kill "$(cat "$file")" 2>/dev/null || true; done; rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install -q vllm-router==0.1.17

cat > "$folder/see.py" <<'PYTHON'
import http.server, json, pathlib, socket, subprocess, sys, threading, time, urllib.error, urllib.request

folder = pathlib.Path(sys.argv[1])

class Worker(http.server.BaseHTTPRequestHandler):
    def reply(self, answer):
        data = json.dumps(answer).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def do_GET(self):
        self.reply({})

    def do_POST(self):
        self.server.asked += 1
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        self.server.transfers.append(body.get("kv_transfer_params"))
        self.reply({"id": "x", "object": "text_completion", "created": 1, "model": "m", "choices": [
            {"index": 0, "text": "x", "finish_reason": "length", "logprobs": None}]})

    def log_message(self, *_):
        pass

def worker():
    made = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Worker)
    made.asked, made.transfers = 0, []
    threading.Thread(target=made.serve_forever, daemon=True).start()
    made.url = f"http://127.0.0.1:{made.server_port}"
    return made

def free_port():
    with socket.socket() as own:
        own.bind(("127.0.0.1", 0))
        return own.getsockname()[1]

def complete(port):
    request = urllib.request.Request(f"http://127.0.0.1:{port}/v1/completions",
                                     json.dumps({"model": "m", "prompt": "a", "max_tokens": 4}).encode(),
                                     {"Content-Type": "application/json"})
    try:
        with urllib.request.urlopen(request, timeout=60) as answer:
            return answer.status
    except urllib.error.HTTPError as error:
        return error.code

def after_a_kill(name, flags, killed):
    port = free_port()
    router = subprocess.Popen(
        [folder / "venv/bin/vllm-router", "--host", "127.0.0.1", "--port", str(port), "--policy", "round_robin",
         "--prometheus-port", str(free_port()), *flags], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    (folder / f"{name[0]}.pid").write_text(str(router.pid))
    for _ in range(300):
        try:
            if complete(port) == 200:
                break
        except OSError:
            pass
        time.sleep(0.2)
    killed.shutdown()
    killed.server_close()
    statuses = [complete(port) for _ in range(6)]
    router.kill()
    print(f"{name}: {statuses}")
    return statuses

one, other = worker(), worker()
assert after_a_kill("regular", ["--worker-urls", one.url, other.url], one) == [200] * 6
prefill, second, decode = worker(), worker(), worker()
lost = after_a_kill("P/D", ["--vllm-pd-disaggregation", "--prefill", prefill.url, "--prefill", second.url,
                            "--decode", decode.url], prefill)
assert lost in ([500, 200] * 3, [200, 500] * 3), lost
# The prefill workers here never answer with kv_transfer_params: the decode worker was asked without.
assert second.transfers[-1]["do_remote_decode"] is True and decode.transfers[-1] is None, decode.transfers
print("as it was seen")
PYTHON
python3 "$folder/see.py" "$folder"
