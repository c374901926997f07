#!/usr/bin/env python3
"""Compares Tenon with other engines on one machine, in pairs measured in one machine state.

    bench/peers/peers.py --peer llama.cpp/build/bin --peer ik_llama.cpp/build/bin --markdown

Checkpoints of real shapes are made with `tenon model synth`, `convert` and `quantize` (GGUF, about
7 GB in --models); all programs read the same files. Peers are programs that you built; nothing is
fetched. A peer that is not there is a column left out. works.toml says what is measured,
docs/performance.md how, and what came out.
"""

import argparse
import contextlib
import datetime
import hashlib
import io
import json
import pathlib
import re
import sys
import tomllib

import table
from engines import Failure, Finished, Llama, Tenon
from openvino_peer import OpenVino
from pairs import Pairs
from wheel_peer import Wheel

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parents[1]


# What `tenon model convert` writes; other types are made by `tenon model quantize`.
CONVERTED = ("f32", "f16", "bf16", "q8_0", "q4_0")


class Work:
    """One line of a table: an entry of works.toml in one of its types."""

    def __init__(self, entry, type_name):
        self.name, self.kind, self.shape = entry["name"], entry["kind"], entry["shape"]
        self.type = type_name
        self.batch, self.tokens = entry.get("batch", 1), entry.get("tokens", 1)
        self.context = entry.get("context", 0)
        self.layers = entry.get("layers")
        self.steps = entry.get("steps", 16)
        self.busy = entry.get("busy", 0)
        self.repeat = entry.get("repeat", 3)
        self.quick, self.slow = entry.get("quick", False), entry.get("slow", False)
        self.goal = entry.get("goal", {}).get(type_name)

    @property
    def title(self):
        return f"{self.shape} {self.type} {self.name}"


def all_works(path):
    entries = tomllib.loads(pathlib.Path(path).read_text())["work"]
    return [Work(entry, name) for entry in entries for name in entry["types"]]


def chosen_works(flags):
    works = all_works(flags.works_file)
    for what in ("works", "types", "shapes"):
        member = {"works": "name", "types": "type", "shapes": "shape"}[what]
        wanted = getattr(flags, what)
        known = {getattr(work, member): None for work in works}
        if wrong := [one for one in wanted if one not in known]:
            raise Failure(f"--{what}: there is no '{wrong[0]}'; known are {', '.join(known)}")
        works = [work for work in works if not wanted or getattr(work, member) in wanted]
    if flags.quick:
        works = [work for work in works if work.quick]
    elif not flags.works:
        works = [work for work in works if flags.slow or not work.slow]
    if not works:
        raise Failure("nothing to measure is left of works.toml; give fewer of --works, --types, "
                      "--shapes and --quick")
    return works


def plain_tokenizer():
    """A tokenizer.json of single bytes, split as GPT-2 does: one that every program knows."""
    shown = [*range(33, 127), *range(161, 173), *range(174, 256)]
    hidden = [byte for byte in range(256) if byte not in shown]
    letters = [chr(byte) for byte in shown] + [chr(256 + i) for i in range(len(hidden))]
    vocabulary = {letter: i for i, letter in enumerate([*letters, "th", "he"])}
    split = {"type": "ByteLevel", "add_prefix_space": False, "use_regex": True,
             "trim_offsets": True}
    return json.dumps({
        "version": "1.0", "added_tokens": [], "normalizer": None, "pre_tokenizer": split,
        "post_processor": None, "decoder": split,
        "model": {"type": "BPE", "vocab": vocabulary, "merges": ["t h", "h e"],
                  "ignore_merges": False}})


