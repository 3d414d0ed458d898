"""lineal's online learner: one pass of squared loss, the rate chosen by progressive error."""

from __future__ import annotations

import math
import time
from typing import Any

import numpy as np

from benchmarks.apple.problems import Problem, rows_of
from lineal.online.learner import Learner
from lineal.online.options import OnlineOptions

#: Learning rates that are tried, here and with VW.
RATES, QUICK_RATES = (0.03, 0.1, 0.3, 1.0, 3.0), (0.3, 1.0)

#: Exponents of the number of new parents.
GROWTHS = (0.125, 0.25, 0.5, 0.75, 1.0)

#: Cubic expansion is left out where a row would have more monomials than this, or all rows of all classes together.
MAX_A_ROW, MAX_IN_ALL = 1e6, 7e8

#: The algorithm as published: equal epochs, parents by weight, new monomials at full rate.
PUBLISHED = {"expansion": "adaptive", "heuristic": "weight", "schedule": "equal", "caution": 0.0}


def methods() -> dict[str, dict[str, Any]]:
    """Names and options."""
    found: dict[str, dict[str, Any]] = {
        "lin": {}, "quad": {"expansion": "quadratic"}, "cubic": {"expansion": "cubic"}, "published": PUBLISHED,
    }  # fmt: skip
    for growth in GROWTHS:
        found[f"apple({growth:g})"] = {"expansion": "adaptive", "growth": growth}
        found[f"ssm({growth:g})"] = {"expansion": "adaptive", "growth": growth, "heuristic": "ssm"}
    return found


def bits_of(method: str, k: int) -> int:
    """18, or 24 for cubic expansion; of the latter fewer where there are many classes, for the sake of memory."""
    return 24 - max(0, math.ceil(math.log2(k / 8))) if method == "cubic" else 18


def can_do(method: str, problem: Problem) -> bool:
    """Whether an expansion is not too large."""
    most, mean = problem.monomials(3)
    return method != "cubic" or (most <= MAX_A_ROW and mean * len(problem.y) * problem.k <= MAX_IN_ALL)


def best_of(problem: Problem, method: str, options: dict[str, Any], is_quick: bool) -> dict[str, Any] | None:
    """The run whose rate had the least progressive error."""
    if not can_do(method, problem):
        return None
    rows = problem.training_rows()
    found: dict[str, Any] | None = None
    tried: dict[str, float] = {}
    for rate in QUICK_RATES if is_quick else RATES:
        learner = Learner(
            OnlineOptions(loss="squared", rate=rate, bits=bits_of(method, problem.k), **options).checked(), problem.k,
            False, len(problem.y), problem.is_regression,
        )  # fmt: skip
        start = time.process_time()
        said = learner.learn(*rows)
        seconds = time.process_time() - start
        progressive = tried[f"{rate:g}"] = progressive_error(problem, said)
        if found is None or progressive < found["progressive"]:
            error, features = _tested(problem, learner, method)
            found = {
                "progressive": progressive, "error": error, "seconds": seconds, "rate": rate, "features": features,
                "parents": len(learner.parents),
            }  # fmt: skip
    return found and {**found, "tried": tried}


def progressive_error(problem: Problem, said: np.ndarray) -> float:
    """Of what was said of the training rows before they were learned from."""
    if problem.is_regression:
        return float(np.mean((said - problem.y) ** 2))
    return 100.0 * float(np.mean((said > 0.0 if problem.k == 1 else said) != problem.y))


def _tested(problem: Problem, learner: Learner, method: str) -> tuple[float, float]:
    """Error of the test rows, and the features they have on average."""
    rows = rows_of(problem.X_test, np.zeros(len(problem.y_test)))
    error = problem.error(problem.decide(learner.scores(rows)))
    if learner.options.expansion == "adaptive":
        return error, learner.count_features(rows) / len(problem.y_test)
    return error, features_of(problem.X_test, {"lin": 1, "quad": 2, "cubic": 3}[method])


def features_of(X: Any, degree: int) -> float:
    """Mean monomials up to a degree, where features of value 1 have no powers."""
    n = np.diff(X.indptr).astype(np.float64)
    others = np.add.reduceat(np.append(X.data != 1.0, False), X.indptr[:-1]) * (n > 0)
    counts = n.copy()
    if degree >= 2:
        counts += n * (n - 1) / 2 + others
    if degree >= 3:
        counts += n * (n - 1) * (n - 2) / 6 + others * (n - 1) + others
    return float(counts.mean())
