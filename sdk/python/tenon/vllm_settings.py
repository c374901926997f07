"""What vLLM's settings of a model are here: a key of a pipeline, what must be so, or nothing. docs/python.md has the table."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from . import toml
from .errors import InvalidArgumentError, UnsupportedError

# Names of vLLM that are a key of ours.
_KEYS = {"max_model_len": "limits.context_tokens", "max_num_seqs": "limits.max_sequences",
         "max_num_batched_tokens": "limits.max_batch_tokens", "seed": "generation.seed",
         "block_size": "kv_cache.block_tokens"}
# Names of vLLM that choose a plugin if they are true.
_PLUGINS = {"enable_prefix_caching": "kv_cache.plugin=prefix", "enable_chunked_prefill": "scheduler.plugin=chunked"}
# Names of vLLM that must ask for what is so here: the values that do, of which the first is vLLM's default.
_FIXED = {"tokenizer": (None,), "tokenizer_mode": ("auto", "hf"), "skip_tokenizer_init": (False,),
          "tensor_parallel_size": (1,), "pipeline_parallel_size": (1,), "data_parallel_size": (1,),
          "prefill_context_parallel_size": (1,), "decode_context_parallel_size": (1,), "nnodes": (1,),
          "revision": (None,), "tokenizer_revision": (None,), "code_revision": (None,),
          "hf_overrides": (None, {}), "hf_config_path": (None,), "chat_template": (None,),
          "task": ("auto", "generate", "embed"), "runner": ("auto", "generate", "pooling"),
          "convert": ("auto", "none", "embed"), "load_format": ("auto", "hf", "safetensors"), "config_format": ("auto", "hf"),
          "generation_config": ("auto",), "override_generation_config": (None, {}), "pooler_config": (None,),
          "logits_processors": (None, []), "kv_transfer_config": (None,), "kv_events_config": (None,),
          "ec_transfer_config": (None,), "kv_offloading_size": (None,), "kv_cache_memory_bytes": (None,),
          "num_gpu_blocks_override": (None,), "enable_prompt_embeds": (False,), "enable_sleep_mode": (False,),
          "enable_return_routed_experts": (False,), "enable_return_last_hidden_states": (False,),
          "enable_expert_parallel": (False,), "disable_sliding_window": (False,), "enable_lora_bias": (False,),
          "mm_processor_kwargs": (None, {}), "download_dir": (None,),
          "logprobs_mode": ("raw_logprobs",), "model_impl": ("auto", "vllm"), "worker_cls": ("auto",),
          "worker_extension_cls": ("",), "scheduler_cls": (None,), "io_processor_plugin": (None,),
          "override_attention_dtype": (None,), "rope_scaling": (None, {}), "rope_theta": (None,)}
# Names of vLLM that change nothing here, whatever they say.
_WITHOUT_EFFECT = ("additional_config", "aggregate_engine_logging", "all2all_backend", "allowed_local_media_path",
                   "allowed_media_domains", "async_scheduling", "attention_backend", "attention_config", "calculate_kv_scales",
                   "collect_detailed_traces", "compilation_config", "cpu_offload_gb", "cudagraph_capture_sizes",
                   "disable_async_output_proc", "disable_cascade_attn", "disable_chunked_mm_input",
                   "disable_custom_all_reduce", "disable_hybrid_kv_cache_manager", "disable_log_requests",
                   "disable_log_stats", "distributed_executor_backend", "enable_log_requests", "enforce_eager",
                   "fully_sharded_loras", "gpu_memory_utilization", "hf_token", "ignore_patterns", "kv_cache_metrics",
                   "kv_sharing_fast_prefill", "limit_mm_per_prompt", "long_prefill_token_threshold", "lora_dtype",
                   "mamba_block_size", "mamba_cache_dtype", "mamba_cache_mode", "mamba_ssm_cache_dtype", "max_cpu_loras",
                   "max_cudagraph_capture_size", "max_logprobs", "max_long_partial_prefills", "max_lora_rank", "max_loras",
                   "max_num_partial_prefills", "max_parallel_loading_workers", "max_seq_len_to_capture",
                   "mm_processor_cache_gb", "model_loader_extra_config", "optimization_level", "otlp_traces_endpoint",
                   "prefix_caching_hash_algo", "profiler_config", "pt_load_map_location", "ray_workers_use_nsight",
                   "reasoning_parser", "reasoning_parser_plugin", "safetensors_load_strategy", "served_model_name",
                   "show_hidden_metrics_for_version", "skip_mm_profiling", "stream_interval", "structured_outputs_config",
                   "swap_space", "trust_remote_code", "use_tqdm_on_load")
_FLAGS = ("async_scheduling", "calculate_kv_scales", "disable_cascade_attn", "disable_custom_all_reduce",
          "disable_hybrid_kv_cache_manager", "disable_log_requests", "disable_log_stats", "enable_log_requests", "enforce_eager",
          "fully_sharded_loras", "trust_remote_code")
# All others of vLLM 0.33: refused if they ask for something.
_OTHERS = """
    allow_deprecated_quantization aux_output_config cp_kv_cache_interleave_size cpu_distributed_timeout_seconds
    cpu_offload_params cudagraph_metrics custom_histogram_buckets data_parallel_address data_parallel_backend
    data_parallel_external_lb data_parallel_hybrid_lb data_parallel_multi_port_external_lb data_parallel_rank
    data_parallel_rpc_port data_parallel_size_local data_parallel_start_rank dbo_decode_token_threshold
    dbo_prefill_token_threshold dcp_comm_backend dcp_kv_cache_interleave_size dcp_q_replicate default_mm_loras
    device_ids diffusion_config disable_nccl_for_dp_synchronization distributed_timeout_seconds dp_sync_interval
    ec_manager_config elastic_ep_max_dp_size enable_batch_sharded_sampling enable_cumem_allocator enable_dbo
    enable_elastic_ep enable_ep_weight_filter enable_eplb enable_fault_tolerance enable_flashinfer_autotune
    enable_hc_sp enable_layerwise_nvtx_tracing enable_logging_iteration_details
    enable_mamba_cache_stochastic_rounding enable_mamba_shared_prefix_checkpoint enable_mfu_metrics
    enable_mixed_moe_lora_format enable_mm_embeds enable_mm_processor_stats enable_moe_shared_loras
    enable_nccl_comm_suspend enable_shm_tensor_arena enable_tower_connector_lora enable_trace_replay
    engram_config eplb_config expert_placement_strategy fail_on_environ_validation fault_tolerance_config
    gdn_prefill_backend interleave_mm_strings ir_op_priority jit_monitor_mode jit_monitor_verbose
    kda_decode_backend kda_prefill_backend kernel_config kv_cache_dtype_skip_layers kv_cache_metrics_sample
    kv_offloading_backend language_model_only linear_backend log_config_file log_level logging_config
    long_prefill_token_threshold_adaptive lora_target_modules mamba_backend mamba_cache_philox_rounds
    mamba_config mamba_ssu_algorithm master_addr master_port max_lora_cls_labels max_num_active_seqs
    max_num_queued_reqs max_num_queued_tokens max_num_scheduled_tokens media_io_kwargs mm_device_do_normalize
    mm_encoder_attn_backend mm_encoder_attn_dtype mm_encoder_fp8_scale_path mm_encoder_fp8_scale_save_margin
    mm_encoder_fp8_scale_save_path mm_encoder_only mm_encoder_tp_mode mm_hasher_algorithm mm_ipc_gpu_memory_gb
    mm_processor_cache_type mm_processor_device mm_shm_cache_max_object_size_mb mm_tensor_ipc
    model_class_overrides model_weights moe_backend monokernel node_rank numa_bind numa_bind_cpus
    numa_bind_nodes offload_backend offload_group_size offload_num_in_group offload_params offload_prefetch_step
    per_request_spec_decode_metrics performance_mode prefill_schedule_interval prefix_cache_retention_interval
    prefix_match_unit quantization_config reasoning_config renderer_num_workers replayssm_buffer_len
    return_sampling_mask safetensors_prefetch_block_size safetensors_prefetch_num_threads
    scheduler_reserve_full_isl shutdown_timeout sleep_mode_backend sleep_mode_offload_cudagraph
    sleep_preserve_parameter_names sparse_indexer_topk_backend spec_method spec_model spec_tokens
    specialize_active_lora swa_bounded_replay tokens_only ubatch_size use_fp64_gumbel use_replayssm
    video_pruning_method video_pruning_rate watchdog_config watermark watermark_config weight_transfer_config
