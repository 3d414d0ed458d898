"""Figures 1 to 4 of the paper as PNG files, and the story of Theorem 1."""

from __future__ import annotations

from pathlib import Path
from typing import Any

#: Line styles, for when the ten colours begin again.
STYLES = ("-", "--", ":")


def figure1(folder: Path, found: dict[str, Any]) -> list[Path]:
    """Test error against time."""
    picture, axes = _figure("MNIST, stagewise regression", "seconds", "test error (%)", xscale="log", yscale="log")
    for label, points in found["curves"].items():
        _draw(axes, points, "seconds", "error", label)
    return [_save(picture, axes, folder, "figure1")]


def figure2(folder: Path, found: dict[str, Any]) -> list[Path]:
    """Test errors and seconds of all contestants, by number of features."""
    written = []
    for key, words in (("error", "test error (%)"), ("seconds", "seconds")):
        picture, axes = _figure("MNIST, equal features", "features", words, xscale="log", yscale="log")
        for name in dict.fromkeys(one["name"] for one in found["fits"]):
            points = [one for one in found["fits"] if one["name"] == name and one.get(key) is not None]
            if points:
                _draw(axes, points, "features", key, name)
        written.append(_save(picture, axes, folder, f"figure2-{key}"))
    return written


def mnist(folder: Path, found: dict[str, Any]) -> list[Path]:
    """Stagewise regression and the kernel machine."""
    written = []
    for name, one in found.items():
        picture, axes = _figure(name, "seconds", "test error (%)", xscale="log", yscale="log")
        for label, run in one["runs"].items():
            _draw(axes, run["curve"], "seconds", "error", label)
        axes.plot([one["svc"]["seconds"]], [one["svc"]["error"]], "k*", markersize=12, label=one["svc"]["name"])
        written.append(_save(picture, axes, folder, f"kernel-machine-{name}"))
    return written


def figure3(folder: Path, found: dict[str, Any]) -> list[Path]:
    """Accuracy against blocks, and against models averaged."""
    written = []
    for key, words in (("blocks", "blocks"), ("models", "models averaged")):
        picture, axes = _figure("CIFAR-10, 20k JPEG images", words, "test accuracy (%)")
        for label, curves in found["figure3"].items():
            _draw(axes, curves[key], key, "accuracy", label)
        written.append(_save(picture, axes, folder, f"figure3-{key}"))
    return written


def figure4(folder: Path, found: dict[str, Any]) -> list[Path]:
    """Shares of the sum of the leading singular values."""
    picture, axes = _figure("spectra", "leading singular values", "share of their sum", xscale="log")
    for label, one in found.items():
        axes.plot(range(1, len(one["shares"]) + 1), one["shares"], label=label)
    return [_save(picture, axes, folder, "figure4")]


def conditioning(folder: Path, found: dict[str, Any]) -> list[Path]:
    """Iterations against the condition number."""
    picture, axes = _figure("softmax, α = 0", "cond(Σ̂)", "iterations to the level", xscale="log", yscale="log")
    for label, counts in found["iterations"].items():
        pairs = [(float(cond), count) for cond, count in counts.items() if count is not None]
        if pairs:
            axes.plot(*zip(*pairs), marker="o", label=label)
    return [_save(picture, axes, folder, "conditioning")]


def _draw(axes: Any, points: list[dict[str, Any]], x: str, y: str, label: str) -> None:
    axes.plot([one[x] for one in points], [one[y] for one in points], marker=".", markersize=4, label=label)


def _figure(title: str, x: str, y: str, **scales: str) -> tuple[Any, Any]:
    from matplotlib.figure import Figure

    picture = Figure(figsize=(8.4, 4.6), layout="constrained")
    axes = picture.subplots()
    axes.set(xlabel=x, ylabel=y, title=title, **scales)
    axes.grid(alpha=0.3, which="both")
    return picture, axes


def _plain_ticks(axis: Any) -> None:
    """1, 2, 5, 10, … in place of powers of ten, where a logarithmic axis spans few of them."""
    from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter

    low, high = axis.get_view_interval()
    if axis.get_scale() == "log" and 0.0 < low < high < 300.0 * low:
        axis.set_major_locator(
            LogLocator(subs=(1.0, 2.0, 5.0) if high > 10.0 * low else (1.0, 1.5, 2.0, 3.0, 5.0, 7.0))
        )
        axis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
        axis.set_minor_formatter(NullFormatter())


def _save(picture: Any, axes: Any, folder: Path, name: str) -> Path:
    """With the legend beside the lines, which may be many."""
    for axis in (axes.xaxis, axes.yaxis):
        _plain_ticks(axis)
    for number, line in enumerate(axes.get_lines()):
        if line.get_linestyle() != "None":
            line.set(color=f"C{number % 10}", linestyle=STYLES[number // 10 % len(STYLES)])
    if axes.get_lines():
        picture.legend(loc="outside right upper", fontsize="small")
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{name}.png"
    picture.savefig(path, dpi=130)
    return path
