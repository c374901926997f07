"""`tenon chat`: turns from a pipe and from a terminal."""
import json
import os
import pathlib
import pty
import re
import select
import signal
import subprocess
import tempfile
import time
import unittest

from program import BINARY, MODEL, SANITIZED, SOURCE, run

# Short and always the same.
SHORT = ["--temperature", "0", "--max-tokens", "12"]
SECONDS = 300 if SANITIZED else 60


def chat(lines, *flags):
    return run("chat", *SHORT, *flags, stdin="".join(line + "\n" for line in lines))


class Pipes(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        self.saved = self.folder / "saved.json"

    def messages(self, lines, *flags):
        """The conversation as these lines leave it."""
        done = chat([*lines, f"/save {self.saved}"], *flags)
        self.assertEqual(done.returncode, 0, done.stderr)
        return json.loads(self.saved.read_text())

    def template(self, text):
        path = self.folder / "t.jinja"
        path.write_text(text)
        return ["--chat-template", path]

    def test_each_line_is_a_turn_and_only_answers_are_printed(self):
        done = chat(["Once upon a time", "", "The wolf"])
        self.assertEqual(done.returncode, 0, done.stderr)
        alone = run("run", "Once upon a time", "--no-echo", "--quiet", *SHORT).stdout
        self.assertTrue(done.stdout.startswith(alone), (done.stdout, alone))
        self.assertGreater(len(done.stdout), len(alone))

    def test_what_was_said_is_told_to_the_model_again(self):
        messages = self.messages(["/system Long ago.", "A fox", "A wolf"])
        self.assertEqual([message["role"] for message in messages],
                         ["system", "user", "assistant", "user", "assistant"])
        self.assertEqual(messages[0]["content"], "Long ago.")
        # A model that repeats its prompt shows that the whole conversation stands there.
        template = self.template("{% for m in messages %}{{ m.content }}|{% endfor %}")
        self.saved.unlink()
        messages = self.messages(["A fox", "A wolf"], *template)
        rendered = run("chat", "render", "--messages", self.saved, *template).stdout
        self.assertEqual(rendered, "".join(m["content"] + "|" for m in messages))

    def test_turns_before_are_found_in_the_cache(self):
        done = chat(["Once upon a time there was a king who had three sons and a golden bird in the "
                     "garden of his castle", "The wolf", "/stats"])
        cached = re.search(r"prompt (\d+) tokens, (\d+) of them cached; context (\d+) of 2048",
                           done.stderr)
        self.assertGreaterEqual(int(cached[2]), 16, done.stderr)
        self.assertLess(int(cached[2]), int(cached[1]))

    def test_a_turn_is_taken_back_and_answered_anew(self):
        once = self.messages(["A fox", "A wolf"])
        self.assertEqual(self.messages(["A fox", "A bear", "/undo", "A wolf"]), once)
        again = self.messages(["A fox", "/set temperature=1.5", "/regenerate"])
        self.assertEqual(len(again), 2)
        self.assertNotEqual(again[1], once[1])
        self.assertEqual(self.messages(["A fox", "/reset"]), [])

    def test_a_saved_conversation_goes_on(self):
        whole = self.messages(["A fox", "A wolf"])
        self.messages(["A fox"])
        first = self.folder / "first.json"
        self.saved.rename(first)
        self.assertEqual(self.messages([f"/load {first}", "A wolf"]), whole)
        self.assertEqual(self.messages(["A wolf"], "--load", first), whole)

    def test_parameters_are_set_by_their_names_and_taken_back(self):
        short = self.messages(["/set max_tokens=2", "A fox"])
        long = self.messages(["/set max_tokens=2", "/set max_tokens=", "A fox"])
        self.assertTrue(long[1]["content"].startswith(short[1]["content"]))
        self.assertGreater(len(long[1]["content"]), len(short[1]["content"]))
        stop = long[1]["content"][-3:]
        stopped = self.messages([f"/set stop={json.dumps([stop])}", "A fox"])
        self.assertNotIn(stop, stopped[1]["content"])

    def test_a_line_goes_on_behind_a_backslash_and_a_double_slash_is_a_slash(self):
        messages = self.messages(["A fox\\", "and a wolf", "//quit"])
        self.assertEqual(messages[0]["content"], "A fox\nand a wolf")
        self.assertEqual(messages[2]["content"], "/quit")

    def test_what_cannot_be_done_is_told_and_ends_a_script(self):
        for line, sentence in (
                ("/nosuch", "there is no command '/nosuch'"),
                ("/sytsem x", "did you mean 'system'?"),
                ("/set temprature=1", "did you mean 'temperature'?"),
                ("/set temperature=hot", "temperature is"),
                ("/set temperature", "has no '='"),
                ("/set samples=2", "has no place in a conversation"),
                ("/load /nowhere/at/all", "/nowhere/at/all"),
                ("/undo", "nothing to take back"),
                ("/regenerate", "there is no answer yet"),
                ("/tool 5", "no call waits for a result"),
                ("/reset now", "takes nothing")):
            with self.subTest(line=line):
                done = chat([line, "A fox"])
                self.assertEqual(done.returncode, 1)
                self.assertIn(sentence, done.stderr)
                self.assertEqual(done.stdout, "")

    def test_quit_ends_and_a_broken_file_is_no_conversation(self):
        self.assertEqual(chat(["/quit", "A fox"]).stdout, "")
        for text in ("{}", "[1]", '[{"content": "x"}]', "no"):
            self.saved.write_text(text)
            self.assertEqual(chat([f"/load {self.saved}"]).returncode, 1)

    def test_a_full_context_is_told_or_makes_room(self):
        words = " ".join(["word"] * 60)
        small = ["--set", "limits.context_tokens=128"]
        done = chat([words, words, words], *small)
        self.assertEqual(done.returncode, 1)
        self.assertIn("the context has room for 128", done.stderr)
        self.assertIn("--drop-oldest", done.stderr)
        done = chat([words, words, words], *small, "--drop-oldest")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("the oldest 2 messages are gone", done.stderr)

    def test_a_model_without_a_template_is_refused_with_what_to_do(self):
        bare = self.folder / "bare"
        bare.mkdir()
        for file in MODEL.iterdir():
            if file.name != "chat_template.jinja":
                (bare / file.name).symlink_to(file)
        done = chat(["A fox"], "--model", bare)
        self.assertEqual(done.returncode, 1)
        self.assertIn("has no chat template", done.stderr)
        self.assertIn("--chat-template FILE", done.stderr)
        self.assertIn("tenon run", done.stderr)
        done = chat(["A fox"], "--model", bare, *self.template("{{ messages[0].content }}"))
        self.assertEqual(done.returncode, 0, done.stderr)

    def test_an_unknown_format_of_answers_is_refused(self):
        done = chat(["A fox"], "--tool-format", "hermess")
        self.assertIn("did you mean 'hermes'?", done.stderr)
        self.assertEqual(chat(["A fox"], "--reasoning-format", "x").returncode, 1)

    def test_what_has_no_place_in_a_conversation_is_wrong_usage(self):
        for flags in (["--n", "2"], ["--logprobs", "1"], ["--config", "a.toml", "b.toml"]):
            self.assertEqual(run("chat", *flags, stdin="A fox\n").returncode, 2, flags)

    def test_reasoning_is_kept_and_not_printed(self):
        messages = self.messages(["A fox"], "--reasoning-format", "think",
                                 *self.template("{{ messages[0].content }}<think>"))
        self.assertIn("reasoning_content", messages[1])
        self.assertEqual(messages[1]["content"], "")

    def test_a_signal_ends_a_script_as_any_command(self):
        process = subprocess.Popen([BINARY, "chat", "--ignore-eos", "--max-tokens", "1900"],
                                   stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                   stderr=subprocess.PIPE)
        self.addCleanup(process.communicate)
        self.addCleanup(process.kill)
        process.stdin.write(b"A fox\n")
        process.stdin.flush()
        process.stdout.read(5)
        process.send_signal(signal.SIGINT)
        self.assertEqual(process.wait(SECONDS), 130)


class Masks(unittest.TestCase):
    def test_the_mask_tells_the_tokens_of_answers(self):
        with tempfile.TemporaryDirectory() as folder:
            file = pathlib.Path(folder) / "m.json"
            file.write_text(json.dumps([{"role": "user", "content": "The fox"},
                                        {"role": "assistant", "content": " was old."},
                                        {"role": "user", "content": "The wolf"}]))
            flags = ["chat", "render", "--messages", file, "--model", MODEL]
            report = json.loads(run(*flags, "--mask", "--json").stdout)
            begin, end = report["generations"][0]
            self.assertEqual(report["text"][begin:end], " was old.")
            marked = [i for i, m in zip(report["ids"], report["mask"]) if m]
            self.assertEqual(run("detokenize", *map(str, marked)).stdout.rstrip("\n"), " was old.")
            lines = run(*flags, "--mask").stdout.splitlines()
            self.assertEqual(lines[0].split(), [str(i) for i in report["ids"]])
            self.assertEqual(lines[1].split(), [str(m) for m in report["mask"]])
            template = pathlib.Path(folder) / "t.jinja"
            template.write_text("{{ messages[0].content }}")
            done = run(*flags, "--mask", "--chat-template", template)
            self.assertEqual(done.returncode, 1)
            self.assertIn("marks no answers", done.stderr)


class Terminal(unittest.TestCase):
    """A terminal without line editing: TERM=dumb."""

    def setUp(self):
        self.pid, self.terminal = pty.fork()
        if self.pid == 0:
            os.environ["TERM"] = "dumb"
            os.execv(BINARY, [BINARY, "chat", "--temperature", "0", "--ignore-eos"])
        self.addCleanup(os.close, self.terminal)
        self.shown = ""
        self.wait_for("> ")

    def tearDown(self):
        if self.pid:
            os.kill(self.pid, signal.SIGKILL)
            os.waitpid(self.pid, 0)

    def wait_for(self, text, more=0):
        """Until this is shown, and so many characters behind it. Ends with the test's own limit."""
        deadline = time.monotonic() + SECONDS
        while text not in self.shown or len(self.shown.split(text, 1)[1]) < more:
            self.assertLess(time.monotonic(), deadline, self.shown)
            if not select.select([self.terminal], [], [], 1)[0]:
                continue
            try:
                self.shown += os.read(self.terminal, 4096).decode(errors="replace")
            except OSError:
                self.fail(self.shown)
        self.shown = self.shown.split(text, 1)[1]

    def send(self, text):
        os.write(self.terminal, text.encode())

    def end(self):
        try:
            while os.read(self.terminal, 4096):
                pass
        except OSError:
            pass  # the other side is closed
        _, status = os.waitpid(self.pid, 0)
        self.pid = 0
        return os.waitstatus_to_exitcode(status)

    def test_an_interrupt_stops_the_answer_and_not_the_program(self):
        self.send("/set max_tokens=1900\n")
        self.wait_for("> ")
        self.send("A fox\n")
        self.wait_for("A fox", more=20)
        self.send("\x03")
        self.wait_for("(stopped)")
        self.wait_for("> ")
        self.send("/stats\n")
        self.wait_for("(cancelled)")
        self.wait_for("> ")
        self.send("/set max_tokens=3\n")
        self.wait_for("> ")
        self.send("A wolf\n")
        self.wait_for("cut off at max_tokens")
        self.wait_for("> ")
        self.send("/quit\n")
        self.assertEqual(self.end(), 0)

    def test_two_interrupts_at_the_prompt_end_it(self):
        self.send("\x03")
        self.wait_for("Ctrl-C again")
        self.wait_for("> ")
        self.send("\x03")
        self.assertEqual(self.end(), 0)

    def test_the_end_of_the_input_ends_it(self):
        self.send("\x04")
        self.assertEqual(self.end(), 0)

    def test_a_mistake_is_told_and_the_conversation_goes_on(self):
        self.send("/nosuch\n")
        self.wait_for("there is no command")
        self.wait_for("> ")
        self.send("/help\n")
        self.wait_for("/regenerate")


if __name__ == "__main__":
    unittest.main()
