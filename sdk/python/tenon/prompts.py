"""Prompts and conversations in every form that they may come in, as libtenon takes them."""

import json
import operator
from collections.abc import Mapping, Sequence
from typing import Any

from . import _tenon, checks
from .errors import InvalidArgumentError, UnsupportedError


def is_one_prompt(given: Any) -> bool:
    """A text, a dict, or token ids; else it is a list of these."""
    if isinstance(given, (str, Mapping)):
        return True
    given = _as_list(given)
    return bool(given) and all(is_id(one) for one in given)


def asked_for(prompt: Any) -> _tenon.Asked:
    """One prompt: a text, token ids, `{"prompt": …}` or `{"prompt_token_ids": …}`."""
    if isinstance(prompt, Mapping):
        known = {"prompt", "prompt_token_ids"}
        other = sorted(name for name, value in prompt.items() if name not in known and value is not None)
        if other:
            raise UnsupportedError(f"a prompt has {', '.join(map(repr, other))} – only 'prompt' and 'prompt_token_ids' are "
                                   "read here")
        given = prompt.get("prompt_token_ids")
        prompt = prompt.get("prompt") if given is None else given
    asked = _tenon.Asked()
    if isinstance(prompt, str):
        asked.text = _utf8(prompt, "a prompt")
        return asked
    if prompt is None or isinstance(prompt, (bytes, int, float)):
        raise InvalidArgumentError(f"a prompt is {prompt!r} – it must be a text, token ids, or a dict with one of them")
    ids = _as_list(prompt)
    wrong = next((one for one in ids if not is_id(one)), None)
    if wrong is not None:
        raise InvalidArgumentError(f"a token id is {wrong!r} – it must be a whole number")
    numbers = [operator.index(one) for one in ids]
    if any(abs(number) >= 1 << 63 for number in numbers):
        raise InvalidArgumentError(f"{max(numbers, key=abs)} is no token id")
    asked.tokens = numbers
    return asked


def _utf8(text: str, name: str) -> str:
    try:
        text.encode()
    except UnicodeEncodeError as fault:
        raise InvalidArgumentError(f"{name} cannot be written as UTF-8: {fault}") from None
    return text


def is_one_conversation(messages: Sequence) -> bool:
    return not messages or isinstance(messages[0], Mapping)


def asked_in_chat(messages: Sequence[Mapping], tools: Sequence | None, data: Mapping | None,
                  add_generation_prompt: bool, continue_final_message: bool) -> _tenon.Asked:
    """A conversation as OpenAI's API has it."""
    if add_generation_prompt and continue_final_message:
        raise InvalidArgumentError("continue_final_message and add_generation_prompt exclude each other")
    if isinstance(messages, (str, bytes, Mapping)) or not isinstance(messages, Sequence):
        raise InvalidArgumentError(f"a conversation is {messages!r} – it must be a list of messages")
    asked = _tenon.Asked()
    asked.conversation = _json([_plain(message) for message in messages], "messages")
    if tools:
        if not isinstance(tools, Sequence) or isinstance(tools, str):
            raise InvalidArgumentError(f"tools are {tools!r} – give a list of them, as OpenAI's API has it")
        asked.tools = _json(list(tools), "tools")
    if checks.table(data, "chat_template_kwargs"):
        asked.template_data = _json(dict(data), "chat_template_kwargs")
    if continue_final_message:
        asked.chat = _tenon.CONTINUE
    elif not add_generation_prompt:
        asked.chat = _tenon.NO_TURN
    return asked


def _plain(message: Mapping) -> dict:
    """Contents of several texts are one text, a line each."""
    if not isinstance(message, Mapping):
        raise InvalidArgumentError(f"a message is {message!r} – it must be a dict, with 'role' and 'content'")
    message = dict(message)
    content = message.get("content")
    if isinstance(content, (list, tuple)):
        for part in content:
            if not isinstance(part, Mapping) or part.get("type") != "text":
                kind = part.get("type") if isinstance(part, Mapping) else part
                raise UnsupportedError(f"a part of a message is {kind!r} – only parts of type 'text' are read here")
            if not isinstance(part.get("text"), str):
                raise InvalidArgumentError(f"the 'text' of a part of a message is {part.get('text')!r} – it must be a text")
        message["content"] = "\n".join(part["text"] for part in content)
    return message


def _json(value: Any, name: str) -> str:
    try:
        return _utf8(json.dumps(value, ensure_ascii=False), name)
    except InvalidArgumentError:
        raise
    except (TypeError, ValueError) as fault:
        raise InvalidArgumentError(f"{name} cannot be written as JSON: {fault}") from None


def is_id(one: Any) -> bool:
    return hasattr(one, "__index__") and not isinstance(one, bool)


def _as_list(given: Any) -> list:
    # Arrays of numpy and tensors become numbers of Python.
    return given.tolist() if hasattr(given, "tolist") else list(given)
