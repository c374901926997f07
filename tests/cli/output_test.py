"""Nothing that a command prints or writes is lost with status 0."""
import os
import pathlib
import resource
import subprocess
import tempfile
import unittest

from program import BINARY, MODEL, SOURCE, run

SHORT = ["--max-tokens", "4"]
TEXT = SOURCE / "configs/models/valid.txt"


def commands(folder):
    """Every command, with what makes it quick. Files it writes go into `folder`."""
    return {
        "help": ["--help"],
        "help of a command": ["run", "--help"],
        "version": ["--version"],
        "run": ["run", "The king", *SHORT],
        "run in blocks": ["run", "The king", *SHORT, "--n", "2"],
        "run --json": ["run", "The king", *SHORT, "--json"],
        "tokenize": ["tokenize", "The king"],
        "tokenize --pieces": ["tokenize", "The king", "--pieces"],
        "tokenize --json": ["tokenize", "The king", "--json"],
        "detokenize": ["detokenize", "5", "6", "7"],
        "plugins list": ["plugins", "list"],
        "plugins list --json": ["plugins", "list", "--json"],
        "plugins inspect": ["plugins", "inspect", "scheduler/continuous"],
        "config check": ["config", "check"],
        "config explain": ["config", "explain"],
        "model info": ["model", "info", MODEL],
        "model info --json": ["model", "info", MODEL, "--json"],
        "model logits": ["model", "logits", MODEL, "--tokens", "5,6", "--out", folder / "l.npy"],
        "model perplexity": ["model", "perplexity", MODEL, "--file", TEXT, "--max-tokens", "8"],
        "model synth --list": ["model", "synth", "--list"],
        "model synth": ["model", "synth", "--shape", "stories-260k", "--out", folder / "synth"],
        "model convert": ["model", "convert", MODEL, folder / "tale.gguf"],
        "bench": ["bench", "--prompt-tokens", "8", "--decode-tokens", "2", "--repeat", "1",
                  "--limit-seconds", "0"],
        "bench --limits": ["bench", "--limits", "--limit-seconds", "0.02", "--threads", "1"],
        "watermark detect": ["watermark", "detect", "Once upon a time there was a king"],
    }


def start(arguments, **keywords):
    return subprocess.run([BINARY, *map(str, arguments)], stdin=subprocess.DEVNULL, timeout=300,
                          check=False, **keywords)


