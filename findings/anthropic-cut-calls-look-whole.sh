#!/usr/bin/env bash
# Anthropic's SDK for Python 2.14.0 makes an input out of a tool call that was cut off, as if the model had closed it
# there: members that came are kept, a text that was cut is dropped with its name, and a number that was cut is kept as
# far as it came, so that 1500 becomes 15. Nothing in the call tells the difference; only the message's stop_reason
# (max_tokens) does, and where the connection is closed before it, nothing (no error, stop_reason None). With
# OpenAI's API arguments stay a text, and whoever parses that text gets an error. A server with this API has to expect
# that a call which ends at a limit is carried out.
#
# Seen on 2026-11-30 (Python 3.11, x86-64), what was sent of {"account": 7, "amount": 1500, "note": "rent"}, and input:
#   {"account": 7, "amount": 15                    {"account": 7, "amount": 15}
#   {"account": 7, "amount": 1500, "note": "re     {"account": 7, "amount": 1500}
# Fails where that is no longer so.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install -q anthropic==2.14.0
"$folder/venv/bin/python" - <<'PYTHON'
import http.server
import json
import threading

import anthropic

script = []


class Server(http.server.BaseHTTPRequestHandler):
    def do_POST(self):
        self.rfile.read(int(self.headers["Content-Length"]))
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream")
        self.end_headers()
        for event in script:
            self.wfile.write(f"event: {event['type']}\ndata: {json.dumps(event)}\n\n".encode())

    def log_message(self, *_):
        pass


server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Server)
threading.Thread(target=server.serve_forever, daemon=True).start()
client = anthropic.Anthropic(base_url=f"http://127.0.0.1:{server.server_port}", api_key="none", max_retries=0)


def answered(parts, ends):
    empty = {"id": "m", "type": "message", "role": "assistant", "model": "m", "content": [], "stop_reason": None,
             "stop_sequence": None, "usage": {"input_tokens": 9, "output_tokens": 1}}
    call = {"type": "tool_use", "id": "t", "name": "pay", "input": {}}
    script[:] = [{"type": "message_start", "message": empty},
                 {"type": "content_block_start", "index": 0, "content_block": call}]
    for part in parts:
        delta = {"type": "input_json_delta", "partial_json": part}
        script.append({"type": "content_block_delta", "index": 0, "delta": delta})
    if ends:
        script.extend([{"type": "content_block_stop", "index": 0},
                       {"type": "message_delta", "delta": {"stop_reason": "max_tokens", "stop_sequence": None},
                        "usage": {"output_tokens": 20}}, {"type": "message_stop"}])
    with client.messages.stream(model="m", max_tokens=20, messages=[{"role": "user", "content": "a"}]) as stream:
        message = stream.get_final_message()
    print(ascii("".join(parts)), "->", message.content[0].input, message.stop_reason)
    return message.content[0].input, message.stop_reason


short, long = ['{"account": 7, ', '"amount": 15'], ['{"account": 7, "amount": 15', '00, "note": "re']
assert answered(short, True) == ({"account": 7, "amount": 15}, "max_tokens")
assert answered(long, True) == ({"account": 7, "amount": 1500}, "max_tokens")
assert answered(short, False) == ({"account": 7, "amount": 15}, None)
print("as it was seen")
PYTHON
