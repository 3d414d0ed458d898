"""Figures of the curves: one file a data set."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.liblinear.curves import as_arrays

#: Suboptimalities below this are drawn here: a logarithm has no room for rounding.
FLOOR = 1e-8


def draw(folder: Path, found: dict[str, Any]) -> list[Path]:
    """Write PNG files; their paths."""
    from matplotlib.figure import Figure

    folder.mkdir(parents=True, exist_ok=True)
    written = []

    def figure(name: str, x: str, y: str, **scales: str) -> tuple[Any, Any]:
        picture = Figure(figsize=(6.4, 4.4), layout="constrained")
        axes = picture.subplots()
        axes.set(xlabel=x, ylabel=y, title=name, **scales)
        axes.grid(alpha=0.3)
        return picture, axes

    def save(picture: Any, axes: Any, file: str) -> None:
        axes.legend()
        picture.savefig(folder / file, dpi=130)
        written.append(folder / file)

    for name, curves in found["curves"].items():
        scales = {"xscale": "log", "yscale": "log"}
        picture, axes = figure(f"{name}, squared hinge, C = 1", "seconds", "relative suboptimality", **scales)
        for label, points in curves.items():
            seconds, values = as_arrays(points, "seconds", "suboptimality")
            axes.plot(seconds, np.maximum(values, FLOOR), marker=".", markersize=3, label=label)
        save(picture, axes, f"objective-{name}.png")
        if all("accuracy" in points[0] for points in curves.values()):
            picture, axes = figure(f"{name}, squared hinge, C = 1", "seconds", "test accuracy", xscale="log")
            for label, points in curves.items():
                axes.plot(*as_arrays(points[1:], "seconds", "accuracy"), marker=".", markersize=3, label=label)
            save(picture, axes, f"accuracy-{name}.png")
    for name in sorted({row["data"] for row in found["cost"]}):
        rows = [row for row in found["cost"] if row["data"] == name]
        scales = {"xscale": "log", "yscale": "log"}
        picture, axes = figure(f"{name}, squared hinge", "C", "seconds to a suboptimality of 1e-3", **scales)
        for solver in ("dual_cd s", "newton s"):
            pairs = [(float(row["C"]), row[solver]) for row in rows if row[solver]]
            axes.plot(*zip(*pairs), marker="o", label=solver.removesuffix(" s"))
        save(picture, axes, f"cost-{name}.png")
    return written
