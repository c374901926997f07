#!/usr/bin/env python3
"""What nvcc makes of the kernels of the executor `cuda`, held against bench/cuda/gates.txt: registers,
spills, stack and shared memory of each, how much of a multiprocessor its threads fill (occupancy.py),
and where cuobjdump is found (on PATH, or CUOBJDUMP; PyPI has it as nvidia-cuda-cuobjdump) the numbers
of instructions that matter, in all of the kernel and in its inner loop.

    gates.py            compares; prints what differs; exit status 1 where something does
    gates.py --write    writes the table anew
    gates.py sm_90      one architecture alone
    gates.py --launches PROGRAM
                        compares bench/cuda/launches.txt, the threads and the shared memory that
                        kernels are launched with, with what PROGRAM (tenon_cuda_launches) says of
                        them; needs nm, and no nvcc. With --write it writes that table

A spill is a fault whatever the table says, and so is an inner loop with less HMMA than SHARES asks
for. Without nvcc (on PATH, or NVCC) it says so and ends with status 77. A table is that of one release
of nvcc, which its first line names: with another one only what is a fault by itself counts.
"""
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

import occupancy

ROOT = pathlib.Path(__file__).resolve().parents[2]
TABLE = ROOT / "bench/cuda/gates.txt"
LAUNCHES = ROOT / "bench/cuda/launches.txt"
ARCHITECTURES = ("sm_80", "sm_89", "sm_90")
FLAGS = ("-std=c++20", "-O3", "-fmad=false", "-Werror", "all-warnings")
# mma, ldmatrix, cp.async, loads and stores of 16 bytes
INSTRUCTIONS = ("HMMA", "LDSM", "LDGSTS", "LDG.E.128", "LDG", "STG")
LOOP = ("HMMA", "LDSM", "LDGSTS", "LDG.E.128")
USAGE = ["registers", "spills", "stack", "threads", "shared", "occupancy"]
COLUMNS = [*USAGE, *INSTRUCTIONS, "loop", *(f"loop.{what}" for what in LOOP), "refused"]
# Of the inner loop's instructions, where many rows keep tensor cores busy: (architecture, kernel).
SHARES = {("sm_90", "multiply_some<SomeTile<64,4,32,64,32,4>>"): 0.25,
          ("sm_90", "multiply_many<WideTile>"): 0.45,
          ("sm_90", "multiply_many<NarrowTile>"): 0.35, ("sm_90", "attend_wide<128,false>"): 0.07}


def short(mangled):
    """multiply_bf16<64> from a mangled name: without namespaces, result and parameters."""
    return shortened(subprocess.run(["c++filt", mangled], capture_output=True,
                                    text=True).stdout.strip())


def shortened(name):
    name = name.removeprefix("void ").replace("tenon::cuda::", "")
    depth = 0
    for i, letter in enumerate(name):
        depth += (letter == "<") - (letter == ">")
        if letter == "(" and depth == 0:
            return name[:i].replace(" ", "")
    return name.replace(" ", "")


def resources(text):
    """{kernel: [registers, spills, stack, static shared memory]} from nvcc's --resource-usage."""
    found, kernel = {}, None
    for line in text.splitlines():
        if match := re.search(r"entry function '(\S+)' for", line):
            kernel = short(match[1])
            found[kernel] = [0, 0, 0, 0]
        elif match := re.search(r"(\d+) bytes stack frame, (\d+) bytes spill stores", line):
            found[kernel][1:3] = [int(match[2]), int(match[1])]
        elif match := re.search(r"Used (\d+) registers", line):
            found[kernel][0] = int(match[1])
            if match := re.search(r"(\d+) bytes smem", line):
                found[kernel][3] = int(match[1])
    return found


def is_one(what, line):
    return bool(re.search(rf"\b{re.escape(what)}\b", line))


def inner_loop(code):
    """[instructions, and of LOOP] of the loop that has the most of its instructions in HMMA."""
    best, lines = (0, 0), []
    for address, text in code:
        match = re.search(r"\bBRA\b.*?(0x[0-9a-f]+)", text)
        if not match or int(match[1], 16) >= address:
            continue
        body = [line for at, line in code if int(match[1], 16) <= at <= address]
        share = (len(body), sum("HMMA" in line for line in body))
        if share[1] * max(best[0], 1) > best[1] * share[0]:
            best, lines = share, body
    return [best[0], *(sum(is_one(what, line) for line in lines) for what in LOOP)]


def instructions(cubin, tool):
    """{kernel: [counts, loop, loop.HMMA, refused]} from cuobjdump."""
    text = subprocess.run([tool, "-sass", cubin], check=True, capture_output=True, text=True).stdout
    found = {}
    for part in text.split("Function : ")[1:]:
        name, _, body = part.partition("\n")
        code = [(int(at, 16), line) for at, line in re.findall(r"/\*([0-9a-f]{4,})\*/\s+(.*?);", body)]
        counts = [sum(is_one(what, line) for _, line in code) for what in INSTRUCTIONS]
        found[short(name.strip())] = [*counts, *inner_loop(code), sum(map(is_refused, code))]
    return found


