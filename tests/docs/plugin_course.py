#!/usr/bin/env python3
"""Follows a page about plugins literally, in an empty folder, with an installed tree and nothing else.

    plugin_course.py BUILD PAGE [--brief] [--keep FOLDER]

Of the page, blocks of ```sh are run one after the other in one shell, which stops at the first error, and a block behind
`<!-- file: NAME -->` is written to that file. All other blocks are shown to readers alone. An example's README is
followed inside a copy of its folder. With --brief, comparisons end after four pairs, whatever the machine does meanwhile:
enough to show that the line works, not for a verdict. --keep leaves the folder, and what each block said, to look at.
"""

import argparse
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

BLOCK = re.compile(r"(?:<!-- file: (?P<file>[\w./-]+) -->\n)?```(?P<kind>\w+)\n(?P<text>.*?)^```$", re.S | re.M)
PATIENCE = 600
MOST_LINES = 150  # of an example's source


def script_of(page, brief):
    """What a reader types, as one script of bash."""
    lines = ["set -euo pipefail"]
    blocks = 0
    text = page.read_text()
    if brief:
        text = re.sub(r"--pairs \d+", "--pairs 4 --unlike 100", text)
        text = re.sub(r"--budget \d+s", "--budget 60s", text)
    for block in BLOCK.finditer(text):
        if block["file"]:
            lines += [f"cat > {block['file']} <<'END_OF_BLOCK'", block["text"] + "END_OF_BLOCK"]
        elif block["kind"] == "sh":
            blocks += 1
            shown = block["text"].rstrip("\n")
            lines += ["cat <<'END_OF_BLOCK'", "\n".join("$ " + line for line in shown.splitlines()), "END_OF_BLOCK", shown]
    if blocks == 0:
        sys.exit(f"{page} has no block to run")
    return "\n".join(lines) + "\n"


def cached(build, name):
    text = (build / "CMakeCache.txt").read_text()
    found = re.search(rf"^{name}:[A-Z]+=(.*)$", text, re.M)
    return found[1] if found else ""


def environment(build, prefix):
    """The compiler of the build, with a cache where there is one: pages are followed again and again."""
    compiler = cached(build, "CMAKE_CXX_COMPILER")
    made = {**os.environ, "PATH": f"{prefix}/bin:{os.environ['PATH']}", "CMAKE_PREFIX_PATH": str(prefix),
            "CXX": compiler, "CMAKE_GENERATOR": "Ninja"}
    if shutil.which("ccache"):
        made["CXX"] = f"ccache {compiler}"
        made["CMAKE_CXX_COMPILER_LAUNCHER"] = "ccache"
    return made


def main():
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("build", type=pathlib.Path)
    arguments.add_argument("page", type=pathlib.Path)
    arguments.add_argument("--brief", action="store_true")
    arguments.add_argument("--keep", type=pathlib.Path)
    given = arguments.parse_args()
    work = pathlib.Path(given.keep or tempfile.mkdtemp(prefix="tenon-course-"))
    try:
        prefix = work / "prefix"
        subprocess.run(["cmake", "--install", given.build, "--prefix", prefix], stdout=subprocess.DEVNULL, check=True)
        place = work / "here"
        if given.page.parent.parent.name == "examples":
            shutil.copytree(given.page.parent, place)
            for source in place.glob("*.cc"):
                lines = len(source.read_text().splitlines())
                if lines > MOST_LINES:
                    sys.exit(f"{source.name} has {lines} lines; an example has {MOST_LINES} at most")
        else:
            place.mkdir()
        env = environment(given.build, prefix)
        script = script_of(given.page, given.brief)
        if "cmake" in script:  # which takes one word
            env["CXX"] = env["CXX"].split()[-1]
        done = subprocess.run(["bash", "-c", script], cwd=place, env=env, text=True, timeout=PATIENCE,
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False)
        if given.keep:
            (work / "said").write_text(done.stdout)
        if done.returncode != 0:
            print(done.stdout)
            print(f"{given.page}: a line ended with status {done.returncode}")
        return 1 if done.returncode != 0 else 0
    finally:
        if not given.keep:
            shutil.rmtree(work, ignore_errors=True)


if __name__ == "__main__":
    sys.exit(main())
