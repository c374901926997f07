"""Runs every combination of scheduler, KV manager, drafter and KV element type on the bundled model
and says, for each pair, what happened: the table of docs/combinations.md.

    TENON_BINARY=build/dev/bin/tenon TENON_SOURCE_DIR=. tests/cli/combinations.py --write

Each combination answers the same requests, half of them greedy and half at temperature 0.8, with
memory so short that sequences are preempted. It *works* when every token and every digest of logits
is that of static + naive with the same element type and all the memory it wants. All answers must
also be those of earlier builds, recorded in tests/golden/combinations.json (recorded_answers.py).
"""

import argparse
import concurrent.futures
import itertools
import json
import os
import pathlib
import sys
import tempfile

from program import AARCH64, EMULATOR, SOURCE, run
from recorded_answers import RecordedAnswers, answers_of

AXES = {
    "scheduler": ["static", "continuous", "chunked", "fair"],
    "kv_cache": ["naive", "paged", "prefix", "radix"],
    "drafter": ["none", "ngram", "suffix", "draft_model"],
    "dtype": ["f32", "f16", "bf16", "i8", "i4"],
}
COUNTERS = ["preemptions", "swaps", "copies", "hits", "drafted", "accepted"]
# What must have happened in some run before a strategy counts as tested.
MUST_FIRE = {
    ("kv_cache", "naive"): ["copies"],
    ("kv_cache", "paged"): ["preemptions", "swaps", "copies"],
    ("kv_cache", "prefix"): ["preemptions", "swaps", "copies", "hits"],
    ("kv_cache", "radix"): ["preemptions", "swaps", "copies", "hits"],
    ("drafter", "ngram"): ["drafted", "accepted"],
    ("drafter", "suffix"): ["drafted", "accepted"],
    ("drafter", "draft_model"): ["drafted", "accepted"],
}
# Instruction sets that round differently. Each is the highest to use: where the processor has less,
# it stands for the best there is.
ISAS = ["portable", "neon", "neon_bf16"] if AARCH64 else ["portable", "avx2", "avx512", "avx512_bf16"]
CONTEXT = 192
MEMORY_TOKENS = 2 * CONTEXT
# What managers that evict keep: 48 tokens of a sequence, in blocks of 8.
EVICTING = {"streaming": {"sink_tokens": 4, "window_tokens": 24, "stride_tokens": 16},
            "heavy_hitters": {"sink_tokens": 4, "heavy_tokens": 12, "window_tokens": 16,
                              "stride_tokens": 16}}
EVICTING_TOKENS = 48
DOCUMENT = SOURCE / "docs/combinations.md"


def workload():
    """Prompts that share beginnings, repeat themselves, fork, and are too many for the memory."""
    story = ("Once upon a time there was a king who had three sons. The king loved his three sons, "
             "and the three sons loved the king. Once upon a time there was a")
    tale = "The fox said to the crow, come down. The crow said to the fox, no. The fox said to"
    lines = ["format = 1"]
    for number in range(4):
        text = story if number % 2 == 0 else tale
        for prompt, temperature in [(text, 0.0), (text + " the old", 0.8)]:
            lines += ["[[request]]", f"prompt = {json.dumps(prompt)}", f"seed = {number}",
                      f"max_tokens = {50 + 7 * number}", f"temperature = {temperature}",
                      f"samples = {3 if number == 1 else 1}"]
    return "\n".join(lines) + "\n"


def covering(axes=None):
    """Few combinations, but every two values of different axes meet in one of them."""
    every = list(itertools.product(*(axes or AXES).values()))
    pairs_in = {words: set(itertools.combinations(enumerate(words), 2)) for words in every}
    missing = set().union(*pairs_in.values())
    chosen = []
    while missing:
        chosen.append(max(every, key=lambda words: len(pairs_in[words] & missing)))
        missing -= pairs_in[chosen[-1]]
    return chosen


