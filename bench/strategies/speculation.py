#!/usr/bin/env python3
"""What speculation gains, and what it was predicted to gain: pairs with and without drafts.

    bench/strategies/speculation.py --tenon build/release/bin/tenon --model FOLDER --draft FOLDER

Three tables. (1) `copying`: the answer is the prompt's passage with a word changed now and then, as
when a text is edited; the tokens are replayed, so any model does, and the cost is the model's own.
(2) `plain`: text drawn at temperature 1, which does not repeat; here nothing may be lost. (3)
`draft`: a draft model with k tokens a time: tokens a step against (1 - a^(k+1)) / (1 - a), where a
is the share of judged drafts that were kept, and the speed that this predicts from measured times.

Each ratio is the median over pairs run one after the other in turns.
"""

import argparse
import json
import pathlib
import statistics
import sys
import tempfile

from program import ROOT, answers, in_turns, output, report


class Bench:
    def __init__(self, flags):
        self.flags = flags
        self.folder = tempfile.TemporaryDirectory()

    def run(self, arguments, settings):
        command = [self.flags.tenon, "run", "--json", "--model", self.flags.model, *arguments]
        for key, value in settings.items():
            command += ["--set", f"{key}={value}"]
        return report(command)

    def settings_of(self, drafter, options):
        settings = {"drafter.plugin": drafter}
        if drafter == "draft_model":
            settings["drafter.model"] = self.flags.draft
        return settings | {f"drafter.options.{key}": value for key, value in options.items()}

    def pairs(self, arguments, common, drafts, same=True):
        """Reports without and with drafts, and the ratios of their speeds."""
        reports, ratios = [], []
        for _, order in in_turns(self.flags.pairs):
            sides = {}
            for with_drafts in order:
                sides[with_drafts] = self.run(arguments, common | (drafts if with_drafts else {}))
            if same and answers(sides[True]) != answers(sides[False]):
                sys.exit(f"{drafts}: the answers differ")
            reports.append((sides[False], sides[True]))
            ratios.append(speed(sides[True]) / speed(sides[False]))
        return reports, ratios

    def tokens_of(self, text):
        return report([self.flags.tenon, "tokenize", "--model", self.flags.model, "--no-special",
                       "--json", text])

    def prompt_file(self, name, requests):
        path = pathlib.Path(self.folder.name) / f"{name}.jsonl"
        path.write_text("".join(json.dumps(request) + "\n" for request in requests))
        return ["--file", path, "--ignore-eos"]

    def workload(self, name, text):
        path = pathlib.Path(self.folder.name) / f"{name}.toml"
        path.write_text("format = 1\n" + text)
        return ["--workload", path]


def speed(report):
    return report["totals"]["tokens_per_second"]


def part_ms(report, interface):
    return sum(p.get("ms", 0) for p in report["plugins"] if p["interface"] == interface)


def tokens_a_step(report):
    """Of one sequence, in steps that decode: the first token comes with the prompt."""
    samples = len(report["requests"])
    decoded = report["totals"]["generated_tokens"] - samples
    given = report["totals"]["accepted_tokens"]
    return decoded / max(decoded - given, 1)


def row(*cells):
    print("| " + " | ".join(map(str, cells)) + " |", flush=True)


def ratio_text(ratios):
    return f"{statistics.median(ratios):.2f} ({min(ratios):.2f}–{max(ratios):.2f})"


def copying(bench):
    print("\ncopying: 200 tokens behind the passage, each 25th changed; one sequence at a time\n")
    row("drafter", "tokens a step", "accepted", "times faster")
    row("---", "---", "---", "---")
    text = " ".join((ROOT / "configs/models/valid.txt").read_text().split())
    passage = bench.tokens_of(text[3000:6000])[:200]
    changed = [token if i % 25 else passage[-i] for i, token in enumerate(passage, 1)]
    common = {"sampler.plugin": "replay", "sampler.options.tokens": " ".join(map(str, changed)),
              "limits.max_sequences": 1}
    text_back = output([bench.flags.tenon, "detokenize", "--model", bench.flags.model,
                        *passage]).rstrip("\n")
    arguments = bench.prompt_file("copying", [{"prompt": text_back, "max_tokens": 200}] * 2)
    for drafter in ("ngram", "suffix"):
        for adaptive in ("false", "true"):
            drafts = bench.settings_of(drafter, {"adaptive": adaptive})
            reports, ratios = bench.pairs(arguments, common, drafts)
            totals = reports[0][1]["totals"]
            row(f"{drafter}, adaptive = {adaptive}", f"{tokens_a_step(reports[0][1]):.2f}",
                f"{totals['accepted_tokens']} of {totals['drafted_tokens']}", ratio_text(ratios))


