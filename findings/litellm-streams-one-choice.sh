#!/usr/bin/env bash
# litellm 1.106.12 streams an answer of several choices (n = 2) from a server with OpenAI's API as if it had one. It
# does not pass on the end of the second: a choice that was cut at max_tokens ("length") never gets a finish_reason.
# stream_chunk_builder, its function that makes an answer of such chunks, joins the texts of both into one choice, in
# the order in which they came, with the first's finish_reason; of chunks that hold both choices it takes the first's
# text alone. The same request without stream has both, and the OpenAI SDK streams both.
#
# Seen on 2026-11-30 (Python 3.11, x86-64), choice 0 "a", "c", stop; choice 1 "b", "d", length, side by side:
#   litellm, chunks           0 "a", 1 "b", 0 "c", 0 stop, 1 "d"
#   stream_chunk_builder      one choice: "abcd", stop
#   the same of chunks with both choices: one choice: "a", stop
#   without stream            0 "ac" stop, 1 "bd" length
# Fails where that is no longer so.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install -q litellm==1.106.12
LITELLM_LOCAL_MODEL_COST_MAP=True "$folder/venv/bin/python" - <<'PYTHON'
import http.server
import json
import threading

import litellm
import openai

litellm.suppress_debug_info = True
ENDS = ("stop", "length")
script = []


class Server(http.server.BaseHTTPRequestHandler):
    def do_POST(self):
        asked = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        assert asked["n"] == 2
        head = {"id": "x", "created": 1, "model": "m"}
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream" if asked.get("stream") else "application/json")
        self.end_headers()
        if not asked.get("stream"):
            choices = [{"index": index, "message": {"role": "assistant", "content": words}, "finish_reason": end}
                       for index, (words, end) in enumerate(zip(("ac", "bd"), ENDS))]
            usage = {"prompt_tokens": 1, "completion_tokens": 4, "total_tokens": 5}
            answer = {"object": "chat.completion", "choices": choices, "usage": usage, **head}
            self.wfile.write(json.dumps(answer).encode())
            return
        for choices in script:
            chunk = {"object": "chat.completion.chunk", "choices": choices, **head}
            self.wfile.write(b"data: " + json.dumps(chunk).encode() + b"\n\n")
        self.wfile.write(b"data: [DONE]\n\n")

    def log_message(self, *_):
        pass


server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Server)
threading.Thread(target=server.serve_forever, daemon=True).start()
url = f"http://127.0.0.1:{server.server_port}/v1"
messages = [{"role": "user", "content": "a"}]


def says(index, words=None):
    delta = {"role": "assistant", "content": words} if words else {}
    return {"index": index, "delta": delta, "finish_reason": None if words else ENDS[index]}


def parts(chunks):
    return [(choice.index, choice.delta.content or choice.finish_reason)
            for chunk in chunks for choice in chunk.choices]


def streamed(*chunks):
    script[:] = chunks
    client = openai.OpenAI(base_url=url, api_key="none")
    plain = parts(client.chat.completions.create(model="m", messages=messages, n=2, stream=True))
    got = list(litellm.completion(model="openai/m", api_base=url, api_key="none", messages=messages, n=2, stream=True))
    print("openai", plain, "litellm", parts(got))
    assert plain == [(choice["index"], choice["delta"].get("content") or choice["finish_reason"])
                     for choices in chunks for choice in choices]
    return got


def built(chunks):
    choices = litellm.stream_chunk_builder(chunks).choices
    whole = [(choice.message.content, choice.finish_reason) for choice in choices]
    print("stream_chunk_builder", whole)
    return whole


got = streamed([says(0, "a")], [says(1, "b")], [says(0, "c")], [says(0)], [says(1, "d")], [says(1)])
assert parts(got) == [(0, "a"), (1, "b"), (0, "c"), (0, "stop"), (1, "d")]
assert built(got) == [("abcd", "stop")]
got = streamed([says(0, "a"), says(1, "b")], [says(0)], [says(1)])
assert parts(got) == [(0, "a"), (1, "b"), (0, "stop")] and built(got) == [("a", "stop")]
answer = litellm.completion(model="openai/m", api_base=url, api_key="none", messages=messages, n=2)
plain = [(choice.index, choice.message.content, choice.finish_reason) for choice in answer.choices]
print("without stream", plain)
assert plain == [(0, "ac", "stop"), (1, "bd", "length")]
print("as it was seen")
PYTHON
