"""What tools/quickstart builds before the whole program."""
import json
import pathlib
import subprocess
import unittest

from program import BINARY, run

FIRST_WORD = pathlib.Path(BINARY).with_name("tenon-first-word")
WORDS = ("run", "The old witch", "--max-tokens", "24", "--json")


class FirstWord(unittest.TestCase):
    def test_it_writes_the_tokens_that_the_whole_program_writes(self):
        first = subprocess.run([FIRST_WORD, *WORDS], capture_output=True, text=True, check=True)
        tokens = [json.loads(output)["requests"][0]["tokens"] for output in (first.stdout, run(*WORDS).stdout)]
        self.assertEqual(len(tokens[0]), 24)
        self.assertEqual(tokens[0], tokens[1])

    def test_a_command_that_comes_later_is_named_as_unknown(self):
        done = subprocess.run([FIRST_WORD, "serve"], capture_output=True, text=True, check=False)
        self.assertEqual(done.returncode, 2)
        self.assertIn("'serve' is no command of 'tenon'", done.stderr)


if __name__ == "__main__":
    unittest.main()
