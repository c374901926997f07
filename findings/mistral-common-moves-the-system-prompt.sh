#!/usr/bin/env bash
# mistral-common 1.13.1 writes a system prompt, and the tools, into the last message of the user, wherever that is, for
# its tokenizers of versions 2 and 3 (Mistral 7B v0.3 and Nemo have version 3). With each turn they move on behind what
# was said before, so that the prompt of a turn does not begin with the prompt of the turn before it: a prefix cache
# finds only what was said before the last question, never the long system prompt and the tools, and an engine computes
# those anew for every turn, however large its cache. With version 7 the system prompt stays at the beginning, and the
# tools, which agents have the most of, still move; with version 1, which has no tools, all is found.
# Within a turn (a tool's result comes back) all of them find everything, and so a test of one question does not show it.
#
# Seen on 2026-11-30 (Python 3.11, x86-64), a system prompt of 500 words, a tool (not in v1), and a chat of four questions:
# tokens of the prompts, and with how many of them, at most, the prompt after begins
#   v2, v3      559, 570, 581, 592; 1, 12, 23
#   v3 tekken   556, 567, 578, 589; 1, 12, 23
#   v7          559, 570, 581, 592; 503, 514, 525
#   v1          514, 530, 546, 562; 514, 530, 546
# Fails where that is no longer so.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install -q "mistral-common[sentencepiece]==1.13.1"
"$folder/venv/bin/python" - <<'PYTHON'
from mistral_common.protocol.instruct.messages import (AssistantMessage, SystemMessage, ToolMessage, UserMessage)
from mistral_common.protocol.instruct.request import ChatCompletionRequest
from mistral_common.protocol.instruct.tool_calls import Function, FunctionCall, Tool, ToolCall
from mistral_common.tokens.tokenizers.mistral import MistralTokenizer

TOOL = Tool(function=Function(name="weather", description="The weather.", parameters={
    "type": "object", "properties": {"city": {"type": "string"}}}))
SYSTEM = SystemMessage(content=" ".join(["rule"] * 500))
CALL = AssistantMessage(content=None, tool_calls=[
    ToolCall(id="abcdefghi", function=FunctionCall(name="weather", arguments='{"city": "Oslo"}'))])


def chat(questions):
    messages = [SYSTEM]
    for i in range(questions):
        messages += [UserMessage(content=f"Question {i}?"), AssistantMessage(content=f"Answer {i}.")]
    return messages[:-1]


def shared(before, after):
    pairs = zip(before, after)
    return next((i for i, (a, b) in enumerate(pairs) if a != b), min(len(before), len(after)))


def see(name, tokenizer, tools):
    def prompt(messages):
        return tokenizer.encode_chat_completion(ChatCompletionRequest(messages=messages, tools=tools)).tokens

    prompts = [prompt(chat(questions)) for questions in (1, 2, 3, 4)]
    found = [shared(before, after) for before, after in zip(prompts, prompts[1:])]
    result = None
    if tools:
        within = prompt(chat(1) + [CALL, ToolMessage(tool_call_id="abcdefghi", name="weather", content="cold")])
        result = shared(prompts[0], within) == len(prompts[0])
    print(name, "tokens", [len(each) for each in prompts], "found", found, "all found within a turn:", result)
    assert result is not False
    return [len(each) for each in prompts], found


for name, tokenizer, tools in (("v2", MistralTokenizer.v2(), [TOOL]), ("v3", MistralTokenizer.v3(), [TOOL]),
                               ("v3 tekken", MistralTokenizer.v3(is_tekken=True), [TOOL])):
    lengths, found = see(name, tokenizer, tools)
    assert min(lengths) > 500
    # The second prompt shares no more than what begins every prompt; later ones what was said without the system prompt.
    assert found[0] <= 4 and max(found) < 60, name
lengths, found = see("v7", MistralTokenizer.v7(), [TOOL])
assert all(500 < part < whole - 40 for part, whole in zip(found, lengths))
lengths, found = see("v1", MistralTokenizer.v1(), None)
assert found == lengths[:-1]
print("as it was seen")
PYTHON
