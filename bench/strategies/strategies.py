#!/usr/bin/env python3
"""Measures one strategy against another: A B A B … in one session, the ratio of each pair.

    bench/strategies/strategies.py --tenon build/release/bin/tenon --model FOLDER [claim …]

claims.toml beside this file says what is measured. Both sides run the same requests and must
answer with the same tokens and digests; a difference is an error. Prints a table for each claim,
and rows for docs/experiments with --markdown.
"""

import argparse
import pathlib
import random
import re
import statistics
import sys
import tomllib

from program import ROOT, answers, in_turns, report

HERE = pathlib.Path(__file__).resolve().parent


def member(run, path):
    for key in path.split("."):
        run = run[key]
    return float(run)


class Runner:
    def __init__(self, flags):
        self.flags = flags
        self.bytes_per_token = {}

    def command(self, claim, settings):
        command = [self.flags.tenon, "run", "--json", "--quiet"]
        command += ["--workload", str(ROOT / claim["workload"])]
        if self.flags.model:
            command += ["--model", self.flags.model]
        for setting in settings:
            command += ["--set", self.in_bytes(setting, settings)]
        return command

    def in_bytes(self, setting, settings):
        """"kv_cache.memory=4096 tokens" in the bytes that the model needs for them."""
        found = re.fullmatch(r"(kv_cache\.\w*memory)=(\d+) tokens", setting)
        if not found:
            return setting
        key = tuple(s for s in settings if "memory" not in s and not s.startswith("scheduler"))
        if key not in self.bytes_per_token:
            command = [self.flags.tenon, "run", "a", "--max-tokens", "1", "--json", "--quiet"]
            command += ["--model", self.flags.model] if self.flags.model else []
            for other in key:
                command += ["--set", other]
            kv = report(command)["kv"]
            self.bytes_per_token[key] = kv["bytes"] // (kv["blocks"] * kv["block_tokens"])
        return f"{found[1]}={int(found[2]) * self.bytes_per_token[key]}"

    def measure(self, claim, side):
        settings = claim.get("common", []) + claim.get(side, [])
        return report(self.command(claim, settings))


def lower_bound(ratios):
    """Lower end of the 95 % interval of the mean ratio: percentile bootstrap, fixed seed."""
    draw = random.Random(0)
    means = sorted(
        statistics.fmean(draw.choices(ratios, k=len(ratios))) for _ in range(4000)
    )
    return means[int(0.025 * len(means))]


def describe(run):
    prompts = [r["prompt_tokens"] for r in run["requests"]]
    outputs = [len(r["tokens"]) for r in run["requests"]]
    kv = run["kv"]
    return (
        f"{len(prompts)} requests, prompts {statistics.fmean(prompts):.0f} tokens on average "
        f"(at most {max(prompts)}), answers {statistics.fmean(outputs):.0f} (at most {max(outputs)}); "
        f"KV {kv['dtype']}, {kv['blocks'] * kv['block_tokens']} tokens, {kv['bytes'] / 2**20:.0f} MiB"
    )


def compare(runner, claim, pairs):
    sides = {"a": [], "b": []}
    for number, order in in_turns(pairs):
        for side in ("b" if second else "a" for second in order):
            sides[side].append(runner.measure(claim, side))
            print(f"  {claim['name']}: pair {number + 1}, {side.upper()} "
                  f"{sides[side][-1]['totals']['seconds']:.1f} s", file=sys.stderr, flush=True)
    first = answers(sides["a"][0])
    for side, runs in sides.items():
        for run in runs:
            if claim.get("same_answers", True) and answers(run) != first:
                sys.exit(f"{claim['name']}: {side.upper()} gave other answers than A")
    return sides


def show(claim, sides, markdown):
    print(f"{claim['name']}: {claim['text']}\n  {describe(sides['b'][0])}")
    print(f"  {sides['b'][0]['pipeline']['numerics']}")
    reached = True
    for metric in claim["metric"]:
        a = [member(run, metric["member"]) for run in sides["a"]]
        b = [member(run, metric["member"]) for run in sides["b"]]
        higher = metric["better"] == "higher"
        ratios = [y / x if higher else x / y for x, y in zip(a, b)]
        middle, low = statistics.median(ratios), lower_bound(ratios)
        tested = low if metric.get("bound") == "lower" else middle
        word = "reached" if tested >= metric["goal"] else "not reached"
        reached &= tested >= metric["goal"]
        row = (f"{metric['member']}: A {statistics.median(a):.4g}, B {statistics.median(b):.4g}, "
               f"{middle:.2f} times better (pairs {', '.join(f'{r:.2f}' for r in ratios)}; mean at "
               f"least {low:.2f}), goal {metric['goal']}: {word}")
        print(f"  {row}")
        if markdown:
            print(f"| {claim['text']} | {describe(sides['b'][0])} | {row} |")
    return reached


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("claims", nargs="*", help="names of claims (default: all)")
    parser.add_argument("--tenon", default=str(ROOT / "build/release/bin/tenon"))
    parser.add_argument("--model", default="", help="a model's folder (default: the bundled one)")
    parser.add_argument("--pairs", type=int, default=3)
    parser.add_argument("--markdown", action="store_true")
    parser.add_argument("--goals", action="store_true", help="exit 1 where a goal is not reached")
    flags = parser.parse_args()
    claims = tomllib.loads((HERE / "claims.toml").read_text())["claim"]
    known = [claim["name"] for claim in claims]
    if wrong := [name for name in flags.claims if name not in known]:
        sys.exit(f"there is no claim '{wrong[0]}'; known are {', '.join(known)}")
    runner = Runner(flags)
    reached = True
    for claim in claims:
        if flags.claims and claim["name"] not in flags.claims:
            continue
        reached &= show(claim, compare(runner, claim, flags.pairs), flags.markdown)
    sys.exit(1 if flags.goals and not reached else 0)


if __name__ == "__main__":
    main()
