"""`tenon serve` around the answers: keys, logs, figures, several pipelines, other dialects."""
import collections
import hashlib
import json
import re
import unittest

from program import SOURCE, run
from server import TEMPLATE, Server

PROMPT = {"prompt": "The old witch", "max_tokens": 6, "seed": 1}
CHAT = [{"role": "user", "content": "Once upon a time"}]


def keys_file(server_folder, **keys):
    lines = [f"{name} {hashlib.sha256(key.encode()).hexdigest()} {limits}"
             for name, (key, limits) in keys.items()]
    server_folder.write_text("# who may\n" + "\n".join(lines) + "\n")
    return server_folder


class Keys(unittest.TestCase):
    def setUp(self):
        self.other = Server()  # only for its folder
        self.addCleanup(self.other.__exit__)
        self.file = keys_file(self.other.path("keys"), alice=("secret-a", ""),
                              bob=("secret-b", "requests=2"), carol=("secret-c", "tokens=5"))

    def ask(self, server, headers=None):
        return server.post("/v1/completions", PROMPT, headers=headers or {})

    def test_only_health_and_the_page_are_open(self):
        with Server("--keys", self.file) as server:
            self.assertEqual([server.get(path)[0] for path in ("/health", "/")], [200, 200])
            for path in ("/ready", "/version", "/metrics", "/v1/models", "/openapi.json",
                         "/v1/engine/steps"):
                status, headers, answer = server.get(path)
                self.assertEqual((status, headers["WWW-Authenticate"]), (401, "Bearer"), path)
                self.assertEqual(answer["error"]["code"], "invalid_api_key")
            for headers in ({}, {"Authorization": "Bearer wrong"}, {"Authorization": "secret-a"},
                            {"X-Api-Key": ""}):
                self.assertEqual(self.ask(server, headers)[0], 401)
            for headers in ({"Authorization": "Bearer secret-a"}, {"X-Api-Key": "secret-a"}):
                self.assertEqual(self.ask(server, headers)[0], 200)

    def test_a_minute_has_an_end(self):
        with Server("--keys", self.file) as server:
            bob = {"Authorization": "Bearer secret-b"}
            self.assertEqual([self.ask(server, bob)[0] for _ in range(2)], [200, 200])
            status, headers, answer = self.ask(server, bob)
            self.assertEqual((status, answer["error"]["code"]), (429, "rate_limit_exceeded"))
            self.assertTrue(1 <= int(headers["Retry-After"]) <= 30)
            self.assertEqual(server.get("/v1/models", headers=bob)[0], 200)
            carol = {"Authorization": "Bearer secret-c"}
            self.assertEqual(self.ask(server, carol)[0], 200)
            self.assertEqual(self.ask(server, carol)[0], 429)
            self.assertEqual(self.ask(server, {"Authorization": "Bearer secret-a"})[0], 200)

    def test_a_file_of_keys_is_read_or_refused(self):
        self.file.write_text("alice nothash\n")
        done = run("serve", "--port", 0, "--keys", self.file)
        self.assertEqual(done.returncode, 1)
        self.assertIn(f"{self.file}:1: expected a name and the 64", done.stderr)


