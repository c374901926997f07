#!/usr/bin/env python3
"""Lists every struct and every member of the boundary headers for the layout hash.

    generate_layout.py core/include/tenon layout_generated.h

The headers are read as text: declarations in the namespace `tenon`, no nested structs, no macros.
What it cannot read is an error, so that nothing is left out in silence.
"""

import pathlib
import re
import sys

SKIPPED = {"plugin.h", "layout.h", "abi_generated.h", "layout_generated.h"}
OPENING, CLOSING = "({[<", ")}]>"
NO_MEMBER = re.compile(r"^(friend|using|static|typedef|enum|explicit|virtual)\b")


def plain(text):
    """Without comments, texts, preprocessor lines and operators that look like brackets."""
    text = re.sub(r"//[^\n]*", "", text)
    text = re.sub(r'"(\\.|[^"\\])*"', '""', text)
    text = re.sub(r"'(\\.|[^'\\])'", "0", text)
    text = re.sub(r"^\s*#[^\n]*", "", text, flags=re.M)
    return re.sub(r"->|<<|>=|<=|<=>", " ", text)


def body_from(text, start):
    """The text between the brace at `start` and the one that closes it."""
    depth = 0
    for at in range(start, len(text)):
        depth += (text[at] == "{") - (text[at] == "}")
        if depth == 0:
            return text[start + 1 : at]
    sys.exit("a brace is not closed")


def statements(body):
    """Split at semicolons outside of braces; a function's body ends its statement as well."""
    statement, depth = "", 0
    for letter in body:
        depth += (letter == "{") - (letter == "}")
        statement += letter
        ends_body = letter == "}" and re.match(r"[^={]*\)[^={]*\{", statement)
        if depth == 0 and (letter == ";" or ends_body):
            yield re.sub(r"\[\[[^\]]*\]\]", "", statement).strip(" \t\n;")
            statement = ""


def declarators(statement):
    """Split at commas outside of all brackets."""
    part, depth = "", 0
    for letter in statement:
        depth += (letter in OPENING) - (letter in CLOSING)
        if letter == "," and depth == 0:
            yield part
            part = ""
        else:
            part += letter
    yield part


def members(body, struct):
    for statement in statements(body):
        if not statement or NO_MEMBER.match(statement):
            continue
        if re.match(r"(struct|class|union)\b.*\{", statement, flags=re.S):
            sys.exit(f"{struct}: nested structs are not read; move them out")
        pointer = re.search(r"\(\*\s*(\w+)\)\s*\(", statement)
        if pointer:
            yield pointer.group(1)
            continue
        head = re.split(r"[={]", statement)[0]
        if "(" in head:
            continue  # a function
        for part in declarators(statement):
            name = re.search(r"(\w+)\s*(\[[^\]]*\]\s*)*$", re.split(r"[={]", part)[0].strip())
            if name is None:
                sys.exit(f"{struct}: cannot read the member '{part.strip()}'")
            yield name.group(1)


def structs(text):
    for found in re.finditer(r"^(struct|class)\s+(?:\[\[\w+\]\]\s*)?(\w+)[^;{]*\{", text, flags=re.M):
        kind, name = found.groups()
        before = text[: found.start()].rstrip()
        if before.endswith(">") and re.search(r"template\s*<[^;{}]*>$", before):
            continue
        yield kind, name, body_from(text, found.end() - 1)


def main():
    folder, out = pathlib.Path(sys.argv[1]), pathlib.Path(sys.argv[2])
    headers = sorted(path for path in folder.glob("*.h") if path.name not in SKIPPED)
    lines = ["// Made by the build from the boundary headers.", "#pragma once", ""]
    lines += [f"#include <tenon/{path.name}>" for path in headers]
    lines += ["", "#include <cstddef>", "#include <cstdint>", "", "namespace tenon::detail {", ""]
    lines += ["inline constexpr uint64_t kLayout[] = {", "    sizeof(long), sizeof(void*),"]
    for path in headers:
        for kind, name, body in structs(plain(path.read_text())):
            lines.append(f"    sizeof({name}), alignof({name}),")
            if kind == "class":
                continue  # an interface, or a type that hides its members
            for member in members(body, f"{path.name}: {name}"):
                lines.append(f"    __builtin_offsetof({name}, {member}), sizeof({name}::{member}),")
    lines += ["};", "", "}  // namespace tenon::detail", ""]
    text = "\n".join(lines)
    if not out.exists() or out.read_text() != text:
        out.parent.mkdir(parents=True, exist_ok=True)
        out.write_text(text)


if __name__ == "__main__":
    main()
