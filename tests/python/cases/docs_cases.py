"""What docs/python.md and the package's README show runs as it is shown."""

import ast
import asyncio
import importlib.util
import inspect
import os
import pathlib
import re
import tempfile
import unittest

import tenon
from offline_cases import write_adapter
from tenon import LLM
from tenon.opening import PREFIX

ROOT = pathlib.Path(__file__).resolve().parents[3]
PAGES = ("docs/python.md", "sdk/python/README.md")
# Comparisons take as long as they may.
LESS = (('"workload.toml"', '["Once", "The king"]'), ('budget="2m"', 'budget="90s", pairs=4, noise_pairs=0, max_tokens=4, unlike=100'))
TALE = PREFIX / "share/tenon/configs/models/tale"


def blocks(page):
    return re.findall(r"^```python\n(.*?)^```", (ROOT / page).read_text(), re.M | re.S)


def run(text, names):
    """Also of code that awaits."""
    done = eval(compile(text, "<page>", "exec", flags=ast.PyCF_ALLOW_TOP_LEVEL_AWAIT), names)
    if inspect.iscoroutine(done):
        asyncio.run(done)


class Docs(unittest.TestCase):
    def test_every_example_runs(self):
        before = os.getcwd()
        self.addCleanup(os.chdir, before)
        for page in PAGES:
            texts = blocks(page)
            self.assertTrue(texts, page)
            for number, text in enumerate(texts):
                with self.subTest(page=page, block=number), tempfile.TemporaryDirectory() as folder:
                    os.chdir(folder)
                    self.addCleanup(os.chdir, before)
                    os.makedirs("models")
                    for name in ("models/Qwen3-0.6B", "model"):
                        os.symlink(TALE, name)
                    os.makedirs("adapters")
                    write_adapter("adapters/poems", 1)
                    names = {name: getattr(tenon, name) for name in tenon.__all__} | {"tenon": tenon}
                    if importlib.util.find_spec("pandas") is None:
                        text = re.sub(".*to_pandas.*\n", "", text)
                    if "async for" in text:
                        names["llm"] = tenon.AsyncLLM()
                    try:
                        run(text.replace(*LESS[0]).replace(*LESS[1]), names)
                    finally:
                        for value in names.values():
                            if isinstance(value, (LLM, tenon.AsyncLLM)):
                                value.close()
                        os.chdir(before)


if __name__ == "__main__":
    unittest.main()
