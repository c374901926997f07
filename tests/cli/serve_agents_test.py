"""`tenon serve` takes what agents and libraries of today write, and names what has no effect."""
import unittest

from recorded_requests import REQUESTS, USER
from server import Server

CHATS = "/v1/chat/completions"

# It shows tools, calls and their results, as Hermes' does.
TEMPLATE = (
    "{% if tools %}{% for tool in tools %}{{ tool | tojson }}\n{% endfor %}"
    "<tool_call>\n{\"name\": <function-name>, \"arguments\": <args-json-object>}\n</tool_call>\n{% endif %}"
    "{% for message in messages %}{{ message.role }}: {{ message.content or '' }}"
    "{% for call in message.tool_calls or [] %}<tool_call>\n{\"name\": \"{{ call.function.name }}\", "
    "\"arguments\": {{ call.function.arguments | tojson }}}\n</tool_call>{% endfor %}\n{% endfor %}")


class Agents(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.server = Server("--set", "generation.max_tokens=8", template=TEMPLATE)
        cls.addClassCleanup(cls.server.__exit__)

    def test_requests_are_taken(self):
        for who, path, headers, body, ignored in REQUESTS:
            with self.subTest(who):
                body = {key: 8 if key == "max_tokens" else value for key, value in body.items()}
                status, found, answer = self.server.request("POST", path, body, headers)
                self.assertEqual(status, 200, answer)
                named = found.get("Tenon-Ignored-Fields") or ""
                self.assertEqual(set(named.split(", ")) - {""}, set(ignored.split()))

    def test_a_limit_beyond_the_context_is_no_fault(self):
        body = {"messages": USER, "max_tokens": 32000, "stop_sequences": ["e"]}
        self.assertEqual(self.server.post("/v1/messages", body)[0], 200)

    def test_minus_one_draws_a_seed(self):
        body = {"prompt": "The", "max_tokens": 24, "temperature": 2}
        drawn = {self.server.post("/v1/completions", body | {"seed": -1})[2]["choices"][0]["text"] for _ in range(4)}
        self.assertGreater(len(drawn), 1)

    def test_tokens_are_shown_as_their_ids(self):
        body = {"prompt": "The", "max_tokens": 3, "logprobs": 1, "return_tokens_as_token_ids": True,
                "return_token_ids": True}
        choice = self.server.post("/v1/completions", body)[2]["choices"][0]
        self.assertEqual(choice["logprobs"]["tokens"], [f"token_id:{token}" for token in choice["token_ids"]])

    def test_special_tokens_of_ids_can_be_left_out(self):
        tokens = self.server.post("/tokenize", {"prompt": "The king"})[2]["tokens"]
        text = self.server.post("/detokenize", {"tokens": tokens, "skip_special_tokens": True})[2]["prompt"]
        self.assertEqual(text, "The king")

    def test_too_long_a_prompt_is_told_in_the_words_that_clients_look_for(self):
        long = "a " * 3000
        said = [{"role": "user", "content": long}]
        limit = self.server.get("/v1/models")[2]["data"][0]["max_model_len"]
        for path, body in (("/v1/completions", {"prompt": long}), ("/v1/chat/completions", {"messages": said}),
                           ("/v1/responses", {"input": long}), ("/v1/embeddings", {"input": long}),
                           ("/v1/messages", {"messages": said, "max_tokens": 4})):
            with self.subTest(path):
                status, _, answer = self.server.post(path, body)
                self.assertEqual(status, 400)
                error = answer["error"]
                self.assertIn(f"This model's maximum context length is {limit} tokens. However, ", error["message"])
                code = error.get("code") or error["details"]["error_code"]
                self.assertEqual(code, "context_length_exceeded")
                if path == "/v1/messages":
                    self.assertRegex(error["message"], rf"^prompt is too long: \d+ tokens > {limit} maximum")


class LaterInstructions(unittest.TestCase):
    """Claude Code and others write system messages in the middle, which templates may refuse."""
    STRICT = ("{% for message in messages %}{% if message.role == 'system' and not loop.first %}"
              "{{ raise_exception('System message must be at the beginning.') }}{% endif %}"
              "<{{ message.role }}>{{ message.content }}{% endfor %}")
    TURNS = [{"role": "user", "content": "a"}, {"role": "system", "content": "b"},
             {"role": "assistant", "content": "c"}, {"role": "user", "content": "d"}]

    def shown(self, server, messages):
        tokens = server.post("/tokenize", {"messages": messages, "add_generation_prompt": False})[2]["tokens"]
        return server.post("/detokenize", {"tokens": tokens})[2]["prompt"]

    def test_a_template_that_refuses_them_gets_them_within_the_turn_before(self):
        with Server(template=self.STRICT) as server:
            self.assertEqual(self.shown(server, self.TURNS), "<user>a\n\nb<assistant>c<user>d")
            leading = [{"role": "system", "content": "x"}, {"role": "system", "content": "y"}]
            self.assertEqual(self.shown(server, leading + self.TURNS[:1]), "<system>x\n\ny<user>a")
            called = self.TURNS[:1] + [{"role": "assistant", "content": "c"}, {"role": "system", "content": "b"}]
            self.assertEqual(self.shown(server, called), "<user>a<assistant>c<user>b")
            self.assertEqual(self.shown(server, called + self.TURNS[3:]), "<user>a<assistant>c<user>b\n\nd")
            body = {"max_tokens": 4, "system": "s", "messages": self.TURNS}
            self.assertEqual(server.post("/v1/messages", body)[0], 200)

    def test_a_template_that_knows_them_gets_them_as_they_are(self):
        with Server(template="{% for message in messages %}<{{ message.role }}>{{ message.content }}{% endfor %}") as server:
            self.assertEqual(self.shown(server, self.TURNS), "<user>a<system>b<assistant>c<user>d")

    def test_what_else_a_template_refuses_is_told_as_ever(self):
        with Server(template=self.STRICT + "{{ raise_exception('never') }}") as server:
            status, _, answer = server.post(CHATS, {"messages": self.TURNS})
            self.assertEqual(status, 400)
            self.assertIn("System message must be at the beginning.", answer["error"]["message"])


class Anthropics(unittest.TestCase):
    HEADERS = {"anthropic-version": "2023-06-01"}

    @classmethod
    def setUpClass(cls):
        cls.server = Server()
        cls.addClassCleanup(cls.server.__exit__)

    def test_every_answer_has_a_request_id(self):
        for body, status in (({"messages": USER, "max_tokens": 2}, 200), ({"messages": USER}, 400)):
            found, headers, _ = self.server.post("/v1/messages", body)
            self.assertEqual((found, headers["request-id"]), (status, "req_" + headers["X-Request-Id"]))
        self.assertIsNone(self.server.post("/v1/completions", {"prompt": "a", "max_tokens": 1})[1]["request-id"])

    def test_models_are_told_in_the_dialect_of_who_asks(self):
        model = {"type": "model", "id": "tale", "display_name": "tale"}
        page = self.server.get("/v1/models?limit=5", headers=self.HEADERS)[2]
        self.assertEqual({"has_more": False, "first_id": "tale", "last_id": "tale"} | {"data": page["data"]}, page)
        self.assertEqual(page["data"][0] | model, page["data"][0])
        self.assertRegex(page["data"][0]["created_at"], r"^20\d\d-\d\d-\d\dT\d\d:\d\d:\d\dZ$")
        self.assertEqual(self.server.get("/v1/models/tale", headers=self.HEADERS)[2], page["data"][0])
        after = self.server.get("/v1/models?after_id=tale", headers=self.HEADERS)[2]
        self.assertEqual(after, {"data": [], "has_more": False, "first_id": None, "last_id": None})
        for query in ("limit=0", "limit=x", "after_id=unknown", "colour=red"):
            self.assertEqual(self.server.get("/v1/models?" + query, headers=self.HEADERS)[0], 400, query)
        self.assertEqual(self.server.get("/v1/models")[2]["object"], "list")


if __name__ == "__main__":
    unittest.main()
