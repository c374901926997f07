#!/usr/bin/env bash
# The OpenAI SDK for Python 3.57.0 takes three failing streams of chat completions for whole ones:
# where the server ends the body by closing the connection after some chunks (no finish_reason, no
# [DONE]), the loop simply ends; where the server says an error as an event of that name with the error's own members
# as data, the loop gets one more chunk, with nothing in it; where it answers a stream with a JSON
# body, there is no chunk and no error either. Only `data: {"error": ...}` is raised. A server that
# fails in between has to say it in that form, and close a connection only after it has.
#
# Seen on 2026-11-29 (Python 3.11, x86-64), texts of the chunks:
#   closed after "a"                           ["a"]
#   "a", event: error {"message": ...}         ["a", nothing]
#   a chat completion as JSON                  []
#   "a", data: {"error": {"message": ...}}     APIError
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

message = {"index": 0, "message": {"role": "assistant", "content": "a"}, "finish_reason": "stop"}
whole = {"id": "x", "object": "chat.completion", "created": 1, "model": "m", "choices": [message]}
delta = {"index": 0, "delta": {"content": "a"}, "finish_reason": None}
chunk = f"data: {json.dumps(whole | {'object': 'chat.completion.chunk', 'choices': [delta]})}\n\n"
bodies = {"closed": ("text/event-stream", chunk),
          "event": ("text/event-stream", chunk + 'event: error\ndata: {"message": "broken"}\n\n'),
          "json": ("application/json", json.dumps(whole)),
          "error": ("text/event-stream", chunk + 'data: {"error": {"message": "broken"}}\n\n')}


class Server(http.server.BaseHTTPRequestHandler):
    def do_POST(self):
        asked = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        kind, body = bodies[asked["model"]]
        self.send_response(200)
        self.send_header("Content-Type", kind)
        self.end_headers()
        self.wfile.write(body.encode())  # HTTP/1.0: the body ends with the connection

    def log_message(self, *_):
        pass


server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Server)
threading.Thread(target=server.serve_forever, daemon=True).start()
client = openai.OpenAI(base_url=f"http://127.0.0.1:{server.server_port}/v1", api_key="none", max_retries=0)


def texts(name):
    found = []
    try:
        stream = client.chat.completions.create(model=name, messages=[{"role": "user", "content": "a"}], stream=True)
        for part in stream:
            found.append(part.choices[0].delta.content if part.choices else None)
    except openai.APIError as error:
        found.append(f"{type(error).__name__}: {error}")
    print(name, found)
    return found


assert texts("closed") == ["a"]
assert texts("event") == ["a", None]
assert texts("json") == []
assert texts("error") == ["a", "APIError: broken"]
print("as it was seen")
PYTHON
