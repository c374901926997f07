#!/usr/bin/env python3
"""Makes tests/golden/models/llada*/: tiny random checkpoints of LLaDA (arXiv:2502.09992), which
transformers does not have, with the logits and the answers of the published mathematics, spelled out here.

    pip install torch safetensors numpy
    tests/golden/make_diffusion_goldens.py [case ...]

Each folder has config.json by the published keys, model.safetensors by the published names, tokens.npy
(int32 [tokens]) with logits.npy (float32 [tokens, rows of the embedding]) of one forward pass over them,
and answers.json: prompts, settings, and the tokens that the published algorithm makes of them. Where that
draws (remasking "random"), its numbers are those of core/engine/answers/diffusion/canvas.cc.
"""
import json
import pathlib
import re
import shutil
import sys

import numpy as np
import torch
import torch.nn.functional as F
from safetensors.torch import save_file

TOKENS = 40
MASK64 = (1 << 64) - 1
GOLDEN = 0x9E3779B97F4A7C15

BASE = dict(activation_type="silu", alibi=False, alibi_bias_max=8.0, architectures=["LLaDAModelLM"],
            attention_dropout=0.0, attention_layer_norm=False,
            attention_layer_norm_with_affine=True, bias_for_layer_norm=False, block_group_size=1,
            block_type="llama", d_model=48, embedding_dropout=0.0, embedding_size=104,
            eos_token_id=2, flash_attention=False, include_bias=False, include_qkv_bias=False,
            init_cutoff_factor=None, init_device="meta", init_fn="mitchell", init_std=0.02,
            input_emb_norm=False, layer_norm_type="rms", layer_norm_with_affine=True,
            mask_token_id=98, max_sequence_length=128, mlp_hidden_size=76, mlp_ratio=4,
            model_type="llada", multi_query_attention=None, n_heads=4, n_kv_heads=4, n_layers=2,
            pad_token_id=2, precision="amp_bf16", residual_dropout=0.0, rms_norm_eps=1e-5,
            rope=True, rope_full_precision=True, rope_theta=500000.0, scale_logits=False,
            torch_dtype="float32", use_cache=False, vocab_size=99, weight_tying=False)
CASES = {
    "llada": BASE,
    "llada_grouped": {**BASE, "d_model": 36, "n_heads": 6, "n_kv_heads": 3, "n_layers": 3,
                      "include_qkv_bias": True, "embedding_size": 99, "rope_theta": 10000.0,
                      "layer_norm_type": "gemma_rms", "input_emb_norm": True},
    "llada_biases": {**BASE, "d_model": 40, "n_heads": 5, "n_kv_heads": None,
                     "multi_query_attention": True, "include_bias": True,
                     "bias_for_layer_norm": None, "layer_norm_type": "default",
                     "attention_layer_norm": True, "activation_type": "gelu",
                     "mlp_hidden_size": None, "mlp_ratio": 2},
    "llada_tied": {**BASE, "d_model": 32, "n_kv_heads": 2, "weight_tying": True,
                   "embedding_size": None, "scale_logits": True},
}
# gen_length, block_length, steps, remasking
SETTINGS = [(16, 16, 16, "low_confidence"), (16, 4, 16, "low_confidence"),
            (16, 8, 4, "low_confidence"), (21, 7, 12, "low_confidence"),
            (10, 10, 1, "low_confidence"), (12, 6, 8, "random"), (9, 9, 4, "random")]


def kv_heads_of(c):
    if c["n_kv_heads"] is not None:
        return c["n_kv_heads"]
    return 1 if c["multi_query_attention"] else c["n_heads"]


