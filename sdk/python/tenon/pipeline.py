"""A pipeline before it is opened, which explains itself."""

import html
import os
import re
import subprocess
import tempfile
import tomllib
from pathlib import Path
from typing import Any

from . import checks, plugins
from .errors import InvalidArgumentError
from .opening import overrides, pipeline_file
from .program import program

_FACTS = "# negotiated facts"


class Pipeline:
    """What a pipeline file, settings and the model's own advice come to: every value, where it is from, the facts that the
    parts agreed on, and the hash of it all. It is what `tenon config explain` prints.

        Pipeline("prefix", kv_cache={"dtype": "i8"})    # in a notebook: a table
        print(Pipeline(scheduler="chunked"))

    pipeline, model and settings are those of `LLM`. Plugins in Python must be classes or files.
    Errors: `InvalidArgumentError`, with all reasons, where parts do not fit together.
    """

    def __init__(self, pipeline: str | os.PathLike | None = None, model: str | os.PathLike | None = None, **settings: Any):
        self._pipeline, self._model, self._settings = pipeline, model, settings
        with tempfile.TemporaryDirectory() as scratch:
            command = [program(), "config", "explain"]
            if pipeline is not None:
                given = checks.path(pipeline, "pipeline")
                file = Path(scratch) / "pipeline.toml"
                if "\n" in given:
                    file.write_text(given)
                command.append(str(file) if "\n" in given else pipeline_file(given))
            if model is not None:
                command += ["--model", checks.path(model, "model")]
            for text in overrides(settings, Path(scratch)):
                command += ["--set", text]
            done = subprocess.run(command, capture_output=True, text=True, check=False, env=plugins.environment())
        if done.returncode != 0:
            raise InvalidArgumentError(done.stderr.strip().removeprefix("tenon: "))
        self.text = done.stdout

    @property
    def values(self) -> dict[str, Any]:
        """Every value, in the tables of a pipeline file: `values["kv_cache"]["dtype"]`."""
        return tomllib.loads(self.text.partition(_FACTS)[0])

    @property
    def origins(self) -> dict[str, str]:
        """Where each value is from, by its key: `origins["kv_cache.dtype"]` is "default"."""
        return {key: origin for key, _, origin in self._rows()}

    @property
    def facts(self) -> dict[str, str]:
        """What the parts agreed on, such as `facts["kv.block_tokens"]`."""
        told = self.text.partition(_FACTS)[2]
        return dict(re.findall(r"^([a-z]\S*)\s+= (.*)$", told, re.M))

    @property
    def hash(self) -> str:
        """Of the configuration with every default spelled out; `pipeline_hash` of an open `LLM`."""
        return re.findall(r"^# hash: (\S+)$", self.text, re.M)[-1]

    def open(self, **settings: Any):
        """An `LLM` of it, with what else `LLM` takes."""
        from .llm import LLM
        return LLM(self._model, pipeline=self._pipeline, **{**self._settings, **settings})

    def _rows(self) -> list[tuple[str, str, str]]:
        """(key, value, origin) of each value."""
        rows, table = [], ""
        for line in self.text.partition(_FACTS)[0].splitlines():
            if line.startswith("["):
                table = line.strip("[]") + "."
            else:
                found = re.fullmatch(r"(\S+) = (.*?)(?:\s+# (.*))?", line)
                if found:
                    rows.append((table + found[1], found[2], found[3] or ""))
        return rows

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Pipeline) and self.hash == other.hash

    def __hash__(self) -> int:
        return hash(self.hash)

    def __str__(self) -> str:
        return self.text

    def __repr__(self) -> str:
        chosen = [f"{name}={table['plugin']}" for name, table in self.values.items()
                  if isinstance(table, dict) and "plugin" in table]
        return f"Pipeline({', '.join(chosen)}, hash={self.hash})"

    def _repr_html_(self) -> str:
        cell = "<td style='text-align:left'>"
        rows = "".join(f"<tr>{cell}{html.escape(key)}</td>{cell}<b>{html.escape(value)}</b></td>{cell}{html.escape(origin)}</td></tr>"
                       for key, value, origin in self._rows())
        return (f"<table><tr><th>key</th><th>value</th><th>from</th></tr>{rows}</table><p>hash <code>{self.hash}</code></p>")
