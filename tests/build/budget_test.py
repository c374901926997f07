#!/usr/bin/env python3
"""The arithmetic of tools/build_budget over recorded builds."""
import importlib.machinery
import importlib.util
import json
import pathlib
import subprocess
import sys
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
PROGRAM = ROOT / "tools/build_budget"
loader = importlib.machinery.SourceFileLoader("build_budget", str(PROGRAM))
budget = importlib.util.module_from_spec(importlib.util.spec_from_loader("build_budget", loader))
sys.dont_write_bytecode = True
loader.exec_module(budget)

UNITS = [
    {"unit": "core/CMakeFiles/tenon_base.dir/Unity/unity_0_cxx.cxx.o", "seconds": 2.5, "mib": 300},
    {"unit": "core/CMakeFiles/tenon_base.dir/base/quote.cc.o", "seconds": 1.5, "mib": 200},
    {"unit": "core/CMakeFiles/tenon_base_tests.dir/a_test.cc.o", "seconds": 3, "mib": 250},
    {"unit": "plugins/linear/int8/CMakeFiles/linear_int8.dir/int8.cc.o", "seconds": 9, "mib": 400},
    {"unit": "bin/tenon", "seconds": 1, "mib": 500}]
LIMITS = {"unit_seconds": 20, "unit_mib": 1536, "seconds": {"release": 17}}


def with_unit(**changes):
    return [{**UNITS[0], **changes}] + UNITS[1:]


class Arithmetic(unittest.TestCase):
    def test_units_are_summed_by_room_and_plugin_with_the_dearest_first(self):
        self.assertEqual(budget.summarise(UNITS),
                         [("plugin linear_int8", 1, 9, 9, 400), ("room base", 2, 4.0, 2.5, 300),
                          ("tests", 1, 3, 3, 250), ("linking", 1, 1, 1, 500)])

    def test_the_table_ends_with_the_sum_and_names_the_slowest_unit_first(self):
        text = budget.table(UNITS)
        self.assertIn("| **all** | 5 | **17** | 9.0 s | 500 MiB |", text)
        self.assertIn("| Unit | Processor seconds | Memory |\n|---|--:|--:|\n| `linear_int8: int8.cc` | 9.0 |",
                      text)

    def test_a_build_within_its_budget_is_no_finding(self):
        self.assertEqual(budget.excesses(UNITS, "release", LIMITS), [])

    def test_a_slow_unit_a_large_one_and_too_large_a_sum_are_each_found(self):
        for units, expected in ((with_unit(seconds=20.5), "unity_0_cxx.cxx takes 20.5 s"),
                                (with_unit(mib=1537), "unity_0_cxx.cxx takes 1537 MiB"),
                                (with_unit(seconds=3.5), "release takes 18 s – expected at most 17")):
            with self.subTest(expected):
                self.assertIn(expected, "\n".join(budget.excesses(units, "release", LIMITS)))

    def test_a_build_without_a_budget_is_held_against_those_of_units_alone(self):
        self.assertEqual(budget.excesses(with_unit(seconds=19), "asan", LIMITS), [])


class Program(unittest.TestCase):
    def setUp(self):
        scratch = tempfile.TemporaryDirectory()
        self.addCleanup(scratch.cleanup)
        self.folder = pathlib.Path(scratch.name)
        self.log = self.folder / "log"

    def run_program(self, *words):
        return subprocess.run([sys.executable, PROGRAM, *words], capture_output=True, text=True, check=False)

    def test_the_launcher_keeps_the_status_and_records_what_the_command_cost(self):
        spin = "import time\nwhile time.process_time() < 0.3: pass\nraise SystemExit(3)"
        done = self.run_program("--record", self.log, sys.executable, "-c", spin, "-o", "a/b.o")
        self.assertEqual(done.returncode, 3)
        unit, = budget.read_log(self.log)
        self.assertEqual(unit["unit"], "a/b.o")
        self.assertGreaterEqual(unit["seconds"], 0.3)
        self.assertGreater(unit["mib"], 0)

    def test_a_recording_is_looked_at_again_and_its_table_written_into_a_page(self):
        self.log.write_text("".join(json.dumps(unit) + "\n" for unit in UNITS))
        page = self.folder / "page.md"
        page.write_text("# Page\n<!-- build dev -->\nold\n<!-- end -->\nrest\n")
        done = self.run_program("dev", "--from", self.log, "--write", page)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(page.read_text(),
                         f"# Page\n<!-- build dev -->\n{done.stdout}<!-- end -->\nrest\n")

    def test_a_recording_past_the_budget_fails_and_says_why(self):
        self.log.write_text("".join(json.dumps(unit) + "\n" for unit in with_unit(seconds=99)))
        done = self.run_program("dev", "--from", self.log)
        self.assertEqual(done.returncode, 1)
        self.assertIn("takes 99.0 s – expected at most 20", done.stderr)


if __name__ == "__main__":
    unittest.main()
