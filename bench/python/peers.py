#!/usr/bin/env python3
"""Tenon's Python package next to others on one GGUF file, through the API of each: bench/python/peers.py FILE.gguf

Each program is a process that keeps its model open, and they are asked in turns. A work is either one prompt whose answer
comes in pieces, or several prompts at once. Prompts are ids that are drawn anew each time, so that no cache of prompts
helps; answers are greedy and as long as was asked for. What is not installed is left out, and said.
"""

import argparse
import json
import random
import statistics
import subprocess
import sys
import threading
import time

PEERS = {"tenon": "tenon", "llama-cpp-python": "llama_cpp", "xllamacpp": "xllamacpp", "openvino-genai": "openvino_genai"}


def ids(seed, count):
    return random.Random(seed).choices(range(5, 250), k=count)


class Tenon:
    def __init__(self, given):
        import tenon
        self.tenon = tenon
        self.llm = tenon.LLM(given.file, threads=given.threads, max_model_len=given.context, max_num_seqs=given.batch)

    def params(self, tokens):
        return self.tenon.SamplingParams(temperature=0, ignore_eos=True, max_tokens=tokens)

    def stream(self, prompt, tokens):
        for delta in self.llm.stream(prompt, self.params(tokens)):
            yield len(delta.token_ids)

    def batch(self, prompts, tokens):
        outputs = self.llm.generate(prompts, self.params(tokens), use_tqdm=False)
        return sum(len(output.outputs[0].token_ids) for output in outputs)


class LlamaCpp:
    """llama-cpp-python, which answers one prompt after the other."""

    def __init__(self, given):
        from llama_cpp import Llama
        self.llama = Llama(given.file, n_ctx=given.context, n_threads=given.threads, n_threads_batch=given.threads,
                           verbose=False, flash_attn=True)

    def stream(self, prompt, tokens):
        self.llama.reset()
        made = 0
        for _ in self.llama.generate(prompt, temp=0.0, reset=True):
            yield 1
            made += 1
            if made == tokens:
                return

    def batch(self, prompts, tokens):
        return sum(sum(self.stream(prompt, tokens)) for prompt in prompts)


class Xllamacpp:
    def __init__(self, given):
        import xllamacpp
        params = xllamacpp.CommonParams()
        params.model.path = given.file
        params.n_parallel = given.batch
        params.n_ctx = given.context * given.batch
        params.cpuparams.n_threads = params.cpuparams_batch.n_threads = given.threads
        params.cache_ram_mib = 0
        params.verbosity = 0
        params.fit_params = False
        self.server = xllamacpp.Server(params)

    def asked(self, prompt, tokens, callback=None):
        asked = {"prompt": prompt, "n_predict": tokens, "temperature": 0, "ignore_eos": True, "cache_prompt": False,
                 "stream": callback is not None}
        return self.server.handle_completions(asked, *([callback] if callback else []))

    def stream(self, prompt, tokens):
        """Its callbacks come while it is asked; when each came is kept, and told afterwards."""
        came = []
        self.asked(prompt, tokens, lambda _: came.append(time.monotonic()))
        yield from came[:1]

    def batch(self, prompts, tokens):
        made = []
        threads = [threading.Thread(target=lambda prompt=prompt: made.append(self.asked(prompt, tokens)))
                   for prompt in prompts]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        return sum(one["usage"]["completion_tokens"] for one in made)


class OpenVino:
    def __init__(self, given):
        import numpy
        import openvino
        import openvino_genai
        self.numpy, self.openvino, self.genai = numpy, openvino, openvino_genai
        self.pipe = openvino_genai.LLMPipeline(given.openvino or given.file, "CPU", INFERENCE_NUM_THREADS=given.threads)

    def config(self, tokens):
        return self.genai.GenerationConfig(do_sample=False, ignore_eos=True, max_new_tokens=tokens)

    def inputs(self, prompts):
        rows = self.numpy.array(prompts)
        return self.genai.TokenizedInputs(self.openvino.Tensor(rows), self.openvino.Tensor(self.numpy.ones_like(rows)))

    def stream(self, prompt, tokens):
        came, genai = [], self.genai

        class Streamer(genai.StreamerBase):
            def write(self, _):
                came.append(time.monotonic())
                return genai.StreamingStatus.RUNNING

            def end(self):
                pass

        self.pipe.generate(self.inputs([prompt]), self.config(tokens), Streamer())
        yield from came[:1]

    def batch(self, prompts, tokens):
        return sum(map(len, self.pipe.generate(self.inputs(prompts), self.config(tokens)).tokens))