def plain(bench):
    print("\nplain: text at temperature 1, adaptive drafters\n")
    row("drafter", "batch", "drafted, kept", "times faster")
    row("---", "---", "---", "---")
    for batch in bench.flags.batches:
        workload = bench.workload(f"plain{batch}", f"""title = "plain"
[[request]]
count = {max(batch, 2)}
prompt_tokens = 24
max_tokens = {bench.flags.tokens}
temperature = 1.0
vary_seed = true
""")
        for drafter in bench.flags.drafters:
            reports, ratios = bench.pairs(workload, {"limits.max_sequences": batch},
                                          bench.settings_of(drafter, {}))
            totals = reports[0][1]["totals"]
            row(drafter, batch, f"{totals['drafted_tokens']}, {totals['accepted_tokens']}",
                ratio_text(ratios))


def draft(bench):
    print("\ndraft model: greedy exactly, and temperature 1 by rejection; one sequence at a time\n")
    row("temperature", "verify", "k", "a", "tokens a step", "predicted", "draft, verify (steps without)",
        "times faster", "predicted")
    row(*["---"] * 9)
    for temperature, verify in ((0, "exact"), (1, "exact"), (1, "rejection")):
        requests = [{"prompt": "Once upon a time there was a king who had", "seed": seed,
                     "temperature": temperature, "max_tokens": bench.flags.tokens} for seed in range(4)]
        arguments = bench.prompt_file(f"draft{temperature}", requests)
        for k in bench.flags.lengths:
            drafts = bench.settings_of("draft_model", {"adaptive": "false", "max_draft_tokens": k})
            reports, ratios = bench.pairs(arguments, {"limits.max_sequences": 1},
                                          drafts | {"drafter.verify": verify}, verify == "exact")
            row(temperature, verify, k, *draft_figures(reports, ratios, k))


def draft_figures(reports, ratios, k):
    totals = reports[0][1]["totals"]
    # Each draft that was not kept whole ended in one token that was rejected.
    rejected = totals["drafts"] - totals["accepted_at"][-1]
    kept = totals["accepted_tokens"] / (totals["accepted_tokens"] + rejected)
    ideal = (1 - kept ** (k + 1)) / (1 - kept) if kept < 1 else k + 1
    found = tokens_a_step(reports[0][1])
    plain_ms = statistics.median(step_ms(a) for a, _ in reports)
    verify_ms = statistics.median(step_ms(b) for _, b in reports)
    draft_ms = statistics.median(part_ms(b, "drafter") / b["totals"]["steps"] for _, b in reports)
    predicted = ideal * plain_ms / (verify_ms + draft_ms)
    return (f"{kept:.2f}", f"{found:.2f}", f"{ideal:.2f}",
            f"{draft_ms:.2f}, {verify_ms:.2f} ms ({plain_ms:.2f} ms)", ratio_text(ratios),
            f"{predicted:.2f}")


def step_ms(report):
    """A step of the target without its drafts."""
    total = sum(p.get("ms", 0) for p in report["plugins"]) - part_ms(report, "drafter")
    return total / report["totals"]["steps"]


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("tables", nargs="*", help="copying, plain, draft (default: all)")
    parser.add_argument("--tenon", default=str(ROOT / "build/release/bin/tenon"))
    parser.add_argument("--model", default=str(ROOT / "configs/models/tale"))
    parser.add_argument("--draft", default=str(ROOT / "configs/models/tale-draft"))
    parser.add_argument("--pairs", type=int, default=3)
    parser.add_argument("--tokens", type=int, default=96, help="of an answer")
    parser.add_argument("--batches", type=int, nargs="*", default=[1, 4, 16, 32])
    parser.add_argument("--lengths", type=int, nargs="*", default=[1, 2, 4, 6, 8])
    parser.add_argument("--drafters", nargs="*", default=["ngram", "suffix", "draft_model"])
    flags = parser.parse_args()
    tables = {"copying": copying, "plain": plain, "draft": draft}
    if wrong := [name for name in flags.tables if name not in tables]:
        sys.exit(f"there is no table '{wrong[0]}'; known are {', '.join(tables)}")
    bench = Bench(flags)
    for name in flags.tables or tables:
        tables[name](bench)


if __name__ == "__main__":
    main()
