"""Requests as agents and libraries write them, made by hand from their public sources: the members, their types and
their order of magnitude, with texts of our own. `REQUESTS` has (who, path, headers, body, fields that are named as
ignored)."""

ANTHROPIC = {"anthropic-version": "2023-06-01", "anthropic-beta": "claude-code-20250219,interleaved-thinking-2025-05-14"}
EPHEMERAL = {"type": "ephemeral"}
SCHEMA = {"$schema": "https://json-schema.org/draft/2020-12/schema", "type": "object",
          "properties": {"command": {"type": "string"}, "timeout": {"type": "number"}},
          "required": ["command"], "additionalProperties": False}
FUNCTION = {"name": "Bash", "description": "Runs a command.", "parameters": SCHEMA}
TOOL = {"type": "function", "function": FUNCTION}
USER = [{"role": "user", "content": "Hi"}]

CLAUDE_CODE = {
    "model": "tale", "max_tokens": 32000, "temperature": 1, "stream": True,
    "system": [{"type": "text", "text": "You are an agent."},
               {"type": "text", "text": "Be short.", "cache_control": EPHEMERAL}],
    "messages": [{"role": "user", "content": [
        {"type": "text", "text": "<system-reminder>Today</system-reminder>"},
        {"type": "text", "text": "Hi", "cache_control": EPHEMERAL}]}],
    "tools": [{"name": "Bash", "description": "Runs a command.", "input_schema": SCHEMA},
              {"name": "Read", "description": "Reads a file.", "input_schema": SCHEMA, "cache_control": EPHEMERAL,
               "eager_input_streaming": True, "defer_loading": False}],
    "metadata": {"user_id": "{\"device_id\":\"d\",\"session_id\":\"s\"}"},
    "thinking": {"type": "adaptive"}, "output_config": {"effort": "medium"},
    "context_management": {"edits": [{"type": "clear_thinking_20251015", "keep": "all"}]}}
CLAUDE_CODE_TURN = CLAUDE_CODE | {
    "thinking": {"type": "enabled", "budget_tokens": 31999}, "mcp_servers": [], "container": None,
    "messages": [*CLAUDE_CODE["messages"], {"role": "assistant", "content": [
        {"type": "thinking", "thinking": "hm", "signature": "c2ln"}, {"type": "redacted_thinking", "data": "eA=="},
        {"type": "text", "text": "I look.", "citations": None},
        {"type": "tool_use", "id": "toolu_1", "name": "Bash", "input": {"command": "ls"},
         "caller": {"type": "direct"}}]}, {"role": "user", "content": [
             {"type": "tool_result", "tool_use_id": "toolu_1", "is_error": False, "cache_control": EPHEMERAL,
              "content": [{"type": "text", "text": "a.c"}]}]}]}
COUNTED = {key: CLAUDE_CODE_TURN[key] for key in ("model", "messages", "system", "tools", "thinking")}

CODEX = {
    "model": "tale", "instructions": "You are an agent.",
    "input": [{"type": "message", "role": "developer", "content": [{"type": "input_text", "text": "Sandboxed."}]},
              {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "Hi"}]}],
    "tools": [{"type": "function", "name": "exec_command", "description": "Runs a command.", "strict": False,
               "parameters": SCHEMA}, {"type": "web_search", "external_web_access": False},
              {"type": "custom", "name": "apply_patch", "description": "Edits files.",
               "format": {"type": "grammar", "syntax": "lark", "definition": "start: \"a\""}}],
    "tool_choice": "auto", "parallel_tool_calls": True, "reasoning": {"effort": "medium", "summary": "auto"},
    "store": False, "stream": True, "include": ["reasoning.encrypted_content"], "service_tier": None,
    "prompt_cache_key": "0199", "text": {"verbosity": "low"}, "client_metadata": {"x-codex-installation-id": "i"}}
CODEX_TURN = CODEX | {
    "reasoning": None, "text": None,
    "input": [*CODEX["input"], {"type": "reasoning", "id": "rs_1", "summary": [{"type": "summary_text", "text": "hm"}],
                                "content": None, "encrypted_content": None},
              {"type": "function_call", "id": None, "name": "exec_command", "arguments": "{\"command\":\"ls\"}",
               "call_id": "c1"},
              {"type": "function_call_output", "call_id": "c1", "output": "a.c"},
              {"type": "message", "role": "assistant", "id": "msg_1", "phase": "final_answer",
               "content": [{"type": "output_text", "text": "a.c"}]},
              {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "Thanks"}]}]}

