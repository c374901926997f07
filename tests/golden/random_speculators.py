#!/usr/bin/env python3
"""Makes heads with speculators' own code, with sizes and options by chance, and what it computes for
them: for tests/pipeline/heads/outside_heads_test.cc.

Usage: random_speculators.py FOLDER COUNT [SEED]   (needs speculators 0.9.0 with its requirements)

Each folder is a head as save_pretrained writes it, next to golden.safetensors as in tests/golden/heads,
with "target" [tokens, hidden size, layers] and the target's "embedding" and "head" where the folder
leaves them out. Heads of modules go on from their own states as engines do, at the next position.
"""
import pathlib
import random
import shutil
import sys
import warnings

import torch
from safetensors import safe_open
from safetensors.torch import save_file
from speculators import SpeculatorModel, SpeculatorModelConfig
from speculators.config import SpeculatorsConfig, VerifierConfig
from speculators.models.eagle3.rotary_partial import install_partial_neox_rotary
from speculators.proposals.greedy import GreedyTokenProposalConfig
from transformers import AutoConfig, LlamaConfig, Qwen3Config

warnings.filterwarnings("ignore")
STEPS, ROWS, TOKENS, ANCHORS = 3, 8, 14, (2, 7)


class Dice(random.Random):
    def maybe(self, share=0.5):
        return self.random() < share


def sizes(dice):
    kv = dice.choice([1, 1, 2, 3])
    heads = kv * dice.choice([1, 2, 3, 4])
    # LlamaConfig wants a multiple, whatever head_dim is.
    hidden = dice.choice([8, 12, 20, 24, 40, 48, 66])
    return dict(hidden_size=hidden - hidden % heads or heads,
                intermediate_size=dice.choice([7, 16, 24, 33, 64]),
                num_attention_heads=heads, num_key_value_heads=kv,
                head_dim=dice.choice([2, 4, 6, 8, 10, 16, 32]),
                vocab_size=dice.choice([17, 40, 63, 128, 201]),
                max_position_embeddings=dice.choice([64, 128, 4096]),
                rms_norm_eps=dice.choice([1e-6, 1e-5, 1e-3]))


def ropes(dice):
    base = {"rope_theta": dice.choice([500.0, 10000.0, 1e6, 5e6])}
    kind = dice.choice(["default"] * 3 + ["linear", "llama3", "yarn"])
    more = {"linear": {"factor": 4.0},
            "llama3": {"factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0,
                       "original_max_position_embeddings": 32},
            "yarn": {"factor": 4.0, "original_max_position_embeddings": 32}}.get(kind, {})
    return {"rope_type": kind, **base, **more}


def windows(dice, count):
    """Some layers see a few tokens only, no fewer than a block has; nothing where all see all."""
    kinds = [dice.choice(["full_attention", "sliding_attention"]) for _ in range(count)]
    if "sliding_attention" not in kinds or dice.maybe(0.6):
        return {}
    return {"layer_types": kinds, "sliding_window": dice.randrange(4, 8), "use_sliding_window": True}


def layers_of(dice, kind, count, windowed=False):
    common = dict(sizes(dice), num_hidden_layers=count, rope_parameters=ropes(dice),
                  attention_bias=dice.maybe(0.3),
                  hidden_act=dice.choice(["silu"] * 4 + ["gelu", "gelu_pytorch_tanh", "relu"]))
    if windowed:
        common.update(windows(dice, count))
        # Of each head's elements a part turns, as vLLM has it.
        if dice.maybe(0.2) and common["head_dim"] % 4 == 0:
            common["rope_parameters"]["partial_rotary_factor"] = 0.5
    if kind == "llama":
        config = LlamaConfig(**common, mlp_bias=dice.maybe(0.3))
    else:
        config = Qwen3Config(**common)
    config._attn_implementation = "eager"
    return config


