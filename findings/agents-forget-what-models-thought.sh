#!/usr/bin/env bash
# Models that think between their calls (gpt-oss, Kimi K2, MiniMax-M2, GLM 4.7, DeepSeek-V3.2) are to get the reasoning
# of a call back together with its result. Servers of one's own say it in a field next to the call, "reasoning_content"
# (SGLang, llama.cpp) or "reasoning" (vLLM), and whether it comes back is decided by the client. OpenAI's Agents
# SDK 0.24.0 sends "reasoning" back, and "reasoning_content" only if the model's name contains "deepseek": the same
# server with the same answers keeps or loses the model's thoughts by what it calls itself. If an answer has both
# fields, they are lost, too. langchain-openai 1.7.4 drops either field, and so does smolagents 1.26.0. None says a word
# of it, and a model without its thoughts goes on, only worse. The openai package, litellm, pydantic-ai and
# huggingface_hub send back what came.
#
# Seen on 2026-11-30 (Python 3.11, x86-64), how the thought of the first turn comes back in the second, by the field:
#                                     reasoning_content   reasoning   both
#   openai-agents, model "glm"        lost                kept        lost
#   openai-agents, model "deepseek"   kept                kept        kept
#   langchain-openai                  lost                lost        lost
#   smolagents                        lost                lost        lost
#   openai                            kept                kept        kept
# Fails where that is no longer so.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install -q openai==3.3.0 openai-agents==0.24.0 langchain-openai==1.7.4 smolagents==1.26.0
cd "$folder"
cat > see.py <<'PYTHON'
import json
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from agents import Agent, OpenAIChatCompletionsModel, Runner, function_tool, set_tracing_disabled
from langchain_core.messages import HumanMessage, ToolMessage
from langchain_openai import ChatOpenAI
from openai import AsyncOpenAI, OpenAI
from smolagents import OpenAIServerModel, ToolCallingAgent, tool

set_tracing_disabled(True)
THOUGHT = "The weather comes before the clothes."
QUESTION = "What shall I wear in Oslo?"
TOOL = {"type": "function", "function": {"name": "weather", "description": "The weather.", "parameters": {
    "type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}}}


def call(name, arguments):
    return [{"id": "call_1", "type": "function", "function": {"name": name, "arguments": json.dumps(arguments)}}]


class Server(BaseHTTPRequestHandler):
    """Thinks and asks for the weather; answers once it has it."""

    def do_POST(self):
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        self.server.asked.append(body)
        message = {"role": "assistant", "content": "A coat."}
        if len(self.server.asked) == 1:
            message = {"role": "assistant", "content": None, "tool_calls": call("weather", {"city": "Oslo"})}
            message |= {field: THOUGHT for field in self.server.fields}
        elif any(offered["function"]["name"] == "final_answer" for offered in body.get("tools", [])):
            message = {"role": "assistant", "content": None, "tool_calls": call("final_answer", {"answer": "A coat."})}
        end = "tool_calls" if "tool_calls" in message else "stop"
        answer = json.dumps({"id": "x", "object": "chat.completion", "created": 1, "model": "m",
                             "choices": [{"index": 0, "message": message, "finish_reason": end}],
                             "usage": {"prompt_tokens": 1, "completion_tokens": 1, "total_tokens": 2}}).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(answer)))
        self.end_headers()
        self.wfile.write(answer)

    def log_message(self, *_):
        pass


def by_agents(name):
    @function_tool
    def weather(city: str) -> str:
        """The weather."""
        return "cold"

    def ask(url):
        model = OpenAIChatCompletionsModel(name, AsyncOpenAI(base_url=url, api_key="none"))
        Runner.run_sync(Agent(name="dresser", model=model, tools=[weather]), QUESTION)
    return ask


def by_langchain(url):
    model = ChatOpenAI(model="glm", base_url=url, api_key="none").bind_tools([TOOL])
    said = model.invoke([HumanMessage(QUESTION)])
    model.invoke([HumanMessage(QUESTION), said, ToolMessage("cold", tool_call_id="call_1")])


@tool
def weather(city: str) -> str:
    """The weather.

    Args:
        city: where
    """
    return "cold"


def by_smolagents(url):
    model = OpenAIServerModel("glm", api_base=url, api_key="none")
    ToolCallingAgent(tools=[weather], model=model, verbosity_level=0).run(QUESTION)


def by_openai(url):
    client, messages = OpenAI(base_url=url, api_key="none"), [{"role": "user", "content": QUESTION}]
    said = client.chat.completions.create(model="glm", messages=messages, tools=[TOOL]).choices[0].message
    client.chat.completions.create(model="glm", tools=[TOOL], messages=messages + [
        said, {"role": "tool", "tool_call_id": "call_1", "content": "cold"}])


def comes_back(ask, *fields):
    server = ThreadingHTTPServer(("127.0.0.1", 0), Server)
    server.asked, server.fields = [], fields
    threading.Thread(target=server.serve_forever, daemon=True).start()
    ask(f"http://127.0.0.1:{server.server_port}/v1")
    server.shutdown()
    assert len(server.asked) >= 2 and "cold" in json.dumps(server.asked[1]["messages"])
    return THOUGHT in json.dumps(server.asked[1]["messages"])


for name, ask, expected in (("openai-agents, glm", by_agents("glm"), (False, True, False)),
                            ("openai-agents, deepseek", by_agents("deepseek"), (True, True, True)),
                            ("langchain-openai", by_langchain, (False, False, False)),
                            ("smolagents", by_smolagents, (False, False, False)),
                            ("openai", by_openai, (True, True, True))):
    found = (comes_back(ask, "reasoning_content"), comes_back(ask, "reasoning"),
             comes_back(ask, "reasoning_content", "reasoning"))
    print(name, "reasoning_content, reasoning, both:", *("kept" if kept else "lost" for kept in found))
    assert found == expected, name
print("as it was seen")
PYTHON
venv/bin/python see.py
