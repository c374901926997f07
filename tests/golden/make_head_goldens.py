#!/usr/bin/env python3
"""Makes tests/golden/heads: small EAGLE heads with random weights of a seed, and what they draft.

Usage: make_head_goldens.py [FOLDER]   (needs numpy alone)

Each folder is a head as EAGLE or as speculators writes it, next to golden.safetensors:
  tokens [9]          t_0 to t_8
  hidden [8, A * H]   the target's states at t_0 to t_7; of EAGLE 1 that after the last norm
  logits [3, 8, D]    [s, c]: after t_1 to t_{c+1} with the target's states, then the s tokens
                      t_{c+2} ... with the head's own; rows whose tokens run past t_8 are zeros
The arithmetic is written out here in float64, after the papers of EAGLE-3 (arXiv:2503.01840) and
EAGLE (arXiv:2401.15077).
"""
import json
import pathlib
import sys

import numpy as np

H, HEADS, KV, DIM, INNER, V, STATES, EPS = 16, 4, 2, 8, 24, 40, 3, 1e-5
STEPS, ROWS = 3, 8
THETA = 10000.0

LAYER = {"hidden_size": H, "num_attention_heads": HEADS, "num_key_value_heads": KV,
         "head_dim": DIM, "intermediate_size": INNER, "vocab_size": V, "num_hidden_layers": 1,
         "rms_norm_eps": EPS, "max_position_embeddings": 64, "hidden_act": "silu",
         "attention_bias": False, "mlp_bias": False, "tie_word_embeddings": False}


def save(path, tensors):
    """A .safetensors file (docs/formats/safetensors.md)."""
    header, at, data = {}, 0, b""
    names = {np.dtype(np.float32): "F32", np.dtype(np.int64): "I64", np.dtype(bool): "BOOL"}
    for name, values in tensors.items():
        raw = np.ascontiguousarray(values).tobytes()
        header[name] = {"dtype": names[values.dtype], "shape": list(values.shape),
                        "data_offsets": [at, at + len(raw)]}
        at, data = at + len(raw), data + raw
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    path.write_bytes(len(text).to_bytes(8, "little") + text + data)


def rms(x, weight):
    return x / np.sqrt((x * x).mean(-1, keepdims=True) + EPS) * weight


def turn(x, positions):
    """x [rows, heads, width], the halves turned."""
    half = x.shape[-1] // 2
    angles = positions[:, None] * THETA ** (-np.arange(half) / half)
    cos, sin = np.cos(angles)[:, None], np.sin(angles)[:, None]
    left, right = x[..., :half], x[..., half:]
    return np.concatenate([left * cos - right * sin, right * cos + left * sin], -1)


