"""Answers that are held to a form: schemas, objects, patterns and GBNF; alone, in company, with
drafts, beams and little memory; and what is refused."""
import json
import pathlib
import tempfile
import unittest

from program import run, run_json, settings

HEAD = pathlib.Path(__file__).parents[2] / "configs/models/tale-eagle3"

try:
    import jsonschema
except ImportError:
    jsonschema = None

PROMPT = "Once upon a time"
SCHEMA = {
    "type": "object",
    "properties": {
        "name": {"type": "string", "minLength": 1, "maxLength": 12},
        "age": {"type": "integer", "minimum": 3, "maximum": 120},
        "kind": {"enum": ["cat", "dog", None]},
        "friends": {"type": "array", "items": {"type": "string", "maxLength": 6}, "maxItems": 2},
    },
    "required": ["name", "age", "kind"],
    "additionalProperties": False,
}
PATTERN = r"[A-Z][a-z]{2,8}( [a-z]{1,7}){1,4}\."
GBNF = 'root ::= "(" root ")" | [a-z]{1,5} ("+" root)?\n'


def answers(requests, *flags):
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder) / "prompts.jsonl"
        path.write_text("".join(json.dumps(request) + "\n" for request in requests))
        return run_json("--file", path, *flags)["requests"]


def mixed():
    requests = []
    for seed in range(3):
        common = {"prompt": PROMPT + " " * seed, "max_tokens": 120, "temperature": 1.2, "seed": seed}
        requests += [{**common, "json_schema": SCHEMA}, {**common, "regex": PATTERN},
                     {**common, "temperature": 0, "regex": PATTERN}]
    requests.append({"prompt": PROMPT, "max_tokens": 20, "temperature": 0})
    return requests


