#!/usr/bin/env python3
"""Makes tests/golden/mtp: tiny models with layers for multi-token prediction, and what these draft.

Usage: make_mtp_goldens.py [CASE ...]   (needs torch, transformers, safetensors and numpy)

Each case is a folder as its family publishes it, with a recipe of its weights (seeded_weights.py),
next to golden.safetensors:
  tokens [9]         t_0 to t_8
  hidden [8, H]      the model's states at t_0 to t_7, after its final norm
  logits [3, 8, V]   [s, c]: after t_1 to t_{c+1} with the model's states, then the s tokens
                     t_{c+2} ... with the module's own; rows whose tokens run past t_8 are zeros
The layers are those of transformers; what stands before them, which transformers drops, is written
out here as vLLM and llama.cpp have it. qwen3_5.gguf is the case qwen3_5 as llama.cpp's converter lays
it out, matrices in F16 (needs gguf).
"""
import json
import pathlib
import shutil
import sys
import tempfile

import torch
from safetensors.torch import load_file, save_file
from transformers import AutoModelForCausalLM, DeepseekV3Config, Glm4MoeConfig, Qwen2Config
from transformers import Qwen3_5TextConfig

from cases import delta_cases
import seeded_weights

STEPS, ROWS = 3, 8
FULL = "full_attention"
SMALL = dict(vocab_size=47, hidden_size=24, num_attention_heads=4, num_key_value_heads=2,
             intermediate_size=20, max_position_embeddings=128, rms_norm_eps=1e-5, bos_token_id=1,
             eos_token_id=2, pad_token_id=0, tie_word_embeddings=False)
ROPE = dict(rope_type="default", rope_theta=1000.0)
HALF = dict(**ROPE, partial_rotary_factor=0.5)
ROUTER = dict(n_routed_experts=6, num_experts_per_tok=2, moe_intermediate_size=10, n_group=3,
              topk_group=2, n_shared_experts=1, first_k_dense_replace=1)
DEEPSEEK = {"layer": "model.layers.2.", "fc": "eh_proj", "token": "enorm", "state": "hnorm",
            "norm": "shared_head.norm", "copies": True}
QWEN = {"layer": "mtp.layers.0.", "fc": "mtp.fc", "token": "mtp.pre_fc_norm_embedding",
        "state": "mtp.pre_fc_norm_hidden", "norm": "mtp.norm", "plus_one": True}
MIMO = {"layer": "model.mtp_layers.0.", "fc": "input_proj", "token": "token_layernorm",
        "state": "hidden_layernorm", "norm": "final_layernorm", "state_first": True}

# Two layers of the model, and the module's as the third.
CASES = {
    "qwen3_5": (Qwen3_5TextConfig(
        **SMALL, **delta_cases.delta(2, 4), head_dim=8, num_hidden_layers=3, rope_parameters=HALF,
        layer_types=["linear_attention", FULL, FULL]), QWEN),
    "deepseek_v3": (DeepseekV3Config(
        **{**SMALL, "num_key_value_heads": 4}, **ROUTER, q_lora_rank=14, kv_lora_rank=20,
        qk_nope_head_dim=12, qk_rope_head_dim=8, v_head_dim=10, num_hidden_layers=3,
        rope_parameters=ROPE), DEEPSEEK),
    "glm4_moe": (Glm4MoeConfig(**SMALL, **ROUTER, head_dim=8, num_hidden_layers=3,
                               use_qk_norm=True, attention_bias=True, rope_parameters=HALF),
                 DEEPSEEK),
    "qwen2_mimo": (Qwen2Config(**SMALL, num_hidden_layers=3, rope_parameters=ROPE), MIMO),
}


def randomise(model, generator):
    for name, value in list(model.named_parameters()) + list(model.named_buffers()):
        if not value.is_floating_point() or "inv_freq" in name:
            continue
        values = torch.randn(value.shape, generator=generator)
        if "norm" in name:
            values = 1.0 + 0.2 * values
        elif value.ndim == 1:
            values *= 0.4
        elif "embed_tokens" not in name:
            values *= 1.5 / value.shape[-1] ** 0.5
        with torch.no_grad():
            value.copy_(values)


