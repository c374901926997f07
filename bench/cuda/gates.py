#!/usr/bin/env python3
"""What nvcc makes of the kernels of the executor `cuda`, held against bench/cuda/gates.txt: registers,
spills and stack of each, and where cuobjdump is found (on PATH, or CUOBJDUMP) the numbers of
instructions that matter, in all of the kernel and in its inner loop.

    gates.py            compares; prints what differs; exit status 1 where something does
    gates.py --write    writes the table anew
    gates.py sm_90      one architecture alone

A spill is a fault whatever the table says. Without nvcc it says so and ends with status 77. A table is
that of one release of nvcc, which its first line names: with another one only spills are faults.
"""
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
TABLE = ROOT / "bench/cuda/gates.txt"
ARCHITECTURES = ("sm_80", "sm_89", "sm_90")
FLAGS = ("-std=c++20", "-O3", "-fmad=false", "-Werror", "all-warnings")
# mma, ldmatrix, cp.async, loads and stores of 16 bytes
INSTRUCTIONS = ("HMMA", "LDSM", "LDGSTS", "LDG.E.128", "LDG", "STG")
COLUMNS = ["registers", "spills", "stack", *INSTRUCTIONS, "loop", "loop.HMMA"]


def short(mangled):
    """multiply_bf16<64> from a mangled name: without namespaces, result and parameters."""
    name = subprocess.run(["c++filt", mangled], capture_output=True, text=True).stdout.strip()
    name = name.removeprefix("void ").replace("tenon::cuda::", "")
    depth = 0
    for i, letter in enumerate(name):
        depth += (letter == "<") - (letter == ">")
        if letter == "(" and depth == 0:
            return name[:i].replace(" ", "")
    return name.replace(" ", "")


def resources(text):
    """{kernel: [registers, spills, stack]} from nvcc's --resource-usage."""
    found, kernel = {}, None
    for line in text.splitlines():
        if match := re.search(r"entry function '(\S+)' for", line):
            kernel = short(match[1])
            found[kernel] = [0, 0, 0]
        elif match := re.search(r"(\d+) bytes stack frame, (\d+) bytes spill stores", line):
            found[kernel][1:] = [int(match[2]), int(match[1])]
        elif match := re.search(r"Used (\d+) registers", line):
            found[kernel][0] = int(match[1])
    return found


def inner_loop(code):
    """(instructions, HMMA) of the loop that has the most of its instructions in HMMA."""
    best = (0, 0)
    for address, text in code:
        match = re.search(r"\bBRA\b.*?(0x[0-9a-f]+)", text)
        if not match or int(match[1], 16) >= address:
            continue
        body = [line for at, line in code if int(match[1], 16) <= at <= address]
        share = (len(body), sum("HMMA" in line for line in body))
        if share[1] * max(best[0], 1) > best[1] * share[0]:
            best = share
    return best


def instructions(cubin, tool):
    """{kernel: [counts, loop, loop.HMMA]} from cuobjdump."""
    text = subprocess.run([tool, "-sass", cubin], check=True, capture_output=True, text=True).stdout
    found = {}
    for part in text.split("Function : ")[1:]:
        name, _, body = part.partition("\n")
        code = [(int(at, 16), line) for at, line in re.findall(r"/\*([0-9a-f]{4,})\*/\s+(.*?);", body)]
        counts = [sum(bool(re.search(rf"\b{re.escape(what)}\b", line)) for _, line in code)
                  for what in INSTRUCTIONS]
        found[short(name.strip())] = [*counts, *inner_loop(code)]
    return found


def measure(architecture, folder, nvcc, tool):
    rows = {}
    for source in sorted((ROOT / "core/exec/cuda/kernels").glob("*.cu")):
        cubin = pathlib.Path(folder, source.stem + ".cubin")
        made = subprocess.run([nvcc, *FLAGS, f"-arch={architecture}", "--resource-usage", "-cubin",
                               f"-I{ROOT}", f"-I{ROOT}/sdk/cuda_host/include", str(source), "-o",
                               str(cubin)], capture_output=True, text=True)
        if made.returncode != 0:
            sys.exit(f"nvcc does not compile {source.relative_to(ROOT)} for {architecture}:\n"
                     f"{made.stderr}")
        counted = instructions(str(cubin), tool) if tool else {}
        for kernel, usage in resources(made.stdout + made.stderr).items():
            rows[architecture, kernel] = usage + counted.get(kernel, [None] * (len(COLUMNS) - 3))
    return rows


def read_table():
    lines = TABLE.read_text().splitlines() if TABLE.exists() else []
    rows = {}
    for line in lines[2:]:
        architecture, kernel, *values = line.split()
        rows[architecture, kernel] = [None if value == "-" else int(value) for value in values]
    return (lines[0] if lines else ""), rows


def write_table(release, rows):
    lines = [release, " ".join(["architecture", "kernel", *COLUMNS])]
    for (architecture, kernel), values in sorted(rows.items()):
        lines.append(" ".join([architecture, kernel, *("-" if v is None else str(v) for v in values)]))
    TABLE.write_text("\n".join(lines) + "\n")


def differences(rows, known, architectures):
    for key in sorted(set(rows) | {k for k in known if k[0] in architectures}):
        now, before = rows.get(key), known.get(key)
        name = " ".join(key)
        if now is None or before is None:
            yield f"{name}: {'gone' if now is None else 'new'}"
            continue
        for column, a, b in zip(COLUMNS, before, now):
            if a != b and a is not None and b is not None:
                yield f"{name}: {column} {a} -> {b}"


def main():
    nvcc = shutil.which("nvcc")
    if not nvcc:
        print("skipped: nvcc is not here")
        return 77
    tool = os.environ.get("CUOBJDUMP") or shutil.which("cuobjdump")
    architectures = [a for a in sys.argv[1:] if a.startswith("sm_")] or list(ARCHITECTURES)
    release = re.search(r"release \S+", subprocess.run([nvcc, "--version"], capture_output=True,
                                                       text=True).stdout)[0].rstrip(",")
    rows = {}
    with tempfile.TemporaryDirectory() as folder:
        for architecture in architectures:
            rows.update(measure(architecture, folder, nvcc, tool))
    spills = [f"{' '.join(key)}: {values[1]} bytes are spilled" for key, values in rows.items()
              if values[1] > 0]
    known_release, known = read_table()
    if "--write" in sys.argv:
        write_table(f"nvcc {release}", rows)
        print("\n".join([f"{len(rows)} kernels are written", *spills]))
        return 1 if spills else 0
    changed = []
    if known_release == f"nvcc {release}":
        changed = list(differences(rows, known, architectures))
    else:
        print(f"the table is of {known_release}, this is nvcc {release}: only spills are compared")
    if not tool:
        print("cuobjdump is not here: instructions are not compared")
    print("\n".join(spills + changed) or f"{len(rows)} kernels are as they were, none spills")
    return 1 if spills or changed else 0


if __name__ == "__main__":
    sys.exit(main())
