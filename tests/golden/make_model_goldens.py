#!/usr/bin/env python3
"""Makes tests/golden/models/<case>/: tiny random checkpoints of every supported architecture and
feature with the logits that Hugging Face transformers computes for them (fp32, eager attention).

    pip install torch transformers safetensors numpy
    tests/golden/make_model_goldens.py [case ...]

Each case is a Hugging Face folder plus tokens.npy (int32 [tokens]) and logits.npy (float32
[tokens, vocabulary]). Every weight, norm and bias is random, so that none can be left out unseen.
Cases of `SEEDED` keep a recipe of their weights instead of the weights (seeded_weights.py).
The folders are written by transformers itself; some get the older spelling of config.json.
"""
import json
import pathlib
import re
import shutil
import sys

import numpy as np
import torch
from transformers import (AutoModelForCausalLM, AutoModelForImageTextToText, LlamaConfig, MistralConfig, Qwen2Config,
                          Qwen3Config)

from cases import (attention_cases, chunk_cases, conv_cases, delta_cases, dense_cases, expert_cases,
                   family_cases, gemma4_cases, index_cases, latent_cases, mixer_cases, recurrent_cases,
                   router_cases, shared_kv_cases, stream_cases, whole_cases, wide_cases)
import seeded_weights

TOKENS = 40
BASE = dict(vocab_size=99, hidden_size=32, intermediate_size=72, num_hidden_layers=2,
            num_attention_heads=4, num_key_value_heads=2, max_position_embeddings=128,
            rms_norm_eps=1e-5, tie_word_embeddings=False, bos_token_id=1, eos_token_id=2)
LLAMA3 = dict(rope_type="llama3", factor=4.0, low_freq_factor=1.0, high_freq_factor=4.0,
              original_max_position_embeddings=32, rope_theta=10000.0)


def case(config, dtype=torch.float32, shard=None, spelling="new", mixed=False, fill=None,
         patch=None, tokens=TOKENS):
    return dict(config=config, dtype=dtype, shard=shard, spelling=spelling, mixed=mixed, fill=fill,
                patch=patch, tokens=tokens)


