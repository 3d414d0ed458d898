"""Every set by every method: errors, features, relative errors and times, and what they say together.

One pass of squared loss; classes are judged by the share of wrong ones, numbers by their mean square, both on a random
fifth of the rows. Each method has the rate with the least progressive error of its own.
"""

from __future__ import annotations

import json
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np

import lineal
from benchmarks.apple import ours, relative, vw
from benchmarks.apple.problems import Plan, Problem
from benchmarks.common import write_json
from benchmarks.sparse_multiclass.problems import Table

SHOWN = ("lin", "quad", "cubic", "apple(1)", "published", "ssm(1)")
ERRORS = ("set", "rows", "classes", "nonzeros", *SHOWN, "apple-best", "ssm-best",
          "vw lin", "vw quad", "vw cubic", "vw apple(1)")  # fmt: skip
FEATURES = ("set", *SHOWN, "vw apple(1)")
RELATIVE = ("method", "sets", "error < 0.5", "error < 0", "median", "quartiles", "median time", "quartiles of time",
            "time < 10")  # fmt: skip


def rows_of(plan: Plan) -> tuple[list[Table], dict[str, Any]]:
    """Tables, and for the file and the plots every run."""
    found: list[dict[str, Any]] = []
    _warm_up(plan)
    for name in plan.names():
        start = time.perf_counter()
        found.append(_kept(plan, name) or _keep(plan, name, _one(plan, plan.load(name))))
        shown = {method: _round(found[-1]["lineal"].get(method)) for method in SHOWN}
        beside = {method: _round(run) for method, run in found[-1]["vw"].items()}
        print(f"{name}: {shown}, vw {beside}, {time.perf_counter() - start:.0f} s", flush=True)
    return _tables(found), {"sets": found, "rates": ours.RATES}


def _kept(plan: Plan, name: str) -> dict[str, Any] | None:
    """What an earlier run found of a set."""
    path = plan.kept and plan.kept / f"{name}.json"
    return json.loads(path.read_text()) if path and path.exists() else None


def _keep(plan: Plan, name: str, found: dict[str, Any]) -> dict[str, Any]:
    if plan.kept:
        write_json(plan.kept / f"{name}.json", found)
    return found


def _one(plan: Plan, problem: Problem) -> dict[str, Any]:
    runs = {
        method: ours.best_of(problem, method, options, plan.is_quick) for method, options in ours.methods().items()
    }  # fmt: skip
    with (
        tempfile.TemporaryDirectory() as folder,
        vw.Room(problem, Path(folder) / "rows") as room,
    ):
        reading = min(_seconds_to_read(room.folder / "train.vw") for _ in range(2))
        beside = {method: room.best_of(method, plan.is_quick) for method in vw.methods(1)}
    return {
        "set": problem.name, "rows": len(problem.y), "classes": max(problem.k, 0 if problem.is_regression else 2),
        "nonzeros": problem.nonzeros, "reading": reading, "lineal": runs, "vw": beside,
    }  # fmt: skip


def _seconds_to_read(path: Path) -> float:
    start = time.process_time()
    lineal.read(path)
    return time.process_time() - start


def _warm_up(plan: Plan) -> None:
    """Compile what will be timed."""
    quick = Plan(plan.data, True)
    for name in ("phoneme", "segment"):
        for method, options in ours.methods().items():
            if method in ("lin", "quad", "apple(1)", "ssm(1)"):
                ours.best_of(quick.load(name), method, options, True)
    with tempfile.TemporaryDirectory() as folder, vw.Room(quick.load("phoneme"), Path(folder) / "rows") as room:
        _seconds_to_read(room.folder / "train.vw")


def _round(run: dict[str, Any] | None) -> float | None:
    return run and round(run["error"], 2)


def _tables(found: list[dict[str, Any]]) -> list[Table]:
    if not found:
        return []
    return [
        Table(
            "errors", "Test errors: per cent of wrong classes, or mean squares", ERRORS, [_errors(one) for one in found]
        ),
        Table("features", "Features an example", FEATURES, [_features(one) for one in found]),
        Table("relative", _title(found), RELATIVE, _relative(found)),
        Table("against", "apple(1) of lineal and of VW, on sets that do not tie", ("", "sets"), _against(found)),
    ]


def _errors(one: dict[str, Any]) -> list[Any]:
    runs = {name: run for name, run in one["lineal"].items() if run is not None}
    chosen = [runs.get(name) for name in SHOWN] + [relative.best(runs, kind) for kind in ("apple", "ssm")]
    errors = [None if run is None else f"{run['error']:.3g}" for run in (*chosen, *one["vw"].values())]
    return [one["set"], one["rows"], one["classes"] or "numbers", f"{one['nonzeros']:.1f}", *errors]


def _features(one: dict[str, Any]) -> list[Any]:
    runs = [one["lineal"][name] for name in SHOWN] + [one["vw"]["apple(1)"] if one["classes"] < 3 else None]
    return [one["set"], *(run and f"{run['features']:.0f}" for run in runs)]


def _title(found: list[dict[str, Any]]) -> str:
    ties = [one["set"] for one in found if relative.tie(one["lineal"])]
    without = [one["set"] for one in found if one["lineal"]["cubic"] is None]
    return (
        f"Relative errors and times of {len(found)} sets (ties of lin, quad and cubic, left out: "
        f"{', '.join(ties) or 'none'}; without cubic: {', '.join(without) or 'none'})"
    )


def _relative(found: list[dict[str, Any]]) -> list[list[Any]]:
    rows = []
    for who in ("lineal", "vw"):
        for name, points in relative.curves(found, who).items():
            errors, times = np.array([point[0] for point in points]), np.array([point[1] for point in points])
            rows.append([
                name if who == "lineal" else f"vw {name}", len(points), f"{relative.share(errors, 0.5):.0%}",
                f"{relative.share(errors, 0.0):.0%}", f"{np.median(errors):.2f}", _quartiles(errors),
                f"{np.median(times):.1f}", _quartiles(times), f"{relative.share(times, 10.0):.0%}",
            ])  # fmt: skip
    return rows


def _quartiles(values: np.ndarray) -> str:
    low, high = np.percentile(values, [25, 75])
    return f"{low:.2f} to {high:.2f}"


def _against(found: list[dict[str, Any]]) -> list[list[Any]]:
    kept = [one for one in found if not relative.tie(one["lineal"])]
    lower = [one["lineal"]["apple(1)"]["error"] < one["vw"]["apple(1)"]["error"] for one in kept]
    equal = [one["lineal"]["apple(1)"]["error"] == one["vw"]["apple(1)"]["error"] for one in kept]
    worse = [one["vw"]["apple(1)"]["error"] > one["vw"]["lin"]["error"] for one in kept]
    published = [one["lineal"]["apple(1)"]["error"] < one["lineal"]["published"]["error"] for one in kept]
    below = [one["lineal"]["apple(1)"]["error"] < one["lineal"]["lin"]["error"] for one in kept]
    return [
        ["sets", len(kept)],
        ["lineal's apple has the lower error", f"{sum(lower)} ({np.mean(lower):.0%})"],
        ["the same error", sum(equal)],
        ["VW's apple is worse than VW's lin", sum(worse)],
        ["lineal's apple is better than lineal's lin", sum(below)],
        ["lineal's apple is better than the published algorithm, by lineal", sum(published)],
    ]