""".split()
# What to write instead.
_INSTEAD = {"kv_cache_memory_bytes": "give kv_cache={'memory': '4GiB'}",
            "kv_cache_dtype": "give kv_cache={'dtype': 'i8'}",
            "kv_transfer_config": "tables of a pipeline file say how K/V travels (docs/disaggregation.md)",
            "kv_offloading_size": "give kv_cache={'swap_memory': '4GiB'}",
            "revision": "name it with the model, as in 'Qwen/Qwen3-0.6B@main'",
            "tensor_parallel_size": "`tenon serve` runs one model by several processes (docs/parallel.md)",
            "pipeline_parallel_size": "`tenon serve` runs one model by several processes (docs/parallel.md)",
            "data_parallel_size": "`tenon serve` runs several replicas (docs/serving.md)",
            "logits_processors": "a sampler may be a class in Python (docs/plugins/python.md)",
            "scheduler_cls": "a scheduler may be a class in Python (docs/plugins/python.md)",
            "chat_template": "the model's own is used; one can be put into its folder as chat_template.jinja",
            "hf_overrides": "change a copy of config.json"}
# Types of elements by all their names.
_TYPES = {"float32": "f32", "float": "f32", "float16": "f16", "half": "f16", "bfloat16": "bf16"}
_DRAFTERS = {"ngram": "ngram", "suffix": "suffix", "draft_model": "draft_model", "eagle": "eagle3", "eagle3": "eagle3",
             "medusa": "medusa", "mtp": "mtp", "dflash": "dflash"}
_WITH_A_MODEL = ("draft_model", "eagle3", "medusa", "dflash")
# Of a speculative_config, what changes nothing here.
_OF_DRAFTS_WITHOUT_EFFECT = ("attention_backend", "disable_padded_drafter_batch", "draft_tensor_parallel_size",
                             "enforce_eager", "max_model_len", "revision", "quantization")


def names_of_vllm() -> dict[str, tuple[type, Any]]:
    """vLLM's names of settings, the types of their values, and those that ask for nothing."""
    kinds: dict[str, tuple[type, Any]] = {name: (int, None) for name in _KEYS}
    kinds.update({name: (bool, None) for name in (*_PLUGINS, "enable_lora")})
    kinds.update({name: (str, default) for name, default in (("dtype", "auto"), ("quantization", None),
                                                             ("kv_cache_dtype", "auto"), ("speculative_config", None),
                                                             ("scheduling_policy", "fcfs"))})
    for name, values in _FIXED.items():
        kinds[name] = (str if values[0] is None else type(values[0]), values[0])
    kinds.update({name: (bool if name in _FLAGS else str, None) for name in (*_WITHOUT_EFFECT, *_OTHERS)})
    return kinds


