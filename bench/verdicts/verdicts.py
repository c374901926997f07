#!/usr/bin/env python3
"""Holds `tenon compare` against differences that are known: none at all, a scheduler that burns 1, 3 or
10 % of a step, a sampler that takes another token once in 10,000. Prints a line a comparison, and ends
with status 1 where a verdict is not what it must be.

    bench/verdicts/verdicts.py [--tenon build/dev/bin/tenon] [--planted build/dev/tests/planted]
                               [--only itself,slow,slips] [--itself 20] [--slow 5] [--budget 90s]
                               [--pairs 40] [--model FOLDER] [--burnt 1,3,10] [--metric throughput]
                               [--save FILE.json]

The planted plugins are built with the tests. Nothing else should run on the machine: what does makes
the intervals wider, and fewer differences visible. Steps of the bundled model take a fraction of a
millisecond, in which little weighs much; --model takes another one, such as one of 135M parameters that
`tenon model synth --grow` makes. What the rest of a machine does lengthens some steps by much, and others
not at all: --metric gap_p50, the median step, sees smaller differences there than throughput does.
"""
import argparse
import json
import math
import pathlib
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
WORK = """format = 1
title = "eight answers at once"
[[request]]
count = 8
prompt_tokens = 32
max_tokens = 128
"""
# One token in 10,000 takes 10,000 tokens to show.
LONG_WORK = """format = 1
title = "10,240 tokens"
[[request]]
count = 40
prompt_tokens = 16
max_tokens = 256
temperature = 0.0
top_p = 1.0
"""
ALWAYS_FOUND = 10  # per cent of a step, and more


def compared(options, folder, work, *arguments):
    """A comparison's report, and the status it ended with."""
    folder.mkdir()
    (folder / "work.toml").write_text(work)
    done = subprocess.run(
        [str(options.tenon), "compare", "--workload", str(folder / "work.toml"),
         "--out", str(folder / "out"), "--quiet", "--json", "--plugin-path", str(options.planted),
         "--budget", options.budget, "--pairs", str(options.pairs), "--metric", options.metric,
         *(["--model", str(options.model)] if options.model else []), *map(str, arguments)],
        capture_output=True, text=True, check=False)
    if done.returncode not in (0, 4, 5):  # 5: no pair, which is inconclusive
        raise SystemExit(f"tenon compare ended with {done.returncode}: {done.stderr.strip()}")
    return json.loads(done.stdout), done.returncode


def percent(ratio):
    return "–" if ratio is None else f"{100 * (ratio - 1):+.2f} %"


def row(report, metric):
    """What a table says of a comparison of two arms."""
    arm = report["arms"][0]
    found = next(each for each in arm["metrics"] if each["metric"] == metric)
    return {"verdict": found.get("verdict", "absent"), "ratio": found.get("ratio"),
            "low": found.get("low"), "high": found.get("high"), "pairs": arm["pairs"],
            "dropped": arm["dropped_pairs"], "detectable": report["noise"]["detectable"],
            "why": arm["why"]}


def covers(entry, ratio):
    low, high = entry["low"], entry["high"]
    return (low is None or low <= ratio) and (high is None or ratio <= high)


def show(name, entry, more=""):
    shown = entry["detectable"]
    visible = "nothing" if shown is None else percent(math.exp(shown))
    print(f"{name:<16}{entry['verdict']:<14}{percent(entry['ratio']):>9}  "
          f"[{percent(entry['low'])}, {percent(entry['high'])}]  {entry['pairs']} pairs "
          f"({entry['dropped']} dropped), could show {visible}{more}", flush=True)


