"""Runs `tenon` on the executor that is checked, and on others to compare with."""
import itertools
import json
import subprocess
import sys
import time


class Broken(Exception):
    """The program failed, or did not end in time."""


class Tenon:
    """The program (plugins and executors are found beside it), the source folder with its models, a
    folder for files, and the executor that is checked. Safe to use from several threads."""

    def __init__(self, binary, source, folder, executor, seconds, call_seconds):
        self.binary, self.source, self.folder, self.executor = binary, source, folder, executor
        self.deadline = time.monotonic() + seconds
        self.call_seconds = call_seconds
        self.warnings = []  # what the program logged, with the command
        self.numbers = itertools.count(1)
        sys.path.insert(0, str(source / "tests/golden"))
        import seeded_weights  # the source folder is known by now
        seeded_weights.build(source / "tests/golden/models", folder / "models")

    def bundled(self, name):
        return self.source / "configs/models" / name

    def golden(self, name):
        """One of tests/golden; models with the weights that their recipes mean."""
        return (self.folder if name.startswith("models/") else self.source / "tests/golden") / name

    def left(self):
        return self.deadline - time.monotonic()

    def call(self, *words):
        """What the program writes on standard output."""
        words = [str(word) for word in words]
        limit = max(1, min(self.call_seconds, self.left()))
        try:
            done = subprocess.run([str(self.binary), *words], stdin=subprocess.DEVNULL,
                                  capture_output=True, text=True, timeout=limit)
        except subprocess.TimeoutExpired:
            raise Broken(f"not done after {limit:.0f} s: tenon {' '.join(words)}") from None
        lines = done.stderr.strip().splitlines()
        if done.returncode != 0:
            raise Broken(f"status {done.returncode}: {' | '.join(lines[-3:])} "
                         f"[tenon {' '.join(words)}]")
        logged = [line for line in lines if " warning " in line or " error " in line]
        if logged:
            self.warnings.append(f"tenon {' '.join(words)}\n  " + "\n  ".join(logged))
        return done.stdout

    def flags(self, settings=(), executor=None):
        """Flags of the executor, by default the one that is checked, and of `key=value`."""
        executor = executor or self.executor
        words = ["--threads", 2] if executor == "cpu" else []
        for setting in (f"executor.plugin={executor}", *settings):
            words += ["--set", setting]
        return words

    def report(self, model, requests, settings=(), executor=None, logprobs=0):
        """The report of `tenon run --json`, in which each request was answered."""
        file = self.folder / f"requests{next(self.numbers)}.jsonl"
        file.write_text("".join(json.dumps(request) + "\n" for request in requests))
        report = json.loads(self.call(
            "run", "--file", file, "--json", "--quiet", "--model", model,
            *self.flags(settings, executor), *(["--logprobs", logprobs] if logprobs else [])))
        for entry in report["requests"]:
            if entry["finish"] == "error":
                raise Broken(f"request {entry['index']}: {entry.get('message')}")
        return report

    def run(self, *arguments, **keywords):
        """The answers of a report: (request, sample) → its entry."""
        return answers_of(self.report(*arguments, **keywords))


def answers_of(report):
    return {(entry["index"], entry["sample"]): entry for entry in report["requests"]}
