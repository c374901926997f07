#!/usr/bin/env python3
"""Makes heads that draft a block in one pass, and a speculators folder of the kind mtp, in
tests/golden/heads: small ones with random weights of a seed, and what they draft.

Usage: make_block_goldens.py [FOLDER]   (needs numpy alone)

Each folder is a head as its authors or as speculators write it, next to golden.safetensors:
  tokens [14]            t_0 to t_13
  hidden [14, A * H]     the target's states at t_0 to t_13
  anchors [2]            positions of last tokens
  logits [2, K, D]       of the K tokens of a block after each anchor
  states [2, K, H]       what they were made of, after the last norm
  followed [2, K, D]     of heads with a Markov head: the logits after t_{a+j}, a the anchor
  confidence [2, K]      and how likely the head takes the token to be kept, as a logit
  embedding [V, H], head [V, H]   the target's, where the folder has none
The arithmetic is written out here in float64, after DFlash, DSpark (DeepSpec) and P-EAGLE.
"""
import json
import pathlib
import sys

import numpy as np

from make_head_goldens import (DIM, H, HEADS, KV, LAYER, THETA, V, Head, embedding_of,
                               random_weights, rms, save, turn)

ANCHORS, TOKENS, STATES = (2, 7), 14, 3


def split(x, heads):
    return x.reshape(len(x), heads, DIM)


class Block:
    """A block of masks over the target's states."""

    def __init__(self, weights, layers, embedding, head):
        self.w = {name: value.astype(np.float64) for name, value in weights.items()}
        self.layers, self.embedding, self.head = layers, embedding, head

    def states(self, hidden, tokens, positions):
        w = self.w
        context = rms(hidden @ w["fc.weight"].T, w["hidden_norm.weight"])
        x = self.embedding[tokens].astype(np.float64)
        all_positions = np.concatenate([np.arange(len(hidden)), positions])
        for index in range(self.layers):
            at = lambda name: w["layers.%d.%s.weight" % (index, name)]
            read = rms(x, at("input_layernorm"))
            both = np.concatenate([context, read])
            q = turn(rms(split(read @ at("self_attn.q_proj").T, HEADS), at("self_attn.q_norm")),
                     positions)
            k = turn(rms(split(both @ at("self_attn.k_proj").T, KV), at("self_attn.k_norm")),
                     all_positions)
            v = split(both @ at("self_attn.v_proj").T, KV)
            k, v = np.repeat(k, HEADS // KV, 1), np.repeat(v, HEADS // KV, 1)
            scores = np.einsum("qhd,khd->hqk", q, k) / np.sqrt(DIM)
            scores = np.exp(scores - scores.max(-1, keepdims=True))
            scores /= scores.sum(-1, keepdims=True)
            attended = np.einsum("hqk,khd->qhd", scores, v).reshape(len(x), -1)
            x = x + attended @ at("self_attn.o_proj").T
            inner = rms(x, at("post_attention_layernorm"))
            gate = inner @ at("mlp.gate_proj").T
            x = x + (gate / (1 + np.exp(-gate)) * (inner @ at("mlp.up_proj").T)) \
                @ at("mlp.down_proj").T
        return rms(x, w["norm.weight"])


def block_weights(rng, layers, states, draft_vocabulary):
    weights = random_weights(rng, ["layers.%d." % i for i in range(layers)], draft_vocabulary, True)
    for name in ("q", "k", "v"):
        key = "layers.0.self_attn.%s_proj.weight" % name
        weights[key] = weights[key][:, :H] * np.float32(1.4)
    weights["hidden_norm.weight"] = weights.pop("layers.0.hidden_norm.weight")
    weights["fc.weight"] = (rng.standard_normal((H, states * H)) / H).astype(np.float32)
    return weights


def write(folder, config, weights, golden):
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "config.json").write_text(json.dumps(config, indent=1) + "\n")
    save(folder / "model.safetensors", weights)
    if golden:
        save(folder / "golden.safetensors", golden)


