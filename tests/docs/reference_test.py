#!/usr/bin/env python3
"""The reference made of the headers is whole, and its maker notices what is missing in it."""

import pathlib
import shutil
import subprocess
import sys
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
MAKER = ROOT / "tools/reference/make.py"
NEEDED = ["CMakeLists.txt", "core/include", "core/conformance", "sdk", "docs"]
NEEDED += ["README.md", "CHANGELOG.md", "CONTRIBUTING.md", "SECURITY.md", "core/README.md"]


def make(source, out):
    command = [sys.executable, MAKER, source, out]
    made = subprocess.run(command, capture_output=True, text=True, check=False)
    return made.returncode, made.stdout + made.stderr


class Reference(unittest.TestCase):
    def setUp(self):
        scratch = tempfile.TemporaryDirectory()
        self.addCleanup(scratch.cleanup)
        self.folder = pathlib.Path(scratch.name)

    def copy(self):
        """A tree to plant faults in."""
        source = self.folder / "source"
        for name in NEEDED:
            target = source / name
            target.parent.mkdir(parents=True, exist_ok=True)
            copied = shutil.copytree if (ROOT / name).is_dir() else shutil.copy
            copied(ROOT / name, target)
        return source

    def planted(self, file, old, new):
        """What is said when `old` is `new` in a file."""
        source = self.copy()
        path = source / file
        text = path.read_text()
        self.assertTrue(old in text, f"{file} does not say '{old}'")
        path.write_text(text.replace(old, new, 1))
        code, said = make(source, self.folder / "out")
        self.assertNotEqual(code, 0, said)
        return said

    def test_it_is_whole(self):
        code, said = make(ROOT, self.folder / "out")
        self.assertEqual(code, 0, said)
        page = (self.folder / "out/tenon/scheduler.html").read_text()
        for part in [
            "<code>scheduler/2</code>",
            'href="../docs/plugins/scheduler.html"',
            'href="../checks.html#scheduler.random_views"',
            'id="SequenceView.known_tokens"',
            'id="KvLedger.try_grow"',
            '<span class="held">to grant only sequences of the view',
        ]:
            self.assertIn(part, page)
        self.assertIn('id="scheduler.random_views"', (self.folder / "out/checks.html").read_text())
        self.assertTrue((self.folder / "out/tenon/sdk/plugin.html").exists())

    def test_a_struct_without_a_comment_is_named(self):
        said = self.planted(
            "core/include/tenon/state.h",
            "struct StateStorage {",
            "struct Silent {\n  uint32_t hushed = 0;\n};\n\nstruct StateStorage {",
        )
        self.assertIn("'Silent' has no comment", said)
        self.assertIn("'Silent.hushed' has no comment", said)

    def test_a_method_without_a_comment_is_named(self):
        said = self.planted(
            "core/include/tenon/scheduler.h",
            "  virtual Status on_event(",
            "  virtual Status hush() noexcept = 0;\n\n  virtual Status on_event(",
        )
        self.assertIn("'Scheduler.hush' has no comment", said)

    def test_a_note_for_what_is_gone_is_named(self):
        said = self.planted("core/include/tenon/state.h", "uint64_t slot_bytes", "uint64_t slot_size")
        self.assertIn("notes.txt: 'StateStorage.slot_bytes' explains nothing", said)

    def test_a_link_that_leads_nowhere_is_named(self):
        said = self.planted("docs/plugins/README.md", "(concepts.md)", "(conceits.md)")
        self.assertIn("'docs/plugins/conceits.md' is not there", said)

    def test_a_link_to_a_place_that_is_not_there_is_named(self):
        said = self.planted("docs/plugins/concepts.md", "futures.md#the-step", "futures.md#the-stop")
        self.assertIn("futures.html#the-stop': there is no such place", said)

    def test_a_promise_that_no_header_makes_is_named(self):
        said = self.planted("core/include/tenon/drafter.h", "is always legal", "is often legal")
        self.assertIn("drafter.room: <tenon/drafter.h> does not say", said)


if __name__ == "__main__":
    unittest.main()
