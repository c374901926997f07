"""llama.cpp or ik_llama.cpp as a wheel: a Python package that has the library with it, as PyPI's
ik-llama-cpp-python has, or the llama-cpp-python that you built. Run as a program: one piece.

Nothing is compiled, so a peer costs a minute. The library is one for many processors: what it was
compiled for decides how fast it is, which the tables say by its name.
"""

import argparse
import ctypes
import importlib
import importlib.metadata
import json
import pathlib
import statistics
import subprocess
import time

from engines import Engine, Failure, last_lines, number, parse_json

# Package of the index: module of the C interface.
PACKAGES = {"ik-llama-cpp-python": "ik_llama_cpp._ctypes_api", "llama-cpp-python": "llama_cpp.llama_cpp"}
MOST_TOKENS = 2048  # of one call


class Wheel(Engine):
    """`python`: of the environment that has one of PACKAGES."""

    def __init__(self, python, threads, timeout):
        super().__init__("", threads, timeout)
        self.python = python
        try:
            done = subprocess.run([python, pathlib.Path(__file__).resolve(), "--which"], text=True,
                                  capture_output=True, check=False, stdin=subprocess.DEVNULL)
        except OSError as error:
            raise Failure(f"{python} cannot be started: {error.strerror}") from error
        if done.returncode != 0:
            raise Failure(f"'{python}' is no Python with one of {', '.join(PACKAGES)}: "
                          f"{last_lines(done.stderr)}; install one there, or leave --wheel out")
        package, version = done.stdout.split()
        is_ik = package.startswith("ik")
        self.name = f"{'ik_' if is_ik else ''}llama.cpp ({package} {version})"
        choices = [("--flash",), ()]
        if is_ik:
            choices += [("--flash", "--repack"), ("--flash", "--repack", "--merge")]
        self.settings = {"decode": choices, "prefill": choices}

    def can(self, work):
        return work.kind in ("decode", "prefill", "verify")

    def cost(self, work, file, setting=(), brief=False):
        repeat = 1 if brief else work.repeat
        if work.kind == "verify":
            one, several = (self.seconds("decode", work, file, batch, repeat, setting)
                            for batch in (1, work.tokens))
            return several / one
        return self.seconds(work.kind, work, file, work.batch, repeat, setting)

    def seconds(self, kind, work, file, batch, repeat, setting):
        prompt = work.tokens if kind == "prefill" else max(work.context, 16)
        done = self.run([self.python, pathlib.Path(__file__).resolve(), "--file", file,
                         "--threads", self.threads, "--batch", batch, "--prompt-tokens", prompt,
                         "--decode-tokens", 0 if kind == "prefill" else work.steps,
                         "--repeat", repeat, *setting])
        return number(parse_json(done).get(kind), done, kind)


def installed():
    """(package, version, its C interface)."""
    for package, module in PACKAGES.items():
        try:
            return package, importlib.metadata.version(package), importlib.import_module(module)
        except importlib.metadata.PackageNotFoundError:
            continue
    raise SystemExit(f"none of {', '.join(PACKAGES)} is installed here")


class Context:
    """A model in one context, and calls that compute rows of it."""

    def __init__(self, api, flags):
        self.api, self.batch_rows = api, flags.batch
        api.llama_backend_init()
        model_params = api.llama_model_default_params()
        model_params.n_gpu_layers = 0
        for member, value in (("repack_tensors", flags.repack), ("merge_qkv", flags.merge)):
            if value:
                setattr(model_params, member, True)
        self.model = api.llama_model_load_from_file(str(flags.file).encode(), model_params)
        if not self.model:
            raise SystemExit(f"{flags.file} cannot be loaded")
        params = api.llama_context_default_params()
        each = -(-(flags.prompt_tokens + flags.decode_tokens + 1) // 256) * 256
        params.n_ctx, params.n_seq_max = each * flags.batch, flags.batch
        params.n_batch, params.n_ubatch = MOST_TOKENS, 512
        params.n_threads = params.n_threads_batch = flags.threads
        if hasattr(params, "flash_attn_type"):
            params.flash_attn_type = int(flags.flash)
        else:
            params.flash_attn = flags.flash
        self.context = api.llama_init_from_model(self.model, params)
        if not self.context:
            raise SystemExit("no context can be made with these settings")
        self.rows = api.llama_batch_init(MOST_TOKENS, 0, 1)

    def clear(self):
        if hasattr(self.api, "llama_memory_clear"):
            self.api.llama_memory_clear(self.api.llama_get_memory(self.context), True)
        else:
            self.api.llama_kv_cache_clear(self.context)

    def compute(self, rows):
        """rows: (sequence, position, whether its logits are wanted). Ends once they are there."""
        for at, (sequence, position, wanted) in enumerate(rows):
            self.rows.token[at] = 5 + (7 * position + 31 * sequence) % 200
            self.rows.pos[at], self.rows.n_seq_id[at] = position, 1
            self.rows.seq_id[at][0], self.rows.logits[at] = sequence, wanted
        self.rows.n_tokens = len(rows)
        if self.api.llama_decode(self.context, self.rows) != 0:
            raise SystemExit("a step failed")
        ctypes.cast(self.api.llama_get_logits_ith(self.context, len(rows) - 1),
                    ctypes.POINTER(ctypes.c_float))[0]

    def prompts(self, tokens):
        for sequence in range(self.batch_rows):
            for first in range(0, tokens, MOST_TOKENS):
                last = min(first + MOST_TOKENS, tokens)
                self.compute([(sequence, at, at + 1 == last) for at in range(first, last)])

    def step(self, position):
        self.compute([(sequence, position, True) for sequence in range(self.batch_rows)])


def piece(flags):
    """Median seconds of the prompts, and of a step after them, over the repetitions."""
    _, _, api = installed()
    context = Context(api, flags)
    prompts, steps = [], []
    for repeat in range(flags.repeat + 1):
        context.clear()
        start = time.monotonic()
        context.prompts(flags.prompt_tokens)
        middle = time.monotonic()
        for step in range(flags.decode_tokens if repeat > 0 else min(flags.decode_tokens, 2)):
            context.step(flags.prompt_tokens + step)
        if repeat > 0:  # the first one warms up
            prompts.append(middle - start)
            steps.append((time.monotonic() - middle) / max(flags.decode_tokens, 1))
    print(json.dumps({"prefill": statistics.median(prompts), "decode": statistics.median(steps)}))


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--which", action="store_true", help="print package and version only")
    parser.add_argument("--file", type=pathlib.Path)
    for name in ("threads", "batch", "prompt-tokens", "decode-tokens", "repeat"):
        parser.add_argument(f"--{name}", type=int, default=1)
    for name in ("flash", "repack", "merge"):
        parser.add_argument(f"--{name}", action="store_true")
    flags = parser.parse_args()
    if flags.which:
        print(*installed()[:2])
    else:
        piece(flags)


if __name__ == "__main__":
    main()
