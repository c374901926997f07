#!/usr/bin/env python3
"""Writes tests/golden/statistics/scipy.json: what SciPy says of fixed values.

    tests/golden/make_statistics_goldens.py

tests/unit/report/scipy_test.cc holds core/report to it. Needs scipy and numpy.
"""
import json
import pathlib

import numpy as np
from scipy import stats

OUT = pathlib.Path(__file__).resolve().parent / "statistics/scipy.json"


def rounded(values):
    return [float(f"{value:.6f}") for value in values]


def samples():
    draw = np.random.default_rng(11)
    return {
        "four": rounded(draw.normal(0.02, 0.03, 4)),
        "ten": rounded(draw.normal(0.0, 0.01, 10)),
        "skewed": rounded(draw.lognormal(0.0, 0.8, 25)),
        "many": rounded(draw.exponential(3.0, 400)),
        "rising": rounded(np.linspace(0, 1, 20) + draw.normal(0, 0.3, 20)),
        "ties": [1.0, 2.0, 2.0, 2.0, 3.0, 1.0, 4.0, 4.0, 5.0, 2.0, 6.0, 6.0],
    }


def mean(values, confidence):
    found = stats.ttest_1samp(values, 0.0).confidence_interval(confidence)
    return {"confidence": confidence, "estimate": float(np.mean(values)), "low": float(found.low),
            "high": float(found.high)}


def quantile(values, q, confidence):
    found = stats.quantile_test(values, q=0, p=q).confidence_interval(confidence)
    ends = [None if np.isnan(x) else float(x) for x in (found.low, found.high)]
    return {"q": q, "confidence": confidence, "estimate": float(np.quantile(values, q)),
            "low": ends[0], "high": ends[1]}


def equivalence(values, margin):
    above = stats.ttest_1samp(values, -margin, alternative="greater").pvalue
    below = stats.ttest_1samp(values, margin, alternative="less").pvalue
    return {"margin": margin, "p": float(max(above, below))}


def welch(a, b):
    found = stats.ttest_ind(b, a, equal_var=False).confidence_interval(0.95)
    return {"low": float(found.low), "high": float(found.high)}


def main():
    data = samples()
    p = [0.04, 0.001, 0.03, 0.2, 0.01]
    out = {
        "samples": data,
        "mean": {name: [mean(x, c) for c in (0.9, 0.95, 0.99)] for name, x in data.items()},
        "quantile": {name: [quantile(x, q, 0.95) for q in (0.1, 0.5, 0.9, 0.99)]
                     for name, x in data.items()},
        "equivalence": {name: [equivalence(x, m) for m in (0.00995, 0.05)]
                        for name, x in data.items()},
        "difference_p": {name: float(stats.ttest_1samp(x, 0.0).pvalue) for name, x in data.items()},
        "welch": welch(data["four"], data["ten"]),
        "trend": {name: dict(zip(("tau", "p"), map(float, stats.kendalltau(
            np.arange(len(x)), x, method="asymptotic")))) for name, x in data.items() if len(x) >= 8},
        "quantiles": {
            "normal": [[q, float(stats.norm.ppf(q))] for q in (0.001, 0.5, 0.8, 0.975, 0.9999)],
            "student": [[q, f, float(stats.t.ppf(q, f))] for q in (0.025, 0.8, 0.975, 0.9975)
                        for f in (1, 3, 29)],
        },
        "holm": {"p": p, "adjusted": holm(p)},
    }
    OUT.parent.mkdir(exist_ok=True)
    OUT.write_text(json.dumps(out, indent=1) + "\n")


def holm(p):
    """Holm's procedure by its definition: SciPy has only that of Benjamini and Hochberg."""
    out, largest = [0.0] * len(p), 0.0
    for place, index in enumerate(np.argsort(p)):
        largest = max(largest, p[index] * (len(p) - place))
        out[index] = min(1.0, largest)
    return out


if __name__ == "__main__":
    main()
