"""Relative error and relative time, as the paper has them, of all that was found.

Relative error: (error − least) / (largest − least), where least and largest are those of lin, quad and cubic. Relative
time: seconds over those of lin. Sets on which the three tie have no relative errors; they are left out, and counted.
Seconds are those of reading the rows as text and learning, or with `learning` those of learning alone.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np

BASELINES = ("lin", "quad", "cubic")


def tie(runs: dict[str, Any]) -> bool:
    """Whether the baselines have one error."""
    errors = _errors(runs)
    return max(errors) == min(errors)


def error(runs: dict[str, Any], run: dict[str, Any]) -> float:
    """Relative error of a run, to the baselines of the same program."""
    errors = _errors(runs)
    return float((run["error"] - min(errors)) / (max(errors) - min(errors)))


def seconds(runs: dict[str, Any], run: dict[str, Any], reading: float) -> float:
    """Relative time of a run; `reading` seconds are added to both."""
    return float((run["seconds"] + reading) / (runs["lin"]["seconds"] + reading))


def best(runs: dict[str, Any], kind: str) -> dict[str, Any]:
    """Of all exponents the one with the least test error, as in the paper (which is to look at the test rows)."""
    return min((run for name, run in runs.items() if name.startswith(f"{kind}(")), key=lambda run: run["error"])


def curves(found: list[dict[str, Any]], who: str = "lineal") -> dict[str, list[tuple[float, float, str]]]:
    """(relative error, relative time, set) of every method over the sets without ties."""
    points: dict[str, list[tuple[float, float, str]]] = {}
    for one in found:
        runs = {name: run for name, run in one[who].items() if run is not None}
        if tie(runs):
            continue
        reading = one["reading"] if who == "lineal" else 0.0
        kinds = {name.partition("(")[0] for name in runs if "(" in name and who == "lineal"}
        for name, run in {**runs, **{f"{kind}-best": best(runs, kind) for kind in sorted(kinds)}}.items():
            points.setdefault(name, []).append((error(runs, run), seconds(runs, run, reading), one["set"]))
    return points


def share(values: Iterable[float], bound: float) -> float:
    """How many are below."""
    return float(np.mean(np.asarray(list(values)) < bound))


def _errors(runs: dict[str, Any]) -> list[float]:
    return [runs[name]["error"] for name in BASELINES if runs.get(name) is not None]