def shapes_of(c):
    """Every tensor of the checkpoint with its shape."""
    d, head = c["d_model"], c["d_model"] // c["n_heads"]
    kv, rows = kv_heads_of(c) * head, c["embedding_size"] or c["vocab_size"]
    inner = c["mlp_hidden_size"] or c["mlp_ratio"] * d
    norm_bias = c["include_bias"] if c["bias_for_layer_norm"] is None else c["bias_for_layer_norm"]
    shapes = {}

    def linear(name, n_out, n_in, bias):
        shapes[name + ".weight"] = (n_out, n_in)
        if bias:
            shapes[name + ".bias"] = (n_out,)

    def norm(name, width):
        shapes[name + ".weight"] = (width,)
        if norm_bias:
            shapes[name + ".bias"] = (width,)
    base, bias = "model.transformer.", c["include_bias"]
    shapes[base + "wte.weight"] = (rows, d)
    for i in range(c["n_layers"]):
        block = f"{base}blocks.{i}."
        norm(block + "attn_norm", d)
        norm(block + "ff_norm", d)
        if c["attention_layer_norm"]:
            norm(block + "q_norm", d)
            norm(block + "k_norm", kv)
        for name, width in (("q_proj", d), ("k_proj", kv), ("v_proj", kv)):
            linear(block + name, width, d, bias or c["include_qkv_bias"])
        linear(block + "attn_out", d, d, bias)
        linear(block + "ff_proj", inner, d, bias)
        linear(block + "up_proj", inner, d, bias)
        linear(block + "ff_out", d, inner, bias)
    norm(base + "ln_f", d)
    if not c["weight_tying"]:
        linear(base + "ff_out", rows, d, bias)
    return shapes


def random_tensors(c, generator):
    """Random values everywhere, scaled so that activations and logits keep a real range."""
    less_one = c["layer_norm_type"] == "gemma_rms"
    tensors = {}
    for name, shape in shapes_of(c).items():
        values = torch.randn(shape, generator=generator)
        if name.endswith(".bias"):
            values *= 0.4
        elif len(shape) == 1:
            values = (-0.5 if less_one else 0.5) + torch.rand(shape, generator=generator)
        elif name.endswith("wte.weight"):
            # Where the head is tied to it, large rows would have every mask predict itself.
            values *= 0.3 if c["input_emb_norm"] or c["weight_tying"] else 1.0
        else:
            head = name == "model.transformer.ff_out.weight"
            values *= (3.0 if head else 1.3) / shape[1] ** 0.5
        tensors[name] = values
    return tensors


