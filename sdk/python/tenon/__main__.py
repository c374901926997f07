"""`tenon` and `python -m tenon`: the program."""

import os
import sys

from .program import program


def main() -> None:
    path = program()
    os.execv(path, ["tenon", *sys.argv[1:]])


if __name__ == "__main__":
    main()
