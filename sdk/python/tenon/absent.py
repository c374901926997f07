"""What vLLM has and Tenon has not: each name is refused with a sentence that says so, and what to use instead."""

import importlib.abc
from typing import Any

from .errors import UnsupportedError

# Methods of vLLM's LLM and AsyncLLM.
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
    "reset_prefix_cache": "a cached prompt changes no answer; open the model again to measure without it",
    "reset_mm_cache": "only text is read",
    "reset_encoder_cache": "only text is read",
    "init_weight_transfer_engine": "weights come from files, when the model is opened",
    "update_weights": "weights come from files, when the model is opened",
    "release_kv_cache_memory": "close frees the memory of a model",
}
# Those of LLMEngine and AsyncLLM.
ENGINES = {
    "add_lora": "a LoRARequest with a path brings its adapter along, with enable_lora=True",
    "from_vllm_config": "from_engine_args takes EngineArgs",
    "get_supported_tasks": "every model generates, embeds and scores",
    "has_unfinished_requests_dp": "`tenon serve` runs one model by several processes (docs/parallel.md)",
    **dict.fromkeys(("list_loras", "pin_lora", "remove_lora"), "an adapter stays until its model is closed"),
    **dict.fromkeys(("do_log_stats", "do_log_stats_with_interval", "get_kv_event_sources", "get_num_queued_tokens",
                     "get_status", "is_tracing_enabled"), "`tenon serve` has metrics"),
    **dict.fromkeys(("compute_weight_checksums", "finish_weight_update", "get_weight_version", "set_weight_version",
                     "shutdown_weight_transfer_engine", "start_draft_weight_update", "start_weight_update",
                     "update_weight_version"), "weights come from files, when the model is opened"),
    **dict.fromkeys(("checkpoint_prepare", "checkpoint_restore", "is_paused", "is_sleeping"),
                    "close frees the memory of a model"),
}
# Those of AsyncLLM alone.
COROUTINES = {
    "add_request": "generate returns the outputs of a request",
    **dict.fromkeys(("check_admission", "dead_error", "handle_fault", "notify_kv_transfer_request_rejected",
                     "should_keep_api_server_alive"), "errors come with the request that has them"),
    **dict.fromkeys(("pause_generation", "resume_generation", "wait_for_requests_to_drain"),
                    "an answer is left by leaving its loop, or by abort"),
    **dict.fromkeys(("get_external_elastic_ep_status", "scale_elastic_ep"),
                    "`tenon serve` runs one model by several processes (docs/parallel.md)"),
}
# What vLLM's LLM and AsyncLLM are made of.
PARTS = {
    "llm_engine": "max_model_len, numerics and get_tokenizer say what is asked most",
    "model_config": "max_model_len, numerics and get_tokenizer say what is asked most",
    "vllm_config": "max_model_len, numerics and get_tokenizer say what is asked most",
    "renderer": "generate takes prompts, and get_tokenizer().apply_chat_template writes them",
    "input_processor": "generate takes prompts, and get_tokenizer().apply_chat_template writes them",
}
# What transformers' tokenizers have, and those of an open model have not.
TOKEN_PARTS = ("added_tokens_decoder", "add_special_tokens", "add_tokens", "additional_special_tokens", "all_special_ids",
               "all_special_tokens", "backend_tokenizer", "build_inputs_with_special_tokens", "chat_template",
               "convert_ids_to_tokens", "convert_tokens_to_ids", "convert_tokens_to_string", "encode_plus",
               "batch_encode_plus", "from_pretrained", "get_added_vocab", "get_chat_template", "get_vocab", "is_fast",
               "max_token_id", "model_max_length", "name_or_path", "num_special_tokens_to_add", "pad", "pad_token",
               "pad_token_id", "padding_side", "save_pretrained", "special_tokens_map", "tokenize", "truncation_side",
               "unk_token", "unk_token_id", "vocab", "vocab_file")
