"""`from tenon.v1.engine.llm_engine import LLMEngine`, where vLLM has it, too."""

from ...engine import LLMEngine

__all__ = ["LLMEngine"]
