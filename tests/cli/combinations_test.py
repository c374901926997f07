"""docs/combinations.md is what running every combination gives, and the answers are those recorded
in tests/golden/combinations.json."""
import re
import unittest

from combinations import AXES, DOCUMENT, ISAS, Grid, covering, workload
from program import SANITIZED
from recorded_answers import RecordedAnswers

WORKERS = 2


class Combinations(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.recorded = RecordedAnswers(workload())
        cls.axes = AXES
        if SANITIZED:  # too slow for all: the newest of each axis, two element types
            cls.axes = {**AXES, "scheduler": ["static", "chunked"], "drafter": ["none", "ngram"],
                        "dtype": ["bf16", "i4"]}
        cls.grid = Grid(cls.axes).run(WORKERS)

    def check_recorded(self, grid):
        if faults := self.recorded.faults(grid):
            self.fail("\n".join(faults))

    def test_every_pair_works_and_the_document_says_so(self):
        self.assertEqual(self.grid.faults(), [])
        if not SANITIZED:
            self.assertEqual(without_counts(self.grid.markdown()),
                             without_counts(DOCUMENT.read_text()),
                             "write it anew: tests/cli/combinations.py --write")

    def test_every_combination_answers_as_recorded(self):
        self.check_recorded(self.grid)

    def test_every_pair_answers_as_recorded_on_the_instruction_set_that_all_machines_have(self):
        grid = Grid(self.axes, covering(self.axes), isa="portable").run(WORKERS)
        self.check_recorded(grid)

    def test_every_pair_answers_as_recorded_when_steps_are_planned_ahead(self):
        self.check_recorded(Grid(self.axes, covering(self.axes), plan_ahead=True).run(WORKERS))

    def test_every_instruction_set_answers_as_recorded(self):
        for isa in ISAS[1:]:
            with self.subTest(isa=isa):
                self.check_recorded(Grid(self.axes, chosen=[], isa=isa).run(WORKERS))


def without_counts(text):
    """Another instruction set may round a close decision the other way, and count otherwise."""
    return re.sub(r"works: [^|\n]*", "works ", text)


if __name__ == "__main__":
    unittest.main()