class Llada:
    """The forward pass over one text: every token sees all others."""

    def __init__(self, c, tensors):
        self.c, self.t = c, tensors

    def linear(self, x, name):
        return F.linear(x, self.t[name + ".weight"], self.t.get(name + ".bias"))

    def norm(self, x, name):
        weight, bias = self.t[name + ".weight"], self.t.get(name + ".bias")
        kind = self.c["layer_norm_type"]
        if kind == "default":
            return F.layer_norm(x, x.shape[-1:], weight, bias, 1e-5)
        x = x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + self.c["rms_norm_eps"])
        return x * (1 + weight) if kind == "gemma_rms" else weight * x

    def rotated(self, x):
        """x is [tokens, heads, head_dim]; the halves of a head turn together."""
        tokens, _, dim = x.shape
        inverse = 1.0 / self.c["rope_theta"] ** (torch.arange(0, dim, 2).float() / dim)
        angle = torch.outer(torch.arange(tokens).float(), inverse)
        angle = torch.cat((angle, angle), dim=-1)[:, None]
        first, second = x.chunk(2, dim=-1)
        return x * angle.cos() + torch.cat((-second, first), dim=-1) * angle.sin()

    def attention(self, x, block):
        c, tokens = self.c, x.shape[0]
        q, k, v = (self.linear(x, block + name) for name in ("q_proj", "k_proj", "v_proj"))
        if c["attention_layer_norm"]:
            q, k = self.norm(q, block + "q_norm"), self.norm(k, block + "k_norm")
        q, k, v = (y.view(tokens, -1, c["d_model"] // c["n_heads"]) for y in (q, k, v))
        q, k = self.rotated(q), self.rotated(k)
        group = q.shape[1] // k.shape[1]
        k, v = k.repeat_interleave(group, dim=1), v.repeat_interleave(group, dim=1)
        scores = torch.einsum("qhd,khd->hqk", q, k) / q.shape[-1] ** 0.5
        out = torch.einsum("hqk,khd->qhd", scores.softmax(-1), v).reshape(tokens, -1)
        return self.linear(out, block + "attn_out")

    def __call__(self, tokens):
        c = self.c
        x = self.t["model.transformer.wte.weight"][tokens]
        if c["input_emb_norm"]:
            x = x * c["d_model"] ** 0.5
        act = {"silu": F.silu, "gelu": F.gelu, "relu": F.relu}[c["activation_type"]]
        for i in range(c["n_layers"]):
            block = f"model.transformer.blocks.{i}."
            x = x + self.attention(self.norm(x, block + "attn_norm"), block)
            y = self.norm(x, block + "ff_norm")
            y = act(self.linear(y, block + "ff_proj")) * self.linear(y, block + "up_proj")
            x = x + self.linear(y, block + "ff_out")
        x = self.norm(x, "model.transformer.ln_f")
        if c["weight_tying"]:
            logits = F.linear(x, self.t["model.transformer.wte.weight"])
        else:
            logits = self.linear(x, "model.transformer.ff_out")
        return logits / c["d_model"] ** 0.5 if c["scale_logits"] else logits


def mixed(x):
    x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9 & MASK64
    x = (x ^ (x >> 27)) * 0x94D049BB133111EB & MASK64
    return x ^ (x >> 31)


def chance(seed, passes, position):
    start = (seed + (passes + 1) * GOLDEN) & MASK64
    return (mixed((mixed(start) + position) & MASK64) >> 11) * 2.0**-53


def generate(model, prompt, gen_length, block_length, steps, remasking, seed):
    """The published algorithm at temperature 0, without classifier-free guidance. Of candidates that are
    equally sure the first ones are taken; torch.topk leaves that open."""
    mask = model.c["mask_token_id"]
    x = torch.tensor(prompt + [mask] * gen_length)
    blocks = gen_length // block_length
    steps //= blocks
    passes = 0
    least_gap = float("inf")
    for block in range(blocks):
        end = len(prompt) + (block + 1) * block_length
        for step in range(steps):
            count = block_length // steps + (step < block_length % steps)
            logits = model(x).double()
            drawn = logits.argmax(-1)
            sure = logits.softmax(-1)[torch.arange(len(x)), drawn]
            if remasking == "random":
                sure = torch.tensor([chance(seed, passes, i) for i in range(len(x))]).double()
            open_places = [i for i in range(end) if x[i] == mask]
            order = sorted(open_places, key=lambda i: (-sure[i].item(), i))
            if remasking == "low_confidence":
                best = logits.topk(2).values
                least_gap = min([least_gap] + [(best[i, 0] - best[i, 1]).item()
                                               for i in order[:count]])
                if count < len(order):
                    least_gap = min(least_gap, (sure[order[count - 1]] - sure[order[count]]).item())
            for i in order[:count]:
                x[i] = drawn[i]
            passes += 1
    return x[len(prompt):].tolist(), least_gap


def answers_of(model, generator):
    answers, least_gap = [], float("inf")
    for number, (gen_length, block_length, steps, remasking) in enumerate(SETTINGS):
        length = 5 + 4 * number
        prompt = torch.randint(3, 90, (length,), generator=generator).tolist()
        tokens, gap = generate(model, prompt, gen_length, block_length, steps, remasking, number)
        least_gap = min(least_gap, gap)
        answers.append(dict(prompt=prompt, gen_length=gen_length, block_length=block_length,
                            steps=steps, remasking=remasking, seed=number, tokens=tokens))
    return answers, least_gap


def make(name, root):
    c = CASES[name]
    generator = torch.Generator().manual_seed(sum(ord(l) * (i + 1) for i, l in enumerate(name)))
    folder = root / name
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    tensors = random_tensors(c, generator)
    save_file(tensors, folder / "model.safetensors", metadata={"format": "pt"})
    (folder / "config.json").write_text(json.dumps(c, indent=1) + "\n")
    model = Llada(c, tensors)
    tokens = torch.randint(0, c["vocab_size"], (TOKENS,), generator=generator)
    logits = model(tokens)
    np.save(folder / "tokens.npy", tokens.numpy().astype(np.int32))
    np.save(folder / "logits.npy", logits.numpy())
    answers, least_gap = answers_of(model, generator)
    lines = ",\n".join(json.dumps(answer) for answer in answers)
    (folder / "answers.json").write_text(f"[\n{lines}\n]\n")
    if name == "llada":
        seed = re.sub(r"\s+", " ", (folder / "config.json").read_text())
        (root.parents[1] / "fuzz/corpus/model_config/llada.json").write_text(seed)
    size = sum(file.stat().st_size for file in folder.iterdir())
    print(f"{name:16} logits {logits.min():7.2f} … {logits.max():6.2f}  {size / 1024:5.0f} KiB, "
          f"least gap {least_gap:.1e}")


def main():
    root = pathlib.Path(__file__).resolve().parent / "models"
    for name in sys.argv[1:] or CASES:
        make(name, root)


if __name__ == "__main__":
    main()
