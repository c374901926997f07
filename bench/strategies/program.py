"""Runs the program for measurements, and compares what it answers."""

import json
import pathlib
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]


def output(command):
    """Standard output of a command; ends the measurement with its errors when it fails."""
    done = subprocess.run([*map(str, command)], capture_output=True, text=True)
    if done.returncode != 0:
        sys.exit(f"{' '.join(map(str, command))}\n{done.stderr.strip()}")
    return done.stdout


def report(command):
    return json.loads(output(command))


def answers(run):
    """What a run must have in common with another: tokens and digests of all samples."""
    return [(r["index"], r["sample"], r["tokens"], r["digest"]) for r in run["requests"]]


def in_turns(pairs):
    """The sides of each pair in the order they run: A B, B A, A B, …"""
    for number in range(pairs):
        yield number, (False, True) if number % 2 == 0 else (True, False)
