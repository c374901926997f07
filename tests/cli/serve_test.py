"""`tenon serve` from outside: what clients send, and what they get."""
import json
import pathlib
import re
import tempfile
import threading
import unittest

from program import MODEL, SOURCE, run, run_json, settings
from server import Server
from serving import CHAT, STORY, WithServer, joined


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


if __name__ == "__main__":
    unittest.main()
