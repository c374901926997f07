"""Every field of the packages that are installed here stands in docs/formats/request-fields.md (which a unit test
holds to the table in core/server/api). Where a package is absent, tests/support/client_fields.txt speaks for it."""
import os
import re
import sys
import unittest

from program import SOURCE

sys.path.insert(0, str(SOURCE / "tests/support"))
import client_fields  # noqa: E402

# Folders with unpacked wheels, next to where Python looks.
FOLDERS = [folder for folder in os.environ.get("TENON_CLIENT_PACKAGES", "").split(":") if folder]


def rows(page):
    """{name: bodies} of a page's table."""
    found = {}
    for name, bodies in re.findall(r"^\| `(\w+)` \| ([^|]*) \|", (SOURCE / "docs/formats" / page).read_text(), re.M):
        found.setdefault(name, set()).update(bodies.split(", "))
    return found


class ClientFields(unittest.TestCase):
    def check(self, package):
        folder = client_fields.folder_of(package, FOLDERS)
        if folder is None:
            self.skipTest(f"the package {package} is not here (pip install {package}, or TENON_CLIENT_PACKAGES)")
        known, parameters = rows("request-fields.md"), set(rows("generation.md"))
        for body, name in sorted(client_fields.fields_of(package, folder)):
            is_parameter = body in ("completions", "chat", "responses", "messages") and name in parameters
            self.assertTrue(body in known.get(name, ()) or is_parameter, f"{body}: {name}")

    def test_openai(self):
        self.check("openai")

    def test_anthropic(self):
        self.check("anthropic")

    def test_vllm(self):
        self.check("vllm")

    def test_sglang(self):
        self.check("sglang")


if __name__ == "__main__":
    unittest.main()
