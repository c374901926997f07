"""`tenon plugins build`: what it writes, and what it says where it cannot."""
import os
import pathlib
import subprocess
import tempfile
import unittest

from program import BINARY, SANITIZED, SOURCE, run

LOTTERY = SOURCE / "sdk/examples/01-minimal/lottery.cc"
COMPILER = """#!/bin/sh
echo "this compiler is of 1998" >&2
exit 1
"""


class Build(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)

    def build(self, *arguments, **environment):
        return subprocess.run([BINARY, "plugins", "build", *map(str, arguments)], capture_output=True,
                              text=True, cwd=self.folder, timeout=300, check=False,
                              env={**os.environ, **environment})

    def assert_refused(self, done, *texts):
        self.assertEqual(done.returncode, 1, done.stdout)
        for text in texts:
            self.assertIn(text, done.stderr)
        left = [path for path in self.folder.rglob("*") if path.suffix == ".so"]
        self.assertEqual(left, [], "a file was left behind")

    @unittest.skipIf(SANITIZED, "the SDK's library is built with a sanitizer")
    def test_a_source_becomes_a_plugin_under_the_name_that_pipelines_of_new_have(self):
        done = self.build(LOTTERY)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(done.stdout, "wrote build/plugins/libtenon-scheduler-example-lottery.so\n"
                                      "  scheduler example.lottery\n")
        told = run("run", "Once upon a time", "--max-tokens", 4, "--plugin-path", self.folder / "build/plugins",
                   "--set", "scheduler.plugin=example.lottery")
        self.assertEqual(told.returncode, 0, told.stderr)

    @unittest.skipIf(SANITIZED, "the SDK's library is built with a sanitizer")
    def test_the_file_and_further_flags_may_be_named(self):
        done = self.build(LOTTERY, "-o", "here/mine.so", "--flag", "-Wall", "--flag", "-Werror")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual([path.name for path in (self.folder / "here").iterdir()], ["mine.so"])

    def test_a_source_that_is_not_there_is_named(self):
        self.assert_refused(self.build("nowhere.cc"), "'nowhere.cc'", "plugins new")

    def test_a_compiler_that_is_not_there_is_named(self):
        self.assert_refused(self.build(LOTTERY, "--compiler", "c++-of-nobody"), "'c++-of-nobody'", "--compiler")
        self.assert_refused(self.build(LOTTERY, CXX="c++-of-nobody"), "'c++-of-nobody'", "CXX")
        self.assert_refused(self.build(LOTTERY, CXX="", PATH=str(self.folder)), "no C++ compiler", "apt-get install")

    def test_a_compiler_without_cxx20_is_refused_before_the_source_is_tried(self):
        old = self.folder / "old"
        old.write_text(COMPILER)
        old.chmod(0o755)
        self.assert_refused(self.build(LOTTERY, CXX=str(old)), "-std=c++20", "this compiler is of 1998", "g++ 12")

    def test_what_the_compiler_says_is_shown(self):
        (self.folder / "wrong.cc").write_text("#include <tenon/scheduler.h>\nint main( {}\n")
        self.assert_refused(self.build("wrong.cc"), "wrong.cc:2", "ended with status 1", "nothing was written")

    @unittest.skipIf(SANITIZED, "the SDK's library is built with a sanitizer")
    def test_a_source_without_a_plugin_is_refused(self):
        (self.folder / "empty.cc").write_text("#include <tenon/scheduler.h>\n")
        self.assert_refused(self.build("empty.cc"), "note")


if __name__ == "__main__":
    unittest.main()
