"""Whether what was given is of the right kind, so that a wrong one is said where it was given."""

import os
from collections.abc import Iterable, Mapping
from numbers import Integral
from typing import Any

from .errors import InvalidArgumentError


def path(value: Any, name: str) -> str:
    if isinstance(value, (str, os.PathLike)):
        return os.fspath(value)
    raise InvalidArgumentError(f"{name} is {value!r} – give a path or a name")


def paths(value: Any, name: str) -> list[str]:
    """Several, or one."""
    if isinstance(value, (str, os.PathLike)):
        return [os.fspath(value)]
    return [path(one, f"one of {name}") for one in listed(value, name, "paths")]


def listed(value: Any, name: str, kind: str) -> list:
    """A list of any kind. A text is none, though Python would take it for one of characters."""
    if isinstance(value, (str, bytes, Mapping)) or not isinstance(value, Iterable):
        raise InvalidArgumentError(f"{name} is {value!r} – it must be a list of {kind}")
    return list(value)


def text(value: Any, name: str) -> str:
    if isinstance(value, str):
        return value
    raise InvalidArgumentError(f"{name} is {value!r} – it must be a text")


def texts(value: Any, name: str) -> list[str]:
    return [text(one, f"an entry of {name}") for one in listed(value, name, "texts")]


def table(value: Any, name: str) -> Mapping:
    """A dict; None is an empty one."""
    if value is not None and not isinstance(value, Mapping):
        raise InvalidArgumentError(f"{name} is {value!r} – it must be a dict")
    return value or {}


def count(value: Any, name: str, least: int) -> int:
    if isinstance(value, bool) or not isinstance(value, Integral) or value < least:
        raise InvalidArgumentError(f"{name} is {value!r} – it must be a whole number from {least} on")
    return int(value)
