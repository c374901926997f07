#!/usr/bin/env python3
"""The Python package, built over a build folder and tried by tests/python/cases.

  TENON_BUILD_DIR=build/dev python3 tests/python/package_test.py

The interpreter is TENON_PYTHON, or this one. Where it lacks nanobind, numpy or its own headers, the tests are skipped,
with the exit status 77."""

import json
import os
import pathlib
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parents[1]
BUILD = pathlib.Path(os.environ["TENON_BUILD_DIR"]).resolve()
PYTHON = os.environ.get("TENON_PYTHON", sys.executable)
SKIPPED = 77

NEEDS = """
import importlib.util, json, os, sysconfig
print(json.dumps([name for name in ("nanobind", "numpy") if importlib.util.find_spec(name) is None]
                 + ([] if os.path.exists(sysconfig.get_path("include") + "/Python.h") else ["Python.h"])))
"""


def run(*command):
    done = subprocess.run([str(word) for word in command], capture_output=True, text=True, check=False)
    if done.returncode != 0:
        sys.exit(f"{' '.join(map(str, command))}\n{done.stdout}{done.stderr}")
    return done.stdout


def stage(package):
    """Builds the package and installs it there. In the build folder libtenon would find the plugins of the build, too."""
    made = BUILD / "python"
    # CMake before 3.30 does not find headers of a Python without a lock.
    headers = run(PYTHON, "-c", "import sysconfig; print(sysconfig.get_path('include'), end='')")
    run("cmake", "-S", ROOT / "sdk/python", "-B", made, "-G", "Ninja", f"-DPython_EXECUTABLE={PYTHON}",
        f"-DPython_INCLUDE_DIR={headers}", f"-DTENON_BUILD_DIR={BUILD}", "-DCMAKE_BUILD_TYPE=Release",
        f"-DCMAKE_CXX_COMPILER_LAUNCHER={launcher()}")
    run("cmake", "--build", made, "--parallel", "2")
    run("cmake", "--install", made, "--prefix", package)
    # Those of the tree itself, so that a trace names them.
    sources = ROOT / "sdk/python/tenon"
    for source in sources.rglob("*.py*"):
        if source.suffix in (".py", ".pyi"):
            place = package / "tenon" / source.relative_to(sources)
            place.parent.mkdir(parents=True, exist_ok=True)
            place.symlink_to(source)


def launcher():
    for line in (BUILD / "CMakeCache.txt").read_text().splitlines():
        if line.startswith("CCACHE:"):
            path = line.split("=", 1)[1]
            return "" if path.endswith("-NOTFOUND") else path
    return ""


def main():
    missing = json.loads(run(PYTHON, "-c", NEEDS))
    if missing:
        print(f"skipped: {PYTHON} lacks {', '.join(missing)} (TENON_PYTHON names another)")
        return SKIPPED
    environment = {key: value for key, value in os.environ.items() if not key.startswith("TENON_")}
    names = sys.argv[1:] or ["discover", "-p", "*_cases.py"]
    with tempfile.TemporaryDirectory() as package:
        stage(pathlib.Path(package))
        environment["PYTHONPATH"] = package
        return subprocess.run([PYTHON, "-m", "unittest", *names], cwd=HERE / "cases", env=environment,
                              check=False).returncode


if __name__ == "__main__":
    sys.exit(main())
