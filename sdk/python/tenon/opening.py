"""What `LLM` and `AsyncLLM` are opened with, as libtenon takes it."""

import os
import warnings
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from . import _tenon, checks, plugins, toml, vllm_settings
from .errors import InvalidArgumentError, NotFoundError

# Next to the extension, which may not lie next to this file.
PREFIX = Path(_tenon.__file__).parent / "prefix"

# Tables of a pipeline file (docs/formats/pipeline-toml.md) that can be given by name.
TABLES = ("executor", "engine", "scheduler", "kv_cache", "attention", "state", "linear", "limits", "sampler",
           "drafter", "generation", "plugins", "adapters")
# Of them, those that choose no plugin.
_WITHOUT_PLUGIN = ("engine", "limits", "generation", "plugins", "adapters")


def opening(model: str | os.PathLike | None, pipeline: str | os.PathLike | None, threads: int | None,
            max_calls: int | None, plugin_path: Sequence[str | os.PathLike], settings: Mapping[str, Any],
            digests: bool = False) -> _tenon.Opening:
    made = _tenon.Opening()
    made.model = None if model is None else checks.path(model, "model")
    made.threads = _count(threads, "threads")
    made.max_calls = _count(max_calls, "max_calls")
    made.digests = bool(digests)
    made.plugin_path = checks.paths(plugin_path, "plugin_path")
    if pipeline is not None:
        pipeline = checks.path(pipeline, "pipeline")
        if "\n" in pipeline:
            made.config_text = pipeline
        else:
            made.config = pipeline_file(pipeline)
    made.overrides = overrides(settings)
    return made


def overrides(settings: Mapping[str, Any], folder: Path | None = None) -> list[str]:
    """`{"scheduler": "static", "limits": {"max_sequences": 8}}` as texts for `--set`. Plugins in Python are for this process,
    or, where there is a `folder` for their sources, for another one."""
    made = []
    for name, value in settings.items():
        if value is None:
            continue
        asked = vllm_settings.overrides_of(name, value)
        if asked is not None:
            made += asked
        elif vllm_settings.has_no_effect(name):
            warnings.warn(f"{name} has no effect here", stacklevel=4)
        elif "." in name:
            made.append(f"{name}={toml.written(value)}")
        elif name not in TABLES:
            refuse_setting(name)
        elif plugins.is_python(name, value):
            options = (plugins.in_this_process(name, value) if folder is None
                       else plugins.in_another_process(name, value, folder))
            made.append(f"{name}.plugin=python")
            made.extend(f"{name}.options.{key}={toml.written(one)}" for key, one in options.items())
        elif name in _WITHOUT_PLUGIN or isinstance(value, Mapping):
            checks.table(value, name)
            made.extend(f"{name}.{key}={toml.written(one)}" for key, one in _leaves(value))
        else:
            made.append(f"{name}.plugin={toml.written(value)}")
    # A plugin comes before its options: those of the plugin before it would go with it.
    return sorted(made, key=lambda text: not text.split("=")[0].endswith("plugin"))


def refuse_setting(name: str) -> None:
    raise InvalidArgumentError(f"there is no setting {name!r} – tables of a pipeline are {', '.join(TABLES)}")


def _leaves(table: Mapping, before: str = ""):
    for key, value in table.items():
        if isinstance(value, Mapping):
            yield from _leaves(value, f"{before}{key}.")
        else:
            yield before + key, value


def pipeline_file(name: str) -> str:
    """A path, or the name of a bundled pipeline."""
    bundled = PREFIX / "share/tenon/configs/pipelines" / f"{name}.toml"
    if os.sep in name or name.endswith(".toml") or not PREFIX.exists():
        return name
    if not bundled.exists():
        known = ", ".join(sorted(path.stem for path in bundled.parent.glob("*.toml")))
        raise NotFoundError(f"there is no bundled pipeline {name!r} – they are {known}; a file's name ends in .toml")
    return str(bundled)


def _count(value: int | None, name: str) -> int:
    if value is None:
        return 0
    number = checks.count(value, name, 1)
    if number >= 1 << 31:
        raise InvalidArgumentError(f"{name} is {value!r} – it must be less than {1 << 31}")
    return number