def has_no_effect(name: str) -> bool:
    return name in _WITHOUT_EFFECT


def overrides_of(name: str, value: Any) -> list[str] | None:
    """One of vLLM's settings as texts for `--set`, none of which it may need; None where it is no setting of vLLM's.

    Errors: UnsupportedError, and what to use instead, for a value that asks for what is not so here.
    """
    if name in _KEYS:
        return [f"{_KEYS[name]}={toml.written(value)}"]
    if name in _PLUGINS:
        return [_PLUGINS[name]] if value else []
    if name == "kv_cache_dtype":
        return _cache_type(value)
    if name == "speculative_config":
        return _drafter(value)
    if name == "scheduling_policy":
        return [] if value == "fcfs" else [f"scheduler.options.policy={toml.written(value)}"]
    if name in ("dtype", "quantization"):
        return []  # held against the model's files when it is open: check_weights
    if name in _FIXED:
        if value not in _FIXED[name]:
            refuse(name, value, f"Tenon has {_FIXED[name][0]!r} alone")
        return []
    if name in _OTHERS:
        if value and value != "auto":
            refuse(name, value, "Tenon has no counterpart of this setting of vLLM's – leave it out")
        return []
    return None


def refuse(name: str, value: Any, why: str) -> None:
    raise UnsupportedError(f"{name} is {value!r} – {why}" + (f" – {_INSTEAD[name]}" if name in _INSTEAD else ""))


