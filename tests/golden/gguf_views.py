#!/usr/bin/env python3
"""GGUF files of golden models whose weights are computed.

    tests/golden/gguf_views.py SOURCE MODELS DESTINATION

A GGUF file of a model holds the model's own numbers in another order. Where the weights have a recipe
(seeded_weights.py), tests/golden/gguf keeps `<name>.gguf.json` in place of the file: its head, byte by
byte, and for each tensor where its values stand among those of MODELS/<case>/model.safetensors, or the
values themselves if they were computed. This program makes DESTINATION with a link to every other file
of SOURCE and with the files that are meant. It needs Python's library alone; make_gguf_goldens.py makes
views from files that the format's own package wrote.

A view is a list of walks, each a place of the first value and loops from the outside in: [count, step].
"""
import array
import base64
import json
import pathlib
import shutil
import struct
import sys

SUFFIX = ".json"


def weights_of(path):
    """The values of a safetensors file of F32, as they stand in it."""
    data = path.read_bytes()
    return array.array("f", data[8 + struct.unpack_from("<Q", data)[0]:])


def walk(values, first, loops, out):
    count, step = loops[0]
    if len(loops) == 1:
        out.extend(values[first:first + (count - 1) * step + 1:step])
        return
    for i in range(count):
        walk(values, first + i * step, loops[1:], out)


def bytes_of(tensor, values):
    if "bytes" in tensor:
        return base64.b64decode(tensor["bytes"])
    out = array.array("f")
    for first, loops in tensor["view"]:
        walk(values, first, loops, out)
    if "plus" in tensor:
        out = array.array("f", [value + tensor["plus"] for value in out])
    return out.tobytes()


def file_of(recipe, values):
    """The bytes of the file that `recipe` means."""
    made = bytearray(base64.b64decode(recipe["head"]))
    for tensor in recipe["tensors"]:
        made += bytes(tensor["at"] - len(made)) + bytes_of(tensor, values)
    return bytes(made + bytes(recipe["size"] - len(made)))


def view_of(places):
    """The walks that visit `places`, one after the other."""
    walks = [(place, ()) for place in places]
    while True:
        merged = []
        for first, loops in walks:
            if merged and merged[-1][3] == loops:
                start, count, step, _ = merged[-1]
                ahead = first - start - (count - 1) * (step or 0)
                if ahead > 0 and step in (None, ahead):
                    merged[-1] = (start, count + 1, ahead, loops)
                    continue
            merged.append((first, 1, None, loops))
        shorter = [(start, ((count, step), *loops) if count > 1 else loops)
                   for start, count, step, loops in merged]
        if len(shorter) == len(walks):
            return [[first, [list(loop) for loop in loops or ((1, 1),)]] for first, loops in walks]
        walks = shorter


def build(source, models, destination):
    destination.mkdir(parents=True)
    for file in sorted(source.resolve().iterdir()):
        if file.suffix == SUFFIX:
            recipe = json.loads(file.read_text())
            values = weights_of(models / recipe["model"] / "model.safetensors")
            (destination / file.stem).write_bytes(file_of(recipe, values))
        else:
            (destination / file.name).symlink_to(file)


def main():
    if len(sys.argv) != 4:
        sys.exit(__doc__)
    shutil.rmtree(sys.argv[3], ignore_errors=True)
    build(*map(pathlib.Path, sys.argv[1:]))


if __name__ == "__main__":
    main()
