#!/usr/bin/env python3
"""Do drafts ever lose? Adaptive drafters against none, over texts that are copied, code, prose, conversations
and random tokens, for 1 to 32 sequences at once, with prompts as a whole and in chunks. Prints a line for each
drafter and condition, and ends with status 1 where the whole interval of adaptive / none lies below 0.98.

    bench/drafts/never_loses.py [--tenon build/dev/bin/tenon] [--model FOLDER] [--draft FOLDER]
                                  [--head FOLDER] [--block FOLDER] [--drafters ngram,suffix,…]
                                  [--works copying,code,prose,chat,random] [--batches 1,4,16,32]
                                  [--prompts whole,chunks] [--budget 2m] [--confidence 0.99]
                                  [--restart N] [--save FILE.json] [--table]

Base and drafters take turns in pairs (docs/comparing.md); "itself" among the drafters is the base once more,
which shows what a process's memory alone changes. --restart N starts all of them anew after every N pairs,
so that this counts as chance. --table prints Markdown in the end: a line for each drafter and text.

The bundled models are taken where nothing else is named; --model FOLDER takes another, such as one that
`tenon model synth --grow configs/models/tale` makes, with --draft, --head and --block to go with it (heads
are grown by grow_head.py), or "none" to leave a drafter out.
"""
import argparse
import json
import pathlib
import subprocess
import sys
import tempfile
import tomllib

ROOT = pathlib.Path(__file__).resolve().parents[2]
MODELS = ROOT / "configs/models"
LIMIT = 0.98
PROMPT, ANSWER = 900, 96  # characters, tokens


def sources():
    """Code: the beginnings of a few sources of this tree, the same ones in every copy of it."""
    files = sorted((ROOT / "core/base").glob("*.cc"))[:8]
    return [path.read_text()[:PROMPT] for path in files]