def make_block(folder, seed, config, layers, rows, from_anchor, draft_vocabulary=V, rank=0):
    rng = np.random.default_rng(seed)
    mask, states = V - 1, 2
    weights = block_weights(rng, layers, states, draft_vocabulary)
    golden = {}
    if draft_vocabulary < V:  # as speculators: the embedding is the target's
        ids = np.sort(rng.choice(V, draft_vocabulary, replace=False))
        weights["d2t"] = (ids - np.arange(draft_vocabulary)).astype(np.int64)
        golden["embedding"] = weights.pop("embed_tokens.weight")
    embedding = golden.get("embedding", weights.get("embed_tokens.weight"))
    if rank:
        for name, size in (("markov_head.markov_w1", (V, rank)),
                           ("markov_head.markov_w2", (draft_vocabulary, rank)),
                           ("confidence_head.proj", (1, H + rank))):
            weights[name + ".weight"] = rng.standard_normal(size).astype(np.float32)
        weights["confidence_head.proj.bias"] = np.array([0.3], np.float32)
    tokens = rng.integers(0, V - 1, TOKENS)
    hidden = rng.standard_normal((TOKENS, states * H)).astype(np.float32)
    block = Block(weights, layers, embedding, weights["lm_head.weight"])
    out = {"states": [], "logits": [], "followed": [], "confidence": []}
    for anchor in ANCHORS:
        x = block.states(hidden[:anchor].astype(np.float64), [tokens[anchor]] + [mask] * (rows - 1),
                         anchor + np.arange(rows))
        x = x[0 if from_anchor else 1:]
        logits = x @ block.head.T.astype(np.float64)
        out["states"].append(x)
        out["logits"].append(logits)
        if rank:
            before = block.w["markov_head.markov_w1.weight"][tokens[anchor:anchor + len(x)]]
            out["followed"].append(logits + before @ block.w["markov_head.markov_w2.weight"].T)
            both = np.concatenate([x, before], 1)
            out["confidence"].append((both @ block.w["confidence_head.proj.weight"].T)[:, 0] + 0.3)
    golden.update({name: np.array(value, np.float32) for name, value in out.items() if value})
    golden.update(tokens=tokens.astype(np.int64), hidden=hidden,
                  anchors=np.array(ANCHORS, np.int64))
    write(folder, config, weights, golden)


def make_parallel(folder, seed, config, draft_vocabulary):
    """P-EAGLE: a chain whose later tokens are masks."""
    rng = np.random.default_rng(seed)
    layers, depth = ["layers.0."], 4
    weights = random_weights(rng, layers, draft_vocabulary, False)
    weights["mask_hidden"] = rng.standard_normal((1, 1, STATES * H)).astype(np.float32)
    ids = np.sort(rng.choice(V, draft_vocabulary, replace=False))
    weights["d2t"] = (ids - np.arange(draft_vocabulary)).astype(np.int64)
    tokens = rng.integers(0, V - 1, TOKENS)
    hidden = rng.standard_normal((TOKENS, STATES * H)).astype(np.float32)
    out = {"states": [], "logits": []}
    for anchor in ANCHORS:
        head = Head(weights, layers)
        rows = [(tokens[i + 1], hidden[i]) for i in range(anchor)]
        rows += [(V - 1, weights["mask_hidden"][0, 0])] * (depth - 1)
        drafted = [head.step(token, head.enter(states.astype(np.float64)))
                   for token, states in rows]
        drafted = drafted[anchor - 1:]
        out["logits"].append([logits for _, logits in drafted])
        out["states"].append([x for x, _ in drafted])
    golden = {name: np.array(value, np.float32) for name, value in out.items()}
    golden.update(tokens=tokens.astype(np.int64), hidden=hidden,
                  anchors=np.array(ANCHORS, np.int64))
    write(folder, config, weights, golden)


def main(folder):
    layer = {"model_type": "qwen3", **LAYER,
             "rope_parameters": {"rope_theta": THETA, "rope_type": "default"}}
    # As speculators writes them.
    make_block(folder / "dflash", 21,
               {"architectures": ["DFlashDraftModel"], "speculators_model_type": "dflash",
                "aux_hidden_state_layer_ids": [1, 3], "block_size": 4, "draft_vocab_size": 24,
                "mask_token_id": V - 1, "sample_from_anchor": False,
                "sliding_window_non_causal": False,
                "transformer_layer_config": {**layer, "num_hidden_layers": 2,
                                             "layer_types": ["full_attention"] * 2}},
               2, 4, False, draft_vocabulary=24)
    # As DeepSpec writes them.
    make_block(folder / "dspark", 22,
               {"architectures": ["Qwen3DSparkModel"], **layer, "block_size": 4,
                "mask_token_id": V - 1, "target_layer_ids": [0, 2], "num_target_layers": 4,
                "num_anchors": 8, "markov_rank": 6, "markov_head_type": "vanilla",
                "enable_confidence_head": True, "confidence_head_with_markov": True},
               1, 4, True, rank=6)
    # As the authors of DFlash write them.
    make_block(folder / "dflash_plain", 23,
               {"architectures": ["DFlashDraftModel"], **layer, "block_size": 5,
                "num_target_layers": 4,
                "dflash_config": {"mask_token_id": V - 1, "target_layer_ids": [0, 2]}},
               1, 5, False)
    make_parallel(folder / "peagle", 24,
                  {"architectures": ["PEagleDraftModel"], "speculators_model_type": "peagle",
                   "eagle_aux_hidden_state_layer_ids": [1, 2, 4], "draft_vocab_size": 24,
                   "mask_token_id": V - 1, "norm_before_residual": False, "norm_before_fc": False,
                   "norm_output": False, "fc_norm": False,
                   "transformer_layer_config": {**layer, "model_type": "llama"}}, 24)
    make_for_llama_tied(folder / "dspark_llama_tied")
    make_medusa(folder / "medusa", 26)
    make_medusa_for_llama_tied(folder / "medusa_llama_tied")


