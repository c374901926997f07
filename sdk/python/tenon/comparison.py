"""Is B better than A? `tenon compare`, as a value."""

import json
import os
import re
import shutil
import subprocess
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from . import checks, plugins, toml
from .errors import FailedError, InvalidArgumentError
from .opening import overrides, pipeline_file
from .program import program

DIFFERENT_ANSWERS = 4  # the exit status of `tenon compare`


class Comparison:
    """What was measured. `report` is all of it, as `tenon compare --json` prints it; `folder` has the files."""

    def __init__(self, report: Mapping, folder: Path):
        self.report, self.folder = report, folder

    def rows(self) -> list[dict[str, Any]]:
        """One for each arm and each metric that was measured: the means, the ratio arm / base and its interval, and the
        verdict, "better", "worse", "equivalent" or "inconclusive"."""
        return [{"arm": arm["name"], **metric} for arm in self.report["arms"] for metric in arm["metrics"]
                if "absent" not in metric]

    def verdict(self, arm: str | None = None, metric: str | None = None) -> str:
        """Of an arm (the only one, where none is named) on a metric (the one that the comparison is about)."""
        arms = self.report["arms"]
        found = [one for one in arms if one["name"] == arm] if arm is not None else arms
        if len(found) != 1:
            raise InvalidArgumentError(f"there is no arm {arm!r} – arms are {', '.join(one['name'] for one in arms)}"
                                       if arm is not None else "there are several arms – name one")
        if found[0]["different_answers"]:
            return "different answers"
        metric = metric or self.report["plan"]["primary"]
        for row in found[0]["metrics"]:
            if row["metric"] == metric:
                return row.get("verdict", "inconclusive")
        raise InvalidArgumentError(f"there is no metric {metric!r}")

    def to_pandas(self):
        """`rows` as a DataFrame, which needs pandas."""
        import pandas
        return pandas.DataFrame(self.rows()).set_index(["arm", "metric"])

    def __repr__(self) -> str:
        primary = self.report["plan"]["primary"]
        said = "; ".join(f"{arm['name']}: {self.verdict(arm['name'])}" for arm in self.report["arms"])
        return f"Comparison({self.report['base']} on {primary} – {said})"

    def _repr_html_(self) -> str:
        """The page of the comparison, in a frame of its own."""
        import html
        page = html.escape((self.folder / "report.html").read_text(), quote=True)
        return f'<iframe srcdoc="{page}" style="width:100%;height:44em;border:0"></iframe>'


def compare(base: str | os.PathLike | None, arms: Sequence[str] | Mapping[str, Any],
            workload: str | os.PathLike | Sequence[str], *, out: str | os.PathLike | None = None,
            settings: Mapping[str, Any] | None = None, **options: Any) -> Comparison:
    """Measures arms against a base, in turns, until it is certain which is better (docs/comparing.md).

    base: a pipeline file or the name of a bundled one; None = the bundled default.
    arms: differences from it, such as ["scheduler.plugin=static"], or by name {"small": {"limits": {"max_sequences": 2}}}.
    A scheduler, a drafter or a sampler may be a class in Python (docs/plugins/python.md); its source is kept with the results.
    workload: a workload file, or a list of prompts.
    settings: of all arms, as those of `LLM`. options: keys of a comparison's file, such as model=…, metric="ttft_p50",
    budget="2m", max_tokens=64, in_flight=8, pairs=10.
    out: the folder of results; None = one that lies with temporary files.

    An arm whose answers are not the base's is no error: its `verdict` is "different answers". Raises FailedError if nothing
    was measured, with what would help.
    """
    folder = Path(tempfile.mkdtemp(prefix="tenon-compare-")) if out is None else Path(out).absolute()
    folder.parent.mkdir(parents=True, exist_ok=True)
    results = folder / "results" if out is None else folder
    with tempfile.TemporaryDirectory() as scratch:
        file = Path(scratch) / "comparison.toml"
        sources = folder.parent if out is not None else folder
        text = _comparison(base, arms, _workload(workload, scratch), settings or {}, options, sources)
        file.write_text(text)
        environment = plugins.environment() if ".plugin=python" in text else None
        done = subprocess.run([program(), "compare", str(file), "--json", "--quiet", "--out", str(results)],
                              capture_output=True, text=True, check=False, env=environment)
    if done.returncode not in (0, DIFFERENT_ANSWERS):
        if out is None:
            shutil.rmtree(folder, ignore_errors=True)
        # Nobody wrote the file that a line of it could be looked up in.
        said = re.sub(rf"{re.escape(str(file))}(:\d+)*: ", "", done.stderr.strip())
        raise FailedError(said.removeprefix("tenon: ").removeprefix("error: "))
    return Comparison(json.loads(done.stdout), results)


def _comparison(base, arms, workload, settings, options, sources: Path) -> str:
    """The comparison's TOML file."""
    keys = {"format": 1, "workload": workload, **options}
    if base is not None:
        base = pipeline_file(checks.path(base, "base"))
        keys["base"] = os.path.abspath(base)
    if settings:
        keys["set"] = overrides(settings, sources)
    if not isinstance(arms, Mapping):
        arms = {str(text).rsplit("=", 1)[-1]: text for text in checks.listed(arms, "arms", "settings, or a dict of them")}
    sets = {name: _difference(name, difference, sources) for name, difference in arms.items()}
    if any(text.endswith(".plugin=python") for texts in sets.values() for text in texts):
        keys.setdefault("several", True)  # a class is one difference, and takes several keys to name
    lines = [f"{name} = {toml.written(value)}" for name, value in keys.items()]
    for name, texts in sets.items():
        lines += ["[[arm]]", f"name = {toml.written(name)}", f"set = {toml.written(texts)}"]
    return "\n".join(lines) + "\n"


def _difference(name: str, given: Any, sources: Path) -> list[str]:
    if isinstance(given, str):
        return [given]
    if not isinstance(given, Mapping):
        raise InvalidArgumentError(f"the arm {name!r} is {given!r} – give a setting, as 'scheduler.plugin=static', or a dict")
    return overrides(given, sources)


def _workload(given, scratch: str) -> str:
    if isinstance(given, (str, os.PathLike)):
        return os.path.abspath(given)
    path = Path(scratch) / "prompts.jsonl"
    prompts = checks.listed(given, "workload", "prompts, or a file")
    path.write_text("".join(json.dumps({"prompt": prompt}) + "\n" for prompt in prompts))
    return str(path)
