#!/usr/bin/env python3
"""Finds names with external linkage that one program would define twice (the one-definition rule).

Reads sources as clang-format leaves them: a definition at namespace scope begins at a line's first
column. Types are compared by their qualified name, functions by name and parameters. Names in
anonymous namespaces, templates' specialisations, `static` functions and members are no concern of
it. Prints one line a fault; exit status 1 when there is any.
"""
import collections
import functools
import pathlib
import re
import sys

# Folders whose sources meet in one program. Each plugin and each example is a library of its own,
# in a namespace of its own; test programs join one folder of tests with the core.
PROGRAM = ["core", "tools/tenon"]
TESTS = "tests"
SOURCES = {".h", ".cc"}

NAMESPACE = re.compile(r"^(?:inline )?namespace ([\w:]+)? ?\{$")
TYPE = re.compile(r"^(?:class|struct|union|enum(?: class| struct)?)\s+(?:\[\[[^\]]*\]\]\s*)?(?:alignas\([^)]*\)\s*)?(\w+)"
                  r"(?:\s+final)?\s*(?::[^:][^;]*)?\{")
FUNCTION = re.compile(r"^(?!static |template|using |namespace |extern |typedef |return |friend |class |struct |enum |union )"
                      r"[A-Za-z_][\w:<>,&*\[\]\" ]*?[ &*>](operator[^\w\s]+|\w+)\(")
VARIABLE = re.compile(r"^(?!static |const |constexpr |constinit const |inline |extern |using |typedef |template|thread_local |return |namespace |class |struct |enum |union |friend )"
                      r"[A-Za-z_][\w:<>,*& ]* (\w+)(?:\{[^;]*\}|\s*=\s*[^;=]+)?;$")


def without_comments(text):
    text = re.sub(r'R"(\w*)\(.*?\)\1"', '""', text, flags=re.S)
    text = re.sub(r'"(?:[^"\\\n]|\\.)*"', '""', text)
    text = re.sub(r"//[^\n]*", "", text)
    return re.sub(r"/\*.*?\*/", lambda m: "\n" * m.group().count("\n"), text, flags=re.S)


def parameters(text, start):
    """The text from the parenthesis at `start` to its end, and what follows it."""
    depth = 0
    for i in range(start, len(text)):
        depth += text[i] == "("
        depth -= text[i] == ")"
        if depth == 0:
            return text[start + 1:i], text[i + 1:i + 200]
    return None, ""


def types_of(arguments):
    """Parameters without names and defaults, so that declarations of one function look alike."""
    out, depth, word = [], 0, ""
    for letter in arguments + ",":
        depth += letter in "<({["
        depth -= letter in ">)}]"
        if letter == "," and depth == 0:
            word = re.sub(r"\s+", " ", word.split("=")[0]).strip()
            named = re.match(r"^(.*[&*> ])(\w+)(\[\w*\])?$", word)
            if named and named.group(1).strip() not in ("const", "unsigned", "signed", "long"):
                word = named.group(1) + (named.group(3) or "")
            out.append(word.replace(" ", ""))
            word = ""
        else:
            word += letter
    return ",".join(out)


@functools.cache
def definitions(path):
    """[(name, line)] of everything with external linkage that the file defines."""
    return list(find_definitions(path))


def find_definitions(path):
    text = without_comments(path.read_text())
    lines = text.split("\n")
    scope, starts, position = [], [], 0
    for line in lines:
        starts.append(position)
        position += len(line) + 1
    for number, line in enumerate(lines):
        opened = NAMESPACE.match(line)
        if opened:
            scope.append(opened.group(1) or "")
            continue
        # clang-format closes namespaces in the first column; so it does types and functions, whose
        # braces are no namespace's: their ends are skipped below.
        if line.startswith("}") and line.strip() == "}" and scope and closes_namespace(lines, number):
            scope.pop()
            continue
        if "" in scope or not line or line[0] in " #}":
            continue
        if lines[number - 1].startswith("template"):
            continue
        joined = " ".join(lines[number:number + 6])
        where = "::".join(scope)
        found = TYPE.match(joined)
        if found and ";" not in joined[:found.end()]:
            yield f"{where}::{found.group(1)}", number + 1
            continue
        found = FUNCTION.match(joined)
        if found:
            arguments, rest = parameters(text, starts[number] + text[starts[number]:].index(found.group(1) + "(") + len(found.group(1)))
            body = re.match(r"\s*(?:const|noexcept|override|->[^{;]*|\s)*(?:\{|:)", rest or "")
            if arguments is not None and body and "::" not in found.group(0).rsplit(" ", 1)[-1]:
                yield f"{where}::{found.group(1)}({types_of(arguments)})", number + 1
            continue
        found = VARIABLE.match(line)
        if found:
            yield f"{where}::{found.group(1)}", number + 1


def closes_namespace(lines, number):
    """Whether the brace at this line's begin is a namespace's: counts back to its partner."""
    depth = 0
    for line in reversed(lines[:number + 1]):
        depth += line.count("}") - line.count("{")
        if depth <= 0:
            return NAMESPACE.match(line) is not None
    return False


def faults_of(files, root):
    found = collections.defaultdict(dict)
    for path in files:
        for name, line in definitions(path):
            # Twice in one file are alternatives of an #if, or an error of the compiler's.
            found[name].setdefault(path, f"{path.relative_to(root)}:{line}")
    for name, places in found.items():
        if len(places) > 1:
            yield f"{name} is defined in {', '.join(places.values())}"


def with_headers(files, root, folder):
    """`files` and the headers below `folder` that they include, one through the other."""
    all_files = list(files)
    for path in all_files:
        for target in re.findall(r'^#include "([^"]+)"', path.read_text(), re.M):
            header = root / target
            if target.startswith(folder + "/") and header.is_file() and header not in all_files:
                all_files.append(header)
    return all_files


def main():
    root = pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else ".").resolve()

    def sources(folder):
        return [p for p in sorted((root / folder).rglob("*")) if p.suffix in SOURCES]

    program = [p for folder in PROGRAM for p in sources(folder)]
    faults = set(faults_of(program, root))
    count = len(program)
    core = sources("core")
    tests = [f for f in sorted((root / TESTS).iterdir()) if f.name not in ("unit", "support")]
    for folder in tests + sorted((root / TESTS / "unit").iterdir()):
        own = with_headers(sources(folder.relative_to(root)), root, TESTS)
        count += len(own)
        faults |= set(faults_of(core + own, root))
    print("\n".join(sorted(faults)) if faults else f"{count} files define no name twice")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