CASES = {
    "llama_gqa": case(LlamaConfig(**BASE), spelling="old"),
    "llama_mha": case(LlamaConfig(**{**BASE, "num_key_value_heads": 4})),
    "llama_tied": case(LlamaConfig(**{**BASE, "tie_word_embeddings": True,
                                      "eos_token_id": [2, 5]})),
    "llama_head_dim": case(LlamaConfig(**BASE, head_dim=24)),
    "llama_rope_llama3": case(LlamaConfig(**{**BASE, "rope_parameters": LLAMA3}, head_dim=16),
                              spelling="old"),
    "llama_rope_llama3_new": case(LlamaConfig(**{**BASE, "rope_parameters": LLAMA3},
                                              head_dim=16)),
    "llama_rope_linear": case(
        LlamaConfig(**BASE, rope_parameters=dict(rope_type="linear", factor=3.0,
                                                 rope_theta=500.0)), spelling="oldest"),
    "llama_biases": case(LlamaConfig(**BASE, attention_bias=True, mlp_bias=True)),
    "mistral_window": case(MistralConfig(**BASE, sliding_window=7, head_dim=16), spelling="old"),
    "mistral_no_window": case(MistralConfig(**BASE, sliding_window=None)),
    "qwen2": case(Qwen2Config(**{**BASE, "tie_word_embeddings": True, "bos_token_id": None},
                              rope_parameters=dict(rope_type="default", rope_theta=1e6)),
                  spelling="old"),
    "qwen2_sliding_layers": case(Qwen2Config(**{**BASE, "num_hidden_layers": 3},
                                             use_sliding_window=True, sliding_window=9,
                                             max_window_layers=1)),
    "qwen3": case(Qwen3Config(**{**BASE, "tie_word_embeddings": True}, head_dim=16,
                              rope_parameters=dict(rope_type="default", rope_theta=1e6))),
    "qwen3_biases": case(Qwen3Config(**BASE, head_dim=8, attention_bias=True)),
    "llama_bf16": case(LlamaConfig(**BASE), dtype=torch.bfloat16, spelling="old"),
    "llama_f16": case(LlamaConfig(**BASE), dtype=torch.float16),
    "llama_mixed": case(LlamaConfig(**BASE), dtype=torch.bfloat16, mixed=True),
    "llama_sharded": case(LlamaConfig(**BASE), shard="30KB"),
    **{name: case(config, fill=family_cases.randomise)
       for name, config in family_cases.CASES.items()},
    **{name: case(config, fill=latent_cases.randomise)
       for name, config in latent_cases.CASES.items()},
    **{name: case(config, fill=shared_kv_cases.randomise, patch=shared_kv_cases)
       for name, config in shared_kv_cases.CASES.items()},
    **{name: case(config, fill=recurrent_cases.randomise)
       for name, config in recurrent_cases.CASES.items()},
    **{name: case(config, fill=delta_cases.randomise)
       for name, config in delta_cases.CASES.items()},
    **{name: case(config, fill=dense_cases.randomise, tokens=dense_cases.TOKENS)
       for name, config in dense_cases.CASES.items()},
    **{name: case(config, fill=conv_cases.randomise)
       for name, config in conv_cases.CASES.items()},
    **{name: case(config, fill=router_cases.randomise)
       for name, config in router_cases.CASES.items()},
    **{name: case(config, fill=attention_cases.randomise, tokens=attention_cases.TOKENS)
       for name, config in attention_cases.CASES.items()},
    **{name: case(config, fill=chunk_cases.randomise, tokens=chunk_cases.TOKENS,
                  patch=chunk_cases if name in chunk_cases.STRIPPED else None)
       for name, config in chunk_cases.CASES.items()},
    **{name: case(config, fill=stream_cases.randomise)
       for name, config in stream_cases.CASES.items()},
    **{name: case(config, fill=gemma4_cases.randomise)
       for name, config in gemma4_cases.CASES.items()},
    **{name: case(config, fill=mixer_cases.randomise, tokens=mixer_cases.TOKENS)
       for name, config in mixer_cases.CASES.items()},
    **{name: case(config, fill=index_cases.randomise, tokens=index_cases.TOKENS)
       for name, config in index_cases.CASES.items()},
    **{name: case(config, fill=whole_cases.randomise)
       for name, config in whole_cases.CASES.items()},
    **{name: case(config, fill=wide_cases.randomise)
       for name, config in wide_cases.CASES.items()},
    **{name: case(config, fill=expert_cases.randomise,
                  dtype=expert_cases.DTYPES.get(name, torch.float32))
       for name, config in expert_cases.CASES.items()},
}

# Not seeded: what tests read as it stands in the source folder, in another type, sharded or stacked.
STORED = {"llama_gqa", "llama_mha", "llama_tied", "llama_rope_llama3", "llama_biases", "llama_bf16",
          "llama_f16", "llama_mixed", "llama_sharded", "qwen2", "qwen3", "mixtral_bf16", "llava",
          "gemma3_vision", "qwen2_vl", *chunk_cases.STORED}
SEEDED = {*CASES} - STORED


def randomise(model, generator):
    """Random values everywhere, scaled so that activations and logits keep a real range."""
    for name, parameter in model.named_parameters():
        if name.endswith("norm.weight"):
            values = 0.5 + torch.rand(parameter.shape, generator=generator)
        elif name.endswith(".bias"):
            values = 0.4 * torch.randn(parameter.shape, generator=generator)
        elif "embed_tokens" in name:
            values = torch.randn(parameter.shape, generator=generator)
            if model.config.tie_word_embeddings:
                values *= 0.6
        else:
            gain = 3.0 if "lm_head" in name else 1.3
            values = torch.randn(parameter.shape, generator=generator)
            values *= gain / parameter.shape[1] ** 0.5
        with torch.no_grad():
            parameter.copy_(values)


