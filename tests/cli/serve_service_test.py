"""`tenon serve` around the answers: keys, logs, figures, several pipelines, other dialects."""
import hashlib
import json
import re
import unittest

from program import SOURCE, run
from server import Server

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
        self.assertIn("two pipelines have the name 'chunked'", done.stderr)

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
            # Each line is a comment or a sample, and no family comes twice.
            families = re.findall(r"^# TYPE (\S+)", text, re.M)
            self.assertEqual(len(families), len(set(families)))
            for line in text.splitlines():
                self.assertRegex(line, r"^(# (HELP|TYPE) \S+ .+|[a-z:_A-Z0-9]+(\{.*\})? -?[0-9.e+-]+)$")

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
