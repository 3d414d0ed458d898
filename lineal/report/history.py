"""A fit as a picture: objective and gap against time."""

from __future__ import annotations

import math
import os
from collections.abc import Sequence
from typing import Any

from lineal.errors import LinealError
from lineal.system.files import whole_file


def plot_history(history: Sequence[dict[str, Any]], path: str | os.PathLike[str]) -> None:
    """Draw `history_` (or a solution's history) to an image file; its ending decides the format.

    Left the objective where it was computed, right the solver's running estimate of the relative gap, both against
    seconds. Of methods without a gap, right the error of held-out rows where there were some.
    """
    figure, canvas = canvas_of((9, 3.5))
    left, right = figure.subplots(1, 2)
    values = [(row["seconds"], row["objective"]) for row in history if _is_number(row["objective"])]
    gaps = [(row["seconds"], row["gap"]) for row in history if _is_number(row["gap"]) and row["gap"] > 0.0]
    left.plot(*zip(*values), marker=".")
    left.set(xlabel="seconds", ylabel="objective")
    errors = [(row["seconds"], row["validation"]) for row in history if "validation" in row]
    right.plot(*zip(*(errors or gaps)), marker=".", color="tab:orange")
    name = "error of held-out rows" if errors else "relative gap (estimate; the last is certified)"
    right.set(xlabel="seconds", ylabel=name)
    if gaps or errors:
        right.set_yscale("log")
    draw(canvas, path)


def plot_progress(history: Sequence[dict[str, Any]], path: str | os.PathLike[str]) -> None:
    """Draw the progressive loss of an online learner against the number of examples to an image file."""
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
    """An empty figure of that size in inches, and what draws it without a display."""
    figure_class, canvas_class = _matplotlib()
    figure = figure_class(figsize=size, layout="constrained")
    return figure, canvas_class(figure)


def draw(canvas: Any, path: str | os.PathLike[str]) -> None:
    """Write the figure to an image file, whole or not at all."""
    with whole_file(path) as file:
        canvas.print_figure(file, format=check_image(path))


def check_image(path: str | os.PathLike[str]) -> str:
    """The format that the ending of an image file's name stands for; an error where it cannot be drawn."""
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
