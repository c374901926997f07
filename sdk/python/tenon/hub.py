"""Models by name (docs/hub.md): finding them is the library's business, bringing them is said here."""

from __future__ import annotations

import subprocess
from collections.abc import Sequence

from . import checks
from .errors import FailedError, InvalidArgumentError
from .program import program

# What is brought without libcurl where nobody names files: more than `tenon model pull` chooses in some repositories.
_KINDS = ["*.safetensors", "*.json", "*.txt", "*.model", "*.jinja", "*.tiktoken"]


def pull(name: str, revision: str | None = None, files: str | Sequence[str] | None = None) -> str:
    """Brings a model of the Hugging Face hub into the cache on this machine, and returns its path.

    `files` are patterns ("*Q8_0*"); without them, what the model needs is brought. It is done by `tenon model pull`,
    or, where the system has no libcurl, by `huggingface_hub` if that is installed.

    Raises InvalidArgumentError for a name with two revisions, and FailedError with the reason for everything else.
    """
    name = checks.path(name, "name")
    if revision is not None and "@" in name:
        raise InvalidArgumentError(f"{name!r} names a revision, and so does revision={revision!r} – say one of them")
    patterns = [files] if isinstance(files, str) else checks.listed(files or [], "files", "patterns, or one pattern")
    flags = [word for pattern in patterns for word in ("--file", pattern)]
    done = subprocess.run([program(), "model", "pull", f"{name}@{revision}" if revision else name, *flags],
                          stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, check=False)
    if done.returncode == 0:
        return done.stdout.splitlines()[-1]
    if "install libcurl4" in done.stderr:
        try:
            import huggingface_hub
        except ImportError:
            pass
        else:
            repository, _, own = name.partition("@")
            try:
                return huggingface_hub.snapshot_download(repository, revision=revision or own or None,
                                                         allow_patterns=patterns or _KINDS)
            except Exception as error:
                raise FailedError(str(error)) from error
    raise FailedError(done.stderr.removeprefix("tenon: ").rstrip())
