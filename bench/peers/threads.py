#!/usr/bin/env python3
"""How much a second thread helps, or harms, beside other busy processes.

    bench/peers/threads.py --busy 0 4 8 20 --shapes tale smollm-135m llama-3.2-1b

For each load and shape one thread, two threads and, with --against, another build with two threads
generate the same tokens in turns, each in a process of its own. Printed are the medians of the time
from the first step to the last, and how fast two threads are against the better of one and two of
the same round: 1 means that the second thread was never in the way. Logits must be the same bits.
"""

import argparse
import json
import pathlib
import statistics
import sys

from engines import Busy, Failure, Finished, Tenon
from peers import ROOT, Checkpoints, Work


def generate(program, model, threads, tokens, timeout):
    """(seconds, digest) of `tokens` tokens."""
    done = Finished([program, "run", "The old witch", "--model", model, "--max-tokens", tokens,
                     "--ignore-eos", "--no-echo", "--json", "--threads", threads,
                     "--set", "limits.context_tokens=512", "--set", "limits.max_sequences=1"],
                    timeout)
    answer = json.loads(done.output)
    return answer["totals"]["seconds"], answer["requests"][0]["digest"]


def measure(flags, shape, busy, model):
    """Seconds by name; a list of one value a round each."""
    programs = {"1 thread": (flags.tenon, 1), "2 threads": (flags.tenon, 2)}
    if flags.against:
        programs["the other build, 2 threads"] = (flags.against, 2)
    seconds, digests = {name: [] for name in programs}, set()
    for turn in range(flags.rounds):
        names = list(programs) if turn % 2 == 0 else list(programs)[::-1]
        for name in names:
            with Busy(busy):
                took, digest = generate(programs[name][0], model, programs[name][1], flags.tokens,
                                        flags.timeout)
            seconds[name].append(took)
            digests.add(digest)
    if len(digests) > 1:
        raise Failure(f"{shape}: logits differ between numbers of threads or builds "
                      f"({', '.join(sorted(digests))}); compare builds of one numerics id")
    return seconds


def show(shape, busy, seconds):
    shares = [min(one, two) / two for one, two in zip(seconds["1 thread"], seconds["2 threads"])]
    line = [f"{name} {1000 * statistics.median(each):.0f} ms" for name, each in seconds.items()]
    print(f"{shape}, {busy} busy: {', '.join(line)}; two threads at "
          f"{statistics.median(shares):.2f} of the better of one and two", flush=True)


def arguments():
    lines = __doc__.splitlines()
    parser = argparse.ArgumentParser(description=lines[0], epilog="\n".join(lines[2:]),
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    add = parser.add_argument
    add("--tenon", default=str(ROOT / "build/release/bin/tenon"), help="default: %(default)s")
    add("--against", metavar="TENON", help="another build, to compare two threads with")
    add("--models", default=str(ROOT / "build/peers"), metavar="FOLDER",
        help="where checkpoints are made and kept (default: %(default)s)")
    add("--shapes", nargs="+", default=["tale"], metavar="SHAPE", help="of `tenon model synth`")
    add("--type", default="bf16", help="of the weights (default: bf16)")
    add("--busy", nargs="+", type=int, default=[0, 4, 8, 20], metavar="N",
        help="processes that compute all the time beside it (default: 0 4 8 20)")
    add("--tokens", type=int, default=48, help="generated each time (default: 48)")
    add("--rounds", type=int, default=7, help="of all programs in turns (default: 7)")
    add("--timeout", type=float, default=900, help="seconds for one program (default: 900)")
    flags = parser.parse_args()
    if flags.rounds < 1 or flags.tokens < 2 or min(flags.busy) < 0:
        parser.error("expected --rounds 1 or more, --tokens 2 or more, --busy 0 or more")
    return flags


def main():
    flags = arguments()
    try:
        tenon = Tenon(flags.tenon, 2, flags.timeout, [])
        for shape in flags.shapes:
            work = Work({"name": "decode", "kind": "decode", "shape": shape}, flags.type)
            model = Checkpoints(tenon, pathlib.Path(flags.models)).file(work)
            for busy in flags.busy:
                show(shape, busy, measure(flags, shape, busy, model))
    except Failure as failure:
        sys.exit(f"threads.py: {failure}")
    except KeyboardInterrupt:
        sys.exit(130)


if __name__ == "__main__":
    main()
