#!/usr/bin/env python3
"""Makes tests/golden/adapters/<case>/: random low-rank adapters of the tiny models beside them, as
PEFT saves them, with the logits that PEFT computes (fp32, not merged).

    pip install torch transformers peft numpy
    tests/golden/make_adapter_goldens.py [case ...]

Each case is a PEFT folder plus base.txt (a folder of tests/golden/models), tokens.npy (int32
[tokens]) and logits.npy (float32 [tokens, vocabulary]). Both halves are random, so that none can be
left out unseen.
"""
import pathlib
import re
import shutil
import sys

import numpy as np
import torch
from peft import LoraConfig, get_peft_model
from transformers import AutoModelForCausalLM, AutoModelForImageTextToText

import seeded_weights

HERE = pathlib.Path(__file__).resolve().parent
MODELS = seeded_weights.built(HERE / "models")
TOKENS = 24


def lora(**values):
    return LoraConfig(**{"r": 4, "lora_alpha": 8, **values})


CASES = {
    "llama": ("llama_gqa", lora(target_modules=["q_proj", "v_proj"])),
    "llama_all": ("llama_gqa", lora(target_modules="all-linear", r=3, lora_alpha=5,
                                    use_rslora=True)),
    "llama_patterns": ("llama_biases", lora(
        target_modules=["q_proj", "k_proj", "o_proj", "gate_proj", "down_proj"],
        rank_pattern={"q_proj": 7, r"layers\.1\.mlp\.(gate|down)_proj": 2},
        alpha_pattern={"layers.0.self_attn.k_proj": 20, "o_proj": 3})),
    "llama_second_layer": ("llama_mha", lora(target_modules=["up_proj", "o_proj"],
                                             layers_to_transform=[1])),
    "llama_bf16": ("llama_tied", lora(target_modules=r".*\.(q|k|v|up)_proj", r=8)),
    "qwen3": ("qwen3", lora(target_modules="all-linear", init_lora_weights="gaussian")),
    "gemma2": ("gemma2", lora(target_modules="all-linear", r=5, use_rslora=True)),
    "phi3": ("phi3", lora(target_modules=["qkv_proj", "o_proj", "gate_up_proj", "down_proj"])),
    "gpt2": ("gpt2", lora(target_modules=["c_attn", "c_fc", "mlp.c_proj"], fan_in_fan_out=True)),
    "gpt_neox": ("gpt_neox", lora(target_modules=["query_key_value", "dense_4h_to_h"], r=6)),
    "olmo2": ("olmo2", lora(target_modules=["q_proj", "k_proj", "v_proj", "down_proj"])),
    "deepseek_v2": ("deepseek_v2_low_rank_q", lora(
        target_modules=["q_a_proj", "q_b_proj", "kv_a_proj_with_mqa", "o_proj"])),
    "mixtral": ("mixtral", lora(target_modules=["q_proj", "o_proj"])),
    "granite4": ("granite4", lora(target_modules=["in_proj", "q_proj", "v_proj"])),
    "qwen3_next": ("qwen3_next", lora(
        target_modules=["in_proj_qkvz", "in_proj_ba", "out_proj", "q_proj", "v_proj"])),
    "qwen3_5": ("qwen3_5", lora(target_modules=["in_proj_qkv", "in_proj_z", "in_proj_b",
                                                "in_proj_a", "q_proj", "down_proj"])),
    "olmo_hybrid": ("olmo_hybrid", lora(target_modules=["q_proj", "k_proj", "v_proj", "g_proj",
                                                       "o_proj"], r=2,
                                        layers_to_transform=[1, 3])),
    "gemma3_vision": ("gemma3_vision", lora(
        target_modules=r".*language_model.*\.(q_proj|gate_proj)")),
}
DTYPES = {"llama_bf16": torch.bfloat16}


def randomise(model, generator):
    for name, parameter in model.named_parameters():
        if "lora_" not in name:
            continue
        values = torch.randn(parameter.shape, generator=generator)
        values *= (1.0 if "lora_A" in name else 0.4) / parameter.shape[1] ** 0.5
        with torch.no_grad():
            parameter.copy_(values)


def make(name, root):
    base, config = CASES[name]
    seed = sum(ord(letter) * (index + 1) for index, letter in enumerate(name))
    generator = torch.Generator().manual_seed(seed)
    folder = root / name
    shutil.rmtree(folder, ignore_errors=True)
    source = MODELS / base
    kind = AutoModelForImageTextToText if base.endswith("vision") else AutoModelForCausalLM
    eager = {} if base.endswith("vision") else {"experts_implementation": "eager"}
    model = kind.from_pretrained(source, dtype=torch.float32, attn_implementation="eager", **eager)
    model = get_peft_model(model, config, autocast_adapter_dtype=False)
    randomise(model, generator)
    if name in DTYPES:  # what counts is what the file says
        for key, parameter in model.named_parameters():
            if "lora_" in key:
                parameter.data = parameter.data.to(DTYPES[name])
    model.save_pretrained(folder)
    (folder / "README.md").unlink(missing_ok=True)
    config_file = folder / "adapter_config.json"
    config_file.write_text(re.sub(r'("base_model_name_or_path": ).*,', rf'\1"{base}",',
                                  config_file.read_text()))
    model.float().eval()
    vocabulary = model.config.get_text_config().vocab_size
    tokens = torch.randint(0, vocabulary, (TOKENS,), generator=generator)
    with torch.no_grad():
        logits = model(input_ids=tokens[None]).logits[0]
        with model.disable_adapter():
            plain = model(input_ids=tokens[None]).logits[0]
    np.save(folder / "tokens.npy", tokens.numpy().astype(np.int32))
    np.save(folder / "logits.npy", logits.numpy())
    (folder / "base.txt").write_text(base + "\n")
    change = (logits - plain).abs().max() / (plain.max() - plain.min())
    size = sum(file.stat().st_size for file in folder.iterdir())
    print(f"{name:20} changes logits by {change:5.2f} of their range  {size / 1024:5.0f} KiB")


def main():
    for name in sys.argv[1:] or CASES:
        make(name, HERE / "adapters")


if __name__ == "__main__":
    main()
