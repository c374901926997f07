"""A server that speaks the hub's protocol, as far as models are brought: revisions, trees in pages,
files, and large files by a redirect to another host. It can misbehave."""
import hashlib
import http.server
import json
import threading
import urllib.parse

COMMIT = "1" * 39 + "a"
PAGE = 4  # entries of a tree's page


def git_name(data):
    return hashlib.sha1(b"blob %d\0" % len(data) + data).hexdigest()


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *_):
        pass

    def answer(self, status, data=b"", **headers):
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name.replace("_", "-"), value)
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(data)

    def refuse(self, status, code, message="no"):
        self.answer(status, b"{}", X_Error_Code=code, X_Error_Message=message)

    def do_HEAD(self):
        self.do_GET()

    def do_GET(self):
        hub = self.server.hub
        url = urllib.parse.urlsplit(self.path)
        with hub.lock:
            hub.seen.append((self.server.name, self.command, self.path, dict(self.headers)))
            busy = hub.busy > 0
            hub.busy -= busy
        if busy:
            return self.answer(503)
        if self.server.name == "hub" and not url.path.startswith(("/api/models/", "/ours/")):
            return self.answer(404)  # what the hub's own programs ask besides
        parts = [urllib.parse.unquote(part) for part in url.path.split("/")[1:]]
        if self.server.name == "bytes":
            return self.send_bytes(hub.models["ours/tale"]["/".join(parts)])
        if parts[:2] == ["api", "models"]:
            return self.api("/".join(parts[2:4]), parts[4], parts[5:], url.query)
        model, commit, path = "/".join(parts[:2]), parts[3], "/".join(parts[4:])
        if not self.may_read(model):
            return None
        data = hub.models[model].get(path)
        if commit not in (COMMIT, "main") or data is None:
            return self.refuse(404, "EntryNotFound")
        large = path.endswith((".safetensors", ".gguf"))
        own = {"X_Repo_Commit": COMMIT, "ETag": f'"{git_name(data)}"'}
        if large:
            own |= {"X_Linked_Etag": f'"{hashlib.sha256(data).hexdigest()}"',
                    "X_Linked_Size": str(len(data)), "Location": f"{hub.bytes_url}/{path}"}
            return self.answer(302, **own)
        return self.answer(200, data, **own)

    def may_read(self, model):
        hub = self.server.hub
        if model not in hub.models:
            self.refuse(401, "RepoNotFound", "Repository not found")
        elif model in hub.gated and self.headers.get("Authorization") != "Bearer hf_good":
            self.refuse(403, "GatedRepo", "Access to model is restricted")
        else:
            return True
        return False

    def api(self, model, what, rest, query):
        if not self.may_read(model):
            return None
        revision = "/".join(rest)
        if revision not in (COMMIT, "main", "v1", "refs/pr/1"):
            return self.refuse(404, "RevisionNotFound", "Invalid rev id")
        if what == "revision":
            return self.answer(200, json.dumps({"id": model, "sha": COMMIT}).encode())
        files = sorted(self.server.hub.models[model].items())
        begin = int(urllib.parse.parse_qs(query).get("cursor", ["0"])[0])
        entries = [{"type": "directory", "path": "1_Pooling", "oid": "0" * 40, "size": 0}]
        for path, data in files[begin:begin + PAGE]:
            stated = self.server.hub.wrong.get(path, data)
            entries.append({"type": "file", "path": path, "oid": git_name(stated),
                            "size": len(data)})
            if path.endswith((".safetensors", ".gguf")):
                digest = hashlib.sha256(stated).hexdigest()
                entries[-1]["lfs"] = {"oid": digest, "size": len(data), "pointerSize": 134}
        link = {}
        if begin + PAGE < len(files):
            # Of a proxy's request the whole address is the path.
            here = self.path if self.path.startswith("http") else self.server.hub.url + self.path
            cursor = f"?recursive=true&cursor={begin + PAGE}"
            link = {"Link": f'<{here.split("?")[0]}{cursor}>; rel="next"'}
        return self.answer(200, json.dumps(entries).encode(), **link)

    def send_bytes(self, data):
        hub = self.server.hub
        begin = 0
        if "Range" in self.headers and hub.ranges:
            begin = int(self.headers["Range"].removeprefix("bytes=").split("-")[0])
            self.send_response(206)
            self.send_header("Content-Range", f"bytes {begin}-{len(data) - 1}/{len(data)}")
        else:
            self.send_response(200)
        self.send_header("Content-Length", str(len(data) - begin))
        self.end_headers()
        with hub.lock:
            cut = hub.cuts.pop(0) if hub.cuts else None
        if self.command == "HEAD":
            return
        self.wfile.write(data[begin:] if cut is None else data[begin:begin + cut])
        self.close_connection = cut is not None


class Hub:
    """`models`: name → {path: bytes}. What it saw is in `seen`: (host, method, path, headers)."""

    def __init__(self, models, gated=()):
        self.models, self.gated = models, gated
        self.seen, self.lock = [], threading.Lock()
        self.busy = 0       # requests that get status 503
        self.cuts = []      # of answers with large files: the connection ends after so many bytes
        self.ranges = True  # whether parts of files can be had
        self.wrong = {}     # path → other bytes, whose hash is stated
        self.servers = [self.start(name) for name in ("hub", "bytes")]
        self.url, self.bytes_url = (f"http://127.0.0.1:{each.server_port}" for each in self.servers)

    def start(self, name):
        server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        server.hub, server.name = self, name
        threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
        return server

    def asked(self, host=None):
        return [(method, path) for name, method, path, _ in self.seen if host in (None, name)]

    def close(self):
        for server in self.servers:
            server.shutdown()
            server.server_close()
