"""A signal ends every command within a second, with what is done so far and its status."""
import json
import pathlib
import signal
import subprocess
import tempfile
import time
import unittest

from program import BINARY, MODEL, SANITIZED, SOURCE, run, settings

TEXT = SOURCE / "configs/models/valid.txt"
# Far longer than a second in one step: the oracle computes slowly.
SLOW = settings(executor__plugin="ref", limits__max_batch_tokens=2048)
SECONDS = 30 if SANITIZED else 5  # the machine may be busy; the program gives itself 0.7


class Signals(unittest.TestCase):
    def start(self, *arguments, **keywords):
        keywords.setdefault("stdin", subprocess.DEVNULL)
        process = subprocess.Popen([BINARY, *map(str, arguments)], stdout=subprocess.PIPE,
                                   stderr=subprocess.PIPE, **keywords)
        self.addCleanup(process.communicate)
        self.addCleanup(process.kill)
        return process

    def wait_for_file(self, folder, pattern):
        """Until the program has begun to write; ends with the test's own limit."""
        while not list(folder.rglob(pattern)):
            time.sleep(0.005)

    def wait_for_processor_time(self, process, seconds):
        """Until it has computed for so long: it is in the middle of its work then."""
        while process.poll() is None:
            fields = pathlib.Path(f"/proc/{process.pid}/stat").read_text().rsplit(")", 1)[1].split()
            if (int(fields[11]) + int(fields[12])) / 100 >= seconds:
                return
            time.sleep(0.005)
        self.fail(process.stderr.read())

    def end(self, process, number=signal.SIGINT):
        """What it printed, and on standard error."""
        begin = time.monotonic()
        process.send_signal(number)
        output, errors = process.communicate(timeout=120)
        self.assertLess(time.monotonic() - begin, SECONDS)
        self.assertEqual(process.returncode, 128 + number, errors)
        return output.decode(), errors.decode()

    def test_run_shows_what_it_has_said_for_every_signal(self):
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            with self.subTest(signal=number.name):
                process = self.start("run", "The king", "--max-tokens", 2000, "--ignore-eos")
                process.stdout.read(30)
                _, errors = self.end(process, number)
                self.assertIn("tokens/s", errors)
                self.assertIn(f"partial: ended by {number.name}", errors)

    def test_a_long_step_does_not_hold_the_end_up(self):
        prompt = "the king and the queen " * 300
        for flags in ([], ["--json"]):
            process = self.start("run", prompt, "--max-tokens", 4, *SLOW, *flags)
            self.wait_for_processor_time(process, 2)
            output, errors = self.end(process)
            if flags:
                self.assertEqual(json.loads(output)["partial"], "ended by SIGINT")
            else:
                self.assertIn("partial: ended by SIGINT", errors)

    def test_a_run_that_ended_early_says_so_in_its_report(self):
        with tempfile.NamedTemporaryFile("w", suffix=".txt") as file:
            file.write("The king\n" * 40)
            file.flush()
            process = self.start("run", "--file", file.name, "--json", "--ignore-eos",
                                 "--max-tokens", 1900)
            self.wait_for_processor_time(process, 3)
            report = json.loads(self.end(process, signal.SIGTERM)[0])
        self.assertEqual(report["partial"], "ended by SIGTERM")
        self.assertIn("cancelled", {request["finish"] for request in report["requests"]})

    def test_bench_shows_the_repetitions_that_it_made(self):
        # One takes milliseconds: on a fast processor a thousand of short ones end before the signal.
        process = self.start("bench", "--prompt-tokens", 128, "--decode-tokens", 2, "--repeat", 1000,
                             "--limit-seconds", 0, "--json")
        self.wait_for_processor_time(process, 2)
        report = json.loads(self.end(process, signal.SIGTERM)[0])
        self.assertEqual(report["partial"], "ended by SIGTERM")
        self.assertIn(report["repeat"], range(1, 1000))

    def test_bench_without_one_repetition_says_so(self):
        process = self.start("bench", "--prompt-tokens", 1900, "--decode-tokens", 2, "--limit-seconds",
                             0, *SLOW)
        self.wait_for_processor_time(process, 2)
        output, errors = self.end(process)
        self.assertEqual(output, "")
        self.assertIn("ended by SIGINT before anything was measured", errors)

    def test_measuring_limits_ends_at_once(self):
        process = self.start("bench", "--limits", "--limit-seconds", 60)
        self.wait_for_processor_time(process, 0.3)
        self.end(process)

    def test_perplexity_shows_what_is_predicted_so_far(self):
        process = self.start("model", "perplexity", MODEL, "--file", TEXT, "--context", 64,
                             "--stride", 8, "--json", *settings(executor__plugin="ref"))
        self.wait_for_processor_time(process, 4)
        output, errors = self.end(process)
        if not output:  # a busy machine
            self.assertIn("before anything was predicted", errors)
            return
        report = json.loads(output)
        self.assertEqual(report["partial"], "ended by SIGINT")
        self.assertIn(report["predicted_tokens"], range(1, report["tokens"] - 1))
        self.assertGreater(report["perplexity"], 1)

    def test_no_unfinished_file_is_left(self):
        with tempfile.TemporaryDirectory() as folder:
            folder = pathlib.Path(folder)
            for number, arguments in (
                    (signal.SIGINT, ["synth", "--shape", "llama-3.2-1b", "--out", folder / "a/b"]),
                    (signal.SIGTERM, ["synth", "--shape", "llama-3.2-1b", "--out", folder / "c"]),
                    (signal.SIGHUP, ["synth", "--shape", "llama-3.2-1b", "--out", folder / "d"])):
                process = self.start("model", *arguments)
                self.wait_for_file(folder, "*.partial")
                _, errors = self.end(process, number)
                self.assertIn(f"ended by {number.name}", errors)
                self.assertEqual([path for path in folder.rglob("*") if path.is_file()], [])
            self.assertEqual([path.name for path in folder.iterdir()], ["a"])

    def test_logits_that_are_not_whole_are_not_written(self):
        with tempfile.TemporaryDirectory() as folder:
            process = self.start("model", "logits", MODEL, "--tokens", ",".join(["5"] * 2000),
                                 "--out", pathlib.Path(folder) / "l.npy", *SLOW)
            self.wait_for_processor_time(process, 2)
            self.end(process)
            self.assertEqual(list(pathlib.Path(folder).iterdir()), [])

    def test_reading_standard_input_ends_at_once(self):
        for arguments in (["tokenize"], ["run", "-"]):
            process = self.start(*arguments, stdin=subprocess.PIPE)
            process.stdin.write(bytes(1 << 20))  # more than the pipe holds: it is being read
            process.stdin.flush()
            process.send_signal(signal.SIGINT)
            self.assertEqual(process.wait(timeout=60), 130)

    def test_an_ignored_signal_stays_ignored(self):
        process = subprocess.Popen(
            ["/bin/sh", "-c", 'trap "" INT HUP; exec "$0" "$@"', BINARY, "run", "The king",
             "--max-tokens", "400", "--ignore-eos"], stdout=subprocess.PIPE,
            stderr=subprocess.PIPE)
        process.stdout.read(20)
        process.send_signal(signal.SIGINT)
        process.send_signal(signal.SIGHUP)
        process.communicate(timeout=120)
        self.assertEqual(process.returncode, 0)

    def test_the_second_signal_ends_at_once(self):
        process = self.start("run", "the king and the queen " * 300, *SLOW)
        self.wait_for_processor_time(process, 2)
        process.send_signal(signal.SIGINT)
        self.end(process)


if __name__ == "__main__":
    unittest.main(verbosity=2)
