"""What `LLM` and `AsyncLLM` are opened with, as libtenon takes it."""

import json
import os
import warnings
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from . import _tenon, plugins
from .errors import InvalidArgumentError, NotFoundError, UnsupportedError

# Next to the extension, which may not lie next to this file.
PREFIX = Path(_tenon.__file__).parent / "prefix"

# Tables of a pipeline file (docs/formats/pipeline-toml.md) that can be given by name.
_TABLES = ("executor", "engine", "scheduler", "kv_cache", "attention", "state", "linear", "limits", "sampler",
           "drafter", "generation", "plugins", "adapters")
# Names of vLLM that are a key of ours.
_KEYS = {"max_model_len": "limits.context_tokens", "max_num_seqs": "limits.max_sequences",
         "max_num_batched_tokens": "limits.max_batch_tokens", "seed": "generation.seed",
         "block_size": "kv_cache.block_tokens"}
# Names of vLLM that choose a plugin if they are true.
_PLUGINS = {"enable_prefix_caching": "kv_cache.plugin=prefix", "enable_chunked_prefill": "scheduler.plugin=chunked"}
# Names of vLLM that must ask for what is so here: the values that do, of which the first is vLLM's default.
_FIXED = {"tokenizer": (None,), "tokenizer_mode": ("auto", "hf"), "skip_tokenizer_init": (False,),
          "tensor_parallel_size": (1,), "pipeline_parallel_size": (1,), "data_parallel_size": (1,), "dtype": ("auto",),
          "quantization": (None,), "revision": (None,), "tokenizer_revision": (None,), "code_revision": (None,),
          "hf_overrides": (None, {}), "hf_config_path": (None,), "speculative_config": (None,), "chat_template": (None,),
          "kv_cache_dtype": ("auto",), "task": ("auto", "generate", "embed"), "runner": ("auto", "generate", "pooling"),
          "convert": ("auto", "none", "embed"), "load_format": ("auto", "hf", "safetensors"), "config_format": ("auto", "hf"),
          "generation_config": ("auto",), "override_generation_config": (None, {}), "pooler_config": (None,),
          "logits_processors": (None, []), "kv_transfer_config": (None,), "kv_cache_memory_bytes": (None,),
          "num_gpu_blocks_override": (None,), "enable_prompt_embeds": (False,), "enable_sleep_mode": (False,),
          "enable_return_routed_experts": (False,), "enable_return_last_hidden_states": (False,),
          "enable_expert_parallel": (False,), "disable_sliding_window": (False,),
          "mm_processor_kwargs": (None, {}), "download_dir": (None,), "scheduling_policy": ("fcfs",)}
# Names of vLLM that change nothing here, whatever they say.
_WITHOUT_EFFECT = ("trust_remote_code", "gpu_memory_utilization", "swap_space", "cpu_offload_gb", "enforce_eager",
                   "disable_log_stats", "disable_custom_all_reduce", "compilation_config", "max_seq_len_to_capture",
                   "attention_config", "structured_outputs_config", "distributed_executor_backend", "async_scheduling",
                   "hf_token", "allowed_local_media_path", "allowed_media_domains", "limit_mm_per_prompt", "max_logprobs",
                   "max_loras", "max_lora_rank", "max_cpu_loras", "fully_sharded_loras", "lora_dtype", "profiler_config", "attention_backend",
                   "enable_log_requests", "disable_log_requests")
# What to write instead.
_INSTEAD = {"speculative_config": "give a drafter, such as drafter='ngram'",
            "kv_cache_dtype": "give kv_cache={'dtype': 'i8'}",
            "kv_cache_memory_bytes": "give kv_cache={'memory': '4GiB'}",
            "quantization": "weights stay as the files have them", "dtype": "weights stay as the files have them",
            "revision": "name it with the model, as in 'Qwen/Qwen3-0.6B@main'",
            "tensor_parallel_size": "`tenon serve` runs one model by several processes (docs/parallel.md)",
            "logits_processors": "a sampler may be a class in Python (docs/plugins/python.md)",
            "scheduling_policy": "give scheduler={'options': {'policy': 'priority'}}",
            "chat_template": "the model's own is used; one can be put into its folder as chat_template.jinja"}


