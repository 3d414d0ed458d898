"""Theorem 1 on generated data: iterations to a level of the loss against cond(Σ̂), softmax link, α = 0, float64.

One set of Gaussian rows x = Az has labels by a softmax model of z, with A's singular values from 1 down to 1/√cond in
random directions: for every solver that is invariant to linear maps the problem is always the same. The level is 1e-4
above the least loss, which IRLS finds on the whitened rows.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from benchmarks.least_squares import comparison, ours
from benchmarks.least_squares.problems import Plan, Sets, Table

TITLE = "Iterations to within 1e-4 of the least loss by the condition number of the second moments"
CONDITIONS = (1.0, 1e2, 1e4, 1e6, 1e8)
N, D, K = 2000, 30, 4
ABOVE = 1e-4

#: Iterations at most.
MAX_ITER = 20_000

TEXTBOOK: dict[str, Callable[[comparison.Softmax], Iterator[np.ndarray]]] = {
    "gradient descent": comparison.gradient_descent,
    "accelerated gradient": comparison.accelerated_gradient,
    "IRLS (dk × dk)": comparison.irls,
}
OURS = {"lineal, plain": False, "lineal, accelerated": True, "lineal, quasi-Newton": "quasi_newton"}


def rows_of(plan: Plan) -> tuple[list[Table], dict[str, Any]]:
    """The table, and for the plot the same numbers."""
    most = 2000 if plan.is_quick else MAX_ITER
    found: dict[str, dict[str, int | None]] = {name: {} for name in plan.selected(*TEXTBOOK, *OURS)}
    least = _least(comparison.Softmax(*_rows(1.0)))
    for condition in CONDITIONS:
        X, y = _rows(condition)
        problem = comparison.Softmax(X, y)
        for name in found:
            if name in OURS:
                found[name][str(condition)] = _ours(X, y, OURS[name], least + ABOVE, most)
            else:
                found[name][str(condition)] = _theirs(problem, TEXTBOOK[name], least + ABOVE, most)
        print(f"{condition:g}: {[counts[str(condition)] for counts in found.values()]}", flush=True)
    columns = ("solver", *(f"cond {condition:g}" for condition in CONDITIONS))
    table = [
        [name, *(f"> {most}" if count is None else count for count in counts.values())]
        for name, counts in found.items()
    ]
    return [Table("conditioning", TITLE, columns, table)], {"least": least, "iterations": found}


def _rows(condition: float) -> tuple[np.ndarray, np.ndarray]:
    """Rows whose second moments have exactly this condition number, and labels that do not depend on it."""
    rng = np.random.default_rng(0)
    Z = np.linalg.qr(rng.normal(size=(N, D)))[0] * np.sqrt(N)
    scores = Z @ rng.normal(size=(D, K)) * 0.5
    y = (scores + rng.gumbel(size=scores.shape)).argmax(axis=1)
    turn = np.linalg.qr(rng.normal(size=(D, D)))[0]
    return Z @ (turn * np.geomspace(1.0, condition**-0.5, D)) @ turn.T, y


def _least(problem: comparison.Softmax) -> float:
    values = [problem.value(W) for W, _ in zip(comparison.irls(problem), range(30))]
    return min(values)


def _theirs(problem: comparison.Softmax, solver: Any, level: float, most: int) -> int | None:
    for number, W in zip(range(1, most + 1), solver(problem)):
        if problem.value(W) <= level:
            return number
    return None


def _ours(X: np.ndarray, y: np.ndarray, accelerated: bool | str, level: float, most: int) -> int | None:
    _, model = ours.least_squares(
        Sets("generated", X, y, X, y), alpha=0.0, tol=1e-12, fit_intercept=False, accelerated=accelerated,
        max_iter=most, callbacks=(lambda snapshot: snapshot.objective <= level,),
    )  # fmt: skip
    last = model.history_[-1]
    return int(last["iteration"]) if last["objective"] <= level else None
