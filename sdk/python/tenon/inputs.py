"""Prompts as dicts, under vLLM's names."""

from typing import TypedDict


class TextPrompt(TypedDict):
    """A prompt that is a text."""

    prompt: str


class TokensPrompt(TypedDict, total=False):
    """A prompt of tokens; `prompt` is what outputs then show as its text."""

    prompt_token_ids: list[int]
    prompt: str


__all__ = ["TextPrompt", "TokensPrompt"]
