"""Where the program lies."""

from .opening import PREFIX


def program() -> str:
    return str(PREFIX / "bin/tenon")
