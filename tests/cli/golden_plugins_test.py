"""Plugins that were built long ago: each runs, or is refused with the reason."""
import pathlib
import platform
import re
import shutil
import tempfile
import unittest

from program import GOLDEN_MODELS, SOURCE, run, run_json, settings

FOLDER = SOURCE / "tests/golden_plugins"
INTERFACES = ["scheduler", "kv_cache", "attention", "linear", "sampler", "drafter", "state"]
MODELS = GOLDEN_MODELS


def boundary():
    """Of this program, as its own plugins' stamps have it."""
    listed = run("plugins", "list", "sampler")
    path = pathlib.Path(listed.stdout.split()[-1])
    return re.search(rb"boundary=([0-9a-f]{16})", path.read_bytes())[1].decode()


@unittest.skipIf(platform.machine() != "x86_64", "the binaries are for x86-64")
class Golden(unittest.TestCase):
    def test_there_is_one_of_each_interface_for_this_boundary(self):
        self.assertTrue((FOLDER / boundary()).is_dir(),
                        "the boundary changed: tests/golden_plugins/README.md says what to do")
        self.assertEqual({path.name for path in (FOLDER / boundary()).iterdir()},
                         {f"libtenon-golden_{interface}.so" for interface in INTERFACES})

    def generate(self, *flags):
        return run_json("Once upon a time", "--max-tokens", 12, "--temperature", 0, *flags)

    def test_each_composes_a_pipeline_that_generates(self):
        usual = self.generate()
        folder = tempfile.mkdtemp()
        self.addCleanup(shutil.rmtree, folder)
        for interface in INTERFACES:
            flags = ["--plugin-path", FOLDER / boundary(),
                     "--set", f"{interface}.plugin=golden.{interface}"]
            with self.subTest(interface):
                if interface == "state":
                    done = run("model", "logits", MODELS / "mamba", "--tokens", "1,2,3", "--out",
                               pathlib.Path(folder) / "logits.npy", *flags)
                    self.assertEqual(done.returncode, 0, done.stderr)
                    continue
                output = self.generate(*flags)
                self.assertEqual(output["requests"][0]["finish"], "length")
                if interface in ("scheduler", "kv_cache", "drafter", "sampler"):
                    self.assertEqual(output["requests"][0]["tokens"],
                                     usual["requests"][0]["tokens"])

    def test_those_that_can_run_in_processes_of_their_own(self):
        usual = self.generate()
        chosen = {f"{interface}__plugin": f"golden.{interface}"
                  for interface in ("scheduler", "sampler", "drafter")}
        output = self.generate("--plugin-path", FOLDER / boundary(),
                               *settings(engine__guard="isolate", **chosen))
        self.assertEqual(output["requests"][0]["tokens"],
                         usual["requests"][0]["tokens"])

    def test_those_of_another_boundary_are_refused_with_the_reason(self):
        for folder in FOLDER.iterdir():
            if not folder.is_dir() or folder.name == boundary():
                continue
            done = run("run", "x", "--plugin-path", folder, "--set",
                       "scheduler.plugin=golden.scheduler")
            self.assertEqual(done.returncode, 1, folder.name)
            self.assertIn("boundary", done.stderr)
            self.assertIn("rebuild", done.stderr)


if __name__ == "__main__":
    unittest.main()
