"""Plots of a fit: objective and gap against time, or the progressive loss of an online learner."""

from __future__ import annotations

import math
import os
from collections.abc import Sequence
from typing import Any

from lineal.errors import LinealError
from lineal.system.files import whole_file


def plot_history(history: Sequence[dict[str, Any]], path: str | os.PathLike[str]) -> None:
    """Plot `history_` (or the history of a solution) to an image file; the ending of its name decides the format.

    The left plot shows the objective where it was computed, the right one the solver's running estimate of the relative
    gap, both against seconds. For methods without a gap, the right plot shows the error on held-out rows, if any.
    """
    figure, canvas = canvas_of((9, 3.5))
    left, right = figure.subplots(1, 2)
    values = [(row["seconds"], row["objective"]) for row in history if _is_number(row["objective"])]
    gaps = [(row["seconds"], row["gap"]) for row in history if _is_number(row["gap"]) and row["gap"] > 0.0]
    left.plot(*zip(*values), marker=".")
    left.set(xlabel="seconds", ylabel="objective")
    errors = [(row["seconds"], row["validation"]) for row in history if "validation" in row]
    right.plot(*zip(*(errors or gaps)), marker=".", color="tab:orange")
    name = "error on held-out rows" if errors else "relative gap (estimates; the last one is certified)"
    right.set(xlabel="seconds", ylabel=name)
    if gaps or errors:
        right.set_yscale("log")
    draw(canvas, path)


def plot_progress(history: Sequence[dict[str, Any]], path: str | os.PathLike[str]) -> None:
    """Plot the progressive loss of an online learner against the number of examples to an image file."""
    figure, canvas = canvas_of((6, 3.5))
    axes = figure.subplots()
    passes = sorted({row["pass"] for row in history})
    for number in passes:
        rows = [row for row in history if row["pass"] == number and _is_number(row["average_loss"])]
        label = f"pass {number:.0f}" if len(passes) > 1 else None
        axes.plot([row["examples"] for row in rows], [row["average_loss"] for row in rows], marker=".", label=label)
    axes.set(xlabel="examples", ylabel="progressive loss (mean so far)", xscale="log")
    if 1 < len(passes) <= 10:
        axes.legend()
    draw(canvas, path)


def _is_number(value: float | None) -> bool:
    return value is not None and math.isfinite(value)


def canvas_of(size: tuple[float, float]) -> tuple[Any, Any]:
    """An empty figure of the given size in inches, and its canvas, which needs no display."""
    figure_class, canvas_class = _matplotlib()
    figure = figure_class(figsize=size, layout="constrained")
    return figure, canvas_class(figure)


def draw(canvas: Any, path: str | os.PathLike[str]) -> None:
    """Write the figure to an image file, which appears whole or not at all."""
    with whole_file(path) as file:
        canvas.print_figure(file, format=check_image(path))


def check_image(path: str | os.PathLike[str]) -> str:
    """The image format that the ending of a file name stands for; an error if it cannot be drawn."""
    ending = os.path.splitext(os.fspath(path))[1][1:].lower()
    known = _matplotlib()[1].get_supported_filetypes()
    if ending not in known:
        raise LinealError(f"cannot draw {os.fspath(path)}: its name must end with one of {', '.join(sorted(known))}")
    return ending


def _matplotlib() -> tuple[Any, Any]:
    try:
        from matplotlib.backends.backend_agg import FigureCanvasAgg
        from matplotlib.figure import Figure
    except ImportError:
        raise LinealError("plots need matplotlib: pip install 'lineal[report]'") from None
    return Figure, FigureCanvasAgg
