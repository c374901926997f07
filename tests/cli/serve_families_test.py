"""Answers in the words of families that were published since 2025: what they think, say and call, in every dialect,
whole and streamed. What the model says is replayed."""
import json
import unittest

from server import Server

CHAT, MESSAGES, RESPONSES = "/v1/chat/completions", "/v1/messages", "/v1/responses"
END = 4092
WEATHER = {"name": "weather", "parameters": {"type": "object", "properties": {
    "city": {"type": "string"}, "days": {"type": "integer"}}}}
CLOCK = {"name": "clock", "parameters": {"type": "object", "properties": {}}}
OSLO = ("weather", {"city": "Oslo"})

# What a template shows, what is said, and what that is: reasoning, content, calls.
FAMILIES = {
    "glm": ("<arg_key></arg_key><arg_value> <think>",
            "<think>hm</think>\nSee.\n<tool_call>weather\n<arg_key>city</arg_key>\n<arg_value>Oslo</arg_value>\n"
            "<arg_key>days</arg_key>\n<arg_value>2</arg_value>\n</tool_call>",
            ("hm", "See.", [("weather", {"city": "Oslo", "days": 2})])),
    "minimax_m2": ('<minimax:tool_call><invoke name="f"> <think>',
                   '<think>\nhm\n</think>\n\n<minimax:tool_call>\n<invoke name="weather">\n<parameter name="city">Oslo'
                   '</parameter>\n</invoke>\n<invoke name="clock">\n</invoke>\n</minimax:tool_call>',
                   ("hm", "", [OSLO, ("clock", {})])),
    "minimax_m3": ("]<]minimax[>[<tool_call>]<]minimax[>[<invoke name=> <mm:think>",
                   '<mm:think>hm</mm:think>]<]minimax[>[<tool_call>\n]<]minimax[>[<invoke name="weather">]<]minimax[>[<city>'
                   'Oslo]<]minimax[>[</city>]<]minimax[>[</invoke>\n]<]minimax[>[<invoke name="clock">]<]minimax[>[</invoke>'
                   '\n]<]minimax[>[</tool_call>', ("hm", "", [OSLO, ("clock", {})])),
    "deepseek_v32": ("<｜DSML｜function_calls> <think>",
                     '<think>hm</think>See.\n\n<｜DSML｜function_calls>\n<｜DSML｜invoke name="weather">\n<｜DSML｜parameter '
                     'name="city" string="true">Oslo</｜DSML｜parameter>\n<｜DSML｜parameter name="days" string="false">2'
                     '</｜DSML｜parameter>\n</｜DSML｜invoke>\n</｜DSML｜function_calls>',
                     ("hm", "See.", [("weather", {"city": "Oslo", "days": 2})])),
    "seed_oss": ("<seed:tool_call><function=f><parameter=x> <seed:think>",
                 "<seed:think>hm</seed:think>Yes.\n<seed:tool_call>\n<function=weather>\n<parameter=city>Oslo</parameter>\n"
                 "</function>\n</seed:tool_call>", ("hm", "Yes.", [OSLO])),
    "kimi_k2": ("<|tool_call_begin|>x<|tool_call_argument_begin|>",
                'I look. <|tool_calls_section_begin|><|tool_call_begin|>functions.weather:0<|tool_call_argument_begin|>'
                '{"city": "Oslo"}<|tool_call_end|><|tool_call_begin|>functions.clock:1<|tool_call_argument_begin|>{}'
                '<|tool_call_end|><|tool_calls_section_end|>', ("", "I look.", [OSLO, ("clock", {})])),
    "gemma4": ("<|tool_call>call:f{}<tool_call|><|channel>thought<channel|>",
               '<|channel>thought\nhm<channel|>Ok.<|tool_call>call:weather{city:<|"|>Oslo<|"|>}<tool_call|>',
               ("hm", "Ok.", [OSLO])),
    "hunyuan": ('<tool_calls>[{"name", "arguments"}]</tool_calls><think></think><answer></answer>',
                '<think>\nhm\n</think>\n<answer>\nSo it is.\n</answer>', ("hm", "So it is.", [])),
}


