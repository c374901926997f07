"""`from tenon.lora.request import LoRARequest`, where vLLM has it, too."""

from ..llm import LoRARequest

__all__ = ["LoRARequest"]
