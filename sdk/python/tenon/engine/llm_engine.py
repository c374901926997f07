"""`from tenon.engine.llm_engine import LLMEngine`, where vLLM has it, too."""

from . import LLMEngine

__all__ = ["LLMEngine"]
