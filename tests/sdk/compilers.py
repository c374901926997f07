#!/usr/bin/env python3
"""A plugin of every interface, as `tenon plugins new` writes it, by every compiler that is here: for each
standard, with and without optimisation, exceptions and RTTI. Each is loaded, keeps some promises and
generates the same text as the others, or the program says why it does not load it.

  compilers.py TENON [--compiler NAME]… [--interface NAME]… [--write docs/plugins/versions.md]
"""
import argparse
import itertools
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

INTERFACES = ("scheduler", "kv_cache", "attention", "state", "linear", "sampler", "drafter")
COMPILERS = ("g++-12", "g++", "clang++-14", "clang++-19", "clang++")
# After the flags of `tenon plugins build`, which are those of a release.
KINDS = {"Release": (), "Debug": ("-O0", "-g", "-UNDEBUG")}
WITHOUT = ((), ("-fno-exceptions",), ("-fno-rtti",), ("-fno-exceptions", "-fno-rtti"))
PROMISES = ("any.defaults", "any.created_repeatedly", "any.same_answers")
BEGIN, END = "<!-- compilers.py -->\n", "<!-- end of compilers.py -->\n"


class Failure(Exception):
    pass


def call(*command, folder=None):
    done = subprocess.run([str(word) for word in command], cwd=folder, text=True, capture_output=True)
    return done.returncode, done.stdout, done.stdout + done.stderr


def must(what, *command, folder=None):
    status, output, said = call(*command, folder=folder)
    if status != 0:
        raise Failure(f"{what} (status {status}):\n{said}")
    return output


def compilers(names):
    """Those that are here, each once, whatever it is called."""
    seen = set()
    for name in names:
        path = shutil.which(name)
        if path is None:
            print(f"{name} is not here: skipped", file=sys.stderr)
        elif os.path.realpath(path) not in seen:
            seen.add(os.path.realpath(path))
            yield name


def name_of(compiler):
    """ "clang 14.0.6" """
    line = must("no version", compiler, "--version").splitlines()[0]
    return ("clang " if "clang" in line else "g++ ") + re.search(r"\d+\.\d+\.\d+", line).group()


def standards(compiler):
    """How it calls the standards of 2020 and 2023; clang 14 has a working name for the second."""
    known = call(compiler, "-std=c++23", "-fsyntax-only", "-x", "c++", "/dev/null")[0] == 0
    return ("c++20", "c++23" if known else "c++2b")


class Trial:
    """A folder for the plugins of one interface."""

    def __init__(self, tenon, work, interface):
        self.tenon, self.folder = tenon, work / f"my_{interface}"
        must("not scaffolded", tenon, "plugins", "new", interface, f"acme.my_{interface}", folder=work)
        self.model = ()
        if interface == "state":
            # The bundled model has no recurrent layers.
            tokenizer = pathlib.Path(__file__).resolve().parents[2] / "configs/models/tale"
            must("no model", tenon, "model", "synth", "--shape", "mamba-130m", "--layers", 1, "--out",
                 "build/model", "--tokenizer", tokenizer, folder=self.folder)
        self.text = None

    def build_and_run(self, compiler, flags):
        """None, or why the program refuses it."""
        words = [word for flag in (*flags, "-Wall", "-Wextra", "-Werror") for word in ("--flag", flag)]
        must("not built", self.tenon, "plugins", "build", f"{self.folder.name}.cc", "-o", "made.so",
             "--compiler", compiler, *words, folder=self.folder)
        cases = [word for case in PROMISES for word in ("--case", case)]
        status, _, said = call(self.tenon, "plugins", "check", "made.so", "--quick", *cases,
                               folder=self.folder)
        if "does not fit this program" in said:
            return said
        if status != 0:
            raise Failure(f"breaks a promise (status {status}):\n{said}")
        text = must("does not run", self.tenon, "run", "Once upon a time", "--max-tokens", 12,
                    "--temperature", 0, "--no-echo", "--quiet", "--config", "pipeline.toml", "--set",
                    f'plugins.load=["{self.folder}/made.so"]', folder=self.folder)
        self.text = self.text or text
        if not text or text != self.text:
            raise Failure(f"generates {text!r}, other builds {self.text!r}")
        return None


def table(found, interfaces):
    """found: (compiler, standard) -> interface -> how many builds ran, were refused, were tried"""
    lines = [["compiler", "standard", *interfaces], ["---"] * (2 + len(interfaces))]
    for (compiler, standard), row in found.items():
        cells = []
        for ran, refused, tried in (row[interface] for interface in interfaces):
            failed = tried - ran - refused
            cells.append(", ".join(f"{count} {word}" for count, word in
                                   ((ran, "run"), (refused, "refused"), (failed, "fail")) if count))
        lines.append([compiler, standard, *cells])
    return "".join("| " + " | ".join(line) + " |\n" for line in lines).replace("| --- |", "|---|") \
        .replace(" --- |", "---|")


def main():
    arguments = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    arguments.add_argument("tenon", type=pathlib.Path)
    arguments.add_argument("--compiler", action="append", help=f"default: {' '.join(COMPILERS)}")
    arguments.add_argument("--interface", action="append", choices=INTERFACES)
    arguments.add_argument("--write", type=pathlib.Path, help="page whose table is written anew")
    given = arguments.parse_args()
    tenon, interfaces = given.tenon.resolve(), given.interface or INTERFACES
    found, failures = {}, 0
    with tempfile.TemporaryDirectory() as folder:
        trials = {one: Trial(tenon, pathlib.Path(folder), one) for one in interfaces}
        for compiler in compilers(given.compiler or COMPILERS):
            for standard in standards(compiler):
                row = found.setdefault((name_of(compiler), standard), {})
                for interface, trial in trials.items():
                    ran = refused = tried = 0
                    for kind, without in itertools.product(KINDS, WITHOUT):
                        flags = (f"-std={standard}", *KINDS[kind], *without)
                        tried += 1
                        try:
                            reason = trial.build_and_run(compiler, flags)
                            ran += reason is None
                            refused += reason is not None
                            if reason is not None:
                                print(f"{interface} by {compiler} {' '.join(flags)}: refused\n{reason}")
                        except Failure as failure:
                            failures += 1
                            print(f"{interface} by {compiler} {' '.join(flags)}: {failure}",
                                  file=sys.stderr)
                    row[interface] = (ran, refused, tried)
                    print(f"{compiler} {standard} {interface}: {ran} of {tried} run, {refused} refused",
                          flush=True)
    if not found:
        sys.exit("none of these compilers is here")
    made = table(found, interfaces)
    print(made, end="")
    if given.write and failures == 0:
        text = given.write.read_text()
        begin, end = text.index(BEGIN) + len(BEGIN), text.index(END)
        given.write.write_text(text[:begin] + "\n" + made + "\n" + text[end:])
    sys.exit(failures > 0)


if __name__ == "__main__":
    main()
