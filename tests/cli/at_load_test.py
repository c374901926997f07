"""`tenon plugins list`, `plugins inspect` and `doctor` survive what libraries do when they are loaded."""
import json
import os
import pathlib
import shutil
import subprocess
import tempfile
import unittest

from program import BINARY, run

BUILD = pathlib.Path(BINARY).parent.parent
REASONS = {
    "crashes": "the process that was to load it was ended by signal 11 (Segmentation fault)",
    "exits": "the process that was to load it ended with status 3",
    "scores_crash": "the process that was to load it was ended by signal 11 (Segmentation fault)",
}
HANGS = "the process that was to load it did not return within 10s"


class AtLoad(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)

    def with_libraries(self, *ways):
        for way in ways:
            shutil.copy(BUILD / f"tests/at_load/libtenon-at_load_{way}.so", self.folder)
        return ["--plugin-path", self.folder]

    def test_each_is_listed_with_its_reason_and_the_others_go_on(self):
        done = run("plugins", "list", "scheduler", *self.with_libraries("loads", *REASONS))
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("scheduler  continuous", done.stdout)
        problems = [line for line in done.stdout.splitlines() if line.startswith("cannot be used")]
        self.assertEqual(len(problems), len(REASONS), done.stdout)
        for way, why in REASONS.items():
            self.assertIn(f"scheduler  test.{way}", done.stdout)
            told = [line for line in problems if f"libtenon-at_load_{way}.so: " in line]
            self.assertEqual(len(told), 1, problems)
            self.assertIn(why, told[0])

    def test_json_says_the_same(self):
        done = run("plugins", "list", "--json", *self.with_libraries("loads", *REASONS))
        self.assertEqual(done.returncode, 0, done.stderr)
        listed = {(one["interface"], one["id"]): one for one in json.loads(done.stdout)}
        self.assertEqual(listed["scheduler", "test.loads"]["summary"], "grants nothing")
        self.assertGreater(listed["kv_cache", "paged"]["score"], 0)
        for way, why in REASONS.items():
            self.assertIn(why, listed["scheduler", f"test.{way}"]["problem"])

    def test_what_this_machine_cannot_run_says_so_from_its_process(self):
        shutil.copy(BUILD / "tests/bad_plugins/libtenon-unavailable.so", self.folder)
        listed = json.loads(run("plugins", "list", "drafter", "--json", "--plugin-path",
                                self.folder).stdout)
        absent = next(one for one in listed if one["id"] == "absent")
        self.assertEqual((absent["score"], absent["unavailable"]), (0, "no such device"))

    def test_inspect_names_the_reason(self):
        done = run("plugins", "inspect", "scheduler/test.crashes",
                   *self.with_libraries(*REASONS))
        self.assertEqual(done.returncode, 1)
        self.assertIn(REASONS["crashes"], done.stderr)

    def test_one_that_hangs_is_given_up(self):
        done = run("plugins", "list", "scheduler", *self.with_libraries("loads", "hangs"))
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("scheduler  test.loads", done.stdout)
        self.assertRegex(done.stdout, "cannot be used: .*at_load_hangs.so: " + HANGS)

    def test_the_doctor_names_each_and_goes_on(self):
        done = run("doctor", "--json", *self.with_libraries("loads", "hangs", *REASONS))
        self.assertEqual(done.returncode, 1, done.stderr)
        items = {(one["group"], one["name"]): one for one in json.loads(done.stdout)["items"]}
        for way, why in {**REASONS, "hangs": HANGS}.items():
            one = items["plugins", f"scheduler/test.{way}"]
            self.assertEqual(one["health"], "wrong")
            self.assertIn(why, one["what"])
        self.assertEqual(items["plugins", "scheduler/test.loads"]["health"], "good")
        self.assertEqual(items["plugins", "scheduler/continuous"]["health"], "good")
        # The default pipeline names its plugins, and has no use for these.
        self.assertIn("can be composed", items["pipeline", "default"]["what"])

    def test_the_doctor_survives_a_pipeline_that_takes_its_process_down(self):
        # What "auto" chooses from is loaded where a pipeline is composed.
        source = BUILD / "tests/at_load/libtenon-at_load_kernel_crashes.so"
        shutil.copy(source, self.folder)
        done = run("doctor", "--json", "--plugin-path", self.folder)
        self.assertEqual(done.returncode, 1, done.stderr)
        items = {(one["group"], one["name"]): one for one in json.loads(done.stdout)["items"]}
        self.assertIn("the process that was to compose it was ended by signal 11",
                      items["pipeline", "default"]["what"])


class WithoutGuest(unittest.TestCase):
    def test_libraries_are_looked_at_by_the_program_itself(self):
        with tempfile.TemporaryDirectory() as folder:
            program = pathlib.Path(folder) / "bin/tenon"
            program.parent.mkdir()
            shutil.copy(BINARY, program)
            library = BUILD / "tests/at_load/libtenon-at_load_loads.so"
            shutil.copy(library, folder)
            done = subprocess.run([program, "plugins", "list", "--json", "--plugin-path", folder],
                                  capture_output=True, text=True, check=False, timeout=60,
                                  env=os.environ)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual([one["id"] for one in json.loads(done.stdout)], ["test.loads"])


if __name__ == "__main__":
    unittest.main()