class Service(unittest.TestCase):
    def test_a_queue_that_is_full_is_429(self):
        with Server("--max-requests", 2) as server:
            status, headers, answer = server.post("/v1/completions", PROMPT | {"prompt": ["a"] * 3})
            self.assertEqual((status, answer["error"]["code"]), (429, "queue_full"))
            self.assertEqual(headers["Retry-After"], "1")
            self.assertEqual(server.post("/v1/completions", PROMPT | {"prompt": ["a"] * 2})[0], 200)

    def test_two_strategies_give_the_same_tokens(self):
        pipelines = SOURCE / "configs/pipelines"
        with Server(pipelines / "continuous.toml", f"other={pipelines / 'chunked.toml'}") as server:
            ids = [model["id"] for model in server.get("/v1/models")[2]["data"]]
            self.assertEqual(ids, ["continuous", "other"])
            texts = [server.post("/v1/completions", PROMPT | {"model": name})[2]["choices"][0]["text"]
                     for name in ids]
            self.assertEqual(texts[0], texts[1])
            status, _, answer = server.post("/v1/completions", PROMPT)
            self.assertEqual((status, answer["error"]["param"]), (400, "model"))
            text = server.get("/metrics")[2].decode()
            self.assertIn('plugin="chunked"', text)
            self.assertIn('plugin="continuous"', text)
            held = {model: int(float(re.search(
                f'tenon:weight_bytes{{model_name="{model}",held="shared"}} (.+)', text)[1]))
                for model in ids}
            self.assertEqual(held["continuous"], 0)
            self.assertGreater(held["other"], 1 << 20)

    def test_two_pipelines_of_one_name_are_refused(self):
        file = SOURCE / "configs/pipelines/chunked.toml"
        done = run("serve", file, file)
        self.assertEqual(done.returncode, 1)
        self.assertIn("two models have the name 'chunked'", done.stderr)

    def test_figures_are_what_happened(self):
        with Server() as server:
            server.post("/v1/completions", PROMPT | {"n": 2, "ignore_eos": True})
            server.wait_for('vllm:generation_tokens_total{model_name="tale"} 12')
            text = server.get("/metrics")[2].decode()
            for line in ('vllm:request_success_total{model_name="tale",finished_reason="length"} 2',
                         'vllm:num_requests_running{model_name="tale"} 0',
                         'vllm:time_to_first_token_seconds_count{model_name="tale"} 2',
                         'vllm:request_prompt_tokens_count{model_name="tale"} 1'):
                self.assertIn("\n" + line + "\n", text)
            for line in text.splitlines():
                self.assertRegex(line, r"^(# (HELP|TYPE) \S+ .+|[a-z:_A-Z0-9]+(\{.*\})? -?[0-9.e+-]+)$")

    def test_no_family_of_the_figures_comes_twice(self):
        collector = "http://127.0.0.1:9/v1/traces"
        with Server("tale=" + str(SOURCE / "configs/pipelines/chunked.toml"),
                    SOURCE / "configs/pipelines/continuous.toml", "--otlp-traces-endpoint",
                    collector) as server:
            server.post("/v1/completions", PROMPT | {"model": "tale"})
            text = server.get("/metrics")[2].decode()
        types = re.findall(r"^# TYPE (\S+) (\S+)$", text, re.M)
        self.assertGreater(len(types), 40)
        # Readers of OpenMetrics call a counter by its name without the end, and a histogram's
        # samples by three names: all of them must be apart.
        names = []
        for name, kind in types:
            if kind == "counter":
                self.assertTrue(name.endswith("_total"), name)
                names.append(name.removesuffix("_total"))
            else:
                names.append(name)
            if kind == "histogram":
                names += [name + end for end in ("_bucket", "_sum", "_count", "_created")]
        twice = [name for name, count in collections.Counter(names).items() if count > 1]
        self.assertEqual(twice, [])
        try:
            from prometheus_client.parser import text_string_to_metric_families
        except ImportError:
            return
        known = collections.Counter(family.name for family in text_string_to_metric_families(text))
        self.assertEqual([name for name, count in known.items() if count > 1], [])

    def test_figures_say_what_requests_asked_for_and_what_the_cache_is_like(self):
        with Server() as server:
            server.post("/v1/completions", PROMPT | {"n": 2, "ignore_eos": True})
            server.wait_for('vllm:request_params_n_sum{model_name="tale"} 2.0')
            text = server.get("/metrics")[2].decode()
            info = server.get("/server_info")[2]
        for line in ('vllm:request_params_n_count{model_name="tale"} 1',
                     'vllm:request_params_max_tokens_sum{model_name="tale"} 12.0',
                     'vllm:request_params_max_tokens_count{model_name="tale"} 2',
                     'vllm:request_max_num_generation_tokens_sum{model_name="tale"} 6.0',
                     'vllm:request_inference_time_seconds_count{model_name="tale"} 2'):
            self.assertIn("\n" + line + "\n", text)
        labels = dict(re.findall(r'(\w+)="([^"]*)"', re.search(
            r"^vllm:cache_config_info\{(.*)\} 1$", text, re.M).group(1)))
        self.assertEqual(int(labels["block_size"]), info["page_size"])
        self.assertEqual(int(labels["block_size"]) * int(labels["num_gpu_blocks"]),
                         info["max_total_num_tokens"])

    def test_the_dashboard_asks_for_figures_that_there_are(self):
        board = json.loads((SOURCE / "configs/grafana/tenon.json").read_text())
        asked = {name for panel in board["panels"] for target in panel["targets"]
                 for name in re.findall(r"(?:vllm|tenon):\w+", target["expr"])}
        self.assertGreater(len(asked), 15)
        with Server() as server:
            server.post("/v1/completions", PROMPT)
            text = server.get("/metrics")[2].decode()
        shown = set(re.findall(r"^((?:vllm|tenon):\w+)", text, re.M))
        self.assertEqual(asked - shown, set())

    def test_the_log_has_a_line_a_request(self):
        with Server() as other:
            file = other.path("log")
            with Server("--request-log", file) as server:
                headers = server.post("/v1/completions", PROMPT)[1]
                server.events("/v1/completions", PROMPT | {"stream": True})
                server.post("/v1/completions", PROMPT | {"n": 0})
                self.assertEqual(server.end()[0], 0)
            lines = [json.loads(line) for line in file.read_text().splitlines()]
        # A line follows its answer, and so may the next request.
        lines.sort(key=lambda line: (line["status"], line["stream"]))
        self.assertEqual([line["status"] for line in lines], [200, 200, 400])
        self.assertEqual([line["completion_tokens"] for line in lines], [6, 6, 0])
        self.assertEqual([line["stream"] for line in lines], [False, True, False])
        self.assertEqual(lines[0]["id"], headers["X-Request-Id"])
        self.assertGreater(lines[0]["first_token_ms"], 0)
        self.assertNotIn("witch", json.dumps(lines))

    def test_an_answer_that_was_read_to_its_end_is_not_aborted(self):
        ways = [("HTTP/1.1", "close"), ("HTTP/1.1", "keep-alive"), ("HTTP/1.0", "close"),
                ("HTTP/1.0", "keep-alive")]
        with Server() as other:
            file = other.path("log")
            with Server("--request-log", file) as server:
                for version, connection in ways * 10:
                    for stream in (False, True):
                        self.read_whole(server, version, connection, stream)
                text = server.get("/metrics")[2].decode()
                self.assertEqual(server.end()[0], 0)
            lines = [json.loads(line) for line in file.read_text().splitlines()]
        asked = [line for line in lines if line["path"] == "/v1/completions"]
        self.assertEqual(len(asked), 80)
        self.assertEqual([line for line in asked if line["aborted"] or line["error"]], [])
        self.assertIn('\nvllm:request_success_total{model_name="tale",finished_reason="length"} 80\n',
                      text)
        self.assertIn('\ntenon:aborted_requests_total{model_name="tale"} 0\n', text)

    def read_whole(self, server, version, connection, stream):
        """Reads until everything is there, and hangs up at once."""
        body = json.dumps(PROMPT | {"stream": stream, "ignore_eos": True}).encode()
        head = (f"POST /v1/completions {version}\r\nHost: x\r\nContent-Type: application/json\r\n"
                f"Connection: {connection}\r\nContent-Length: {len(body)}\r\n\r\n")
        end = b"data: [DONE]\n\n" if version == "HTTP/1.0" else b"\r\n0\r\n\r\n"
        with server.socket() as wire:
            wire.sendall(head.encode() + body)
            read = b""
            while True:
                found, _, rest = read.partition(b"\r\n\r\n")
                if stream and rest.endswith(end):
                    return
                length = re.search(rb"content-length: (\d+)", found.lower())
                if rest and length and len(rest) == int(length.group(1)):
                    return
                piece = wire.recv(65536)
                self.assertTrue(piece, read)
                read += piece

    def test_an_answer_that_nobody_waits_for_is_aborted_everywhere(self):
        with Server() as other:
            file = other.path("log")
            with Server("--request-log", file) as server:
                body = json.dumps({"prompt": "The king", "max_tokens": 2000, "ignore_eos": True})
                with server.socket() as wire:
                    wire.sendall((f"POST /v1/completions HTTP/1.1\r\nHost: x\r\nContent-Type: "
                                  f"application/json\r\nContent-Length: {len(body)}\r\n\r\n{body}").encode())
                    server.wait_for('vllm:num_requests_running{model_name="tale"} 1')
                server.wait_for('tenon:aborted_requests_total{model_name="tale"} 1')
                server.wait_for(
                    'vllm:request_success_total{model_name="tale",finished_reason="abort"} 1')
                # One prompt of two is refused: the other is taken back, and nobody went away.
                status = server.post("/v1/completions", {"prompt": ["a", "b " * 9000]})[0]
                self.assertEqual(status, 400)
                self.assertEqual(server.end()[0], 0)
            lines = [json.loads(line) for line in file.read_text().splitlines()]
        lines = [line for line in lines if line["path"] == "/v1/completions"]
        self.assertEqual([(line["status"], line["aborted"]) for line in lines],
                         [(503, True), (400, False)])

    def test_pages_of_others_are_let_in_by_name_alone(self):
        with Server() as server:
            self.assertNotIn("Access-Control-Allow-Origin", server.get("/version")[1])
        with Server("--cors-origin", "http://a.example") as server:
            status, headers, _ = server.request("OPTIONS", "/v1/completions")
            self.assertEqual((status, headers["Access-Control-Allow-Origin"]), (204, "http://a.example"))
            for path in ("/version", "/nothing"):
                self.assertEqual(server.get(path)[1]["Access-Control-Allow-Origin"], "http://a.example")

    def test_readiness_and_version(self):
        with Server() as server:
            self.assertEqual(server.get("/ready")[0], 200)
            self.assertIn(server.get("/version")[2]["version"], run("--version").stdout)

    def test_routers_are_told_what_runs_here(self):
        with Server() as server:
            model = server.get("/model_info")[2]
            self.assertEqual(model, server.get("/get_model_info")[2])
            self.assertEqual((model["served_model_name"], model["is_generation"]), ("tale", True))
            self.assertEqual(model["model_type"], "llama")
            self.assertTrue(model["model_path"].endswith("tale"))
            info = server.get("/server_info")[2]
            self.assertEqual(info, server.get("/get_server_info?model=tale")[2])
            limit = server.get("/v1/models")[2]["data"][0]["max_model_len"]
            self.assertEqual((info["served_model_name"], info["context_length"], info["tp_size"]),
                             ("tale", limit, 1))
            self.assertEqual(info["internal_states"][0]["memory_usage"]["token_capacity"],
                             info["max_total_num_tokens"])
            self.assertEqual(server.get("/load")[2], {"server_load": 0})
            self.assertEqual(server.get("/get_load")[2],
                             [{"dp_rank": 0, "num_reqs": 0, "num_waiting_reqs": 0, "num_tokens": 0,
                               "model": "tale"}])
            for path in ("/model_info", "/server_info", "/tokenizer_info"):
                status, _, answer = server.get(path + "?model=other")
                self.assertEqual((status, answer["error"]["code"]), (404, "model_not_found"))
                status, _, answer = server.get(path + "?modle=tale")
                self.assertEqual((status, answer["error"]["message"]),
                                 (400, "the query has 'modle' – \"model\" is known"))

    def test_a_tokenizer_is_told_as_its_configuration_has_it(self):
        with Server() as server:
            info = server.get("/tokenizer_info")[2]
            self.assertIn("tokenizer_class", info)
            self.assertEqual(info["chat_template"], TEMPLATE)
            self.assertFalse({"vocab_file", "merges_file"} & set(info))
        config = SOURCE / "configs/models/tale/tokenizer_config.json"
        if config.exists():
            told = json.loads(config.read_text())
            self.assertEqual(info["tokenizer_class"], told.get("tokenizer_class", "Tokenizer"))

    def test_a_cache_that_was_flushed_is_not_found(self):
        text = PROMPT | {"prompt": "The old witch lived in a house at the end of the wood. " * 4}
        cached = lambda answer: answer["usage"]["prompt_tokens_details"]["cached_tokens"]
        with Server("tale=" + str(SOURCE / "configs/pipelines/prefix.toml")) as server:
            first = server.post("/v1/completions", text)[2]
            again = server.post("/v1/completions", text)[2]
            self.assertEqual(cached(first), 0)
            self.assertGreater(cached(again), 0)
            for method, path in (("POST", "/flush_cache"), ("GET", "/flush_cache?timeout=1.5"),
                                 ("POST", "/flush_cache?model=tale")):
                status, headers, said = server.request(method, path)
                self.assertEqual((status, said.decode()), (200, "Cache flushed.\n"))
                new = server.post("/v1/completions", text)[2]
                self.assertEqual(cached(new), 0)
                self.assertEqual(new["choices"], first["choices"])
                self.assertGreater(cached(server.post("/v1/completions", text)[2]), 0)
            for path, code in (("/flush_cache?model=other", 404), ("/flush_cache?timeout=-1", 400),
                               ("/flush_cache?all=1", 400)):
                self.assertEqual(server.request("POST", path)[0], code, path)
            status, headers, _ = server.request("HEAD", "/flush_cache")
            self.assertEqual((status, headers["Allow"]), (405, "GET, POST"))
            for headers in ({"Sec-Fetch-Site": "cross-site"}, {"Origin": "http://a.example"}):
                self.assertEqual(server.request("POST", "/flush_cache", headers=headers)[0], 403)
            self.assertGreater(cached(server.post("/v1/completions", text)[2]), 0)

    def test_the_openapi_document_has_every_path(self):
        with Server() as server:
            document = server.get("/openapi.json")[2]
            self.assertEqual(document["openapi"], "3.1.0")
            for path, item in document["paths"].items():
                for method in item:
                    # One of them never ends: its head must do.
                    status = server.request("HEAD" if method == "get" else "POST",
                                            path.replace("{model}", "tale"),
                                            None if method == "get" else "{}")[0]
                    self.assertIn(status, (200, 400), path)
            seed = document["components"]["schemas"]["Chat"]["properties"]["seed"]["anyOf"][0]
            self.assertEqual(seed["minimum"], 0)

    def test_what_the_openapi_document_lets_be_null_may_be(self):
        few = {"max_tokens": 2}
        needed = {"/v1/completions": {"prompt": "a"} | few,
                  "/v1/chat/completions": {"messages": CHAT} | few,
                  "/v1/messages": {"messages": CHAT} | few,
                  "/v1/messages/count_tokens": {"messages": CHAT},
                  "/v1/responses": {"input": "a", "max_output_tokens": 2},
                  "/v1/embeddings": {"input": "a"}, "/tokenize": {"prompt": "a"},
                  "/detokenize": {"tokens": [5]}}
        with Server() as server:
            document = server.get("/openapi.json")[2]
            for path, body in needed.items():
                content = document["paths"][path]["post"]["requestBody"]["content"]
                name = content["application/json"]["schema"]["$ref"].rsplit("/", 1)[1]
                schema = document["components"]["schemas"][name]
                self.assertEqual(set(schema["required"]) - set(body), set(), path)
                nulls = {key: None for key in schema["properties"] if key not in body}
                status, _, answer = server.post(path, nulls | body)
                self.assertEqual(status, 200, (path, answer))