def serve(given):
    kinds = {"tenon": Tenon, "llama-cpp-python": LlamaCpp, "xllamacpp": Xllamacpp, "openvino-genai": OpenVino}
    side = kinds[given.serve](given)
    print("ready", flush=True)
    for line in sys.stdin:
        kind, seed, count, prompt, tokens = line.split()[0], *map(int, line.split()[1:])
        prompts = [ids(seed * 1000 + number, prompt) for number in range(count)]
        begin = time.monotonic()
        if kind == "stream":
            first = None
            for piece in side.stream(prompts[0], tokens):
                # Of those whose pieces come by a callback, a piece is the time when it came.
                first = first or (piece - begin if isinstance(piece, float) else time.monotonic() - begin)
            print(json.dumps({"first": first, "total": time.monotonic() - begin}), flush=True)
        else:
            made = side.batch(prompts, tokens)
            print(json.dumps({"total": time.monotonic() - begin, "tokens": made}), flush=True)


class Side:
    def __init__(self, name, python, given):
        options = [given.file, "--serve", name, "--threads", given.threads, "--batch", given.batch, "--context", given.context,
                   "--openvino", given.openvino]
        self.name = name
        self.process = subprocess.Popen([python, __file__, *map(str, options)], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                        text=True)
        self.answer(lambda line: line == "ready\n")

    def answer(self, wanted):
        for line in self.process.stdout:  # some programs print lines of their own
            if wanted(line):
                return line
        sys.exit(f"peers: {self.name} ended with {self.process.wait()}")

    def ask(self, *words):
        self.process.stdin.write(" ".join(map(str, words)) + "\n")
        self.process.stdin.flush()
        return json.loads(self.answer(lambda line: line.startswith('{"')))

    def close(self):
        self.process.stdin.close()
        self.process.wait()


def ratio(ours, theirs):
    """Theirs / ours, of seconds, with its interval."""
    lines = "".join(f"{mine!r},{other!r}\n" for mine, other in zip(ours, theirs, strict=True))
    done = subprocess.run([sys.executable, "-m", "tenon", "compare", "pairs", "-", "--once", "--json"], input=lines, text=True,
                          capture_output=True, check=True)
    return json.loads(done.stdout)["ratio"]


def main():
    options = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    options.add_argument("file", help="a GGUF file that all of them read")
    options.add_argument("--openvino", default="", help="a folder of OpenVINO's own files, if not the GGUF file")
    options.add_argument("--peers", nargs="+", default=[name for name in PEERS if name != "tenon"], choices=PEERS)
    options.add_argument("--peer-python", default=sys.executable, help="the Python that has the peers (default: this one)")
    options.add_argument("--threads", type=int, default=2)
    options.add_argument("--pairs", type=int, default=6)
    options.add_argument("--prompt", type=int, default=256, help="tokens")
    options.add_argument("--tokens", type=int, default=64, help="of an answer")
    options.add_argument("--batch", type=int, default=8)
    options.add_argument("--context", type=int, default=512)
    options.add_argument("--serve", choices=PEERS, help=argparse.SUPPRESS)
    given = options.parse_args()
    if given.serve:
        return serve(given)
    sides = [Side("tenon", sys.executable, given)]
    for name in given.peers:
        there = subprocess.run([given.peer_python, "-c", f"import {PEERS[name]}"], check=False, capture_output=True)
        if there.returncode == 0:
            sides.append(Side(name, given.peer_python, given))
        else:
            print(f"left out: {name} is not installed")
    found = {side.name: {"first": [], "rest": [], "batch": []} for side in sides}
    for number in range(given.pairs + 1):
        for side in sides if number % 2 else reversed(sides):
            streamed = side.ask("stream", number, 1, given.prompt, given.tokens)
            together = side.ask("batch", number, given.batch, 16, given.tokens)
            if together["tokens"] != given.batch * given.tokens:
                sys.exit(f"peers: {side.name} gave {together['tokens']} tokens")
            if number:  # the first time does not count
                found[side.name]["first"].append(streamed["first"])
                found[side.name]["rest"].append((streamed["total"] - streamed["first"]) / (given.tokens - 1))
                found[side.name]["batch"].append(together["total"])
    names = {"first": f"seconds to the first token after {given.prompt}", "rest": "seconds of each further token",
             "batch": f"seconds of {given.batch} answers of {given.tokens} tokens at once"}
    for kind, title in names.items():
        print(title)
        for side in sides:
            times = found[side.name][kind]
            said = "" if side.name == "tenon" else json.dumps(ratio(found["tenon"][kind], times))
            print(f"  {side.name}: {statistics.median(times):.4f} {said}", flush=True)
    for side in sides:
        side.close()
    return 0


if __name__ == "__main__":
    sys.exit(main())
