"""`tenon plugins new`: what it writes, and what it refuses. That all of it builds: tests/sdk/new_plugins.sh."""
import pathlib
import tempfile
import tomllib
import unittest

from program import MODEL, run

INTERFACES = ["scheduler", "kv_cache", "attention", "state", "linear", "sampler", "drafter",
              "kv_store"]


class New(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)

    def new(self, *arguments):
        return run("plugins", "new", *arguments, cwd=self.folder)

    def assert_refused(self, done, *texts):
        self.assertEqual(done.returncode, 1, done.stdout)
        for text in texts:
            self.assertIn(text, done.stderr)

    def test_every_interface_gets_a_folder_with_all_that_a_plugin_needs(self):
        for interface in INTERFACES:
            done = self.new(interface, "acme.one", "--folder", interface)
            self.assertEqual(done.returncode, 0, done.stderr)
            files = {str(path.relative_to(self.folder / interface))
                     for path in (self.folder / interface).rglob("*") if path.is_file()}
            self.assertEqual(files, {"CMakeLists.txt", "README.md", ".clang-format", "pipeline.toml",
                                     ".github/workflows/build.yml", "test/run.cmake", "one.cc"})
            for file in files:
                self.assertIn(file, done.stdout)
                text = (self.folder / interface / file).read_text()
                self.assertNotRegex(text, "@[A-Z]+@", f"{interface}: {file}")

    def test_the_pipeline_names_the_plugin_and_a_model(self):
        self.new("scheduler", "acme.two_words")
        pipeline = tomllib.loads((self.folder / "two_words/pipeline.toml").read_text())
        self.assertEqual(pipeline["scheduler"]["plugin"], "acme.two_words")
        self.assertEqual(pathlib.Path(pipeline["model"]["path"]), MODEL)
        self.assertEqual(pipeline["plugins"]["load"],
                         ["build/plugins/libtenon-scheduler-acme-two-words.so"])
        self.assertIn("class TwoWordsScheduler", (self.folder / "two_words/two_words.cc").read_text())

    def test_names_are_held_to_the_form_of_ids(self):
        for name in ["mine", "Acme.mine", "acme.", ".mine", "acme.2", "a.b.c", "acme.a-b", "../x.y",
                     "acme." + "n" * 33]:
            self.assert_refused(self.new("scheduler", name), f"'{name}'", "VENDOR.NAME")
        self.assertEqual(list(self.folder.iterdir()), [])

    def test_what_comes_next_can_be_pasted_whatever_the_folder_is_called(self):
        done = self.new("scheduler", "acme.mine", "--folder", "mine & more")
        self.assertIn("\n  cd 'mine & more'\n", done.stdout)

    def test_an_unknown_interface_is_refused_with_the_known_ones(self):
        self.assert_refused(self.new("shceduler", "acme.mine"), "'shceduler'",
                            "did you mean 'scheduler'", "drafter")
        self.assertEqual(list(self.folder.iterdir()), [])

    def test_a_folder_that_is_not_empty_is_left_as_it_is(self):
        (self.folder / "mine").mkdir()
        (self.folder / "mine/notes").write_text("dear")
        self.assert_refused(self.new("scheduler", "acme.mine"), "not empty", "--folder")
        self.assertEqual([path.name for path in self.folder.rglob("*")], ["mine", "notes"])
        (self.folder / "file").write_text("")
        self.assert_refused(self.new("scheduler", "acme.mine", "--folder", "file"), "no folder")

    def test_an_empty_folder_is_filled(self):
        (self.folder / "mine").mkdir()
        self.assertEqual(self.new("sampler", "acme.mine").returncode, 0)
        self.assertTrue((self.folder / "mine/mine.cc").exists())

    def test_nothing_is_left_where_the_folder_cannot_be_made(self):
        (self.folder / "file").write_text("")
        self.assert_refused(self.new("scheduler", "acme.mine", "--folder", "file/mine"), "file")
        self.assertEqual([path.name for path in self.folder.rglob("*")], ["file"])


if __name__ == "__main__":
    unittest.main()
