#!/usr/bin/env python3
"""clang-tidy with the project's short list, over the sources of a build folder's compilation
database: all of core, plugins, sdk and tools, without tests.

    check_tidy.py BUILD [FILE ...]

Most of its time goes into headers, so sources of a room that are compiled alike are looked at several in
one translation unit. A group that does not come out clean is looked at again in halves, down to single
sources: what those have is reported. So names that clash in a group cost little, and complaints are never
about what putting sources together made.
"""
import json
import os
import pathlib
import re
import shlex
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor

ROOT = pathlib.Path(__file__).resolve().parents[2]
ROOMS = ("core", "plugins", "sdk", "tools")
# Coroutines of GCC's library, which clang 14 cannot parse.
NOT_READ = {"core/http/client.cc", "core/http/connection.cc",
            "core/http/request_reader.cc",
            "core/http/places.cc", "core/http/server.cc", "core/http/wire.cc"}
MOST = 40  # sources of a group
WITH_WORD = {"-isystem", "-include", "-x"}
# Sources that are built several at a time stand in a file that includes them, or has their text.
TOGETHER = {"Unity": re.compile(r'^#include "(.+)"$', re.MULTILINE),
            "together": re.compile(r'^#line 1 "(.+)"$', re.MULTILINE)}
GCC_ALONE = re.compile(r"--param=.*|-Wno-subobject-linkage|-Winvalid-pch|"
                       r"-Wno-error=(array-bounds|maybe-uninitialized|restrict|stringop-\w+)")
UNREAD = re.compile(r"-O\w|-fPIC|-D\w+_EXPORTS")  # tell nothing that a check would read
# What begins at a line's first column stands in a namespace.
TYPE = re.compile(r"(?:enum class|class|struct|enum|union) (?:\[\[[\w:]+\]\] )?(\w+)|using (\w+) =")
FUNCTION = re.compile(r"[^(=;]*?([\w:~]+)\(")
# Of one source, so that what stands in it meets no other.
OWN_NAMESPACE = re.compile(r"namespace (?!tenon\b|detail\b)(\w+) \{")
VARIABLE = re.compile(r"[^(=;{]*?([\w:]+)(?:\[[^\]]*\])* ?(?:=|;|\{)")
# Lists (.def) are read with macros of the source that includes them.
HEADER = re.compile(r"^#include (?!.*\.def[\">]).+$", re.MULTILINE)
# What TENON_PLUGIN_LIBRARY defines.
OF_A_LIBRARY = {"kTenonDescriptors", "kTenonCount", "kTenonStampBytes", "kTenonNote",
                "tenon_plugin_library_v1"}
NO_DEFINITION = ("}", "#", "//", "namespace", "using namespace", "template", "extern", " ", "public:",
                 "private:", "protected:", "static_assert")


def sources_of(build, wanted):
    """{source: its compiler's flags}, by the name from the project's root on."""
    found = {}
    for entry in json.loads((build / "compile_commands.json").read_text()):
        path = pathlib.Path(entry["directory"], entry["file"]).resolve()
        named = TOGETHER.get(path.parent.name) if build in path.parents else None
        paths = map(pathlib.Path, named.findall(path.read_text())) if named else [path]
        for path in paths:
            if not path.is_relative_to(ROOT):
                continue
            name = str(path.relative_to(ROOT))
            by_default = (name.split("/")[0] in ROOMS and not name.endswith("_test.cc")
                          and not (build in path.parents) and name not in NOT_READ)
            if name in wanted if wanted else by_default:
                found.setdefault(name, flags_of(entry))
    return found


def flags_of(entry):
    words = shlex.split(entry["command"])
    output = words.index("-o")
    del words[output:output + 2]
    cache = [at for at, word in enumerate(words) if os.path.basename(word) == "ccache"]
    compiler = cache[0] + 1 if cache else 0
    precompiled = [at for at, word in enumerate(words) if word.endswith("/cmake_pch.hxx")]
    for at in reversed(precompiled):  # GCC's, after -include
        del words[at - 1:at + 1]
    source = os.path.basename(entry["file"])
    return tuple(word for word in words[compiler + 1:]
                 if word != "-c" and not GCC_ALONE.fullmatch(word) and os.path.basename(word) != source
                 and not UNREAD.fullmatch(word))


def names_in(source):
    """What the source itself defines in a namespace, overloads as one."""
    names = set()
    text = (ROOT / source).read_text()
    if "TENON_PLUGIN_LIBRARY(" in text:
        names |= OF_A_LIBRARY
    own = None
    for line in text.splitlines():
        begins = OWN_NAMESPACE.match(line)
        own = begins[1] if begins else own
        if own is not None and line == f"}}  // namespace {own}":
            own = None
        if not line or own is not None or line.startswith(NO_DEFINITION):
            continue
        found = TYPE.match(line) or FUNCTION.match(line) or VARIABLE.match(line)
        name = next(filter(None, found.groups()), "") if found else ""
        if name and "::" not in name and not name.isupper():
            names.add(name)
    return names


