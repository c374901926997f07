"""A server with OpenAI's API that behaves as its model's name says, and mostly badly."""
import http.server
import json
import socket
import threading


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *_):
        pass

    def setup(self):
        super().setup()
        self.connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

    def whole(self, body, status=200, kind="application/json"):
        data = body if isinstance(body, bytes) else json.dumps(body).encode()
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def begin(self):
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream")
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()

    def event(self, data):
        text = f"data: {data if isinstance(data, str) else json.dumps(data)}\n\n".encode()
        self.wfile.write(b"%x\r\n%s\r\n" % (len(text), text))
        self.wfile.flush()

    def hang_up(self):
        self.close_connection = True

    def do_GET(self):
        if self.path != "/v1/models":
            return self.whole({"error": {"message": "no such path"}}, 404)
        self.whole({"object": "list", "data": [{"id": name} for name in self.server.models]})

    def do_POST(self):
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        with self.server.lock:
            self.server.seen.append((self.path, body, dict(self.headers)))
            number = len(self.server.seen)
        try:
            getattr(self, "act_" + body["model"])(body, number)
        except (BrokenPipeError, ConnectionResetError):
            self.hang_up()

    # What models do.

    def act_good(self, body, _):
        count = body["max_tokens"]
        usage = {"prompt_tokens": 4, "completion_tokens": count}
        if not body.get("stream"):
            return self.whole({"choices": [{"index": 0, "text": "x" * count, "finish_reason": "length"}],
                               "usage": usage})
        self.begin()
        chat = "messages" in body
        for i in range(count):
            piece = {"delta": {"content": "x"}} if chat else {"text": "x"}
            self.event({"choices": [{"index": 0, **piece, "finish_reason": "length" if i + 1 == count else None}]})
        if body.get("stream_options", {}).get("include_usage"):
            self.event({"choices": [], "usage": usage})
        self.event("[DONE]")
        self.wfile.write(b"0\r\n\r\n")

    def act_full(self, _, __):
        self.whole({"error": {"message": "too many requests"}}, 429)

    def act_half(self, body, number):
        """Every second one is refused."""
        return self.act_good(body, number) if number % 2 else self.act_full(body, number)

    def act_cut(self, _, __):
        self.begin()
        self.event({"choices": [{"index": 0, "text": "x"}]})
        self.hang_up()

    def act_broken(self, _, __):
        self.begin()
        self.event({"error": {"message": "the engine is gone"}})
        self.hang_up()

    def act_garbage(self, _, __):
        self.begin()
        self.event('{"choices": [\x1b[31m')
        self.hang_up()

    def act_html(self, _, __):
        self.whole(b"<html>\xff</html>", kind="text/html")

    def act_silent(self, _, __):
        """Until the client has had enough."""
        self.begin()
        while self.connection.recv(4096):
            pass
        self.hang_up()

    def act_hanging(self, body, number):
        """Answers two, and no more."""
        return self.act_good(body, number) if number <= 2 else self.act_silent(body, number)


class StandIn:
    def __init__(self, *models):
        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.server.daemon_threads = True
        self.server.models = models
        self.server.seen = []
        self.server.lock = threading.Lock()
        self.thread = threading.Thread(target=self.server.serve_forever, kwargs={"poll_interval": 0.02})
        self.url = f"http://127.0.0.1:{self.server.server_address[1]}"

    def __enter__(self):
        self.thread.start()
        return self

    def __exit__(self, *_):
        self.server.shutdown()
        self.thread.join()
        self.server.server_close()

    @property
    def seen(self):
        return self.server.seen