def check_weights(model: str, dtype: Any, quantization: Any) -> None:
    """Whether the weights of an open model are what vLLM's `dtype` and `quantization` ask for.

    Errors: UnsupportedError, since weights stay as the files have them.
    """
    config = Path(model) / "config.json"
    known = json.loads(config.read_text()) if config.is_file() else {}
    text = {**known, **(known.get("text_config") or {})}
    if dtype not in (None, "auto"):
        asked, there = str(dtype).removeprefix("torch."), text.get("dtype") or text.get("torch_dtype")
        if _TYPES.get(asked) is None or _TYPES.get(asked) != _TYPES.get(there):
            refuse("dtype", dtype, f"weights stay as the files have them, which is {there or 'not said'} in {model}")
    if quantization is not None:
        there = (known.get("quantization_config") or {}).get("quant_method")
        # Names of vLLM's kernels for the same files.
        asked = str(quantization).removesuffix("_marlin").replace("-", "_")
        if there is None or asked != there.replace("-", "_"):
            refuse("quantization", quantization, f"weights stay as the files have them, which is {there or 'not quantised'} in "
                                                 f"{model}")


def _cache_type(value: Any) -> list[str]:
    if value in (None, "auto"):
        return []
    kind = _TYPES.get(str(value).removeprefix("torch."))
    if kind is None:
        refuse("kv_cache_dtype", value, "Tenon has f32, f16, bf16, i8 and i4")
    return [f'kv_cache.dtype="{kind}"']


def _drafter(given: Any) -> list[str]:
    """A speculative_config as a drafter. Drafts change no token, so that it is the names alone that have to fit."""
    if given is None:
        return []
    try:
        asked = dict(json.loads(given) if isinstance(given, str) else given)
    except (TypeError, ValueError):
        raise InvalidArgumentError(f"speculative_config is {given!r} – it must be a dict, or one as JSON") from None
    model, method = asked.pop("model", None), asked.pop("method", None)
    if method is None:
        method = "ngram" if model in (None, "ngram", "[ngram]") else "draft_model"
    if method not in _DRAFTERS:
        raise UnsupportedError(f"the method of speculative_config is {method!r} – methods are {', '.join(_DRAFTERS)}")
    plugin = _DRAFTERS[method]
    options = {"max_draft_tokens": asked.pop("num_speculative_tokens", None)}
    if plugin == "ngram":
        longest, shortest = asked.pop("prompt_lookup_max", None), asked.pop("prompt_lookup_min", None)
        options["max_ngram"] = longest if longest is not None else shortest if shortest is not None else 5
        options["min_ngram"] = shortest if shortest is not None else options["max_ngram"]
    other = sorted(name for name, value in asked.items() if value and name not in _OF_DRAFTS_WITHOUT_EFFECT)
    if other:
        raise UnsupportedError(f"speculative_config has {', '.join(map(repr, other))} – Tenon has no counterpart of it – give a "
                               f"drafter, such as drafter={{'plugin': {plugin!r}}}, and its options")
    made = [f'drafter.plugin="{plugin}"']
    if plugin in _WITH_A_MODEL:
        if not isinstance(model, str):
            raise InvalidArgumentError(f"the model of speculative_config is {model!r} – {method} needs the path or the name of one")
        made.append(f"drafter.model={toml.written(model)}")
    return made + [f"drafter.options.{name}={toml.written(value)}" for name, value in options.items() if value is not None]
