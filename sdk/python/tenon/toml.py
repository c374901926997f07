"""Values as a pipeline file has them."""

import json
import math
import os
from collections.abc import Mapping, Sequence
from numbers import Integral, Real
from typing import Any

from .errors import InvalidArgumentError


def written(value: Any) -> str:
    """A text or a path, a number, also one of numpy's, a truth value, or a list or a table of these.

    Errors: InvalidArgumentError for anything else.
    """
    if isinstance(value, os.PathLike):
        value = os.fspath(value)
    if isinstance(value, str):
        # As JSON has it, but a character is whole, and DEL is written out.
        return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, Integral):
        return str(int(value))
    if isinstance(value, Real):
        value = float(value)
        return repr(value) if math.isfinite(value) else str(value)
    if isinstance(value, Mapping):
        return "{" + ", ".join(f"{written(str(key))} = {written(one)}" for key, one in value.items()) + "}"
    if isinstance(value, Sequence) and not isinstance(value, bytes):
        return "[" + ", ".join(map(written, value)) + "]"
    raise InvalidArgumentError(f"{value!r} is of type {type(value).__name__} – a setting is a text, a number, true or false, or a "
                               "list or a table of these")
