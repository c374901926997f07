"""How `tenon compare` ends: interrupted, out of time or disk, with an arm that dies."""
import json
import os
import pathlib
import resource
import shutil
import signal
import subprocess
import time
import unittest

from comparing import WORK, Case
from program import BINARY, MODEL, SANITIZED, THREADS_SANITIZED, run
from server import PATIENCE


class Ends(Case):
    def children(self, process):
        listed = pathlib.Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text()
        return [int(child) for child in listed.split()]

    @unittest.skipIf(THREADS_SANITIZED, "the report takes longer than a signal leaves it")
    def test_an_interrupt_reports_what_is_known(self):
        process = self.started()
        children = self.children(process)
        process.send_signal(signal.SIGINT)
        out, errors = process.communicate(timeout=PATIENCE)
        self.assertEqual(process.returncode, 130, errors)
        self.assertIn("ended by SIGINT", out)
        self.assertTrue((self.out / "report.html").exists())
        self.assertFalse([child for child in children if os.path.exists(f"/proc/{child}")])

    def test_an_interrupt_before_anything_is_measured_leaves_no_folder(self):
        process = self.started(begun=lambda self: self.out.exists())
        process.send_signal(signal.SIGINT)
        out, errors = process.communicate(timeout=PATIENCE)
        self.assertEqual(process.returncode, 130, errors)
        self.assertNotIn("results:", out)
        self.assertFalse(self.out.exists())

    def test_arms_are_started_anew_between_pairs(self):
        done = self.compare("--arm", "b:scheduler.plugin=chunked", "--restart", 2, "--json")
        self.assertEqual(done.returncode, 0, done.stderr)
        arm = json.loads(done.stdout)["arms"][0]
        self.assertTrue(arm["answers"].startswith("equal"), arm["answers"])
        speed = next(m for m in arm["metrics"] if m["metric"] == "throughput")
        self.assertEqual((speed["pairs"], speed["units"]), (6, 3))
        starts = {}  # of each arm: in which of its processes a pair was measured
        for piece in self.pieces():
            if piece["kind"] == "measured":
                starts.setdefault(piece["arm"], []).append(piece["process"])
        self.assertEqual(starts["b"], starts["base"])
        self.assertEqual([n - starts["b"][0] for n in starts["b"]], [0, 0, 1, 1, 2, 2])
        self.assertIn("--restart 2", json.loads((self.out / "report.json").read_text())["plan"]["command"])

    @unittest.skipIf(SANITIZED, "loading alone takes as long")
    def test_a_piece_that_the_budget_does_not_reach_is_given_up(self):
        # Pieces wait for their last arrival: 4 s each, of which two fit in and a third does not. Two
        # more, and the four of A against A, would take until 20 s at least.
        self.work.write_text(WORK + '[[request]]\nprompt_tokens = 12\nmax_tokens = 1\narrival = "4s"\n')
        start = time.monotonic()
        done = self.compare("--arm", "b:", "--budget", "10s", "--json")
        took = time.monotonic() - start
        self.assertEqual(done.returncode, 5, done.stderr)
        self.assertIn("no pair was measured before the end (the budget of 10s is spent)", done.stderr)
        self.assertRegex(done.stderr, r"takes about \d+ s – five pairs need \d+ s more")
        self.assertEqual(len(self.pieces()), 2)
        self.assertIn("budget of 10s is spent", json.loads(done.stdout)["plan"]["ended"])
        self.assertLess(took, 18)

    def test_an_arm_that_dies_is_a_clear_end_and_what_was_measured_is_kept(self):
        process = self.started()
        os.kill(self.children(process)[-1], signal.SIGKILL)
        out, errors = process.communicate(timeout=PATIENCE)
        self.assertEqual(process.returncode, 1)
        self.assertIn("ended by signal 9", errors)
        self.assertIn("b against base", out)
        self.assertTrue((self.out / "report.json").exists())

    def test_arms_do_not_outlive_who_started_them(self):
        process = self.started()
        children = self.children(process)
        process.kill()
        process.communicate(timeout=PATIENCE)
        end = time.monotonic() + 20
        while any(os.path.exists(f"/proc/{child}") for child in children):
            self.assertLess(time.monotonic(), end)
            time.sleep(0.05)

    def test_a_full_disk_is_a_clear_end_and_what_was_measured_is_kept(self):
        """To whoever writes a file, a limit on its size is a disk that is full."""
        def limit():
            resource.setrlimit(resource.RLIMIT_FSIZE, (30_000, 30_000))
        done = subprocess.run(
            [BINARY, *map(str, ["compare", "--workload", self.work, "--out", self.out, "--quiet",
                                "--noise-pairs", 0, "--pairs", 100000, "--margin", 0.0001,
                                "--unlike", 100, "--arm", "b:"])],
            cwd=self.folder, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False,
            timeout=240, preexec_fn=limit, restore_signals=False)
        self.assertEqual(done.returncode, 1, done.stderr)
        self.assertIn("File too large", done.stderr)
        self.assertIn("pieces", done.stderr)
        shown = run("compare", "show", self.out)
        self.assertEqual(shown.returncode, 0, shown.stderr)
        self.assertIn("b against base", shown.stdout)

    def test_a_model_that_changes_is_a_clear_end(self):
        model = self.folder / "model"
        shutil.copytree(MODEL, model)
        process = self.started("--model", model)
        os.utime(model / "config.json")
        _, errors = process.communicate(timeout=PATIENCE)
        self.assertEqual(process.returncode, 1)
        self.assertIn("changed while it was measured", errors)


if __name__ == "__main__":
    unittest.main()
