"""Figures 1 to 4 of the paper as PNG files."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.apple import ours, relative

CDF = ("lin", "quad", "cubic", "apple(1)", "apple-best", "ssm(1)", "ssm-best", "published")
APPLES = tuple(f"apple({growth:g})" for growth in ours.GROWTHS)


def figures(folder: Path, found: dict[str, Any]) -> list[Path]:
    """All of them."""
    folder.mkdir(parents=True, exist_ok=True)
    sets = found["sets"]
    if not any(not relative.tie(one["lineal"]) for one in sets):
        return []
    slow = [one for one in sets if _is_slow(one)]
    written = [_trade_off(folder, sets), _cdf(folder, sets, "figure2", "all sets")]
    if any(not relative.tie(one["lineal"]) for one in slow):
        written.append(_cdf(folder, slow, "figure3", "sets where quad takes at least twice the time of lin"))
    return [*written, _top(folder, sets)]


def _is_slow(one: dict[str, Any]) -> bool:
    return relative.seconds(one["lineal"], one["lineal"]["quad"], one["reading"]) >= 2.0


def _trade_off(folder: Path, sets: list[dict[str, Any]]) -> Path:
    """Medians of relative error and time, with quartiles."""
    picture, (axes,) = _figure(1, "medians and quartiles over the sets")
    axes.set(xlabel="relative time", ylabel="relative error", xscale="log")
    for who, names in (
        ("lineal", ("lin", "quad", "cubic", *APPLES, "published")),
        ("vw", ("quad", "cubic", "apple(1)")),
    ):
        points = relative.curves(sets, who)
        for name in names:
            if name in points:
                errors, times = np.array([point[:2] for point in points[name]], float).T
                x, y = np.median(times), np.median(errors)
                spread = [np.abs(np.percentile(values, [25, 75]) - middle)[:, None]
                          for values, middle in ((times, x), (errors, y))]  # fmt: skip
                label = name if who == "lineal" else f"vw {name}"
                axes.errorbar(x, y, xerr=spread[0], yerr=spread[1], marker="o" if who == "lineal" else "x", label=label)
    return _save(picture, axes, folder, "figure1")


def _cdf(folder: Path, sets: list[dict[str, Any]], name: str, title: str) -> Path:
    """How many sets have at most a relative error, and a relative time."""
    picture, panels = _figure(2, title)
    curves = {f"{name}": points for name, points in relative.curves(sets).items() if name in CDF}
    beside = relative.curves(sets, "vw")
    curves |= {f"vw {name}": beside[name] for name in ("apple(1)",) if name in beside}
    for which, axes in enumerate(panels):
        for label, points in curves.items():
            values = np.sort([point[which] for point in points])
            axes.step(values, np.arange(1, len(values) + 1), where="post", label=label)
        axes.set_ylabel("sets (cumulative)")
    panels[0].set(xlabel="relative error", xlim=(-1.5, 1.5))
    panels[1].set(xlabel="relative time", xscale="log")
    return _save(picture, panels[0], folder, name)


def _top(folder: Path, sets: list[dict[str, Any]]) -> Path:
    """The six sets with the most features an example, one by one."""
    kept = sorted((one for one in sets if not relative.tie(one["lineal"])), key=lambda one: -one["nonzeros"])[:6]
    picture, panels = _figure(2, "the sets with the most features an example")
    for which, axes in enumerate(panels):
        curves = relative.curves(kept)
        for name in ("lin", "quad", "cubic", *APPLES):
            if name in curves:
                axes.plot(
                    [point[2] for point in curves[name]], [point[which] for point in curves[name]], "o", label=name
                )
        axes.tick_params(axis="x", rotation=30)
    panels[0].set_ylabel("relative error")
    panels[1].set(ylabel="relative time", yscale="log")
    return _save(picture, panels[0], folder, "figure4")


def _figure(count: int, title: str) -> tuple[Any, list[Any]]:
    from matplotlib.figure import Figure

    picture = Figure(figsize=(5.2 + 4.2 * count, 4.6), layout="constrained")
    panels = np.atleast_1d(picture.subplots(1, count)).tolist()
    for axes in panels:
        axes.grid(alpha=0.3, which="both")
    picture.suptitle(title, fontsize="medium")
    return picture, panels


def _save(picture: Any, axes: Any, folder: Path, name: str) -> Path:
    handles, labels = axes.get_legend_handles_labels()
    picture.legend(handles, labels, loc="outside right upper", fontsize="small")
    path = folder / f"{name}.png"
    picture.savefig(path, dpi=130)
    return path
