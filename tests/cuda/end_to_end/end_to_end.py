#!/usr/bin/env python3
"""The program on the executor `cuda`, from outside: `tenon run`, `tenon model logits` and
`tenon serve` against the executors `ref` and `cpu`, against logits that transformers made, and
against themselves.

    tests/cuda/end_to_end/end_to_end.py --tenon build/cuda/bin/tenon
    tests/cuda/end_to_end/end_to_end.py --tenon build/dev/bin/tenon --executor cpu   without a GPU

The program is that of a build or of an installation, with its plugins and the executor; models come
from the source folder. TENON_BINARY and TENON_SOURCE_DIR say where both are, too. A line a check:
ok, DIFFERS or FAILED, its seconds, its name, what was seen. Exit status 1 where one is not ok.

model_checks.py says what is held against others and within what, strategy_checks.py what has the
same bits, server_check.py what a server's clients get.
"""
import argparse
import concurrent.futures
import os
import pathlib
import sys
import tempfile
import time

from answers import Different
from model_checks import ModelChecks
from program import Broken, Tenon
from server_check import ServerCheck
from strategy_checks import Baseline, StrategyChecks

ROOT = pathlib.Path(__file__).resolve().parents[3]


def all_checks(tenon):
    """(name, check) of each; first the baseline, which others wait for."""
    baseline = Baseline(tenon)
    yield "tale: baseline, plain steps", baseline.check
    for checks in (ServerCheck(tenon, baseline), ModelChecks(tenon),
                   StrategyChecks(tenon, baseline)):
        yield from checks.all()


def perform(tenon, name, check):
    """Prints how the check went; whether it is ok."""
    began = time.monotonic()
    try:
        if tenon.left() <= 0:
            raise Broken("there was no time left")
        state, seen = "ok", check()
    except Different as different:
        state, seen = "DIFFERS", different
    except Exception as error:  # so that the other checks go on
        state = "FAILED"
        seen = error if isinstance(error, Broken) else f"{type(error).__name__}: {error}"
    # One write, as other checks print too.
    sys.stdout.write(f"{state:7} {time.monotonic() - began:5.1f} s  {name}: {seen}\n")
    sys.stdout.flush()
    return state == "ok"


def passes(tenon, jobs, word):
    """Whether all checks are ok whose name has the word, so many of them at a time."""
    began = time.monotonic()
    chosen = [check for check in all_checks(tenon) if word in check[0]]
    if not chosen:
        sys.exit(f"no check has {word!r} in its name")
    with concurrent.futures.ThreadPoolExecutor(jobs) as pool:
        results = list(pool.map(lambda check: perform(tenon, *check), chosen))
    if tenon.warnings:
        print("the program logged:")
        print("\n".join("\n".join(tenon.warnings).splitlines()[:20]))
    print(f"{sum(results)} of {len(results)} ok, {time.monotonic() - began:.0f} s")
    return all(results)


def flags():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tenon", type=pathlib.Path, help="default: build/cuda/bin/tenon",
                        default=os.environ.get("TENON_BINARY", ROOT / "build/cuda/bin/tenon"))
    parser.add_argument("--source", type=pathlib.Path, help="default: where this file is",
                        default=os.environ.get("TENON_SOURCE_DIR", ROOT))
    parser.add_argument("--executor", default="cuda", help="default: cuda")
    parser.add_argument("--only", default="", metavar="WORD", help="checks with it in their names")
    parser.add_argument("--jobs", type=int, default=6, help="checks at a time; default: 6")
    parser.add_argument("--seconds", type=float, default=90,
                        help="for all; checks that come later fail; default: 90")
    parser.add_argument("--call-seconds", type=float, default=60,
                        help="for one call of the program; default: 60")
    parser.add_argument("--keep", type=pathlib.Path, metavar="FOLDER",
                        help="for requests, logits and the server's log, which else are removed")
    return parser.parse_args()


def main():
    given = flags()
    if not os.access(given.tenon, os.X_OK) or given.tenon.is_dir():
        sys.exit(f"{given.tenon} is not a program; build tenon, or say where it is with --tenon")
    if not (given.source / "configs/models/tale").is_dir():
        sys.exit(f"{given.source} has no configs/models/tale; say with --source where the source "
                 "folder is")
    with tempfile.TemporaryDirectory() as folder:
        if given.keep:
            given.keep.mkdir(parents=True, exist_ok=True)
        tenon = Tenon(given.tenon.resolve(), given.source.resolve(),
                      (given.keep or pathlib.Path(folder)).resolve(), given.executor,
                      given.seconds, given.call_seconds)
        return 0 if passes(tenon, given.jobs, given.only) else 1


if __name__ == "__main__":
    sys.exit(main())
