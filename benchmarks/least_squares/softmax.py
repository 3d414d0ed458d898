"""Softmax regression on MNIST with 4000 Fourier features, α = 1e-6: seconds to within 1e-4 of the least objective.

The objective is the mean loss and the ridge, intercept free. The least one is found untimed in float64, to a relative
duality gap of 1e-7 or what can be had in a few times the seconds of a peer. lineal's clock runs from the call of `fit`
to its end, by a callback that stops it at the level; scikit-learn's (C = 1/αn) from the call of `fit` to the first
evaluation of its own objective at or below the level, where it is stopped too. The weights that lineal ends with are
judged again by NumPy in float64.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
from scipy.special import logsumexp

from benchmarks.least_squares import ours
from benchmarks.least_squares.problems import Plan, Sets, Table

TITLE = "Softmax regression on ill-conditioned features: seconds to within 1e-4 of the least objective, α = 1e-6"
COLUMNS = (
    "who", "method", "precision", "seconds", "evaluations", "objective", "above the least", "to the best peer ratio",
)  # fmt: skip
ALPHA, ABOVE = 1e-6, 1e-4
SOLVERS = ("lbfgs", "newton-cg", "newton-cholesky")
METHODS = {"plain": False, "accelerated": True, "quasi-Newton": "quasi_newton"}

#: Weights of newton-cholesky's Hessian at most: 8 bytes for each pair of them.
MAX_CHOLESKY = 10_000


class _Stopped(Exception):
    """A peer has reached the level, or has had its time."""


def rows_of(plan: Plan) -> tuple[list[Table], dict[str, Any]]:
    """The table, and for the file what everybody reached when."""
    size = 300 if plan.is_quick else 4000
    sets = ours.with_features(plan.load("MNIST"), size)
    warm = ours.warm_up(plan)
    least, gap = _least(plan, sets)
    level = least + ABOVE
    print(f"{size} features, least objective {least:.8f} (gap {gap:.1e})", flush=True)
    tries = []
    for dtype in (np.float32, np.float64):
        rows = sets._replace(X=sets.X.astype(dtype))
        for name in plan.selected(*METHODS):
            tries.append(_ours(rows, name, level, plan))
            print(tries[-1], flush=True)
        for solver in plan.selected(*SOLVERS):
            tries.append(_theirs(rows, solver, level, plan.seconds))
            print({**tries[-1], "trace": None}, flush=True)
    return [Table("softmax", TITLE, COLUMNS, _rows(plan, tries, least))], {
        "features": size, "least": least, "gap": gap, "warm_up_seconds": warm, "tries": tries,
    }  # fmt: skip


def objective(sets: Sets, W: np.ndarray, b: np.ndarray) -> float:
    """Mean loss and ridge of weights (k, d), in float64 by chunks of rows."""
    total = 0.0
    for at in range(0, len(sets.y), 4096):
        Z = sets.X[at : at + 4096].astype(np.float64) @ W.T.astype(np.float64) + b
        total += float(np.sum(logsumexp(Z, axis=1) - Z[np.arange(len(Z)), sets.y[at : at + 4096]]))
    return total / len(sets.y) + 0.5 * ALPHA * float(np.square(W, dtype=np.float64).sum())


def _least(plan: Plan, sets: Sets) -> tuple[float, float]:
    rows = sets._replace(X=sets.X.astype(np.float64))
    _, model = ours.least_squares(rows, alpha=ALPHA, tol=1e-7, max_iter=5000, max_time=4.0 * plan.seconds)
    return objective(rows, model.coef_, model.intercept_), float(model.certificate_.value)


def _ours(rows: Sets, name: str, level: float, plan: Plan) -> dict[str, Any]:
    seconds, model = ours.least_squares(
        rows, alpha=ALPHA, accelerated=METHODS[name], tol=1e-9, max_iter=100_000, max_time=plan.seconds,
        callbacks=(lambda snapshot: snapshot.objective <= level,),
    )  # fmt: skip
    value = objective(rows, model.coef_, model.intercept_)
    is_there = model.history_[-1]["objective"] <= level
    return {
        "who": "lineal", "method": name, "precision": rows.X.dtype.name, "seconds": seconds if is_there else None,
        "iterations": int(model.history_[-1]["iteration"]), "objective": value, "ran": seconds,
    }  # fmt: skip


def _theirs(rows: Sets, solver: str, level: float, limit: float) -> dict[str, Any]:
    from sklearn.linear_model import LogisticRegression

    n, d = rows.X.shape
    found: dict[str, Any] = {"who": "scikit-learn", "method": solver, "precision": rows.X.dtype.name, "seconds": None}
    if solver == "newton-cholesky" and (d + 1) * rows.n_classes > MAX_CHOLESKY:
        return {**found, "note": f"its Hessian would take {8e-9 * ((d + 1) * rows.n_classes) ** 2:.0f} GB"}
    model = LogisticRegression(C=1.0 / (ALPHA * n), solver=solver, tol=1e-12, max_iter=100_000)
    with _watched(level, limit) as trace:
        ours.timed(lambda: model.fit(rows.X, rows.y))
    reached = [seconds for seconds, value in trace if value <= level]
    values = [value for _, value in trace]
    return {
        **found, "seconds": reached[0] if reached else None, "iterations": len(trace), "objective": min(values),
        "ran": trace[-1][0], "trace": trace[:: max(1, len(trace) // 200)],
    }  # fmt: skip


@contextmanager
def _watched(level: float, limit: float) -> Iterator[list[tuple[float, float]]]:
    """Notes every objective that scikit-learn computes, and stops it at the level or after the limit."""
    from sklearn.linear_model._linear_loss import LinearModelLoss

    kept = {name: getattr(LinearModelLoss, name) for name in ("loss", "loss_gradient")}
    trace: list[tuple[float, float]] = []
    start = time.perf_counter()

    def watch(function: Any) -> Any:
        def watched(self: Any, *args: Any, **options: Any) -> Any:
            answer = function(self, *args, **options)
            value = float(answer[0] if isinstance(answer, tuple) else answer)
            trace.append((time.perf_counter() - start, value))
            if value <= level or trace[-1][0] > limit:
                raise _Stopped
            return answer

        return watched

    for name, function in kept.items():
        setattr(LinearModelLoss, name, watch(function))
    try:
        yield trace
    except _Stopped:
        pass
    finally:
        for name, function in kept.items():
            setattr(LinearModelLoss, name, function)


def _rows(plan: Plan, tries: list[dict[str, Any]], least: float) -> list[list[Any]]:
    peers = [one["seconds"] for one in tries if one["who"] != "lineal" and one["seconds"]]
    best = min(peers, default=None)
    table = []
    for one in tries:
        ratio = best / one["seconds"] if best and one["seconds"] and one["who"] == "lineal" else None
        value, late = one.get("objective"), one.get("note", f"not in {plan.seconds:g} s")
        table.append([
            one["who"], one["method"], one["precision"], one["seconds"] or late,
            one.get("iterations"), value and f"{value:.6f}", value and f"{value - least:.1e}", ratio,
        ])  # fmt: skip
    return table
