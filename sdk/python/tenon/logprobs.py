"""`from tenon.logprobs import Logprob`, where vLLM has it, too."""

from .outputs import Logprob, PromptLogprobs

__all__ = ["Logprob", "PromptLogprobs"]