# Its modules, by what their names begin with; "" of all others.
MODULES = {
    "config": "tables of a pipeline file are settings of LLM (docs/python.md)",
    "v1.sample": "a sampler may be a class in Python (docs/plugins/python.md)",
    "v1.metrics": "`tenon serve` has metrics",
    "multimodal": "only text is read",
    "assets": "only text is read",
    "distributed": "`tenon serve` runs one model by several processes (docs/parallel.md)",
    "model_executor": "a family of models is added in C++ (docs/adding-a-family.md)",
    "entrypoints": "`tenon serve` is the server",
    "benchmarks": "`tenon bench` and `tenon load` measure",
    "": "what programs import is at the top of tenon",
}
# All whose names vLLM's programs import.
_ROOTS = ("assets", "benchmarks", "beam_search", "compilation", "config", "connections", "core", "device_allocator",
          "distributed", "engine", "entrypoints", "env_override", "envs", "executor", "forward_context", "inputs", "logger",
          "logging_utils", "logits_process",
          "lora", "model_executor", "model_inspection", "multimodal", "parser", "platforms", "profiler", "ray",
          "reasoning", "renderers", "scalar_type", "sequence", "spec_decode", "tasks", "tokenizers", "tool_parsers",
          "tracing", "transformers_utils", "triton_utils", "usage", "utils", "v1", "version", "worker")
# Names that are imported from vLLM.
NAMES = {
    "GuidedDecodingParams": "StructuredOutputsParams is its newer name",
    "PoolingRequestOutput": "embed returns EmbeddingRequestOutput",
    "PoolingOutput": "embed returns EmbeddingRequestOutput",
    "initialize_ray_cluster": "`tenon serve` runs one model by several processes (docs/parallel.md)",
    "RepetitionDetectionParams": "dry_multiplier and the penalties of SamplingParams keep repetitions away",
    "SamplingType": "temperature 0 takes the most likely token",
    "DataPrompt": "prompts are texts or tokens",
    "ExplicitEncoderDecoderPrompt": "prompts are texts or tokens",
    "StreamingInput": "a prompt is whole when it is asked",
    "ClassificationOutput": METHODS["classify"],
    "ClassificationRequestOutput": METHODS["classify"],
    "EmbedsPrompt": "prompts are texts or tokens",
    "ModelRegistry": "a family of models is added in C++ (docs/adding-a-family.md)",
    "KVTransferConfig": "tables of a pipeline file say how K/V travels (docs/disaggregation.md)",
    "CompilationConfig": "nothing is compiled when a model is opened",
    "PoolerConfig": "embed takes pooling=… and normalise=…",
    "LogitsProcessor": "a sampler may be a class in Python (docs/plugins/python.md)",
}


class RefusedModules(importlib.abc.MetaPathFinder):
    """Asked last, for `import tenon.NAME`. Raises ModuleNotFoundError, with what to use instead, for vLLM's modules."""

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> None:
        package, _, module = name.partition(".")
        if package == __package__ and module.split(".")[0] in _ROOTS:
            instead = max((known for known in MODULES if module.startswith(known)), key=len)
            raise ModuleNotFoundError(f"Tenon has no counterpart of vLLM's module vllm.{module} – {MODULES[instead]}",
                                      name=name)


def refuse_name(name: str, module: str = "tenon") -> None:
    """For `from tenon import NAME`. Raises ImportError for vLLM's names, and AttributeError for all others."""
    if name in NAMES:
        raise ImportError(f"Tenon has no counterpart of vLLM's {name} – {NAMES[name]}")
    raise AttributeError(f"module {module!r} has no attribute {name!r}")


class MissingPartError(UnsupportedError, AttributeError):
    """So that `hasattr` and `getattr` with a default know it is not there."""


def refuse_part(owner: str, name: str) -> None:
    """For an attribute that is missing. Raises MissingPartError for vLLM's, and AttributeError for all others."""
    if name in PARTS:
        raise MissingPartError(f"{owner}.{name} is vLLM's, and Tenon has no counterpart of it – {PARTS[name]}")
    raise AttributeError(f"{owner!r} object has no attribute {name!r}")


def refuse_token_part(name: str) -> None:
    """For an attribute that a tokenizer has not. Raises MissingPartError for one of transformers'."""
    if name in TOKEN_PARTS:
        raise MissingPartError(f"{name} is of transformers' tokenizers, and Tenon's have no counterpart of it – "
                               "transformers.AutoTokenizer reads the same folder: AutoTokenizer.from_pretrained(llm.model)")
    raise AttributeError(f"'Tokenizer' object has no attribute {name!r}")


def refuse_methods(owner: type, names: dict[str, str]) -> None:
    """Gives the class methods that say why they are none."""
    for name, instead in names.items():
        setattr(owner, name, _refused(owner.__name__, name, instead))


def _refused(owner: str, name: str, instead: str):
    def method(self, *_: Any, **__: Any):
        raise UnsupportedError(f"{owner}.{name} is vLLM's, and Tenon has no counterpart of it – {instead}")

    method.__name__ = name
    method.__doc__ = f"Refused: {instead}."
    return method