def names_of_vllm() -> dict[str, type]:
    """vLLM's names of settings, and the types of their values."""
    kinds: dict[str, type] = {name: int for name in _KEYS}
    kinds.update({name: bool for name in (*_PLUGINS, "enable_lora")})
    for name, values in _FIXED.items():
        kinds[name] = str if values[0] is None else type(values[0])
    kinds.update({name: str for name in _WITHOUT_EFFECT})
    kinds.update({name: bool for name in ("trust_remote_code", "enforce_eager", "disable_log_stats",
                                          "disable_custom_all_reduce", "async_scheduling", "fully_sharded_loras", "enable_log_requests",
                                          "disable_log_requests")})
    return kinds


def opening(model: str | os.PathLike | None, pipeline: str | os.PathLike | None, threads: int | None,
            max_calls: int | None, plugin_path: Sequence[str | os.PathLike], settings: Mapping[str, Any]) -> _tenon.Opening:
    made = _tenon.Opening()
    if model is not None and not isinstance(model, (str, os.PathLike)):
        raise InvalidArgumentError(f"model is {model!r} – give a path or a name, or nothing for the bundled model")
    made.model = None if model is None else os.fspath(model)
    made.threads = _count(threads, "threads")
    made.max_calls = _count(max_calls, "max_calls")
    made.plugin_path = [os.fspath(folder) for folder in plugin_path]
    if pipeline is not None:
        pipeline = os.fspath(pipeline)
        if "\n" in pipeline:
            made.config_text = pipeline
        else:
            made.config = pipeline_file(pipeline)
    made.overrides = overrides(settings)
    return made


def overrides(settings: Mapping[str, Any], folder: Path | None = None) -> list[str]:
    """`{"scheduler": "static", "limits": {"max_sequences": 8}}` as texts for `--set`. Plugins in Python are for this process,
    or, where there is a `folder` for their sources, for another one."""
    made = []
    for name, value in settings.items():
        if value is None:
            continue
        if name in _KEYS:
            made.append(f"{_KEYS[name]}={_toml(value)}")
        elif name in _FIXED:
            if value not in _FIXED[name]:
                raise UnsupportedError(f"{name} is {value!r} – Tenon has {_FIXED[name][0]!r} alone"
                                       + (f" – {_INSTEAD[name]}" if name in _INSTEAD else ""))
        elif name in _WITHOUT_EFFECT:
            warnings.warn(f"{name} has no effect here", stacklevel=4)
        elif name in _PLUGINS:
            if value:
                made.append(_PLUGINS[name])
        elif "." in name:
            made.append(f"{name}={_toml(value)}")
        elif name not in _TABLES:
            raise InvalidArgumentError(f"there is no setting {name!r} – tables of a pipeline are {', '.join(_TABLES)}")
        elif plugins.is_python(name, value):
            options = (plugins.in_this_process(name, value) if folder is None
                       else plugins.in_another_process(name, value, folder))
            made.append(f"{name}.plugin=python")
            made.extend(f"{name}.options.{key}={_toml(one)}" for key, one in options.items())
        elif isinstance(value, Mapping):
            made.extend(f"{name}.{key}={_toml(one)}" for key, one in _leaves(value))
        else:
            made.append(f"{name}.plugin={_toml(value)}")
    # A plugin comes before its options: those of the plugin before it would go with it.
    return sorted(made, key=lambda text: not text.split("=")[0].endswith("plugin"))


def _leaves(table: Mapping, before: str = ""):
    for key, value in table.items():
        if isinstance(value, Mapping):
            yield from _leaves(value, f"{before}{key}.")
        else:
            yield before + key, value


def pipeline_file(name: str) -> str:
    """A path, or the name of a bundled pipeline."""
    bundled = PREFIX / "share/tenon/configs/pipelines" / f"{name}.toml"
    if os.sep in name or name.endswith(".toml") or not PREFIX.exists():
        return name
    if not bundled.exists():
        known = ", ".join(sorted(path.stem for path in bundled.parent.glob("*.toml")))
        raise NotFoundError(f"there is no bundled pipeline {name!r} – they are {known}; a file's name ends in .toml")
    return str(bundled)


def _count(value: int | None, name: str) -> int:
    if value is None:
        return 0
    if isinstance(value, bool) or not isinstance(value, int) or not 1 <= value < 1 << 31:
        raise InvalidArgumentError(f"{name} is {value!r} – it must be a whole number from 1 on")
    return value


def _toml(value: Any) -> str:
    if isinstance(value, os.PathLike):
        value = os.fspath(value)
    # What JSON writes of these, TOML reads.
    return json.dumps(value)