def front_of(layout, config, tensors, generator):
    """What stands before and after the module's layer, under its own names."""
    hidden, own = config.hidden_size, layout["layer"]
    full = lambda name: (name if name.startswith("mtp.") else own + name) + ".weight"
    base = 0.0 if layout.get("plus_one") else 1.0
    norm = lambda: base + 0.2 * torch.randn(hidden, generator=generator)
    front = {full(layout["fc"]): torch.randn(hidden, 2 * hidden, generator=generator) / hidden**0.5,
             full(layout["token"]): norm(), full(layout["state"]): norm(),
             full(layout["norm"]): norm()}
    if layout.get("copies"):  # the model's, or what had been: here they are others, to be told apart
        front[own + "embed_tokens.weight"] = torch.randn(config.vocab_size, hidden, generator=generator)
        front[own + "shared_head.head.weight"] = 0.3 * torch.randn(config.vocab_size, hidden,
                                                                  generator=generator)
    return front


def write_folder(folder, config, layout, generator):
    """The folder as published, with the weights that its recipe means; the recipe remains."""
    model = AutoModelForCausalLM.from_config(config)
    (delta_cases.randomise if "linear_conv_kernel_dim" in config.to_dict() else randomise)(
        model, generator)
    model.save_pretrained(folder)
    path = folder / seeded_weights.WEIGHTS
    tensors = {name.replace("model.layers.2.", layout["layer"]): value.contiguous()
               for name, value in load_file(path).items()}
    tensors.update(front_of(layout, config, tensors, generator))
    save_file(tensors, path, metadata={"format": "pt"})
    said = json.loads((folder / "config.json").read_text())
    said["num_hidden_layers"] = 2
    if "layer_types" in said:
        said["layer_types"] = said["layer_types"][:2]
    for key in ("transformers_version", "mlp_layer_types"):
        said.pop(key, None)
    (folder / "config.json").write_text(json.dumps(said, indent=1) + "\n")
    (folder / "generation_config.json").unlink(missing_ok=True)
    seeded_weights.seed(folder)
    return load_file(path)


class Module:
    def __init__(self, model, config, layout, tensors):
        get = lambda key: tensors[(layout[key] if layout[key].startswith("mtp.") else
                                   layout["layer"] + layout[key]) + ".weight"]
        self.layer, self.rotary = model.model.layers[2], model.model.rotary_emb
        self.fc, self.eps, self.one = get("fc"), config.rms_norm_eps, bool(layout.get("plus_one"))
        self.token, self.state, self.last = get("token"), get("state"), get("norm")
        self.state_first = layout.get("state_first", False)
        own = layout["layer"]
        self.embedding = tensors.get(own + "embed_tokens.weight", model.model.embed_tokens.weight)
        self.head = tensors.get(own + "shared_head.head.weight", model.lm_head.weight)

    def rms(self, x, weight):
        return x * torch.rsqrt(x.square().mean(-1, keepdim=True) + self.eps) * (weight + self.one)

    def enter(self, tokens, states):
        halves = [self.rms(self.embedding[tokens], self.token), self.rms(states, self.state)]
        return torch.cat(halves[::-1] if self.state_first else halves, -1) @ self.fc.T

    def run(self, x):
        """All rows so far; the last one's state after the norm, and its logits."""
        rows = len(x)
        positions = torch.arange(rows)[None]
        mask = torch.full((rows, rows), -1e30, dtype=x.dtype).triu(1)[None, None]
        out = self.layer(x[None], attention_mask=mask, position_ids=positions,
                         position_embeddings=self.rotary(x[None], positions))
        out = out[0] if isinstance(out, tuple) else out
        state = self.rms(out[0, -1], self.last)
        return state, self.head @ state


