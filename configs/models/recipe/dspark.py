#!/usr/bin/env python3
"""Trains a DSpark head for a small model on text that the model writes itself.

    configs/models/recipe/dspark.py train MODEL HEAD [--tokens N] [--steps N]
    configs/models/recipe/dspark.py measure MODEL HEAD TEXT [--drafts K] [--prompts FILE]

As recipe/eagle3.py, with another head: a layer over the last token and masks, which reads two of
the model's states as keys and values and proposes a block of tokens in one pass, each made likelier
or not by the token before it, and says how likely each is to be kept (docs/formats/heads.md). It
borrows the model's embedding and LM head. `train` writes the folder HEAD as speculators would.

The head is trained on blocks after random tokens of a text: each place is held against the model's
own distribution there, given the text's tokens before it.
"""
import argparse
import json
import pathlib
import time

import torch
import torch.nn.functional as F
from safetensors.torch import load_file, save_file
from torch import nn

import eagle3
from eagle3 import BATCH, SEED, STATES, Text, open_model, rms, write_text

HEADS, KV_HEADS, INNER, BLOCK, RANK = 2, 1, 256, 5, 48
ANCHORS = 32  # blocks of a window, a step


class Head(nn.Module):
    def __init__(self, config):
        super().__init__()
        hidden, dim = config.hidden_size, config.head_dim
        self.dim, self.eps, self.theta = dim, config.rms_norm_eps, config.rope_parameters["rope_theta"]
        self.mask = config.eos_token_id + 1  # of a chat, which the model has not seen
        sizes = {"fc": (hidden, len(STATES) * hidden), "q_proj": (HEADS * dim, hidden),
                 "k_proj": (KV_HEADS * dim, hidden), "v_proj": (KV_HEADS * dim, hidden),
                 "o_proj": (hidden, HEADS * dim), "gate_proj": (INNER, hidden),
                 "up_proj": (INNER, hidden), "down_proj": (hidden, INNER),
                 "markov_w1": (config.vocab_size, RANK), "markov_w2": (config.vocab_size, RANK),
                 "confidence": (1, hidden + RANK)}
        self.w = nn.ParameterDict({name: nn.Parameter(torch.randn(size) / size[1]**0.5)
                                   for name, size in sizes.items()})
        self.w["confidence_bias"] = nn.Parameter(torch.zeros(1))
        for name in ("input_layernorm", "hidden_norm", "post_attention_layernorm", "norm"):
            self.w[name] = nn.Parameter(torch.ones(hidden))
        for name in ("q_norm", "k_norm"):
            self.w[name] = nn.Parameter(torch.ones(dim))
        with torch.no_grad():
            self.w["markov_w2"].mul_(0.1), self.w["confidence"].mul_(0.1)

    def turned(self, x, positions):
        """x [..., rows, heads, dim], positions [..., rows]."""
        angles = positions[..., None, None] * self.theta**(-torch.arange(0, self.dim, 2) / self.dim)
        cos, sin = torch.cat([angles.cos()] * 2, -1), torch.cat([angles.sin()] * 2, -1)
        left, right = x.chunk(2, -1)
        return x * cos + torch.cat([-right, left], -1) * sin

    def kv(self, x, positions):
        split = lambda y: y.unflatten(-1, (KV_HEADS, self.dim))
        k = self.turned(rms(split(x @ self.w["k_proj"].T), self.w["k_norm"], self.eps), positions)
        return (y.repeat_interleave(HEADS // KV_HEADS, -2)
                for y in (k, split(x @ self.w["v_proj"].T)))

    def context(self, states):
        """Keys and values of the model's states [batch, rows, states]."""
        c = rms(states @ self.w["fc"].T, self.w["hidden_norm"], self.eps)
        return tuple(self.kv(c, torch.arange(c.shape[1]).expand(c.shape[:2])))

    def forward(self, context, embedded, anchors):
        """embedded [batch, anchors, BLOCK, hidden], of blocks at positions anchors [batch, anchors];
        each sees the context before it and all of itself. The states after the last norm."""
        w, (keys, values) = self.w, context
        positions = anchors[..., None] + torch.arange(BLOCK)
        read = rms(embedded, w["input_layernorm"], self.eps)
        q = (read @ w["q_proj"].T).unflatten(-1, (HEADS, self.dim))
        q = self.turned(rms(q, w["q_norm"], self.eps), positions)
        k, v = self.kv(read, positions)
        before = torch.einsum("bajhd,bkhd->bahjk", q, keys)
        seen = torch.arange(keys.shape[1]) < anchors[..., None]
        before = before.masked_fill(~seen[:, :, None, None], float("-inf"))
        own = torch.einsum("bajhd,bakhd->bahjk", q, k)
        shares = (torch.cat([before, own], -1) / self.dim**0.5).softmax(-1)
        count = keys.shape[1]
        out = torch.einsum("bahjk,bkhd->bajhd", shares[..., :count], values) + \
            torch.einsum("bahjk,bakhd->bajhd", shares[..., count:], v)
        x = embedded + out.flatten(-2) @ w["o_proj"].T
        inner = rms(x, w["post_attention_layernorm"], self.eps)
        x = x + (F.silu(inner @ w["gate_proj"].T) * (inner @ w["up_proj"].T)) @ w["down_proj"].T
        return rms(x, w["norm"], self.eps)

    def logits(self, states, before, lm_head):
        """What the tokens after `before` are, and how likely they are to be kept, as a logit."""
        markov = self.w["markov_w1"][before]
        sure = torch.cat([states, markov], -1) @ self.w["confidence"].T + self.w["confidence_bias"]
        return states @ lm_head.T + markov @ self.w["markov_w2"].T, sure[..., 0]

    def block_of(self, model, tokens):
        """[..., BLOCK, hidden]: the tokens' embeddings, and masks after each."""
        masks = torch.full((*tokens.shape, BLOCK), self.mask)
        masks[..., 0] = tokens
        return model.model.embed_tokens(masks)


def loss_of(head, model, text, windows, generator):
    tokens, lm_head = text.tokens[windows], model.lm_head.weight
    rows = tokens.shape[1] - BLOCK
    anchors = torch.randint(1, rows, (len(windows), ANCHORS), generator=generator)
    places = anchors[..., None] + torch.arange(BLOCK)  # [batch, anchors, BLOCK]
    at = lambda values: values[torch.arange(len(windows))[:, None, None], places]
    context = head.context(text.features[windows, :rows].float())
    states = head(context, head.block_of(model, tokens.gather(1, anchors)), anchors)
    logits, sure = head.logits(states, at(tokens), lm_head)
    goal = at(text.normed[windows].float()) @ lm_head.T
    best, wanted, weight = goal.argmax(-1), goal.softmax(-1), 0.85**torch.arange(BLOCK)
    said = logits.log_softmax(-1)
    each = -(wanted * said).sum(-1) - said.gather(-1, best[..., None])[..., 0]
    kept = torch.minimum(wanted, said.detach().exp()).sum(-1)
    loss = (each * weight).mean() + 0.2 * F.binary_cross_entropy_with_logits(sure, kept)
    agree = (logits.argmax(-1) == best).float().mean((0, 1))
    return loss, agree.tolist()


def train(args):
    generator = torch.Generator().manual_seed(SEED)
    torch.manual_seed(SEED)
    model = open_model(args.model)
    head = Head(model.config)
    head.w["norm"].data.copy_(model.model.norm.weight)
    begun = time.monotonic()
    text = Text(model, write_text(model, args.tokens, generator))
    print(f"{text.tokens.numel()} tokens written in {time.monotonic() - begun:.0f} s", flush=True)
    optimizer = torch.optim.AdamW(head.parameters(), weight_decay=0.01, betas=(0.9, 0.95))
    for step in range(args.steps):
        if step % (len(text.tokens) // BATCH) == 0:
            order = torch.randperm(len(text.tokens), generator=generator)
        first = step * BATCH % (len(order) - len(order) % BATCH)
        for group in optimizer.param_groups:
            group["lr"] = 3e-3 * min(1.0, (step + 1) / 30) * (1.02 - step / args.steps)
        loss, agree = loss_of(head, model, text, order[first:first + BATCH], generator)
        optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(head.parameters(), 1.0)
        optimizer.step()
        if step % 50 == 0 or step + 1 == args.steps:
            print(step, f"{loss.item():.3f}", [round(share, 3) for share in agree], flush=True)
            write_head(head, model.config, pathlib.Path(args.head))


PLACES = {"fc": "fc", "norm": "norm", "hidden_norm": "hidden_norm",
          "markov_w1": "markov_head.markov_w1", "markov_w2": "markov_head.markov_w2",
          "confidence": "confidence_head.proj"}


def place_of(name):
    if name == "confidence_bias":
        return "confidence_head.proj.bias"
    attention = name[1:] in ("_proj", "_norm")
    within = "self_attn." if attention else "mlp." if name.endswith("proj") else ""
    return PLACES.get(name, f"layers.0.{within}{name}") + ".weight"


def write_head(head, config, folder):
    folder.mkdir(parents=True, exist_ok=True)
    save_file({place_of(name): value.detach().bfloat16().contiguous()
               for name, value in head.w.items()}, folder / "model.safetensors",
              metadata={"format": "pt"})
    layer = {"model_type": "qwen3", "hidden_act": "silu", "hidden_size": config.hidden_size,
             "intermediate_size": INNER, "num_hidden_layers": 1, "num_attention_heads": HEADS,
             "num_key_value_heads": KV_HEADS, "head_dim": config.head_dim,
             "vocab_size": config.vocab_size, "rms_norm_eps": config.rms_norm_eps,
             "max_position_embeddings": config.max_position_embeddings,
             "layer_types": ["full_attention"], "attention_bias": False,
             "rope_parameters": {"rope_theta": head.theta, "rope_type": "default"},
             "tie_word_embeddings": False}
    said = {"architectures": ["DSparkDraftModel"], "speculators_model_type": "dspark",
            "aux_hidden_state_layer_ids": STATES, "block_size": BLOCK,
            "draft_vocab_size": config.vocab_size, "dtype": "bfloat16",
            "mask_token_id": head.mask, "sample_from_anchor": True, "markov_rank": RANK,
            "markov_head_type": "vanilla", "enable_confidence_head": True,
            "confidence_head_with_markov": True, "transformer_layer_config": layer}
    (folder / "config.json").write_text(json.dumps(said, indent=1) + "\n")


def read_head(config, folder):
    head = Head(config)
    tensors = load_file(pathlib.Path(folder) / "model.safetensors")
    head.load_state_dict({"w." + name: tensors[place_of(name)].float() for name in head.w})
    return head.eval()


@torch.no_grad()
def chain_of(head, model, text, features, known, drafts):
    """What the head proposes after `known` tokens of `text`."""
    anchors = torch.tensor([[known - 1]])
    context = head.context(features[None, :known - 1])
    states = head(context, head.block_of(model, text[None, known - 1:known]), anchors)
    out, before = [], text[known - 1]
    for place in range(min(drafts, BLOCK)):
        before = head.logits(states[0, 0, place], before, model.lm_head.weight)[0].argmax(-1)
        out.append(before.item())
    return out


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parts = parser.add_subparsers(required=True)
    one = parts.add_parser("train")
    one.add_argument("model"), one.add_argument("head")
    one.add_argument("--tokens", type=int, default=80_000, help="of text that the model writes")
    one.add_argument("--steps", type=int, default=600, help="of eight pieces of that")
    one.set_defaults(run=train)
    one = parts.add_parser("measure")
    one.add_argument("model"), one.add_argument("head"), one.add_argument("text")
    one.add_argument("--drafts", type=int, default=BLOCK)
    one.add_argument("--pieces", type=int, default=40, help="of the text, as prompts")
    one.add_argument("--prompts", help="file to write these to, for `tenon run --file`")
    one.set_defaults(run=lambda args: eagle3.measure(args, read_head, chain_of))
    args = parser.parse_args()
    args.run(args)


if __name__ == "__main__":
    main()