def hybrid_layers(dice, kind):
    """The config of a whole target, of which the module is one layer."""
    more = dict(linear_conv_kernel_dim=4, linear_key_head_dim=6, linear_value_head_dim=6,
                linear_num_key_heads=2, linear_num_value_heads=4,
                layer_types=["linear_attention", "full_attention", "linear_attention"])
    if "moe" in kind or kind == "qwen3_next":
        more.update(num_experts=4, num_experts_per_tok=2, moe_intermediate_size=10,
                    shared_expert_intermediate_size=14)
    common = sizes(dice)
    common["head_dim"] = dice.choice([8, 16])
    config = AutoConfig.for_model(
        kind, **common, num_hidden_layers=3, **more,
        rope_parameters={"rope_type": "default", "rope_theta": 10000.0,
                         "partial_rotary_factor": 0.5})
    config._attn_implementation = "eager"
    return config


def said(algorithm, tokens):
    return SpeculatorsConfig(
        algorithm=algorithm, proposal_methods=[GreedyTokenProposalConfig(speculative_tokens=tokens)],
        default_proposal_method="greedy",
        verifier=VerifierConfig(name_or_path=None, architectures=["LlamaForCausalLM"]))


def draft_tokens(dice, layers):
    whole = layers.vocab_size
    return whole if dice.maybe(0.4) else dice.randrange(2, whole)


def eagle3(dice, parallel):
    layers = layers_of(dice, dice.choice(["llama", "qwen3"]), dice.choice([1, 1, 1, 2, 3]), True)
    norm = dice.choice(["none", "none", "whole", "each"])
    count = dice.choice([2, 3, 3, 4])
    target = dice.randrange(count, 12)
    fields = dict(draft_vocab_size=draft_tokens(dice, layers),
                  eagle_aux_hidden_state_layer_ids=sorted(dice.sample(range(1, target + 1), count)),
                  norm_before_residual=dice.maybe(), norm_before_fc=norm == "whole",
                  fc_norm=norm == "each", norm_output=dice.maybe(0.4))
    if parallel:
        fields["mask_token_id"] = layers.vocab_size - 1
    return layers, fields, target


def block(dice, markov):
    layers = layers_of(dice, "qwen3", dice.choice([1, 1, 2, 3]))
    count = dice.choice([1, 2, 3, 5])
    target = dice.randrange(count, 12)
    fields = dict(draft_vocab_size=draft_tokens(dice, layers), block_size=dice.randrange(2, 7),
                  mask_token_id=dice.randrange(layers.vocab_size),
                  aux_hidden_state_layer_ids=sorted(dice.sample(range(1, target + 1), count)),
                  sample_from_anchor=dice.maybe())
    if markov:
        rank = dice.choice([0, 3, 8])
        confident = dice.maybe()
        fields.update(markov_rank=rank, markov_head_type=dice.choice(["vanilla", "gated"]),
                      enable_confidence_head=confident,
                      confidence_head_with_markov=confident and rank > 0 and dice.maybe())
    return layers, fields, target


def module(dice):
    kind = dice.choice(["qwen3", "qwen3", "qwen3_next", "qwen3_5_text", "qwen3_5_moe_text"])
    if kind == "qwen3":
        layers = layers_of(dice, "qwen3", dice.choice([1, 4]))
    else:
        layers = hybrid_layers(dice, kind)
    return layers, {}, layers.num_hidden_layers


MAKERS = {"eagle3": lambda dice: eagle3(dice, False), "peagle": lambda dice: eagle3(dice, True),
          "dflash": lambda dice: block(dice, False), "dspark": lambda dice: block(dice, True),
          "mtp": module}


def randomise(model, generator):
    for name, value in sorted(model.named_parameters()):
        noise = torch.randn(value.shape, generator=generator)
        with torch.no_grad():
            if value.dim() == 1 and "norm" in name:
                value.copy_((0.0 if value.abs().max() == 0 else 1.0) + 0.2 * noise)
            elif name in ("embed_tokens.weight", "mask_hidden"):
                value.copy_(noise)
            else:
                value.copy_(noise / max(1, value.shape[-1]) ** 0.5)


