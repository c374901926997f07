"""What holds for every KV manager that evicts tokens: a test module names the manager in `Evicting`
and gets these cases beside its own."""
from combinations import AXES, Grid, covering
from program import GOLDEN_MODELS, SANITIZED, SOURCE, run, run_json, settings

GOLDEN = SOURCE / "tests/golden/streaming"
MODELS = GOLDEN_MODELS


def kept_by(manager, block_tokens=4, **options):
    """Returns a function that makes the settings of this manager and whatever else is asked for."""
    chosen = {f"kv_cache__options__{key}": value for key, value in options.items()}
    chosen.update(kv_cache__plugin=manager, kv_cache__block_tokens=block_tokens)
    return lambda **values: settings(**{**chosen, **values})


def answer(*flags):
    """A pipeline's numerics id and its answer's digest."""
    report = run_json("Once upon a time", "--max-tokens", 60, "--ignore-eos", *flags)
    return report["pipeline"]["numerics"], report["requests"][0]["digest"]


class EvictingAnswers:
    """MANAGER = its name; IN_GRID = what its numerics ids end with in the grid of combinations;
    ALONE, ROOMY = settings that evict, and that keep all 119 tokens; SEES = what ids say of ALONE."""

    def check(self, plan_ahead=False):
        axes = {**AXES, "kv_cache": [self.MANAGER], "drafter": ["none", "ngram", "suffix"]}
        grid = Grid(axes, covering(axes), plan_ahead=plan_ahead, plain=self.MANAGER)
        grid.run(2)
        self.assertEqual([], [f"{words}: {result}" for words, result in grid.results.items()
                              if isinstance(result, str)])
        ids = {numerics for numerics, _ in grid.answers.values()}
        self.assertEqual(len(ids), len(axes["dtype"]))
        for numerics in ids:
            self.assertTrue(numerics.endswith("," + self.IN_GRID), numerics)
        return {name: sum(result[name] for result in grid.results.values())
                for name in ["preemptions", "swaps", "copies", "drafted", "accepted"]}

    def test_are_the_same_for_every_pair_of_strategies(self):
        counters = self.check()
        self.assertTrue(all(counters.values()), counters)

    def test_are_the_same_when_steps_are_planned_ahead(self):
        if SANITIZED:
            self.skipTest("slow")
        self.check(plan_ahead=True)

    def test_are_those_of_paged_while_nothing_is_evicted(self):
        paged = answer(*settings(kv_cache__plugin="paged", kv_cache__block_tokens=4))
        self.assertEqual(answer(*self.ROOMY), paged)
        numerics, digest = answer(*self.ALONE)
        self.assertEqual(numerics, f"{paged[0]},{self.SEES}")
        self.assertNotEqual(digest, paged[1])


class EvictingRefusals:
    """MANAGER = its name; WITH = a function from values to its settings."""

    def refused(self, **values):
        done = run("config", "check", *self.WITH(**values))
        self.assertEqual(done.returncode, 1, done.stdout)
        return done.stderr

    def test_a_second_model_cannot_catch_up(self):
        error = self.refused(drafter__plugin="draft_model",
                             drafter__model=SOURCE / "configs/models/tale-draft")
        self.assertIn("draft.needs", error)
        self.assertIn(f'kv_cache "{self.MANAGER}"', error)

    def test_a_model_of_windows_alone_has_nothing_to_evict(self):
        error = self.refused(model__path=MODELS / "mistral_window")
        self.assertIn(f"kv_cache '{self.MANAGER}' has nothing to evict", error)
