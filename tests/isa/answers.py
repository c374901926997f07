"""The program of another processor, emulated: portable kernels answer as on every processor, by what is
recorded in tests/golden/combinations.json, and each other set as recorded or, before anybody has
recorded it (combinations.py --record), the same whatever composes the pipeline.

    TENON_BINARY=build/aarch64/bin/tenon TENON_EMULATOR='qemu-aarch64 -cpu max' TENON_SOURCE_DIR=. tests/isa/answers.py
"""
import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).parents[1] / "cli"))

from combinations import AXES, ISAS, Grid, covering, workload  # noqa: E402
from recorded_answers import RecordedAnswers  # noqa: E402

# The others widen to f32 as these do.
DTYPES = ["bf16", "i8"]
# Of those that cover all pairs; an emulated processor is slow.
MOST = 4


def main():
    recorded = RecordedAnswers(workload())
    axes = {**AXES, "dtype": DTYPES}
    faults = []
    for isa in ISAS:
        grid = Grid(axes, chosen=covering(axes)[:MOST], isa=isa).run(workers=2)
        faults += [f"{isa}, {' + '.join(words)}: {result}" for words, result in grid.results.items()
                   if isinstance(result, str)]
        if isa != "portable" and recorded.lacks(grid):
            print(f"{isa}: nothing is recorded; {len(grid.answers)} runs agree" if not faults else isa)
            continue
        faults += recorded.faults(grid)
        print(f"{isa}: {len(grid.answers)} runs", flush=True)
    if faults:
        sys.exit("\n".join(faults))


if __name__ == "__main__":
    main()
