#!/usr/bin/env python3
"""Trains an EAGLE-3 head for a small model on text that the model writes itself.

    configs/models/recipe/eagle3.py train MODEL HEAD [--tokens N] [--steps N]
    configs/models/recipe/eagle3.py measure MODEL HEAD TEXT [--drafts K] [--prompts FILE]

MODEL is a folder of a Llama with tied embeddings, such as configs/models/tale. `train` writes the
folder HEAD (docs/formats/heads.md): a layer that reads two of the model's states and borrows its
embedding and LM head, in BF16. `measure` continues pieces of TEXT greedily and counts the drafts
that agree, as an engine would keep them. Needs torch, transformers and safetensors; on two cores
configs/models/tale takes five minutes.

The head is trained as it is used (EAGLE-3, arXiv:2503.01840): its second draft goes on from its own
state after the first, and so on, and each is held against the model's distribution there.
"""
import argparse
import json
import pathlib
import time

import torch
import torch.nn.functional as F
from safetensors.torch import load_file, save_file
from torch import nn
from transformers import AutoModelForCausalLM, AutoTokenizer

STATES = [3, 6]  # what enters layer 3 of 6, and what leaves the last
HEADS, KV_HEADS, INNER = 2, 1, 128
STEPS, WINDOW, BATCH, SEED = 3, 256, 8, 7
PROMPT, ANSWER = 64, 128  # tokens of `measure`


def rms(x, weight, eps):
    return x * torch.rsqrt(x.square().mean(-1, keepdim=True) + eps) * weight


class Head(nn.Module):
    """The layer. Rows are [batch, rows, hidden]; row i reads token i + 1 and the states at i."""

    def __init__(self, config):
        super().__init__()
        hidden, dim = config.hidden_size, config.head_dim
        self.dim, self.eps, self.theta = dim, config.rms_norm_eps, config.rope_parameters["rope_theta"]
        sizes = {"fc": (hidden, len(STATES) * hidden),
                 "q_proj": (HEADS * dim, 2 * hidden), "k_proj": (KV_HEADS * dim, 2 * hidden),
                 "v_proj": (KV_HEADS * dim, 2 * hidden), "o_proj": (hidden, HEADS * dim),
                 "gate_proj": (INNER, hidden), "up_proj": (INNER, hidden),
                 "down_proj": (hidden, INNER)}
        self.w = nn.ParameterDict({name: nn.Parameter(torch.randn(size) / size[1]**0.5)
                                   for name, size in sizes.items()})
        for name in ("input_layernorm", "hidden_norm", "post_attention_layernorm", "norm"):
            self.w[name] = nn.Parameter(torch.ones(hidden))
        with torch.no_grad():  # begins as the model's last state, to which the layer adds little
            self.w["fc"].mul_(0.1)[:, -hidden:] += torch.eye(hidden)
            self.w["o_proj"].mul_(0.1), self.w["down_proj"].mul_(0.1)

    def turned(self, x, positions):
        angles = positions[:, None] * self.theta**(-torch.arange(0, self.dim, 2) / self.dim)
        cos, sin = torch.cat([angles.cos()] * 2, -1), torch.cat([angles.sin()] * 2, -1)
        left, right = x.chunk(2, -1)
        return x * cos + torch.cat([-right, left], -1) * sin

    def forward(self, embedded, f, positions, kept):
        """One row for each column. kept[0] has keys and values of the rows of columns before;
        kept[1:] those of the same column's earlier drafts."""
        w, (batch, rows, _) = self.w, f.shape
        read = torch.cat([rms(embedded, w["input_layernorm"], self.eps),
                          rms(f, w["hidden_norm"], self.eps)], -1)
        split = lambda y, heads: y.view(batch, rows, heads, self.dim).transpose(1, 2)
        q = self.turned(split(read @ w["q_proj"].T, HEADS), positions)
        k = self.turned(split(read @ w["k_proj"].T, KV_HEADS), positions)
        kept.append((k, split(read @ w["v_proj"].T, KV_HEADS)))
        first = q @ kept[0][0].transpose(-1, -2)
        columns = first.shape[-1]
        later = torch.ones(rows, columns, dtype=torch.bool).triu(columns - rows + 1)
        scores = [first.masked_fill(later, float("-inf"))]
        scores += [(q * keys).sum(-1, keepdim=True) for keys, _ in kept[1:]]
        shares = (torch.cat(scores, -1) / self.dim**0.5).softmax(-1)
        out = shares[..., :columns] @ kept[0][1]
        for i, (_, values) in enumerate(kept[1:]):
            out = out + shares[..., columns + i, None] * values
        x = f + out.transpose(1, 2).reshape(batch, rows, -1) @ w["o_proj"].T
        inner = rms(x, w["post_attention_layernorm"], self.eps)
        return x + (F.silu(inner @ w["gate_proj"].T) * (inner @ w["up_proj"].T)) @ w["down_proj"].T