class Checkpoints:
    """GGUF files, made on demand and checked to be the same at the end."""

    def __init__(self, tenon, folder):
        self.tenon, self.folder, self.marks = tenon, pathlib.Path(folder).absolute(), {}

    def make(self, *arguments):
        done = Finished([self.tenon.program, "model", *arguments], timeout=1800)
        print(f"  {done.output.strip()}", file=sys.stderr, flush=True)

    def file(self, work):
        # Fewer layers than the shape's own are other files.
        name = work.shape + (f"-{work.layers}" if work.layers else "")
        file = self.folder / f"{name}-{work.type}.gguf"
        if not file.is_file():
            self.folder.mkdir(parents=True, exist_ok=True)
            source = self.folder / name
            if not (source / "config.json").is_file():
                layers = ["--layers", work.layers] if work.layers else []
                self.make("synth", "--shape", work.shape, *layers, "--out", source, "--seed", "1")
                (source / "tokenizer.json").write_text(plain_tokenizer())
            if work.type in CONVERTED:
                self.make("convert", source, file, "--type", work.type)
            else:
                self.make("quantize", source, file, "--method", work.type)
        if file not in self.marks:
            with open(file, "rb") as bytes_:
                self.marks[file] = (hashlib.file_digest(bytes_, "sha256").hexdigest(), file.stat())
        return file

    def check(self, file):
        was, now = self.marks[file][1], file.stat()
        if (was.st_mtime_ns, was.st_size) != (now.st_mtime_ns, now.st_size):
            raise Failure(f"'{file}' changed while it was measured; keep other programs away from "
                          "it, and measure again")
        return self.marks[file][0]


def peers_of(flags):
    """Those that are there; the others with the reason."""
    peers, absent = [], []
    makers = [(folder, lambda f=folder: Llama(f, flags.threads, flags.timeout))
              for folder in flags.peer]
    makers += [(python, lambda p=python: Wheel(p, flags.threads, flags.timeout))
               for python in flags.wheel]
    if flags.openvino:
        makers.append(("OpenVINO GenAI", lambda: OpenVino(flags.threads, flags.timeout)))
    for name, make in makers:
        try:
            peer = make()
            if any(other.name == peer.name for other in peers):
                raise Failure(f"'{name}' is a second {peer.name}; give one folder of each")
            peers.append(peer)
        except (Failure, OSError) as problem:
            absent.append(str(problem))
            print(f"left out: {problem}", file=sys.stderr)
    return peers, absent


def measure(flags):
    tenon = Tenon(flags.tenon, flags.threads, flags.timeout, flags.set)
    peers, absent = peers_of(flags)
    works = chosen_works(flags)
    checkpoints = Checkpoints(tenon, flags.models)
    pairs = Pairs(tenon, peers, flags)
    results = {"format": 2, "date": datetime.date.today().isoformat(),
               "tenon": list(flags.set), "threads": flags.threads, "machine": tenon.limits(flags.state_seconds),
               "peers": [peer.name for peer in peers], "absent": absent,
               "agree": flags.agree, "share": flags.share, "works": []}
    for work in works:
        file = checkpoints.file(work)
        measured = pairs.measure(work, file)
        results["works"].append({**vars(work), "facts": tenon.facts[str(file)],
                                 "sha256": checkpoints.check(file), **measured})
        if flags.save:
            pathlib.Path(flags.save).write_text(json.dumps(results, indent=1) + "\n")
    return results


def read_results(path):
    try:
        results = json.loads(pathlib.Path(path).read_text())
        if results["format"] != 2:
            raise KeyError("format 2")
        return results
    except (OSError, ValueError, KeyError, TypeError) as problem:
        raise Failure(f"'{path}' holds no results of this program ({problem}); make them with "
                      "--save") from problem


def put_into_page(page, title, text):
    """Replaces the part of that title, or adds it after the others."""
    begin, end = "<!-- tables -->\n", "<!-- end of tables -->\n"
    try:
        before, rest = page.read_text().split(begin)
        tables, after = rest.split(end)
        parts = [part for part in re.split(r"^(?=### )", tables, flags=re.MULTILINE) if part.strip()]
        head = f"### {title}\n"
        at = next((i for i, part in enumerate(parts) if part.startswith(head)), len(parts))
        parts[at:at + 1] = [f"{head}\n{text.rstrip()}\n\n"]
        page.write_text(before + begin + "".join(parts) + end + after)
    except (OSError, ValueError):
        sys.exit(f"peers.py: '{page}' has no lines '{begin.strip()}' and '{end.strip()}' to put "
                 "the tables between; add them, each once")


