#!/usr/bin/env python3
"""Which sources of a target are compiled in one go (TenonTogether.cmake says why).

    together.py ROOT MOST_SOURCES MOST_LINES < TARGETS > GROUPS

Each line of TARGETS is `target;folder;source;source…`. GROUPS is for CMake to include: it gives the
sources their UNITY_GROUP and the targets, as `grouped`, that have groups.

Anonymous namespaces of a group become one, so sources stand together only where no name of one's
anonymous namespace is a word of another's text, or is defined by a header that another includes,
directly or not: nothing can come to mean something else.
"""
import os
import pathlib
import re
import sys
from functools import cache

FOLDERS = ("", "core/include", "core/llm/include", "sdk/include", "sdk/cuda_host/include")
INCLUDE = re.compile(r'^[ \t]*#[ \t]*include[ \t]*[<"]([^>"]+)[>"]', re.MULTILINE)
WORD = re.compile(r"[A-Za-z_]\w*")
LITERAL = re.compile(r'"(?:[^"\\\n]|\\.)*"')
COMMENT = re.compile(r"//[^\n]*")
ATTRIBUTE = re.compile(r"\[\[[^]]*\]\] *")
MEMBER = re.compile(r"(?:\.|->|::) *[A-Za-z_]\w*")  # of objects, and qualified names
# What begins at a line's first column, up to its initializer, parameters or body.
HEAD = re.compile(r"^[A-Za-z_][^\n=({:;]*[=({:;]", re.MULTILINE)
BOUND = re.compile(r"\[[^][\n]*\]")  # of an array
NAMED = re.compile(r"([A-Za-z0-9_@]+)(?: final)? *[=({:;]$")
DEFINES_NOTHING = re.compile(
    r"namespace|using namespace|template|extern|public|private|protected|TEST|TYPED_TEST|INSTANTIATE|TENON|"
    r"BENCHMARK|static_assert|operator|(?:class|struct) \w+;")


@cache
def written(path):
    return path.read_text(encoding="utf-8")


def read(path):
    """A source's text without comments and literals, members of objects and qualified names."""
    text = ("\n" + written(path)).replace("\n}  // namespace\n", "\n}@end\n")
    text = LITERAL.sub('""', COMMENT.sub("", text))
    return MEMBER.sub("@", ATTRIBUTE.sub("", text))


def names_in(text):
    """What a text defines at the first column of a line. Members are defined in their class's name."""
    heads = (head for head in HEAD.findall(BOUND.sub("", text)) if not DEFINES_NOTHING.match(head))
    named = filter(None, map(NAMED.search, heads))
    return frozenset(found[1] for found in named if "@" not in found[1])


def anonymous_part(text):
    """From the begin of the first anonymous namespace to the end of the last, as clang-format writes them."""
    first, last = text.find("\nnamespace {"), text.rfind("\n}@end")
    return text[first:last] if 0 <= first < last else ""


class Headers:
    """The project's own headers, by what they include and define."""

    def __init__(self, root):
        self.root = root

    @cache
    def included_by(self, path):
        """What a file includes itself, of this project."""
        found = set()
        for name in INCLUDE.findall(written(path)):
            places = (path.parent / name, *(self.root / folder / name for folder in FOLDERS))
            found |= {pathlib.Path(os.path.normpath(place)) for place in places if place.is_file()}
        return frozenset(found)

    @cache
    def names(self, header):
        return names_in(read(header))

    @cache
    def seen_by(self, source):
        """What a source includes, directly or not."""
        seen, ahead = set(), set(self.included_by(source))
        while ahead:
            header = ahead.pop()
            seen.add(header)
            ahead |= self.included_by(header) - seen
        return frozenset(seen)

    def names_seen_by(self, source):
        """What the headers define that a source includes."""
        return frozenset().union(*map(self.names, self.seen_by(source)))


class Source:
    def __init__(self, path, headers):
        text = read(path)
        self.names = names_in(anonymous_part(text))
        self.words = frozenset(WORD.findall(text)) | headers.names_seen_by(path)
        self.lines = written(path).count("\n")
        # What replaces the program's operator new must not be seen by others' code.
        self.alone = "\nvoid* operator new" in text


class Group:
    def __init__(self, targets, name):
        self.targets, self.name = targets, name
        self.sources, self.lines, self.names, self.words = 0, 0, set(), set()

    def takes(self, source, most_sources, most_lines):
        return (self.sources < most_sources and self.lines + source.lines <= most_lines
                and self.words.isdisjoint(source.names) and self.names.isdisjoint(source.words))

    def add(self, source):
        self.sources += 1
        self.lines += source.lines
        self.names |= source.names
        self.words |= source.words


def main():
    root = pathlib.Path(sys.argv[1])
    most = int(sys.argv[2]), int(sys.argv[3])
    headers = Headers(root)
    read_source = cache(lambda path: Source(path, headers))
    owners = {}  # a folder's sources, each with the targets that it is part of
    for line in sys.stdin:
        target, folder, *names = line.rstrip("\n").split(";")
        for name in sorted(names):
            path = pathlib.Path(os.path.normpath(pathlib.Path(folder, name)))
            if path.is_file():
                owners.setdefault(folder, {}).setdefault(path, []).append(target)
    grouped = {}
    for sources in owners.values():
        groups = []
        for path, targets in sources.items():
            source = read_source(path)
            if source.alone:
                continue
            # CMake knows one group of a source in a folder, whatever target it compiles it for.
            group = next((group for group in groups
                          if group.targets == targets and group.takes(source, *most)), None)
            if group is None:
                # A new group of one target must not rename those of others, which would compile them anew.
                number = sum(group.targets == targets for group in groups)
                groups.append(group := Group(targets, "_".join([*targets[1:], str(number)])))
            group.add(source)
            print(f'set_source_files_properties("{path}" TARGET_DIRECTORY {targets[0]} '
                  f'PROPERTIES UNITY_GROUP {group.name})')
        grouped |= dict.fromkeys(target for group in groups if group.sources > 1 for target in group.targets)
    print(f"set(grouped {' '.join(grouped)})")


if __name__ == "__main__":
    main()
