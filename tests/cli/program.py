"""Runs the program for tests: `run(...)` returns its exit status and outputs."""
import json
import os
import pathlib
import platform
import subprocess

BINARY = os.environ["TENON_BINARY"]
# What runs a program that is built for another processor: "qemu-aarch64 -cpu max".
EMULATOR = os.environ.get("TENON_EMULATOR", "").split()
AARCH64 = platform.machine() == "aarch64" or any("aarch64" in word for word in EMULATOR)
SOURCE = pathlib.Path(os.environ["TENON_SOURCE_DIR"])
MODEL = SOURCE / "configs/models/tale"
# tests/golden/models, with the weights that its recipes mean.
GOLDEN_MODELS = pathlib.Path(BINARY).parent.parent / "tests/golden/models"
SANITIZED = os.environ.get("TENON_SANITIZE", "") != ""
THREADS_SANITIZED = os.environ.get("TENON_SANITIZE", "") == "thread"


def run(*arguments, stdin=None, cwd=None, timeout=3000 if EMULATOR else 300):
    return subprocess.run(
        [*EMULATOR, BINARY, *map(str, arguments)], input=stdin, capture_output=True, text=True,
        cwd=cwd, timeout=timeout, check=False, stdin=None if stdin is not None else subprocess.DEVNULL)


def run_json(*arguments, **keywords):
    done = run("run", *arguments, "--json", **keywords)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def settings(**values):
    """kv_cache__plugin="paged" → --set kv_cache.plugin=paged"""
    flags = []
    for key, value in values.items():
        flags += ["--set", f"{key.replace('__', '.')}={value}"]
    return flags