# Cline and Roo Code, by OpenAI's package.
CLINE = {"model": "tale", "temperature": 0, "stream": True, "stream_options": {"include_usage": True},
         "max_completion_tokens": 8, "tools": [TOOL], "tool_choice": "auto", "parallel_tool_calls": True,
         "messages": [{"role": "system", "content": [{"type": "text", "text": "Be short.",
                                                      "cache_control": EPHEMERAL}]}, *USER]}
AIDER = {"model": "tale", "messages": USER, "stream": True, "temperature": 0, "max_tokens": 8,
         "extra_headers": {}, "reasoning": {"effort": "low"}}
LITELLM = {"model": "tale", "max_tokens": 8, "metadata": {"tags": ["a"]}, "user": "u", "service_tier": "auto",
           "messages": [*USER, {"role": "assistant", "content": "x", "tool_calls": None, "function_call": None,
                                "provider_specific_fields": {"refusal": None}, "reasoning_content": "hm",
                                "thinking_blocks": [], "annotations": [], "images": []}, *USER]}
OPEN_WEBUI = {"model": "tale", "stream": True, "max_tokens": 8, "messages": USER, "user": {"id": "u", "name": "n"},
              "chat_id": "c", "session_id": "s", "metadata": {}, "logit_bias": {}, "stop": [], "seed": -1}
LANGCHAIN = {"model": "tale", "messages": [*USER, {"role": "assistant", "content": None, "tool_calls": [TOOL | {
    "id": "c1", "function": {"name": "Bash", "arguments": "{}"}}]},
    {"role": "tool", "content": "ok", "tool_call_id": "c1"}], "n": 1, "stream": False, "max_completion_tokens": 8,
    "tools": [TOOL], "tool_choice": None, "parallel_tool_calls": None, "logprobs": None, "top_logprobs": None,
    "reasoning": None, "response_format": None, "frequency_penalty": None, "store": None, "extra_body": None}
VERCEL = {"model": "tale", "input": [{"role": "user", "content": [{"type": "input_text", "text": "Hi"}]}],
          "max_output_tokens": 8, "store": True, "truncation": "auto", "safety_identifier": "s", "metadata": {},
          "prompt_cache_retention": "24h", "top_logprobs": 0, "conversation": None, "previous_response_id": None}
SGLANG = {"model": "tale", "messages": USER, "max_tokens": 8, "no_stop_trim": False, "return_hidden_states": False,
          "lora_path": None, "session_params": None, "stop_regex": None, "bootstrap_host": None,
          "bootstrap_port": None, "bootstrap_room": None, "ebnf": None, "custom_logit_processor": None, "rid": None,
          "top_k": -1, "min_p": 0.0, "separate_reasoning": True, "stream_reasoning": True,
          "skip_special_tokens": False}
ZAI = {"model": "tale", "messages": USER, "max_tokens": 8, "stream": True, "tools": [TOOL], "tool_stream": True,
       "thinking": {"type": "disabled"}, "do_sample": True}

CHAT, RESPONSES, MESSAGES = "/v1/chat/completions", "/v1/responses", "/v1/messages"
CLAUDE_CODE_IGNORES = "cache_control metadata context_management"
REQUESTS = (
    ("Claude Code", MESSAGES + "?beta=true", ANTHROPIC, CLAUDE_CODE, CLAUDE_CODE_IGNORES),
    ("Claude Code, a turn later", MESSAGES + "?beta=true", ANTHROPIC, CLAUDE_CODE_TURN,
     CLAUDE_CODE_IGNORES + " redacted_thinking caller is_error budget_tokens"),
    ("Claude Code counts", MESSAGES + "/count_tokens?beta=true", ANTHROPIC, COUNTED,
     "cache_control redacted_thinking caller is_error budget_tokens"),
    ("Codex", RESPONSES, {"originator": "codex_exec"}, CODEX,
     "tools[1] tools[2] include summary prompt_cache_key verbosity client_metadata"),
    ("Codex, a turn later", RESPONSES, {}, CODEX_TURN, "tools[1] tools[2] include prompt_cache_key client_metadata"),
    ("Cline", CHAT, {}, CLINE, "cache_control"),
    ("Aider", CHAT, {}, AIDER, ""),
    ("LiteLLM", CHAT, {}, LITELLM, "metadata user service_tier provider_specific_fields"),
    ("Open WebUI", CHAT, {}, OPEN_WEBUI, "user chat_id session_id metadata"),
    ("LangChain", CHAT, {}, LANGCHAIN, ""),
    ("Vercel's AI SDK", RESPONSES, {}, VERCEL, "store truncation safety_identifier prompt_cache_retention"),
    ("SGLang's client", CHAT, {}, SGLANG, "skip_special_tokens"),
    ("Z.ai's client", CHAT, {}, ZAI, ""),
    ("Z.ai's client, whole calls", CHAT, {}, ZAI | {"tool_stream": False}, "tool_stream"),
)
