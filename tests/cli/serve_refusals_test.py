"""`tenon serve` from outside: what clients send wrongly, and what they are told."""
import json
import time
import unittest

from server import Server
from serving import CHAT, STORY, WithServer


class Refusals(WithServer):
    def test_fields_with_bad_values_are_named(self):
        for change, param in (
                ({"temperature": "hot"}, "temperature"), ({"temperature": -1}, "temperature"),
                ({"top_p": 0}, "top_p"), ({"max_tokens": 0}, "max_tokens"), ({"n": 0}, "n"),
                ({"n": 1.5}, "n"), ({"stop": [1]}, "stop"), ({"stop": ""}, "stop"),
                ({"logit_bias": {"x": 1}}, "logit_bias"), ({"logprobs": -1}, "logprobs"),
                ({"stream": "yes"}, "stream"), ({"stream_options": {}}, "stream_options"),
                ({"prompt": 5}, "prompt"), ({"prompt": []}, "prompt"), ({"prompt": None}, "prompt"),
                ({"prompt": [["a"]]}, "prompt"), ({"seed": 1e300}, "seed"),
                ({"max_tokens": 10**30}, "max_tokens"), ({"suffix": "x"}, "suffix"),
                ({"tempertature": 1}, "tempertature")):
            with self.subTest(change=change):
                self.refused("/v1/completions", STORY | change, param=param)

    def test_an_unknown_field_is_refused_with_what_was_meant(self):
        self.refused("/v1/completions", STORY | {"tempertature": 1}, words="temperature")

    def test_known_fields_without_effect_are_listed(self):
        self.post("/v1/chat/completions", CHAT | {"user": "u", "metadata": {}})
        self.assertEqual(set(self.headers["Tenon-Ignored-Fields"].split(", ")), {"user", "metadata"})

    def test_messages_must_be_what_they_are(self):
        for messages, param in (
                ([], "messages"), ("hello", "messages"), ([{}], "messages[0].role"),
                ([{"role": "wizard", "content": "x"}], "messages[0].role"),
                ([{"role": "user"}], "messages[0].content"),
                ([{"role": "user", "content": 5}], "messages[0].content"),
                ([{"role": "user", "content": [{"type": "image_url"}]}], "messages[0].content[0]"),
                ([{"role": "user", "content": "x", "colour": 1}], "messages[0].colour"),
                ([{"role": "tool", "content": "x"}], "messages")):
            with self.subTest(messages=messages):
                self.refused("/v1/chat/completions", CHAT | {"messages": messages}, param=param)

    def test_what_is_not_built_is_named(self):
        self.refused("/v1/chat/completions",
                     CHAT | {"chat_template": "x"}, param="chat_template")

    def test_answers_have_the_form_that_is_asked_for(self):
        schema = {"type": "object", "additionalProperties": False, "required": ["name", "age"],
                  "properties": {"name": {"type": "string", "pattern": "^[a-z]{1,8}$"},
                                 "age": {"type": "integer", "minimum": 0, "maximum": 99}}}
        form = {"type": "json_schema",
                "json_schema": {"name": "person", "schema": schema, "strict": True}}
        for seed in range(3):
            answer = self.post("/v1/chat/completions",
                               CHAT | {"response_format": form, "max_tokens": 60, "seed": seed})
            choice = answer["choices"][0]
            person = json.loads(choice["message"]["content"])
            self.assertEqual(list(person), ["name", "age"])
            self.assertRegex(person["name"], "^[a-z]{1,8}$")
            self.assertIn(person["age"], range(100))
            self.assertEqual(choice["finish_reason"], "stop")
        # llama.cpp's and TGI's words for the same.
        for short in ({"type": "json_object", "schema": schema}, {"type": "json_schema", "schema": schema},
                      {"type": "json", "value": schema}, {"type": "json_object", "value": schema}):
            answer = self.post("/v1/chat/completions", CHAT | {"response_format": short, "max_tokens": 60})
            self.assertEqual(list(json.loads(answer["choices"][0]["message"]["content"])), ["name", "age"], short)
        answer = self.post("/v1/chat/completions", CHAT | {
            "response_format": {"type": "regex", "value": "[0-9]{3}"}, "max_tokens": 60})
        self.assertRegex(answer["choices"][0]["message"]["content"], "^[0-9]{3}$")
        for field, value, pattern in (
                ("guided_choice", ["the wolf", "a \"king\""], '^(the wolf|a "king")$'),
                ("guided_regex", "[0-9]{3}-[a-f]+x", "^[0-9]{3}-[a-f]+x$"),
                ("structured_outputs", {"grammar": 'root ::= "a" root | "b"'}, "^a*b$")):
            with self.subTest(field=field):
                answer = self.post("/v1/completions", STORY | {field: value, "max_tokens": 40})
                choice = answer["choices"][0]
                if choice["finish_reason"] == "stop":
                    self.assertRegex(choice["text"], pattern)

    def test_forms_that_are_not_understood_are_named(self):
        bad = {"type": "json_schema", "json_schema": {"name": "x", "schema": {"type": "wizard"}}}
        self.refused("/v1/chat/completions", CHAT | {"response_format": bad},
                     param="response_format")
        self.refused("/v1/completions", STORY | {"guided_regex": "("}, param="guided_regex",
                     words="a group without its closing parenthesis")
        self.refused("/v1/completions", STORY | {"guided_choice": []}, words="choose")
        self.refused("/v1/completions",
                     STORY | {"guided_choice": ["a"], "guided_regex": "a"}, words="second form")

    def test_what_contradicts_itself_or_is_half_there_is_named(self):
        text = [{"type": "text", "text": "a"}]
        for path, body, param in (
                ("/v1/completions", STORY | {"guided_choice": "yes"}, "guided_choice"),
                ("/v1/completions", STORY | {"structured_outputs": {"choice": "yes"}}, "structured_outputs"),
                ("/v1/completions", STORY | {"prompt": ""}, "prompt"),
                ("/v1/completions", STORY | {"prompt": "a " * 3000}, "prompt"),
                ("/v1/completions", STORY | {"allowed_token_ids": [-1]}, "allowed_token_ids"),
                ("/v1/chat/completions", CHAT | {"max_completion_tokens": 17}, "max_completion_tokens"),
                ("/v1/chat/completions", CHAT | {"documents": 5}, "documents"),
                ("/v1/chat/completions", CHAT | {"response_format": {
                    "type": "json_schema", "json_schema": {}}}, "response_format.json_schema.schema"),
                ("/v1/chat/completions", CHAT | {"response_format": {
                    "type": "json_schema", "json_schema": {"schema": {}, "colour": 1}}},
                 "response_format.json_schema.colour"),
                ("/v1/chat/completions", CHAT | {"messages": [
                    {"role": "user", "content": text + [{"type": "image_url"}]}]}, "messages[0].content[1]"),
                ("/v1/responses", {"input": "a " * 3000}, "input"),
                ("/v1/responses", {"input": [{"type": "function_call_output", "output": "x"}]},
                 "input[0].call_id"),
                ("/v1/embeddings", {"input": ""}, "input")):
            with self.subTest(path=path, param=param):
                error = self.refused(path, body, param=param)
                is_long = len(str(body)) > 3000
                self.assertEqual(error["code"], "context_length_exceeded" if is_long else error["code"])
        self.post("/v1/chat/completions", CHAT | {"max_completion_tokens": 16})
        for block, words in (({"type": "tool_result", "tool_use_id": 5}, "tool_use_id"),
                             ({"type": "tool_result"}, "tool_use_id")):
            error = self.post("/v1/messages", {"max_tokens": 2, "messages": [
                {"role": "user", "content": [block]}]}, 400)["error"]
            self.assertIn(words, error["message"])
        for call in ({"id": "1", "name": "f", "input": "x"}, {"name": "f"}, {"id": "1"}):
            error = self.post("/v1/messages", {"max_tokens": 2, "messages": [
                {"role": "user", "content": "a"},
                {"role": "assistant", "content": [{"type": "tool_use"} | call]}]}, 400)["error"]
            self.assertIn('"messages[1].content[0]" is a call', error["message"])
        error = self.post("/v1/messages", CHAT | {"seed": 3, "stop_sequences": [""]}, 400)["error"]
        self.assertTrue(error["message"].startswith("stop_sequences has"), error)

    def test_a_model_that_is_not_served_is_404(self):
        error = self.refused("/v1/completions", STORY | {"model": "gpt-4"}, 404, "model")
        self.assertEqual(error["code"], "model_not_found")

    def test_a_prompt_beyond_the_context_is_400(self):
        self.refused("/v1/completions", {"prompt": "the king " * 5000}, words="context")

    def test_bodies_that_are_no_json(self):
        for body in (b"", b"{", b"[]", b"null", b'{"prompt": "\xff\xfe"}', b'{"a": 1, "a": 2}',
                     b'{"prompt": "\\ud800"}', b"\xef\xbb\xbf{", b'{"n": NaN}', b'{"a": 1} x',
                     b"[" * 100000, b'{"a":' * 5000 + b"1" + b"}" * 5000):
            with self.subTest(body=body[:20]):
                self.refused("/v1/completions", body)

    def test_depth_is_refused_at_once(self):
        begin = time.monotonic()
        self.refused("/v1/completions", b"[" * (8 << 20), words="deep")
        self.assertLess(time.monotonic() - begin, 10)

    def test_methods_and_paths(self):
        status, headers, answer = self.server.get("/v1/completions")
        self.assertEqual((status, headers["Allow"]), (405, "POST"))
        self.assertIn("POST", answer["error"]["message"])
        self.assertEqual(self.server.request("DELETE", "/v1/models")[1]["Allow"], "GET, HEAD")
        self.assertEqual(self.server.get("/nothing")[0], 404)
        self.assertEqual(self.server.get("/v1/models/")[0], 404)
        self.assertEqual(self.server.request("OPTIONS", "/v1/models")[0], 405)

    def test_bodies_are_json_and_not_compressed(self):
        body = json.dumps(STORY)
        for headers, status in (({"Content-Type": "text/plain"}, 415),
                                ({"Content-Encoding": "gzip"}, 415),
                                ({"Content-Type": "application/json; charset=utf-8"}, 200)):
            self.post("/v1/completions", body, status, headers=headers)

    def test_a_body_that_is_too_large_is_413(self):
        with Server("--max-body", "1KiB") as server:
            status, _, answer = server.post("/v1/completions", STORY | {"prompt": "x" * 2000})
            self.assertEqual((status, answer["error"]["type"]), (413, "invalid_request_error"))


if __name__ == "__main__":
    unittest.main()
