#!/usr/bin/env python3
"""Holds every #include line of the tree against tools/lint/layers.toml.

Boundary and SDK headers stand in angle brackets (<tenon/…>), internal headers in quotes from the
project root; a room includes only rooms that the table allows, and a third-party header only
where its library lives. Prints one line a fault; exit status 1 when there is any.
"""
import pathlib
import re
import sys
import tomllib

INCLUDE = re.compile(r'^\s*#\s*include\s*([<"])([^>"]+)[>"]')
SOURCES = {".h", ".cc", ".cu", ".cuh"}
FOLDERS = ["core", "sdk", "plugins", "tools", "tests", "bench"]
STANDARD = re.compile(r"^[a-z_0-9]+$")  # <vector>, <cstdint>: no dot, no slash
GENERATED_SUFFIXES = (".inc",)


class Rooms:
    def __init__(self, table):
        self.rooms = table["rooms"]

    def of(self, path):
        """The longest room that contains `path`, or None."""
        matches = [r for r in self.rooms if path == r or path.startswith(r + "/")]
        return max(matches, key=len, default=None)


def check_quoted(rooms, room, source, target, root):
    if not (root / target).exists():
        return f"'{target}' is not a path from the project root"
    if target.startswith(("core/include/", "sdk/include/")):
        return f"'{target}' belongs to the boundary: include it as <tenon/…>"
    own_folder = str(pathlib.PurePosixPath(source).parent)
    target_room = rooms.of(target)
    uses = rooms.rooms[room]["uses"]
    if room == "plugins":
        return None if target.startswith(own_folder + "/") else "a plugin includes only its own folder"
    if target_room == room or "*" in uses or target_room in uses or target in uses:
        return None
    return f"{room} may not include {target_room}"


def check_angled(rooms, room, target):
    if STANDARD.match(target):
        return None
    if target.startswith("tenon/sdk/"):
        inside = room in ("core/include/tenon",) or room.startswith("core/")
        return "the core does not use the SDK" if inside else None
    if target.startswith("tenon/"):
        return None
    libraries = rooms.rooms[room]["libraries"]
    if "*" in libraries or any(target.startswith(prefix) for prefix in libraries):
        return None
    return f"library header <{target}> does not live in {room}"


def check_file(rooms, root, path):
    source = path.relative_to(root).as_posix()
    room = rooms.of(source)
    if room is None:
        yield f"{source}: lies in no room of layers.toml"
        return
    if path.name.endswith("_test.cc"):
        room = "tests"
    for number, line in enumerate(path.read_text().splitlines(), 1):
        match = INCLUDE.match(line)
        if not match:
            continue
        bracket, target = match.groups()
        if bracket == "<":
            fault = check_angled(rooms, room, target)
        else:
            fault = check_quoted(rooms, room, source, target, root)
        if fault:
            yield f"{source}:{number}: {fault}"


def main():
    root = pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else ".").resolve()
    rooms = Rooms(tomllib.loads((root / "tools/lint/layers.toml").read_text()))
    files = [p for f in FOLDERS for p in sorted((root / f).rglob("*")) if p.suffix in SOURCES]
    faults = [fault for path in files for fault in check_file(rooms, root, path)]
    print("\n".join(faults) if faults else f"{len(files)} files keep the layers")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
