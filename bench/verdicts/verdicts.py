#!/usr/bin/env python3
"""Holds `tenon compare` against differences that are known: none at all, a scheduler that burns 1, 3 or
10 % of a step, a sampler that takes another token once in 10,000. Prints a line a comparison, and ends
with status 1 where a verdict is not what it must be.

    bench/verdicts/verdicts.py [--tenon build/dev/bin/tenon] [--planted build/dev/tests/planted]
                               [--only itself,slow,slips,strategies] [--itself 20] [--slow 5] [--budget 90s]
                               [--pairs 40] [--model FOLDER] [--burnt 1,3,10] [--metric throughput]
                               [--save FILE.json] [--busy N] [--judged [--part N] [--at-once N]]

--judged is the procedure that decides whether verdicts are good enough on a machine that others use:
beside 8 busy processes, 3 minutes a comparison, 20 comparisons with 10 % burnt (worse in at least 19),
20 with 5 % (in at least 12), 40 of A with itself (better or worse in none). Nothing else may run then. It
takes 4 hours at most: every comparison that is not certain uses its budget, and those of 10 % end
earlier. --save keeps what was measured after each comparison, and a later call with the same file goes on
after it: --part 4 makes four comparisons at most, and says what all of them together found. --at-once 4
runs four comparisons at a time, each beside two busy processes and the three others, whose arms have two
threads each (two busy processes in place of each that has ended): all 80 take an hour.

The planted plugins are built with the tests. Nothing else should run on the machine: what does makes
the intervals wider, and fewer differences visible. Steps of the bundled model take a fraction of a
millisecond, in which little weighs much; --model takes another one, such as one of 135M parameters that
`tenon model synth --grow` makes. What the rest of a machine does lengthens some steps by much, and others
not at all: --metric gap_p50, the median step, sees smaller differences there than throughput does.
"""
import argparse
import concurrent.futures
import contextlib
import json
import math
import pathlib
import subprocess
import sys
import tempfile
import threading

ROOT = pathlib.Path(__file__).resolve().parents[2]
COMPARISONS = ROOT / "configs/comparisons"
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
# --judged: how many of 20 comparisons find so many per cent, beside so many busy processes.
JUDGED = {10: 19, 5: 12}
JUDGED_COMPARISONS = 20
# How many comparisons there are, by per cent burnt.
JUDGED_ALL = {10: JUDGED_COMPARISONS, 5: JUDGED_COMPARISONS, 0: 2 * JUDGED_COMPARISONS}
JUDGED_BUSY = 8
BUSY_FOR_ONE = 2  # processes in place of a comparison that has ended: as many as an arm has threads


@contextlib.contextmanager
def busy(count):
    """So many processes that compute and nothing else, until the block ends or this program does."""
    # They end with their standard input, which is this program's.
    loop = "import os, threading\nthreading.Thread(target=lambda: (os.read(0, 1), os._exit(0))).start()\nwhile 1: pass"
    running = [subprocess.Popen([sys.executable, "-c", loop], stdin=subprocess.PIPE) for _ in range(count)]
    try:
        yield
    finally:
        for process in running:
            process.kill()
            process.wait()


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


