#!/usr/bin/env python3
"""clang-tidy with the project's short list, over the sources of a build folder's compilation
database: all of core, plugins, sdk and tools, without tests.

    check_tidy.py BUILD [FILE ...]

Most of its time goes into headers, so sources that are compiled alike are looked at several in one
translation unit, where no two of them define the same name. A group that does not come out clean is
looked at again, source by source: that is what is reported.
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
NOT_READ = {"core/server/http/client.cc", "core/server/http/connection.cc",
            "core/server/http/places.cc", "core/server/http/server.cc", "core/server/http/wire.cc"}
MOST = 8  # sources of a group
# Sources that are built several at a time stand in a file that includes them.
INCLUDED = re.compile(r'^#include "(.+)"$', re.MULTILINE)
GCC_ALONE = "-Wno-subobject-linkage"
# What begins at a line's first column stands in a namespace.
TYPE = re.compile(r"(?:class|struct|enum|enum class|union) (?:\[\[[\w:]+\]\] )?(\w+)|using (\w+) =")
FUNCTION = re.compile(r"[^(=;]*?([\w:~]+)\(")
VARIABLE = re.compile(r"[^(=;{]*?([\w:]+)(?:\[[^\]]*\])* ?(?:=|;|\{)")
NO_DEFINITION = ("}", "#", "//", "namespace", "using namespace", "template", "extern", " ", "public:",
                 "private:", "protected:")


def sources_of(build, wanted):
    """{source: its compiler's flags}, by the name from the project's root on."""
    found = {}
    for entry in json.loads((build / "compile_commands.json").read_text()):
        path = pathlib.Path(entry["directory"], entry["file"]).resolve()
        together = path.parent.name == "Unity" and build in path.parents
        paths = map(pathlib.Path, INCLUDED.findall(path.read_text())) if together else [path]
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
    compiler = 1 if words[0].endswith("ccache") else 0
    source = os.path.basename(entry["file"])
    return tuple(word for word in words[compiler + 1:]
                 if word not in ("-c", GCC_ALONE) and os.path.basename(word) != source)


def names_in(source):
    """What the source itself defines in a namespace, overloads as one."""
    names = set()
    for line in (ROOT / source).read_text().splitlines():
        if not line or line.startswith(NO_DEFINITION):
            continue
        found = TYPE.match(line) or FUNCTION.match(line) or VARIABLE.match(line)
        name = next(filter(None, found.groups()), "") if found else ""
        if name and "::" not in name:
            names.add(name)
    return names


def groups_of(sources):
    groups = []
    by_flags = {}
    for source, flags in sorted(sources.items()):
        names = names_in(source)
        for group, taken in by_flags.setdefault(flags, []):
            if len(group) < MOST and not names & taken:
                group.append(source)
                taken |= names
                break
        else:
            group = [source]
            by_flags[flags].append((group, names))
            groups.append((flags, group))
    return groups


def tidy(path, flags, directory):
    done = subprocess.run(
        ["clang-tidy", "--quiet", f"--config-file={ROOT / '.clang-tidy'}", str(path), "--", *flags],
        capture_output=True, text=True, check=False, cwd=directory)
    return done.returncode == 0, done.stdout


def look_at(task):
    """The complaints about a group's sources, and whether they were looked at one by one."""
    directory, scratch, number, flags, group = task
    if len(group) > 1:
        whole = scratch / f"group_{number}.cc"
        # Not by #include: some checks look at the main file alone.
        whole.write_text("\n".join((ROOT / source).read_text() for source in group))
        # A header's parameter may be called as something in the source in front of it.
        if tidy(whole, (*flags, "-Wno-shadow"), directory)[0]:
            return [], False
    results = [tidy(ROOT / source, flags, directory) for source in group]
    return [text for clean, text in results if not clean], len(group) > 1


def main():
    build = pathlib.Path(sys.argv[1]).resolve()
    sources = sources_of(build, {os.path.relpath(file, ROOT) if os.path.isabs(file) else file
                                 for file in sys.argv[2:]})
    groups = groups_of(sources)
    with tempfile.TemporaryDirectory() as scratch:
        tasks = [(build, pathlib.Path(scratch), number, flags, group)
                 for number, (flags, group) in enumerate(groups)]
        with ThreadPoolExecutor(os.cpu_count()) as pool:
            looked_at = list(pool.map(look_at, tasks))
    complaints = [text for texts, _ in looked_at for text in texts]
    print("".join(complaints), end="")
    apart = sum(one_by_one for _, one_by_one in looked_at)
    print(f"{len(sources)} sources in {len(groups)} groups, {apart} of them looked at one by one: "
          f"{len(complaints)} with complaints" if complaints else
          f"{len(sources)} sources are tidy ({len(groups)} groups, {apart} looked at one by one)")
    return 1 if complaints else 0


if __name__ == "__main__":
    sys.exit(main())
