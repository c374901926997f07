"""Tenon: runs language models, and lets every part of the engine be replaced and compared.

    from tenon import LLM, SamplingParams

    llm = LLM()
    for output in llm.generate(["Once upon a time"], SamplingParams(temperature=0, max_tokens=24)):
        print(output.outputs[0].text)

docs/python.md explains it.
"""

import atexit

from . import _tenon, plugins
from .async_llm import AsyncLLM
from .comparison import Comparison, compare
from .errors import (BusyError, FailedError, InternalError, InvalidArgumentError, NotFoundError, OutOfMemoryError,
                     TenonError, UnsupportedError)
from .hub import pull
from .llm import LLM, LoRARequest, Stream, Tokenizer
from .outputs import (CompletionOutput, Delta, EmbeddingOutput, EmbeddingRequestOutput, Logprob, PromptScore,
                      RequestOutput)
from .sampling_params import RequestOutputKind, SamplingParams, StructuredOutputsParams

__version__ = _tenon.version()

# The engine's threads must not outlive the interpreter.
atexit.register(_tenon.close_all)


def set_log_level(level: str) -> None:
    """Lines for people go to standard error from this level on: "debug", "info", "warning" (the default) or "error"."""
    levels = ("debug", "info", "warning", "error")
    if level not in levels:
        raise InvalidArgumentError(f"a level is {level!r} – it must be one of {', '.join(levels)}")
    _tenon.set_log_level(levels.index(level))


__all__ = ["LLM", "AsyncLLM", "BusyError", "Comparison", "CompletionOutput", "Delta", "EmbeddingOutput",
           "EmbeddingRequestOutput", "FailedError", "InternalError", "InvalidArgumentError", "LoRARequest", "Logprob",
           "NotFoundError", "OutOfMemoryError", "PromptScore", "RequestOutput", "RequestOutputKind", "SamplingParams",
           "Stream", "StructuredOutputsParams", "TenonError", "Tokenizer", "UnsupportedError", "compare", "plugins",
           "pull", "set_log_level"]
