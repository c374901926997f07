#!/usr/bin/env python3
"""The ways to share a model among processes, against one process with as many threads.

    TENON_BINARY=build/release/bin/tenon bench/parallel/all.py MODEL [--ranks 2] [--rounds 5]
        [--batches 1,8,32] [--prompt-tokens 512] [--delay-ms 0.1] [--rate 10gbit]

Each round runs `tenon bench` in every arrangement, in turn, so that what the machine does meanwhile happens to all of
them. Printed are the medians of the ratios of pairs in one round, their least and their most. The machine must be
otherwise idle.

With --delay-ms or --rate two ranks are hosts of their own, in network name spaces with such a link (as root). Each
arrangement runs over it and over a link without delay and rate, in turn; what docs/parallel.md says of messages and
bytes (table_of) predicts the time of a step over the one from that over the other: the least of all rounds. The model
is then a folder with a plain config.json.
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
    command = [BINARY, "bench", "--model", flags.model, "--json", "--repeat", "1", "--limit-seconds", "0", "--batch",
               str(batch), "--prompt-tokens", str(flags.prompt_tokens), "--decode-tokens", str(flags.decode_tokens), "--set",
               f"limits.context_tokens={flags.context_tokens}", "--set", f"limits.max_sequences={max(batch, 4)}"]
    for key, value in keys.items():
        command += ["--set", f"parallel.{key}={value}"]
    if not keys:
        command += ["--threads", str(flags.ranks)]
    elif launcher:
        command = [*launcher, *command, "--threads", "1"]
    else:
        command += ["--launch", str(flags.ranks), "--threads", "1"]
    done = subprocess.run(command, capture_output=True, text=True, check=False, stdin=subprocess.DEVNULL)
    if done.returncode != 0:
        print(f"# {keys}: {done.stderr.strip().splitlines()[-1] if done.stderr.strip() else done.returncode}")
        return None
    found = json.loads(done.stdout)
    return {phase: found[phase]["tokens_per_second"] for phase in ("prefill", "decode")}


def bits_a_second(text):
    for ending, factor in (("gbit", 1e9), ("mbit", 1e6), ("kbit", 1e3), ("", 1)):
        if text.endswith(ending):
            return int(float(text[:len(text) - len(ending)] or 0) * factor)
    raise ValueError(text)


def table_of(config, way, rows, ranks):
    """[(messages, bytes of one)] that a rank waits for, one after the other, in a step: docs/parallel.md's table."""
    heads = config["num_attention_heads"]
    hidden, layers = config["hidden_size"], config["num_hidden_layers"]
    attended = heads * (config.get("head_dim") or hidden // heads)
    row = lambda elements: 4 * rows * elements
    message = (1, 0)  # that tells the ranks of the step
    ends = [(1, row(config["vocab_size"]) // ranks)]
    if config.get("tie_word_embeddings"):
        ends.append((1, row(hidden) // ranks))
    if way == "tensor":
        widths = (attended, hidden, config["intermediate_size"], hidden)
        return [message, *((layers, row(width) // ranks) for width in widths), *ends]
    if way == "reduce":
        return [message, (2 * layers, row(hidden)), *ends]
    return [(ranks - 1, row(hidden)), (1, row(config["vocab_size"]))]


def seconds_on_the_way(table, one_way_s, bits):
    """A message of more than 64 KiB is announced and asked for first (Open MPI, over TCP)."""
    delays = sum(count * (1 if size <= 65536 else 3) for count, size in table)
    return delays * one_way_s + (sum(count * size for count, size in table) * 8 / bits if bits else 0)


def over_a_link(flags):
    from hosts import Hosts, why_no_hosts  # pylint: disable=import-outside-toplevel
    if why := why_no_hosts():
        print(f"skipped: there can be no link here, since {why}")
        return
    config = json.loads((pathlib.Path(flags.model) / "config.json").read_text())
    bits = bits_a_second(flags.rate)
    with Hosts() as free, Hosts(flags.delay_ms, bits, 1) as linked:
        ways = [host.round_trip_s() / 2 for host in (free, linked)]
        print(f"one way, by TCP: {ways[0] * 1e6:.0f} µs without the link, {ways[1] * 1e6:.0f} µs over it "
              f"({linked.made_by})", flush=True)
        for batch in map(int, flags.batches.split(",")):
            found = {way: [] for way in flags.ways.split(",")}
            for _ in range(flags.rounds):
                for way, times in found.items():
                    keys = arrangements(2)[way]
                    pair = [bench(flags, batch, keys, host.launcher()) for host in (free, linked)]
                    if None in pair:
                        continue
                    times.append([batch / speeds["decode"] for speeds in pair])
            for way, times in found.items():
                if not times:
                    continue
                alone, over = map(min, zip(*times))  # other load adds to it, and takes nothing away
                predicted = alone + seconds_on_the_way(table_of(config, way, batch, 2), ways[1] - ways[0], bits)
                print(f"batch {batch:3} {way:9} a step: {alone * 1e3:7.2f} ms without the link, {predicted * 1e3:7.2f} "
                      f"predicted, {over * 1e3:7.2f} measured: {over / predicted:.3f} of it (least of {len(times)} rounds)",
                      flush=True)


def main():
    flags = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    flags.add_argument("model")
    flags.add_argument("--ranks", type=int, default=2)
    flags.add_argument("--rounds", type=int, default=5)
    flags.add_argument("--batches", default="1,8,32")
    flags.add_argument("--prompt-tokens", type=int, default=512)
    flags.add_argument("--decode-tokens", type=int, default=24)
    flags.add_argument("--delay-ms", type=float, default=0)
    flags.add_argument("--rate", default="0", help="bits a second, as in 10gbit; 0: any")
    flags.add_argument("--ways", default="tensor,reduce,pipeline", help="of those over a link")
    flags.add_argument("--context-tokens", type=int, default=2048)
    flags = flags.parse_args()
    if flags.delay_ms or bits_a_second(flags.rate):
        over_a_link(flags)
        return
    for batch in map(int, flags.batches.split(",")):
        left = arrangements(flags.ranks)
        ratios = {}
        for _ in range(flags.rounds):
            alone = bench(flags, batch, {})
            for name in list(left):
                found = bench(flags, batch, left[name])
                if found is None:
                    del left[name]
                    continue
                for phase, speed in found.items():
                    ratios.setdefault((name, phase), []).append(speed / alone[phase])
        for (name, phase), values in ratios.items():
            print(f"batch {batch:3} {name:9} {phase:8} {statistics.median(values):5.2f} of one process "
                  f"({min(values):.2f} to {max(values):.2f}, {len(values)} pairs)")


if __name__ == "__main__":
    main()
