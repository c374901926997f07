#!/usr/bin/env python3
"""Makes the bundled model in every format that is written, judges each by `tenon model compare`, and
puts the table into docs/quantising.md and the picture into docs/quality.svg.

    tools/quality_table.py [--binary build/dev/bin/tenon] [--speed [--layers N] [--alone]]
                           [--formats PATTERN] [--again] [--results FILE]

What was measured is kept in a file, by default docs/quality.json, and what stands there is not measured again
without --again; with --formats only what the pattern finds is measured. With --speed the
shape of Llama 3.2 1B is made in each format too (those that differ in calibration alone are stored and
run alike, and measured once), and decoding and prefill are stated as fractions of the machine's limit. That
wants a machine without other work, 8 GB of disk and some two minutes a format; --alone measures speeds and
nothing else, for a later run with the same --results.

The first half of configs/models/valid.txt is what methods learn from, the rest what they are judged on.
"""
import argparse
import json
import math
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parent.parent
MODEL = ROOT / "configs/models/tale"
TEXT = ROOT / "configs/models/valid.txt"
DOCUMENT = ROOT / "docs/quantising.md"
PICTURE = ROOT / "docs/quality.svg"
LEARNT_BYTES = 60000
JUDGED_TOKENS = 8192
BEGIN, END = "<!-- table: tools/quality_table.py -->", "<!-- end of table -->"

LEARN = ["--calibrate", "LEARN"]
# Name, family (its colour), OUT's ending, flags.
FORMATS = [(f"rtn {bits} bits, groups of {group}", "rtn", "",
            ["--method", "rtn", "--bits", bits, "--group", group])
           for bits, group in [("8", "128"), ("4", "32"), ("4", "128"), ("3", "128"), ("2", "32")]]
FORMATS += [(f"gptq {bits} bits, groups of {group}", "gptq", "",
             ["--method", "gptq", "--bits", bits, "--group", group, *LEARN])
            for bits, group in [("4", "128"), ("3", "128"), ("2", "32")]]
FORMATS += [(f"gptq, a budget of {bits} bits", "budget", "",
             ["--method", "gptq", "--bits", bits, "--group", "128", *LEARN])
            for bits in ["3.25", "4.25"]]
FORMATS += [("awq 4 bits, groups of 128", "awq", "", ["--method", "awq", *LEARN])]
FORMATS += [(method, "bytes and levels", "", ["--method", method])
            for method in ["nf4", "int8", "fp8"]]
FORMATS += [(method, "GGUF blocks", ".gguf", ["--method", method])
            for method in ["q8_0", "q6_k", "q5_k", "q5_1", "q5_0", "q4_k", "q4_1", "q4_0", "iq4_nl",
                           "iq4_xs", "mxfp4", "q3_k", "q2_k"]]
FORMATS += [(f"{method}, calibrated", "GGUF blocks", ".gguf", ["--method", method, *LEARN])
            for method in ["q5_k", "q4_k", "q4_0", "iq4_nl", "iq4_xs", "q3_k", "q2_k"]]
# What is read but not written.
READ_ONLY = ["bitsandbytes FP4, LLM.int8", "HQQ 2, 3, 4, 8 bits", "compressed-tensors W4A16",
             "FP8 in blocks", "MXFP4 experts (gpt-oss)", "NVFP4"]
SHAPE = "llama-3.2-1b"
# What a speed column says, and the flags of `tenon bench` that measure it.
SPEEDS = {"decode": [], "batch 8": ["--batch", 8], "prefill": []}
COLOURS = {"rtn": "#999999", "gptq": "#0072b2", "budget": "#56b4e9", "awq": "#d55e00",
           "bytes and levels": "#cc79a7", "GGUF blocks": "#009e73"}


