#!/usr/bin/env python3
"""Weights of golden models that are computed instead of stored.

    tests/golden/seeded_weights.py SOURCE DESTINATION

A golden of many kilobytes is mostly random numbers. Folders of tests/golden/models made since this
file exists keep `weights.json` in place of each model.safetensors: names and shapes in the
order of the file, and for each tensor, always of F32, the mean and the step of its values. This program makes
DESTINATION/<case> of every SOURCE/<case>, with links to what is stored and with the weights that
the recipes mean. It needs Python's library alone, and the bytes are the same on every machine: they
come from `random.Random` seeded with the case's and the tensor's name.

A value is mean + step · n with n from -128 to 127. With a step that is a power of two and a mean
that is a multiple of it below 128 steps, BF16 and F16 hold it exactly, as GGUF files of half the size do.
"""
import array
import atexit
import json
import math
import pathlib
import random
import shutil
import struct
import sys
import tempfile

RECIPE = "weights.json"
WEIGHTS = "model.safetensors"


def values_of(case, tensor):
    """The bytes of a tensor, row by row."""
    count = 1
    for size in tensor["shape"]:
        count *= size
    drawn = random.Random(f"{case} {tensor['name']}").randbytes(count)
    table = [struct.pack("<f", tensor["mean"] + tensor["step"] * (n - 128)) for n in range(256)]
    return b"".join([table[n] for n in drawn])


def fill(case, recipe, path):
    """Writes the safetensors file at `path` that `recipe` means."""
    header, parts, at = {"__metadata__": {"format": "pt"}}, [], 0
    for tensor in recipe["tensors"]:
        part = values_of(case, tensor)
        header[tensor["name"]] = {"dtype": "F32", "shape": tensor["shape"],
                                  "data_offsets": [at, at + len(part)]}
        parts.append(part)
        at += len(part)
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    path.write_bytes(struct.pack("<Q", len(text)) + text + b"".join(parts))


def recipe_of(path):
    """A recipe for tensors like those of a safetensors file of F32: means and spreads are kept, up to
    a factor of the square root of two."""
    data = path.read_bytes()
    length = struct.unpack_from("<Q", data)[0]
    header = json.loads(data[8:8 + length])
    tensors = []
    for name, entry in header.items():
        if name == "__metadata__":
            continue
        if entry["dtype"] != "F32":
            raise ValueError(f"{name}: recipes are made of F32, not of {entry['dtype']}")
        first, last = (8 + length + offset for offset in entry["data_offsets"])
        values = array.array("f", data[first:last])
        mean = sum(values) / len(values)
        spread = (sum((value - mean)**2 for value in values) / len(values))**0.5
        # A single number spreads by a quarter of itself.
        spread = abs(mean) / 4 if len(values) == 1 else spread
        # Uniform numbers from -128 to 127 have a standard deviation of 74.
        step = 2.0**round_log2(max(spread, 2.0**-24) / 74)
        mean = max(-127, min(127, round(mean / step))) * step
        tensors.append({"name": name, "shape": entry["shape"], "mean": mean, "step": step})
    return {"tensors": tensors}


def round_log2(value):
    mantissa, exponent = math.frexp(value)
    return exponent if mantissa > 0.5**0.5 else exponent - 1


def write_recipe(recipe, path):
    lines = ",\n".join("  " + json.dumps(tensor) for tensor in recipe["tensors"])
    path.write_text('{"tensors": [\n' + lines + "\n]}\n")


def seed(folder):
    """Replaces the weights of a folder that transformers wrote by a recipe, and by what it means."""
    path = folder / WEIGHTS
    recipe = recipe_of(path)
    write_recipe(recipe, folder / RECIPE)
    fill(folder.name, recipe, path)


def build(source, destination):
    """The folders of `source` in `destination`: links, and weights where there are recipes."""
    for folder in sorted(source.resolve().iterdir()):
        if not folder.is_dir():
            continue
        made = destination / folder.name
        made.mkdir(parents=True)
        for file in folder.iterdir():
            if file.name == RECIPE:
                fill(folder.name, json.loads(file.read_text()), made / WEIGHTS)
            elif file.name != WEIGHTS or not (folder / RECIPE).exists():
                (made / file.name).symlink_to(file)


def built(source):
    """The same in a temporary folder, which lasts as long as the program."""
    folder = tempfile.TemporaryDirectory()
    atexit.register(folder.cleanup)
    build(source, pathlib.Path(folder.name))
    return pathlib.Path(folder.name)


def main():
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    shutil.rmtree(sys.argv[2], ignore_errors=True)
    build(pathlib.Path(sys.argv[1]), pathlib.Path(sys.argv[2]))


if __name__ == "__main__":
    main()
