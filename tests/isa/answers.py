"""The program of another processor, emulated: every instruction set answers as recorded in
tests/golden/combinations.json, and portable kernels as they do on every processor.

    TENON_BINARY=build/aarch64/bin/tenon TENON_EMULATOR='qemu-aarch64 -cpu max' TENON_SOURCE_DIR=. tests/isa/answers.py
"""
import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).parents[1] / "cli"))

from combinations import AXES, ISAS, Grid, workload  # noqa: E402
from recorded_answers import RecordedAnswers  # noqa: E402

# The others widen to f32 as these do.
DTYPES = ["bf16", "i8"]


def main():
    recorded = RecordedAnswers(workload())
    faults = []
    for isa in ISAS:
        grid = Grid({**AXES, "dtype": DTYPES}, chosen=[], isa=isa).run(workers=2)
        faults += recorded.faults(grid)
        print(isa, *sorted({numerics for numerics, _ in grid.answers.values()}), sep="\n  ", flush=True)
    if faults:
        sys.exit("\n".join(faults))


if __name__ == "__main__":
    main()