class StandardOutput(unittest.TestCase):
    def for_all(self, check):
        with tempfile.TemporaryDirectory() as folder:
            for name, arguments in commands(pathlib.Path(folder)).items():
                with self.subTest(command=name):
                    check(arguments)

    def test_a_full_disk_is_a_failure_with_a_sentence(self):
        def check(arguments):
            with open("/dev/full", "w") as full:
                done = start(arguments, stdout=full, stderr=subprocess.PIPE, text=True)
            self.assertEqual(done.returncode, 1, done.stderr)
            self.assertIn("standard output could not be written: No space left", done.stderr)
        self.for_all(check)

    def test_a_closed_standard_output_is_a_failure_with_a_sentence(self):
        def check(arguments):
            done = start(["-c", 'exec "$0" "$@" >&-', BINARY, *arguments], executable="/bin/sh",
                         stderr=subprocess.PIPE, text=True)
            self.assertEqual(done.returncode, 1, done.stderr)
            self.assertIn("standard output could not be written: Bad file", done.stderr)
        self.for_all(check)

    def test_a_pipe_that_its_reader_closed_is_status_141(self):
        def check(arguments):
            reader, writer = os.pipe()
            os.close(reader)
            done = start(arguments, stdout=writer, stderr=subprocess.PIPE, text=True)
            os.close(writer)
            self.assertEqual(done.returncode, 141, done.stderr)
            self.assertNotIn("could not be written", done.stderr)
        self.for_all(check)

    def test_without_standard_error_results_and_status_are_as_ever(self):
        def check(arguments):
            for where in (">&-", ">/dev/full"):
                done = start(["-c", f'exec "$0" "$@" 2{where}', BINARY, *arguments],
                             executable="/bin/sh", stdout=subprocess.PIPE)
                self.assertEqual(done.returncode, 0)
                self.assertNotEqual(done.stdout, b"")
                for path in arguments:  # a second time, the names are taken
                    if isinstance(path, pathlib.Path) and path not in (MODEL, TEXT):
                        subprocess.run(["rm", "-r", path], check=True)
        self.for_all(check)

    def test_no_file_takes_the_place_of_a_closed_stream(self):
        with tempfile.TemporaryDirectory() as folder:
            out = pathlib.Path(folder) / "logits.npy"
            arguments = ["model", "logits", MODEL, "--tokens", "5,6", "--out", out, "--log-level",
                         "debug"]
            start(["-c", 'exec "$0" "$@" <&- >&- 2>&-', BINARY, *arguments], executable="/bin/sh")
            whole = pathlib.Path(folder) / "whole.npy"
            run("model", "logits", MODEL, "--tokens", "5,6", "--out", whole)
            self.assertEqual(out.read_bytes(), whole.read_bytes())

    def test_a_file_at_its_limit_is_a_failure_with_a_sentence(self):
        with tempfile.NamedTemporaryFile() as file:
            done = start(["run", "The king", *SHORT, "--json"], stdout=file, stderr=subprocess.PIPE,
                         text=True,
                         preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (100, 100)))
            self.assertEqual(done.returncode, 1, done.stderr)
            self.assertIn("File too large", done.stderr)

    def test_generation_ends_soon_after_its_reader(self):
        process = subprocess.Popen([BINARY, "run", "The king", "--max-tokens", "2000",
                                    "--ignore-eos"], stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        process.stdout.read(10)
        process.stdout.close()
        with process.stderr:
            errors = process.stderr.read().decode()
        self.assertEqual(process.wait(timeout=60), 141)
        generated = int(errors.split(" tokens")[0].split()[-1])
        self.assertLess(generated, 2000)

    def test_a_closed_standard_input_is_a_sentence(self):
        done = start(["-c", 'exec "$0" tokenize <&-', BINARY], executable="/bin/sh",
                     capture_output=True, text=True)
        self.assertEqual(done.returncode, 1)
        self.assertIn("cannot read standard input", done.stderr)


class StandardInput(unittest.TestCase):
    def endless(self, *arguments):
        with open("/dev/zero", "rb") as zeros:
            return subprocess.run([BINARY, *arguments], stdin=zeros, capture_output=True, text=True,
                                  timeout=120, check=False)

    def test_input_without_end_is_refused(self):
        for arguments in (["tokenize"], ["detokenize"], ["run", "-"], ["watermark", "detect"]):
            with self.subTest(command=arguments[0]):
                done = self.endless(*arguments)
                self.assertEqual(done.returncode, 1)
                self.assertIn("standard input has more than 64MiB", done.stderr)

    def test_the_limit_can_be_set(self):
        done = self.endless("tokenize", "--input-limit", "1KiB")
        self.assertIn("more than 1KiB", done.stderr)
        self.assertIn("raise --input-limit", done.stderr)
        self.assertEqual(run("tokenize", "--input-limit", "8B", stdin="The king").returncode, 0)
        for wrong in ("much", "0", "-1B"):
            done = run("tokenize", "--input-limit=" + wrong, stdin="x")
            self.assertEqual(done.returncode, 2)
            self.assertIn("is no size", done.stderr)

    def test_a_line_of_prompts_without_end_is_refused(self):
        with tempfile.NamedTemporaryFile("w", suffix=".jsonl") as file:
            file.write('{"prompt": "' + "x" * (17 << 20) + '"}\n')
            file.flush()
            done = run("run", "--file", file.name)
            self.assertEqual(done.returncode, 1)
            self.assertIn(":1: the line has", done.stderr)


class Files(unittest.TestCase):
    def setUp(self):
        scratch = tempfile.TemporaryDirectory()
        self.addCleanup(scratch.cleanup)
        self.folder = pathlib.Path(scratch.name)

    def names(self):
        return sorted(path.name for path in self.folder.iterdir())

    def test_nothing_is_left_of_a_file_that_became_too_large(self):
        writers = [["model", "logits", MODEL, "--tokens", "5,6", "--out", self.folder / "a.npy"],
                   ["model", "convert", MODEL, self.folder / "a.gguf"],
                   ["model", "convert", MODEL, self.folder / "folder"],
                   ["model", "synth", "--shape", "stories-260k", "--out", self.folder / "synth"]]
        for arguments in writers:
            with self.subTest(arguments=arguments[:2]):
                done = start(arguments, capture_output=True, text=True, preexec_fn=lambda:
                             resource.setrlimit(resource.RLIMIT_FSIZE, (10000, 10000)))
                self.assertEqual(done.returncode, 1, done.stderr)
                self.assertIn("File too large", done.stderr)
                self.assertEqual(self.names(), [])

    def test_a_full_disk_is_told_and_leaves_the_old_file_alone(self):
        done = run("model", "logits", MODEL, "--tokens", "5", "--out", "/dev/full")
        self.assertEqual(done.returncode, 1)
        self.assertIn("No space left", done.stderr)

    def test_what_a_command_reads_is_not_written_over(self):
        given = self.folder / "given.jsonl"
        for arguments in (["run", "--file", given, *SHORT, "--trace"],
                          ["embed", "--file", given, "--output"],
                          ["model", "logits", MODEL, "--text-file", given, "--out"],
                          ["workload", "trace", given, "--out"]):
            given.write_text('{"prompt": "a king"}\n')
            for name in (given, self.folder / "." / "given.jsonl"):
                with self.subTest(arguments=arguments[:2], name=name):
                    done = run(*arguments, name)
                    self.assertEqual(done.returncode, 1)
                    self.assertIn("is a file that the command reads", done.stderr)
                    self.assertEqual(given.read_text(), '{"prompt": "a king"}\n')

    def test_a_file_that_cannot_be_written_is_told_before_the_work(self):
        for arguments in (["run", "a king", "--max-tokens", "2000", "--trace"],
                          ["calibrate", "--out"], ["calibrate", "--picture"],
                          ["plugins", "check", "nothing.so", "--junit"]):
            with self.subTest(arguments=arguments[:2]):
                done = run(*arguments, "/nowhere/file", cwd=self.folder)
                self.assertEqual(done.returncode, 1)
                self.assertIn("cannot create '/nowhere/file'", done.stderr)
                self.assertEqual(done.stdout, "")

    def test_of_two_that_write_one_file_one_is_refused(self):
        out = self.folder / "tale.gguf"
        both = [subprocess.Popen([BINARY, "model", "convert", str(MODEL), str(out), "--type", name],
                                 stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
                for name in ("f32", "q8_0")]
        answers = [process.communicate(timeout=300) for process in both]
        self.assertEqual(sorted(process.returncode for process in both), [0, 1])
        refused = answers[0 if both[0].returncode else 1]
        self.assertIn("is already there", refused[1])
        self.assertEqual(self.names(), ["tale.gguf"])
        info = run("model", "info", out).stdout
        self.assertIn("f32" if both[0].returncode == 0 else "q8_0", info)

    def test_a_path_need_not_be_utf_8(self):
        odd = os.fsencode(self.folder) + b"/\xff\xfe"
        os.mkdir(odd)
        model, npy, gguf = odd + b"/m\xe9", odd + b"/l\xe9.npy", odd + b"/g\xe9.gguf"
        os.symlink(MODEL, model)
        prompts, workload, pipeline = odd + b"/p\xe9.txt", odd + b"/w\xe9.toml", odd + b"/c\xe9.toml"
        with open(prompts, "w") as file:
            file.write("The king\n")
        with open(workload, "w") as file:
            file.write('format = 1\n[[request]]\nprompt = "The king"\nmax_tokens = 2\n')
        with open(pipeline, "w") as file:
            file.write(f'format = 1\nextends = "{SOURCE}/configs/pipelines/default.toml"\n')
        for arguments in (
                [b"run", b"x", b"--model", model, b"--max-tokens", b"2", b"--json"],
                [b"run", b"--file", prompts, b"--max-tokens", b"2"],
                [b"run", b"--workload", workload, b"--json"],
                [b"run", b"x", b"--config", pipeline, b"--max-tokens", b"2", b"--json"],
                [b"config", b"explain", pipeline],
                [b"model", b"info", model, b"--json"],
                [b"model", b"logits", model, b"--tokens", b"5", b"--out", npy],
                [b"model", b"convert", model, gguf],
                [b"run", b"x", b"--model", gguf, b"--max-tokens", b"2", b"--json"],
                [b"tokenize", b"x", b"--model", model],
                [b"plugins", b"list", b"--plugin-path", odd]):
            with self.subTest(arguments=arguments[:3]):
                done = subprocess.run([os.fsencode(BINARY), *arguments], capture_output=True,
                                      stdin=subprocess.DEVNULL, timeout=300, check=False)
                self.assertEqual(done.returncode, 0, done.stderr)
                done.stdout.decode()  # what is printed is UTF-8
        self.assertTrue(os.path.exists(npy) and os.path.exists(gguf))

    def test_a_missing_path_that_is_no_utf_8_is_named_escaped(self):
        done = subprocess.run([os.fsencode(BINARY), b"run", b"--file", b"/no/\xff"],
                              capture_output=True, timeout=60, check=False)
        self.assertEqual(done.returncode, 1)
        self.assertIn("'/no/\\xFF'", done.stderr.decode())


if __name__ == "__main__":
    unittest.main(verbosity=2)