def make_medusa(folder, seed):
    """As Medusa's authors name tensors: two heads of two layers."""
    rng = np.random.default_rng(seed)
    heads, layers, rows = 2, 2, 3
    weights = {}
    for head in range(heads):
        for layer in range(layers):
            weights["%d.%d.linear.weight" % (head, layer)] = rng.standard_normal((H, H)) / 4
            weights["%d.%d.linear.bias" % (head, layer)] = rng.standard_normal(H) / 4
        weights["%d.%d.weight" % (head, layers)] = rng.standard_normal((V, H)) / 4
    weights = {name: value.astype(np.float32) for name, value in weights.items()}
    hidden = rng.standard_normal((rows, H)).astype(np.float32)
    states, logits = [], []
    for head in range(heads):
        x = hidden.astype(np.float64)
        for layer in range(layers):
            at = "%d.%d.linear." % (head, layer)
            inner = x @ weights[at + "weight"].T.astype(np.float64) + weights[at + "bias"]
            x = x + inner / (1 + np.exp(-inner))
        states.append(x)
        logits.append(x @ weights["%d.%d.weight" % (head, layers)].T.astype(np.float64))
    write_medusa(folder, {"medusa_num_heads": heads, "medusa_num_layers": layers}, weights)
    save(folder / "golden.safetensors", {"hidden": hidden, "states": np.array(states, np.float32),
                                         "logits": np.array(logits, np.float32)})


def write_medusa(folder, config, weights):
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "config.json").write_text(json.dumps(config, indent=1) + "\n")
    save(folder / "medusa_lm_head.safetensors", weights)


def make_medusa_for_llama_tied(folder):
    """As vLLM names tensors. The target repeats itself: its last state says the last token but one
    again, and so do these heads, which change it little and have its embedding as LM heads."""
    rng = np.random.default_rng(27)
    embedding = embedding_of(folder.parents[1] / "models/llama_tied")
    ids = np.arange(2, 99)
    weights = {"token_map": ids.astype(np.int64)}
    for head in range(3):
        weights["blocks.%d.layers.0.weight" % head] = \
            (rng.standard_normal((32, 32)) / 60).astype(np.float32)
        weights["lm_heads.%d.weight" % head] = embedding[ids]
    write_medusa(folder, {"model_type": "medusa", "architectures": ["MedusaModel"],
                          "num_heads": 3, "num_hidden_layers": 1, "hidden_size": 32,
                          "vocab_size": 99, "truncated_vocab_size": len(ids)}, weights)


def make_for_llama_tied(folder):
    """For tests/golden/models/llama_tied, whose embedding it borrows, as its LM head; no goldens.
    The target repeats itself, and the head says the last token again."""
    rng = np.random.default_rng(25)
    hidden, vocabulary, rank = 32, 99, 32
    sizes = {"fc": (32, 64), "layers.0.self_attn.q_proj": (32, 32),
             "layers.0.self_attn.k_proj": (16, 32), "layers.0.self_attn.v_proj": (16, 32),
             "layers.0.self_attn.o_proj": (32, 32), "layers.0.mlp.gate_proj": (16, 32),
             "layers.0.mlp.up_proj": (16, 32), "layers.0.mlp.down_proj": (32, 16),
             "markov_head.markov_w1": (vocabulary, rank), "confidence_head.proj": (1, hidden)}
    weights = {name + ".weight": (rng.standard_normal(size) / np.sqrt(size[1])).astype(np.float32)
               for name, size in sizes.items()}
    for name in ("layers.0.input_layernorm", "hidden_norm", "layers.0.post_attention_layernorm",
                 "norm"):
        weights[name + ".weight"] = np.ones(hidden, np.float32)
    for name in ("self_attn.q_norm", "self_attn.k_norm"):
        weights["layers.0." + name + ".weight"] = np.ones(DIM, np.float32)
    for name in ("self_attn.o_proj", "mlp.down_proj"):
        weights["layers.0." + name + ".weight"] *= np.float32(0.1)
    embedding = embedding_of(folder.parents[1] / "models/llama_tied")
    weights["markov_head.markov_w1.weight"] = embedding.copy()
    weights["markov_head.markov_w2.weight"] = embedding * np.float32(4)
    config = {"architectures": ["Qwen3DSparkModel"], "model_type": "qwen3", "rope_theta": THETA,
              "block_size": 6, "mask_token_id": 98, "target_layer_ids": [0, 1],
              "markov_rank": rank, "markov_head_type": "vanilla", "enable_confidence_head": True,
              "confidence_head_with_markov": False, **LAYER, "hidden_size": hidden,
              "intermediate_size": 16, "vocab_size": vocabulary, "max_position_embeddings": 128}
    write(folder, config, weights, None)


if __name__ == "__main__":
    main(pathlib.Path(sys.argv[1]) if len(sys.argv) > 1 else
         pathlib.Path(__file__).parent / "heads")