class Dialects(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.server = Server()
        cls.addClassCleanup(cls.server.__exit__)
        body = {"messages": CHAT, "max_tokens": 8}
        cls.said = cls.server.post("/v1/chat/completions", body)[2]["choices"][0]["message"]["content"]

    def named_events(self, path, body):
        connection = self.server.connect()
        connection.request("POST", path, json.dumps(body), {"Content-Type": "application/json"})
        text = connection.getresponse().read().decode()
        connection.close()
        return [(block.split("\n")[0][len("event: "):], json.loads(block.split("\n")[1][len("data: "):]))
                for block in text.strip().split("\n\n")]

    def test_messages(self):
        body = {"model": "tale", "max_tokens": 8, "messages": CHAT}
        status, _, answer = self.server.post("/v1/messages", body)
        self.assertEqual((status, answer["content"]), (200, [{"type": "text", "text": self.said}]))
        self.assertEqual(answer["stop_reason"], "max_tokens")
        events = self.named_events("/v1/messages", body | {"stream": True})
        self.assertEqual((events[0][0], events[-1][0]), ("message_start", "message_stop"))
        self.assertEqual("".join(data["delta"]["text"] for name, data in events
                                 if name == "content_block_delta"), self.said)
        self.assertEqual(events[0][1]["message"]["usage"] | {"output_tokens": 8}, answer["usage"])
        counted = self.server.post("/v1/messages/count_tokens", {"model": "tale", "messages": CHAT})[2]
        self.assertEqual(counted["input_tokens"], answer["usage"]["input_tokens"])
        status, _, answer = self.server.post("/v1/messages", {"messages": CHAT})
        self.assertEqual((status, answer["type"], answer["error"]["type"]),
                         (400, "error", "invalid_request_error"))

    def test_responses(self):
        body = {"model": "tale", "max_output_tokens": 8, "input": CHAT[0]["content"]}
        status, _, answer = self.server.post("/v1/responses", body)
        self.assertEqual((status, answer["output"][0]["content"][0]["text"]), (200, self.said))
        self.assertEqual((answer["status"], answer["usage"]["output_tokens"]), ("incomplete", 8))
        events = self.named_events("/v1/responses", body | {"stream": True})
        self.assertEqual((events[0][0], events[-1][0]), ("response.created", "response.incomplete"))
        self.assertEqual("".join(data["delta"] for name, data in events
                                 if name == "response.output_text.delta"), self.said)

    def test_a_call_that_is_forced_is_made(self):
        schema = {"type": "object", "required": ["n", "next"], "additionalProperties": False,
                  "properties": {"n": {"type": "integer", "minimum": 0, "maximum": 9},
                                 "next": {"$ref": "#/$defs/Next"}},
                  "$defs": {"Next": {"enum": ["a", "b", None]}}}
        function = {"name": "step", "parameters": schema}
        flat = {"type": "function"} | function
        tool = {"type": "function", "function": function}
        other = {"type": "function", "function": {"name": "stop"}}
        limit = {"model": "tale", "max_tokens": 400}
        answer = self.server.post("/v1/chat/completions", limit | {
            "messages": CHAT, "tools": [other, tool],
            "tool_choice": {"type": "function", "function": {"name": "step"}}})[2]
        choice = answer["choices"][0]
        self.assertEqual((choice["finish_reason"], choice["message"]["content"]), ("tool_calls", None))
        made, = choice["message"]["tool_calls"]
        arguments = json.loads(made["function"]["arguments"])
        self.assertEqual(made["function"]["name"], "step")
        self.assertIn(arguments["n"], range(10))
        self.assertIn(arguments["next"], ["a", "b", None])

        answer = self.server.post("/v1/messages", limit | {
            "messages": CHAT, "tools": [{"name": "step", "input_schema": schema}],
            "tool_choice": {"type": "any", "disable_parallel_tool_use": True}})[2]
        self.assertEqual(answer["stop_reason"], "tool_use")
        self.assertIn(answer["content"][0]["input"]["n"], range(10))

        body = {"model": "tale", "max_output_tokens": 400, "input": CHAT[0]["content"], "tools": [flat],
                "tool_choice": {"type": "function", "name": "step"}}
        item, = self.server.post("/v1/responses", body)[2]["output"]
        self.assertEqual((item["type"], item["name"]), ("function_call", "step"))
        events = self.named_events("/v1/responses", body | {"stream": True})
        self.assertEqual(["".join(data["delta"] for name, data in events
                                  if name == "response.function_call_arguments.delta")],
                         [item["arguments"]])
        back = [{"role": "user", "content": "x"}, item]
        answer = self.server.post("/v1/responses", body | {"input": back})[2]
        self.assertEqual(answer["output"][0]["type"], "function_call")


if __name__ == "__main__":
    unittest.main()
