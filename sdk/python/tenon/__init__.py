"""Tenon: runs language models, and lets every part of the engine be replaced and compared.

    from tenon import LLM, SamplingParams

    llm = LLM()
    for output in llm.generate(["Once upon a time"], SamplingParams(temperature=0, max_tokens=24)):
        print(output.outputs[0].text)

docs/python.md explains it.
"""

import atexit
import sys

from . import _tenon, absent, plugins
from .async_llm import AsyncLLM
from .comparison import Comparison, compare
from .distributed import cleanup_dist_env_and_memory
from .engine import AsyncEngineArgs, EngineArgs, FlexibleArgumentParser, LLMEngine
from .errors import (BusyError, FailedError, InternalError, InvalidArgumentError, NotFoundError, OutOfMemoryError,
                     TenonError, UnsupportedError)
from .hub import pull
from .inputs import PromptType, TextPrompt, TokensPrompt
from .llm import LLM, LoRARequest, Stream, Tokenizer
from .outputs import (BeamSearchOutput, BeamSearchSequence, CompletionOutput, Delta, EmbeddingOutput,
                      EmbeddingRequestOutput, Logprob, PromptScore, RequestOutput, ScoringOutput, ScoringRequestOutput)
from .pipeline import Pipeline
from .pooling_params import PoolingParams
from .sampling_params import BeamSearchParams, RequestOutputKind, SamplingParams, StructuredOutputsParams

__version__ = _tenon.version()
AsyncLLMEngine = AsyncLLM  # as in vLLM

# The engine's threads must not outlive the interpreter.
atexit.register(_tenon.close_all)


def set_log_level(level: str) -> None:
    """Lines for people go to standard error from this level on: "debug", "info", "warning" (the default) or "error"."""
    levels = ("debug", "info", "warning", "error")
    if level not in levels:
        raise InvalidArgumentError(f"a level is {level!r} – it must be one of {', '.join(levels)}")
    _tenon.set_log_level(levels.index(level))


sys.meta_path.append(absent.RefusedModules())


def __getattr__(name: str):
    absent.refuse_name(name)


__all__ = ["LLM", "AsyncEngineArgs", "AsyncLLM", "AsyncLLMEngine", "BeamSearchOutput", "BeamSearchParams", "BeamSearchSequence", "BusyError", "Comparison",
           "CompletionOutput", "Delta", "EmbeddingOutput", "EmbeddingRequestOutput", "EngineArgs", "FailedError",
           "FlexibleArgumentParser", "InternalError", "InvalidArgumentError", "LLMEngine", "LoRARequest", "Logprob",
           "NotFoundError", "OutOfMemoryError", "Pipeline", "PoolingParams", "PromptScore", "PromptType", "RequestOutput", "RequestOutputKind", "SamplingParams",
           "ScoringOutput", "ScoringRequestOutput", "Stream", "StructuredOutputsParams", "TenonError", "TextPrompt",
           "TokensPrompt", "Tokenizer", "UnsupportedError", "cleanup_dist_env_and_memory", "compare", "plugins", "pull",
           "set_log_level"]
