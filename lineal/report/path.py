"""Plots of a search for α: scores, non-zero weights, and the weights themselves if there are few."""

from __future__ import annotations

import os
from typing import Any

import numpy as np

from lineal.report.history import canvas_of, draw

#: The weights of a path are plotted if there are at most this many.
MAX_LINES = 200


def plot_path(search: Any, path: str | os.PathLike[str]) -> None:
    """Plot a `Search` (the `search_` of an estimator) to an image file; the ending of its name decides the format.

    The first plot shows the mean score with a band of one standard error, and lines at the best and the chosen α; the
    second one the number of non-zero weights. The third one shows the weights, if the search kept them and there are at
    most `MAX_LINES`. All are plotted against α.
    """
    kept = [entry for entry in search.path or [] if entry is not None]
    weights = np.stack([W.ravel() for W, _ in kept]) if kept else np.empty((0, 0))
    has_weights = 0 < weights.shape[1] <= MAX_LINES
    figure, canvas = canvas_of((7, 8 if has_weights else 5.5))
    axes = figure.subplots(3 if has_weights else 2, 1, sharex=True, height_ratios=[2, 1, 2][: 3 if has_weights else 2])
    alphas, mean, se = search.alphas, search.mean, search.se
    axes[0].plot(alphas, mean, marker=".")
    axes[0].fill_between(alphas, mean - se, mean + se, alpha=0.25)
    axes[0].set(ylabel=f"{search.measure} ({search.scores.shape[1]} folds)")
    known = search.nonzero >= 0
    axes[1].plot(alphas[known], search.nonzero[known], marker=".", color="tab:green")
    axes[1].set(ylabel="non-zero weights", ylim=(0, None))
    if has_weights:
        axes[2].plot(alphas[: len(weights)], weights, linewidth=0.8)
        axes[2].set(ylabel="weights")
    for axis in axes:
        axis.axvline(alphas[search.best], linestyle=":", color="tab:gray", label=f"best {alphas[search.best]:.3g}")
        axis.axvline(search.alpha, linestyle="--", color="tab:red", label=f"chosen {search.alpha:.3g}")
    axes[0].legend(fontsize="small")
    if (alphas > 0.0).all():
        axes[-1].set_xscale("log")
    axes[-1].set(xlabel="alpha")
    draw(canvas, path)


def plot_sparsity(search: Any, path: str | os.PathLike[str]) -> None:
    """Plot the mean score of a `Search` against the percentage of features in use to an image file.

    There is one point per α, with bars of one standard error, and a line joins them in the order of the path. The plot
    shows how many features an accuracy needs, as Figure 5 of Blondel, Seki & Uehara (2013) does for penalties on whole
    rows.
    """
    figure, canvas = canvas_of((7, 4.5))
    axis = figure.subplots()
    percent, mean, se = search.percent_rows, search.mean, search.se
    known = np.isfinite(percent) & np.isfinite(mean)
    axis.errorbar(percent[known], mean[known], yerr=se[known], marker=".", capsize=2)
    for position, colour, name in ((search.best, "tab:gray", "best"), (search.chosen, "tab:red", "chosen")):
        if known[position]:
            label = f"{name}: {search.nonzero_rows[position]} features, alpha {search.alphas[position]:.3g}"
            axis.plot(percent[position], mean[position], "o", color=colour, fillstyle="none", markersize=9, label=label)
    axis.set(
        xlabel=f"features in use (% of {search.n_features})",
        ylabel=f"{search.measure} ({search.scores.shape[1]} folds)",
    )
    if known[search.chosen]:
        axis.legend(fontsize="small")
    draw(canvas, path)
