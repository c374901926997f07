"""`tenon compare`: what it refuses, what it finds, what it leaves, and how it ends."""
import json
import os
import pathlib
import shutil
import signal
import subprocess
import tempfile
import time
import unittest

from program import BINARY, MODEL, SOURCE, run

WORK = """format = 1
[[request]]
count = 3
prompt_tokens = 12
max_tokens = 8
"""
# Few short pieces, on whatever machine.
BRIEF = ["--pairs", 6, "--noise-pairs", 2, "--unlike", 100, "--quiet"]


class Case(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        self.out = self.folder / "out"
        self.work = self.folder / "work.toml"
        self.work.write_text(WORK)

    def compare(self, *arguments):
        return run("compare", "--workload", self.work, "--out", self.out, *BRIEF, *arguments,
                   cwd=self.folder)

    def pieces(self):
        path = self.out / "pieces.jsonl"
        return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []

    def started(self, *arguments, workload=None):
        """A comparison that would go on for long, with some pieces measured."""
        process = subprocess.Popen(
            [BINARY, *map(str, ["compare", "--workload", workload or self.work, "--out", self.out,
                                "--noise-pairs", 0, "--pairs", 100000, "--margin", 0.0001,
                                "--arm", "b:", *arguments])],
            cwd=self.folder, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
            stderr=subprocess.PIPE, text=True)
        end = time.monotonic() + 240
        while len(self.pieces()) < 6:
            self.assertLess(time.monotonic(), end)
            self.assertIsNone(process.poll(), process.stderr and process.poll())
            time.sleep(0.05)
        return process


class Refusals(Case):
    def test_more_than_one_difference_is_refused_unless_it_is_meant(self):
        done = self.compare("--arm", "b:scheduler.plugin=chunked", "--arm", "b:kv_cache.plugin=radix")
        self.assertEqual(done.returncode, 1)
        self.assertIn("differs in 2 keys (kv_cache.plugin, scheduler.plugin)", done.stderr)
        self.assertFalse(self.out.exists())

    def test_what_cannot_be_compared_is_said_before_anything_is_loaded(self):
        for arguments, expected in (
                ([], "nothing to compare the base with"),
                (["--arm", "b:", "--metric", "throughputs"], "did you mean 'throughput'?"),
                (["--arm", "b:", "--fail-if", "b.speed > base"], "'speed' is no metric")):
            done = self.compare(*arguments)
            self.assertEqual(done.returncode, 1, done.stderr)
            self.assertIn(expected, done.stderr)

    def test_an_arm_that_does_not_compose_says_why(self):
        done = self.compare("--arm", "b:scheduler.plugin=nothing")
        self.assertEqual(done.returncode, 1)
        self.assertIn("arm 'b'", done.stderr)
        self.assertIn("no scheduler plugin 'nothing'", done.stderr)

    def test_results_are_never_mixed(self):
        self.out.mkdir()
        done = self.compare("--arm", "b:")
        self.assertEqual(done.returncode, 1)
        self.assertIn("is there already", done.stderr)


class Results(Case):
    def test_a_folder_holds_everything_and_is_reported_again(self):
        done = self.compare("--arm", "scheduler.plugin=chunked", "--json")
        self.assertEqual(done.returncode, 0, done.stderr)
        report = json.loads(done.stdout)
        arm = report["arms"][0]
        self.assertEqual(arm["name"], "chunked")
        self.assertTrue(arm["answers"].startswith("equal"), arm["answers"])
        self.assertGreaterEqual(arm["pairs"] + arm["dropped_pairs"], 5)
        self.assertEqual(report["noise"]["pairs"], 2)
        self.assertTrue(report["plan"]["ended"])
        names = {path.name for path in self.out.iterdir()}
        self.assertLessEqual(
            {"comparison.json", "pieces.jsonl", "requests.jsonl", "workload.toml", "arm0.toml",
             "arm1.toml", "report.html", "report.json", "report.csv", "report.md"}, names)
        head = json.loads((self.out / "comparison.json").read_text())
        self.assertIn('scheduler.plugin: "continuous" → "chunked"', head["arms"][1]["differences"])
        rows = (self.out / "requests.jsonl").read_text().splitlines()
        self.assertEqual(len(rows), 3 * len(self.pieces()))
        again = run("compare", "show", self.out, "--json")
        self.assertEqual(json.loads(again.stdout), report)
        page = (self.out / "report.html").read_text()
        for forbidden in ("http://", "https://", "<script", "@import", "url("):
            self.assertNotIn(forbidden, page)

    def test_a_folder_that_was_cut_is_reported_as_far_as_it_goes(self):
        self.assertEqual(self.compare("--arm", "b:").returncode, 0)
        before = sum(piece["kind"] == "measured" and piece["arm"] == "b" for piece in self.pieces())
        path = self.out / "pieces.jsonl"
        path.write_text(path.read_text()[:-200])
        done = run("compare", "show", self.out, "--json")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("was cut", done.stderr)
        arm = json.loads(done.stdout)["arms"][0]
        self.assertEqual(arm["pairs"] + arm["dropped_pairs"], before - 1)

    def test_folders_of_two_days_are_compared_unpaired(self):
        self.assertEqual(self.compare("--arm", "b:").returncode, 0)
        other = self.folder / "other"
        shutil.copytree(self.out, other)
        done = run("compare", "show", self.out, other)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("unpaired", done.stdout)
        self.assertIn("+0.0 % [", done.stdout)

    def test_no_folder_of_a_comparison_is_refused(self):
        done = run("compare", "show", self.folder)
        self.assertEqual(done.returncode, 1)
        self.assertIn("is no folder of a comparison", done.stderr)

    def test_poisson_arrivals_are_drawn_once_and_kept(self):
        done = self.compare("--arm", "b:", "--rate", 200, "--json")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("open loop", json.loads(done.stdout)["plan"]["work"])
        arrivals = json.loads((self.out / "arrivals.json").read_text())
        self.assertEqual(len(arrivals), 3)
        self.assertLess(arrivals[0], arrivals[2])

    def test_every_state_of_the_cache_is_what_it_says(self):
        reused = {}
        for cache in ("cold", "warm"):
            self.out = self.folder / cache
            work = self.folder / "work.toml"
            work.write_text("format = 1\n[[request]]\nprompt_tokens = 64\nmax_tokens = 4\n")
            done = self.compare("--set", "kv_cache.plugin=prefix", "--arm", "b:", "--cache", cache)
            self.assertEqual(done.returncode, 0, done.stderr)
            reused[cache] = [piece["counters"]["reused_tokens"] for piece in self.pieces()]
        self.assertEqual(set(reused["cold"]), {0})
        self.assertTrue(all(reused["warm"]), reused["warm"])


class Verdicts(Case):
    def test_an_arm_with_other_tokens_is_not_ranked(self):
        done = self.compare("--arm", "wrong:sampler.plugin=replay", "--arm",
                            "wrong:sampler.options.tokens=5 6 7 8", "--several")
        self.assertEqual(done.returncode, 4, done.stderr)
        self.assertIn("different answers", done.stdout)
        self.assertIn("request 0, sample 0 has other tokens", done.stdout)
        self.assertNotIn("better", done.stdout)
        self.assertEqual({piece["kind"] for piece in self.pieces()}, {"warm_up"})

    def test_a_certain_loss_breaks_a_rule_and_a_gain_does_not(self):
        rule = ["--fail-if", "ref.throughput < 0.5 * base"]
        # As many pairs as it takes on a busy machine: certainty ends it.
        done = run("compare", "--workload", self.work, "--out", self.out, "--pairs", 200,
                   "--noise-pairs", 0, "--unlike", 100, "--quiet", "--budget", "120s",
                   "--confidence", 0.8, "--arm",
                   "executor.plugin=ref", *rule, cwd=self.folder)
        self.assertEqual(done.returncode, 3, done.stdout + done.stderr)
        self.assertIn("broken: ref.throughput < 0.5 * base", done.stderr)
        self.assertIn("ref is worse than base", done.stdout)
        self.assertIn("the numerics differ", done.stdout)
        kept = run("compare", "show", self.out, "--fail-if", "ref.throughput > base")
        self.assertEqual(kept.returncode, 0, kept.stderr)


class Ends(Case):
    def children(self, process):
        listed = pathlib.Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text()
        return [int(child) for child in listed.split()]

    def test_an_interrupt_reports_what_is_known(self):
        process = self.started()
        children = self.children(process)
        process.send_signal(signal.SIGINT)
        out, errors = process.communicate(timeout=60)
        self.assertEqual(process.returncode, 130, errors)
        self.assertIn("ended by SIGINT", out)
        self.assertTrue((self.out / "report.html").exists())
        self.assertFalse([child for child in children if os.path.exists(f"/proc/{child}")])

    def test_an_arm_that_dies_is_a_clear_end_and_what_was_measured_is_kept(self):
        process = self.started()
        os.kill(self.children(process)[-1], signal.SIGKILL)
        out, errors = process.communicate(timeout=60)
        self.assertEqual(process.returncode, 1)
        self.assertIn("ended by signal 9", errors)
        self.assertIn("b against base", out)
        self.assertTrue((self.out / "report.json").exists())

    def test_arms_do_not_outlive_who_started_them(self):
        process = self.started()
        children = self.children(process)
        process.kill()
        process.communicate(timeout=60)
        end = time.monotonic() + 20
        while any(os.path.exists(f"/proc/{child}") for child in children):
            self.assertLess(time.monotonic(), end)
            time.sleep(0.05)

    def test_a_model_that_changes_is_a_clear_end(self):
        model = self.folder / "model"
        shutil.copytree(MODEL, model)
        process = self.started("--model", model)
        os.utime(model / "config.json")
        _, errors = process.communicate(timeout=60)
        self.assertEqual(process.returncode, 1)
        self.assertIn("changed while it was measured", errors)


class Files(unittest.TestCase):
    def test_every_comparison_that_comes_with_tenon_composes(self):
        for path in sorted((SOURCE / "configs/comparisons").glob("*.toml")):
            with self.subTest(path.stem), tempfile.TemporaryDirectory() as folder:
                # A budget that is spent before the first pair: everything is loaded, warmed up and held
                # against the base's answers.
                done = run("compare", path, "--budget", "1ms", "--noise-pairs", 0, "--quiet", "--out",
                           f"{folder}/out", "--json")
                self.assertEqual(done.returncode, 0, done.stderr)
                report = json.loads(done.stdout)
                self.assertTrue(report["plan"]["claim"])
                self.assertTrue(report["plan"]["expect"])


if __name__ == "__main__":
    unittest.main()
