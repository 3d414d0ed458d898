"""Table 1 of the paper: MNIST by pixels and by 4000 and 8000 Fourier features, three methods, means of three seeds.

The logistic method is Algorithm 1 with momentum, whose number of iterations regularises: a few of them are better on
held-out rows than the optimum of any ridge. The settings of every cell, bandwidth (a multiple of the median), ridge and
iterations, are the best of a few on a sixth of the training rows, held out, with the first seed's features; those of
4000 features serve 8000, too. Pixels have no bandwidth and no seed. Features are Fourier features of stressed principal
components; with --slow also of the pixels.
"""

from __future__ import annotations

import time
from typing import Any, NamedTuple

import numpy as np

from benchmarks.least_squares import ours
from benchmarks.least_squares.problems import Plan, Sets, Table, split

TITLE = "MNIST test errors (%): linear, logistic and calibrated least squares, means of three seeds"
COLUMNS = ("features", "method", "error", "seeds", "the paper", "scale", "alpha", "iterations",
           "seconds per fit")  # fmt: skip

#: The errors in the paper, in the order of `ours.METHODS`.
PAPER = {"pixels": (14.1, 7.8, 8.1), "4000": (1.83, 1.48, 1.54), "8000": (1.48, 1.33, 1.36)}

#: What is tried: bandwidths, ridges of Fourier features and of pixels by method, and iterations of the logistic one.
SCALES = (1.0, 2.0, 4.0)
ALPHAS = {"linear": (1e-9, 1e-8, 1e-7), "logistic": (1e-8,), "calibrated": (1e-8, 1e-7, 1e-6)}
PIXEL_ALPHAS = {"linear": (1e-4, 1e-3, 1e-2), "logistic": (1e-6,), "calibrated": (1e-3, 1e-2, 1e-1)}
ITERATIONS = (5, 7, 10, 15, 25, 50, 100, 200)


class Setting(NamedTuple):
    """Of one cell."""

    scale: float | None
    alpha: float
    iterations: int | None = None


def rows_of(plan: Plan) -> tuple[list[Table], dict[str, Any]]:
    """The table, and for the file every fit."""
    sets, table = plan.load("MNIST"), []
    warm = ours.warm_up(plan)
    details: dict[str, Any] = {"warm_up_seconds": warm, "fits": []}
    makers = {"": False, **({" of pixels": True} if plan.is_slow else {})}
    sizes = [0, *((256, 512) if plan.is_quick else (4000, 8000))]
    chosen: dict[bool, dict[str, Setting]] = {}
    for size in sizes:
        for words, on_pixels in makers.items() if size else {"": False}.items():
            label = f"{size}{words}" if size else "pixels"
            if plan.match in label:
                if size <= sizes[1] or on_pixels not in chosen:
                    chosen[on_pixels] = _chosen(plan, sets, label, size, on_pixels, details["fits"])
                table += _cells(plan, sets, label, size, on_pixels, chosen[on_pixels], details["fits"])
    return [Table("table1", TITLE, COLUMNS, table)], details


def _chosen(plan: Plan, sets: Sets, label: str, size: int, on_pixels: bool, log: list[Any]) -> dict[str, Setting]:
    """The setting of every method."""
    errors: dict[str, dict[Setting, float]] = {name: {} for name in ours.METHODS}
    scales: tuple[float | None, ...] = (SCALES[:2] if plan.is_quick else SCALES) if size else (None,)
    for scale in scales:
        rows = _made(split(sets), size, 0, on_pixels, scale)
        for name, alphas in (ALPHAS if size else PIXEL_ALPHAS).items():
            for alpha in alphas[:1] if plan.is_quick else alphas:
                found = _tried(rows, name, Setting(scale, alpha))
                errors[name] |= found
                print(label, name, {str(tuple(setting)): error for setting, error in found.items()}, flush=True)
    for name, tried in errors.items():
        listed = {str(tuple(setting)): error for setting, error in tried.items()}
        log.append({"features": label, "method": name, "validation": listed})
    return {name: min(tried, key=tried.__getitem__) for name, tried in errors.items()}


def _tried(rows: Sets, name: str, setting: Setting) -> dict[Setting, float]:
    """Held-out errors (%), of the logistic method after each number of iterations."""
    if name != "logistic":
        _, model = _fit(rows, name, setting)
        return {setting: rows.error(model.predict(rows.X_test))}
    errors = ours.errors_by_iteration(rows, setting.alpha, ITERATIONS)
    return {setting._replace(iterations=count): error for count, error in errors.items()}


def _cells(
    plan: Plan, sets: Sets, label: str, size: int, on_pixels: bool, chosen: dict[str, Setting], log: list[Any]
) -> list[list[Any]]:
    found: dict[str, list[tuple[float, float]]] = {name: [] for name in ours.METHODS}
    for seed in range(3 if size and not plan.is_quick else 1):
        for scale in dict.fromkeys(setting.scale for setting in chosen.values()):
            rows = _made(sets, size, seed, on_pixels, scale)
            for name in (name for name, setting in chosen.items() if setting.scale == scale):
                seconds, model = _fit(rows, name, chosen[name])
                found[name].append((rows.error(model.predict(rows.X_test)), seconds))
                log.append({
                    "features": label, "method": name, "seed": seed, "error": found[name][-1][0], "seconds": seconds,
                    "iterations": len(model.history_) - 1, "status": model.status_,
                })  # fmt: skip
                print(f"{label} {name}, seed {seed}: {found[name][-1][0]:.2f} % in {seconds:.1f} s", flush=True)
    lines = []
    for number, (name, cells) in enumerate(found.items()):
        error, seconds = np.mean(cells, axis=0)
        paper = PAPER.get(label, (None,) * 3)[number]
        setting = chosen[name]
        lines.append([label, name, f"{error:.2f}", len(cells), paper,
                      setting.scale, f"{setting.alpha:g}", setting.iterations, float(seconds)])  # fmt: skip
    return lines


def _made(sets: Sets, size: int, seed: int, on_pixels: bool, scale: float | None) -> Sets:
    if not size:
        return sets
    start = time.perf_counter()
    rows = ours.with_features(sets, size, seed, ours.generator("MNIST", on_pixels, scale))
    print(f"{size} features of {len(rows.y)} rows: {time.perf_counter() - start:.1f} s", flush=True)
    return rows


def _fit(rows: Sets, name: str, setting: Setting) -> tuple[float, Any]:
    options = ours.METHODS[name] if setting.iterations is None else ours.early(setting.iterations)
    return ours.least_squares(rows, alpha=setting.alpha, **options)