def arguments():
    lines = __doc__.splitlines()
    parser = argparse.ArgumentParser(
        description=lines[0], epilog="\n".join(lines[2:]),
        formatter_class=argparse.RawDescriptionHelpFormatter)
    add = parser.add_argument
    add("--peer", action="append", default=[], metavar="FOLDER",
        help="binaries of a built llama.cpp or ik_llama.cpp; may be repeated")
    add("--wheel", action="append", default=[], metavar="PYTHON",
        help="a Python in which ik-llama-cpp-python or llama-cpp-python is installed; may be repeated")
    add("--openvino", action="store_true",
        help="OpenVINO GenAI too, where the Python package openvino_genai is installed")
    add("--tenon", default=str(ROOT / "build/release/bin/tenon"), help="default: %(default)s")
    add("--set", action="append", default=[], metavar="KEY=VALUE", help="of Tenon's pipeline")
    add("--models", default=str(ROOT / "build/peers"), metavar="FOLDER",
        help="where checkpoints are made and kept (default: %(default)s)")
    add("--threads", type=int, default=2, help="of every program (default: 2)")
    add("--pairs", type=int, default=5, help="pairs in one state to collect (default: 5)")
    add("--works", nargs="+", default=[], metavar="NAME", help="of works.toml")
    add("--types", nargs="+", default=[], metavar="TYPE")
    add("--shapes", nargs="+", default=[], metavar="SHAPE")
    add("--quick", action="store_true", help="the works marked quick only")
    add("--slow", action="store_true", help="also the works marked slow")
    add("--works-file", default=str(HERE / "works.toml"), metavar="FILE",
        help="what is measured; formats.toml beside it has the other types of GGUF files (default: "
        "works.toml)")
    add("--agree", type=float, default=0.10, metavar="PART",
        help="states are the same when their limits differ by at most this (default: 0.10)")
    add("--share", type=float, default=0.90, metavar="PART",
        help="drop a pair when other programs left less than this part of the processors to one of "
        "its pieces; 0 keeps all (default: 0.90)")
    add("--state-seconds", type=float, default=0.25, help="spent on each state (default: 0.25)")
    add("--timeout", type=float, default=900, help="seconds for one piece (default: 900)")
    add("--save", metavar="FILE", help="write all measurements as JSON")
    add("--show", metavar="FILE", help="measure nothing; print what --save wrote")
    add("--markdown", action="store_true", help="tables and the roofline for a page")
    add("--page", metavar="FILE", help="put tables and roofline into a page, between the lines "
        "'<!-- tables -->' and '<!-- end of tables -->', in place of those of the same title")
    add("--title", metavar="TEXT", help="of these tables in the page (default: the processor's name)")
    add("--goals", action="store_true", help="exit 1 where a goal of works.toml is not reached")
    flags = parser.parse_args()
    for name in ("threads", "pairs"):
        if getattr(flags, name) < 1:
            parser.error(f"--{name}: expected 1 or more")
    return flags


def main():
    flags = arguments()
    try:
        results = read_results(flags.show) if flags.show else measure(flags)
    except Failure as failure:
        sys.exit(f"peers.py: {failure}")
    except KeyboardInterrupt:
        sys.exit(130)
    with io.StringIO() as printed:
        with contextlib.redirect_stdout(printed):
            reached = table.show(results, flags.markdown or flags.page)
        text = printed.getvalue()
    print(text, end="")
    if flags.page:
        title = flags.title or results["machine"].get("processor", "unknown processor")
        put_into_page(pathlib.Path(flags.page), title, text)
    sys.exit(1 if flags.goals and not reached else 0)


if __name__ == "__main__":
    main()