def respell(folder, spelling):
    """Rewrites config.json the way transformers before 5 wrote it."""
    path = folder / "config.json"
    config = json.loads(path.read_text())
    config.pop("transformers_version", None)
    if spelling != "new":
        rope = config.pop("rope_parameters")
        config["rope_theta"] = rope.pop("rope_theta")
        if spelling == "oldest":
            rope["type"] = rope.pop("rope_type")
        default = rope.get("rope_type") == "default"
        config["rope_scaling"] = None if default else rope
        config["torch_dtype"] = config.pop("dtype")
    if spelling == "oldest":
        config.pop("head_dim")
    path.write_text(json.dumps(config, indent=1) + "\n")


def widen_norms(folder):
    from safetensors.torch import load_file, save_file
    path = folder / "model.safetensors"
    tensors = {name: value.float() if "norm" in name else value
               for name, value in load_file(path).items()}
    save_file(tensors, path, metadata={"format": "pt"})


def make(name, spec, root):
    seed = sum(ord(letter) * (index + 1) for index, letter in enumerate(name))
    generator = torch.Generator().manual_seed(seed)
    folder = root / name
    shutil.rmtree(folder, ignore_errors=True)
    with_images = hasattr(spec["config"], "vision_config")
    kind = AutoModelForImageTextToText if with_images else AutoModelForCausalLM
    model = kind.from_config(spec["config"])
    (spec["fill"] or randomise)(model, generator)
    model.to(spec["dtype"])
    # Or as transformers 5 holds them in memory: all experts in one tensor, some by other names.
    model.save_pretrained(folder, save_original_format=not name.endswith("_stacked"),
                          **({"max_shard_size": spec["shard"]} if spec["shard"] else {}))
    if spec["mixed"]:
        widen_norms(folder)
    respell(folder, spec["spelling"])
    if spec["patch"]:
        spec["patch"].strip(folder)
    if name in SEEDED:
        seeded_weights.seed(folder)

    # What counts is what the folder says, so the logits come from the folder read back.
    # Experts one by one: batched products may choose by other bits.
    text = spec["config"].get_text_config()
    chooses = not with_images or hasattr(text, "num_experts") or hasattr(text, "n_routed_experts")
    eager = {"experts_implementation": "eager"} if chooses else {}
    model = kind.from_pretrained(folder, dtype=torch.float32, attn_implementation="eager",
                                 **eager).eval()
    if spec["patch"]:
        spec["patch"].share(model)
    vocabulary = model.config.get_text_config().vocab_size
    tokens = torch.randint(0, vocabulary, (spec["tokens"],), generator=generator)
    # Llama 4 with images fails in transformers 5.24 where no image is given.
    reader = model.language_model if model.config.model_type == "llama4" else model
    with torch.no_grad():
        logits = reader(tokens[None]).logits[0]
    np.save(folder / "tokens.npy", tokens.numpy().astype(np.int32))
    np.save(folder / "logits.npy", logits.numpy())
    write_seed(folder / "config.json", spec)
    if name in SEEDED:
        (folder / seeded_weights.WEIGHTS).unlink()
    size = sum(file.stat().st_size for file in folder.iterdir())
    print(f"{name:24} logits {logits.min():7.2f} … {logits.max():6.2f}  {size / 1024:6.0f} KiB")


def write_seed(config, spec):
    """For the fuzz target of configs: one of each model_type, by the shortest of its names."""
    kind = spec["config"].model_type
    names = [name for name, other in CASES.items() if other["config"].model_type == kind]
    if config.parent.name != min(names, key=len):
        return
    corpus = config.parents[3] / "fuzz" / "corpus" / "model_config"
    (corpus / f"{kind}.json").write_text(re.sub(r"\s+", " ", config.read_text()))


def main():
    root = pathlib.Path(__file__).resolve().parent / "models"
    for name in sys.argv[1:] or CASES:
        make(name, CASES[name], root)


if __name__ == "__main__":
    main()
