#!/usr/bin/env python3
"""Prose in Markdown wraps at 100 columns.

    check_wrap.py [--fix] [FILE ...]        all tracked *.md without names; exit status 1 where a line is longer

Tables, headings, fenced code, comments, words without a space and what a program wrote are as long as they
need to be. With
--fix, a paragraph or an item that has a longer line is wrapped anew; code in backticks and links stay in one line.
"""
import pathlib
import re
import subprocess
import sys
import textwrap

ROOT = pathlib.Path(__file__).resolve().parents[2]
COLUMNS = 100
ITEM = re.compile(r"(\s*(?:[-*+]|\d+\.) +|> )")
KEPT = re.compile(r"\s*(?:\||#|<|\[\w+\]: )")
WHOLE = re.compile(r"`[^`]*`|\[[^]`]*\]\([^)]*\)")  # code, and links
# Pages, and parts of pages, that programs write.
WRITTEN_PAGE = "Do not edit by hand."
WRITTEN = re.compile(r"<!-- written by ")
WRITTEN_END = "<!-- until here -->"
# What would begin an item, a heading or a table at the begin of a line.
BEGINS = re.compile(r" (?=(?:[-*+#>|]|\d+\.)(?: |$))")
GLUE = "\0"


def paragraphs(lines):
    """(first line, past the last, whether it is prose) of everything between blank lines, items apart."""
    fence = None
    start = 0
    is_written = False
    for number, line in enumerate(lines + [""]):
        is_written = (is_written or bool(WRITTEN.match(line))) and line != WRITTEN_END
        if is_written:
            start = number + 1
            continue
        opened = re.match(r"\s*(```+|~~~+)", line)
        if fence is not None or opened:
            if number > start and fence is None:
                yield start, number
            fence = None if fence is not None and opened else fence or opened[1]
            start = number + 1
        elif not line.strip() or KEPT.match(line):
            if number > start:
                yield start, number
            start = number + 1
        elif ITEM.match(line) and number > start:
            yield start, number
            start = number


def is_long(line):
    """Whether it could be broken before the limit."""
    return len(line) > COLUMNS and " " in line.strip()


def wrap(lines):
    item = ITEM.match(lines[0])
    first = item[1] if item else re.match(r"\s*", lines[0])[0]
    rest = first if first == "> " else " " * len(first)
    text = " ".join(line.strip().removeprefix("> ") for line in lines)[len(first.strip()):].strip()
    text = WHOLE.sub(lambda part: part[0].replace(" ", GLUE), text)
    text = BEGINS.sub(GLUE, text)
    wrapped = textwrap.wrap(text, COLUMNS, initial_indent=first, subsequent_indent=rest,
                            break_long_words=False, break_on_hyphens=False)
    return [line.replace(GLUE, " ") for line in wrapped]


def look_at(path, fix):
    text = path.read_text()
    lines = [] if WRITTEN_PAGE in text else text.split("\n")
    faults, made, at = [], [], 0
    for begin, end in paragraphs(lines):
        long = [number for number in range(begin, end) if is_long(lines[number])]
        wrapped = wrap(lines[begin:end]) if long else []
        if wrapped == lines[begin:end] or not long:  # one word is too long
            continue
        faults += [f"{path.relative_to(ROOT)}:{number + 1}: {len(lines[number])} columns" for number in long]
        made += lines[at:begin] + wrapped
        at = end
    if fix and faults:
        path.write_text("\n".join(made + lines[at:]))
    return faults


def main():
    fix = "--fix" in sys.argv[1:]
    names = [name for name in sys.argv[1:] if name != "--fix"]
    if not names:
        listed = subprocess.run(["git", "ls-files", "-z", "*.md"], cwd=ROOT, capture_output=True, text=True, check=True)
        names = [name for name in listed.stdout.split("\0") if name]
    faults = [fault for name in names for fault in look_at(ROOT / name, fix)]
    print("\n".join(faults) if faults else f"{len(names)} pages wrap at {COLUMNS} columns")
    return 1 if faults and not fix else 0


if __name__ == "__main__":
    sys.exit(main())
