#!/usr/bin/env python3
"""What the Python package costs, next to the same calls made in C++: bench/python/overhead.py

Run it with the Python that has tenon. It compiles direct.cc against the installed package and loads it, so that both
ask one engine, whose threads and memory are the same: for 32 answers at once, and for one answer in pieces, from a
thread and from an event loop. Pairs are A B, B A, …; a ratio is that of `tenon compare pairs`, and costs per token are
means of the differences of pairs. `own` is the processor time of the thread that asks, which a busy machine does not
stretch: what it has more of in Python is the most that Python can cost.
"""

import argparse
import asyncio
import ctypes
import json
import pathlib
import statistics
import subprocess
import sys
import tempfile
import time

HERE = pathlib.Path(__file__).resolve().parent


def settings(tokens, **more):
    from tenon import SamplingParams
    return SamplingParams(temperature=0, ignore_eos=True, max_tokens=tokens, **more)


class Direct:
    """direct.cc, compiled against the headers and the library of the installed package."""

    def __init__(self, folder):
        from tenon.opening import PREFIX
        library = next((PREFIX / "lib").rglob("libtenon.so.*"))
        made = folder / "direct.so"
        subprocess.run(["c++", "-std=c++17", "-O2", "-shared", "-fPIC", HERE / "direct.cc", "-o", made,
                        f"-I{PREFIX / 'include'}", library, f"-Wl,-rpath,{library.parent}"], check=True)
        self.library = ctypes.CDLL(str(made))

    def __call__(self, engine, name, *numbers):
        work = getattr(self.library, name)
        work.restype = ctypes.c_double
        own = ctypes.c_double()
        took = work(ctypes.c_void_p(engine.address()), *map(ctypes.c_int, numbers), ctypes.byref(own))
        if took < 0:
            sys.exit(f"overhead: {name} failed in C++")
        return took, own.value


def batch(llm, count, tokens):
    outputs = llm.generate([f"The {i}. king" for i in range(count)], settings(tokens), use_tqdm=False)
    return sum(len(output.outputs[0].token_ids) for output in outputs)


def stream(llm, tokens):
    return sum(len(delta.token_ids) for delta in llm.stream("The king", settings(tokens)))


def gather(llm, tokens):
    from tenon import RequestOutputKind

    async def gathered():
        params = settings(tokens, output_kind=RequestOutputKind.DELTA)
        return sum([len(output.outputs[0].token_ids) async for output in llm.generate("The king", params)])
    return asyncio.run(gathered())


def timed(work, llm, *numbers):
    began, own = time.monotonic(), time.thread_time()
    made = work(llm, *numbers)
    own, took = time.thread_time() - own, time.monotonic() - began
    asked = numbers[0] * (numbers[1] if len(numbers) > 1 else 1)
    if made != asked:
        sys.exit(f"overhead: {made} tokens were made, and {asked} asked for")
    return took, own


def measured(ours, theirs, pairs, seconds):
    """((seconds, own) of Python, of C++) for each pair, after one that does not count. It ends after `seconds`."""
    found = []
    until = time.monotonic() + seconds
    while len(found) <= pairs and (len(found) < 3 or time.monotonic() < until):
        if len(found) % 2:
            second = theirs()
            found.append((ours(), second))
        else:
            found.append((ours(), theirs()))
    return found[1:]


def ratio(pairs):
    """Python / C++ with its interval."""
    lines = "".join(f"{theirs[0]!r},{ours[0]!r}\n" for ours, theirs in pairs)
    done = subprocess.run([sys.executable, "-m", "tenon", "compare", "pairs", "-", "--once", "--json"], input=lines, text=True,
                          capture_output=True, check=True)
    return json.loads(done.stdout)["ratio"]


def tell_batch(pairs, count, tokens):
    took = statistics.median(theirs[0] for _, theirs in pairs)
    more = statistics.median(ours[1] - theirs[1] for ours, theirs in pairs)
    whole = sum(ours[0] for ours, _ in pairs) / sum(theirs[0] for _, theirs in pairs)
    print(f"batch {count}, {tokens} tokens each, {len(pairs)} pairs: {took:.4f} s in C++, Python / C++ = "
          f"{json.dumps(ratio(pairs))}, of the sums {whole:.4f}; own {statistics.median(theirs[1] for _, theirs in pairs) * 1e3:.2f} ms "
          f"in C++, in Python {more * 1e3:+.2f} ms = {more / took:+.2%} of the batch", flush=True)


def tell_stream(kind, pairs, tokens):
    costs = [(ours[0] - theirs[0]) / tokens * 1e6 for ours, theirs in pairs]
    own = statistics.median((ours[1] - theirs[1]) / tokens * 1e6 for ours, theirs in pairs)
    took = statistics.median(theirs[0] for _, theirs in pairs) / tokens * 1e6
    print(f"{kind}, {tokens} tokens, {len(pairs)} pairs: {took:.1f} µs a token in C++, Python adds "
          f"{statistics.mean(costs):.1f} ± {statistics.stdev(costs) / len(costs) ** 0.5:.1f} µs (standard error; median "
          f"{statistics.median(costs):.1f}); own {own:+.2f} µs", flush=True)


def main():
    options = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    options.add_argument("--model", default="", help="a folder or a GGUF file (default: the bundled model)")
    options.add_argument("--threads", type=int, default=2)
    options.add_argument("--pairs", type=int, default=200)
    options.add_argument("--seconds", type=float, default=120, help="of each work, at most")
    options.add_argument("--batch", type=int, default=32)
    options.add_argument("--tokens", type=int, default=128, help="of each answer of a batch")
    options.add_argument("--streamed", type=int, default=1000, help="tokens of an answer in pieces")
    options.add_argument("--works", default="batch,stream,async")
    given = options.parse_args()
    if given.pairs < 2:
        options.error("--pairs: expected 2 or more")
    works = given.works.split(",")
    if unknown := set(works) - {"batch", "stream", "async"}:
        options.error(f"--works: no work is called {min(unknown)}")
    from tenon import LLM, AsyncLLM
    with tempfile.TemporaryDirectory() as folder:
        direct = Direct(pathlib.Path(folder))
        for work in works:
            llm = (AsyncLLM if work == "async" else LLM)(given.model or None, threads=given.threads)
            engine = llm.current_engine()
            if work == "batch":
                numbers = (given.batch, given.tokens)
                pairs = measured(lambda: timed(batch, llm, *numbers), lambda: direct(engine, "batch", *numbers), given.pairs,
                                 given.seconds)
                tell_batch(pairs, *numbers)
            else:
                ours = stream if work == "stream" else gather
                pairs = measured(lambda: timed(ours, llm, given.streamed), lambda: direct(engine, "stream", given.streamed),
                                 given.pairs, given.seconds)
                tell_stream(work, pairs, given.streamed)
            llm.close()
    return 0


if __name__ == "__main__":
    sys.exit(main())