def flags_of(cell, file, bytes_per_token, threads):
    flags = ["--workload", file, "--json", "--quiet", "--threads", threads]
    if cell["isa"]:
        flags += ["--isa", cell["isa"]]
    if cell["plan_ahead"]:
        flags += ["--set", "engine.plan_ahead=1"]
    values = {"limits.context_tokens": CONTEXT, "kv_cache.dtype": cell["dtype"],
              "scheduler.plugin": cell["scheduler"], "kv_cache.plugin": cell["kv_cache"]}
    if cell["kv_cache"] != "naive":
        values["kv_cache.block_tokens"] = 8
    if cell.get("short"):
        # Whole regions: enough for a fork to find one free.
        tokens = MEMORY_TOKENS
        if cell["kv_cache"] == "naive":
            tokens = 6 * CONTEXT
        elif cell["kv_cache"] in EVICTING:
            tokens = 3 * EVICTING_TOKENS
        values["kv_cache.memory"] = tokens * bytes_per_token
        values["kv_cache.swap_memory"] = CONTEXT * bytes_per_token
        values["scheduler.options.preempt"] = "swap"
        values["limits.max_batch_tokens"] = 64
    for key, value in EVICTING.get(cell["kv_cache"], {}).items():
        values[f"kv_cache.options.{key}"] = value
    if cell["drafter"] != "none":
        values["drafter.plugin"] = cell["drafter"]
    if cell["drafter"] == "draft_model":
        values["drafter.model"] = SOURCE / "configs/models/tale-draft"
    for key, value in values.items():
        flags += ["--set", f"{key}={value}"]
    return flags


def report_of(cell, file, bytes_per_token=0, threads=1):
    done = run("run", *flags_of(cell, file, bytes_per_token, threads))
    if done.returncode != 0:
        return {"refused": done.stderr.strip()}
    return json.loads(done.stdout)


def counters_of(report):
    totals = report["totals"]
    own = {}
    for plugin in report["plugins"]:
        own.update(plugin.get("counters", {}))
    return {
        "preemptions": totals["preemptions"],
        "swaps": totals["swapped_out_tokens"],
        "copies": own.get("copied_blocks", 0),
        "hits": own.get("hit_tokens", 0),
        "drafted": totals["drafted_tokens"],
        "accepted": totals["accepted_tokens"],
    }


