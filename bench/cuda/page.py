"""The part of docs/cuda.md that says how fast kernels can be, and how fast they were: made of
bench/cuda/roofline.txt (tenon_cuda_roofline) and bench/cuda/measured.txt (tenon_cuda_bench), which is
there once it ran on a GPU."""
import pathlib

ROOT = pathlib.Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs/cuda.md"
ROOFLINE = ROOT / "bench/cuda/roofline.txt"
MEASURED = ROOT / "bench/cuda/measured.txt"
BEGIN = "<!-- written by bench/cuda/all -->"
END = "<!-- until here -->"
NEVER = "never run"
TITLES = {
    "8b-decode": "Decoding, one sequence of 1,024 tokens, bf16",
    "8b-decode-w8": "The same, weights of 8 bits (the head's bf16)",
    "8b-decode-w4": "The same, weights of 4 bits (the head's bf16)",
    "8b-prefill": "A prompt of 4,096 tokens, bf16",
    "parts": "Single calls of kernels that these steps do not have, for one row, the 1,024th where it attends",
}


# Of these cuBLASLt makes the products too.
BESIDE = ("8b-decode", "8b-prefill")


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


def table(roofline, measured, workload):
    rows = roofline.rows[workload]
    yield f"**{TITLES[workload]}**"
    yield ""
    yield ("| kernel | calls | bytes | asked for | operations | "
           + " | ".join(f"{device} ≥ µs" for device in roofline.devices) + " | measured µs |"
           + (" cuBLASLt µs |" if workload in BESIDE else ""))
    yield "|---|" + "---:|" * (len(roofline.devices) + 5 + (workload in BESIDE))
    for name, calls, moved, issued, operations, *least in rows:
        time = measured.step(workload) if name == "step" else measured.times.get((workload, name))
        cells = [name, calls, number(int(moved)), number(int(issued)),
                 number(int(operations)) if int(operations) else "–",
                 *(microseconds(float(value)) for value in least),
                 NEVER if time is None else microseconds(time)]
        if workload in BESIDE:
            beside = measured.beside.get((workload, name))
            cells.append("–" if not name.startswith("product.") else
                         NEVER if beside is None else microseconds(beside))
        yield "| " + " | ".join(cells) + " |"
    yield ""


def verdicts(roofline, measured):
    """What was to be reached, and what was; where nothing was measured, the roofline's own share."""
    def moved(workload):
        return next(int(row[2]) for row in roofline.rows[workload] if row[0] == "step")

    plain, w4 = measured.step("8b-decode"), measured.step("8b-decode-w4")
    bandwidth = None
    if plain is not None and measured.bandwidth:
        bandwidth = moved("8b-decode") / (plain * 1e-6) / measured.bandwidth
    prefill = None
    largest = ("8b-prefill", "product.gate_up")
    if largest in measured.times and largest in measured.beside:
        prefill = measured.beside[largest] / measured.times[largest]
    yield "| Aim | reached |"
    yield "|---|---:|"
    yield f"| bf16, batch 1: ≥ 0.80 of the bandwidth that copying reaches | {share(bandwidth)} |"
    yield f"| prompt's largest product: ≥ 0.5 of cuBLASLt's rate | {share(prefill)} |"
    yield ("| 4 bits: ≥ 2.5 times as fast as bf16, batch 1 | "
           f"{share(plain / w4 if plain is not None and w4 is not None else None)} |")
    yield ""


def by_torch(measured):
    steps = [f"{microseconds(time)} µs for the step of \"{TITLES[name]}\" ({time / measured.step(name):.2f} "
             "times as long)" for name, time in measured.torch_steps.items() if measured.step(name)]
    if steps:
        yield (f"PyTorch {measured.torch}, with its own operations and matrices joined as here, replayed as one "
               f"graph (`bench/cuda/torch_step.py`): {', '.join(steps)}.")
        yield ""


def share(value):
    return NEVER if value is None else f"{value:.2f}"


def section(roofline_text, measured_text):
    roofline, measured = Roofline(roofline_text), Measured(measured_text)
    lines = [BEGIN, ""]
    lines.append(f"Measured on {measured.device}, which copies {number(measured.bandwidth)}B/s"
                 + (f", beside cuBLASLt {measured.cublaslt}." if measured.cublaslt else ".")
                 if measured.device else
                 "Nothing here was measured: no kernel has run on a GPU.")
    lines.append("")
    lines += ["| Device (SXM) | memory | bf16, dense |", "|---|---:|---:|"]
    for device, (bandwidth, operations) in roofline.limits.items():
        lines.append(f"| {device} | {number(bandwidth)}B/s | {number(operations)}FLOP/s |")
    lines.append("")
    lines += verdicts(roofline, measured)
    lines += by_torch(measured)
    for workload in TITLES:
        lines += table(roofline, measured, workload)
    lines.append(END)
    return "\n".join(lines)


def made():
    """The page as it should be."""
    measured = MEASURED.read_text() if MEASURED.exists() else ""
    text = PAGE.read_text()
    before, rest = text.split(BEGIN)
    return before + section(ROOFLINE.read_text(), measured) + rest.split(END)[1]
