#!/usr/bin/env python3
"""A plain step of the engine stays short enough to read: the files that docs/data-flow.md names for it,
their lines together, and the loop itself. The rooms of the step and of memory name no kind of answer."""
import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
MOST_FILES, MOST_LINES, MOST_LOOP_LINES = 8, 1300, 25
KINDS = re.compile(r"\b(canvas|Beam\w+|PooledAnswer|DiffusionAnswer|grammar::Matcher)\b")

page = (ROOT / "docs/data-flow.md").read_text()
section = page.split("## A plain step, file by file")[1].split("\n## ")[0]
files = re.findall(r"^\| `(core/[^`]+)` \|", section, re.MULTILINE)
lines = {name: len((ROOT / name).read_text().splitlines()) for name in files}
loop = re.search(r"^Status Engine::step_plain\(\) \{\n(.*?)^\}", (ROOT / "core/engine/step/step.cc").read_text(),
                 re.MULTILINE | re.DOTALL)
faults = []
if not 0 < len(files) <= MOST_FILES:
    faults.append(f"docs/data-flow.md names {len(files)} files of a plain step – expected 1 to {MOST_FILES}")
if sum(lines.values()) > MOST_LINES:
    faults.append(f"they have {sum(lines.values())} lines – expected {MOST_LINES} at most: {lines}")
if loop is None or len(loop[1].splitlines()) > MOST_LOOP_LINES:
    faults.append(f"step_plain is missing, or longer than {MOST_LOOP_LINES} lines")
# Who ends a whole request knows its beams.
for path in sorted([*ROOT.glob("core/engine/step/**/*.*"), *ROOT.glob("core/engine/memory/*.*")]):
    for number, line in enumerate(path.read_text().splitlines(), 1):
        found = KINDS.search(line.split("//")[0])
        if found and path.name not in ("context.cc", "admission.cc"):
            faults.append(f"{path.relative_to(ROOT)}:{number}: {found[0]} – ask the sequence's answer "
                          "(core/engine/answers/answer_kind.h)")
print("\n".join(faults) or f"a plain step: {len(files)} files, {sum(lines.values())} lines")
sys.exit(bool(faults))
