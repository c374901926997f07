"""`from tenon.v1.engine.async_llm import AsyncLLM`, where vLLM has it, too."""

from ...async_llm import AsyncLLM

__all__ = ["AsyncLLM"]
