#!/usr/bin/env python3
"""Which missing #include tools/lint/check_includes.py finds, and what it takes for included."""
import pathlib
import subprocess
import sys
import tempfile
import unittest

PROGRAM = pathlib.Path(__file__).resolve().parents[2] / "tools/lint/check_includes.py"


class Includes(unittest.TestCase):
    def setUp(self):
        scratch = tempfile.TemporaryDirectory()
        self.addCleanup(scratch.cleanup)
        self.root = pathlib.Path(scratch.name)
        self.write("tools/cmake/TenonPrecompiled.cmake", "set(TENON_PRECOMPILED_HEADERS <vector> <string>)\n")

    def write(self, name, text):
        path = self.root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)

    def check(self):
        done = subprocess.run([sys.executable, PROGRAM, self.root], capture_output=True, text=True, check=False)
        return done.returncode, done.stdout.splitlines()

    def test_a_name_whose_header_nothing_includes_is_found(self):
        self.write("core/a.cc", "#include <string>\nstd::vector<std::string> names;\n")
        self.assertEqual(self.check(), (1, ["core/a.cc: uses std::vector without #include <vector>"]))

    def test_a_header_of_the_project_may_include_it_at_any_depth(self):
        self.write("core/a.cc", '#include "core/outer.h"\nstd::vector<int> numbers;\n')
        self.write("core/outer.h", '#include "core/inner.h"\n')
        self.write("core/inner.h", "#include <vector>\n")
        self.assertEqual(self.check(), (0, ["3 sources include what they use"]))

    def test_words_of_comments_and_literals_are_no_uses(self):
        self.write("core/a.cc", '// std::vector\nconst char* text = "std::vector";\n')
        self.assertEqual(self.check(), (0, ["1 sources include what they use"]))

    def test_macros_of_the_tests_framework_need_their_headers(self):
        self.write("tests/a_test.cc", "#include <gtest/gtest.h>\nTEST(A, B) {\n  EXPECT_THAT(1, Eq(1));\n}\n")
        self.assertEqual(self.check(), (1, ["tests/a_test.cc: uses EXPECT_THAT without #include <gmock/gmock.h>"]))
        self.write("tests/a_test.cc", "TEST(A, B) {\n}\n")
        self.assertEqual(self.check(), (1, ["tests/a_test.cc: uses TEST without #include <gtest/gtest.h>"]))

    def test_a_precompiled_header_of_which_no_name_is_known_is_found(self):
        self.write("tools/cmake/TenonPrecompiled.cmake", "set(TENON_PRECOMPILED_HEADERS <vector> <regex>)\n")
        self.assertEqual(self.check(), (1, ["tools/lint/check_includes.py: no name of <regex> is listed, which is "
                                            "precompiled"]))


if __name__ == "__main__":
    unittest.main()
