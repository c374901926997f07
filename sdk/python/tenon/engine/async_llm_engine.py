"""`from tenon.engine.async_llm_engine import AsyncLLMEngine`, where vLLM has it, too."""

from ..async_llm import AsyncLLM as AsyncLLMEngine

__all__ = ["AsyncLLMEngine"]
