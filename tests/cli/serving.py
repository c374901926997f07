"""What the suites of `tenon serve` share: a server for a class of tests, and what it is asked."""
import json
import unittest

from server import Server

STORY = {"model": "tale", "prompt": "The old witch", "max_tokens": 24, "temperature": 0.8, "seed": 7}
CHAT = {"model": "tale", "messages": [{"role": "user", "content": "Once upon a time"}],
        "max_tokens": 16, "seed": 3}


def joined(events, chat=False):
    """The texts of streamed choices, by index."""
    texts = {}
    for event in events:
        if event == "[DONE]":
            continue
        for choice in json.loads(event)["choices"]:
            piece = choice["delta"].get("content", "") if chat else choice["text"]
            texts[choice["index"]] = texts.get(choice["index"], "") + piece
    return texts


class WithServer(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.server = Server()
        cls.addClassCleanup(cls.server.__exit__)

    def post(self, path, body, status=200, **keywords):
        found, headers, answer = self.server.post(path, body, **keywords)
        self.assertEqual(found, status, answer)
        self.headers = headers
        return answer

    def refused(self, path, body, status=400, param=None, words=""):
        error = self.post(path, body, status)["error"]
        self.assertEqual(set(error), {"message", "type", "param", "code"})
        if param is not None:
            self.assertEqual(error["param"], param, error)
        self.assertIn(words, error["message"])
        return error