def stories():
    pieces = (MODELS / "valid.txt").read_text().split("<|endoftext|>")
    return [piece[:PROMPT] for piece in pieces if len(piece) > PROMPT // 3][:8]


def conversations():
    """Three turns of each story, a paragraph each, as tale's template joins them: then tale goes on."""
    pieces = (MODELS / "valid.txt").read_text().split("<|endoftext|>")
    turns = [[line for line in piece.splitlines() if line] for piece in pieces]
    return ["\n\n".join(line[:PROMPT // 3] for line in each[:3]) for each in turns if len(each) > 3][:8]


def requests(work, count):
    """The tables of a workload, and settings that all arms have."""
    quote = json.dumps  # a TOML string
    if work == "copying":
        own = tomllib.loads((ROOT / "configs/comparisons/drafting-copies.toml").read_text())
        passage = tomllib.loads((ROOT / "configs/workloads/edited-passage.toml").read_text())
        prompt = passage["request"][0]["prompt"]
        return f"[[request]]\ncount = {count}\nprompt = {quote(prompt)}\nmax_tokens = 200\n", own["set"]
    if work == "random":
        return (f"[[request]]\ncount = {count}\nprompt_tokens = 200\nmax_tokens = {ANSWER}\n"
                "temperature = 1.5\ntop_p = 1.0\nvary_seed = true\n"), []
    texts = {"code": sources, "prose": stories, "chat": conversations}[work]()
    heat = 0.0 if work == "code" else 0.8
    each = [f"[[request]]\nprompt = {quote(texts[i % len(texts)])}\nmax_tokens = {ANSWER}\n"
            f"temperature = {heat}\nseed = {i + 1}\n" for i in range(count)]
    return "".join(each), []


def arms(options):
    of = {"ngram": None, "suffix": None, "draft_model": options.draft, "eagle3": options.head,
          "dflash": options.block}
    chosen = {}
    for name in options.drafters:
        if name in of and str(of[name]) == "none":
            continue
        chosen[name] = [] if name == "itself" else [f"drafter.plugin={name}"]
        if of.get(name) is not None:
            chosen[name].append(f"drafter.model={pathlib.Path(of[name]).resolve()}")
    return chosen


def comparison(options, work, batch, prompts, folder):
    tables, more = requests(work, max(batch, 4))
    (folder / "work.toml").write_text(f"format = 1\ntitle = \"{work}\"\n{tables}")
    # Chunks of 64 rows, and room for drafts next to them.
    common = more + ["scheduler.plugin=" + ("chunked" if prompts == "chunks" else "continuous"),
                     f"limits.max_sequences={batch}",
                     "limits.max_batch_tokens=" + ("96" if prompts == "chunks" else "2048")]
    lines = ["format = 1", f'title = "{work}"', 'base_name = "none"', "several = true",
             f"in_flight = {batch}", f"set = {json.dumps(common)}",
             f'workload = "{folder / "work.toml"}"', 'metric = "throughput"',
             *([] if options.restart is None else [f"restart = {options.restart}"])]
    for name, own in arms(options).items():
        lines += ["", "[[arm]]", f'name = "{name}"', f"set = {json.dumps(own)}"]
    (folder / "comparison.toml").write_text("\n".join(lines) + "\n")
    done = subprocess.run(
        [str(options.tenon), "compare", str(folder / "comparison.toml"), "--out", str(folder / "out"),
         "--quiet", "--json", "--budget", options.budget, "--confidence", str(options.confidence),
         *(["--model", str(options.model)] if options.model else [])],
        capture_output=True, text=True, check=False)
    if done.returncode not in (0, 5):  # 5: too few pairs to say anything
        raise SystemExit(f"tenon compare ended with {done.returncode}: {done.stderr.strip()}")
    return json.loads(done.stdout)


def rows(report, work, batch, prompts):
    for arm in report["arms"]:
        found = next(each for each in arm["metrics"] if each["metric"] == "throughput")
        low, high = found.get("low"), found.get("high")
        yield {"drafter": arm["name"], "work": work, "batch": batch, "prompts": prompts,
               "ratio": found.get("ratio"), "low": low, "high": high, "pairs": arm["pairs"],
               "lost": high is not None and high < LIMIT,
               "answers_differ": bool(arm["different_answers"])}


def number(value):
    return "–" if value is None else f"{value:.3f}"


def table(results):
    """Markdown: speed with drafts / without, a column for each number of sequences and way of prompts."""
    columns = list(dict.fromkeys((row["batch"], row["prompts"]) for row in results))
    print("\n| drafter | text | " + " | ".join(f"{batch}, {prompts}" for batch, prompts in columns) + " |\n" +
          "|---" * (2 + len(columns)) + "|")
    found = {(row["drafter"], row["work"], row["batch"], row["prompts"]): row for row in results}
    for drafter in dict.fromkeys(row["drafter"] for row in results):
        for work in dict.fromkeys(row["work"] for row in results):
            cells = []
            for column in columns:
                row = found.get((drafter, work, *column))
                low, high = (row and row["low"]), (row and row["high"])
                cells.append("–" if not row or row["ratio"] is None else f"{row['ratio']:.2f}" + (
                    f" [{low:.2f}, {high:.2f}]" if low is not None and high is not None else ""))
            print(f"| `{drafter}` | {work} | " + " | ".join(cells) + " |")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    listed = lambda text: text.split(",")
    parser.add_argument("--tenon", type=pathlib.Path, default=ROOT / "build/dev/bin/tenon")
    parser.add_argument("--model", type=pathlib.Path)
    parser.add_argument("--draft", default=MODELS / "tale-draft")
    parser.add_argument("--head", default=MODELS / "tale-eagle3")
    parser.add_argument("--block", default=MODELS / "tale-dspark")
    parser.add_argument("--drafters", type=listed, default=["ngram", "suffix", "draft_model", "eagle3", "dflash"])
    parser.add_argument("--works", type=listed, default=["copying", "code", "prose", "chat", "random"])
    parser.add_argument("--batches", type=lambda text: [int(n) for n in text.split(",")], default=[1, 4, 16, 32])
    parser.add_argument("--prompts", type=listed, default=["whole", "chunks"])
    parser.add_argument("--budget", default="2m", help="of each comparison, for all drafters together")
    parser.add_argument("--confidence", default=0.99)
    parser.add_argument("--restart", type=int)
    parser.add_argument("--save", type=pathlib.Path)
    parser.add_argument("--table", action="store_true")
    options = parser.parse_args()
    results = []
    with tempfile.TemporaryDirectory() as root:
        for prompts in options.prompts:
            for work in options.works:
                for batch in options.batches:
                    folder = pathlib.Path(root) / f"{work}-{batch}-{prompts}"
                    folder.mkdir()
                    for row in rows(comparison(options, work, batch, prompts, folder), work, batch, prompts):
                        results.append(row)
                        print(f"{row['work']:<8}{row['batch']:>3} {row['prompts']:<7}{row['drafter']:<12}"
                              f"{number(row['ratio'])} [{number(row['low'])}, {number(row['high'])}] "
                              f"{row['pairs']} pairs{'  LOST' if row['lost'] else ''}"
                              f"{'  OTHER ANSWERS' if row['answers_differ'] else ''}", flush=True)
                        if options.save:
                            options.save.write_text(json.dumps(results, indent=1) + "\n")
    if options.table:
        table(results)
    lost = [row for row in results if row["lost"] or row["answers_differ"]]
    print(f"\n{len(results)} conditions, {len(lost)} of them lost or differed")
    return 1 if lost else 0


if __name__ == "__main__":
    sys.exit(main())
