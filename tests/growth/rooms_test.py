#!/usr/bin/env python3
"""Rooms whose work tests/growth counts were compiled to count it; where they were not, work looks as if it never grew.

    rooms_test.py NM LIBRARY…
"""
import re
import subprocess
import sys

COUNTS = "U __sanitizer_cov_trace_pc"
MEMBER = re.compile(r"^(\S+\.o):$", re.MULTILINE)


def uncounted(symbols):
    """The members of an archive that define functions and count nothing, by what nm says of it."""
    parts = MEMBER.split(symbols)
    return [name for name, text in zip(parts[1::2], parts[2::2])
            if re.search(r" [TtW] \w", text) and COUNTS not in text]


def main():
    program, *libraries = sys.argv[1:]
    faults = []
    for library in libraries:
        symbols = subprocess.run([program, library], capture_output=True, text=True, check=True).stdout
        if COUNTS not in symbols:
            faults.append(f"{library}: nothing is counted")
        faults += [f"{library}: {name} is not counted" for name in uncounted(symbols)]
    print("\n".join(faults) or f"{len(libraries)} rooms count what they do")
    return bool(faults)


if __name__ == "__main__":
    sys.exit(main())
