"""Figures of the tables."""

from __future__ import annotations

from pathlib import Path
from typing import Any


def peers(folder: Path, details: list[dict[str, Any]]) -> list[Path]:
    """Seconds of each peer and of lineal to the peer's objective, as bars; the path of the PNG file."""
    from benchmarks.distributed.peers import ENGINES, seconds_of

    shown = [found for found in details if "median_seconds" in found["theirs"]]
    if not shown:
        return []
    picture, axes = _figure((8.0, 1.0 + 0.7 * len(shown)))
    for place, found in enumerate(shown):
        bars = {found["peer"].split()[0]: found["theirs"]["median_seconds"]}
        bars |= {f"lineal, {engine}": seconds_of(found, engine, "auto") for engine in ENGINES}
        for number, (name, seconds) in enumerate(bars.items()):
            if seconds is not None:
                color = {"Spark": "C1", "dask-ml": "C3"}.get(name, f"C{2 * (number - 1)}")
                axes.barh(place + 0.27 * (number - 1), seconds, 0.25, color=color, label=name)
    axes.set_yticks(range(len(shown)), [f"{one['data']}, {one['problem']}\n{one['peer']}" for one in shown], fontsize=7)
    axes.set(xlabel="seconds to the peer's objective", xscale="log")
    axes.invert_yaxis()
    named = dict(zip(*reversed(axes.get_legend_handles_labels())))
    axes.legend(named.values(), named.keys())
    return [_saved(picture, folder, "peers.png")]


def scaling(folder: Path, details: list[dict[str, Any]]) -> list[Path]:
    """Seconds of weak and strong scaling against partitions per worker; the path of the PNG file."""
    shown = [one for one in details if one["kind"] == "partitions" and "median_seconds" in one]
    if not shown:
        return []
    picture, axes = _figure((6.4, 4.4))
    for name in ("strong", "weak"):
        pairs = [(one["partitions"], one["median_seconds"]) for one in shown if one["scaling"] == name]
        axes.plot(*zip(*pairs), marker="o", label=f"{name} scaling")
    axes.set(xlabel="partitions per worker", ylabel="seconds", ylim=(0.0, None))
    axes.legend()
    return [_saved(picture, folder, "partitions.png")]


def methods(folder: Path, details: list[dict[str, Any]]) -> list[Path]:
    """Distance from the minimum against seconds of each method, one panel per data set; the path of the PNG file."""
    from matplotlib.figure import Figure

    shown = [one for one in details if one["kind"] == "method" and "median_seconds" in one]
    data = list(dict.fromkeys(one["data"] for one in shown))
    if not data:
        return []
    picture = Figure(figsize=(5.0 * len(data), 4.2), layout="constrained")
    for axes, name in zip(picture.subplots(1, len(data), squeeze=False)[0], data):
        for place, method in enumerate(dict.fromkeys(one["method"] for one in shown)):
            own = [one for one in shown if (one["data"], one["method"]) == (name, method)]
            pairs = [(one["median_seconds"], max(one["objective"] / one["least"] - 1.0, 1e-6)) for one in own]
            axes.plot(*zip(*pairs), marker="o", color=f"C{place}", label=method)
        axes.set(xlabel="seconds", ylabel="relative distance from the minimum", xscale="log", yscale="log", title=name)
        axes.grid(alpha=0.3)
        axes.legend()
    return [_saved(picture, folder, "methods.png")]


def _figure(size: tuple[float, float]) -> tuple[Any, Any]:
    from matplotlib.figure import Figure

    picture = Figure(figsize=size, layout="constrained")
    axes = picture.subplots()
    axes.grid(alpha=0.3)
    return picture, axes


def _saved(picture: Any, folder: Path, name: str) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    picture.savefig(folder / name, dpi=130)
    return folder / name
