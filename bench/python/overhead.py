#!/usr/bin/env python3
"""What the Python package costs, against a program in C++ over the same library: bench/python/overhead.py

Run it with the Python that has tenon. It compiles direct.cc against the installed package, and asks that program and
one in Python in turns: for 32 answers at once, and for one answer in pieces, from a thread and from an event loop. Both
keep their model open. A ratio is that of `tenon compare pairs`; costs per token are means of differences of pairs.
"""

import argparse
import asyncio
import json
import pathlib
import statistics
import subprocess
import sys
import tempfile
import time

HERE = pathlib.Path(__file__).resolve().parent


def settings(tokens):
    from tenon import SamplingParams
    return SamplingParams(temperature=0, ignore_eos=True, max_tokens=tokens)


def serve(model, threads):
    """The other side of direct.cc, and its works for coroutines."""
    from tenon import AsyncLLM, LLM, RequestOutputKind
    llm = LLM(model or None, threads=threads)
    coroutines = None

    def batch(count, tokens):
        outputs = llm.generate([f"The {i}. king" for i in range(count)], settings(tokens), use_tqdm=False)
        assert sum(len(output.outputs[0].token_ids) for output in outputs) == count * tokens

    def stream(tokens):
        assert sum(len(delta.token_ids) for delta in llm.stream("The king", settings(tokens))) == tokens

    async def gather(tokens):
        params = settings(tokens)
        params.output_kind = RequestOutputKind.DELTA
        return sum([len(output.outputs[0].token_ids) async for output in coroutines.generate("The king", params)])

    for line in sys.stdin:
        kind, *numbers = line.split()
        if kind == "async" and coroutines is None:
            llm.close()
            coroutines = AsyncLLM(model or None, threads=threads)
        begin = time.monotonic()
        if kind == "batch":
            batch(*map(int, numbers))
        elif kind == "stream":
            stream(*map(int, numbers))
        else:
            assert asyncio.run(gather(*map(int, numbers))) == int(numbers[0])
        print(time.monotonic() - begin, flush=True)


def compiled(folder):
    """direct.cc against the headers and the library of the installed package."""
    from tenon.opening import PREFIX
    library = next((PREFIX / "lib").rglob("libtenon.so.*"))
    program = folder / "direct"
    subprocess.run(["c++", "-std=c++17", "-O2", HERE / "direct.cc", "-o", program, f"-I{PREFIX / 'include'}", library,
                    f"-Wl,-rpath,{library.parent}"], check=True)
    return program


class Side:
    def __init__(self, *command):
        self.process = subprocess.Popen([*map(str, command)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def seconds(self, *work):
        self.process.stdin.write(" ".join(map(str, work)) + "\n")
        self.process.stdin.flush()
        line = self.process.stdout.readline()
        if not line:
            sys.exit(f"overhead: {self.process.args[0]} ended with {self.process.wait()}")
        return float(line)

    def close(self):
        self.process.stdin.close()
        self.process.wait()


def measured(ours, direct, work, theirs, pairs):
    """(seconds of Python, seconds of C++) for each pair, A B, B A, …, after one of each that does not count."""
    found = []
    for number in range(pairs + 1):
        if number % 2:
            theirs_took = direct.seconds(*theirs)
            pair = (ours.seconds(*work), theirs_took)
        else:
            pair = (ours.seconds(*work), direct.seconds(*theirs))
        found.append(pair)
    return found[1:]


def ratio(pairs):
    """Python / C++ with its interval."""
    lines = "".join(f"{direct!r},{ours!r}\n" for ours, direct in pairs)
    done = subprocess.run([sys.executable, "-m", "tenon", "compare", "pairs", "-", "--once", "--json"], input=lines, text=True,
                          capture_output=True, check=True)
    return json.loads(done.stdout)["ratio"]


def main():
    options = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    options.add_argument("--model", default="", help="a folder or a GGUF file (default: the bundled model)")
    options.add_argument("--threads", type=int, default=2)
    options.add_argument("--pairs", type=int, default=30)
    options.add_argument("--batch", type=int, default=32)
    options.add_argument("--tokens", type=int, default=128, help="of each answer of a batch")
    options.add_argument("--streamed", type=int, default=1000, help="tokens of an answer in pieces")
    options.add_argument("--serve", action="store_true", help=argparse.SUPPRESS)
    given = options.parse_args()
    if given.serve:
        return serve(given.model, given.threads)
    if given.pairs < 2:
        options.error("--pairs: expected 2 or more")
    with tempfile.TemporaryDirectory() as folder:
        direct = Side(compiled(pathlib.Path(folder)), given.model, given.threads)
        ours = Side(sys.executable, __file__, "--serve", "--model", given.model, "--threads", given.threads)
        work = ("batch", given.batch, given.tokens)
        pairs = measured(ours, direct, work, work, given.pairs)
        found = ratio(pairs)
        print(f"batch {given.batch}, {given.tokens} tokens each: {statistics.median(one for _, one in pairs):.3f} s in C++, "
              f"Python / C++ = {json.dumps(found)}", flush=True)
        for kind in ("stream", "async"):
            pairs = measured(ours, direct, (kind, given.streamed), ("stream", given.streamed), given.pairs)
            costs = [(one - other) / given.streamed * 1e6 for one, other in pairs]
            direct_took = statistics.median(one for _, one in pairs) / given.streamed
            print(f"{kind}, {given.streamed} tokens: {direct_took * 1e6:.1f} µs a token in C++, Python adds "
                  f"{statistics.mean(costs):.1f} ± {statistics.stdev(costs) / len(costs) ** 0.5:.1f} µs "
                  f"(standard error; median {statistics.median(costs):.1f})", flush=True)
        for side in (ours, direct):
            side.close()
    return 0


if __name__ == "__main__":
    sys.exit(main())
