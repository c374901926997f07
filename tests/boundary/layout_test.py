#!/usr/bin/env python3
"""What tools/generate_layout.py reads out of headers, and what it refuses to pass over."""

import pathlib
import re
import subprocess
import sys
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
HEADERS = ROOT / "core/include/tenon"


def generate(headers):
    with tempfile.TemporaryDirectory() as folder:
        out = pathlib.Path(folder) / "layout_generated.h"
        made = subprocess.run(
            [sys.executable, ROOT / "tools/generate_layout.py", headers, out],
            capture_output=True,
            text=True,
            check=False,
        )
        return made.stderr + (out.read_text() if out.exists() else "")


def of_header(text):
    with tempfile.TemporaryDirectory() as folder:
        (pathlib.Path(folder) / "sample.h").write_text(text)
        return generate(folder)


class Layout(unittest.TestCase):
    def test_every_kind_of_member_is_listed(self):
        made = of_header(
            """
struct Sample {
  uint32_t plain = 0, second = 1;   // { in a comment
  const std::map<int, int>* pointer = nullptr;
  char text[8] = {'a', 'b'};
  [[maybe_unused]] Space space = {};
  Status (*call)(void* context, int number) noexcept = nullptr;
  static constexpr int kNone = 0;
  constexpr int method() const noexcept { return plain; }
  friend constexpr bool operator==(Sample, Sample) = default;
  std::span<const int> last;
};
"""
        )
        self.assertEqual(
            re.findall(r"offsetof\(Sample, (\w+)\)", made),
            ["plain", "second", "pointer", "text", "space", "call", "last"],
        )

    def test_a_nested_struct_is_refused(self):
        made = of_header("struct Outer {\n  struct Inner { int x; } inner;\n};\n")
        self.assertIn("nested structs are not read", made)

    def test_no_struct_of_the_boundary_is_left_out(self):
        made = generate(HEADERS)
        for header in HEADERS.glob("*.h"):
            if header.name == "plugin.h":
                continue
            for name in re.findall(r"^struct (\w+) \{", header.read_text(), flags=re.M):
                self.assertIn(f"sizeof({name}), alignof({name}),\n    __builtin_offsetof", made)


class Hash(unittest.TestCase):
    """The boundary's name, which a plugin must have been built with."""

    def of(self, text):
        with tempfile.TemporaryDirectory() as folder:
            header, script = pathlib.Path(folder) / "sample.h", pathlib.Path(folder) / "hash.cmake"
            header.write_text(text)
            script.write_text(
                f"include({ROOT}/core/include/boundary_hash.cmake)\n"
                f"tenon_boundary_hash(hash {header})\nmessage(${{hash}})\n"
            )
            made = subprocess.run(["cmake", "-P", script], capture_output=True, text=True, check=True)
        self.assertRegex(made.stderr, r"^[0-9a-f]{16}\n$")
        return made.stderr

    def test_a_comment_refuses_no_plugin(self):
        for header in ["scheduler.h", "drafter.h", "types.h"]:
            text = (HEADERS / header).read_text()
            told = re.sub(r"//[^\n]*", "// Other words; with [signs] and \"quotes\".", text)
            more = text.replace("\n\n", "\n// A line more.\n\n\n").rstrip("\n") + "  // the end\n"
            self.assertNotEqual(told, text)
            self.assertEqual({self.of(told), self.of(more)}, {self.of(text)}, header)

    def test_a_declaration_does(self):
        text = (HEADERS / "scheduler.h").read_text()
        self.assertNotEqual(self.of(text.replace("drafts = 0;", "drafts = 1;", 1)), self.of(text))


if __name__ == "__main__":
    unittest.main()