def judged(options, folder, results):
    """The known slowdowns and A against A, in turns, counted as the procedure says."""
    if options.save and options.save.exists():
        results += json.loads(options.save.read_text())
    lock = threading.Lock()

    def done(burnt):
        return sum(entry["burnt"] == burnt for entry in results)

    def one(burnt, seed, others_end):
        try:
            measure(burnt, seed)
        except BaseException:
            others_end.abort()
            raise
        with busy(BUSY_FOR_ONE if options.at_once > 1 else 0):
            others_end.wait()

    def measure(burnt, seed):
        report, _ = compared(options, folder / f"judged{burnt}-{seed}", WORK,
                             "--set", "scheduler.plugin=test.burning",
                             "--arm", f"slow:scheduler.options.permille={10 * burnt}" if burnt else "b:",
                             "--seed", seed)
        with lock:
            results.append({"case": "judged", "burnt": burnt, **row(report, options.metric)})
            save(options, results)
            show(f"{burnt} % slower" if burnt else "A against A", results[-1], f"  ({len(results)})")

    part = options.part or sum(JUDGED_ALL.values())
    while part > 0:
        burnt = min(JUDGED_ALL, key=lambda each: done(each) / JUDGED_ALL[each])
        seeds = range(done(burnt) + 1, JUDGED_ALL[burnt] + 1)[:min(part, options.at_once)]
        if not seeds:
            break
        others_end = threading.Barrier(len(seeds))
        with concurrent.futures.ThreadPoolExecutor(len(seeds)) as pool:
            for ended in [pool.submit(one, burnt, seed, others_end) for seed in seeds]:
                ended.result()
        part -= len(seeds)
    claims = []
    for burnt, least in JUDGED.items():
        mine = [entry["verdict"] for entry in results if entry["burnt"] == burnt]
        found = mine.count("worse")
        missed = len(mine) - found
        claims.append((f"{burnt} %: {found} of {len(mine)} found (at least {least} of {JUDGED_COMPARISONS})",
                       missed <= JUDGED_COMPARISONS - least))
    mine = [entry["verdict"] for entry in results if entry["burnt"] == 0]
    told = mine.count("better") + mine.count("worse")
    return claims + [(f"{told} of {len(mine)} differ from themselves (none may)", told == 0)]


def save(options, results):
    if options.save:
        options.save.write_text(json.dumps(results, indent=1) + "\n")


def slips(options, folder, results):
    """One token in 10,000 that is another one: different answers."""
    report, status = compared(options, folder / "slips", LONG_WORK, "--set", "sampler.plugin=test.slipping",
                              "--arm", "slips:sampler.options.every=10000", "--noise-pairs", 0)
    arm = report["arms"][0]
    results.append({"case": "slips", "answers": arm["answers"], "different": arm["different_answers"]})
    print(f"one in 10,000  {arm['answers']}", flush=True)
    return [("one token in 10,000 is different answers", arm["different_answers"] and status == 4)]


def strategies(options, folder, results):
    """Strategies that differ by much: certain in two minutes."""
    claims = []
    for name in ("batching", "prefix"):
        done = subprocess.run(
            [str(options.tenon), "compare", str(COMPARISONS / f"{name}.toml"), "--out", str(folder / name),
             "--quiet", "--json", "--budget", "2m"], capture_output=True, text=True, check=False)
        report = json.loads(done.stdout) if done.returncode in (0, 4, 5) else None
        if report is None:
            raise SystemExit(f"tenon compare ended with {done.returncode}: {done.stderr.strip()}")
        arm = report["arms"][0]
        found = next(each for each in arm["metrics"] if each["metric"] == report["plan"]["primary"])
        results.append({"case": "strategies", "comparison": name, **row(report, found["metric"])})
        show(name, results[-1])
        certain = results[-1]["verdict"] in ("better", "worse")
        claims.append((f"{name}: {results[-1]['verdict']} in {results[-1]['pairs']} pairs", certain))
    return claims


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
    parser.add_argument("--busy", type=int, default=0, help="processes that compute beside it")
    parser.add_argument("--part", type=int, help="of --judged: at most so many comparisons now")
    parser.add_argument("--at-once", type=int, default=1, choices=(1, 2, 4),
                        help="of --judged: comparisons at a time")
    parser.add_argument("--judged", action="store_true", help="the whole procedure, 4 hours at most")
    options = parser.parse_args()
    if options.judged:
        # As many pairs as the budget allows.
        options.only, options.budget, options.pairs = "judged", "3m", 100000
        options.busy = JUDGED_BUSY - BUSY_FOR_ONE * (options.at_once - 1)
    options.burnt = [int(burnt) for burnt in options.burnt.split(",")]
    known = {"itself": itself, "slow": slow, "slips": slips, "strategies": strategies, "judged": judged}
    parts = options.only.split(",")
    if set(parts) - set(known):
        parser.error(f"--only takes some of {', '.join(known)}")
    results, claims = [], []
    with tempfile.TemporaryDirectory() as folder, busy(options.busy):
        for part in parts:
            claims += known[part](options, pathlib.Path(folder), results)
    save(options, results)
    print()
    for claim, kept in claims:
        print(f"{'kept  ' if kept else 'BROKEN'}  {claim}")
    return 0 if all(kept for _, kept in claims) else 1


if __name__ == "__main__":
    sys.exit(main())
