"""`tenon doctor`: what it finds of a sound installation, and of one with something broken in it."""
import json
import pathlib
import shutil
import subprocess
import tempfile
import unittest

from program import BINARY, MODEL, run

BAD = pathlib.Path(BINARY).parent.parent / "tests/bad_plugins"


def items(done):
    return {(one["group"], one["name"]): one for one in json.loads(done.stdout)["items"]}


class Doctor(unittest.TestCase):
    def test_nothing_is_wrong_with_what_was_built(self):
        done = run("doctor", "--json")
        self.assertEqual(done.returncode, 0, done.stdout)
        found = items(done)
        self.assertEqual(found["files", "bundled model"]["what"], str(MODEL))
        self.assertEqual(found["plugins", "scheduler/continuous"]["health"], "good")
        self.assertEqual(found["executors", "cpu"]["health"], "good")
        self.assertIn("can be composed", found["pipeline", "default"]["what"])
        for group in ["processor", "memory", "limits", "program"]:
            self.assertIn(group, {key[0] for key in found})

    def test_people_read_the_same(self):
        done = run("doctor")
        self.assertEqual(done.returncode, 0, done.stdout)
        self.assertIn("good   scheduler/continuous: ", done.stdout)
        self.assertIn("nothing is wrong", done.stdout)

    def test_a_plugin_that_cannot_be_used_is_named_with_the_reason(self):
        with tempfile.TemporaryDirectory() as folder:
            shutil.copy(BAD / "libtenon-no_table.so", folder)
            done = run("doctor", "--json", "--plugin-path", folder)
            self.assertEqual(done.returncode, 1)
            wrong = [one for one in json.loads(done.stdout)["items"] if one["health"] == "wrong"]
            self.assertEqual(len(wrong), json.loads(done.stdout)["wrong"])
            self.assertTrue(any("no_table" in one["what"] for one in wrong), wrong)

    def test_a_plugin_that_this_machine_cannot_run_is_only_noted(self):
        with tempfile.TemporaryDirectory() as folder:
            shutil.copy(BAD / "libtenon-unavailable.so", folder)
            done = run("doctor", "--json", "--plugin-path", folder)
        notes = [one for one in json.loads(done.stdout)["items"] if one["health"] == "note"]
        self.assertTrue(any("not usable here" in one["what"] for one in notes), notes)

    def test_a_program_without_its_files_says_what_is_missing(self):
        with tempfile.TemporaryDirectory() as folder:
            program = pathlib.Path(folder) / "bin/tenon"
            program.parent.mkdir()
            shutil.copy(BINARY, program)
            done = subprocess.run([program, "doctor", "--json"], capture_output=True, text=True,
                                  check=False, timeout=60)
        self.assertEqual(done.returncode, 1)
        found = items(done)
        self.assertEqual(found["files", "bundled model"]["health"], "wrong")
        self.assertIn("share/tenon", found["files", "bundled model"]["what"])
        self.assertEqual(found["plugins", "scheduler"]["health"], "wrong")

    def test_a_unit_that_starts_another_program_is_noted(self):
        with tempfile.TemporaryDirectory() as folder:
            program = pathlib.Path(folder) / "bin/tenon"
            unit = pathlib.Path(folder) / "lib/systemd/system/tenon.service"
            program.parent.mkdir()
            unit.parent.mkdir(parents=True)
            shutil.copy(BINARY, program)
            for starts, health in [("/nowhere/bin/tenon", "note"), (str(program), "good")]:
                unit.write_text(f"[Service]\nType=exec\nExecStart={starts} serve --port 8000\n")
                done = subprocess.run([program, "doctor", "--json"], capture_output=True, text=True,
                                      check=False, timeout=60)
                found = items(done)["service", "systemd"]
                self.assertEqual(found["health"], health, found)
                self.assertIn("/nowhere/bin/tenon" if health == "note" else str(unit), found["what"])

    def test_few_open_files_are_noted_with_what_to_do(self):
        done = subprocess.run(["sh", "-c", 'ulimit -n 100; exec "$0" doctor --json', BINARY],
                              capture_output=True, text=True, check=False, timeout=60)
        limit = items(done)["limits", "files"]
        self.assertEqual(limit["health"], "note")
        self.assertIn("ulimit -n", limit["what"])


if __name__ == "__main__":
    unittest.main()
