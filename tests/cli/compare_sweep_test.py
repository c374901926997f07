"""`tenon compare --sweep`: a comparison at several loads, and what refuses to be one."""
import json
import re
import unittest

from comparing import Case


class Sweep(Case):
    def test_each_load_has_a_folder_and_each_arm_a_curve(self):
        done = self.compare("--arm", "chunked:scheduler.plugin=chunked", "--sweep", "concurrency=1,3",
                            "--pairs", 4, "--budget", "60s")
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
