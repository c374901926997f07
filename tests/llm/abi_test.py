#!/usr/bin/env python3
"""libtenon's binary interface is what programs were built with.

    abi_test.py LIBRARY            compares
    abi_test.py LIBRARY --update   writes interface.txt and llm.abi anew; look at the difference first

interface.txt has every exported symbol and the place of every member of the structs; it is always compared. llm.abi is
a dump of the header's types and functions, compared by abidiff where that is installed.
"""

import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import unittest

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parents[1]
HEADERS = ROOT / "core/llm/include"
LIST, DUMP = HERE / "interface.txt", HERE / "llm.abi"
LIBRARY = pathlib.Path()

sys.path.insert(0, str(ROOT / "tests/boundary"))
import abi  # noqa: E402

STRUCT = re.compile(r"^typedef struct (\w+) \{\n(.*?)^\} \1;", re.M | re.S)
POINTED = re.compile(r"\(\*(\w+)\)|\b(\w+);")


def header(include):
    """Without comments."""
    return re.sub(r"/\*.*?\*/", "", (include / "tenon/llm_c.h").read_text(), flags=re.S)


def structs(include):
    """{struct: its members}"""
    return {name: [one or other for one, other in POINTED.findall(body)] for name, body in STRUCT.findall(header(include))}


def functions(include):
    return re.findall(r"TENON_LLM_API [^;(]*?\b(tenon_\w+)\(", header(include))


def run(command):
    done = subprocess.run([str(word) for word in command], capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise AssertionError(f"{command[0]}: {done.stdout}{done.stderr}")
    return done.stdout


def layout(include, folder):
    """A line for each struct and each of its members, with bytes and place."""
    lines = ["#include <stdio.h>", "#include <tenon/llm_c.h>", "int main(void) {"]
    for name, members in structs(include).items():
        lines.append(f'  printf("struct {name} %zu\\n", sizeof({name}));')
        for member in members:
            of = f"(({name}*)0)->{member}"
            lines.append(f'  printf("  {member} %zu %zu\\n", offsetof({name}, {member}), sizeof({of}));')
    source, program = folder / "layout.c", folder / "layout"
    source.write_text("\n".join([*lines, "  return 0;", "}"]) + "\n")
    run(["cc", "-I", include, source, "-o", program])
    return run([program])


def exports(library):
    return sorted(line.split()[-1] for line in run(["nm", "-D", "--defined-only", library]).splitlines())


def interface(include, folder):
    return "\n".join(exports(LIBRARY)) + "\n" + layout(include, folder)


def dump(include, folder):
    """What debugging information says of every struct and function."""
    lines = ["#include <tenon/llm_c.h>"]
    lines += [f"{name}* {name}_;" for name in structs(include)]
    lines += [f"__typeof__({name})* {name}_;" for name in functions(include)]
    source, library, out = folder / "llm.c", folder / "llm.so", folder / "llm.abi"
    source.write_text("\n".join(lines) + "\n")
    run([shutil.which("gcc-12") or "gcc", "-g", "-O0", "-fPIC", "-shared", "-I", include, source, "-o", library])
    quiet = ["--no-corpus-path", "--no-comp-dir-path", "--no-show-locs", "--no-elf-needed"]
    # Where the source lay does not count.
    out.write_text(re.sub(r"^ +| path='[^']*'", "", run(["abidw", *quiet, library]), flags=re.M))
    return out


class Interface(unittest.TestCase):
    def setUp(self):
        scratch = tempfile.TemporaryDirectory()
        self.addCleanup(scratch.cleanup)
        self.folder = pathlib.Path(scratch.name)

    def changed(self, old, new):
        """A folder of headers in which `old` is `new`."""
        include = self.folder / "include"
        shutil.copytree(HEADERS, include)
        path = include / "tenon/llm_c.h"
        self.assertIn(old, path.read_text())
        path.write_text(path.read_text().replace(old, new, 1))
        return include

    def test_symbols_and_members_are_where_programs_expect_them(self):
        self.assertEqual(
            interface(HEADERS, self.folder), LIST.read_text(),
            "a symbol or member that moved or went breaks programs: raise TENON_LLM_ABI and SOVERSION. What was added at "
            "an end is fine: say so in CHANGELOG.md and run abi_test.py with --update.")

    def test_the_library_exports_what_the_header_declares_and_nothing_else(self):
        self.assertEqual(exports(LIBRARY), sorted(functions(HEADERS)))

    def test_the_library_is_named_by_its_binary_interface(self):
        number = re.search(r"#define TENON_LLM_ABI (\d+)", (HEADERS / "tenon/llm_c.h").read_text())[1]
        self.assertIn(f"[libtenon.so.{number}]", run(["readelf", "-d", LIBRARY]))

    def test_a_member_that_moves_is_noticed(self):
        include = self.changed("  uint32_t threads; ", "  uint64_t threads; ")
        self.assertNotEqual(layout(include, self.folder), layout(HEADERS, self.folder))

    def test_headers_compile_alone_in_every_language_that_they_are_for(self):
        warnings = ["-Wall", "-Wextra", "-Wpedantic", "-Werror", "-fsyntax-only", "-I", HEADERS]
        cases = [("llm_c.h", "c", ["c99", "c11", "c17"]), ("llm_c.h", "c++", ["c++17", "c++20"]),
                 ("llm.h", "c++", ["c++17", "c++20"])]
        source = self.folder / "alone"
        for name, language, standards in cases:
            source.write_text(f"#include <tenon/{name}>\n#include <tenon/{name}>\nint main(void) {{ return 0; }}\n")
            compilers = ["gcc", "clang"] if language == "c" else ["g++", "clang++"]
            for compiler in filter(shutil.which, compilers):
                for standard in standards:
                    with self.subTest(header=name, compiler=compiler, standard=standard):
                        run([compiler, f"-std={standard}", "-x", language, *warnings, source])

    @unittest.skipIf(abi.what_is_missing(), abi.what_is_missing())
    def test_abidiff_finds_nothing(self):
        self.assertEqual(abi.difference(DUMP, dump(HEADERS, self.folder)), "")

    @unittest.skipIf(abi.what_is_missing(), abi.what_is_missing())
    def test_abidiff_finds_a_parameter_of_another_type(self):
        include = self.changed("tenon_call* call, size_t* count", "tenon_call* call, int* count")
        (self.folder / "now").mkdir()
        self.assertNotEqual(abi.difference(DUMP, dump(include, self.folder / "now")), "")


def main():
    global LIBRARY
    LIBRARY = pathlib.Path(sys.argv.pop(1))
    if "--update" in sys.argv:
        with tempfile.TemporaryDirectory() as folder:
            LIST.write_text(interface(HEADERS, pathlib.Path(folder)))
            if not abi.what_is_missing():
                shutil.copy(dump(HEADERS, pathlib.Path(folder)), DUMP)
        return 0
    unittest.main()
    return 0


if __name__ == "__main__":
    sys.exit(main())