def itself(options, folder, results):
    """A against A: at most one of twenty verdicts says better or worse, 18 of twenty intervals hold 1."""
    for number in range(options.itself):
        report, _ = compared(options, folder / f"itself{number}", WORK, "--arm", "b:",
                             "--seed", number + 1, "--noise-pairs", 3)
        results.append({"case": "itself", **row(report, options.metric)})
        show(f"A against A {number + 1}", results[-1])
    mine = [entry for entry in results if entry["case"] == "itself"]
    told = sum(entry["verdict"] in ("better", "worse") for entry in mine)
    held = sum(covers(entry, 1) for entry in mine)
    most, least = options.itself // 20, options.itself * 18 // 20
    return [(f"{told} of {options.itself} differ from themselves (at most {most})", told <= most),
            (f"{held} of {options.itself} intervals hold 1 (at least {least})", held >= least)]


def slow(options, folder, results):
    """10 % is found always, 3 % wherever the noise floor says that so much can be seen."""
    claims = []
    for burnt in options.burnt:
        found, visible, named = 0, 0, 0
        for number in range(options.slow):
            report, _ = compared(options, folder / f"slow{burnt}-{number}", WORK,
                                 "--set", "scheduler.plugin=test.burning",
                                 "--arm", f"slow:scheduler.options.permille={10 * burnt}",
                                 "--seed", number + 1, "--noise-pairs", 8)
            entry = {"case": "slow", "burnt": burnt, **row(report, options.metric)}
            results.append(entry)
            blamed = any("scheduler test.burning" in line for line in entry["why"])
            seen = entry["detectable"] is not None and entry["detectable"] <= math.log1p(burnt / 100)
            visible += seen
            found += entry["verdict"] == "worse" and (seen or burnt >= ALWAYS_FOUND)
            named += entry["verdict"] == "worse" and blamed
            show(f"{burnt} % slower", entry, ", names its plugin" if blamed else "")
        must = options.slow if burnt >= ALWAYS_FOUND else visible
        if burnt > 1:
            claims.append((f"{burnt} %: {found} of {must} found that had to be", found >= must))
        print(f"  {burnt} %: {named} verdicts name the plugin, {visible} of {options.slow} noise floors "
              "say that so much can be seen")
    return claims


def slips(options, folder, results):
    """One token in 10,000 that is another one: different answers."""
    report, status = compared(options, folder / "slips", LONG_WORK, "--set", "sampler.plugin=test.slipping",
                              "--arm", "slips:sampler.options.every=10000", "--noise-pairs", 0)
    arm = report["arms"][0]
    results.append({"case": "slips", "answers": arm["answers"], "different": arm["different_answers"]})
    print(f"one in 10,000  {arm['answers']}", flush=True)
    return [("one token in 10,000 is different answers", arm["different_answers"] and status == 4)]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tenon", type=pathlib.Path, default=ROOT / "build/dev/bin/tenon")
    parser.add_argument("--planted", type=pathlib.Path, default=ROOT / "build/dev/tests/planted")
    parser.add_argument("--only", default="itself,slow,slips")
    parser.add_argument("--itself", type=int, default=20, help="comparisons of A with A")
    parser.add_argument("--slow", type=int, default=5, help="comparisons for each slowdown")
    parser.add_argument("--budget", default="90s", help="of each comparison")
    parser.add_argument("--pairs", type=int, default=40)
    parser.add_argument("--model", type=pathlib.Path, help="in place of the bundled one")
    parser.add_argument("--burnt", default="1,3,10", help="per cent of a step")
    parser.add_argument("--metric", default="throughput", help="that verdicts are about")
    parser.add_argument("--save", type=pathlib.Path)
    options = parser.parse_args()
    options.burnt = [int(burnt) for burnt in options.burnt.split(",")]
    known = {"itself": itself, "slow": slow, "slips": slips}
    parts = options.only.split(",")
    if set(parts) - set(known):
        parser.error(f"--only takes some of {', '.join(known)}")
    results, claims = [], []
    with tempfile.TemporaryDirectory() as folder:
        for part in parts:
            claims += known[part](options, pathlib.Path(folder), results)
    if options.save:
        options.save.write_text(json.dumps(results, indent=1) + "\n")
    print()
    for claim, kept in claims:
        print(f"{'kept  ' if kept else 'BROKEN'}  {claim}")
    return 0 if all(kept for _, kept in claims) else 1


if __name__ == "__main__":
    sys.exit(main())
