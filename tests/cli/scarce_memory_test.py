"""Beams, several samples and plain requests in hardly any memory: all of them end, under every
scheduler and KV manager, with the answers that they get in plenty of it."""
import itertools
import pathlib
import unittest

from program import SANITIZED, run_json, settings
from recorded_answers import answers_of

WORKLOAD = pathlib.Path(__file__).parent / "scarce_memory.toml"
SCHEDULERS = ["static", "continuous", "chunked", "fair"]
KV_MANAGERS = ["naive", "paged", "prefix", "radix"]
CONTEXT = 256
BYTES_PER_TOKEN = 3840
TOKENS = 512  # the longest search may need 452


def answers(**values):
    return answers_of(run_json("--workload", WORKLOAD, "--quiet", "--threads", 1, *settings(
        limits__context_tokens=CONTEXT, **values), timeout=120))


class ScarceMemory(unittest.TestCase):
    def test_everything_ends_with_the_answers_of_plenty(self):
        expected = answers(scheduler__plugin="static", kv_cache__plugin="paged")
        cells = list(itertools.product(SCHEDULERS, KV_MANAGERS))
        for number, (scheduler, kv_cache) in enumerate(cells[::3] if SANITIZED else cells):
            with self.subTest(scheduler=scheduler, kv_cache=kv_cache):
                # Whole regions: one for each beam.
                tokens = 4 * CONTEXT if kv_cache == "naive" else TOKENS
                found = answers(scheduler__plugin=scheduler, kv_cache__plugin=kv_cache,
                                kv_cache__memory=tokens * BYTES_PER_TOKEN,
                                engine__plan_ahead=number % 2)
                self.assertEqual(found, expected)


if __name__ == "__main__":
    unittest.main()
