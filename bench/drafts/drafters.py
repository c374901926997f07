#!/usr/bin/env python3
"""What each drafter brings and costs on held-out text: tokens a step as a chain and as a tree, how often
the first, second, … draft is kept, and the processor time of drafting and of a step with drafts as shares
of a step without. Prints the rows of a table in Markdown.

    bench/drafts/drafters.py [--tenon build/dev/bin/tenon] [--works prose,code,chat,copying]
                               [--tokens 96] [--pieces 8] [--rounds 3] [--drafts 4]

Counts follow from the files alone. Processor time is that of whole processes on one thread, less that of
the same with fewer tokens, in turns; its medians hold on a busy machine. The bundled models are measured.
"""
import argparse
import json
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile

from never_loses import MODELS, ROOT, requests

HEADS = {"ngram": [], "suffix": [], "draft_model": ["tale-draft"], "eagle3": ["tale-eagle3"],
         "dflash": ["tale-dspark"]}
TREES = {"draft_model", "eagle3"}
FEW = 8  # tokens of the runs that are taken away


def settings(drafter, drafts, tree=""):
    if drafter is None:
        return []
    own = [f"drafter.plugin={drafter}", "drafter.options.adaptive=false",
           f"drafter.options.max_draft_tokens={drafts}"]
    own += [f"drafter.model={MODELS / name}" for name in HEADS[drafter]]
    return own + ([f'drafter.options.tree="{tree}"'] if tree else [])


def run(options, folder, work, own, tokens):
    """A run's JSON, and its processor time in seconds."""
    tables, more = requests(work, options.pieces)
    tables = "\n".join(f"max_tokens = {tokens}" if line.startswith("max_tokens") else
                       "temperature = 0.0" if line.startswith("temperature") else line
                       for line in tables.splitlines())
    path = folder / "work.toml"
    path.write_text(f'format = 1\ntitle = "{work}"\n{tables}\n')
    given = [word for each in [*more, *own, "limits.max_sequences=1", "executor.threads=1"]
             for word in ("--set", each)]
    before = os.times()
    done = subprocess.run([str(options.tenon), "run", "--workload", str(path), "--json", *given],
                          capture_output=True, text=True, check=False)
    after = os.times()
    if done.returncode != 0:
        raise SystemExit(f"tenon run ended with {done.returncode}: {done.stderr.strip()}")
    spent = after.children_user + after.children_system - before.children_user - before.children_system
    return json.loads(done.stdout), spent


def measured(options, folder, work, own):
    """Counts of a run, and processor seconds of a step and of what the drafter does in one."""
    steps, drafting = [], []
    for _ in range(options.rounds):
        few, base = run(options, folder, work, own, FEW)
        many, spent = run(options, folder, work, own, options.tokens)
        count = many["totals"]["steps"] - few["totals"]["steps"]
        steps.append((spent - base) / count)
        inside = [plugin["ms"] for plugin in many["plugins"] if plugin["interface"] == "drafter"]
        drafting.append(sum(inside) / (1000 * many["totals"]["seconds"]))
    step = statistics.median(steps)
    return many["totals"], step, step * statistics.median(drafting)


def per_step(totals, pieces):
    """Tokens of a step that decodes: each answer's first token comes with its prompt."""
    return (totals["generated_tokens"] - pieces) / max(1, totals["steps"] - pieces)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    listed = lambda text: text.split(",")
    parser.add_argument("--tenon", type=pathlib.Path, default=ROOT / "build/dev/bin/tenon")
    parser.add_argument("--works", type=listed, default=["prose", "code", "chat", "copying"])
    parser.add_argument("--drafters", type=listed, default=list(HEADS))
    parser.add_argument("--tokens", type=int, default=96)
    parser.add_argument("--pieces", type=int, default=8)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--drafts", type=int, default=4)
    options = parser.parse_args()
    print("| text | drafter | tokens a step: chain | tree | kept in first, second, … place | drafting | "
          "a step with drafts |\n|---|---|---|---|---|---|---|")
    with tempfile.TemporaryDirectory() as root:
        folder = pathlib.Path(root)
        for work in options.works:
            _, plain, _ = measured(options, folder, work, settings(None, 0))
            for drafter in options.drafters:
                totals, step, drafting = measured(options, folder, work, settings(drafter, options.drafts))
                tree = "–"
                if drafter in TREES:
                    grown, _ = run(options, folder, work, settings(drafter, 10, "grow"), options.tokens)
                    tree = f"{per_step(grown['totals'], options.pieces):.2f}"
                drafts = max(1, totals["drafts"])
                kept = ", ".join(f"{count / drafts:.2f}" for count in totals["accepted_at"])
                print(f"| {work} | `{drafter}` | {per_step(totals, options.pieces):.2f} | {tree} | {kept} | "
                      f"{drafting / plain:.2f} | {step / plain:.2f} |", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
