#!/usr/bin/env bash
# Anthropic's SDK for Python 2.14.0 asks a server for a pydantic model (messages.parse with output_format) with half of
# its schema: pattern, minimum and maximum, maxLength, minItems of two or more and maxItems are taken out and written
# into the description as words. Afterwards the SDK checks the answer against all of them, and raises. A server of one's
# own with this API that holds answers to schemas, limits and patterns included, is never told of them: it gives an
# answer that fits what it was asked for, and the program gets a ValidationError, after the answer was paid for. The
# openai package (chat.completions.parse) sends the same model's schema whole, and the same server's answer fits.
#
# Seen on 2026-11-30 (Python 3.11, x86-64), what arrives of code (pattern ^[A-Z]{3}$), amount (1 to 10) and items (2 to 3):
#   anthropic   code {"type": "string", "description": "{pattern: ^[A-Z]{3}$}"}, and so amount and items
#   openai      code {"type": "string", "pattern": "^[A-Z]{3}$"}, amount with minimum and maximum, items with minItems
#               and maxItems
# and {"code": "abc", "amount": 3, "items": ["a", "b"]}, which fits the first: pydantic's ValidationError
# Fails where that is no longer so.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install -q anthropic==2.14.0 openai==3.57.0 pydantic==2.14.4
"$folder/venv/bin/python" - <<'PYTHON'
import json
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import anthropic
import openai
import pydantic


class Order(pydantic.BaseModel):
    code: str = pydantic.Field(pattern="^[A-Z]{3}$")
    amount: int = pydantic.Field(ge=1, le=10)
    items: list[str] = pydantic.Field(min_length=2, max_length=3)


FITS_THE_HALF = json.dumps({"code": "abc", "amount": 3, "items": ["a", "b"]})
FITS = json.dumps({"code": "ABC", "amount": 3, "items": ["a", "b"]})
asked = []


class Server(BaseHTTPRequestHandler):
    def do_POST(self):
        asked.append(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))
        answer = {"id": "m", "type": "message", "role": "assistant", "model": "m", "stop_reason": "end_turn",
                  "stop_sequence": None, "content": [{"type": "text", "text": FITS_THE_HALF}],
                  "usage": {"input_tokens": 1, "output_tokens": 1}}
        if "chat" in self.path:
            message = {"role": "assistant", "content": FITS}
            answer = {"id": "m", "object": "chat.completion", "created": 1, "model": "m",
                      "choices": [{"index": 0, "message": message, "finish_reason": "stop"}]}
        body = json.dumps(answer).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_):
        pass


server = ThreadingHTTPServer(("127.0.0.1", 0), Server)
threading.Thread(target=server.serve_forever, daemon=True).start()
url, messages = f"http://127.0.0.1:{server.server_port}", [{"role": "user", "content": "An order."}]
try:
    anthropic.Anthropic(base_url=url, api_key="none").messages.parse(model="m", max_tokens=99, messages=messages,
                                                                     output_format=Order)
    raise SystemExit("the answer was taken")
except pydantic.ValidationError as error:
    print("anthropic:", [each["type"] for each in error.errors()])
    assert [each["type"] for each in error.errors()] == ["string_pattern_mismatch"]
half = asked[-1]["output_config"]["format"]["schema"]["properties"]
found = openai.OpenAI(base_url=url + "/v1", api_key="none").chat.completions.parse(model="m", messages=messages,
                                                                                   response_format=Order)
assert found.choices[0].message.parsed.code == "ABC"
whole = asked[-1]["response_format"]["json_schema"]["schema"]["properties"]
for name in half:
    print(name, "anthropic:", json.dumps(half[name]), "openai:", json.dumps(whole[name]))
words = {"code": ["pattern"], "amount": ["minimum", "maximum"], "items": ["minItems", "maxItems"]}
for name, keywords in words.items():
    for keyword in keywords:
        assert keyword not in half[name] and keyword in half[name]["description"] and keyword in whole[name]
print("as it was seen")
PYTHON
