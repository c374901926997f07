#!/usr/bin/env bash
# The stream helper of the OpenAI SDK for Python 3.57.0 (client.chat.completions.stream, which builds the whole answer)
# asks more of a server than the API says. (1) The choices of n > 1 have to begin in order: if the first chunk of choice
# 1 comes before that of choice 0, as it may where samples are computed side by side, it raises IndexError.
# (2) A server's own members of a choice are kept from the choice's first chunk alone: of vLLM's token_ids the rest is
# lost, and its stop_reason, which comes last, altogether. In a delta the same member is joined. (3) What stands in
# each chunk, as some servers do for id, name and role, is joined as text is. (4) An answer that ends at max_tokens
# raises LengthFinishReasonError in place of the text, also where no form was asked for.
# create(stream=True) has none of it.
#
# Seen on 2026-11-30 (Python 3.11, x86-64):
#   choice 1, choice 0, choice 1                   IndexError: list assignment index out of range
#   token_ids [1, 2], then [3], in two chunks      token_ids [1, 2]
#   a call's id "c" in each of three chunks        id "ccc"; its role as well: "assistantassistantassistant"
#   finish_reason "length"                         LengthFinishReasonError
# Fails where that is no longer so.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install -q openai==3.57.0
"$folder/venv/bin/python" - <<'PYTHON'
import http.server
import json
import threading

import openai

script = []


class Server(http.server.BaseHTTPRequestHandler):
    def do_POST(self):
        self.rfile.read(int(self.headers["Content-Length"]))
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream")
        self.end_headers()
        for choice in script:
            chunk = {"id": "x", "object": "chat.completion.chunk", "created": 1, "model": "m",
                     "choices": [{"index": 0, "delta": {}, "finish_reason": None, **choice}]}
            self.wfile.write(b"data: " + json.dumps(chunk).encode() + b"\n\n")
        self.wfile.write(b"data: [DONE]\n\n")

    def log_message(self, *_):
        pass


server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Server)
threading.Thread(target=server.serve_forever, daemon=True).start()
client = openai.OpenAI(base_url=f"http://127.0.0.1:{server.server_port}/v1", api_key="none", max_retries=0)
asked = {"model": "m", "messages": [{"role": "user", "content": "a"}]}


def built(*choices, **more):
    script[:] = choices
    chunks = sum(1 for _ in client.chat.completions.create(stream=True, **asked, **more))
    assert chunks == len(choices)
    with client.chat.completions.stream(**asked, **more) as stream:
        return [choice.to_dict() for choice in stream.get_final_completion().choices]


def text(words, index=0, **more):
    return {"index": index, "delta": {"content": words}, **more}


def end(index=0, reason="stop", **more):
    return {"index": index, "finish_reason": reason, **more}


def call(**parts):
    tool = {"index": 0, "id": "c", "type": "function", "function": parts}
    return {"delta": {"role": "assistant", "tool_calls": [tool]}}


in_order = built(text("a"), text("b", 1), text("c", 1), end(), end(1), n=2)
assert [choice["message"]["content"] for choice in in_order] == ["a", "bc"]
try:
    built(text("b", 1), text("a"), text("c", 1), end(), end(1), n=2)
    raise SystemExit("choices were taken in any order")
except IndexError as error:
    print("choice 1 first: IndexError:", error)

choice, = built(text("a", token_ids=[1, 2]), text("b", token_ids=[3]), end(stop_reason=7))
print("token_ids", choice["token_ids"], "stop_reason", choice.get("stop_reason"))
assert choice["token_ids"] == [1, 2] and "stop_reason" not in choice and choice["message"]["content"] == "ab"

choice, = built(call(name="f", arguments=""), call(arguments="{"), call(arguments="}"), end(reason="tool_calls"))
print("id", choice["message"]["tool_calls"][0]["id"], "role", choice["message"]["role"])
assert choice["message"]["tool_calls"][0]["id"] == "ccc" and choice["message"]["role"] == "assistant" * 3
try:
    built(text("a"), text("b"), end(reason="length"))
    raise SystemExit("an answer that was cut is given")
except openai.LengthFinishReasonError as error:
    print("length:", type(error).__name__)
print("as it was seen")
PYTHON
