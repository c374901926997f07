"""`tenon serve` from outside: what clients send, rightly and wrongly, and what they get."""
import json
import pathlib
import re
import signal
import socket
import tempfile
import threading
import time
import unittest

from program import MODEL, SOURCE, run, run_json, settings
from server import PATIENCE, Server

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


class Answers(WithServer):
    def test_a_completion_is_what_run_says(self):
        flags = ["--max-tokens", 24, "--temperature", 0.8, "--seed", 7]
        alone = run_json("The old witch", *flags)["requests"][0]
        answer = self.post("/v1/completions", STORY | {"return_token_ids": True})
        self.assertEqual(answer["object"], "text_completion")
        choice = answer["choices"][0]
        self.assertEqual((choice["text"], choice["token_ids"]), (alone["text"], alone["tokens"]))
        self.assertEqual(choice["finish_reason"], "length")
        self.assertEqual(answer["usage"]["completion_tokens"], 24)

    def test_company_changes_no_token(self):
        alone = self.post("/v1/completions", STORY)["choices"][0]["text"]
        texts = [None] * 12

        def ask(index):
            body = STORY | ({} if index % 3 == 0 else {"prompt": "x " * index, "seed": index})
            texts[index] = self.server.post("/v1/completions", body)[2]["choices"][0]["text"]
        threads = [threading.Thread(target=ask, args=(i,)) for i in range(len(texts))]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        for index in range(0, len(texts), 3):
            self.assertEqual(texts[index], alone)

    def test_whatever_runs_beside_it_the_tokens_are_those_of_run(self):
        ways = {"greedy": {"temperature": 0},
                "sampled": {"temperature": 0.9, "top_p": 0.9, "seed": 11},
                "penalties": {"temperature": 1.2, "repetition_penalty": 1.2, "top_k": 40, "seed": 5}}
        prompts = ["The old witch", "Once upon a time there was a king who"]
        expected, asked = {}, []
        for way, parameters in ways.items():
            flags = [word for name, value in parameters.items()
                     for word in ("--" + name.replace("_", "-"), value)]
            for prompt in prompts:
                request = run_json(prompt, "--max-tokens", 40, *flags)["requests"][0]
                expected[way, prompt] = request["tokens"]
                asked.append((way, prompt))

        def ask(way, prompt):
            body = ways[way] | {"prompt": prompt, "max_tokens": 40, "return_token_ids": True}
            return self.server.post("/v1/completions", body)[2]["choices"][0]["token_ids"]
        for way, prompt in asked:
            self.assertEqual(ask(way, prompt), expected[way, prompt], (way, prompt))
        answers, others = {}, []

        def keep(index, key):
            answers[index, key] = ask(*key)

        def disturb(index):
            others.append(self.server.post("/v1/completions", {
                "prompt": "x " * (40 * index + 1), "seed": index, "n": 3, "max_tokens": 60})[0])
        threads = [threading.Thread(target=keep, args=(i, key)) for i in range(3) for key in asked]
        threads += [threading.Thread(target=disturb, args=(i,)) for i in range(6)]
        for thread in threads[::2] + threads[1::2]:
            thread.start()
        for thread in threads:
            thread.join()
        self.assertEqual(others, [200] * 6)
        self.assertEqual(len(answers), 3 * len(asked))
        for (_, key), tokens in answers.items():
            self.assertEqual(tokens, expected[key], key)

    def test_a_stream_has_the_same_text_and_an_end(self):
        whole = self.post("/v1/completions", STORY)["choices"][0]["text"]
        events = self.server.events(
            "/v1/completions", STORY | {"stream": True, "stream_options": {"include_usage": True}})
        self.assertEqual(events[-1], "[DONE]")
        self.assertEqual(joined(events), {0: whole})
        usage = json.loads(events[-2])
        self.assertEqual((usage["choices"], usage["usage"]["completion_tokens"]), ([], 24))
        self.assertTrue(all(json.loads(event)["usage"] is None for event in events[:-2]))
        self.assertEqual(json.loads(events[-3])["choices"][0]["finish_reason"], "length")

    def test_usage_that_is_told_in_every_event_grows(self):
        asked = {"stream": True, "n": 2, "max_tokens": 6,
                 "stream_options": {"include_usage": True, "continuous_usage_stats": True}}
        for path, body in (("/v1/completions", STORY), ("/v1/chat/completions", CHAT)):
            chunks = [json.loads(data) for data in self.server.events(path, body | asked) if data != "[DONE]"]
            counts = [chunk["usage"]["completion_tokens"] for chunk in chunks]
            self.assertEqual(counts, sorted(counts))
            self.assertGreater(counts[0], 0)
            self.assertEqual(counts[-1], 12)
            self.assertEqual({chunk["usage"]["prompt_tokens"] for chunk in chunks},
                             {chunks[-1]["usage"]["prompt_tokens"]})

    def test_a_chat_goes_through_the_template(self):
        answer = self.post("/v1/chat/completions", CHAT)
        message = answer["choices"][0]["message"]
        plain = self.post("/v1/completions", {"prompt": "Once upon a time\n", "max_tokens": 16,
                                              "seed": 3, "add_special_tokens": False})
        self.assertEqual((message["role"], message["content"]),
                         ("assistant", plain["choices"][0]["text"]))
        self.assertEqual(answer["object"], "chat.completion")
        events = self.server.events("/v1/chat/completions", CHAT | {"stream": True})
        self.assertEqual(joined(events, chat=True), {0: message["content"]})
        self.assertEqual(json.loads(events[0])["choices"][0]["delta"],
                         {"role": "assistant", "content": ""})

    def test_several_prompts_and_samples_are_numbered_and_counted(self):
        answer = self.post("/v1/completions", STORY | {"prompt": ["One", "Two"], "n": 3,
                                                       "max_tokens": 5})
        self.assertEqual([choice["index"] for choice in answer["choices"]], list(range(6)))
        self.assertEqual(answer["usage"]["completion_tokens"], 30)
        one = self.post("/v1/completions", STORY | {"prompt": "Two", "n": 3, "max_tokens": 5})
        self.assertEqual([choice["text"] for choice in answer["choices"][3:]],
                         [choice["text"] for choice in one["choices"]])
        events = self.server.events("/v1/completions", STORY | {"prompt": ["One", "Two"], "n": 3,
                                                                "max_tokens": 5, "stream": True})
        self.assertEqual(joined(events), {choice["index"]: choice["text"]
                                          for choice in answer["choices"]})

    def test_logprobs_of_both_kinds(self):
        answer = self.post("/v1/completions", STORY | {"logprobs": 2, "max_tokens": 4})
        logprobs = answer["choices"][0]["logprobs"]
        self.assertEqual("".join(logprobs["tokens"]), answer["choices"][0]["text"])
        self.assertEqual([len(top) for top in logprobs["top_logprobs"]], [2] * 4)
        self.assertEqual(logprobs["text_offset"][0], 0)
        answer = self.post("/v1/chat/completions",
                           CHAT | {"logprobs": True, "top_logprobs": 3, "max_tokens": 4})
        content = answer["choices"][0]["logprobs"]["content"]
        self.assertEqual([len(entry["top_logprobs"]) for entry in content], [3] * 4)
        self.assertEqual(b"".join(bytes(entry["bytes"]) for entry in content).decode(),
                         answer["choices"][0]["message"]["content"])

    def test_tokens_are_named_by_their_ids_where_that_is_asked_for(self):
        ids = {"return_tokens_as_token_ids": True, "return_token_ids": True}
        shown = self.post("/v1/completions", STORY | ids | {"logprobs": 2})["choices"][0]
        names = [f"token_id:{token}" for token in shown["token_ids"]]
        self.assertEqual(shown["logprobs"]["tokens"], names)
        for name, likely in zip(names, shown["logprobs"]["top_logprobs"]):
            self.assertEqual(len(likely), 2)
            self.assertTrue(all(re.fullmatch(r"token_id:\d+", other) for other in likely), likely)
        plain = self.post("/v1/completions", STORY | {"logprobs": 2})["choices"][0]["logprobs"]
        self.assertEqual(shown["logprobs"]["token_logprobs"], plain["token_logprobs"])
        self.assertEqual(shown["logprobs"]["text_offset"], plain["text_offset"])
        chat = {"model": "tale", "messages": [{"role": "user", "content": "A king"}],
                "max_tokens": 3, "logprobs": True, "top_logprobs": 1}
        shown = self.post("/v1/chat/completions", chat | ids)["choices"][0]
        plain = self.post("/v1/chat/completions", chat)["choices"][0]["logprobs"]["content"]
        for id, named, usual in zip(shown["token_ids"], shown["logprobs"]["content"], plain):
            self.assertEqual(named["token"], f"token_id:{id}")
            self.assertTrue(named["top_logprobs"][0]["token"].startswith("token_id:"))
            self.assertEqual((named["bytes"], named["logprob"]), (usual["bytes"], usual["logprob"]))

    def test_an_echo_with_logprobs_scores_the_prompt(self):
        answer = self.post("/v1/completions", {"prompt": "The king and the queen", "max_tokens": 1,
                                               "echo": True, "logprobs": 1})
        choice = answer["choices"][0]
        self.assertTrue(choice["text"].startswith("The king and the queen"))
        prompt_tokens = answer["usage"]["prompt_tokens"]
        self.assertEqual(len(choice["logprobs"]["tokens"]), prompt_tokens + 1)
        self.assertIsNone(choice["logprobs"]["token_logprobs"][0])
        self.assertTrue(all(x < 0 for x in choice["logprobs"]["token_logprobs"][1:]))
        # Of one token, which nothing is said about.
        answer = self.post("/v1/completions", {"prompt": "a", "max_tokens": 2, "n": 2, "echo": True,
                                               "logprobs": 1})
        for choice in answer["choices"]:
            told = choice["logprobs"]
            self.assertEqual("".join(told["tokens"]), choice["text"])
            self.assertEqual(told["text_offset"][:2], [0, 1])
            self.assertEqual([x is None for x in told["token_logprobs"]], [True, False, False])

    def test_a_prompt_is_scored_alone(self):
        body = {"prompt": ["The king and the queen", "a"], "echo": True, "logprobs": 2}
        with_answer = self.post("/v1/completions", body | {"max_tokens": 1})
        answer = self.post("/v1/completions", body | {"max_tokens": 0})
        self.assertEqual(answer["usage"]["completion_tokens"], 0)
        for prompt, choice, longer in zip(body["prompt"], answer["choices"], with_answer["choices"]):
            self.assertEqual(choice["text"], prompt)
            self.assertEqual(choice["finish_reason"], "length")
            for key, values in choice["logprobs"].items():
                self.assertEqual(values, longer["logprobs"][key][:-1], key)
            self.assertEqual("".join(choice["logprobs"]["tokens"]), prompt)
        *events, done = self.server.events("/v1/completions", body | {"max_tokens": 0, "stream": True})
        self.assertEqual(done, "[DONE]")
        self.assertEqual({json.loads(event)["choices"][0]["text"] for event in events},
                         set(body["prompt"]))
        self.refused("/v1/completions", {"prompt": "a", "max_tokens": 0}, param="max_tokens",
                     words="asks for nothing")

    def test_a_half_matched_stop_is_delivered_at_the_end(self):
        whole = self.post("/v1/completions", STORY)["choices"][0]["text"]
        stop = whole[-3:] + "\x00never"
        for stream in (False, True):
            body = STORY | {"stop": [stop], "stream": stream}
            if stream:
                text = joined(self.server.events("/v1/completions", body))[0]
            else:
                text = self.post("/v1/completions", body)["choices"][0]["text"]
            self.assertEqual(text, whole)

    def test_a_stop_ends_the_answer_and_is_named(self):
        whole = self.post("/v1/completions", STORY)["choices"][0]["text"]
        stop = whole[10:14]
        choice = self.post("/v1/completions", STORY | {"stop": stop})["choices"][0]
        self.assertEqual(choice["text"], whole[:whole.index(stop)])
        self.assertEqual((choice["finish_reason"], choice["stop_reason"]), ("stop", stop))

    def test_a_prefix_that_was_seen_is_counted_as_cached(self):
        with Server(*settings(kv_cache__plugin="prefix")) as server:
            body = {"prompt": "the king and the queen " * 20, "max_tokens": 2}
            first = server.post("/v1/completions", body)[2]["usage"]
            second = server.post("/v1/completions", body)[2]["usage"]
            self.assertEqual(first["prompt_tokens_details"]["cached_tokens"], 0)
            self.assertGreater(second["prompt_tokens_details"]["cached_tokens"], 50)
            salted = server.post("/v1/completions", body | {"cache_salt": "mine"})[2]["usage"]
            self.assertEqual(salted["prompt_tokens_details"]["cached_tokens"], 0)

    def test_the_parameters_of_vllm_are_those_of_run(self):
        alone = run_json("The old witch", "--max-tokens", 12, "--top-k", 5, "--min-p", 0.1,
                         "--repetition-penalty", 1.3, "--seed", 9, "--ignore-eos", "--stop-token", 3)
        answer = self.post("/v1/completions", {
            "prompt": "The old witch", "max_tokens": 12, "top_k": 5, "min_p": 0.1,
            "repetition_penalty": 1.3, "seed": 9, "ignore_eos": True, "stop_token_ids": [3],
            "min_tokens": 0, "skip_special_tokens": True})
        self.assertEqual(answer["choices"][0]["text"],
                         alone["requests"][0]["text"])

    def test_embeddings_are_those_of_embed(self):
        alone = json.loads(run("embed", "The king", "--json").stdout)["embeddings"][0]["embedding"]
        answer = self.post("/v1/embeddings", {"model": "tale", "input": ["The king", "A queen"]})
        self.assertEqual([entry["index"] for entry in answer["data"]], [0, 1])
        for ours, theirs in zip(answer["data"][0]["embedding"], alone):
            self.assertAlmostEqual(ours, theirs, places=6)
        packed = self.post("/v1/embeddings", {"input": "The king", "encoding_format": "base64"})
        import base64
        import struct
        data = base64.b64decode(packed["data"][0]["embedding"])
        values = struct.unpack(f"<{len(data) // 4}f", data)
        self.assertEqual(len(values), len(alone))
        self.assertAlmostEqual(values[5], alone[5], places=6)

    def test_tokens_go_there_and_back(self):
        answer = self.post("/tokenize", {"prompt": "The old witch", "return_token_strs": True})
        self.assertEqual(answer["count"], len(answer["tokens"]))
        self.assertEqual("".join(answer["token_strs"][-2:]), "The old witch"[-len("".join(answer["token_strs"][-2:])):])
        plain = self.post("/tokenize", {"prompt": "The old witch", "add_special_tokens": False})
        back = self.post("/detokenize", {"tokens": plain["tokens"]})
        self.assertEqual(back["prompt"], "The old witch")
        chat = self.post("/tokenize", {"messages": CHAT["messages"]})
        self.assertEqual(self.post("/detokenize", {"tokens": chat["tokens"]})["prompt"],
                         "Once upon a time\n")

    def test_responses_bring_log_probabilities(self):
        answer = self.post("/v1/responses", {"input": "The old witch", "max_output_tokens": 5,
                                             "temperature": 0, "top_logprobs": 2})
        text = answer["output"][0]["content"][0]
        self.assertEqual("".join(token["token"] for token in text["logprobs"]), text["text"])
        for token in text["logprobs"]:
            self.assertEqual(len(token["top_logprobs"]), 2)
            self.assertEqual(token["top_logprobs"][0]["logprob"], token["logprob"])

    def test_models_are_listed(self):
        status, _, answer = self.server.get("/v1/models")
        self.assertEqual((status, [model["id"] for model in answer["data"]]), (200, ["tale"]))
        self.assertEqual(self.server.get("/v1/models/tale")[2]["object"], "model")
        self.assertEqual(self.server.get("/v1/models/%74ale")[0], 200)
        status, _, answer = self.server.get("/v1/models/other")
        self.assertEqual((status, answer["error"]["code"]), (404, "model_not_found"))


