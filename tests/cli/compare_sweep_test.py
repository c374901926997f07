"""`tenon compare --sweep`: a comparison at several loads, and what refuses to be one."""
import csv
import io
import json
import re
import unittest

from comparing import Case
from program import run


class Sweep(Case):
    def test_each_load_has_a_folder_and_each_arm_a_curve(self):
        done = self.compare("--arm", "chunked:scheduler.plugin=chunked", "--sweep", "concurrency=1,3",
                            "--pairs", 4, "--budget", "20m")
        self.assertEqual(done.returncode, 0, done.stderr)
        for load in (1, 3):
            report = json.loads((self.out / f"concurrency-{load}" / "report.json").read_text())
            self.assertIn("closed loop", report["plan"]["work"])
            self.assertIn(str(load), report["plan"]["work"])
            self.assertIn(f"concurrency {load}: ", done.stdout)
        curves = re.findall(r"^(base|chunked)\n  concurrency .*\n  1 .*\n  3 ", done.stdout, re.M)
        self.assertEqual(curves, ["base", "chunked"])
        for name in ("ttft", "latency", "gap"):
            picture = (self.out / f"pictures/sweep-{name}.svg").read_text()
            self.assertIn("chunked, concurrency 3:", picture)
            self.assertIn("base, concurrency 1:", picture)

    def sweep(self, folder, *arguments):
        self.out = self.folder / folder
        done = self.compare("--arm", "b:", "--sweep", "concurrency=1,2", "--pairs", 4, "--budget", "20m",
                            *arguments)
        self.assertEqual(done.returncode, 0, done.stderr)
        return done.stdout

    def test_json_and_csv_are_one_document(self):
        whole = json.loads(self.sweep("json", "--json"))
        self.assertEqual(whole["sweep"], "concurrency=1,2")
        self.assertEqual([load["load"] for load in whole["loads"]], [1, 2])
        for load in whole["loads"]:
            self.assertEqual(load["report"], json.loads(
                (self.out / f"concurrency-{load['load']:g}" / "report.json").read_text()))
        self.assertEqual([curve["name"] for curve in whole["curves"]], ["base", "b"])
        self.assertEqual([[point["load"] for point in curve["points"]] for curve in whole["curves"]],
                         [[1, 2], [1, 2]])
        kept = json.loads((self.out / "sweep.json").read_text())
        self.assertEqual(kept["curves"], whole["curves"])

        shown = run("compare", "show", self.out, "--csv")
        self.assertEqual(shown.returncode, 0, shown.stderr)
        rows = list(csv.DictReader(io.StringIO(shown.stdout)))
        self.assertEqual({row["load"] for row in rows}, {"1", "2"})
        self.assertEqual({row["arm"] for row in rows}, {"b"})

    def test_several_are_one_picture(self):
        self.sweep("monday")
        self.sweep("tuesday")
        shown = run("compare", "show", self.folder / "monday", f"{self.folder / 'tuesday'}/", "--out",
                    self.folder / "both")
        self.assertEqual(shown.returncode, 0, shown.stderr)
        self.assertEqual(len(re.findall(r"^  concurrency ", shown.stdout, re.M)), 4)
        picture = (self.folder / "both/pictures/sweep-latency.svg").read_text()
        for name in ("monday: base", "monday: b", "tuesday: base", "tuesday: b"):
            self.assertIn(f">{name}</text>", picture)

        nowhere = run("compare", "show", self.folder / "monday", self.folder / "tuesday", "--pictures", "svg")
        self.assertEqual(nowhere.returncode, 1)
        self.assertIn("--out FOLDER", nowhere.stderr)
        mixed = run("compare", "show", self.folder / "monday", self.folder / "tuesday/concurrency-1")
        self.assertEqual(mixed.returncode, 1)
        self.assertIn("some of one load", mixed.stderr)
        ruled = run("compare", "show", self.folder / "monday", "--fail-if", "b.ttft_p50 > base")
        self.assertEqual(ruled.returncode, 1)
        self.assertIn("a rule is about one load", ruled.stderr)

    def test_what_is_no_sweep_is_refused(self):
        for arguments, status, words in (
                (["--sweep", "concurrency=4..1"], 1, "expected rate=LOW..HIGH"),
                (["--sweep", "rate=1..4", "--goodput", "ttft=1s"], 1, "searches a rate by itself"),
                (["--sweep", "rate=1..4", "--rate", "2"], 2, "--rate")):
            with self.subTest(arguments=arguments):
                done = self.compare("--arm", "b:", *arguments)
                self.assertEqual(done.returncode, status, done.stderr)
                self.assertIn(words, done.stderr)
                self.assertFalse(self.out.exists())


if __name__ == "__main__":
    unittest.main()