def build(dice, algorithm, generator):
    layers, fields, target = MAKERS[algorithm](dice)
    tokens = fields.get("block_size", STEPS)
    config = SpeculatorModelConfig.registry[algorithm](
        transformer_layer_config=layers, speculators_config=said(algorithm, tokens), **fields)
    config.transformer_layer_config._attn_implementation = "eager"
    model = SpeculatorModel.registry[algorithm](config).eval()
    randomise(model, generator)
    if getattr(model, "use_draft_vocab", False):
        whole = layers.vocab_size
        ids = torch.randperm(whole, generator=generator)[:model.draft_vocab_size].sort().values
        known = torch.zeros(whole, dtype=torch.bool)
        known[ids] = True
        model.load_vocab_mappings(known, ids - torch.arange(len(ids)))
    kind = dice.choice([torch.float32] * 2 + [torch.bfloat16, torch.float16])
    for value in model.parameters():  # buffers of rotations stay as exact as they are
        value.data = value.data.to(kind)
    return model, config, target


def chain_of_module(model, tokens, hidden):
    layer, whole = model.mtp_layers[0], model.lm_head.out_features
    logits = torch.zeros(STEPS, ROWS, whole)

    def run(pairs):
        ids, states = torch.tensor([[t for t, _ in pairs]]), torch.stack([s for _, s in pairs])[None]
        count = len(pairs)
        at = torch.arange(count)[None]
        mask = torch.full((count, count), -1e30).triu(1)[None, None]
        try:
            turned = model.rotary_emb(states, at)
        except (IndexError, ValueError, RuntimeError):
            turned = model.rotary_emb(states, at[None].expand(3, 1, count))
        out = layer(hidden_states=states, token_embeddings=model.embed_tokens(ids),
                    attention_mask=mask, position_ids=at, position_embeddings=turned)
        return out[0, -1], model.lm_head(out)[0, -1]

    for column in range(ROWS):
        pairs = [(int(tokens[i + 1]), hidden[i]) for i in range(column + 1)]
        state, logits[0, column] = run(pairs)
        for step in range(1, STEPS):
            if column + 1 + step >= len(tokens):
                break
            pairs.append((int(tokens[column + 1 + step]), state))
            state, logits[step, column] = run(pairs)
    return logits


