#!/usr/bin/env python3
"""The boundary's structs, enums and methods are, to the bit, those of boundary.abi.

    abi_test.py            compares, and fails with what changed and what to do
    abi_test.py --update   writes boundary.abi anew; look at what abidiff says before you commit it

Exits with 77 where it cannot tell: without abigail-tools, or with another compiler than the dump's.
"""

import pathlib
import shutil
import sys
import tempfile
import unittest

import abi


class Boundary(unittest.TestCase):
    def setUp(self):
        scratch = tempfile.TemporaryDirectory()
        self.addCleanup(scratch.cleanup)
        self.folder = pathlib.Path(scratch.name)

    def after(self, header, old, new):
        """What is said once `old` is `new` in a header."""
        include = self.folder / "include"
        shutil.copytree(abi.HEADERS, include)
        path = include / "tenon" / header
        text = path.read_text()
        self.assertTrue(old in text, f"{header} does not say '{old}'")
        path.write_text(text.replace(old, new, 1))
        (self.folder / "now").mkdir()
        told = abi.difference(abi.dump(abi.HEADERS, self.folder / "now"), abi.dump(include, self.folder))
        return abi.complaint(told, include) if told else ""

    def test_the_boundary_is_what_plugins_were_built_with(self):
        told = abi.difference(abi.DUMP, abi.dump(abi.HEADERS, self.folder))
        if told:
            self.fail("\n" + abi.complaint(told, abi.HEADERS))

    def test_a_comment_changes_nothing(self):
        self.assertEqual(self.after("scheduler.h", "// Results of a step", "// The results of a step"), "")

    def test_a_wider_member_is_named_with_its_interface(self):
        said = self.after("scheduler.h", "uint32_t drafts = 0;", "uint64_t drafts = 0;")
        self.assertIn("tenon::Grant (<tenon/scheduler.h>) is not what plugins were built with", said)
        self.assertIn("raise scheduler/2", said)

    def test_members_that_change_places_are_named(self):
        said = self.after(
            "kv_cache.h",
            "  uint32_t first = 0;         // the first",
            "  uint32_t every_first = 0;\n  uint32_t first = 0;  // the first",
        )
        self.assertIn("tenon::KvEviction", said)

    def test_a_sign_that_no_layout_shows_is_named(self):
        said = self.after("scheduler.h", "uint32_t fork_group", "int32_t fork_group")
        self.assertIn("tenon::SequenceView (<tenon/scheduler.h>)", said)

    def test_a_new_method_is_named(self):
        said = self.after(
            "kv_cache.h",
            "  virtual Status check() const noexcept = 0;",
            "  virtual Status check() const noexcept = 0;\n  virtual int more() noexcept = 0;",
        )
        self.assertIn("tenon::KVCacheManager (<tenon/kv_cache.h>)", said)
        self.assertIn("raise kv_cache/2", said)

    def test_a_value_that_means_something_else_is_named(self):
        said = self.after("scheduler.h", "aborted = 2, finished = 3", "aborted = 3, finished = 2")
        self.assertIn("tenon::EventKind", said)

    def test_a_struct_that_goes_is_named(self):
        said = self.after("kv_cache.h", "struct KvEviction {", "struct KvEvicting {")
        self.assertIn("tenon::KvEviction is gone", said)


def main():
    missing = abi.what_is_missing()
    if missing:
        print(f"skipped: {missing}")
        return 77
    if "--update" in sys.argv:
        with tempfile.TemporaryDirectory() as folder:
            shutil.copy(abi.dump(abi.HEADERS, pathlib.Path(folder)), abi.DUMP)
        return 0
    unittest.main()
    return 0


if __name__ == "__main__":
    sys.exit(main())
