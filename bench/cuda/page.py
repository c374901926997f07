"""The part of docs/cuda.md that says how fast kernels can be, and how fast they were: made of
bench/cuda/roofline.txt (tenon_cuda_roofline) and bench/cuda/measured, a file (tenon_cuda_bench) for each
kind of GPU on which that ran."""
import pathlib

ROOT = pathlib.Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs/cuda.md"
ROOFLINE = ROOT / "bench/cuda/roofline.txt"
MEASURED = ROOT / "bench/cuda/measured"
BEGIN = "<!-- written by bench/cuda/all -->"
END = "<!-- until here -->"
NEVER = "never run"
TITLES = {
    "8b-decode": "Decoding, one sequence of 1,024 tokens, bf16",
    "8b-decode-w8": "The same, weights of 8 bits (the head's bf16)",
    "8b-decode-f8": "The same, weights that are floats of 8 bits (E4M3)",
    "8b-decode-w4": "The same, weights of 4 bits (the head's bf16)",
    "8b-long": "Decoding, one sequence of 32,768 tokens, bf16",
    "8b-batch8": "Decoding, 8 sequences of 1,024 tokens, bf16",
    "8b-batch8-w4": "The same, weights of 4 bits",
    "8b-batch32": "Decoding, 32 sequences of 1,024 tokens, bf16",
    "8b-batch32-w8": "The same, weights of 8 bits",
    "8b-batch32-w4": "The same, weights of 4 bits",
    "8b-prefill": "A prompt of 4,096 tokens, bf16",
    "8b-prefill-w8": "The same, weights of 8 bits",
    "8b-prefill-w4": "The same, weights of 4 bits",
    "parts": "Single calls of kernels that these steps do not have, for one row, the 1,024th where it attends",
}


# Of these cuBLASLt makes the products too.
BESIDE = ("8b-decode", "8b-long", "8b-batch8", "8b-batch32", "8b-prefill")


class Roofline:
    def __init__(self, text):
        lines = [line.split() for line in text.splitlines()]
        self.devices = [name.removesuffix("_us") for name in lines[0][6:]]
        self.limits = {line[1]: (float(line[2]), float(line[3])) for line in lines
                       if line[0] == "limit"}
        self.rows = {}
        for line in lines[1:]:
            if line[0] in TITLES:
                self.rows.setdefault(line[0], []).append(line[1:])


class Measured:
    def __init__(self, text):
        lines = [line.split() for line in text.splitlines()]
        self.device = next((" ".join(line[1:]) for line in lines if line[0] == "device"), None)
        self.bandwidth = next((float(line[2]) for line in lines if line[0] == "bandwidth"), None)
        self.times = {(line[0], line[1]): float(line[2]) for line in lines if line[0] in TITLES}
        cublaslt = [line[1:] for line in lines if line[0] == "cublaslt"]
        self.cublaslt = next((line[0] for line in cublaslt if len(line) == 1), None)
        self.beside = {(line[0], line[1]): float(line[2]) for line in cublaslt if len(line) == 3}
        torch = [line[1:] for line in lines if line[0] == "torch"]
        self.torch = next((line[0] for line in torch if len(line) == 1), None)
        self.torch_steps = {line[0]: float(line[2]) for line in torch if len(line) == 3}

    def step(self, workload):
        """Microseconds of a whole step, launched as one graph; None where it was not measured."""
        return self.times.get((workload, "step"))


