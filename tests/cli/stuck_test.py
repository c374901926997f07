"""Plugins that do not let the program end: it ends, complete, and says who is at fault."""
import pathlib
import shutil
import signal
import subprocess
import tempfile
import unittest

from program import BINARY, SANITIZED, THREADS_SANITIZED, run
from server import Server

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
    def test_an_instruction_that_the_processor_lacks_is_told_from_a_trap(self):
        done = run(*self.flags("test.plan_has_a_strange_instruction"))
        self.assertEqual(done.returncode, -signal.SIGILL, done.stderr)
        self.assertIn("plan of scheduler 'test.plan_has_a_strange_instruction' crashed: this processor "
                      "lacks an instruction of its code", done.stderr)
        done = run(*self.flags("test.plan_traps"))
        self.assertIn(done.returncode, [-signal.SIGILL, -signal.SIGTRAP], done.stderr)
        self.assertNotIn("lacks an instruction", done.stderr)

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


class Waiting(unittest.TestCase):
    """Schedulers that grant nothing on purpose, while somebody waits."""
    FOR_AN_HOUR = ("scheduler 'test.waits_an_hour': plan grants nothing and wants to wait for 1h – "
                   "expected at most 1min (engine.wait_limit) while sequences wait")

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        shutil.copy(LIBRARY.parent / "libtenon-promises_schedulers.so", folder.name)
        self.path = ["--plugin-path", folder.name]

    def run_with(self, scheduler, *flags):
        return run("run", PROMPT, *self.path, "--temperature", 0, "--max-tokens", 4, "--set",
                   f"scheduler.plugin={scheduler}", *flags, timeout=60)

    def test_a_wish_beyond_the_limit_ends_the_run_with_the_name_and_the_wish(self):
        done = self.run_with("test.waits_an_hour")
        self.assertEqual(done.returncode, 1, done.stdout)
        self.assertIn(self.FOR_AN_HOUR, done.stderr)

    def test_many_small_wishes_end_at_the_limit(self):
        done = self.run_with("test.puts_off", "--set", "engine.wait_limit=300ms")
        self.assertEqual(done.returncode, 1, done.stdout)
        self.assertRegex(done.stderr, "scheduler 'test.puts_off' planned nothing on purpose for "
                                      r"\d+m?s \(engine.wait_limit\) – 1 sequences wait and 0 run")

    def test_an_isolated_scheduler_of_this_kind_has_a_substitute(self):
        done = self.run_with("test.waits_an_hour", "--set", "engine.guard=isolate")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("scheduler 'test.waits_an_hour' was lost", done.stderr)
        self.assertIn("'continuous' plans in its place", done.stderr)

    def test_a_request_to_a_server_ends_with_the_same_words(self):
        with Server(*self.path, "--set", "scheduler.plugin=test.waits_an_hour") as server:
            status, _, answer = server.post("/v1/completions", {"prompt": PROMPT, "max_tokens": 4})
            self.assertEqual(status, 500, answer)
            self.assertIn(self.FOR_AN_HOUR, answer["error"]["message"])
            status, _, _ = server.get("/health")
            self.assertEqual(status, 200)

    def test_so_does_one_that_is_put_off_for_ever(self):
        with Server(*self.path, "--set", "scheduler.plugin=test.puts_off", "--set",
                    "engine.wait_limit=300ms") as server:
            status, _, answer = server.post("/v1/completions", {"prompt": PROMPT, "max_tokens": 4})
            self.assertEqual(status, 500, answer)
            self.assertIn("planned nothing on purpose for", answer["error"]["message"])


if __name__ == "__main__":
    unittest.main()