class Head:
    def __init__(self, weights, layers, norm_before_residual=False, norm_output=False):
        self.w = {name: value.astype(np.float64) for name, value in weights.items()}
        self.layers, self.residual, self.output = layers, norm_before_residual, norm_output
        self.k, self.v = [[] for _ in layers], [[] for _ in layers]

    def enter(self, states):
        if "input_norm.weight" in self.w:
            states = rms(states, self.w["input_norm.weight"])
        if "fc_norm.0.weight" in self.w:
            parts = np.split(states, STATES, -1)
            states = np.concatenate([rms(part, self.w["fc_norm.%d.weight" % i])
                                     for i, part in enumerate(parts)], -1)
        return self.w["fc.weight"] @ states

    def step(self, token, f):
        """One token; returns the state after the layers and the logits."""
        x = f
        for index, prefix in enumerate(self.layers):
            w = lambda name: self.w[prefix + name + ".weight"]
            read = rms(x, w("input_layernorm")) if index else None
            if index == 0:
                state = rms(f, w("hidden_norm"))
                x = state if self.residual else f
                embedded = self.w["embed_tokens.weight"][token]
                read = np.concatenate([rms(embedded, w("input_layernorm")), state])
            position = np.array([len(self.k[index])])
            q = (w("self_attn.q_proj") @ read).reshape(1, HEADS, DIM)
            k = (w("self_attn.k_proj") @ read).reshape(1, KV, DIM)
            if prefix + "self_attn.q_norm.weight" in self.w:
                q, k = rms(q, w("self_attn.q_norm")), rms(k, w("self_attn.k_norm"))
            self.k[index].append(turn(k, position)[0])
            self.v[index].append((w("self_attn.v_proj") @ read).reshape(KV, DIM))
            keys = np.repeat(np.stack(self.k[index]), HEADS // KV, 1)
            values = np.repeat(np.stack(self.v[index]), HEADS // KV, 1)
            scores = np.einsum("hd,khd->hk", turn(q, position)[0], keys) / np.sqrt(DIM)
            scores = np.exp(scores - scores.max(-1, keepdims=True))
            scores /= scores.sum(-1, keepdims=True)
            attended = np.einsum("hk,khd->hd", scores, values).reshape(-1)
            x = x + w("self_attn.o_proj") @ attended
            inner = rms(x, w("post_attention_layernorm"))
            gate = w("mlp.gate_proj") @ inner
            x = x + w("mlp.down_proj") @ (gate / (1 + np.exp(-gate)) * (w("mlp.up_proj") @ inner))
        normed = rms(x, self.w["norm.weight"])
        return normed if self.output else x, self.w["lm_head.weight"] @ normed


def random_weights(rng, layers, draft_vocabulary, qk_norm):
    def matrix(rows, columns):
        return (rng.standard_normal((rows, columns)) / np.sqrt(columns)).astype(np.float32)

    def norm(size):
        return (1 + 0.2 * rng.standard_normal(size)).astype(np.float32)

    weights = {"embed_tokens.weight": matrix(V, H) * 2, "fc.weight": matrix(H, STATES * H)}
    for index, prefix in enumerate(layers):
        width = H if index else 2 * H
        for name, size in (("input_layernorm", H), ("post_attention_layernorm", H)):
            weights[prefix + name + ".weight"] = norm(size)
        if index == 0:
            weights[prefix + "hidden_norm.weight"] = norm(H)
        for name, rows, columns in (
                ("self_attn.q_proj", HEADS * DIM, width), ("self_attn.k_proj", KV * DIM, width),
                ("self_attn.v_proj", KV * DIM, width), ("self_attn.o_proj", H, HEADS * DIM),
                ("mlp.gate_proj", INNER, H), ("mlp.up_proj", INNER, H),
                ("mlp.down_proj", H, INNER)):
            weights[prefix + name + ".weight"] = matrix(rows, columns)
        if qk_norm:
            for name in ("self_attn.q_norm", "self_attn.k_norm"):
                weights[prefix + name + ".weight"] = norm(DIM)
    weights["norm.weight"], weights["lm_head.weight"] = norm(H), matrix(draft_vocabulary, H)
    return weights


class FirstEagle:
    """EAGLE 1 and 2: no norm but the one before the MLP. One KV head."""
    HIDDEN, HEADS, DIM, INNER, VOCABULARY = 8, 2, 4, 6, 16

    def __init__(self, weights):
        self.w = {name: value.astype(np.float64) for name, value in weights.items()}
        self.k, self.v = [], []

    def enter(self, state):
        return state

    def step(self, token, state):
        w = lambda name: self.w["layers.0." + name + ".weight"]
        x = self.w["fc.weight"] @ np.concatenate([self.w["embed_tokens.weight"][token], state])
        x = x + self.w["fc.bias"]
        position = np.array([len(self.k)])
        q = turn((w("self_attn.q_proj") @ x).reshape(1, self.HEADS, self.DIM), position)[0]
        self.k.append(turn((w("self_attn.k_proj") @ x).reshape(1, 1, self.DIM), position)[0, 0])
        self.v.append(w("self_attn.v_proj") @ x)
        scores = q @ np.stack(self.k).T / np.sqrt(self.DIM)
        scores = np.exp(scores - scores.max(-1, keepdims=True))
        scores /= scores.sum(-1, keepdims=True)
        x = x + w("self_attn.o_proj") @ (scores @ np.stack(self.v)).reshape(-1)
        inner = rms(x, w("post_attention_layernorm"))
        gate = w("mlp.gate_proj") @ inner
        x = x + w("mlp.down_proj") @ (gate / (1 + np.exp(-gate)) * (w("mlp.up_proj") @ inner))
        return x, self.w["lm_head.weight"] @ x


def make_first_eagle(folder, seed):
    """As EAGLE's authors write it: the class is the target's, and the tensors tell."""
    rng = np.random.default_rng(seed)
    of = FirstEagle
    sizes = {"embed_tokens": (of.VOCABULARY, of.HIDDEN), "lm_head": (of.VOCABULARY, of.HIDDEN),
             "fc": (of.HIDDEN, 2 * of.HIDDEN),
             "layers.0.self_attn.q_proj": (of.HEADS * of.DIM, of.HIDDEN),
             "layers.0.self_attn.k_proj": (of.DIM, of.HIDDEN),
             "layers.0.self_attn.v_proj": (of.DIM, of.HIDDEN),
             "layers.0.self_attn.o_proj": (of.HIDDEN, of.HEADS * of.DIM),
             "layers.0.mlp.gate_proj": (of.INNER, of.HIDDEN),
             "layers.0.mlp.up_proj": (of.INNER, of.HIDDEN),
             "layers.0.mlp.down_proj": (of.HIDDEN, of.INNER)}
    weights = {name + ".weight": (rng.standard_normal(size) / np.sqrt(size[1])).astype(np.float32)
               for name, size in sizes.items()}
    weights["fc.bias"] = rng.standard_normal(of.HIDDEN).astype(np.float32)
    weights["layers.0.post_attention_layernorm.weight"] = \
        (1 + 0.2 * rng.standard_normal(of.HIDDEN)).astype(np.float32)
    tokens = rng.integers(0, of.VOCABULARY, ROWS + 1)
    hidden = rng.standard_normal((ROWS, of.HIDDEN)).astype(np.float32)
    logits = chains(lambda: FirstEagle(weights), tokens, hidden.astype(np.float64), of.VOCABULARY)
    config = {"architectures": ["LlamaForCausalLM"], "model_type": "llama", "rope_theta": THETA,
              "bias": True, **LAYER, "hidden_size": of.HIDDEN, "num_attention_heads": of.HEADS,
              "num_key_value_heads": 1, "head_dim": of.DIM, "intermediate_size": of.INNER,
              "vocab_size": of.VOCABULARY}
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "config.json").write_text(json.dumps(config, indent=1) + "\n")
    save(folder / "model.safetensors", weights)
    save(folder / "golden.safetensors",
         {"tokens": tokens.astype(np.int64), "hidden": hidden, "logits": logits})


def chains(make_head, tokens, hidden, draft_vocabulary):
    logits = np.zeros((STEPS, ROWS, draft_vocabulary), np.float32)
    for column in range(ROWS):
        head = make_head()
        for row in range(column + 1):
            state, out = head.step(tokens[row + 1], head.enter(hidden[row]))
        logits[0, column] = out
        for step in range(1, STEPS):
            if column + 1 + step >= len(tokens):
                break
            state, out = head.step(tokens[column + 1 + step], state)
            logits[step, column] = out
    return logits


def make(folder, seed, config, layers, draft_vocabulary=V, qk_norm=False, more=None):
    rng = np.random.default_rng(seed)
    weights = random_weights(rng, layers, draft_vocabulary, qk_norm)
    for name, size in (more or {}).items():
        weights[name] = (1 + 0.2 * rng.standard_normal(size)).astype(np.float32)
    tokens = rng.integers(0, V, ROWS + 1)
    hidden = rng.standard_normal((ROWS, STATES * H)).astype(np.float32)
    own = config.get("norm_before_residual", False), config.get("norm_output", False)
    logits = chains(lambda: Head(weights, layers, *own), tokens, hidden.astype(np.float64),
                    draft_vocabulary)
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "config.json").write_text(json.dumps(config, indent=1) + "\n")
    if draft_vocabulary < V:
        ids = np.sort(rng.choice(V, draft_vocabulary, replace=False))
        weights["d2t"] = (ids - np.arange(draft_vocabulary)).astype(np.int64)
        weights["t2d"] = np.isin(np.arange(V), ids)
    save(folder / "model.safetensors", weights)
    save(folder / "golden.safetensors",
         {"tokens": tokens.astype(np.int64), "hidden": hidden, "logits": logits})


