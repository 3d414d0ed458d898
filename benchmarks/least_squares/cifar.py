"""CIFAR-10 by patch features: equal features for all, and Fig. 3 of the paper.

The data is a subset after lossy compression: 20 000 of the 50 000 training images, all 10 000 test images, as JPEG.
Accuracies are not those of CIFAR-10. Up to 4000 features of k-means filters are made once, outside of the times of
training, and standardised for all. Strengths are chosen on held-out training rows, and so is the method of lineal that
peers are compared with.
"""

from __future__ import annotations

import time
from typing import Any

import numpy as np

from benchmarks.least_squares import ours, peers
from benchmarks.least_squares.problems import Plan, Sets, Table, percent_wrong, split
from lineal.features import PatchConvolution

DATA = "CIFAR-10 (20k JPEG)"
TITLE = "CIFAR-10, 20k JPEG images, equal patch features: test accuracy (%) and seconds of training"
COLUMNS = ("who", "accuracy", "seconds", "strength", "chosen lineal ratio")
FILTERS_TITLE = "Fig. 3: random and k-means filters, stagewise regression, test accuracy (%)"
FILTERS_COLUMNS = ("filters", "what", "accuracies", "seconds")

#: Features of the comparison.
N_FEATURES, QUICK_FEATURES = 4000, 256
ALPHAS = (1e-3, 1e-2, 1e-1, 1.0)
ITERATIONS = (2, 3, 5, 7, 10, 15, 25, 50)
GRID = (1e-5, 1e-4, 1e-3, 1e-2, 1e-1, 1.0)
RIDGES = (10.0, 100.0, 1e3, 1e4)

#: Fig. 3: features of a block, blocks of a model, models. Ridges are relative to raw features, and chosen too.
BLOCK, BLOCKS, MODELS = 1600, 8, 4
STAGE_ALPHAS = (1e-6, 1e-5, 1e-4, 1e-3)