class Thoughts(unittest.TestCase):
    """A model that thinks is one whose template says so; what it says is replayed."""
    THINKS = "{% for message in messages %}{{ message.content }}\n{% endfor %}<think>\n"
    ASKED = {"messages": [{"role": "user", "content": "a"}]}

    def server_of(self, said, template=THINKS):
        with Server() as other:
            tokens = other.post("/tokenize", {"prompt": said + "<|endoftext|>",
                                               "add_special_tokens": False})[2]["tokens"]
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        file = pathlib.Path(folder.name) / "replay.toml"
        source = (SOURCE / "configs/pipelines/default.toml").read_text()
        source = source.replace("../models/tale", str(MODEL)).replace(
            'plugin = "standard"', f'plugin = "replay"\noptions.tokens = "{" ".join(map(str, tokens))}"')
        file.write_text(source)
        server = Server(f"tale={file}", template=template)
        self.addCleanup(server.__exit__)
        return server, len(tokens)

    def answer(self, server, path, body):
        status, _, answer = server.post(path, body)
        self.assertEqual(status, 200, answer)
        return answer

    def test_a_form_begins_behind_what_is_thought(self):
        thought, form = "hm, {a} </thin", '{"a": 1}'
        server, _ = self.server_of(thought + "</think>\n\n" + form)
        answer = self.answer(server, "/v1/chat/completions",
                             self.ASKED | {"response_format": {"type": "json_object"}})
        message = answer["choices"][0]["message"]
        self.assertEqual((message["content"], message["reasoning_content"]), (form, thought))
        self.assertEqual(answer["choices"][0]["finish_reason"], "stop")
        details = answer["usage"]["completion_tokens_details"]
        self.assertGreater(details["reasoning_tokens"], 4)
        self.assertLess(details["reasoning_tokens"], answer["usage"]["completion_tokens"])
        response = self.answer(server, "/v1/responses", {
            "input": "a", "text": {"format": {"type": "json_object"}}})
        self.assertEqual([item["type"] for item in response["output"]], ["reasoning", "message"])
        self.assertEqual(response["output"][1]["content"][0]["text"], form)
        self.assertEqual(response["usage"]["output_tokens_details"], details)

    def test_a_length_that_thoughts_use_up_leaves_no_form(self):
        server, _ = self.server_of("hm " * 40)
        answer = self.answer(server, "/v1/chat/completions", self.ASKED | {
            "guided_regex": "[0-9]+", "max_tokens": 9})
        choice = answer["choices"][0]
        self.assertEqual((choice["message"]["content"], choice["finish_reason"]), ("", "length"))
        self.assertTrue(choice["message"]["reasoning_content"].startswith("hm hm"))
        self.assertEqual(answer["usage"]["completion_tokens_details"]["reasoning_tokens"], 9)

    def test_a_call_that_is_forced_stands_behind_what_is_thought(self):
        calls = '[{"name": "f", "arguments": {"x": 1}}]'
        server, _ = self.server_of("hm</think>" + calls)
        tool = {"name": "f", "input_schema": {"type": "object", "properties": {"x": {"type": "integer"}}}}
        answer = self.answer(server, "/v1/messages", self.ASKED | {
            "max_tokens": 60, "tools": [tool], "tool_choice": {"type": "any"}})
        self.assertEqual([block["type"] for block in answer["content"]], ["thinking", "tool_use"])
        self.assertEqual(answer["content"][1]["input"], {"x": 1})
        self.assertEqual(answer["stop_reason"], "tool_use")

    def test_a_model_that_opens_its_thoughts_itself_may_do_so(self):
        open_itself = self.THINKS.replace("<think>\n", "{# <think></think> #}")
        server, _ = self.server_of("<think>hm</think>7", open_itself)
        body = self.ASKED | {"guided_regex": "[0-9]"}
        message = self.answer(server, "/v1/chat/completions", body)["choices"][0]["message"]
        self.assertEqual((message["content"], message["reasoning_content"]), ("7", "hm"))
        # Where the prompt has closed them there is nothing but the form.
        closed, _ = self.server_of("7", self.THINKS + "</think>")
        message = self.answer(closed, "/v1/chat/completions", body)["choices"][0]["message"]
        self.assertEqual(message["content"], "7")
        self.assertNotIn("reasoning_content", message)


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


