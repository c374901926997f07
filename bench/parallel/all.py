#!/usr/bin/env python3
"""The ways to share a model among processes, against one process with as many threads.

    TENON_BINARY=build/release/bin/tenon bench/parallel/all.py MODEL [--ranks 2] [--rounds 5]
        [--batches 1,8,32] [--prompt-tokens 512] [--delay-ms 0 --rate 10gbit]

Each round runs `tenon bench` in every arrangement, in turn, so that what the machine does meanwhile happens to all of
them. Printed are the medians of the ratios of pairs in one round, their least and their most. The machine must be
otherwise idle. With --delay-ms or --rate ranks are hosts of their own, in network name spaces with such a link (as
root), and what docs/parallel.md predicts for it is printed next to what was measured.
"""
import argparse
import json
import os
import pathlib
import statistics
import subprocess
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "tests/soak"))
BINARY = os.environ.get("TENON_BINARY", "build/release/bin/tenon")


def arrangements(ranks):
    """Keys of [parallel], by name."""
    return {"tensor": {"tensor": ranks}, "reduce": {"tensor": ranks, "reduce": "true"},
            "pipeline": {"pipeline": ranks}, "expert": {"expert": ranks}}


def bench(flags, batch, keys, launcher=None):
    """Tokens a second of prompts and of decoding, or None where the model cannot be shared out so."""
    command = [BINARY, "bench", "--model", flags.model, "--json", "--repeat", "1", "--batch", str(batch),
               "--prompt-tokens", str(flags.prompt_tokens), "--decode-tokens", str(flags.decode_tokens), "--set",
               "limits.context_tokens=2048", "--set", f"limits.max_sequences={max(batch, 4)}"]
    for key, value in keys.items():
        command += ["--set", f"parallel.{key}={value}"]
    if not keys:
        command += ["--threads", str(flags.ranks)]
    elif launcher:
        command = [*launcher, *command]
    else:
        command += ["--launch", str(flags.ranks), "--threads", "1"]
    done = subprocess.run(command, capture_output=True, text=True, check=False, stdin=subprocess.DEVNULL)
    if done.returncode != 0:
        print(f"# {keys}: {done.stderr.strip().splitlines()[-1] if done.stderr.strip() else done.returncode}")
        return None
    found = json.loads(done.stdout)
    return {phase: found[phase]["tokens_per_second"] for phase in ("prefill", "decode")}


def main():
    flags = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    flags.add_argument("model")
    flags.add_argument("--ranks", type=int, default=2)
    flags.add_argument("--rounds", type=int, default=5)
    flags.add_argument("--batches", default="1,8,32")
    flags.add_argument("--prompt-tokens", type=int, default=512)
    flags.add_argument("--decode-tokens", type=int, default=24)
    flags.add_argument("--delay-ms", type=float, default=0)
    flags.add_argument("--rate", default="")
    flags = flags.parse_args()
    hosts, launcher = None, None
    if flags.delay_ms or flags.rate:
        from ranks import Hosts, why_no_hosts  # pylint: disable=import-outside-toplevel
        if why := why_no_hosts():
            print(f"skipped: there can be no link here, since {why}")
            return
        hosts = Hosts(flags.delay_ms, flags.rate or "100gbit")
        launcher = hosts.launcher()
    try:
        for batch in map(int, flags.batches.split(",")):
            left = arrangements(flags.ranks)
            ratios = {}
            for _ in range(flags.rounds):
                alone = bench(flags, batch, {})
                for name in list(left):
                    found = bench(flags, batch, left[name], launcher)
                    if found is None:
                        del left[name]
                        continue
                    for phase, speed in found.items():
                        ratios.setdefault((name, phase), []).append(speed / alone[phase])
            for (name, phase), values in ratios.items():
                print(f"batch {batch:3} {name:9} {phase:8} {statistics.median(values):5.2f} of one process "
                      f"({min(values):.2f} to {max(values):.2f}, {len(values)} pairs)")
    finally:
        if hosts:
            hosts.__exit__()


if __name__ == "__main__":
    main()
