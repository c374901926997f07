#!/usr/bin/env python3
"""Embeds a small head in a larger one, as `tenon model synth --grow` does with its target: the grown head
drafts for the grown target what the small one drafts for the small target, at the cost of its new size.

    bench/drafts/grow_head.py HEAD TARGET OUT [--intermediate N] [--states 1,3,6]

HEAD is a folder of an EAGLE-3 or DSpark head with one layer, such as configs/models/tale-eagle3; TARGET the
grown model's folder, whose hidden size and heads the layer takes; OUT the folder that is written.
--states reads more of the target's states than the head does, and heeds only those: a program may want
three. Everything that is added is zero, and norms are scaled by what zeros take from a mean.
"""
import argparse
import array
import json
import pathlib
import struct
import sys


def read(path):
    """Shapes and the bits of BF16 numbers."""
    data = path.read_bytes()
    size = struct.unpack("<Q", data[:8])[0]
    tensors = {}
    for name, entry in json.loads(data[8:8 + size]).items():
        if name == "__metadata__":
            continue
        if entry["dtype"] != "BF16":
            raise SystemExit(f"{path}: {name} is {entry['dtype']}; heads in BF16 are grown")
        begin, end = entry["data_offsets"]
        tensors[name] = (entry["shape"], array.array("H", data[8 + size + begin:8 + size + end]))
    return tensors


def write(path, tensors):
    header, at = {"__metadata__": {"format": "pt"}}, 0
    for name, (shape, data) in tensors.items():
        size = len(data) * data.itemsize
        header[name] = {"dtype": "BF16" if data.typecode == "H" else "F32", "shape": shape,
                        "data_offsets": [at, at + size]}
        at += size
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    with path.open("wb") as file:
        file.write(struct.pack("<Q", len(text)) + text)
        for _, data in tensors.values():
            data.tofile(file)


class Growth:
    """Where an index along each axis of a tensor goes."""

    def __init__(self, layer, states, target, intermediate, wanted):
        self.hidden, self.grown = layer["hidden_size"], target["hidden_size"]
        self.inner, self.grown_inner = layer["intermediate_size"], intermediate
        self.dim = layer["head_dim"]
        self.heads, self.kv_heads = layer["num_attention_heads"], layer["num_key_value_heads"]
        width = target["num_attention_heads"] * target["head_dim"]
        kv_width = target["num_key_value_heads"] * target["head_dim"]
        self.grown_heads, self.grown_kv = width // self.dim, kv_width // self.dim
        self.states, self.wanted = states, wanted
        group, room = self.heads // self.kv_heads, self.grown_heads // self.grown_kv
        if width % self.dim or kv_width % self.dim or group > room or self.kv_heads > self.grown_kv:
            raise SystemExit("the head's attention does not fit into the target's")
        if not set(states) <= set(wanted):
            raise SystemExit(f"--states has to have those that the head reads: {states}")

    def identity(self, size, grown):
        return list(range(size)), grown

    def blocks(self, places, size, grown, count):
        return [place * grown + i for place in places for i in range(size)], count * grown

    def axis(self, name):
        group, room = self.heads // self.kv_heads, self.grown_heads // self.grown_kv
        queries = [kv * room + i for kv in range(self.kv_heads) for i in range(group)]
        return {
            "hidden": lambda: self.identity(self.hidden, self.grown),
            "pair": lambda: self.blocks([0, 1], self.hidden, self.grown, 2),
            "states": lambda: self.blocks([self.wanted.index(state) for state in self.states],
                                          self.hidden, self.grown, len(self.wanted)),
            "inner": lambda: self.identity(self.inner, self.grown_inner),
            "heads": lambda: self.blocks(queries, self.dim, self.dim, self.grown_heads),
            "kv": lambda: self.blocks(range(self.kv_heads), self.dim, self.dim, self.grown_kv),
        }[name]()

    def vector(self, bits):
        """A norm in F32, which BF16 would round."""
        values = array.array("f", array.array("I", (n << 16 for n in bits)).tobytes())
        factor = (self.hidden / self.grown) ** 0.5
        return [self.grown], array.array("f", [factor * value for value in values] +
                                         [0.0] * (self.grown - self.hidden))

    def matrix(self, bits, rows, columns):
        (row_places, row_count), (column_places, width) = rows, columns
        grown = array.array("H", bytes(2 * row_count * width))
        for i, row in enumerate(row_places):
            for j, column in enumerate(column_places):
                grown[row * width + column] = bits[i * len(column_places) + j]
        return [row_count, width], grown

    def tensor(self, name, shape, bits, reads):
        last = name.removesuffix(".weight").rsplit(".", 1)[-1]
        axes = {"fc": ("hidden", "states"), "q_proj": ("heads", reads), "k_proj": ("kv", reads),
                "v_proj": ("kv", reads), "o_proj": ("hidden", "heads"), "gate_proj": ("inner", "hidden"),
                "up_proj": ("inner", "hidden"), "down_proj": ("hidden", "inner")}
        if last in axes:
            return self.matrix(bits, *(self.axis(axis) for axis in axes[last]))
        if name == "confidence_head.proj.weight":  # reads the state, and what the token before is
            rest = shape[1] - self.hidden
            places = list(range(self.hidden)) + list(range(self.grown, self.grown + rest))
            return self.matrix(bits, self.identity(1, 1), (places, self.grown + rest))
        if shape == [self.hidden] and "norm" in last:
            return self.vector(bits)
        return shape, bits


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("head", type=pathlib.Path)
    parser.add_argument("target", type=pathlib.Path)
    parser.add_argument("out", type=pathlib.Path)
    parser.add_argument("--intermediate", type=int, help="default: the target's")
    parser.add_argument("--states", type=lambda text: [int(n) for n in text.split(",")])
    options = parser.parse_args()
    config = json.loads((options.head / "config.json").read_text())
    target = json.loads((options.target / "config.json").read_text())
    layer = config.get("transformer_layer_config", config)
    where = config.get("eagle_config", config)
    key = "eagle_aux_hidden_state_layer_ids" if "eagle_config" in config else "aux_hidden_state_layer_ids"
    states = where[key]
    where[key] = options.states or states
    growth = Growth(dict(layer), states, target, options.intermediate or target["intermediate_size"], where[key])
    tensors = read(options.head / "model.safetensors")
    reads = "pair" if "eagle_config" in config else "hidden"
    grown = {name: growth.tensor(name, *tensor, reads) for name, tensor in tensors.items()}
    layer.update(hidden_size=growth.grown, intermediate_size=growth.grown_inner,
                 num_attention_heads=growth.grown_heads, num_key_value_heads=growth.grown_kv,
                 rms_norm_eps=layer["rms_norm_eps"] * growth.hidden / growth.grown)
    if "target_hidden_size" in config:
        config["target_hidden_size"] = growth.grown
    options.out.mkdir(parents=True)
    write(options.out / "model.safetensors", grown)
    (options.out / "config.json").write_text(json.dumps(config, indent=1) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