def main(folder):
    # As EAGLE and SpecForge write them.
    make(folder / "plain", 1,
         {"architectures": ["LlamaForCausalLMEagle3"], "model_type": "llama", "rope_theta": THETA,
          "draft_vocab_size": 24, "eagle_config": {"eagle_aux_hidden_state_layer_ids": [1, 2, 4],
                                                   "use_aux_hidden_state": True}, **LAYER},
         ["midlayer."], draft_vocabulary=24)
    # As speculators writes them, with what EAGLE 3.1 brought.
    def speculators(layer, **own):
        return {"architectures": ["Eagle3DraftModel"], "speculators_model_type": "eagle3",
                "eagle_aux_hidden_state_layer_ids": [1, 2, 4], "draft_vocab_size": V, **own,
                "transformer_layer_config": {"rope_parameters": {"rope_theta": THETA,
                                                                 "rope_type": "default"},
                                             **LAYER, **layer}}
    make(folder / "norms", 2,
         speculators({"model_type": "qwen3"}, norm_before_residual=True, fc_norm=True,
                     norm_before_fc=False, norm_output=True),
         ["layers.0."], qk_norm=True, more={"fc_norm.%d.weight" % i: H for i in range(STATES)})
    make(folder / "two_layers", 3,
         speculators({"model_type": "llama", "num_hidden_layers": 2},
                     norm_before_residual=False, norm_before_fc=True),
         ["layers.0.", "layers.1."], more={"input_norm.weight": STATES * H})


    make_first_eagle(folder / "first_eagle", 5)
    # For tests/golden/models/llama_tied, whose embedding it borrows; no goldens.
    make_for_llama_tied(folder / "llama_tied")


