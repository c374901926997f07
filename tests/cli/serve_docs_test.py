"""The curl lines of docs/serving.md work, as they stand there."""
import re
import shutil
import subprocess
import unittest

from program import SOURCE
from server import PATIENCE, Server

LINES = [line for block in re.findall(r"```sh\n(.*?)```", (SOURCE / "docs/serving.md").read_text(), re.S)
         for line in block.splitlines() if line.startswith("curl ")]


@unittest.skipUnless(shutil.which("curl"), "there is no curl here")
class Docs(unittest.TestCase):
    def test_every_line_is_answered(self):
        self.assertGreater(len(LINES), 5)
        with Server() as server:
            for line in LINES:
                with self.subTest(line=line):
                    here = line.replace("http://127.0.0.1:8000", f"http://127.0.0.1:{server.port}")
                    self.assertNotEqual(here, line)
                    done = subprocess.run(["bash", "-c", here.replace("curl ", "curl --fail-with-body ", 1)],
                                          capture_output=True, text=True, timeout=PATIENCE, check=False)
                    self.assertEqual(done.returncode, 0, done.stdout)
                    self.assertFalse(done.stdout.startswith('{"error"'), done.stdout)


if __name__ == "__main__":
    unittest.main()
