"""Models by name: brought by `tenon.pull`, and found by `LLM`."""

import os
import pathlib
import sys
import tempfile
import unittest
from unittest import mock

import tenon
from tenon import LLM, SamplingParams
from tenon.opening import PREFIX

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "cli"))
from stand_in_hub import COMMIT, Hub  # noqa: E402

FILES = {path.name: path.read_bytes() for path in (PREFIX / "share/tenon/configs/models/tale").iterdir()}
GREEDY = SamplingParams(temperature=0, max_tokens=12)


class Names(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.hub = Hub({"ours/tale": FILES})
        self.addCleanup(self.hub.close)
        variables = mock.patch.dict(os.environ, {"HF_HOME": folder.name, "HF_ENDPOINT": self.hub.url})
        variables.start()
        self.addCleanup(variables.stop)
        self.snapshot = f"{folder.name}/hub/models--ours--tale/snapshots/{COMMIT}"

    def test_a_model_that_was_pulled_is_opened_by_its_name(self):
        with self.assertRaisesRegex(tenon.NotFoundError, "'tenon model pull ours/tale' brings it"):
            LLM("ours/tale")
        self.assertEqual(tenon.pull("ours/tale"), self.snapshot)
        with LLM("ours/tale") as named, LLM() as bundled:
            texts = [llm.generate("Once", GREEDY, use_tqdm=False)[0].outputs[0].text for llm in (named, bundled)]
        self.assertEqual(texts[0], texts[1])

    def test_files_and_revisions_are_named(self):
        self.assertEqual(tenon.pull("ours/tale", revision="v1", files="*.jinja"), self.snapshot)
        self.assertEqual(os.listdir(self.snapshot), ["chat_template.jinja"])

    def test_what_cannot_be_brought_is_an_error_with_the_programs_sentence(self):
        with self.assertRaisesRegex(tenon.FailedError, "^there is no model 'ours/none' at http"):
            tenon.pull("ours/none")
        with self.assertRaisesRegex(tenon.InvalidArgumentError, "names a revision, and so does revision='v2'"):
            tenon.pull("ours/tale@v1", revision="v2")


if __name__ == "__main__":
    unittest.main()
