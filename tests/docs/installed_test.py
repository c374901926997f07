#!/usr/bin/env python3
"""The documents that are installed are true where they lie: in a prefix that was moved, every link leads
somewhere, every path of a configuration exists, and the program has every command and option.

  TENON_BUILD_DIR=build/dev python3 tests/docs/installed_test.py"""

import functools
import os
import pathlib
import re
import shlex
import subprocess
import tempfile
import tomllib
import unittest

BUILD = pathlib.Path(os.environ["TENON_BUILD_DIR"]).resolve()
# Options of other programs that stand in a line of ours.
OTHERS = {("man", "-l"), ("plugins build", "-g"), ("plugins build", "-O0")}
PROGRAM = re.compile(r'(?:^|&& |\| |\$ )(?:\$tenon|(?:build/\w+/bin/)?tenon) (.*)')
FENCE = re.compile(r"^```(\w*)\n(.*?)^```", re.S | re.M)


def install(prefix):
    """Somewhere, and then somewhere else, with a space in the path."""
    first = prefix.parent / "elsewhere"
    done = subprocess.run(["cmake", "--install", BUILD, "--prefix", first], capture_output=True, text=True,
                          check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    first.rename(prefix)


class Program:
    """What --help of a command lists."""

    def __init__(self, path):
        self.path = path

    @functools.cache
    def help_of(self, words):
        return subprocess.run([self.path, *words, "--help"], capture_output=True, text=True, check=True).stdout

    @functools.cache
    def commands(self, words):
        part = re.split(r"^Subcommands:\n", self.help_of(words), flags=re.M)
        return re.findall(r"^  (\S+)", part[1], re.M) if len(part) > 1 else []

    @functools.cache
    def options(self, words):
        lines = re.findall(r"^  (-\S+)", self.help_of(words), re.M)
        return {re.sub(r"\{.*", "", name) for line in lines for name in line.split(",")}

    def complaint(self, line):
        """Of what comes after "tenon "; None = it is not checked, empty = nothing."""
        line = re.split(r" [|>&]|;| #", line)[0]
        try:
            words = shlex.split(line)
        except ValueError:
            return None  # prose with an apostrophe
        command = ()
        while words and words[0] in self.commands(command):
            command += (words.pop(0),)
        if not command and words and not words[0].startswith(("-", "<")):
            return f"no command {words[0]}"
        for word in words:
            option = word.split("=")[0]
            if not re.match(r"-[-A-Za-z]", option) or (" ".join(command), option) in OTHERS:
                continue
            if option not in self.options(command):
                return f"{' '.join(command)} has no {option}"
        return ""


def lines_of(text):
    """Those of blocks for a shell, and code in sentences."""
    for language, block in FENCE.findall(text):
        if language in ("", "sh", "bash", "console"):
            yield from block.replace("\\\n", " ").splitlines()
    yield from re.findall(r"`([^`\n]+)`", FENCE.sub("", text))


class Installed(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        held = tempfile.TemporaryDirectory()
        cls.addClassCleanup(held.cleanup)
        cls.prefix = pathlib.Path(held.name) / "moved here"
        install(cls.prefix)
        cls.documents = next(cls.prefix.rglob("doc/tenon"))
        cls.pages = {path.relative_to(cls.prefix): path.read_text() for path in cls.prefix.rglob("*.md")}
        cls.program = Program(cls.prefix / "bin/tenon")

    def test_there_are_pages(self):
        self.assertGreater(len(self.pages), 100)

    def test_every_link_leads_somewhere(self):
        dead = []
        for name, text in self.pages.items():
            for link in re.findall(r"\]\(([^)\s]+)\)", FENCE.sub("", text)):
                if re.match(r"[a-z]+:|#", link):
                    continue
                if not (self.prefix / name.parent / link.split("#")[0]).exists():
                    dead.append(f"{name}: {link}")
        self.assertEqual(dead, [])

    def test_every_configuration_that_is_named_exists(self):
        missing, found = [], 0
        for name, text in self.pages.items():
            for path in set(re.findall(r"(?<![\w./-])configs/[\w./-]*\w", text)):
                found += 1
                if not (self.documents / path).exists():
                    missing.append(f"{name}: {path}")
        self.assertGreater(found, 20)
        self.assertEqual(missing, [])

    def test_every_configuration_finds_what_it_names(self):
        for path in (self.documents / "configs").rglob("*.toml"):
            model = tomllib.loads(path.read_text()).get("model", {})
            if isinstance(model, dict) and "path" in model:
                with self.subTest(file=path.name):
                    self.assertTrue((path.parent.resolve() / model["path"]).exists(), model["path"])

    def test_the_program_has_every_command_and_option(self):
        wrong, checked = [], 0
        for name, text in self.pages.items():
            for line in lines_of(text):
                match = PROGRAM.search(line.strip())
                said = self.program.complaint(match[1]) if match else None
                checked += said is not None
                if said:
                    wrong.append(f"{name}: {line.strip()[:90]} – {said}")
        self.assertGreater(checked, 250)
        self.assertEqual(wrong, [])

    def test_no_page_names_the_folder_that_it_was_built_in(self):
        for name, text in self.pages.items():
            self.assertNotIn(str(BUILD), text, name)


if __name__ == "__main__":
    unittest.main()
