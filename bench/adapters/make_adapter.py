#!/usr/bin/env python3
"""Makes a random low-rank adapter for a model folder, as PEFT saves it: something to measure and to
test with where training does not matter.

    bench/adapters/make_adapter.py MODEL OUT [--rank 16] [--seed 1] [--targets q_proj,v_proj]
                                   [--dtype bf16] [--strength 0.5]

Needs nothing but Python. Without --targets all matrices of attention and MLP are changed.
"""
import argparse
import json
import math
import pathlib
import random
import struct

ALL = "q_proj,k_proj,v_proj,o_proj,gate_proj,up_proj,down_proj"


def shapes(model):
    """The shapes of a folder's tensors by name."""
    found = {}
    for file in sorted(pathlib.Path(model).glob("*.safetensors")):
        with open(file, "rb") as opened:
            length = struct.unpack("<Q", opened.read(8))[0]
            header = json.loads(opened.read(length))
        found |= {name: entry["shape"] for name, entry in header.items() if name != "__metadata__"}
    return found


def values(source, count, size, scale):
    """`count` numbers of either sign, of between `scale` / 2 and 2 · `scale` or so: random bytes
    under fixed upper bits of the exponent."""
    exponent = 127 + math.floor(math.log2(scale))
    upper = bytes((byte & 0x80) | exponent >> 1 for byte in range(256))
    data = bytearray(source.randbytes(count * size))
    data[size - 1::size] = data[size - 1::size].translate(upper)
    return bytes(data)


def make(model, out, rank=16, seed=1, targets=ALL, dtype="bf16", strength=0.5):
    source = random.Random(seed)
    size = {"bf16": 2, "f32": 4}[dtype]
    modules = targets.split(",")
    header, data = {}, []
    at = 0
    for name, shape in shapes(model).items():
        module = name.removesuffix(".weight")
        if len(shape) != 2 or module.rsplit(".", 1)[-1] not in modules:
            continue
        rows, columns = shape
        for half, extents, scale in (("A", [rank, columns], columns ** -0.5),
                                     ("B", [rows, rank], strength * rank ** -0.5)):
            piece = values(source, extents[0] * extents[1], size, scale)
            header[f"base_model.model.{module}.lora_{half}.weight"] = {
                "dtype": dtype.upper(), "shape": extents, "data_offsets": [at, at + len(piece)]}
            data.append(piece)
            at += len(piece)
    if not header:
        raise SystemExit(f"{model} has no tensors of {targets}")
    out = pathlib.Path(out)
    out.mkdir(parents=True, exist_ok=True)
    text = json.dumps(header).encode()
    (out / "adapter_model.safetensors").write_bytes(
        struct.pack("<Q", len(text)) + text + b"".join(data))
    (out / "adapter_config.json").write_text(json.dumps(
        {"peft_type": "LORA", "r": rank, "lora_alpha": rank, "target_modules": modules}, indent=1))


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n", maxsplit=1)[0])
    parser.add_argument("model")
    parser.add_argument("out")
    parser.add_argument("--rank", type=int, default=16)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--targets", default=ALL)
    parser.add_argument("--dtype", choices=["bf16", "f32"], default="bf16")
    parser.add_argument("--strength", type=float, default=0.5)
    make(**vars(parser.parse_args()))


if __name__ == "__main__":
    main()
