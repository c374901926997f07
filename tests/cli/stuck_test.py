"""Plugins that do not let the program end: it ends, complete, and says who is at fault."""
import pathlib
import shutil
import signal
import subprocess
import tempfile
import unittest

from program import BINARY, SANITIZED, THREADS_SANITIZED, run

LIBRARY = pathlib.Path(BINARY).parent.parent / "tests/bad_plugins/libtenon-stuck.so"
PROMPT = "Once upon a time"


class Stuck(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)
        shutil.copy(LIBRARY, self.folder.name)

    def flags(self, scheduler):
        return ["run", PROMPT, "--max-tokens", "12", "--temperature", "0", "--no-echo", "--quiet",
                "--plugin-path", self.folder.name, "--set", f"scheduler.plugin={scheduler}"]

    def expected(self):
        return run("run", PROMPT, "--max-tokens", 12, "--temperature", 0, "--no-echo",
                   "--quiet").stdout

    @unittest.skipIf(THREADS_SANITIZED, "signals wait until a thread calls what is watched")
    def test_a_plan_that_never_returns_ends_with_the_first_interrupt(self):
        program = subprocess.Popen([BINARY, *self.flags("test.plan_hangs")], text=True,
                                   stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        self.addCleanup(program.kill)
        self.assertIn("hangs from here on", program.stderr.readline())
        program.send_signal(signal.SIGINT)
        output, errors = program.communicate(timeout=30)
        self.assertEqual(program.returncode, 130, errors)
        self.assertTrue(self.expected().startswith(output.rstrip("\n")) and output, output)
        self.assertIn("plan of scheduler 'test.plan_hangs'", errors)

    def test_a_plugin_that_cannot_be_destroyed_takes_no_output_along(self):
        done = run(*self.flags("test.destroy_hangs"), timeout=60)
        self.assertEqual(done.stdout, self.expected())
        self.assertEqual(done.returncode, 1, done.stderr)
        self.assertIn("destroy of scheduler 'test.destroy_hangs' did not return", done.stderr)

    def test_a_plugin_that_crashes_when_it_is_destroyed_takes_no_output_along(self):
        done = run(*self.flags("test.destroy_crashes"))
        self.assertEqual(done.stdout, self.expected())
        self.assertNotEqual(done.returncode, 0)
        if not SANITIZED:
            self.assertEqual(done.returncode, -signal.SIGSEGV)
            self.assertIn("destroy of scheduler 'test.destroy_crashes' crashed", done.stderr)

    def test_a_plugin_that_crashes_when_it_is_destroyed_takes_no_report_along(self):
        text = pathlib.Path(self.folder.name) / "text.txt"
        text.write_text("Once upon a time there was a small dog.")
        done = run("model", "perplexity", "--file", text, "--plugin-path", self.folder.name,
                   "--set", "scheduler.plugin=test.destroy_crashes")
        self.assertNotEqual(done.returncode, 0)
        self.assertIn("tokens predicted", done.stdout)

    @unittest.skipIf(SANITIZED, "a sanitizer sees it first")
    def test_a_call_that_uses_up_the_stack_is_named(self):
        done = run(*self.flags("test.plan_recurses"))
        self.assertEqual(done.returncode, -signal.SIGSEGV, done.stderr)
        self.assertIn("plan of scheduler 'test.plan_recurses' crashed: its thread's stack ran out",
                      done.stderr)

    @unittest.skipIf(SANITIZED, "a sanitizer sees it first")
    def test_so_is_one_of_another_thread(self):
        shutil.copy(LIBRARY.parent / "libtenon-promises_kernels_attention.so", self.folder.name)
        done = run("run", PROMPT, "--plugin-path", self.folder.name, "--threads", 4,
                   "--set", "attention.plugin=test.recurses")
        self.assertEqual(done.returncode, -signal.SIGSEGV, done.stderr)
        self.assertIn("run of attention 'test.recurses' crashed: its thread's stack ran out",
                      done.stderr)

    def test_a_plugin_that_exits_does_not_look_like_success(self):
        done = run(*self.flags("test.plan_exits"))
        self.assertEqual(done.returncode, 1, done.stderr)
        self.assertIn("plan of scheduler 'test.plan_exits' ended the program", done.stderr)


    def test_a_scheduler_that_says_nothing_of_drafts_is_refused_beside_a_drafter(self):
        done = run(*self.flags("test.plan_exits"), "--set", "drafter.plugin=ngram")
        self.assertEqual(done.returncode, 1)
        self.assertIn("needs sched.drafts, about which no part of this pipeline says anything",
                      done.stderr)


if __name__ == "__main__":
    unittest.main()