def open_model(folder):
    model = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32).eval()
    for parameter in model.parameters():
        parameter.requires_grad_(False)
    return model


@torch.no_grad()
def states_of(model, tokens):
    """The states that the head reads, and the one after the final norm."""
    last = {}
    handle = model.model.norm.register_forward_pre_hook(lambda _, args: last.update(x=args[0]))
    out = model.model(tokens, output_hidden_states=True)
    handle.remove()
    streams = list(out.hidden_states[:-1]) + [last["x"]]
    return torch.cat([streams[i] for i in STATES], -1), out.last_hidden_state


@torch.no_grad()
def write_text(model, count, generator):
    """[sequences, WINDOW + 1]: beginnings are drawn freely, the rest at temperatures of 0 to 1."""
    parts, lanes = [], 128
    while sum(len(part) for part in parts) * WINDOW < count:
        warmth = torch.rand(lanes, 1, generator=generator)
        tokens = torch.full((lanes, 1), model.config.eos_token_id)
        cache, text = None, []
        for at in range(WINDOW + 1):
            out = model(tokens, past_key_values=cache, use_cache=True)
            cache, logits = out.past_key_values, out.logits[:, -1]
            heat = torch.ones_like(warmth) if at < 24 else warmth.clamp(min=0.02)
            tokens = torch.multinomial((logits / heat).softmax(-1), 1, generator=generator)
            text.append(tokens)
        parts.append(torch.cat(text, 1))
    return torch.cat(parts)


class Text:
    """What the model wrote, and what the head reads and strives for, computed once."""

    def __init__(self, model, tokens):
        self.tokens, parts = tokens, [states_of(model, part) for part in tokens.split(32)]
        self.features = torch.cat([features.half() for features, _ in parts])
        self.normed = torch.cat([normed.half() for _, normed in parts])


