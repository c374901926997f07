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


if __name__ == "__main__":
    unittest.main()
