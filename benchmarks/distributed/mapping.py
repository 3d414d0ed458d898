"""Do all contestants minimise the same objective? Small generated rows, and scikit-learn at a tight tolerance as judge.

The objective of every model is computed from its weights by NumPy (`benchmarks.liblinear.exact`), not by its maker.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy import sparse
from sklearn.linear_model import LogisticRegression
from sklearn.svm import SVC

from benchmarks.distributed.problems import Plan, Table
from benchmarks.distributed.process import Outcome, Shared
from benchmarks.liblinear.exact import objective

TITLE = "The same objective: distance from the minimum that scikit-learn finds"
COLUMNS = ("problem", "contestant", "objective", "above scikit-learn's, relative", "what it says itself")

#: Loss, intercept, αn, contestant, script, and its options. Rows are dense where there is no penalty: dask-ml's Newton
#: method, which has none, takes no sparse rows.
CASES: tuple[tuple[str, bool, float, str, str, dict[str, Any]], ...] = (
    *((loss, True, 1.0, "Spark", "spark_script", {}) for loss in ("softmax", "logistic", "hinge")),
    *(("logistic", False, 1.0, f"dask-ml {name}", "dask_ml_script", {"solver": name}) for name in ("lbfgs", "admm")),
    *(
        ("logistic", False, 0.0, f"dask-ml {name}", "dask_ml_script", {"solver": name})
        for name in ("newton", "gradient_descent")
    ),
    *((loss, True, 1.0, "lineal", "lineal_script", {"engine": "local"}) for loss in ("softmax", "logistic", "hinge")),
    ("logistic", False, 1.0, "lineal", "lineal_script", {"engine": "local"}),
    ("logistic", False, 0.0, "lineal", "lineal_script", {"engine": "local"}),
)


def rows_of(plan: Plan) -> tuple[list[Table], list[dict[str, Any]]]:
    """The table and, for the file, everything that was tried."""
    table: list[list[Any]] = []
    details: list[dict[str, Any]] = []
    X, labels = _generated()
    for loss, is_dense in (("softmax", False), ("logistic", False), ("logistic", True), ("hinge", False)):
        y = labels if loss == "softmax" else (labels == 0).astype(np.int64)
        with Shared(X.toarray() if is_dense else X, y) as shared:
            for case in CASES:
                if case[0] != loss or (case[2] == 0.0) != is_dense:
                    continue
                _, has_intercept, strength, name, script, options = case
                alpha = strength / len(y)
                common = {"loss": loss, "alpha": alpha, "fit_intercept": has_intercept, "workers": 2, "max_time": 20.0}
                python = None if script == "lineal_script" else plan.peers_python
                outcome = shared.run(script, plan.max_time, python, **common, **options)
                best = _scikit_learn(X, y, loss, has_intercept, alpha)
                problem = f"{loss}, α = {strength:g}/n{'' if has_intercept else ', no intercept'}"
                found = {"problem": problem, "contestant": name, "best": best, **_told(outcome, X, y, loss, alpha)}
                details.append(found)
                table.append(_row(found))
                print(*table[-1], flush=True)
    return [Table("mapping", TITLE, COLUMNS, table)], details


def _generated() -> tuple[Any, np.ndarray]:
    rng = np.random.default_rng(0)
    X = sparse.random_array((3000, 30), density=0.3, rng=rng, format="csr")
    scores = X @ (3.0 * rng.normal(size=(30, 3))) + np.array([0.5, 0.0, -0.5])
    return X, (scores + rng.gumbel(size=scores.shape)).argmax(axis=1)


def _scikit_learn(X: Any, y: np.ndarray, loss: str, has_intercept: bool, alpha: float) -> float:
    cost = 1.0 / (alpha * len(y)) if alpha > 0.0 else np.inf
    if loss == "hinge":  # its intercept is not penalised, unlike that of LinearSVC
        found = SVC(kernel="linear", C=cost, tol=1e-8).fit(X, y)
        weights, intercept = found.coef_.toarray(), found.intercept_
    else:
        found = LogisticRegression(C=cost, fit_intercept=has_intercept, tol=1e-10, max_iter=100_000).fit(X, y)
        weights, intercept = found.coef_, found.intercept_
    return objective(X, y, weights.T, loss, "l2", alpha, intercept)


def _told(outcome: Outcome, X: Any, y: np.ndarray, loss: str, alpha: float) -> dict[str, Any]:
    if outcome.answer is None:
        return {"error": outcome.error}
    arrays = outcome.arrays
    value = objective(X, y, arrays["found_weights"], loss, "l2", alpha, arrays["found_intercept"])
    return {**outcome.answer, "objective": value}


def _row(found: dict[str, Any]) -> list[Any]:
    if "error" in found:
        return [found["problem"], found["contestant"], found["error"], None, None]
    own = found.get("own_objective")
    above = found["objective"] / found["best"] - 1.0
    return [found["problem"], found["contestant"], f"{found['objective']:.9f}", f"{above:.1e}", own and f"{own:.9f}"]