@torch.no_grad()
def golden(model, config, algorithm, generator):
    width, whole = config.transformer_layer_config.hidden_size, config.transformer_layer_config.vocab_size
    caught = []
    model.lm_head.register_forward_hook(lambda m, i, o: caught.append((i[0].clone(), o.clone())))
    draw = lambda rows, parts: torch.randn(1, rows, parts * width, generator=generator)
    some = lambda rows: torch.randint(0, whole, (1, rows), generator=generator)
    if algorithm == "mtp":
        hidden, tokens = draw(ROWS, 1)[0], some(ROWS + 1)[0]
        return {"tokens": tokens, "hidden": hidden, "logits": chain_of_module(model, tokens, hidden)}
    core = sys.modules[type(model).__module__]
    if algorithm == "eagle3":
        hidden = draw(ROWS, len(config.eagle_aux_hidden_state_layer_ids))
        tokens = some(ROWS + 1)
        # With windows, training lets drafts see the window of the row that they go on from.
        steps = 1 if model.uses_sliding_window_attn else STEPS
        model(hidden, tokens[:, 1:], torch.zeros(1, ROWS, dtype=torch.long), ttt_steps=steps)
        return {"tokens": tokens[0], "hidden": hidden[0],
                "logits": torch.stack([logits[0] for _, logits in caught])}
    if algorithm == "peagle":
        hidden = draw(TOKENS, len(config.eagle_aux_hidden_state_layer_ids))
        tokens, depths = some(TOKENS), 4
        rows = max(ANCHORS)
        core.generate_cod_sample_indices = lambda **_: (
            torch.cat([torch.arange(rows)] * depths),
            torch.cat([torch.full((rows,), d) for d in range(depths)]))
        core.compute_metrics = lambda **_: (torch.zeros(()), {})
        model(hidden, torch.cat([tokens[:, 1:], tokens[:, :1]], 1),
              torch.zeros(1, TOKENS, dtype=torch.long),
              verifier_last_hidden_states=torch.zeros(1, TOKENS, width))
        states, logits = caught[0][0][0], caught[0][1][0]
        at = lambda values: torch.stack(
            [torch.stack([values[d * rows + a - 1] for d in range(depths)]) for a in ANCHORS])
        out = {"logits": at(logits), "tokens": tokens[0], "hidden": hidden[0]}
        # Without norm_output a head goes on from the state before its last norm.
        out["states"] = at(states if config.norm_output else model.before_norm[0])
        return dict(out, anchors=torch.tensor(ANCHORS))
    size, from_anchor = config.block_size, config.sample_from_anchor
    hidden, tokens = draw(TOKENS, len(config.aux_hidden_state_layer_ids)), some(TOKENS)
    mask = torch.zeros(1, TOKENS, dtype=torch.long)
    mask[0, list(ANCHORS)] = 1
    kept = {}

    def grab(*args, **_):
        kept["args"] = args
        return torch.zeros(()), {}

    core.compute_metrics = grab
    model(hidden, tokens, mask, torch.zeros(1, TOKENS, width),
          torch.zeros(1, TOKENS, dtype=torch.long), max_anchors=2)
    first = 0 if from_anchor else 1
    parts = lambda values: values.reshape(2, size, -1)[:, first:].contiguous()
    out = {"tokens": tokens[0], "hidden": hidden[0], "anchors": torch.tensor(ANCHORS),
           "states": parts(caught[0][0]), "logits": parts(caught[0][1])}
    if algorithm == "dspark":
        if config.markov_rank > 0:
            out["followed"] = parts(kept["args"][0])
        if config.enable_confidence_head:
            out["confidence"] = parts(kept["args"][2])[..., 0]
    return out


def make(folder, dice, algorithm, seed):
    generator = torch.Generator().manual_seed(seed)
    model, config, target = build(dice, algorithm, generator)
    model.save_pretrained(folder, max_shard_size=dice.choice(["5GB", "5GB", "4KB"]))
    for extra in folder.glob("*.py"):
        extra.unlink()
    stored = set()
    for part in folder.glob("*.safetensors"):
        with safe_open(part, "pt") as file:
            stored |= set(file.keys())
    model.float()
    if hasattr(model, "norm"):
        model.norm.register_forward_pre_hook(
            lambda _, inputs: setattr(model, "before_norm", inputs[0].clone()))
    out = golden(model, config, algorithm, generator)
    layers = config.transformer_layer_config
    out["target"] = torch.tensor([layers.vocab_size, layers.hidden_size, target])
    for key, name in (("embed_tokens.weight", "embedding"), ("lm_head.weight", "head")):
        if key not in stored:
            out[name] = model.state_dict()[key]
    save_file({name: value.detach().clone().contiguous() for name, value in out.items()},
              folder / "golden.safetensors")


def main():
    torch.set_num_threads(1)
    install_partial_neox_rotary()
    root, count = pathlib.Path(sys.argv[1]), int(sys.argv[2])
    first = int(sys.argv[3]) if len(sys.argv) > 3 else 1
    for seed in range(first, first + count):
        dice = Dice(seed)
        algorithm = list(MAKERS)[seed % len(MAKERS)]
        folder = root / ("%s-%d" % (algorithm, seed))
        shutil.rmtree(folder, ignore_errors=True)
        make(folder, dice, algorithm, seed)


if __name__ == "__main__":
    main()
