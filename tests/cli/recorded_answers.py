"""Answers of earlier builds, held against those of this one: tests/golden/combinations.json.

For each numerics id (executor, kernels, instruction set, KV element type) the file has the answers
to the requests of combinations.py: for each sample the number of its tokens, a hash of their ids,
and the digest of its logits (docs/formats/digest.md). One list serves all schedulers, KV managers,
drafters and later versions of the program, since equal ids promise equal bits
(docs/architecture.md). Other answers under a recorded id are therefore a defect of the build, not
of the file.

What is recorded is never rewritten. A kernel that rounds differently takes a new numerics id, and

    TENON_BINARY=build/dev/bin/tenon TENON_SOURCE_DIR=. tests/cli/combinations.py --record

adds the ids that the file lacks; the entry of an id that no kernel has any more is deleted by hand.
The only other reason is a change of the requests or of the bundled model, which the file names by
hashes: delete it, and record it anew with a build that still gave the recorded answers before. Where the
bundled model's files change and no answer does, its hash alone is replaced: all answers are still held.
"""
import hashlib
import json

from program import MODEL, SOURCE

FILE = SOURCE / "tests/golden/combinations.json"
MODEL_FILES = ["config.json", "model.safetensors", "tokenizer.json"]
SHOWN = 12  # faults that are told one by one
WHAT_TO_DO = ("equal numerics ids promise equal bits: mend the build, or give the kernel whose "
              "bits must change a new numerics id (tests/cli/recorded_answers.py)")


def short_hash(data):
    return hashlib.sha256(data).hexdigest()[:16]


def answers_of(report):
    """What is recorded of a report: a line for each sample."""
    return [{"request": r["index"], "sample": r["sample"], "tokens": len(r["tokens"]),
             "ids": short_hash(" ".join(map(str, r["tokens"])).encode()), "digest": r["digest"]}
            for r in report["requests"]]


def difference(found, recorded):
    """The first sample that is not as recorded, in words; empty where all are."""
    if len(found) != len(recorded):
        return f"{len(found)} samples – recorded are {len(recorded)}"
    differing = [(ours, theirs) for ours, theirs in zip(found, recorded) if ours != theirs]
    if not differing:
        return ""
    ours, theirs = differing[0]
    parts = []
    if (ours["tokens"], ours["ids"]) != (theirs["tokens"], theirs["ids"]):
        parts.append(f"tokens differ ({ours['tokens']} with hash {ours['ids']} – recorded are "
                     f"{theirs['tokens']} with hash {theirs['ids']})")
    if ours["digest"] != theirs["digest"]:
        parts.append(f"digest of logits is {ours['digest']} – recorded is {theirs['digest']}")
    text = f"request {ours['request']}, sample {ours['sample']}: {' and '.join(parts)}"
    return text + (f"; {len(differing)} of {len(found)} samples differ" if differing[1:] else "")


class RecordedAnswers:
    def __init__(self, requests):
        model = b"".join((MODEL / name).read_bytes() for name in MODEL_FILES)
        self.hashes = {"requests": short_hash(requests.encode()), "model": short_hash(model)}
        self.answers = {}  # numerics id → list of samples
        self.stale = ""
        if FILE.exists():
            held = json.loads(FILE.read_text())
            self.answers = held["answers"]
            changed = [name for name in self.hashes if self.hashes[name] != held[name]]
            if changed:
                self.stale = (f"{FILE.name} was recorded with another hash of {' and '.join(changed)} – "
                              "undo that change, or see tests/cli/recorded_answers.py on how to "
                              "record anew")

    def faults(self, grid):
        """A sentence for each combination that does not answer as recorded."""
        if self.stale:
            return [self.stale]
        found = [f"{' + '.join(words)}: {result}" for words, result in grid.results.items()
                 if isinstance(result, str) and result.startswith("refused")]
        for name, (numerics, answers) in grid.answers.items():
            if numerics not in self.answers:
                found.append(f"{name}: nothing is recorded for numerics '{numerics}' – if the id is "
                             "meant to be new, combinations.py --record adds it")
            elif text := difference(answers, self.answers[numerics]):
                found.append(f"{name} (numerics '{numerics}'): {text}")
        if len(found) > SHOWN:
            found[SHOWN:] = [f"… and {len(found) - SHOWN} more"]
        return found + [WHAT_TO_DO] if found else []

    def lacks(self, grid):
        return any(numerics not in self.answers for numerics, _ in grid.answers.values())

    def add(self, grid):
        """Adds the ids that are new, with the first answers that the grid has for them."""
        new = sorted({numerics for numerics, _ in grid.answers.values()} - self.answers.keys())
        for numerics, answers in grid.answers.values():
            self.answers.setdefault(numerics, answers)
        return new

    def write(self):
        lines = [f' "{name}": "{value}",' for name, value in self.hashes.items()]
        entries = []
        for numerics, answers in sorted(self.answers.items()):
            samples = ",\n".join("   " + json.dumps(sample) for sample in answers)
            entries.append(f'  {json.dumps(numerics)}: [\n{samples}]')
        lines += [' "answers": {', ",\n".join(entries) + "}"]
        FILE.write_text("{\n" + "\n".join(lines) + "\n}\n")
