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
        """The sources of each group, from the files of a target of that folder."""
        for name, text in files.items():
            path = self.root / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
        sources = ";".join(name for name in files if name.endswith(".cc"))
        done = subprocess.run([sys.executable, PROGRAM, self.root, str(most_sources), str(most_lines)],
                              input=f"room;{self.root};{sources}\n", capture_output=True, text=True, check=True)
        self.grouped = re.search(r"set\(grouped (.*)\)", done.stdout)[1].split()
        found = {}
        for path, group in re.findall(r'"(\S+)" TARGET_DIRECTORY room PROPERTIES UNITY_GROUP (\d+)', done.stdout):
            found.setdefault(group, []).append(str(pathlib.Path(path).relative_to(self.root)))
        return list(found.values())

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
        self.assertEqual(self.groups(files), [["b.cc", "c.cc"]])

    def test_a_source_of_two_targets_stands_with_others_of_both(self):
        for name in ("first", "second", "third"):
            (self.root / f"{name}.cc").write_text(source(name))
        targets = f"one;{self.root};first.cc;second.cc;third.cc\ntwo;{self.root};first.cc;third.cc\n"
        done = subprocess.run([sys.executable, PROGRAM, self.root, "12", "1800"], input=targets, capture_output=True,
                              text=True, check=True)
        found = {pathlib.Path(path).name: group for path, group in
                 re.findall(r'"(\S+)" TARGET_DIRECTORY one PROPERTIES UNITY_GROUP (\w+)', done.stdout)}
        self.assertEqual(found["first.cc"], found["third.cc"])
        self.assertNotEqual(found["first.cc"], found["second.cc"])
        self.assertIn("set(grouped one two)", done.stdout)

    def test_a_group_has_at_most_so_many_sources_and_lines(self):
        files = {f"{name}.cc": source(name) for name in ("first", "second", "third")}
        self.assertEqual(self.groups(files, most_sources=2), [["first.cc", "second.cc"], ["third.cc"]])
        lines = files["first.cc"].count("\n")
        self.assertEqual(self.groups(files, most_lines=2 * lines + 1), [["first.cc", "second.cc"], ["third.cc"]])


if __name__ == "__main__":
    unittest.main()