def embedding_of(model):
    raw = (model / "model.safetensors").read_bytes()
    length = int.from_bytes(raw[:8], "little")
    entry = json.loads(raw[8:8 + length])["model.embed_tokens.weight"]
    first, last = (8 + length + offset for offset in entry["data_offsets"])
    return np.frombuffer(raw[first:last], np.float32).reshape(entry["shape"])


def make_for_llama_tied(folder):
    rng = np.random.default_rng(4)
    sizes = {"fc": (32, 64), "midlayer.self_attn.q_proj": (32, 64),
             "midlayer.self_attn.k_proj": (16, 64), "midlayer.self_attn.v_proj": (16, 64),
             "midlayer.self_attn.o_proj": (32, 32), "midlayer.mlp.gate_proj": (16, 32),
             "midlayer.mlp.up_proj": (16, 32), "midlayer.mlp.down_proj": (32, 16),
             "lm_head": (96, 32)}
    weights = {name + ".weight": (rng.standard_normal(size) / np.sqrt(size[1])).astype(np.float32)
               for name, size in sizes.items()}
    for name in ("midlayer.input_layernorm", "midlayer.hidden_norm",
                 "midlayer.post_attention_layernorm", "norm"):
        weights[name + ".weight"] = np.ones(32, np.float32)
    ids = np.sort(rng.choice(99, 96, replace=False))
    weights["d2t"] = (ids - np.arange(96)).astype(np.int64)
    # What enters the target's second layer is close to the embedding of the last token but one, and
    # the target repeats itself: so does a head that reads it back.
    weights["fc.weight"] = np.eye(32, 64, dtype=np.float32)
    for name in ("self_attn.o_proj", "mlp.down_proj"):
        weights["midlayer." + name + ".weight"] *= np.float32(0.1)
    weights["lm_head.weight"] = embedding_of(folder.parents[1] / "models/llama_tied")[ids]
    config = {"architectures": ["LlamaForCausalLMEagle3"], "model_type": "llama",
              "rope_theta": THETA, "draft_vocab_size": 96, "target_hidden_size": 32,
              "eagle_aux_hidden_state_layer_ids": [1, 2], **LAYER, "hidden_size": 32,
              "intermediate_size": 16, "vocab_size": 99, "max_position_embeddings": 128}
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "config.json").write_text(json.dumps(config, indent=1) + "\n")
    save(folder / "model.safetensors", weights)


if __name__ == "__main__":
    main(pathlib.Path(sys.argv[1]) if len(sys.argv) > 1 else
         pathlib.Path(__file__).parent / "heads")