class Grammars(unittest.TestCase):
    def check_schema(self, text):
        value = json.loads(text)
        if jsonschema is not None:
            jsonschema.validate(value, SCHEMA)
        self.assertLessEqual(set(value), set(SCHEMA["properties"]))
        self.assertTrue(1 <= len(value["name"]) <= 12 and 3 <= value["age"] <= 120, text)
        self.assertIn(value["kind"], ["cat", "dog", None])

    def test_answers_have_the_form_that_was_asked_for(self):
        found = answers(mixed(), "--set", "limits.max_sequences=3")
        for request, answer in zip(mixed(), found):
            has_form = "json_schema" in request or "regex" in request
            self.assertTrue(not has_form or answer["finish"] == "eos", answer)
            if "json_schema" in request:
                self.check_schema(answer["text"])
            if "regex" in request:
                self.assertRegex(answer["text"], "^(?:" + request["regex"] + r")\Z")

    def test_flags_say_the_same(self):
        with tempfile.TemporaryDirectory() as folder:
            schema = pathlib.Path(folder) / "schema.json"
            schema.write_text(json.dumps(SCHEMA))
            grammar = pathlib.Path(folder) / "paren.gbnf"
            grammar.write_text(GBNF)
            flags = [PROMPT, "--max-tokens", 150, "--seed", 4]
            text = run_json(*flags, "--json-schema", schema)["requests"][0]["text"]
            self.check_schema(text)
            text = run_json(*flags, "--regex", PATTERN)["requests"][0]["text"]
            self.assertRegex(text, "^(?:" + PATTERN + r")\Z")
            text = run_json(*flags, "--grammar", grammar)["requests"][0]["text"]
            self.assertRegex(text, r"^[a-z+()]+\Z")
            text = run_json(PROMPT, "--max-tokens", 20, "--json-object")["requests"][0]["text"]
            self.assertTrue(text.startswith("{"), text)
            done = run("run", PROMPT, "--json-object", "--regex", "a")
            self.assertNotEqual(done.returncode, 0)
            self.assertIn("excludes", done.stderr)

    def test_a_grammar_that_is_none_is_told_with_its_file_or_flag(self):
        with tempfile.TemporaryDirectory() as folder:
            file = pathlib.Path(folder) / "mine.txt"
            for flag, content, fault in (("--json-schema", "{", "not JSON"),
                                         ("--json-schema", '{"type": 5}', "type"),
                                         ("--grammar", "", "no rule 'root'")):
                file.write_text(content)
                done = run("run", PROMPT, flag, file)
                self.assertEqual(done.returncode, 1)
                self.assertIn("mine.txt: ", done.stderr)
                self.assertIn(fault, done.stderr)
        self.assertIn("--regex: ", run("run", PROMPT, "--regex", "a(").stderr)

    def test_drafts_short_memory_and_company_change_no_token(self):
        plain = answers(mixed(), *settings(limits__max_sequences=1))
        for keys in [{"drafter__plugin": "ngram"},
                     {"drafter__plugin": "suffix"},
                     {"drafter__plugin": "eagle3", "drafter__model": HEAD},
                     {"engine__plan_ahead": 1},
                     {"kv_cache__memory": "1MiB", "kv_cache__block_tokens": 16,
                      "limits__context_tokens": 256}]:
            found = answers(mixed(), *settings(**keys))
            self.assertEqual([r["tokens"] for r in found], [r["tokens"] for r in plain], keys)

    def test_samples_and_beams_have_the_form_each(self):
        requests = [{"prompt": PROMPT, "max_tokens": 60, "samples": 4, "regex": PATTERN, "seed": 2},
                    {"prompt": PROMPT, "max_tokens": 40, "beams": 4, "samples": 3,
                     "regex": "[a-z]{3,9} [a-z]{3,9}"}]
        found = answers(requests)
        self.assertEqual(len(found), 7)
        for answer in found:
            pattern = requests[answer["index"]]["regex"]
            self.assertRegex(answer["text"], "^(?:" + pattern + r")\Z")

    def test_what_of_a_schema_is_ignored_is_said_once(self):
        schema = {"type": "object", "required": ["v"], "additionalProperties": False,
                  "properties": {"v": {"type": "integer", "format": "int32", "markdownDescription": "x",
                                       "minimum": 0, "maximum": 9}}}
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder) / "prompts.jsonl"
            line = json.dumps({"prompt": "x", "max_tokens": 60, "json_schema": schema}) + "\n"
            path.write_text(line * 2)
            done = run("run", "--file", path, "--json")
            self.assertEqual(done.returncode, 0, done.stderr)
            for request in json.loads(done.stdout)["requests"]:
                self.assertIsInstance(json.loads(request["text"])["v"], int)
            notes = [line for line in done.stderr.splitlines() if "note: schema" in line]
            self.assertEqual(len(notes), 2, done.stderr)
            self.assertIn("tenon: note: schema, at #/properties/v: the format 'int32' is not known here", notes[0])

    def test_a_pattern_is_counted_next_to_any_length(self):
        for pattern, most, words in (("\\S", 4000, r"^[^\n]*\S"), ("^[a-z ]+$", 2000, r"^[a-z ]+\Z"),
                                     ("^[a-z]{1,65536}$", 10 ** 9 - 1, r"^[a-z]+\Z")):
            schema = {"type": "string", "pattern": pattern, "minLength": 3, "maxLength": most}
            with tempfile.TemporaryDirectory() as folder:
                path = pathlib.Path(folder) / "prompts.jsonl"
                path.write_text(json.dumps({"prompt": PROMPT, "max_tokens": 80, "temperature": 1.2, "seed": 2,
                                            "json_schema": schema}) + "\n")
                done = run("run", "--file", path, "--json")
                self.assertEqual(done.returncode, 0, done.stderr)
                answer = json.loads(done.stdout)["requests"][0]
                if answer["finish"] == "eos":
                    self.assertRegex(json.loads(answer["text"]), words)

    def test_a_whole_answer_ends_whatever_min_tokens_asks_for(self):
        for more in ({}, {"samples": 3, "temperature": 1.5, "seed": 1}, {"beams": 2}):
            answer = answers([{"prompt": PROMPT, "regex": "(yes|no)", "min_tokens": 20, "max_tokens": 40, **more}])[0]
            self.assertEqual(answer["finish"], "eos", answer)
            self.assertIn(answer["text"], ("yes", "no"))

    def test_what_cannot_be_is_refused(self):
        for request, words in [
                ({"json_schema": {"type": "object", "if": {}}}, "the keyword 'if' is not supported"),
                ({"regex": "(?=a)b"}, "this kind of group"),
                ({"grammar": 'root ::= root "a" | "b"'}, "left recursion"),
                ({"json_schema": "{"}, "not JSON"),
                ({"regex": 3}, '"regex" must be a text'),
                ({"regex": "a", "json_object": True}, "exclude each other"),
                ({"regex": "a", "ignore_eos": True}, "ignore_eos is set beside a grammar")]:
            with tempfile.TemporaryDirectory() as folder:
                path = pathlib.Path(folder) / "prompts.jsonl"
                path.write_text(json.dumps({"prompt": "x", **request}) + "\n")
                done = run("run", "--file", path)
                self.assertEqual(done.returncode, 1, request)
                self.assertIn(words, done.stderr)


if __name__ == "__main__":
    unittest.main()
