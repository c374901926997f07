"""The notebooks of docs/notebooks: every code cell runs, in a process of its own for each notebook."""

import json
import os
import pathlib
import subprocess
import sys
import tempfile
import unittest

import tenon
from tenon import plugins

NOTEBOOKS = sorted((pathlib.Path(__file__).resolve().parents[3] / "docs/notebooks").glob("*.ipynb"))

# As IPython runs cells: each has a name under which its source is known, and shows its last value.
RUNNER = r"""
import ast, json, linecache, sys
names = sys.modules["__main__"].__dict__
names.pop("__file__")  # as in a notebook
for number, cell in enumerate(json.load(open(sys.argv[1]))["cells"]):
    if cell["cell_type"] != "code":
        continue
    source, name = "".join(cell["source"]), f"<cell {number}>"
    linecache.cache[name] = (len(source), None, source.splitlines(keepends=True), name)
    tree = ast.parse(source, name)
    last = tree.body.pop() if isinstance(tree.body[-1], ast.Expr) else None
    exec(compile(tree, name, "exec"), names)
    if last is not None:
        value = eval(compile(ast.Expression(last.value), name, "eval"), names)
        print(repr(value) if value is not None else "", flush=True)
"""


class Notebooks(unittest.TestCase):
    def test_there_are_some(self):
        self.assertEqual(len(NOTEBOOKS), 5)

    def test_they_are_clean(self):
        for path in NOTEBOOKS:
            with self.subTest(notebook=path.name):
                notebook = json.loads(path.read_text())
                self.assertEqual((notebook["nbformat"], notebook["nbformat_minor"]), (4, 5))
                for cell in notebook["cells"]:
                    self.assertEqual(cell.get("outputs", []), [])
                    self.assertIsNone(cell.get("execution_count"))
                ids = [cell["id"] for cell in notebook["cells"]]
                self.assertEqual(len(ids), len(set(ids)))

    def run_all_cells(self, path):
        environment = dict(os.environ, PYTHONPATH=str(pathlib.Path(tenon.__file__).parents[1]))
        with tempfile.TemporaryDirectory() as folder:
            runner = pathlib.Path(folder) / "runner.py"
            runner.write_text(RUNNER)
            return subprocess.run([sys.executable, str(runner), str(path)], capture_output=True, text=True, cwd=folder,
                                  env=environment, timeout=600, check=False)

    def test_every_cell_runs(self):
        for path in NOTEBOOKS:
            with self.subTest(notebook=path.name):
                if path.name.startswith("4-") and not os.path.exists(plugins._libpython()):
                    self.skipTest("tenon compare needs libpython for a class in Python, and there is none here")
                done = self.run_all_cells(path)
                self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
                self.assertNotEqual(done.stdout.strip(), "")


if __name__ == "__main__":
    unittest.main()
