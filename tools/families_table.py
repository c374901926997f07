#!/usr/bin/env python3
"""Writes the table of docs/families.md: what each family of models is made of and how it is tested.

    tools/families_table.py [--binary build/dev/bin/tenon] [--check]

Names come from `tenon model families`; mechanisms from `tenon model info` of the golden models, which are
tiny models of transformers with the family's options set; GGUF files and adapters from what is in
tests/golden. It fails where a family's file is in another room of core/model/families than the plainest
of its golden models. With --check nothing is written, and the command also fails if the
page would change.
"""
import argparse
import json
import pathlib
import re
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
GOLDEN = ROOT / "tests/golden"
PAGE = ROOT / "docs/families.md"
FAMILIES = ROOT / "core/model/families"
BEGIN, END = "<!-- tools/families_table.py -->\n", "<!-- end of the table -->\n"

SOME = " in some layers"
# Numbers of tiny models say nothing about a family.
PLAIN = ((r"\(.*?\)", ""), (r"\d+ of \d+ experts of \d+", "experts"),
         (r"and a shared one of \d+", "and a shared expert"), (r"sliding window of \d+", "sliding window"),
         (r"chunks of \d+", "chunks"),
         (r",? in (\d+) of \1 layers", ""), (r",? in \d+ of \d+ layers", SOME),
         (r"  +", " "), (r" ,", ","))
OPTIONS = re.compile(r"tied embeddings|(QKV|output|MLP) bias|bias of logits|biases of low ranks|experts in "
                     r"some layers|none beyond the basic decoder|q in two steps")
# The first room that fits, by what the layers of its families are made of.
RECURRENCES = tuple(re.findall(r"^TENON_RECURRENCE\(\w+, (\w+)\)",
                               (ROOT / "core/model/blocks/blocks.def").read_text(), re.MULTILINE))
ROOMS = (("recurrent", RECURRENCES),
         ("latent", ("latent attention",)), ("experts", ("experts",)), ("layer_norm", ("layer norms",)),
         ("dense", ("",)))


def tenon(binary, *words):
    done = subprocess.run([binary, *map(str, words)], capture_output=True, text=True, check=True)
    return json.loads(done.stdout)


def mechanisms(info):
    text = info["features"]
    for pattern, plain in PLAIN:
        text = re.sub(pattern, plain, text)
    parts = [part.strip() for part in text.split(",")]
    rope = info["rope"]
    if "ALiBi" in rope:
        parts.append("ALiBi")
    if "learned positions" in rope:
        parts.append("learned positions")
    if "elements of a head" in rope and "latent attention" not in text:
        parts.append("rotary embedding of part of a head")
    return [part for part in parts if part]


class Row:
    def __init__(self, family):
        self.names = [family["model_type"], *family["text_part_of"]]
        self.gguf = family["gguf"]
        self.shapes = ", ".join(f"`{name}`" for name in family["shapes"])
        self.mechanisms, self.goldens, self.files, self.adapters = [], 0, 0, 0
        self.room = 0  # of the plainest golden model

    def add_golden(self, parts):
        self.goldens += 1
        self.mechanisms += [part for part in parts
                            if part not in self.mechanisms and not OPTIONS.fullmatch(part)]
        self.room = max(self.room, next(number for number, (_, words) in enumerate(ROOMS)
                                        if any(part.startswith(words) for part in [*parts, ""])))

    def cells(self):
        tests = [f"of transformers ({self.goldens})"] if self.goldens else []
        tests += [f"GGUF ({self.files})"] if self.files else []
        tests += [f"adapters of PEFT ({self.adapters})"] if self.adapters else []
        names = ", ".join(f"`{name}`" for name in self.names)
        parts = [part for part in self.mechanisms if part.removesuffix(SOME) == part or
                 part.removesuffix(SOME) not in self.mechanisms]
        made = ", ".join(parts) or "the basic decoder"
        return [names, made, f"`{self.gguf}`" if self.gguf else "–", ", ".join(tests),
                self.shapes]


def rows_of(binary):
    rows = [Row(family) for family in tenon(binary, "model", "families", "--json")]
    by_golden = {}
    built = pathlib.Path(binary).resolve().parent.parent / "tests/golden/models"
    for folder in sorted(built.iterdir()):
        info = tenon(binary, "model", "info", folder, "--json")
        row = next(row for row in rows if row.names[0] == info["architecture"])
        by_golden[folder.name] = row
        row.add_golden(mechanisms(info))
    for file in (built.parent / "gguf").glob("*.gguf"):
        names = [name for name in by_golden if file.stem.startswith(name + "_")]
        if names:
            by_golden[max(names, key=len)].files += 1
    for base in (GOLDEN / "adapters").glob("*/base.txt"):
        by_golden[base.read_text().strip()].adapters += 1
    return rows


def check_rooms(rows):
    """Families that share a file are where its first one belongs."""
    by_name = {row.names[0]: row for row in rows}
    for file in sorted(FAMILIES.glob("*/*.cc")):
        names = re.findall(r'^const Family k\w+\{\s*\.model_type = "(\w+)"', file.read_text(), re.M)
        if not names or not by_name[names[0]].goldens:
            continue
        room = ROOMS[by_name[names[0]].room][0]
        if room != file.parent.name:
            yield f"{file.relative_to(ROOT)}: by what it is made of it belongs to {room}/"


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--binary", default=str(ROOT / "build/dev/bin/tenon"))
    parser.add_argument("--check", action="store_true")
    given = parser.parse_args()
    lines = ["| model_type, also inside | made of | in GGUF | goldens | shapes of `model synth` |",
             "|---|---|---|---|---|"]
    rows = rows_of(given.binary)
    faults = list(check_rooms(rows))
    for row in rows:
        lines.append("| " + " | ".join(row.cells()) + " |")
    page = PAGE.read_text()
    head, rest = page.split(BEGIN)
    new = head + BEGIN + "\n".join(lines) + "\n" + END + rest.split(END)[1]
    if not given.check:
        PAGE.write_text(new)
    elif new != page:
        faults.append("docs/families.md is not what tools/families_table.py makes; run it")
    if faults:
        sys.exit("\n".join(faults))


if __name__ == "__main__":
    main()