def number(value):
    for size, unit in ((1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k")):
        if value >= size:
            return f"{value / size:.3g} {unit}"
    return f"{value:.0f}"


def microseconds(value):
    return f"{value:.3g}" if value < 1000 else f"{value:,.0f}"


def by_name(measured, name):
    """What was measured on a device that roofline.txt names; None where it never ran."""
    return next((one for one in measured if name in one.device.split()), None)


def time_of(one, workload, name):
    if one is None:
        return NEVER
    time = one.times.get((workload, name))
    return NEVER if time is None else microseconds(time)


def cublaslt_of(one, workload, name):
    if not name.startswith("product."):
        return "–"
    beside = one.beside.get((workload, name)) if one else None
    return NEVER if beside is None else microseconds(beside)


def table(roofline, measured, workload):
    """For each device: the least time, what was measured, and cuBLASLt's time where it stands beside."""
    beside = workload in BESIDE
    yield f"**{TITLES[workload]}**"
    yield ""
    yield ("| kernel | calls | bytes | asked for | operations | "
           + "".join(f"{device} ≥ µs | measured | " + ("cuBLASLt | " if beside else "")
                     for device in roofline.devices)).rstrip()
    yield "|---|" + "---:|" * (len(roofline.devices) * (2 + beside) + 4)
    for name, calls, moved, issued, operations, *least in roofline.rows[workload]:
        cells = [name, calls, number(int(moved)), number(int(issued)),
                 number(int(operations)) if int(operations) else "–"]
        for device, value in zip(roofline.devices, least):
            one = by_name(measured, device)
            cells += [microseconds(float(value)), time_of(one, workload, name)]
            if beside:
                cells.append(cublaslt_of(one, workload, name))
        yield "| " + " | ".join(cells) + " |"
    yield ""


def reached(roofline, one):
    """Of what was to be reached, what a device reached: the share of the bandwidth that copying has, of
    cuBLASLt's rate in the largest product of a prompt, bf16's time in that of 4 bits."""
    moved = next(int(row[2]) for row in roofline.rows["8b-decode"] if row[0] == "step")
    plain, w4 = one.step("8b-decode"), one.step("8b-decode-w4")
    largest = ("8b-prefill", "product.gate_up")
    yield moved / (plain * 1e-6) / one.bandwidth if plain and one.bandwidth else None
    yield (one.beside[largest] / one.times[largest]
           if largest in one.times and largest in one.beside else None)
    yield plain / w4 if plain and w4 else None


AIMS = ("bf16, batch 1: ≥ 0.80 of the bandwidth that copying reaches",
        "prompt's largest product: ≥ 0.5 of cuBLASLt's rate",
        "4 bits: ≥ 2.5 times as fast as bf16, batch 1")


def verdicts(roofline, measured):
    columns = {device: by_name(measured, device) for device in roofline.devices}
    seen = [list(reached(roofline, one)) if one else [None] * len(AIMS) for one in columns.values()]
    yield "| Aim | " + " | ".join(columns) + " |"
    yield "|---|" + "---:|" * len(columns)
    for i, aim in enumerate(AIMS):
        yield f"| {aim} | " + " | ".join(share(values[i]) for values in seen) + " |"
    yield ""


def whole(workload):
    """A title that says all without the one above it."""
    title = TITLES[workload]
    if not title.startswith("The same"):
        return title
    return TITLES[workload.rpartition("-")[0]].removesuffix(", bf16") + title.removeprefix("The same")


def share_of(least, time):
    return "–" if time is None else f"{least / time:.2f}"


def steps(roofline, measured):
    """All steps: the share of the least time that was reached, and how much longer PyTorch takes."""
    yield ("| Step | " + "".join(f"{device} ≥ µs | measured | share | PyTorch | " for device in roofline.devices)
           ).rstrip()
    yield "|---|" + "---:|" * (4 * len(roofline.devices))
    for workload, rows in roofline.rows.items():
        step = next((row for row in rows if row[0] == "step"), None)
        if not step:
            continue
        cells = [whole(workload)]
        for device, least in zip(roofline.devices, map(float, step[5:])):
            one = by_name(measured, device)
            time, beside = one and one.step(workload), one and one.torch_steps.get(workload)
            cells += [microseconds(least), NEVER if time is None else microseconds(time), share_of(least, time),
                      microseconds(beside) if beside else "–"]
        yield "| " + " | ".join(cells) + " |"
    yield ""


def by_torch(measured):
    versions = [f"{one.torch} on the {one.device}" for one in measured if one.torch]
    if versions:
        yield (f"PyTorch is {', '.join(versions)}, with its own operations and matrices joined as here, replayed as "
               "one graph (`bench/cuda/torch_step.py`); its weights are bf16.")
        yield ""


def share(value):
    return NEVER if value is None else f"{value:.2f}"


def device_of(one):
    return (f"{one.device}, which copies {number(one.bandwidth)}B/s"
            + (f", beside cuBLASLt {one.cublaslt}" if one.cublaslt else ""))


def section(roofline_text, measured_texts):
    roofline = Roofline(roofline_text)
    measured = [Measured(text) for text in measured_texts]
    lines = [BEGIN, ""]
    lines.append("Measured on " + "; and on ".join(device_of(one) for one in measured) + "."
                 if measured else "Nothing here was measured: no kernel has run on a GPU.")
    lines.append("")
    lines += ["| Device (SXM) | memory | bf16, dense |", "|---|---:|---:|"]
    for device, (bandwidth, operations) in roofline.limits.items():
        lines.append(f"| {device} | {number(bandwidth)}B/s | {number(operations)}FLOP/s |")
    lines.append("")
    lines += verdicts(roofline, measured)
    lines += steps(roofline, measured)
    lines += by_torch(measured)
    for workload in roofline.rows:
        lines += table(roofline, measured, workload)
    lines.append(END)
    return "\n".join(lines)


def file_of(text):
    """Where lines of tenon_cuda_bench go, by the name of their device: NVIDIA H200 is h200.txt."""
    words = [word for word in Measured(text).device.lower().split() if word != "nvidia"]
    return MEASURED / f"{words[0]}.txt"


def made():
    """The page as it should be."""
    measured = [path.read_text() for path in sorted(MEASURED.glob("*.txt"))]
    text = PAGE.read_text()
    before, rest = text.split(BEGIN)
    return before + section(ROOFLINE.read_text(), measured) + rest.split(END)[1]
