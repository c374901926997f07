#!/usr/bin/env bash
# huggingface_hub 2.4.0: a download whose process is killed is not continued by the next one, although
# the bytes that came are still in the cache. The file they are in has a random part in its name, so
# the next process makes another one, asks for the file from its first byte (no Range), and leaves the
# first one where it is: nothing removes it afterwards. Programs that share the cache and mean to go on
# (as the one-process retry of the same library does, with Range) must look for the remains themselves.
#
# Seen on 2026-11-29 (Python 3.11, x86-64), a file of 24 MB of which 21 MB were sent:
#   left by the killed process: 1 file, 20971520 bytes
#   asked by the next process: Range None
#   complete afterwards: 24000000 bytes, and still there: 1 file, 20971520 bytes
# Fails where that is no longer so.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install -q huggingface_hub==2.4.0
env -u HF_TOKEN HF_HOME="$folder/home" HF_HUB_DISABLE_XET=1 HF_HUB_DISABLE_TELEMETRY=1 \
  "$folder/venv/bin/python" - <<'PYTHON'
import hashlib
import http.server
import json
import os
import pathlib
import subprocess
import sys
import threading
import time

DATA, SENT = os.urandom(24_000_000), 21_000_000
COMMIT, DIGEST = "1" * 40, hashlib.sha256(DATA).hexdigest()
asked, stalls = [], [True]


class Hub(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *_):
        pass

    def start(self, length, **headers):
        self.send_response(200)
        for name, value in headers.items():
            self.send_header(name.replace("_", "-"), value)
        self.send_header("Content-Length", str(length))
        self.end_headers()

    def do_HEAD(self):
        self.start(len(DATA), X_Repo_Commit=COMMIT, ETag=f'"{DIGEST}"', X_Linked_Etag=f'"{DIGEST}"',
                   X_Linked_Size=str(len(DATA)))

    def do_GET(self):
        if self.path.startswith("/api/"):
            text = json.dumps({"id": "ours/small", "sha": COMMIT}).encode()
            self.start(len(text))
            self.wfile.write(text)
            return
        asked.append(self.headers.get("Range"))
        self.start(len(DATA))
        if not stalls:
            self.wfile.write(DATA)
            return
        self.wfile.write(DATA[:SENT])
        self.wfile.flush()
        while stalls:
            time.sleep(0.05)
        self.close_connection = True


server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Hub)
threading.Thread(target=server.serve_forever, daemon=True).start()
environment = os.environ | {"HF_ENDPOINT": f"http://127.0.0.1:{server.server_port}"}
blobs = pathlib.Path(os.environ["HF_HOME"], "hub", "models--ours--small", "blobs")
code = "import huggingface_hub as h; h.hf_hub_download('ours/small', 'model.safetensors')"


def remains():
    return [file.stat().st_size for file in blobs.glob("*.incomplete")]


first = subprocess.Popen([sys.executable, "-c", code], env=environment, stderr=subprocess.DEVNULL)
end = time.monotonic() + 60
while sum(remains()) < 20_000_000 and time.monotonic() < end:
    time.sleep(0.1)
first.kill()
first.wait()
left = remains()
print(f"left by the killed process: {len(left)} file, {sum(left)} bytes")
asked.clear()
stalls.clear()
subprocess.run([sys.executable, "-c", code], env=environment, stderr=subprocess.DEVNULL, check=True)
print("asked by the next process: Range", *asked)
print(f"complete afterwards: {(blobs / DIGEST).stat().st_size} bytes, and still there: "
      f"{len(remains())} file, {sum(remains())} bytes")
assert len(left) == 1 and left[0] >= 10_000_000
assert asked == [None] and remains() == left
PYTHON
