"""What vLLM has and Tenon has not: each name is refused with a sentence that says so, and what to use instead."""

from typing import Any

from .errors import UnsupportedError

# Methods of vLLM's LLM.
METHODS = {
    "classify": "models that classify are not read here",
    "encode": "embed gives vectors of prompts, and score log probabilities",
    "reward": "models that give rewards are not read here",
    "apply_model": "the model is no torch module",
    "collective_rpc": "there are no workers to call",
    "sleep": "close frees the memory of a model",
    "wake_up": "open the model again",
    "start_profile": "`tenon bench` and the page of `tenon serve` show where time goes",
    "stop_profile": "`tenon bench` and the page of `tenon serve` show where time goes",
    "get_metrics": "`tenon serve` has metrics",
    "set_tokenizer": "the tokenizer is the model's",
    "reset_mm_cache": "only text is read",
}
# Names that are imported from vLLM.
NAMES = {
    "AsyncEngineArgs": "AsyncLLM takes the settings itself",
    "AsyncLLMEngine": "AsyncLLM does its work",
    "GuidedDecodingParams": "StructuredOutputsParams is its newer name",
    "PoolingParams": "embed takes pooling=… and normalise=…",
    "PoolingRequestOutput": "embed returns EmbeddingRequestOutput",
    "ClassificationOutput": METHODS["classify"],
    "ClassificationRequestOutput": METHODS["classify"],
    "EmbedsPrompt": "prompts are texts or tokens",
    "ModelRegistry": "a family of models is added in C++ (docs/adding-a-family.md)",
    "KVTransferConfig": "tables of a pipeline file say how K/V travels (docs/disaggregation.md)",
    "CompilationConfig": "nothing is compiled when a model is opened",
    "PoolerConfig": "embed takes pooling=… and normalise=…",
    "LogitsProcessor": "a sampler may be a class in Python (docs/plugins/python.md)",
}


def refuse_name(name: str) -> None:
    """For `from tenon import NAME`. Raises ImportError for vLLM's names, and AttributeError for all others."""
    if name in NAMES:
        raise ImportError(f"Tenon has no counterpart of vLLM's {name} – {NAMES[name]}")
    raise AttributeError(f"module 'tenon' has no attribute {name!r}")


def refused(name: str):
    """A method that says why it is none."""

    def method(self, *_: Any, **__: Any):
        raise UnsupportedError(f"LLM.{name} is vLLM's, and Tenon has no counterpart of it – {METHODS[name]}")

    method.__name__ = name
    method.__doc__ = f"Refused: {METHODS[name]}."
    return method
