"""Figures 2 to 5 of the paper, one file a data set and λ."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

#: Suboptimalities below this are drawn here: a logarithm has no room for rounding.
FLOOR = 1e-8

QUANTITIES = {
    "objective": ("suboptimality", "relative distance from the least objective"),
    "accuracy": ("accuracy", "test accuracy"),
    "rows": ("live_rows", "share of non-zero rows"),
}


def curves(folder: Path, found: dict[str, Any]) -> list[Path]:
    """Objective, accuracy and non-zero rows against time; paths of the files."""
    written = []
    for part, problems in found.items():
        for name, problem in problems.items():
            for quantity, (key, words) in QUANTITIES.items():
                picture, axes = _figure(f"{name} ({part})", "seconds", words, xscale="log")
                if quantity == "objective":
                    axes.set_yscale("log")
                for label, points in problem["curves"].items():
                    shown = [point for point in points if point["seconds"] > 0.0]
                    values = np.array([point[key] for point in shown])
                    values = np.maximum(values, FLOOR) if quantity == "objective" else values
                    axes.plot([point["seconds"] for point in shown], values, marker=".", markersize=3, label=label)
                written.append(_save(picture, axes, folder, f"{part}-{quantity}-{name}"))
    return written


def trade_off(folder: Path, found: dict[str, Any]) -> list[Path]:
    """Accuracy against non-zero rows (Fig. 5); paths of the files."""
    written = []
    for name, methods in found.items():
        for method, objectives in methods.items():
            picture, axes = _figure(f"{name}, {method}", "non-zero rows", "test accuracy", xscale="log")
            for label, points in objectives.items():
                pairs = sorted((point["live_rows"], point["accuracy"]) for point in points)
                axes.plot(*zip(*pairs), marker="o", label=label)
            written.append(_save(picture, axes, folder, f"trade-off-{name}-{method}"))
    return written


def _figure(name: str, x: str, y: str, **scales: str) -> tuple[Any, Any]:
    from matplotlib.figure import Figure

    picture = Figure(figsize=(6.4, 4.4), layout="constrained")
    axes = picture.subplots()
    axes.set(xlabel=x, ylabel=y, title=name, **scales)
    axes.grid(alpha=0.3)
    return picture, axes


def _save(picture: Any, axes: Any, folder: Path, name: str) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    axes.legend()
    kept = "".join(letter if letter.isalnum() or letter in "-." else "-" for letter in name.replace("λ = ", ""))
    path = folder / f"{kept}.png"
    picture.savefig(path, dpi=130)
    return path