def chains(module, tokens, hidden, vocabulary):
    logits = torch.zeros(STEPS, ROWS, vocabulary, dtype=hidden.dtype)
    for column in range(ROWS):
        x = module.enter(tokens[1:column + 2], hidden[:column + 1])
        state, logits[0, column] = module.run(x)
        for step in range(1, STEPS):
            if column + 1 + step >= len(tokens):
                break
            x = torch.cat([x, module.enter(tokens[column + 1 + step][None], state[None])])
            state, logits[step, column] = module.run(x)
    return logits


@torch.no_grad()
def make(name, folder):
    config, layout = CASES[name]
    config._attn_implementation = "eager"
    generator = torch.Generator().manual_seed(sum(map(ord, name)))
    folder.mkdir(parents=True, exist_ok=True)
    tensors = write_folder(folder, config, layout, generator)
    with tempfile.TemporaryDirectory() as whole:
        whole = pathlib.Path(whole)
        config.save_pretrained(whole)
        back = {n.replace(layout["layer"], "model.layers.2."): v for n, v in tensors.items()}
        save_file(back, whole / seeded_weights.WEIGHTS, metadata={"format": "pt"})
        model, info = AutoModelForCausalLM.from_pretrained(
            whole, dtype=torch.float32, attn_implementation="eager",
            experts_implementation="eager", output_loading_info=True)
    assert not info["missing_keys"], info["missing_keys"]
    model.double().eval()
    tokens = torch.randint(3, config.vocab_size, (ROWS + 1,), generator=generator)
    streams = model(tokens[None, :ROWS], output_hidden_states=True).hidden_states
    hidden = model.model.norm(streams[2])[0].float()
    module = Module(model, config, layout, {n: v.double() for n, v in tensors.items()})
    logits = chains(module, tokens, hidden.double(), config.vocab_size)
    save_file({"tokens": tokens, "hidden": hidden.contiguous(), "logits": logits.float()},
              folder / "golden.safetensors")
    (folder / seeded_weights.WEIGHTS).unlink()


def write_gguf(folder, path):
    """Norms have their one added, and the module is the last block."""
    import gguf
    import delta_gguf
    config = json.loads((folder / "config.json").read_text())
    writer = gguf.GGUFWriter(str(path), "qwen35")
    delta_gguf.add_config(writer, {**config, "num_hidden_layers": 3})
    writer.add_uint32("qwen35.nextn_predict_layers", 1)
    # Every second layer attends here.
    writer.add_uint32("qwen35.full_attention_interval", 2)
    delta = delta_gguf.Delta(config)
    fronts = {"mtp.fc": "eh_proj", "mtp.pre_fc_norm_embedding": "enorm",
              "mtp.pre_fc_norm_hidden": "hnorm", "mtp.norm": "shared_head_norm"}
    outside = {"model.embed_tokens": "token_embd", "model.norm": "output_norm", "lm_head": "output"}
    with tempfile.TemporaryDirectory() as made:
        made = pathlib.Path(made) / seeded_weights.WEIGHTS
        seeded_weights.fill(folder.name, json.loads((folder / "weights.json").read_text()), made)
        tensors = {name: value.numpy() for name, value in load_file(made).items()}
    for name, values in tensors.items():
        stem = name.removesuffix(".weight")
        if stem in fronts or stem in outside:
            stored = [(f"blk.2.nextn.{fronts[stem]}" if stem in fronts else outside[stem],
                       values + 1 if "norm" in stem else values)]
            stored = [(f"{own}.weight", value) for own, value in stored]
        else:
            name = name.replace("mtp.layers.0.", "model.layers.2.")
            layer, rest = name.removeprefix("model.layers.").split(".", 1)
            stored = [(f"blk.{layer}.{own}", value)
                      for own, value in delta_gguf.of_layer(delta, rest, values)]
        for own, value in stored:
            small = value.ndim < 2 or "conv1d" in own
            writer.add_tensor(own, value.astype("float32" if small else "float16"))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def main():
    folder = pathlib.Path(__file__).parent / "mtp"
    for name in sys.argv[1:] or CASES:
        shutil.rmtree(folder / name, ignore_errors=True)
        make(name, folder / name)
        print(name)
    write_gguf(folder / "qwen3_5", folder / "qwen3_5.gguf")


if __name__ == "__main__":
    main()
