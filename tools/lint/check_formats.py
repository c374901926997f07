#!/usr/bin/env python3
"""Holds the table of docs/formats/weight-formats.md to the rows of weight_formats.def.

    tools/lint/check_formats.py [--fix]

Prints what differs; exit status 1 when anything does. With --fix the table is written.
"""
import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
ROWS = ROOT / "core/include/tenon/formats/weight_formats.def"
PAGE = ROOT / "docs/formats/weight-formats.md"
BEGIN, END = "<!-- table: tools/lint/check_formats.py --fix -->\n", "<!-- end of the table -->\n"
ROW = re.compile(r"^TENON_(GGUF_)?FORMAT\((\w+), (.*)\)$", re.M)
HEAD = """| Format | GGUF type | values | bytes | bits a value | scales | codes | multiplied as | `dense` | `int8` |
|---|---|---|---|---|---|---|---|---|---|
"""


def table():
    lines = []
    for gguf, name, rest in ROW.findall(ROWS.read_text()):
        fields = rest.split(", ")
        kind = fields[0] if gguf else ""
        values, size, scales, _, codes, base = fields[2 if gguf else 0:][:6]
        bits = f"{8 * int(size) / int(values):.4g}"
        own = "" if base == name else f"`{base}`"
        lines.append(f"| `{name}` | {kind} | {values} | {size} | {bits} | {scales} | {codes} | {own} "
                     f"| yes | {'no' if codes == 'floats' else 'yes'} |\n")
    return HEAD + "".join(lines)


def main():
    text = PAGE.read_text()
    before, rest = text.split(BEGIN)
    made = before + BEGIN + table() + END + rest.split(END)[1]
    if made == text:
        return 0
    if "--fix" in sys.argv[1:]:
        PAGE.write_text(made)
        return 0
    print(f"{PAGE.relative_to(ROOT)}: the table is not that of {ROWS.relative_to(ROOT)}; "
          "run tools/lint/check_formats.py --fix")
    return 1


if __name__ == "__main__":
    sys.exit(main())