def head(path="/health", method="GET", *fields, version="HTTP/1.1", host=True):
    lines = [f"{method} {path} {version}", *(["Host: x"] if host else []), *fields]
    return "\r\n".join(lines).encode() + b"\r\n\r\n"


class Protocol(WithServer):
    def status(self, data):
        read = self.server.talk(data)
        self.assertTrue(read.startswith(b"HTTP/1.1 "), read)
        return int(read.split()[1])

    def test_one_connection_serves_many_requests(self):
        connection = self.server.connect()
        for _ in range(5):
            self.assertEqual(self.server.get("/health", connection=connection)[0], 200)
            self.assertEqual(self.server.post("/v1/completions", STORY | {"max_tokens": 2},
                                              connection=connection)[0], 200)
            self.assertEqual(self.server.get("/nothing", connection=connection)[0], 404)
            self.assertEqual(self.server.post("/nothing", {}, connection=connection)[0], 404)
        connection.close()

    def test_requests_sent_ahead_are_answered_in_order(self):
        body = json.dumps(STORY | {"max_tokens": 8}).encode()
        post = head("/v1/completions", "POST", "Content-Type: application/json",
                    f"Content-Length: {len(body)}") + body
        read = self.server.talk(post + head("/version") + post + head(
            "/health", "GET", "Connection: close"))
        kinds = [b"text_completion" in part and "c" or b'"version"' in part and "v" or "h"
                 for part in read.split(b"HTTP/1.1 200 OK")[1:]]
        self.assertEqual(kinds, ["c", "v", "c", "h"])

    def test_a_body_in_chunks(self):
        body = json.dumps(STORY | {"max_tokens": 2}).encode()
        chunks = b"".join(b"%x\r\n%s\r\n" % (len(body[i:i + 7]), body[i:i + 7])
                          for i in range(0, len(body), 7)) + b"0\r\n\r\n"
        read = self.server.talk(head("/v1/completions", "POST", "Content-Type: application/json",
                                     "Transfer-Encoding: chunked", "Connection: close") + chunks)
        self.assertIn(b"200 OK", read)

    def test_http_1_0_gets_no_chunks(self):
        body = json.dumps(STORY | {"stream": True, "max_tokens": 4}).encode()
        read = self.server.talk(head("/v1/completions", "POST", "Content-Type: application/json",
                                     f"Content-Length: {len(body)}", "Connection: keep-alive",
                                     version="HTTP/1.0", host=False) + body)
        headers, text = read.split(b"\r\n\r\n", 1)
        self.assertNotIn(b"Transfer-Encoding", headers)
        self.assertIn(b"Connection: close", headers)
        self.assertTrue(text.startswith(b"data: {"), text)
        self.assertTrue(text.endswith(b"data: [DONE]\n\n"), text)

    def test_what_could_be_read_in_two_ways_is_refused(self):
        for fields in (("Content-Length: 2", "Transfer-Encoding: chunked"),
                       ("Transfer-Encoding: chunked", "Content-Length: 2"),
                       ("Content-Length: 2", "Content-Length: 2"),
                       ("Content-Length: 2", "Content-Length: 3"), ("Content-Length: 2, 2",),
                       ("Content-Length: +2",), ("Content-Length: -1",), ("Content-Length: 0x2",),
                       ("Content-Length : 2",), ("Transfer-Encoding: gzip, chunked",),
                       ("Transfer-Encoding: chunked, chunked",), ("Transfer-Encoding: identity",),
                       ("Transfer-Encoding: xchunked",), ("Host: y",), ("X: a\x00b",),
                       ("X: a\r\n b: c",), ("X: a\nY: b",), (": a",)):
            with self.subTest(fields=fields):
                data = head("/v1/completions", "POST", "Content-Type: application/json", *fields)
                self.assertEqual(self.status(data + b"{}"), 400)
        self.assertEqual(self.status(head("/health", host=False)), 400)
        self.assertEqual(self.status(b"GET /health HTTP/1.1\r\nHost: x/y\r\n\r\n"), 400)
        self.assertEqual(self.status(b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03\r\n\r\n"), 400)
        self.assertEqual(self.status(head(version="HTTP/2.0")) // 100, 5)
        read = self.server.talk(head("/health").replace(b"\r\n", b"\n"))
        self.assertTrue(read.startswith(b"HTTP/1.1 400 "), read)
        error = json.loads(read.split(b"\r\n\r\n")[1])["error"]
        self.assertIn("LF alone", error["message"])
        self.assertEqual(error["type"], "invalid_request_error")

    def test_a_head_that_is_too_large_is_431(self):
        self.assertEqual(self.status(head("/health", "GET", "X: " + "y" * 20000)), 431)
        self.assertEqual(self.status(head("/" + "y" * 20000)), 431)

    def test_a_body_that_is_expected_is_asked_for(self):
        body = json.dumps(STORY | {"max_tokens": 2}).encode()
        fields = ("Content-Type: application/json", f"Content-Length: {len(body)}",
                  "Expect: 100-continue", "Connection: close")
        with self.server.socket() as wire:
            wire.sendall(head("/v1/completions", "POST", *fields))
            self.assertEqual(wire.recv(100), b"HTTP/1.1 100 Continue\r\n\r\n")
            wire.sendall(body)
            self.assertTrue(wire.recv(100).startswith(b"HTTP/1.1 200"))
        # One that would be refused is not asked for.
        self.assertEqual(self.status(head("/nothing", "POST", *fields)), 404)
        self.assertEqual(self.status(head("/health", "GET", "Expect: magic")), 417)

    def test_head_has_no_body(self):
        read = self.server.talk(head("/version", "HEAD", "Connection: close"))
        self.assertTrue(read.endswith(b"\r\n\r\n"), read)
        self.assertIn(b"Content-Length:", read)

    def test_a_connection_that_ends_ends_its_request(self):
        body = json.dumps(STORY | {"max_tokens": 1900, "ignore_eos": True, "stream": True}).encode()
        with self.server.socket() as wire:
            wire.sendall(head("/v1/completions", "POST", "Content-Type: application/json",
                              f"Content-Length: {len(body)}") + body)
            wire.recv(1000)
        self.server.wait_for('vllm:request_success_total{model_name="tale",finished_reason="abort"} 1')
        self.server.wait_for('vllm:num_requests_running{model_name="tale"} 0')

    def test_a_slow_reader_harms_nobody(self):
        body = json.dumps(STORY | {"max_tokens": 1900, "n": 32, "ignore_eos": True, "stream": True,
                                   "logprobs": 20}).encode()
        with self.server.socket() as wire:
            wire.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            wire.sendall(head("/v1/completions", "POST", "Content-Type: application/json",
                              f"Content-Length: {len(body)}") + body)
            wire.recv(1000)
            alone = self.post("/v1/completions", STORY)["choices"][0]["text"]
            self.assertEqual(alone, self.post("/v1/completions", STORY)["choices"][0]["text"])
            self.server.wait_for('tenon:slow_readers_total{model_name="tale"} 1')
        self.server.wait_for('vllm:num_requests_running{model_name="tale"} 0')

    def test_idle_connections_cost_nothing_that_others_need(self):
        wires = [self.server.socket() for _ in range(200)]
        for wire in wires[::2]:
            wire.sendall(b"GET /hea")
        self.assertEqual(self.post("/v1/completions", STORY)["usage"]["completion_tokens"], 24)
        self.assertEqual(self.server.get("/health")[0], 200)
        for wire in wires:
            wire.close()


class Ends(unittest.TestCase):
    def test_a_signal_lets_requests_finish(self):
        for number in (signal.SIGTERM, signal.SIGINT):
            with self.subTest(signal=number.name), Server() as server:
                idle = server.socket()
                connection = server.connect()
                body = STORY | {"max_tokens": 400, "ignore_eos": True}
                whole = server.post("/v1/completions", body)[2]["choices"][0]["text"]
                connection.request("POST", "/v1/completions", json.dumps(body | {"stream": True}),
                                   {"Content-Type": "application/json"})
                answer = connection.getresponse()
                first = answer.read(10)
                server.process.send_signal(number)
                text = (first + answer.read()).decode()
                self.assertTrue(text.endswith("data: [DONE]\n\n"))
                events = [block[len("data: "):] for block in text.strip().split("\n\n")]
                self.assertEqual(joined(events), {0: whole})
                status, errors = server.wait()
                self.assertEqual(status, 0, errors)
                self.assertEqual(idle.recv(1), b"")
                idle.close()
                connection.close()

    def test_what_lasts_longer_than_the_limit_is_cut_off(self):
        with Server("--drain-seconds", 0) as server:
            connection = server.connect()
            body = STORY | {"max_tokens": 1900, "n": 8, "ignore_eos": True}
            connection.request("POST", "/v1/completions", json.dumps(body),
                               {"Content-Type": "application/json"})
            limit = time.monotonic() + PATIENCE
            while 'num_requests_running{model_name="tale"} 0' in server.get("/metrics")[2].decode():
                self.assertLess(time.monotonic(), limit)
            status, errors = server.end()
            self.assertEqual(status, 0, errors)
            with self.assertRaises(ConnectionError):
                connection.getresponse()
            connection.close()

    def test_a_second_signal_ends_at_once(self):
        with Server("--drain-seconds", 600) as server:
            connection = server.connect()
            body = STORY | {"max_tokens": 1900, "n": 32, "ignore_eos": True, "stream": True}
            connection.request("POST", "/v1/completions", json.dumps(body),
                               {"Content-Type": "application/json"})
            connection.getresponse().read(10)
            server.process.send_signal(signal.SIGTERM)
            # It accepts no more, so the first signal has arrived.
            limit = time.monotonic() + PATIENCE
            while True:
                self.assertLess(time.monotonic(), limit)
                try:
                    server.socket().close()
                except ConnectionRefusedError:
                    break
                except ConnectionResetError:  # it was in the queue when that closed
                    pass
            status, _ = server.end()
            self.assertEqual(status, 128 + signal.SIGTERM)
            connection.close()

    def test_a_port_that_is_taken_is_said(self):
        with Server() as server:
            done = run("serve", "--port", server.port)
            self.assertEqual(done.returncode, 1)
            self.assertIn(f"cannot listen on 127.0.0.1:{server.port}", done.stderr)

    def test_a_unix_socket_alone(self):
        with Server() as other:
            path = other.path("s.sock")
            for _ in range(2):  # the second time over what a killed server left
                with Server("--socket", path, tcp=False) as server:
                    self.assertEqual(server.line.split()[-1], f"unix:{path}")
                    with socket.socket(socket.AF_UNIX) as wire:
                        wire.connect(str(path))
                        wire.sendall(head("/health", "GET", "Connection: close"))
                        self.assertTrue(wire.recv(100).startswith(b"HTTP/1.1 200"))
            with Server("--socket", path, tcp=False) as server:
                self.assertEqual(server.end()[0], 0)
            self.assertFalse(path.exists())


if __name__ == "__main__":
    unittest.main()