def tenon(binary, *arguments):
    done = subprocess.run([binary, *map(str, arguments)], capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise RuntimeError(f"{arguments}: {done.stderr.strip()}")
    return done.stdout


def measure(binary, folder, name, family, ending, flags):
    out = folder / (re.sub(r"[^a-z0-9.]+", "-", name) + ending)
    flags = [folder / "learn.txt" if flag == "LEARN" else flag for flag in flags]
    said = tenon(binary, "model", "quantize", MODEL, out, *flags)
    report = json.loads(tenon(binary, "model", "compare", MODEL, out, "--file", folder / "judge.txt",
                              "--max-tokens", JUDGED_TOKENS, "--json", "--set",
                              "linear.plugin=dense"))
    print(f"{name}: {said.strip()}", file=sys.stderr)
    return {"name": name, "family": family,
            "bits": float(re.search(r"with ([0-9.]+) bits a weight", said)[1]),
            "megabytes": report["other"]["weight_bytes"] / 1e6,
            "kl": report["kl_nats_per_token"], "top": report["same_top"]["estimate"],
            "perplexity": report["other"]["perplexity"], "base": report["base"]["perplexity"]}


def measure_speed(binary, folder, layers, flags, ending):
    """Fractions of the limit with the 1B shape; None where the machine was busy in all repetitions."""
    whole = folder / SHAPE
    made = folder / f"speed{ending}"
    tenon(binary, "model", "quantize", whole, made, *flags)
    fractions = {"layers": layers}
    for column, more in SPEEDS.items():
        if column == "prefill":
            continue
        said = json.loads(tenon(binary, "bench", "--model", made, "--json", "--decode-tokens", 24,
                                "--repeat", 3, "--set", "limits.context_tokens=1024",
                                "--set", "limits.max_sequences=8", *more))
        fractions[column] = said["decode"].get("fraction_of_limit")
        if not more:
            fractions["prefill"] = said["prefill"].get("fraction_of_limit")
    shutil.rmtree(made) if made.is_dir() else made.unlink()
    return fractions


def processor():
    """As `tenon bench` calls it."""
    lines = pathlib.Path("/proc/cpuinfo").read_text().splitlines()
    return next(line.split(":", 1)[1].strip() for line in lines if line.startswith("model name"))


def maker(machine):
    return re.match(r"\w+", machine)[0]


def speed_cells(speeds, machines):
    """Of each machine what SPEEDS has; nothing where it was not measured."""
    for machine in machines:
        for column in SPEEDS:
            value = speeds.get(machine, {}).get(column, "")
            yield "busy" if value is None else f"{value:.2f}" if value != "" else ""


def table(rows, known):
    base = rows[0]["base"]
    machines = sorted({machine for row in rows for machine in row.get("speeds", {})})
    columns = ["format", "bits a weight", "MB as it is run", "KL divergence [95 %]", "same likeliest",
               "perplexity", *(f"{column}, {maker(machine)}" for machine in machines for column in SPEEDS)]
    lines = [BEGIN, "",
             f"Perplexity of the model in BF16 on this text: {base:.3f}. All of these are written and read.",
             "", f"| {' | '.join(columns)} |", "|---" * len(columns) + "|"]
    for row in rows:
        kl, more = row["kl"], 100 * (row["perplexity"] / base - 1)
        lines.append(f"| {row['name']} | {row['bits']:.3f} | {row['megabytes']:.2f} | "
                     f"{kl['estimate']:.5f} [{kl['low']:.5f}, {kl['high']:.5f}] | "
                     f"{100 * row['top']:.1f} % | {row['perplexity']:.3f} ({more:+.2f} %) |" +
                     "".join(f" {cell} |" for cell in speed_cells(row.get("speeds", {}), machines)))
    if machines:
        layers = {speed["layers"] for row in rows for speed in row.get("speeds", {}).values()}
        lines += ["", "The last columns: a step of one sequence, a step of eight, and a prompt of 512 tokens, "
                  f"with {' or '.join(str(count or 'all') for count in layers)} layers of the shape of {SHAPE}, as "
                  "fractions of the limit of that machine at that time; one run each, on virtual machines whose memory "
                  f"is now faster and now slower ({'; '.join(machines)})."]
    return "\n".join([*lines, "", *findings(known), "", "Read, not written: " + ", ".join(READ_ONLY) + ".", END])


def findings(known):
    """What the calibrated methods win back, and what a budget buys at the same size."""
    def loss(name):
        row = known[name]
        return row["kl"]["estimate"], math.log(row["perplexity"] / row["base"])

    lines = []
    for shape, methods in [("4 bits, groups of 128", ["gptq", "awq"]),
                           ("3 bits, groups of 128", ["gptq"]), ("2 bits, groups of 32", ["gptq"])]:
        if f"rtn {shape}" not in known:
            continue
        rounded = loss(f"rtn {shape}")
        for method in methods:
            if f"{method} {shape}" not in known:
                continue
            kl, nats = (100 * (1 - own / all_of)
                        for own, all_of in zip(loss(f"{method} {shape}"), rounded))
            lines.append(f"- {method} with {shape} wins back {kl:.0f} % of the KL divergence and "
                         f"{nats:.0f} % of the log perplexity that rtn loses.")
    for budget, one in [("4.25", "4 bits, groups of 128"), ("3.25", "3 bits, groups of 128")]:
        if f"gptq, a budget of {budget} bits" not in known or f"gptq {one}" not in known:
            continue
        mixed, uniform = known[f"gptq, a budget of {budget} bits"], known[f"gptq {one}"]
        lines.append(f"- A budget of {budget} bits ({mixed['bits']:.3f} as stored): KL divergence "
                     f"{mixed['kl']['estimate']:.5f}; {one} for all ({uniform['bits']:.3f}): "
                     f"{uniform['kl']['estimate']:.5f}.")
    return lines


def picture(rows):
    """Bits a weight to the right, KL divergence upwards, both logarithmic."""
    width, height, left, bottom = 760, 460, 70, 50
    low, high = min(r["kl"]["estimate"] for r in rows), max(r["kl"]["estimate"] for r in rows)
    bits = [r["bits"] for r in rows]

    def x_of(value):
        share = math.log(value / (0.95 * min(bits))) / math.log(max(bits) * 1.05 / (0.95 * min(bits)))
        return left + share * (width - left - 20)

    def y_of(value):
        share = math.log(value / (0.8 * low)) / math.log(high * 1.25 / (0.8 * low))
        return height - bottom - share * (height - bottom - 20)

    out = [f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" '
           'font-family="sans-serif" font-size="12">',
           f'<rect width="{width}" height="{height}" fill="#ffffff"/>']
    for tick in [2, 2.5, 3, 4, 5, 6, 8]:
        x = x_of(tick)
        if left <= x <= width - 20:
            out.append(f'<line x1="{x:.1f}" y1="20" x2="{x:.1f}" y2="{height - bottom}" '
                       'stroke="#dddddd"/>'
                       f'<text x="{x:.1f}" y="{height - bottom + 16}" text-anchor="middle">{tick}</text>')
    for exponent in range(-6, 2):
        y = y_of(10.0 ** exponent)
        if 20 <= y <= height - bottom:
            out.append(f'<line x1="{left}" y1="{y:.1f}" x2="{width - 20}" y2="{y:.1f}" '
                       'stroke="#dddddd"/>'
                       f'<text x="{left - 6}" y="{y + 4:.1f}" text-anchor="end">1e{exponent}</text>')
    for row in rows:
        x, y = x_of(row["bits"]), y_of(row["kl"]["estimate"])
        out.append(f'<circle cx="{x:.1f}" cy="{y:.1f}" r="5" fill="{COLOURS[row["family"]]}">'
                   f'<title>{row["name"]}: {row["bits"]:.3f} bits, KL {row["kl"]["estimate"]:.5f}'
                   '</title></circle>')
    for i, (family, colour) in enumerate(COLOURS.items()):
        y = 40 + 18 * i
        out.append(f'<circle cx="{width - 150}" cy="{y}" r="5" fill="{colour}"/>'
                   f'<text x="{width - 138}" y="{y + 4}">{family}</text>')
    out.append(f'<text x="{(width + left) / 2:.0f}" y="{height - 12}" text-anchor="middle">'
               'bits a weight, as stored</text>'
               f'<text transform="translate(18 {height / 2:.0f}) rotate(-90)" text-anchor="middle">'
               'KL divergence, nats a token</text></svg>')
    return "\n".join(out) + "\n"


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--binary", default=ROOT / "build/dev/bin/tenon")
    parser.add_argument("--results", default=ROOT / "docs/quality.json")
    parser.add_argument("--again", action="store_true", help="measure what --formats finds once more")
    parser.add_argument("--formats", default="")
    parser.add_argument("--speed", action="store_true")
    parser.add_argument("--layers", type=int, help="of the 1B shape, where time is short (default: all)")
    parser.add_argument("--alone", action="store_true", help="measure speeds and nothing else, and keep them")
    arguments = parser.parse_args()
    if arguments.alone and not arguments.speed:
        parser.error("--alone wants --speed")
    results = pathlib.Path(arguments.results)
    known = json.loads(results.read_text()) if results.exists() else {}

    def keep():
        results.write_text(json.dumps(known, indent=1) + "\n")

    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        text = TEXT.read_bytes()
        cut = text.index(b"\n", LEARNT_BYTES) + 1
        (folder / "learn.txt").write_bytes(text[:cut])
        (folder / "judge.txt").write_bytes(text[cut:])
        for each in FORMATS:
            entry = known.setdefault(each[0], {})
            missing = arguments.again or "kl" not in entry
            if missing and not arguments.alone and re.search(arguments.formats, each[0]):
                entry.update(measure(arguments.binary, folder, *each))
                keep()
        if arguments.speed:
            layers = ["--layers", arguments.layers] if arguments.layers else []
            tenon(arguments.binary, "model", "synth", "--shape", SHAPE, "--out", folder / SHAPE, *layers)
        for name, _, ending, flags in FORMATS:
            if not arguments.speed or "LEARN" in flags or not re.search(arguments.formats, name):
                continue
            speeds = known[name].setdefault("speeds", {})
            if arguments.again or processor() not in speeds:
                speeds[processor()] = measure_speed(arguments.binary, folder, arguments.layers, flags, ending)
                print(f"{name}: {speeds[processor()]}", file=sys.stderr)
                keep()
    if arguments.alone:
        return 0
    known = {name: entry for name, entry in known.items() if "kl" in entry}
    rows = [known[each[0]] for each in FORMATS if each[0] in known]
    rows.sort(key=lambda row: -row["bits"])
    document = DOCUMENT.read_text()
    begin, end = document.index(BEGIN), document.index(END) + len(END)
    DOCUMENT.write_text(document[:begin] + table(rows, known) + document[end:])
    PICTURE.write_text(picture(rows))
    return 0


if __name__ == "__main__":
    sys.exit(main())