class Grid:
    """Runs all combinations of the axes, or the chosen ones, on instruction sets up to `isa`, each
    step planned while the one before is computed where `plan_ahead` says so. They are held against
    the manager `plain` with plenty of memory."""

    def __init__(self, axes=None, chosen=None, isa=None, plan_ahead=False, plain="naive"):
        self.axes = axes or AXES
        self.chosen = list(itertools.product(*self.axes.values())) if chosen is None else chosen
        self.isa = isa
        self.plan_ahead = plan_ahead
        self.plain = plain
        self.results = {}  # combination → "refused …" or counters
        self.answers = {}  # combination in words → numerics id, answers

    def run(self, workers):
        with tempfile.TemporaryDirectory() as folder:
            file = pathlib.Path(folder) / "requests.toml"
            file.write_text(workload())
            with concurrent.futures.ThreadPoolExecutor(workers) as pool:
                dtypes = self.axes["dtype"]
                baselines = dict(zip(dtypes, pool.map(lambda d: self.baseline(d, file), dtypes)))
                for words, result in zip(self.chosen, pool.map(
                        lambda words: self.check(words, file, baselines), self.chosen)):
                    self.results[words] = result
        return self

    def baseline(self, dtype, file):
        cell = {"scheduler": "static", "kv_cache": self.plain, "drafter": "none", "dtype": dtype,
                "isa": self.isa, "plan_ahead": False}
        # Another number of threads than below; once is enough, as it is slow on a busy machine.
        report = report_of(cell, file, threads=1 if self.isa else 2)
        if "refused" in report:
            sys.exit(report["refused"])
        kv = report["kv"]
        expected = self.keep(f"static + {self.plain} + none + {dtype} with plenty of memory", report)
        return expected, kv["bytes"] // (kv["blocks"] * kv["block_tokens"])

    def check(self, words, file, baselines):
        cell = dict(zip(self.axes, words), isa=self.isa, short=True,
                    plan_ahead=self.plan_ahead)
        expected, bytes_per_token = baselines[cell["dtype"]]
        # A draft model keeps its K/V in the same memory, at the same number of tokens.
        if cell["drafter"] == "draft_model":
            bytes_per_token += bytes_per_token // 6
        report = report_of(cell, file, bytes_per_token)
        if "refused" in report:
            return "refused because " + report["refused"]
        if self.keep(" + ".join(words), report) != expected:
            return f"WRONG: other tokens or digests than static + {self.plain}"
        return counters_of(report)

    def keep(self, name, report):
        self.answers[name] = report["pipeline"]["numerics"], answers_of(report)
        return self.answers[name]

    def pair(self, first, second):
        """What became of all combinations with these two: text, and whether it is as it should be."""
        chosen = [result for words, result in self.results.items()
                  if all(dict(zip(self.axes, words))[axis] == word for axis, word in (first, second))]
        texts = sorted({result for result in chosen if isinstance(result, str)})
        if texts:
            return texts[0], not texts[0].startswith("WRONG")
        sums = {name: sum(result[name] for result in chosen) for name in COUNTERS}
        missing = [name for side in (first, second) for name in MUST_FIRE.get(side, [])
                   if sums[name] == 0]
        if missing:
            return "untested: no " + ", ".join(missing), False
        shown = ", ".join(f"{sums[name]} {name}" for name in COUNTERS if sums[name])
        return f"works: {shown}" if shown else "works", True

    def faults(self):
        found = []
        for (a, b), x, y in self.pairs():
            text, fine = self.pair((a, x), (b, y))
            if not fine:
                found.append(f"{a} {x} × {b} {y}: {text}")
        return found

    def pairs(self):
        for a, b in itertools.combinations(self.axes, 2):
            for x, y in itertools.product(self.axes[a], self.axes[b]):
                yield (a, b), x, y

    def markdown(self):
        count = len(self.results)
        lines = [
            "# What composes with what", "",
            "Generated by running: `tests/cli/combinations.py --write`. Do not edit by hand.", "",
            f"All {count} combinations of scheduler, KV manager, drafter and KV element type answered "
            "the same requests with the bundled model: prompts with common beginnings, repetitions, "
            "three samples of one prompt, half greedy and half at temperature 0.8, drafts verified "
            f"exactly, memory for {MEMORY_TOKENS} tokens and a swap pool for {CONTEXT}. *works* means: every "
            "token and every digest of logits as with `static` + `naive`, the same element type and "
            "plenty of memory. (`naive` gets memory for six whole sequences.) The counters are sums over all combinations that contain the pair: "
            "sequences preempted, tokens swapped out, blocks copied before a write, tokens found in "
            "the cache, tokens drafted and accepted. A pair whose feature never fired would be "
            "called *untested*. `streaming` and `heavy_hitters` forget, so the answers of each are "
            "held against each other (`tests/cli/streaming_test.py`, "
            "`tests/cli/heavy_hitters_test.py`).", ""]
        for a, b in itertools.combinations(self.axes, 2):
            lines += [f"## {a} × {b}", "", f"| | {' | '.join(self.axes[b])} |",
                      "|---" * (len(self.axes[b]) + 1) + "|"]
            for x in self.axes[a]:
                cells = [self.pair((a, x), (b, y))[0] for y in self.axes[b]]
                lines.append(f"| **{x}** | {' | '.join(cells)} |")
            lines.append("")
        return "\n".join(lines)


def record(workers):
    """Adds the answers of each instruction set here, once all its combinations agree on them."""
    for isa in ISAS:
        recorded = RecordedAnswers(workload())
        grid = Grid(chosen=[], isa=isa).run(workers)
        if recorded.lacks(grid):
            # All of them would take hours on an emulated processor.
            grid = Grid(chosen=covering() if EMULATOR else None, isa=isa).run(workers)
        new = recorded.add(grid)
        if faults := recorded.faults(grid):
            sys.exit(f"nothing is recorded for {isa}, as not all agree:\n" + "\n".join(faults))
        recorded.write()
        print(f"{isa}: {len(grid.answers)} runs agree; new: {', '.join(new) or 'none'}", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--write", action="store_true", help=f"write {DOCUMENT.name}")
    parser.add_argument("--record", action="store_true",
                        help="record the answers of numerics ids that are new: recorded_answers.py")
    parser.add_argument("--workers", type=int, default=os.cpu_count())
    flags = parser.parse_args()
    if flags.record:
        return record(flags.workers)
    grid = Grid().run(flags.workers)
    if flags.write:
        DOCUMENT.write_text(grid.markdown())
    else:
        print(grid.markdown())
    if faults := grid.faults() + RecordedAnswers(workload()).faults(grid):
        sys.exit("\n".join(faults))


if __name__ == "__main__":
    main()
