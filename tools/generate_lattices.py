#!/usr/bin/env python3
"""Writes the lattices of the GGUF formats iq1, iq2 and iq3 as C++ strings.

    tools/generate_lattices.py

The points were chosen by the authors of llama.cpp so that rounding weights to them loses least; no
shorter rule gives them. They are read from the Python package `gguf` (gguf.quants), which is needed
beside numpy. The kernels' SDK and the core's oracle read them, each with code of its own.

A point is a number with a digit for each value, the first the lowest, to the base of as many levels
as the lattice has. The points ascend, and each character says how much is added to the one before:
'#' 0, '$' 1, … '}' 90; '~' adds 91, and another character follows.
"""
import pathlib

import numpy as np
from gguf import quants

ROOT = pathlib.Path(__file__).resolve().parent.parent
LATTICES = [("Iq2Xxs", quants.IQ2_XXS), ("Iq2Xs", quants.IQ2_XS), ("Iq2S", quants.IQ2_S),
            ("Iq3Xxs", quants.IQ3_XXS), ("Iq3S", quants.IQ3_S), ("Iq1", quants.IQ1_S)]
FILE = "core/include/tenon/formats/lattices.h"


def steps(kind):
    kind.init_grid()
    points = kind.grid.reshape(kind.grid_shape)
    levels = sorted(set(points.ravel().tolist()))
    digits = np.searchsorted(levels, points)
    codes = (digits * len(levels) ** np.arange(digits.shape[1])).sum(1)
    text = ""
    for step in np.diff(codes, prepend=0):
        assert step >= 0
        text += "~" * (step // 91) + chr(35 + step % 91)
    return text


def write():
    lines = ["// Written by tools/generate_lattices.py, which says how the strings are read.",
             "#pragma once", "", "namespace tenon {", "", "// The points of each lattice."]
    for name, kind in LATTICES:
        text = steps(kind)
        pieces = [text[i:i + 88] for i in range(0, len(text), 88)]
        lines.append(f"inline constexpr char k{name}Steps[] =")
        lines += [f'    R"({piece})"' for piece in pieces]
        lines[-1] += ";"
    lines += ["", "}  // namespace tenon", ""]
    (ROOT / FILE).write_text("\n".join(lines))


if __name__ == "__main__":
    write()
