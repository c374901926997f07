"""`tenon serve` where a request's form, its bans and its limits meet: what can be answered is, and what cannot is the
request's fault, never the server's."""
import json
import unittest

from server import Server

STORY = {"model": "tale", "prompt": "The old witch", "max_tokens": 24, "temperature": 0}
CHAT = {"model": "tale", "messages": [{"role": "user", "content": "Once upon a time"}], "max_tokens": 40}
OBJECT = {"type": "object", "properties": {"a": {"type": "integer", "minimum": 0, "maximum": 99}},
          "required": ["a"], "additionalProperties": False}
END = 4092  # of text, in the bundled vocabulary


class Forms(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.server = Server()
        cls.addClassCleanup(cls.server.__exit__)

    def post(self, path, body, status=200):
        found, self.headers, answer = self.server.post(path, body)
        self.assertEqual(found, status, answer)
        return answer

    def token(self, text):
        tokens = self.post("/tokenize", {"prompt": text, "add_special_tokens": False})["tokens"]
        return tokens[-1]

    def test_a_form_that_is_whole_ends_whatever_min_tokens_asks_for(self):
        for form in ({"type": "boolean"}, OBJECT, {"enum": ["x", None, 3]}):
            body = STORY | {"guided_json": form, "min_tokens": 60, "max_tokens": 96}
            for more in ({}, {"n": 3, "temperature": 1.3, "seed": 5}, {"beams": 3, "n": 2}, {"best_of": 3}):
                with self.subTest(form=form, more=more):
                    answer = self.post("/v1/completions", body | more)
                    self.assertEqual(len(answer["choices"]), more.get("n", 1))
                    for choice in answer["choices"]:
                        self.assertEqual(choice["finish_reason"], "stop")
                        json.loads(choice["text"])
        form = {"type": "json_schema", "json_schema": {"name": "x", "schema": {"type": "boolean"}}}
        answer = self.post("/v1/chat/completions", CHAT | {"response_format": form, "min_tokens": 12})
        self.assertIn(json.loads(answer["choices"][0]["message"]["content"]), [True, False])

    def test_what_bans_everything_is_refused_and_the_fields_named(self):
        word = self.token("re")
        for body, param, words in (
                ({"allowed_token_ids": [word], "bad_words": ["re"]}, "allowed_token_ids",
                 "allowed_token_ids and bad_words together ban them all"),
                ({"allowed_token_ids": [END], "min_tokens": 4}, "allowed_token_ids",
                 "allowed_token_ids and min_tokens together ban them all"),
                ({"allowed_token_ids": [word, END], "stop_token_ids": [word], "min_tokens": 1},
                 "allowed_token_ids", "allowed_token_ids and min_tokens"),
                ({"allowed_token_ids": [word], "guided_regex": "[0-9]+"}, "allowed_token_ids",
                 "allowed_token_ids and the answer's form"),
                ({"bad_words": ["t", "f"], "guided_regex": "t|f"}, "bad_words", "bad_words and the answer's form")):
            for stream in (False, True):
                with self.subTest(body=body, stream=stream):
                    error = self.post("/v1/completions", STORY | body | {"stream": stream}, 400)["error"]
                    self.assertEqual((error["type"], error["param"]), ("invalid_request_error", param), error)
                    self.assertIn(words, error["message"])

    def test_what_turns_out_on_the_way_blames_the_request(self):
        body = STORY | {"guided_regex": "a[0-9]", "bad_words": list("0123456789")}
        error = self.post("/v1/completions", body, 400)["error"]
        self.assertEqual(error["type"], "invalid_request_error")
        self.assertIn("bad_words and the answer's form together ban them all", error["message"])
        events = self.server.events("/v1/completions", body | {"stream": True})
        error = json.loads(next(event for event in events if '"error"' in event))["error"]
        self.assertEqual(error["type"], "invalid_request_error")

    def test_beams_that_find_fewer_answers_than_were_asked_for_blame_the_request(self):
        body = STORY | {"guided_choice": ["a", "b"], "beams": 4, "n": 4}
        error = self.post("/v1/completions", body, 400)["error"]
        self.assertIn("fewer answers than were asked for", error["message"])

    def test_what_of_a_schema_is_ignored_is_said_in_a_header(self):
        schema = {"type": "object", "required": ["v"], "additionalProperties": False, "propertyOrdering": ["v"],
                  "properties": {"v": {"type": "integer", "format": "int32", "example": 3,
                                       "minimum": 0, "maximum": 9}}}
        answer = self.post("/v1/completions", STORY | {"guided_json": schema})
        self.assertIsInstance(json.loads(answer["choices"][0]["text"])["v"], int)
        notes = self.headers["Tenon-Schema-Notes"]
        self.assertIn("at #/properties/v: the format 'int32' is not known here - it is ignored", notes)
        for word in ("propertyOrdering", "example"):
            self.assertIn(f"the keyword '{word}' is none of JSON Schema", notes)
        self.post("/v1/completions", STORY | {"guided_json": OBJECT})
        self.assertNotIn("Tenon-Schema-Notes", self.headers)


if __name__ == "__main__":
    unittest.main()
