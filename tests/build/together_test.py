#!/usr/bin/env python3
"""Which sources tools/cmake/together.py puts into one translation unit, and which it keeps apart."""
import pathlib
import re
import subprocess
import sys
import tempfile
import unittest

PROGRAM = pathlib.Path(__file__).resolve().parents[2] / "tools/cmake/together.py"


def source(names="", text="", include=""):
    """A source that defines names in an anonymous namespace and has a text after it."""
    functions = "\n".join(f"int {name}(int a) {{\n  return a;\n}}" for name in names.split())
    return f'{include}\nnamespace tenon {{\nnamespace {{\n{functions}\n}}  // namespace\n{text}\n}}\n'


class Together(unittest.TestCase):
    def setUp(self):
        scratch = tempfile.TemporaryDirectory()
        self.addCleanup(scratch.cleanup)
        self.root = pathlib.Path(scratch.name)

    def groups(self, files, most_sources=12, most_lines=1800):
        """The sources of each group, from the files of a target of that folder; one that stands alone is a group."""
        for name, text in files.items():
            path = self.root / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
        sources = [name for name in files if name.endswith(".cc")]
        self.output = self.together(f"room;{self.root};{';'.join(sources)}\n", most_sources, most_lines)
        self.grouped = re.search(r"set\(grouped (.*)\)", self.output)[1].split()
        found = [[str(pathlib.Path(path).relative_to(self.root)) for path in re.findall(r'"(\S+)"', paths)]
                 for paths in re.findall(r'properties\((.*) TARGET_DIRECTORY room PROPERTIES', self.output)]
        together = {name for group in found for name in group}
        return sorted(found + [[name] for name in sources if name not in together])

    def together(self, targets, most_sources=12, most_lines=1800):
        return subprocess.run([sys.executable, PROGRAM, self.root, str(most_sources), str(most_lines),
                               self.root / "written"], input=targets, capture_output=True, text=True, check=True).stdout

    def written(self):
        """The files that are written for groups of tests, and their texts."""
        return {path.name: path.read_text() for path in (self.root / "written").glob("*.cc")}

    def test_sources_that_share_no_name_stand_together(self):
        self.assertEqual(self.groups({"a.cc": source("first"), "b.cc": source("second")}), [["a.cc", "b.cc"]])
        self.assertEqual(self.grouped, ["room"])

    def test_a_name_of_one_that_another_defines_or_uses_keeps_them_apart(self):
        for text in (source("first"), source("second", "int third() { return first(2); }")):
            with self.subTest(text=text):
                self.assertEqual(self.groups({"a.cc": source("first"), "b.cc": text}), [["a.cc"], ["b.cc"]])
                self.assertEqual(self.grouped, [])

    def test_arrays_and_types_have_names_too(self):
        for mine, others in (("int first[kMost];", "int first[8] = {};"), ("struct First {\n};", "enum class First { a };"),
                             ("constexpr int kFirst = 1;", "constexpr long kFirst{2};")):
            with self.subTest(mine=mine):
                texts = [f"namespace {{\n{text}\n}}  // namespace\n" for text in (mine, others)]
                self.assertEqual(self.groups({"a.cc": texts[0], "b.cc": texts[1]}), [["a.cc"], ["b.cc"]])

    def test_names_of_members_and_words_of_comments_and_literals_keep_none_apart(self):
        text = 'int third(S& s) { return s.first() + T::first(); }  // first\nconst char* fourth = "first";'
        self.assertEqual(self.groups({"a.cc": source("first"), "b.cc": source("second", text)}),
                         [["a.cc", "b.cc"]])

    def test_a_name_that_a_header_defines_keeps_apart_those_that_include_it_at_any_depth(self):
        files = {"a.cc": source("first"), "b.cc": source("second", include='#include "outer.h"'),
                 "c.cc": source("third"), "outer.h": '#include "room/inner.h"\n',
                 "room/inner.h": "inline int first(long a) {\n  return 0;\n}\n"}
        self.assertEqual(self.groups(files), [["a.cc", "c.cc"], ["b.cc"]])

    def test_a_header_that_none_of_them_includes_does_not_count(self):
        files = {"a.cc": source("first"), "b.cc": source("second"), "far.h": "int first();\nint second();\n"}
        self.assertEqual(self.groups(files), [["a.cc", "b.cc"]])

    def test_what_replaces_operator_new_stands_alone(self):
        files = {"a.cc": source("first", "}\nvoid* operator new(size_t bytes) { return nullptr; }\n{"),
                 "b.cc": source("second"), "c.cc": source("third")}
        self.assertEqual(self.groups(files), [["a.cc"], ["b.cc", "c.cc"]])

    def test_a_source_of_two_targets_stands_with_others_of_both(self):
        for name in ("first", "second", "third"):
            (self.root / f"{name}.cc").write_text(source(name))
        targets = f"one;{self.root};first.cc;second.cc;third.cc\ntwo;{self.root};first.cc;third.cc\n"
        output = self.together(targets)
        self.assertRegex(output, r'\("\S+/first.cc" "\S+/third.cc" TARGET_DIRECTORY one PROPERTIES UNITY_GROUP two_0\)')
        self.assertNotIn("second.cc", output)
        self.assertIn("set(grouped one two)", output)

    def test_a_group_has_at_most_so_many_sources_and_lines(self):
        files = {f"{name}.cc": source(name) for name in ("first", "second", "third")}
        self.assertEqual(self.groups(files, most_sources=2), [["first.cc", "second.cc"], ["third.cc"]])
        lines = files["first.cc"].count("\n")
        self.assertEqual(self.groups(files, most_lines=2 * lines + 1), [["first.cc", "second.cc"], ["third.cc"]])


    def test_tests_that_share_names_are_written_together_with_a_namespace_around_each(self):
        text = source("first").replace("\n\n}\n", "\n}  // namespace tenon\n")
        self.assertEqual(self.groups({"a_test.cc": text, "b_test.cc": text}), [["a_test.cc", "b_test.cc"]])
        self.assertIn("HEADER_FILE_ONLY ON", self.output)
        self.assertIn(f'target_sources(room PRIVATE "{self.root}/written/room_0.cc")', self.output)
        self.assertIn(f"set(written {self.root}/written/room_0.cc)", self.output)
        self.assertIn(f"set(written_from {self.root}/a_test.cc {self.root}/b_test.cc)", self.output)
        written = self.written()["room_0.cc"]
        # Each line is where it was, under the name of its source.
        for number, name in enumerate(("a_test.cc", "b_test.cc"), 1):
            own = written.split(f'#line 1 "{self.root}/{name}"\n')[1].split("#line")[0]
            self.assertEqual(own.count("\n"), text.count("\n"))
            self.assertIn(f"\nnamespace source_{number} {{ namespace {{\n", own)
            self.assertIn("\n}}  // namespace\n", own)

    def test_what_is_written_compiles_and_each_means_its_own(self):
        text = 'namespace tenon {\nnamespace {\nint first() {\n  return %d;\n}\n' \
               'const bool kHolds = [] { return first() == %d; }();\n}  // namespace\n}  // namespace tenon\n'
        self.groups({f"{name}_test.cc": text % (number, number) for number, name in enumerate("abc")})
        file = self.root / "written/room_0.cc"
        done = subprocess.run(["c++", "-std=c++20", "-fsyntax-only", file], capture_output=True, text=True, check=False)
        self.assertEqual(done.returncode, 0, done.stderr)
        # A complaint names the source and its line.
        (self.root / "b_test.cc").write_text(text.replace("return %d", "return wrong") % 1)
        subprocess.run([sys.executable, PROGRAM, "--write", self.root / "written"], check=True)
        done = subprocess.run(["c++", "-std=c++20", "-fsyntax-only", file], capture_output=True, text=True, check=False)
        self.assertIn(f"{self.root}/b_test.cc:4:", done.stderr)

    def test_a_test_with_something_outside_of_its_anonymous_namespace_is_not_written(self):
        text = source("first").replace("\n\n}\n", "\n}  // namespace tenon\n")
        self.groups({"a_test.cc": text, "b_test.cc": text})
        for other in ("int outside() {\n  return 1;\n}\n" + text, text + "int outside() {\n  return 1;\n}\n",
                      "#define first second\n" + text, text + text):
            with self.subTest(other=other):
                self.assertEqual(self.groups({"a_test.cc": text, "b_test.cc": text, "c_test.cc": other}),
                                 [["a_test.cc", "b_test.cc"], ["c_test.cc"]])

    def test_only_what_changed_is_written_again(self):
        text = source("first").replace("\n\n}\n", "\n}  // namespace tenon\n")
        files = {f"{name}_test.cc": text for name in "abcd"}
        self.groups(files, most_sources=2)
        before = {path: path.stat().st_mtime_ns for path in (self.root / "written").glob("*.cc")}
        (self.root / "c_test.cc").write_text(text.replace("int a", "int other"))
        subprocess.run([sys.executable, PROGRAM, "--write", self.root / "written"], check=True)
        changed = [path.name for path, when in before.items() if path.stat().st_mtime_ns != when]
        self.assertEqual(changed, ["room_1.cc"])
        self.assertIn("int other", self.written()["room_1.cc"])


if __name__ == "__main__":
    unittest.main()
