#!/usr/bin/env bash
# guidellm 0.8.1 and AIPerf 0.13.0 ask the same server and report other latencies. The server sends
# eight tokens 0.1 s apart, the first after 0.5 s, waits for a second, and then closes the answer (the
# chunk with finish_reason, then usage), as one does that checks or stores an answer before it ends.
# AIPerf ends a request at its last token, guidellm at the end of the stream: 1.2 s and 2.2 s. Both
# agree on the first token and on the gaps. guidellm's "time per output token" contains the wait for
# the first token, so it is half as much again as its own gaps here, and no number of AIPerf's or of
# vLLM's benchmark has that meaning: theirs leaves the first token out.
#
# Seen on 2026-11-29 (Python 3.11, x86-64): latency 1209 ms (AIPerf), 2206 ms (guidellm); first token
# 507 and 502 ms; gaps 100 ms; guidellm's time per output token 151 ms.
# Fails where the latencies differ by less than 0.8 s, or guidellm's time per token is within a
# quarter of its gaps.
set -euo pipefail
folder=$(mktemp -d)
server=
trap '[[ -z "$server" ]] || kill "$server"; rm -rf "$folder"' EXIT
cd "$folder"
for tool in guidellm==0.8.1 aiperf==0.13.0; do
  python3 -m venv "${tool%%=*}"
  "${tool%%=*}/bin/pip" install -q "$tool"
done
cat > words.py <<'PYTHON'
from tokenizers import Tokenizer, models, pre_tokenizers
from transformers import PreTrainedTokenizerFast

tokens = Tokenizer(models.WordLevel({"[UNK]": 0, "word": 1, "a": 2}, unk_token="[UNK]"))
tokens.pre_tokenizer = pre_tokenizers.Whitespace()
made = PreTrainedTokenizerFast(tokenizer_object=tokens, unk_token="[UNK]")
made.chat_template = "{% for m in messages %}{{ m.content }}{% endfor %}"
made.save_pretrained("words")
PYTHON
guidellm/bin/python words.py
cat > server.py <<'PYTHON'
import json
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer


class Answers(BaseHTTPRequestHandler):
    def log_message(self, *_):
        pass

    def do_GET(self):
        text = json.dumps({"object": "list", "data": [{"id": "m", "object": "model"}]}).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(text)))
        self.end_headers()
        self.wfile.write(text)

    def chunk(self, delta, finish=None, **more):
        choices = [{"index": 0, "delta": delta, "finish_reason": finish}] if delta is not None else []
        text = {"id": "c", "object": "chat.completion.chunk", "created": 1, "model": "m",
                "choices": choices, **more}
        self.wfile.write(f"data: {json.dumps(text)}\n\n".encode())
        self.wfile.flush()

    def do_POST(self):
        self.rfile.read(int(self.headers["Content-Length"]))
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream")
        self.send_header("Connection", "close")
        self.end_headers()
        self.chunk({"role": "assistant", "content": ""})
        time.sleep(0.5)
        for place in range(8):
            time.sleep(0.1 if place else 0)
            self.chunk({"content": " word"})
        time.sleep(1.0)
        self.chunk({}, "stop")
        self.chunk(None, usage={"prompt_tokens": 9, "completion_tokens": 8, "total_tokens": 17})
        self.wfile.write(b"data: [DONE]\n\n")


server = ThreadingHTTPServer(("127.0.0.1", 0), Answers)
open("port", "w").write(str(server.server_port))
server.serve_forever()
PYTHON
python3 server.py &
server=$!
until [[ -s port ]]; do sleep 0.1; done
url=http://127.0.0.1:$(cat port)
aiperf/bin/aiperf profile -m m --url "$url" --endpoint-type chat --streaming --tokenizer "$folder/words" \
  --request-count 3 --concurrency 1 --isl 5 --osl 8 --ui none --artifact-dir a > a.log 2>&1
guidellm/bin/guidellm run --disable-console-interactive --profile kind=synchronous \
  --backend "kind=openai_http,target=$url,model=m,request_format=/v1/chat/completions" \
  --constraint kind=max_requests,count=3 --tokenizer "kind=hf_auto,model=$folder/words" \
  --data kind=synthetic_text,prompt_tokens=5,output_tokens=8 --output kind=json,path=g.json > g.log 2>&1
python3 - <<'PYTHON'
import glob
import json
import statistics

a = json.load(open(glob.glob("a/**/*aiperf.json", recursive=True)[0]))
ours = [a[name]["avg"] for name in ("request_latency", "time_to_first_token", "inter_token_latency")]
asked = json.load(open("g.json"))["benchmarks"][0]["requests"]["successful"]
latency, first, gap, each = (
    statistics.mean(request[name] for request in asked)
    for name in ("request_latency", "time_to_first_token_ms", "inter_token_latency_ms",
                 "time_per_output_token_ms"))
print("AIPerf    latency %4.0f ms, first token %3.0f ms, gaps %3.0f ms" % tuple(ours))
print("guidellm  latency %4.0f ms, first token %3.0f ms, gaps %3.0f ms, time per output token %3.0f ms"
      % (latency * 1e3, first, gap, each))
assert latency * 1e3 - ours[0] > 800, "the latencies agree"
assert each > 1.25 * gap, "the time per output token has no first token in it"
PYTHON
echo "as it was seen"
