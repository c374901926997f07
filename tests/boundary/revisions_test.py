#!/usr/bin/env python3
"""A contract that changes raises its revision, or someone has decided that it need not.

revisions.txt names each boundary header, the interface that it is the contract of ("-" for those
that all share) and the SHA-256 of its text, comments included: they are part of the contract.

    revisions_test.py            compares, and fails with what to do
    revisions_test.py --update   writes the table anew; look at its diff before you commit it
"""

import hashlib
import pathlib
import re
import sys

HERE = pathlib.Path(__file__).resolve().parent
HEADERS = HERE.parents[1] / "core/include/tenon"
TABLE = HERE / "revisions.txt"
# What a plugin's author can still read in one go; whoever needs more makes something shorter.
MOST_LINES = 2000
CONSTANT = re.compile(r'constexpr std::string_view k\w+ = "((\w+)/\d+)"')


def contracts():
    """{header: (interface or "-", digest)} of the headers as they are."""
    texts = {path.name: path.read_text() for path in sorted(HEADERS.glob("*.h"))}
    ids = {name: whole for text in texts.values() for whole, name in CONSTANT.findall(text)}
    return {
        header: (ids.get(header[:-2], "-"), hashlib.sha256(text.encode()).hexdigest())
        for header, text in texts.items()
    }


def recorded():
    lines = [line.split() for line in TABLE.read_text().splitlines() if line[:1] != "#"]
    return {header: (interface, digest) for header, interface, digest in lines}


def complaint(header, now, then):
    if then is None:
        return f"{header} is new"
    if now is None:
        return f"{header} is gone"
    if now[0] != then[0]:
        return f"{header}: {then[0]} became {now[0]}"
    raised = "the revision of every interface whose contract that changes"
    if now[0] != "-":
        raised = f"{now[0]} in core/include/tenon"
    return f"{header} changed: where its contract did (not the wording alone), raise {raised}"


def main():
    now = contracts()
    if "--update" in sys.argv:
        lines = ["# Made by revisions_test.py --update, which says what this table is for."]
        lines += [f"{header} {interface} {digest}" for header, (interface, digest) in now.items()]
        TABLE.write_text("\n".join(lines) + "\n")
        return 0
    then = recorded()
    wrong = [
        complaint(header, now.get(header), then.get(header))
        for header in sorted(now.keys() | then.keys())
        if now.get(header) != then.get(header)
    ]
    for line in wrong:
        print(line)
    lines = sum(path.read_text().count("\n") for path in HEADERS.glob("*.h"))
    if lines > MOST_LINES:
        print(f"the boundary's headers have {lines} lines – expected {MOST_LINES} at most")
        return 1
    if wrong:
        print("then run tests/boundary/revisions_test.py --update and commit the table with it")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
