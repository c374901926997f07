#!/usr/bin/env python3
"""Random worlds over ranks: a model, a format, a strategy and a way to share it out, all drawn, once by one process and
once by several.

    TENON_BINARY=build/release/bin/tenon TENON_SOURCE_DIR=$PWD tests/soak/rank_worlds.py
        [--worlds 100] [--seed 1] [--world N]

A world is right if both give the same tokens and digests, or if the several are refused by one sentence that names the
key, the model or a plugin. Sums over ranks have bits of their own: with parallel.reduce the tokens of a greedy answer
may differ where two are as likely, so only the id is looked at, and that two runs over as many ranks are equal.
What one process refuses as well is no world. --world N runs that one alone, and shows its commands.
"""
import argparse
import json
import os
import pathlib
import random
import re
import shlex
import shutil
import subprocess
import sys
import tempfile

BINARY = os.environ.get("TENON_BINARY", "build/dev/bin/tenon")
SOURCE = pathlib.Path(os.environ.get("TENON_SOURCE_DIR", "."))
GOLDEN = SOURCE / "tests/golden"
MADE = pathlib.Path(BINARY).parent.parent / "tests/golden/models"  # with the weights that recipes mean
NAMED = re.compile(r"parallel|rank \d|model|kv_cache|drafter|adapter|mpirun|executor|layer")


def models():
    """[(path, adapters that fit)]"""
    found = []
    for folder in sorted((MADE if MADE.exists() else GOLDEN / "models").iterdir()):
        fits = [each for each in sorted((GOLDEN / "adapters").iterdir()) if each.name.rsplit("_", 1)[0] == folder.name
                or each.name == folder.name]
        found.append((folder, fits))
    found += [(path, []) for path in sorted((GOLDEN / "gguf").glob("*.gguf"))]
    found += [(path, []) for path in sorted((GOLDEN / "published").iterdir()) if path.is_dir()]
    found += [(path, []) for path in sorted((GOLDEN / "mtp").iterdir()) if path.is_dir()]
    found.append((SOURCE / "configs/models/tale", []))
    return found


