"""`tenon serve` is sent what packages of clients send, and refuses by the names that they sent."""
import json
import unittest

from server import Server

MESSAGES = [{"role": "user", "content": "Once upon a time"}]
SCHEMA = {"type": "object", "properties": {"age": {"type": "integer", "minimum": 0, "maximum": 99}},
          "required": ["age"], "additionalProperties": False}
FUNCTIONS = [{"name": name, "parameters": SCHEMA} for name in ("count", "stop")]
# It shows what a template is told.
TEMPLATE = ("{% for message in messages %}{% if message.role == 'tool' %}"
            "{{ raise_exception('no call waits for a result') }}{% endif %}{{ message.content }}\n{% endfor %}"
            "{% if enable_thinking is defined and not enable_thinking %}no thoughts{% endif %}"
            "{{ reasoning_effort }}{% for tool in tools or [] %}{{ tool.function.name }}{% endfor %}")


class Clients(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.server = Server(template=TEMPLATE)
        cls.addClassCleanup(cls.server.__exit__)

    def post(self, path, body, status=200):
        found, self.headers, answer = self.server.post(path, body)
        self.assertEqual(found, status, answer)
        return answer

    def test_what_the_engine_refuses_has_the_name_that_the_request_used(self):
        unknown = 10**6
        for path, body, param in (
                ("completions", {"prompt": [unknown]}, "prompt"),
                ("completions", {"prompt": "a", "logit_bias": {str(unknown): 1}}, "logit_bias"),
                ("completions", {"prompt": "a", "allowed_token_ids": [unknown]}, "allowed_token_ids"),
                ("completions", {"prompt": "a", "allowed_tokens": [unknown]}, "allowed_tokens"),
                ("completions", {"prompt": "a", "stop_token_ids": [unknown]}, "stop_token_ids"),
                ("completions", {"prompt": "a", "min_tokens": 9, "max_tokens": 8}, "min_tokens"),
                ("completions", {"prompt": "a", "n": 2, "best_of": 1}, "best_of"),
                ("completions", {"prompt": "a", "n": 3, "beams": 2, "temperature": 0}, "n"),
                ("completions", {"prompt": "a", "adapter": "x"}, "adapter"),
                ("completions", {"prompt": "a", "params": {"a.b": 1}}, "params"),
                ("completions", {"prompt": "a", "early_stopping": True}, "early_stopping"),
                ("completions", {"prompt": "a", "steps": 3}, "steps"),
                ("completions", {"prompt": "a", "mirostat": 2, "top_k": 5}, "mirostat"),
                ("completions", {"prompt": "a", "dry_multiplier": 1, "dry_breakers": ["\u1234\u1234"]},
                 "dry_breakers"),
                ("completions", {"prompt": "a", "guided_regex": "a", "ignore_eos": True}, "ignore_eos"),
                ("completions", {"prompt": "a", "steps": 3, "adapter": "x"}, None),
                ("chat/completions", {"messages": MESSAGES, "steps": 3}, "steps"),
                ("responses", {"input": [{"role": "tool", "content": "x"}]}, "input"),
                ("responses/input_tokens", {"input": [{"role": "tool", "content": "x"}]}, "input"),
                ("responses", {"input": "a " * 3000}, "input")):
            with self.subTest(path=path, param=param, fields=list(body)):
                error = self.post("/v1/" + path, body, 400)["error"]
                self.assertEqual(error["param"], param, error)
        error = self.post("/v1/completions", {"prompt": "a", "n": 3, "beams": 2}, 400)["error"]
        self.assertIn("n is 3, more than beams", error["message"])
        error = self.post("/v1/embeddings", {"input": ["a", "a " * 3000]}, 400)["error"]
        self.assertEqual((error["param"], error["code"]), ("input", "context_length_exceeded"))

    def test_an_entry_of_a_list_is_told_as_the_request_has_it(self):
        for path, body, words in (
                ("completions", {"prompt": "a", "logit_bias": {"99999999": 1}}, "logit_bias has token 99999999 – "),
                ("completions", {"prompt": "a", "stop_token_ids": [5, 10**6]}, "stop_token_ids[1] is 1000000 – "),
                ("completions", {"prompt": "a", "allowed_token_ids": [5, 10**6]}, "allowed_token_ids[1] is 1000000 – "),
                ("completions", {"prompt": ["a", [10**6]]}, "prompt[1]: prompt token 0 has id 1000000 – "),
                ("completions", {"prompt": ["a", "", "b"]}, "prompt[1]: the prompt has no tokens – "),
                ("embeddings", {"input": ["a", ""]}, "input[1]: the text is empty – "),
                ("embeddings", {"input": ""}, "the text is empty – ")):
            with self.subTest(path=path, words=words):
                self.assertTrue(self.post("/v1/" + path, body, 400)["error"]["message"].startswith(words), words)

    def test_a_list_that_allows_no_token_is_refused(self):
        for name in ("allowed_token_ids", "allowed_tokens"):
            error = self.post("/v1/completions", {"prompt": "a", name: []}, 400)["error"]
            self.assertEqual(error["param"], name)
            self.assertIn(name + " is empty", error["message"])
        self.post("/v1/completions", {"prompt": "a", "stop_token_ids": [], "allowed_token_ids": None})

    def test_tools_can_be_narrowed_down(self):
        tools = [{"type": "function", "function": function} for function in FUNCTIONS]
        one = {"type": "allowed_tools", "allowed_tools": {"mode": "required", "tools": [
            {"type": "function", "function": {"name": "stop"}}]}}
        call, = self.post("/v1/chat/completions", {
            "messages": MESSAGES, "max_tokens": 400, "tools": tools, "tool_choice": one,
            "parallel_tool_calls": False})["choices"][0]["message"]["tool_calls"]
        self.assertEqual(call["function"]["name"], "stop")
        flat = {"type": "allowed_tools", "mode": "required", "tools": [{"type": "function", "name": "count"}]}
        item, = self.post("/v1/responses", {
            "input": "a", "max_output_tokens": 400, "tool_choice": flat, "parallel_tool_calls": False,
            "tools": [{"type": "function"} | function for function in FUNCTIONS]})["output"]
        self.assertEqual(item["name"], "count")

    def test_a_call_that_was_forced_comes_in_pieces_and_is_cut_where_the_answer_is(self):
        schema = {"type": "object", "properties": {"text": {"type": "string", "minLength": 1500}}, "required": ["text"],
                  "additionalProperties": False}
        body = {"messages": MESSAGES, "max_tokens": 200, "tool_choice": {"type": "function", "function": {"name": "write"}},
                "tools": [{"type": "function", "function": {"name": "write", "parameters": schema}}]}
        choice, = self.post("/v1/chat/completions", body)["choices"]
        call, = choice["message"]["tool_calls"]
        arguments = call["function"]["arguments"]
        self.assertEqual((choice["finish_reason"], choice["message"]["content"]), ("length", None))
        self.assertRegex(arguments, r'^\{\s*"text": ".{20}')
        events = [json.loads(data) for data in self.server.events("/v1/chat/completions", body | {"stream": True})[:-1]]
        pieces = [call["function"]["arguments"] for event in events for call in event["choices"][0]["delta"].get("tool_calls", [])]
        self.assertEqual("".join(pieces), arguments)
        self.assertEqual(events[-1]["choices"][0]["finish_reason"], "length")
        tools = [{"name": "write", "input_schema": schema}]
        message = self.post("/v1/messages", {"messages": MESSAGES, "max_tokens": 200, "tools": tools, "tool_choice": {"type": "any"}})
        self.assertEqual((message["stop_reason"], message["content"][0]["type"]), ("max_tokens", "tool_use"))
        response = self.post("/v1/responses", {"input": "a", "max_output_tokens": 200, "tool_choice": "required", "tools": [
            {"type": "function", "name": "write", "parameters": schema}]})
        self.assertEqual((response["status"], response["output"][0]["type"]), ("incomplete", "function_call"))

    def test_a_message_can_be_held_to_a_schema(self):
        body = {"messages": MESSAGES, "max_tokens": 400,
                "output_config": {"format": {"type": "json_schema", "schema": SCHEMA}}}
        answer = self.post("/v1/messages", body)
        self.assertEqual(set(json.loads(answer["content"][0]["text"])), {"age"})
        body["output_config"]["format"]["schema"] = {"type": "wizard"}
        self.assertIn("wizard", self.post("/v1/messages", body, 400)["error"]["message"])

    def count(self, **more):
        counted = self.post("/v1/messages/count_tokens", {"messages": MESSAGES} | more)
        return counted["input_tokens"]

    def test_templates_hear_of_thinking_and_effort(self):
        plain = self.count()
        self.assertEqual(self.count(thinking={"type": "enabled", "budget_tokens": 1024}), plain)
        self.assertEqual(self.headers["Tenon-Ignored-Fields"], "budget_tokens")
        self.assertEqual(self.count(thinking={"type": "adaptive"}), plain)
        self.assertGreater(self.count(thinking={"type": "disabled"}), plain)
        self.assertGreater(self.count(output_config={"effort": "low"}), plain)

    def test_a_conversation_that_should_be_stored_is_refused_as_its_package_expects(self):
        error = self.post("/v1/messages", {"messages": MESSAGES, "max_tokens": 5,
                                           "thread": {"type": "create"}}, 400)["error"]
        self.assertEqual(error["details"], {"error_code": "thread_unsupported_request"})

    def test_a_client_that_was_told_of_no_model_asks_the_only_one(self):
        for model in ({}, {"model": "dummy"}):
            answer = self.post("/v1/chat/completions", {"messages": MESSAGES, "max_tokens": 1} | model)
            self.assertEqual(answer["usage"]["completion_tokens"], 1)

    def test_tokens_of_a_response_are_counted_before(self):
        body = {"model": "tale", "input": "Once upon a time", "instructions": "Be short."}
        counted = self.post("/v1/responses/input_tokens", body)
        used = self.post("/v1/responses", body | {"max_output_tokens": 1})["usage"]["input_tokens"]
        self.assertEqual(counted, {"object": "response.input_tokens", "input_tokens": used})

    def test_reasoning_need_not_be_encrypted(self):
        self.post("/v1/responses", {"input": "a", "max_output_tokens": 1,
                                    "include": ["reasoning.encrypted_content"]})
        self.assertEqual(self.headers["Tenon-Ignored-Fields"], "include")


if __name__ == "__main__":
    unittest.main()
