"""`from tenon.entrypoints.llm import LLM`, where vLLM has it, too."""

from ..llm import LLM

__all__ = ["LLM"]
