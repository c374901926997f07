"""Prompts as dicts, under vLLM's names."""

from collections.abc import Sequence
from typing import Any, TypedDict

from .. import absent


class TextPrompt(TypedDict):
    """A prompt that is a text."""

    prompt: str


class TokensPrompt(TypedDict, total=False):
    """A prompt of tokens; `prompt` is what outputs then show as its text."""

    prompt_token_ids: list[int]
    prompt: str


PromptType = str | Sequence[int] | TextPrompt | TokensPrompt | dict[str, Any]

__all__ = ["PromptType", "TextPrompt", "TokensPrompt"]


def __getattr__(name: str):
    absent.refuse_name(name, __name__)
