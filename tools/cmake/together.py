#!/usr/bin/env python3
"""Which sources of a target are compiled in one go (TenonTogether.cmake says why).

    together.py ROOT MOST_SOURCES MOST_LINES FOLDER < TARGETS > GROUPS
    together.py --write FOLDER

Each line of TARGETS is `target;folder;source;source…`. GROUPS is for CMake to include: it gives the
sources their UNITY_GROUP and the targets, as `grouped`, that have groups.

Anonymous namespaces of a group become one, so sources stand together only where no name of one's
anonymous namespace is a word of another's text, or is defined by a header that another includes,
directly or not: nothing can come to mean something else.

A test stands in its anonymous namespace with all that it has. Those of a target share no names where
each has a namespace around that, so they are written together with such namespaces, into a file of
FOLDER for each group. GROUPS replaces them by that file, lists those files as `written` and what they
are made of as `written_from`; --write makes them again after an edit.
"""
import json
import os
import pathlib
import re
import sys
from functools import cache

LIST = "groups.json"  # of the folder's files, and what each is made of
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
MACRO = re.compile(r"^[ \t]*#[ \t]*define\b", re.MULTILINE)
# Directives and the namespaces of the project.
OPENS = re.compile(r"(?:[ \t]*\n|[ \t]*#.*|namespace [\w@]+ \{)*")
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


def stands_apart(text):
    """Whether all of a source, but for its #includes, stands in one anonymous namespace, and defines no macro."""
    if text.count("\nnamespace {\n") != 1 or text.count("\n}@end\n") != 1 or MACRO.search(text):
        return False
    before, rest = text.split("\nnamespace {\n")
    after = rest.split("\n}@end\n")[1]
    return OPENS.fullmatch(before) is not None and not after.strip().strip("}")


def written_together(sources):
    """The text of a group whose sources stand apart, with a namespace around each one's own."""
    text = ""
    for number, path in enumerate(sources, 1):
        own = ("\n" + written(path)).replace("\nnamespace {\n", f"\nnamespace source_{number} {{ namespace {{\n")
        own = own.replace("\n}  // namespace\n", "\n}}  // namespace\n")
        text += f'#line 1 "{path}"' + own
    return text


def write(folder):
    """Makes the files that the list in the folder names; one that stays as it was is not touched."""
    for name, sources in json.loads((folder / LIST).read_text()).items():
        path, text = folder / name, written_together([pathlib.Path(source) for source in sources])
        if not path.is_file() or path.read_text(encoding="utf-8") != text:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8")


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
        self.apart = path.name.endswith("_test.cc") and stands_apart(text)
        # What replaces the program's operator new must not be seen by others' code.
        self.alone = "\nvoid* operator new" in text


class Group:
    def __init__(self, targets, number, apart):
        self.targets, self.number, self.apart = targets, number, apart
        self.paths, self.lines, self.names, self.words = [], 0, set(), set()

    @property
    def name(self):
        return "_".join([*self.targets[1:], str(self.number)])

    def takes(self, source, most_sources, most_lines):
        return (self.apart == source.apart
                and len(self.paths) < most_sources and self.lines + source.lines <= most_lines
                and (self.apart or self.words.isdisjoint(source.names) and self.names.isdisjoint(source.words)))

    def add(self, path, source):
        self.paths.append(path)
        self.lines += source.lines
        self.names |= source.names
        self.words |= source.words


def owners_in(targets):
    """{folder: {source: the targets that it is part of}}, in the order of names."""
    owners = {}
    for line in targets:
        target, folder, *names = line.rstrip("\n").split(";")
        for name in sorted(names):
            path = pathlib.Path(os.path.normpath(pathlib.Path(folder, name)))
            if path.is_file():
                owners.setdefault(folder, {}).setdefault(path, []).append(target)
    return owners


def groups_of(sources, read_source, most):
    """Groups of a folder's sources."""
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
            groups.append(group := Group(targets, number, source.apart))
        group.add(path, source)
    return groups


def main():
    if sys.argv[1] == "--write":
        return write(pathlib.Path(sys.argv[2]))
    root, folder = pathlib.Path(sys.argv[1]), pathlib.Path(sys.argv[4])
    most = int(sys.argv[2]), int(sys.argv[3])
    headers = Headers(root)
    read_source = cache(lambda path: Source(path, headers))
    groups = [group for sources in owners_in(sys.stdin).values()
              for group in groups_of(sources, read_source, most) if len(group.paths) > 1]
    files = {}
    for group in groups:
        names = " ".join(f'"{path}"' for path in group.paths)
        if not group.apart:
            print(f"set_source_files_properties({names} TARGET_DIRECTORY {group.targets[0]} "
                  f"PROPERTIES UNITY_GROUP {group.name})")
            continue
        file = f"{group.targets[0]}_{group.name}.cc"
        files[file] = list(map(str, group.paths))
        print(f"set_source_files_properties({names} TARGET_DIRECTORY {group.targets[0]} "
              "PROPERTIES HEADER_FILE_ONLY ON)")
        for target in group.targets:
            print(f'target_sources({target} PRIVATE "{folder / file}")')
    folder.mkdir(parents=True, exist_ok=True)
    (folder / LIST).write_text(json.dumps(files, indent=1))
    write(folder)
    grouped = dict.fromkeys(target for group in groups if not group.apart for target in group.targets)
    print(f"set(grouped {' '.join(grouped)})")
    print(f"set(written {' '.join(str(folder / file) for file in files)})")
    print(f"set(written_from {' '.join(path for paths in files.values() for path in paths)})")


if __name__ == "__main__":
    main()