def loss_of(head, model, text, windows, generator):
    """Of some windows, at a quarter of their columns; and the share of first, second … drafts that
    agree."""
    tokens, normed = text.tokens[windows], text.normed[windows].float()
    lm_head, embedded = model.lm_head.weight, model.model.embed_tokens(tokens)
    rows = tokens.shape[1] - STEPS
    columns = torch.randperm(rows, generator=generator)[:rows // 4]
    f, kept, loss, agree = text.features[windows, :rows].float() @ head.w["fc"].T, [], 0.0, []
    for step in range(STEPS):
        f = head(embedded[:, 1 + step:1 + step + rows], f, torch.arange(rows) + step, kept)
        logits = (rms(f[:, columns], head.w["norm"], head.eps) @ lm_head.T).flatten(0, 1)
        goal = (normed[:, columns + 1 + step] @ lm_head.T).flatten(0, 1)
        best = goal.argmax(-1)
        loss = loss + 0.8**step * (F.cross_entropy(logits, goal.softmax(-1)) +
                                   F.cross_entropy(logits, best))
        agree.append((logits.argmax(-1) == best).float().mean().item())
    return loss, agree


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
            group["lr"] = 2e-3 * min(1.0, (step + 1) / 30) * (1.02 - step / args.steps)
        loss, agree = loss_of(head, model, text, order[first:first + BATCH], generator)
        optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(head.parameters(), 1.0)
        optimizer.step()
        if step % 50 == 0:
            print(step, f"{loss.item():.3f}", [round(share, 3) for share in agree], flush=True)
    write_head(head, model.config, pathlib.Path(args.head))


def write_head(head, config, folder):
    folder.mkdir(parents=True, exist_ok=True)
    place = {"fc": "fc", "norm": "norm"}
    for name in head.w:
        within = "self_attn." if name[1:] == "_proj" else "mlp." if name.endswith("proj") else ""
        place.setdefault(name, f"midlayer.{within}{name}")
    save_file({place[name] + ".weight": value.detach().bfloat16().contiguous()
               for name, value in head.w.items()}, folder / "model.safetensors",
              metadata={"format": "pt"})
    said = {"architectures": ["LlamaForCausalLMEagle3"], "model_type": "llama",
            "hidden_act": "silu", "hidden_size": config.hidden_size, "intermediate_size": INNER,
            "num_hidden_layers": 1, "num_attention_heads": HEADS, "num_key_value_heads": KV_HEADS,
            "head_dim": config.head_dim, "vocab_size": config.vocab_size,
            "draft_vocab_size": config.vocab_size, "target_hidden_size": config.hidden_size,
            "max_position_embeddings": config.max_position_embeddings,
            "rms_norm_eps": config.rms_norm_eps, "rope_theta": head.theta, "attention_bias": False,
            "mlp_bias": False, "tie_word_embeddings": False, "torch_dtype": "bfloat16",
            "norm_before_residual": False,
            "eagle_config": {"eagle_aux_hidden_state_layer_ids": STATES,
                             "use_aux_hidden_state": True}}
    (folder / "config.json").write_text(json.dumps(said, indent=1) + "\n")


def read_head(config, folder):
    head = Head(config)
    tensors = load_file(pathlib.Path(folder) / "model.safetensors")
    head.load_state_dict({"w." + name.removesuffix(".weight").split(".")[-1]: value.float()
                          for name, value in tensors.items()})
    return head.eval()


@torch.no_grad()
def chain_of(head, model, text, features, known, drafts):
    """What the head proposes after `known` tokens of `text`."""
    rows = known - 1
    f, kept, out = features[None, :rows] @ head.w["fc"].T, [], []
    f = head(model.model.embed_tokens(text[None, 1:known]), f, torch.arange(rows), kept)
    last = f[:, -1:]
    for draft in range(drafts):
        token = (rms(last, head.w["norm"], head.eps) @ model.lm_head.weight.T).argmax(-1)
        out.append(token.item())
        last = head(model.model.embed_tokens(token), last, torch.tensor([rows + draft]), kept)
    return out


@torch.no_grad()
def measure(args, read_head=read_head, chain_of=chain_of):
    model, tokenizer = open_model(args.model), AutoTokenizer.from_pretrained(args.model)
    head = read_head(model.config, args.head)
    ids = tokenizer(pathlib.Path(args.text).read_text(), add_special_tokens=False)["input_ids"]
    steps, kept_at, answers = 0, [0] * args.drafts, 0
    firsts = range(0, min(len(ids), args.pieces * PROMPT) - PROMPT + 1, PROMPT)
    if args.prompts:
        lines = [json.dumps({"prompt": ids[first:first + PROMPT], "max_tokens": ANSWER,
                             "temperature": 0}) for first in firsts]
        pathlib.Path(args.prompts).write_text("\n".join(lines) + "\n")
    for first in firsts:
        text = model.generate(torch.tensor([ids[first:first + PROMPT]]), max_new_tokens=ANSWER,
                              min_new_tokens=ANSWER, do_sample=False, eos_token_id=None)[0]
        features = states_of(model, text[None])[0][0]
        known = PROMPT + 1  # the prompt's own step brings the first token
        while known < len(text):
            most = min(args.drafts, len(text) - known - 1)
            kept = 0
            for token in chain_of(head, model, text, features, known, most):
                if token != text[known + kept].item():
                    break
                kept_at[kept] += 1
                kept += 1
            known, steps, answers = known + kept + 1, steps + 1, answers + kept + 1
    print(json.dumps({"tokens": answers, "steps": steps, "tokens_a_step": answers / steps,
                      "kept_at": kept_at}))


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parts = parser.add_subparsers(required=True)
    one = parts.add_parser("train")
    one.add_argument("model"), one.add_argument("head")
    one.add_argument("--tokens", type=int, default=80_000, help="of text that the model writes")
    one.add_argument("--steps", type=int, default=450, help="of eight pieces of that")
    one.set_defaults(run=train)
    one = parts.add_parser("measure")
    one.add_argument("model"), one.add_argument("head"), one.add_argument("text")
    one.add_argument("--drafts", type=int, default=4)
    one.add_argument("--pieces", type=int, default=40, help="of the text, as prompts")
    one.add_argument("--prompts", help="file to write these to, for `tenon run --file`")
    one.set_defaults(run=measure)
    args = parser.parse_args()
    args.run(args)


if __name__ == "__main__":
    main()