class World:
    def __init__(self, number, folder, all_models):
        draw = random.Random(number)
        self.ranks = draw.choice((2, 2, 3, 4, 5))
        self.way = draw.choice(("tensor", "tensor", "tensor", "pipeline", "pipeline", "expert", "reduce"))
        self.model, adapters = draw.choice(all_models)
        self.folder, self.environment = folder, {}
        settings = {"limits.context_tokens": 96, "kv_cache.dtype": draw.choice(("f32", "f16", "bf16", "i8", "i4")),
                    "scheduler.plugin": draw.choice(("static", "continuous", "chunked", "fair")),
                    "kv_cache.plugin": draw.choice(("naive", "paged", "prefix", "radix", "prefix", "radix", "streaming")),
                    "engine.plan_ahead": draw.choice((0, 1))}
        manager = settings["kv_cache.plugin"]
        if manager != "naive":
            settings["kv_cache.block_tokens"] = draw.choice((1, 4, 8, 16))
        if manager == "streaming":
            settings |= {"kv_cache.options.sink_tokens": 4, "kv_cache.options.window_tokens": 24,
                         "kv_cache.options.stride_tokens": 16}
        drafter = draw.choice(("none", "none", "ngram", "suffix", "draft_model", "none"))
        if self.model.parent.name == "mtp":
            drafter = draw.choice(("mtp", drafter))
        if drafter != "none":
            settings["drafter.plugin"] = drafter
        if drafter == "draft_model":
            settings["drafter.model"] = self.model
        if draw.random() < 0.25:
            settings["kv_cache.memory"] = f"{draw.choice((256, 1024, 4096))}KiB"
            settings["kv_cache.swap_memory"] = draw.choice(("0", "64KiB"))
            settings["scheduler.options.preempt"] = draw.choice(("swap", "recompute"))
        if draw.random() < 0.1 and manager in ("prefix", "radix"):
            settings |= {"kv_cache.tiers.1.kind": "disk", "kv_cache.tiers.1.path": folder / f"kv{number}",
                         "kv_cache.tiers.1.memory": "16MiB"}
        if draw.random() < 0.3:
            settings["linear.plugin"] = draw.choice(("dense", "int8"))
        self.adapter = None
        if adapters and draw.random() < 0.6:
            self.adapter = draw.choice(adapters)
            settings["adapters.one"] = self.adapter
        self.settings = settings
        self.isa = draw.choice(("portable", "avx2", "")) if draw.random() < 0.2 else ""
        if draw.random() < 0.2:
            self.environment["TENON_RANKS_OVER_MPI"] = "1"
        self.threads = draw.choice((1, 1, 2))
        self.prompts = folder / f"prompts{number}.jsonl"
        beginning = [draw.randrange(3, 30) for _ in range(draw.randrange(1, 40))]
        lines = []
        for each in range(draw.randrange(1, 5)):
            prompt = beginning[:draw.randrange(1, len(beginning) + 1)] + [draw.randrange(3, 30)
                                                                           for _ in range(draw.randrange(0, 20))]
            lines.append({"prompt": prompt, "seed": each, "temperature": draw.choice((0, 0.8)),
                          "max_tokens": draw.randrange(1, 24), "ignore_eos": True})
            if self.adapter and draw.random() < 0.6:
                lines[-1]["adapter"] = "one"
        self.prompts.write_text("".join(json.dumps(line) + "\n" for line in lines))

    def command(self, together):
        words = [BINARY, "run", "--model", self.model, "--file", self.prompts, "--json", "--quiet", "--threads", self.threads]
        for key, value in self.settings.items():
            words += ["--set", f"{key}={value}"]
        if self.isa:
            words += ["--isa", self.isa]
        if together:
            words += ["--launch", self.ranks]
            if self.way == "reduce":
                words += ["--set", "parallel.reduce=true"]
            elif self.way != "tensor":
                words += ["--set", f"parallel.{self.way}={self.ranks}"]
        return [str(word) for word in words]

    def run(self, together):
        environment = os.environ | (self.environment if together else {})
        return subprocess.run(self.command(together), capture_output=True, text=True, check=False, stdin=subprocess.DEVNULL,
                              timeout=600, env=environment)

    def said(self):
        return f"{self.model.name}, {self.way} {self.ranks}, " + shlex.join(
            f"{key.split('.', 1)[1]}={value}" for key, value in self.settings.items())

    def check(self):
        """(kind of end, what is wrong or empty)"""
        alone = self.run(False)
        if alone.returncode != 0:
            said = any(line.startswith("tenon: ") for line in alone.stderr.splitlines())
            return "no world", "" if said else f"one process said ({alone.returncode}): {alone.stderr.strip()}"
        answers = lambda done: [(request["tokens"], request["digest"]) for request in json.loads(done.stdout)["requests"]]
        together = self.run(True)
        if together.returncode != 0:
            lines = [line for line in together.stderr.splitlines() if line.startswith("tenon: ")]
            if len(lines) != 1 or not NAMED.search(lines[0]) or "internal" in lines[0]:
                return "refused", f"several processes said ({together.returncode}): {together.stderr.strip()[-1500:]}"
            return f"refused: {re.sub(r'[0-9]+', 'N', lines[0].split(', but ')[-1])[:70]}", ""
        if self.way == "reduce":
            if f"+reduce{self.ranks}" not in json.loads(together.stdout)["pipeline"]["numerics"]:
                return "equal", "its numerics id says nothing of sums"
            alone = self.run(True)
        if answers(alone) != answers(together):
            return "equal", f"answers differ: {answers(alone)} and {answers(together)}"
        return "equal", ""


def main():
    flags = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    flags.add_argument("--worlds", type=int, default=100)
    flags.add_argument("--seed", type=int, default=1)
    flags.add_argument("--world", type=int)
    flags = flags.parse_args()
    if not (shutil.which("mpirun.openmpi") or shutil.which("mpirun")):
        print("skipped: Open MPI's mpirun is not installed (package openmpi-bin)")
        return 0
    first = flags.seed * 1_000_000
    numbers = [flags.world] if flags.world is not None else range(first, first + flags.worlds)
    ends, wrong = {}, 0
    with tempfile.TemporaryDirectory(prefix="tenon-worlds-") as folder:
        for number in numbers:
            world = World(number, pathlib.Path(folder), models())
            if flags.world is not None:
                print(shlex.join(world.command(False)), shlex.join(world.command(True)), sep="\n")
            try:
                end, problem = world.check()
            except subprocess.TimeoutExpired as error:
                end, problem = "endless", str(error)[-300:]
            ends[end] = ends.get(end, 0) + 1
            if problem:
                wrong += 1
                print(f"world {number}: {world.said()}: {problem}", flush=True)
            shutil.rmtree(pathlib.Path(folder) / f"kv{number}", ignore_errors=True)
    for end, count in sorted(ends.items()):
        print(f"{count:6} {end}")
    print(f"{len(numbers)} worlds, {wrong} wrong")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
