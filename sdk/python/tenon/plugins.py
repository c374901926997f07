"""Schedulers, drafters and samplers that are written in Python, for trying ideas (docs/plugins/python.md).

    class ShortestFirst:
        def plan(self, step):
            step.advance()
            for sequence in sorted(step.waiting, key=lambda one: one.prompt_tokens):
                if not step.grant(sequence):
                    break

    LLM(scheduler=ShortestFirst)
    tenon.compare(None, {"shortest first": {"scheduler": ShortestFirst}}, "workload.toml")
"""

import ast
import inspect
import itertools
import linecache
import os
import sys
import sysconfig
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from .errors import InvalidArgumentError

# What a class of an interface must have.
_METHODS = {"scheduler": "plan", "drafter": "propose", "sampler": "sample"}

_objects: dict[str, Any] = {}
_numbers = itertools.count(1)


def registered(key: str) -> Any:
    """For the bridge: what was given to `LLM` under that key."""
    return _objects[key]


def is_python(interface: str, value: Any) -> bool:
    """Whether a setting is a class, an object or a file of Python's, and no plugin's name."""
    if interface not in _METHODS:
        return False
    if isinstance(value, str):
        return value.endswith(".py")
    return isinstance(value, os.PathLike) or not isinstance(value, (Mapping, int, float, bool))


def in_this_process(interface: str, value: Any) -> dict[str, str]:
    """Options of the plugin "python" for an engine in this process."""
    _check(interface, value)
    if isinstance(value, (str, os.PathLike)):
        return {"file": os.path.abspath(value)}
    key = f"{interface}-{next(_numbers)}"
    _objects[key] = value
    return {"key": key}


def in_another_process(interface: str, value: Any, folder: Path) -> dict[str, str]:
    """The same for a process that reads the class from a file. A class of a notebook is written into `folder`."""
    _check(interface, value)
    options = {"libpython": _libpython()}
    if isinstance(value, (str, os.PathLike)):
        return {"file": os.path.abspath(value), **options}
    if not inspect.isclass(value):
        raise InvalidArgumentError(f"{interface} is an object, which another process cannot have – give its class")
    file = getattr(sys.modules.get(value.__module__), "__file__", None)
    if value.__module__ == "__main__" or file is None:
        file = str(folder / f"{value.__name__}.py")
        Path(file).write_text(_source(value, _METHODS[interface]))
    return {"file": os.path.abspath(file), "class": value.__name__, **options}


def _source(made: type, method: str) -> str:
    """A class with what stands next to it in its cell or script: imports, functions and classes."""
    lines = linecache.getlines(getattr(made, method).__code__.co_filename)
    text = "".join(lines)
    kinds = (ast.Import, ast.ImportFrom, ast.FunctionDef, ast.ClassDef)
    nodes = [node for node in (ast.parse(text).body if text else []) if isinstance(node, kinds)]
    if not any(getattr(node, "name", None) == made.__name__ for node in nodes):
        raise InvalidArgumentError(f"the source of {made.__name__} is not known, so that another process cannot read it – "
                                   "write the class into a file, and give its path")
    return "\n\n".join(ast.get_source_segment(text, node) for node in nodes) + "\n"


def environment() -> dict[str, str]:
    """Of a process that runs such plugins: they find the modules that this one finds."""
    return {**os.environ, "PYTHONPATH": os.pathsep.join(path for path in sys.path if path)}


def _libpython() -> str:
    """Of this Python, so that its modules fit."""
    name = sysconfig.get_config_var("INSTSONAME") or ""
    if ".so" not in name:  # Debian's is linked into the program
        name = f"libpython{sys.version_info.major}.{sys.version_info.minor}.so.1.0"
    path = Path(sysconfig.get_config_var("LIBDIR") or "/usr/lib") / name
    if path.exists():
        return str(path)
    multiarch = Path("/usr/lib") / (sysconfig.get_config_var("MULTIARCH") or "") / name
    return str(multiarch) if multiarch.exists() else f"/usr/lib/{name}"


def _check(interface: str, value: Any) -> None:
    if isinstance(value, (str, os.PathLike)):
        if not os.path.isfile(value):
            raise InvalidArgumentError(f"there is no file {os.fspath(value)} with a {interface} in Python")
        return
    method = _METHODS[interface]
    if not callable(getattr(value, method, None)):
        raise InvalidArgumentError(f"{interface} is {value!r} – a {interface} in Python is a class or an object with a method "
                                   f"{method!r}, or the path of a .py file with one")
