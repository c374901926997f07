"""What the suites of `tenon compare` share: a short work, and comparisons in a folder of their own."""
import json
import pathlib
import subprocess
import tempfile
import time
import unittest

from program import BINARY, run

PLANTED = pathlib.Path(BINARY).parent.parent / "tests/planted"

WORK = """format = 1
[[request]]
count = 3
prompt_tokens = 12
max_tokens = 8
"""
# Few short pieces, on whatever machine.
BRIEF = {"--pairs": 6, "--noise-pairs": 2, "--unlike": 100, "--restart": 0}


class Case(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        self.out = self.folder / "out"
        self.work = self.folder / "work.toml"
        self.work.write_text(WORK)

    def compare(self, *arguments):
        brief = [word for name, value in BRIEF.items() if name not in arguments
                 for word in (name, value)]
        return run("compare", "--workload", self.work, "--out", self.out, "--quiet", *brief,
                   *arguments, cwd=self.folder)

    def pieces(self):
        path = self.out / "pieces.jsonl"
        return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []

    def started(self, *arguments, workload=None, arm="b:", begun=lambda self: len(self.pieces()) >= 6):
        """A comparison that would go on for long, as soon as it has begun: with some pieces measured."""
        process = subprocess.Popen(
            [BINARY, *map(str, ["compare", "--workload", workload or self.work, "--out", self.out,
                                "--noise-pairs", 0, "--pairs", 100000, "--margin", 0.0001,
                                "--unlike", 100, "--arm", arm, *arguments])],
            cwd=self.folder, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
            stderr=subprocess.PIPE, text=True)
        end = time.monotonic() + 240
        while not begun(self):
            self.assertLess(time.monotonic(), end)
            if process.poll() is not None:
                self.fail(process.stderr.read())
            time.sleep(0.01)
        return process