def options_of(flags):
    """The flags, each with the word that belongs to it."""
    words = iter(flags)
    return [(word, next(words)) if word in WITH_WORD else (word,) for word in words]


def kind_of(flags):
    """What sources of one group have in common: the processor and the language they are compiled for."""
    return frozenset(option for option in options_of(flags) if option[0].startswith(("-m", "-x")))


def room_of(source):
    """Sources of a room read the same headers."""
    parts = source.split("/")
    return tuple(parts[:2 if parts[0] == "core" else 1])


def is_member(name, text):
    return re.search(rf"(?:::|\.|->){name}\b", text) is not None


class Group:
    """Sources of one kind and room. What several of them define gets a number where they are put together;
    that cannot be done to what a member of something is called, too, or what a header declares, which
    plugins' sources of one name define."""

    def __init__(self):
        self.sources, self.names, self.files = [], {}, set()

    def takes(self, source, names, text):
        alike = source.startswith("plugins/") and os.path.basename(source) in self.files
        return (len(self.sources) < MOST and not alike
                and not any(is_member(name, text) for name in names & self.names.keys()))

    def add(self, source, names):
        self.sources.append(source)
        self.files.add(os.path.basename(source))
        for name in names:
            self.names.setdefault(name, source)


def groups_of(sources):
    rooms = {}
    for source, flags in sorted(sources.items()):
        names, text = names_in(source), (ROOT / source).read_text()
        groups = rooms.setdefault((kind_of(flags), room_of(source)), [])
        group = next((group for group in groups if group.takes(source, names, text)), None)
        if group is None:
            groups.append(group := Group())
        group.add(source, names)
    return [group for groups in rooms.values() for group in sorted(groups, key=lambda group: -len(group.sources))]


def together(group):
    """The text of a group's sources as one. Not their names in #include: some checks look at the main file
    alone. Headers come first: numbers behind names must not touch them."""
    texts = {source: (ROOT / source).read_text() for source in group.sources}
    lines = list(dict.fromkeys(line for text in texts.values() for line in HEADER.findall(text)))
    for number, (source, text) in enumerate(texts.items()):
        again = sorted(name for name in names_in(source) if group.names[name] != source)
        lines += [f"#define {name} {name}{number}" for name in again]
        lines.append(text)
        lines += [f"#undef {name}" for name in again]
    return "\n".join(lines)


def flags_of_all(sources, group):
    """Macros and folders of headers that one source has harm no other of its group."""
    options = dict.fromkeys(option for source in group.sources for option in options_of(sources[source]))
    return [word for option in options for word in option]


def tidy(path, flags, directory):
    done = subprocess.run(
        ["clang-tidy", "--quiet", f"--config-file={ROOT / '.clang-tidy'}", str(path), "--", *flags],
        capture_output=True, text=True, check=False, cwd=directory)
    return done.returncode == 0, done.stdout


def halves_of(group):
    """The group's sources as two groups."""
    middle = len(group.sources) // 2
    halves = Group(), Group()
    for number, source in enumerate(group.sources):
        halves[number >= middle].add(source, names_in(source))
    return halves


def look_at(task):
    """The complaints about a group's sources, and whether they were looked at in parts."""
    directory, scratch, sources, group = task
    if len(group.sources) == 1:
        source = group.sources[0]
        clean, text = tidy(ROOT / source, sources[source], directory)
        return [] if clean else [text], False
    with tempfile.NamedTemporaryFile("w", dir=scratch, suffix=".cc") as whole:
        whole.write(together(group))
        whole.flush()
        # A header's parameter may be called as something in the source before it.
        if tidy(whole.name, (*flags_of_all(sources, group), "-Wno-shadow"), directory)[0]:
            return [], False
    parts = [look_at((directory, scratch, sources, half)) for half in halves_of(group)]
    return [text for texts, _ in parts for text in texts], True


def main():
    build = pathlib.Path(sys.argv[1]).resolve()
    sources = sources_of(build, {os.path.relpath(file, ROOT) if os.path.isabs(file) else file
                                 for file in sys.argv[2:]})
    groups = groups_of(sources)
    with tempfile.TemporaryDirectory() as scratch:
        largest_first = sorted(groups, key=lambda group: -len(group.sources))
        tasks = [(build, scratch, sources, group) for group in largest_first]
        with ThreadPoolExecutor(os.cpu_count()) as pool:
            looked_at = list(pool.map(look_at, tasks))
    complaints = [text for texts, _ in looked_at for text in texts]
    print("".join(complaints), end="")
    apart = sum(in_parts for _, in_parts in looked_at)
    print(f"{len(sources)} sources in {len(groups)} groups, {apart} of them looked at in parts: "
          f"{len(complaints)} with complaints" if complaints else
          f"{len(sources)} sources are tidy ({len(groups)} groups, {apart} looked at in parts)")
    return 1 if complaints else 0


if __name__ == "__main__":
    sys.exit(main())