def chat(server, streams):
    body = {"messages": [{"role": "user", "content": "q"}],
            "tools": [{"type": "function", "function": one} for one in (WEATHER, CLOCK)]}
    if not streams:
        message = server.post(CHAT, body)[2]["choices"][0]["message"]
        calls = [(call["function"]["name"], call["function"]["arguments"]) for call in message.get("tool_calls", [])]
        return message.get("reasoning_content", ""), message["content"] or "", calls
    texts, calls = {"reasoning_content": "", "content": ""}, []
    for data in server.events(CHAT, body | {"stream": True})[:-1]:
        delta = json.loads(data)["choices"][0]["delta"]
        for name in texts:
            texts[name] += delta.get(name) or ""
        for call in delta.get("tool_calls", []):
            if call["index"] == len(calls):
                calls.append([call["function"]["name"], ""])
            calls[call["index"]][1] += call["function"]["arguments"]
    return texts["reasoning_content"], texts["content"], [tuple(call) for call in calls]


def messages(server, streams):
    body = {"max_tokens": 500, "messages": [{"role": "user", "content": "q"}],
            "tools": [{"name": one["name"], "input_schema": one["parameters"]} for one in (WEATHER, CLOCK)]}
    blocks = []
    if not streams:
        blocks = server.post(MESSAGES, body)[2]["content"]
    else:
        connection = server.connect()
        connection.request("POST", MESSAGES, json.dumps(body | {"stream": True}), {"Content-Type": "application/json"})
        for line in connection.getresponse().read().decode().split("\n"):
            event = json.loads(line[len("data: "):]) if line.startswith("data: ") else {}
            if event.get("type") == "content_block_start":
                blocks.append(event["content_block"] | {"json": ""})
            for name, of in (("text", "text"), ("thinking", "thinking"), ("partial_json", "json")):
                if name in event.get("delta", {}):
                    blocks[-1][of] += event["delta"][name]
        connection.close()
    joined = lambda kind, name: "".join(block[name] for block in blocks if block["type"] == kind)  # noqa: E731
    calls = [(block["name"], block["json"] if streams else json.dumps(block["input"])) for block in blocks
             if block["type"] == "tool_use"]
    return joined("thinking", "thinking"), joined("text", "text"), calls


def responses(server, streams):
    body = {"input": "q", "tools": [{"type": "function"} | one for one in (WEATHER, CLOCK)]}
    if streams:
        connection = server.connect()
        connection.request("POST", RESPONSES, json.dumps(body | {"stream": True}), {"Content-Type": "application/json"})
        lines = [line for line in connection.getresponse().read().decode().split("\n") if line.startswith("data: ")]
        connection.close()
        response = json.loads(lines[-1][len("data: "):])["response"]
    else:
        response = server.post(RESPONSES, body)[2]
    texts = {"reasoning": "", "message": ""}
    for item in response["output"]:
        if item["type"] in texts:
            texts[item["type"]] += "".join(part["text"] for part in item["content"])
    calls = [(item["name"], item["arguments"]) for item in response["output"] if item["type"] == "function_call"]
    return texts["reasoning"], texts["message"], calls


class Families(unittest.TestCase):
    def test_answers_are_taken_apart_alike_in_every_dialect(self):
        with Server() as other:
            tokens = {name: other.post("/tokenize", {"prompt": said})[2]["tokens"]
                      for name, (_, said, _) in FAMILIES.items()}
        for name, (shown, _, expected) in FAMILIES.items():
            template = ("{% if tools %}{% raw %}" + shown + "{% endraw %}{% endif %}"
                        "{% for message in messages %}{{ message.content }}{% endfor %}")
            recording = " ".join(map(str, [*tokens[name], END]))
            with Server("--set", "sampler.plugin=replay", "--set", f'sampler.options.tokens="{recording}"',
                        template=template) as server:
                for ask in (chat, messages, responses):
                    for streams in (False, True):
                        with self.subTest(family=name, dialect=ask.__name__, streams=streams):
                            reasoning, content, calls = ask(server, streams)
                            calls = [(function, json.loads(arguments or "{}")) for function, arguments in calls]
                            self.assertEqual((reasoning, content, calls), expected)


if __name__ == "__main__":
    unittest.main()
