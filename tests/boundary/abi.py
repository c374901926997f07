"""The binary interface of the boundary headers: dumped by abidw, compared by abidiff.

A library that mentions every struct, enum and method of the headers is compiled with debugging
information, and abidw writes down what that says. Only g++ 12 on x86-64 is asked: others name the
same types differently. For std::span and std::string_view there are stand-ins.
"""

import pathlib
import platform
import re
import shutil
import subprocess
import sys

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parents[1]
HEADERS = ROOT / "core/include"
DUMP = HERE / "boundary.abi"
COMPILER_VERSION = "12"
SKIPPED = {"plugin.h", "layout.h"}  # what stamps are made of: text
KINDS = ("struct", "class", "enum")

sys.path.insert(0, str(ROOT / "tools/reference"))
import header as headers  # noqa: E402


def compiler():
    return shutil.which("g++-12") or shutil.which("g++")


def what_is_missing():
    """Why nothing can be compared here; empty where it can."""
    if platform.machine() != "x86_64":
        return f"the dump is of x86-64, this is {platform.machine()}"
    for tool in ("abidiff", "abidw"):
        if shutil.which(tool) is None:
            return f"{tool} is not installed (Debian: abigail-tools)"
    if compiler() is None:
        return "g++ is not installed"
    found = subprocess.run([compiler(), "-dumpversion"], capture_output=True, text=True, check=True).stdout
    version = found.strip().split(".")[0]
    return "" if version == COMPILER_VERSION else f"the dump is of g++ {COMPILER_VERSION}, this is g++ {version}"


def types(include):
    """(header, declaration) of every type of the boundary."""
    for path in sorted((include / "tenon").glob("*.h")):
        if path.name in SKIPPED:
            continue
        for one in headers.read(path, path.name).declarations:
            if one.kind in KINDS and not one.signature.startswith("template"):
                yield path.name, one


def as_pointer(method):
    """A virtual method as a pointer to a function of the same signature: debugging information has
    nothing of methods that nobody defines."""
    text = re.sub(r"\s+", " ", method.signature).removeprefix("virtual ")
    text = re.sub(r"( const)? noexcept = 0$", "", text)
    return text.replace(f" {method.name}(", f" (*{method.name})(", 1) + ";"


def library_text(include):
    found = list(types(include))
    lines = [f"#include <tenon/{name}>" for name in dict.fromkeys(name for name, _ in found)]
    lines.append("namespace tenon {")
    for _, one in found:
        methods = [member for member in one.members if member.signature.startswith("virtual")]
        shown = one.name
        if methods:
            shown = one.name + "Methods"
            lines += [f"struct {shown} {{", *(as_pointer(method) for method in methods), "};"]
        lines.append(f'extern "C" {{ {shown}* {one.name}_; }}')
    return "\n".join([*lines, "}"]) + "\n"


def dump(include, folder):
    """The dump of the headers in `include`, made in `folder`."""
    source, library, out = folder / "boundary.cc", folder / "boundary.so", folder / "boundary.abi"
    source.write_text(library_text(include))
    flags = ["-std=c++20", "-g", "-O0", "-fPIC", "-shared", "-isystem", HERE / "stand_ins", "-I", include]
    subprocess.run([compiler(), *flags, source, "-o", library], check=True)
    quiet = ["--no-corpus-path", "--no-comp-dir-path", "--no-show-locs", "--no-elf-needed"]
    made = subprocess.run(["abidw", *quiet, library], capture_output=True, text=True, check=True).stdout
    out.write_text(re.sub(r"^ +", "", made, flags=re.M))
    return out


def difference(then, now):
    """What abidiff says of two dumps; empty when they are the same."""
    told = subprocess.run(
        ["abidiff", "--leaf-changes-only", "--harmless", then, now], capture_output=True, text=True, check=False
    )
    if told.returncode & 3:
        raise SystemExit(f"abidiff: {told.stdout}{told.stderr}")
    return told.stdout if told.returncode else ""


def changed_types(told):
    """Their names, in the order of abidiff's report."""
    found = re.findall(r"^'(?:struct|class|enum) (?:tenon::)?(\w+)[^']*' changed:", told, flags=re.M)
    found += re.findall(r"^\s+\[[AD]\] '(?:tenon::)?(\w+)\* ", told, flags=re.M)
    return list(dict.fromkeys(name.removesuffix("Methods") for name in found))


def complaint(told, include):
    """What changed, in a sentence a type, and what is to be done."""
    ids = dict(re.findall(r'= "((\w+)/\d+)"', (include / "tenon/descriptor.h").read_text()))
    revisions = {name: whole for whole, name in ids.items()}
    homes = {one.name: name for name, one in types(include)}
    lines = []
    for name in changed_types(told):
        home = homes.get(name)
        if home is None:
            lines.append(f"tenon::{name} is gone: every interface that used it has another revision now")
            continue
        whole = revisions.get(home.removesuffix(".h"))
        raised = whole or "every interface that it reaches"
        lines.append(f"tenon::{name} (<tenon/{home}>) is not what plugins were built with: raise {raised}")
    return "\n".join([
        *(lines or ["the boundary is not what plugins were built with"]),
        "then say in CHANGELOG.md (Boundary) what it means for plugins, run tests/golden_plugins/make.sh, and",
        "tests/boundary/abi_test.py --update; commit boundary.abi with them. abidiff says:",
        "",
        told,
    ])