def is_refused(instruction):
    """Whether a device stops there with cudaErrorIllegalInstruction: a descriptor in a uniform register of
    odd number. The assembler of CUDA 13.0 wrote such ones for cp.async with a cache hint, in loops whose
    shared addresses it put together of two registers."""
    return bool(re.search(r"desc\[UR\d*[13579]\]", instruction[1]))


def launches_of(program):
    """{kernel: (threads, shared bytes)} of tenon_cuda_launches; the most where it differs."""
    places, anchor = {}, None
    for line in subprocess.run(["nm", "-C", program], check=True, capture_output=True,
                               text=True).stdout.splitlines():
        address, _, name = line[:16], line[17:18], line[19:]
        if name == "tenon_cuda_anchor":
            anchor = int(address, 16)
        elif address.strip():
            places[int(address, 16)] = name
    found = {}
    for line in subprocess.run([program], check=True, capture_output=True,
                               text=True).stdout.splitlines():
        threads, shared, offset = (int(word) for word in line.split())
        kernel = shortened(places[anchor + offset])
        found[kernel] = max(found.get(kernel, (0, 0)), (threads, shared))
    return found


def read_launches():
    lines = LAUNCHES.read_text().splitlines()[1:] if LAUNCHES.exists() else []
    return {kernel: (int(threads), int(shared))
            for kernel, threads, shared in (line.split() for line in lines)}


def check_launches(program, write):
    found = launches_of(program)
    if write:
        rows = [f"{kernel} {threads} {shared}" for kernel, (threads, shared) in sorted(found.items())]
        LAUNCHES.write_text("\n".join(["kernel threads shared", *rows]) + "\n")
        print(f"{len(found)} kernels are written")
        return 0
    known = read_launches()
    changed = [f"{kernel}: threads and shared memory {known.get(kernel)} -> {found.get(kernel)}"
               for kernel in sorted(set(known) | set(found)) if known.get(kernel) != found.get(kernel)]
    print("\n".join(changed) or f"{len(found)} kernels are launched as they were")
    return 1 if changed else 0


def add_occupancy(architecture, usage, launch):
    registers, spills, stack, static = usage
    if launch is None:
        return [registers, spills, stack, None, None, None]
    threads, shared = launch
    return [registers, spills, stack, threads, shared + static,
            occupancy.occupancy(architecture, threads, registers, shared + static)]


def measure(architecture, folder, nvcc, tool):
    launches = read_launches()
    rows = {}
    for source in sorted((ROOT / "core/exec/cuda/kernels").rglob("*.cu"), key=lambda source: source.name):
        cubin = pathlib.Path(folder, source.stem + ".cubin")
        made = subprocess.run([nvcc, *FLAGS, f"-arch={architecture}", "--resource-usage", "-cubin",
                               f"-I{ROOT}", f"-I{ROOT}/sdk/cuda_host/include", str(source), "-o",
                               str(cubin)], capture_output=True, text=True)
        if made.returncode != 0:
            sys.exit(f"nvcc does not compile {source.relative_to(ROOT)} for {architecture}:\n"
                     f"{made.stderr}")
        counted = instructions(str(cubin), tool) if tool else {}
        for kernel, usage in resources(made.stdout + made.stderr).items():
            rows[architecture, kernel] = (
                add_occupancy(architecture, usage, launches.get(kernel)) +
                counted.get(kernel, [None] * (len(COLUMNS) - len(USAGE))))
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


def faults(rows):
    """What no table excuses."""
    for key, values in rows.items():
        row = dict(zip(COLUMNS, values))
        name = " ".join(key)
        if row["spills"] > 0:
            yield f"{name}: {row['spills']} bytes are spilled"
        if row["refused"]:
            yield f"{name}: no device takes {row['refused']} of its instructions"
        if row["threads"] is None:
            yield (f"{name}: launches.txt does not have it; launch it in bench/cuda/every_launch.cc, "
                   "then gates.py --launches PROGRAM --write")
        if row["loop"] and row["loop.HMMA"] < SHARES.get(key, 0) * row["loop"]:
            yield (f"{name}: {row['loop.HMMA']} of the {row['loop']} instructions of the inner loop "
                   f"are HMMA; expected a share of {SHARES[key]} at least")


def main():
    if "--launches" in sys.argv:
        return check_launches(sys.argv[sys.argv.index("--launches") + 1], "--write" in sys.argv)
    nvcc = shutil.which(os.environ.get("NVCC", "nvcc"))
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
    found = list(faults(rows))
    known_release, known = read_table()
    if "--write" in sys.argv:
        write_table(f"nvcc {release}", rows)
        print("\n".join([f"{len(rows)} kernels are written", *found]))
        return 1 if found else 0
    changed = []
    if known_release == f"nvcc {release}":
        changed = list(differences(rows, known, architectures))
    else:
        print(f"the table is of {known_release}, this is nvcc {release}: only faults are looked for")
    if not tool:
        print("cuobjdump is not here: instructions are not compared")
    print("\n".join(found + changed) or f"{len(rows)} kernels are as they were, none spills")
    return 1 if found or changed else 0


if __name__ == "__main__":
    sys.exit(main())
