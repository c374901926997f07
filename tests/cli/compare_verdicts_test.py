"""`tenon compare`: verdicts on time. No other test runs beside them, and what they must find is large, since the
machine may be a guest whose processors are taken away for a while. How small a difference is found is
measured on a quiet machine: docs/experiments/024-comparing.md."""
import unittest

from comparing import PLANTED, WORK, Case
from program import SANITIZED, run


class Verdicts(Case):
    @unittest.skipIf(SANITIZED, "steps are slow, and the slowdown is found by its time")
    def test_a_slowdown_is_found_and_blamed_on_its_plugin(self):
        self.work.write_text(WORK.replace("max_tokens = 8", "max_tokens = 100"))
        done = run("compare", "--workload", self.work, "--out", self.out, "--pairs", 60,
                   "--noise-pairs", 0, "--unlike", 100, "--quiet", "--budget", "100s",
                   "--confidence", 0.9, "--plugin-path", PLANTED, "--set",
                   "scheduler.plugin=test.burning", "--arm", "slow:scheduler.options.permille=4000",
                   cwd=self.folder)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("slow is worse than base", done.stdout)
        why = next(line for line in done.stdout.splitlines() if line.startswith("  why"))
        self.assertIn("scheduler", why)

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
        self.assertIn("KL divergence", done.stdout)
        kept = run("compare", "show", self.out, "--fail-if", "ref.throughput > base")
        self.assertEqual(kept.returncode, 0, kept.stderr)

    def test_an_early_end_comes_when_every_rule_that_can_be_told_is_decided(self):
        for name, rule, status in (("decided", "ref.throughput < 0.9 * base", 3),
                                   ("absent", "ref.ttft_p99 > base", 0)):
            self.out = self.folder / name
            done = self.compare("--arm", "executor.plugin=ref", "--pairs", 200, "--noise-pairs", 0,
                                "--budget", "120s", "--confidence", 0.8, "--text-tokens", 64,
                                "--fail-if", rule)
            self.assertEqual(done.returncode, status, done.stderr)
            measured = [piece for piece in self.pieces() if piece["kind"] == "measured"]
            self.assertLess(len(measured), 2 * 200)
            self.assertEqual("not told either way" in done.stderr, name == "absent")


if __name__ == "__main__":
    unittest.main()