def rows_of(plan: Plan) -> tuple[list[Table], dict[str, Any]]:
    """The tables, and for the file and the plots every fit."""
    sets = plan.load(DATA, 1500, 1000)
    details: dict[str, Any] = {"warm_up_seconds": ours.warm_up(plan), "fits": [], "figure3": {}}
    start = time.perf_counter()
    count = QUICK_FEATURES if plan.is_quick else N_FEATURES
    made = _standardised(ours.with_features(sets, count, maker=PatchConvolution(n_filters=count // 8)))
    details["feature_seconds"] = time.perf_counter() - start
    print(f"{made.X.shape[1]} features: {details['feature_seconds']:.1f} s", flush=True)
    for found in _contest(plan, made):
        details["fits"].append(found)
        print({key: value for key, value in found.items() if key != "validation"}, flush=True)
    lines = []
    for filters in plan.selected("random", "kmeans"):
        details["figure3"][filters] = _figure3(plan, sets, filters)
        lines += _lines(filters, details["figure3"][filters])
    return [
        Table("cifar", TITLE, COLUMNS, _rows(plan, details["fits"])),
        Table("figure3", FILTERS_TITLE, FILTERS_COLUMNS, lines),
    ], details  # fmt: skip


def _standardised(sets: Sets) -> Sets:
    mean, spread = sets.X.mean(axis=0), sets.X.std(axis=0)
    spread = np.where(spread > 0.0, spread, 1.0)
    return sets._replace(X=(sets.X - mean) / spread, X_test=(sets.X_test - mean) / spread)


def _contest(plan: Plan, sets: Sets) -> Any:
    rows = split(sets)
    for name in plan.selected(*(f"lineal, {method}" for method in ours.METHODS)):
        options: dict[str, Any] = dict(ours.METHODS[name.removeprefix("lineal, ")])
        errors = {}
        for alpha in ALPHAS[1:3] if plan.is_quick else ALPHAS:
            _, model = ours.least_squares(rows, alpha=alpha, **options)
            errors[alpha] = rows.error(model.predict(rows.X_test))
        best = min(errors, key=errors.__getitem__)
        yield _chosen(
            sets, name, f"{best:g}", {str(key): error for key, error in errors.items()}, alpha=best, **options
        )
    for name in plan.selected("lineal, logistic, few iterations"):
        by_count = ours.errors_by_iteration(rows, ALPHAS[0], ITERATIONS)
        count = min(by_count, key=by_count.__getitem__)
        words = f"{ALPHAS[0]:g}, {count} iterations"
        listed = {str(key): error for key, error in by_count.items()}
        yield _chosen(sets, name, words, listed, alpha=ALPHAS[0], **ours.early(count))
    contestants = [peer._replace(grid=GRID) for peer in (*peers.LIBLINEAR.values(), peers.LOGISTIC)]
    with peers.Room(sets, plan) as room:
        for peer in [*contestants, peers.RIDGE._replace(grid=RIDGES)]:
            if plan.match in peer.name:
                yield room.run(peer)


def _chosen(sets: Sets, name: str, words: str, validation: dict[str, float], **options: Any) -> dict[str, Any]:
    seconds, model = ours.least_squares(sets, **options)
    error = sets.error(model.predict(sets.X_test))
    return {"name": name, "seconds": seconds, "error": error, "chosen": words, "validation": validation}


def _rows(plan: Plan, fits: list[dict[str, Any]]) -> list[list[Any]]:
    """Each peer against the method of lineal that did best on the rows held out."""
    table = []
    own = [one for one in fits if one["name"].startswith("lineal")]
    best = min(own, key=lambda fit: min(fit["validation"].values()), default=None)
    for one in fits:
        accuracy = None if one["error"] is None else f"{100.0 - one['error']:.2f}"
        line = [one["name"], accuracy, one["seconds"] or one.get("note"), one.get("chosen")]
        if one in own or best is None or one["name"] == "RidgeClassifier":  # which solves the same problem as `linear`
            table.append([*line, None])
            continue
        seconds = one["seconds"] or (plan.seconds if one.get("note", "").startswith("not done") else None)
        ratio = None if seconds is None else seconds / best["seconds"]
        table.append([*line, ratio])
    return table


def _figure3(plan: Plan, sets: Sets, filters: str) -> dict[str, Any]:
    block, blocks, models = (256, 2, 2) if plan.is_quick else (BLOCK, BLOCKS, MODELS)
    maker = PatchConvolution(filters=filters, squares=True, n_filters=models * blocks * block // 16)
    rows = split(sets, rows=None if plan.is_quick else 6000)
    errors = {}
    for alpha in STAGE_ALPHAS[1:3] if plan.is_quick else STAGE_ALPHAS:
        _, model = ours.stagewise(
            rows, generator=maker, alpha=alpha, block_size=block, n_blocks=min(2, blocks), random_state=0
        )
        errors[alpha] = rows.error(model.predict(rows.X_test))
    best = min(errors, key=errors.__getitem__)
    seconds, model = ours.stagewise(
        sets, generator=maker, alpha=best, block_size=block, n_blocks=blocks, n_models=models, random_state=0
    )
    curve = ours.curve_of(seconds, model, sets)
    total: Any = 0.0
    averaged = []
    for number in range(len(model.model_.members)):
        for scores in ours.scores_by_block(model.model_, sets.X_test, number):
            last = scores
        total = total + last
        wrong = percent_wrong(model.classes_[total.argmax(axis=1)], sets.y_test)
        averaged.append({"models": number + 1, "accuracy": 100.0 - wrong})
    return {
        "alpha": best, "validation": {str(key): error for key, error in errors.items()}, "seconds": seconds,
        "blocks": [{**point, "accuracy": 100.0 - point["error"]} for point in curve], "models": averaged,
    }  # fmt: skip


def _lines(filters: str, found: dict[str, Any]) -> list[list[Any]]:
    lines = [
        [filters, f"after {words}", ", ".join(f"{point['accuracy']:.1f}" for point in found[key]), seconds]
        for key, words, seconds in (
            ("blocks", "each block of the first model", found["blocks"][-1]["seconds"]),
            ("models", "averaging 1, 2, … models", found["seconds"]),
        )
    ]
    print(*lines, flush=True)
    return lines
