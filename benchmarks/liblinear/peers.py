"""The other contestants: every solver of theirs that minimises the same objective, over tolerances from loose to tight.

LIBLINEAR minimises Ω(w) + C Σ ℓ, celer ‖w‖₁/C + Σ ℓ, skglm the mean of ℓ + α‖w‖₁: with C = 1 and α = 1/n the same.
All get float64 (LIBLINEAR and celer have nothing else) in the layout that suits them, made before the clock starts.
"""

from __future__ import annotations

import contextlib
import importlib.util
import time
import warnings
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import numpy as np
from scipy.sparse import csr_matrix

from benchmarks.liblinear.exact import objective
from benchmarks.liblinear.problems import Rows, Task

#: LIBLINEAR's solvers of a problem with their tolerances.
TYPES = {
    ("squared_hinge", "l2"): {1: (1, 0.3, 0.1, 0.01), 2: (0.1, 0.01, 0.001, 0.0001)},
    ("hinge", "l2"): {3: (1, 0.3, 0.1, 0.01, 0.001, 0.0001)},
    ("logistic", "l2"): {0: (0.1, 0.01, 0.001, 0.0001), 7: (1, 0.3, 0.1, 0.01)},
    ("crammer_singer", "l2"): {4: (1, 0.3, 0.1, 0.01, 0.001, 0.0001)},
    ("squared_hinge", "l1"): {5: (0.3, 0.1, 0.01, 0.001, 0.0001)},
    ("logistic", "l1"): {6: (0.3, 0.1, 0.01, 0.001, 0.0001)},
}

#: A solver whose last try took this many times the best time to the last goal is not run to higher accuracy.
HOPELESS = 3.0

#: Tries this close to the fastest are repeated.
CLOSE = 1.5


class Ladder(NamedTuple):
    """One solver of one peer: settings from loose to tight, each with a function that returns weights (d, k)."""

    peer: str
    rungs: list[tuple[str, Callable[[], Any]]]
    weights: Callable[[Any], np.ndarray]


def has(name: str) -> bool:
    """Whether a package is installed."""
    return importlib.util.find_spec(name) is not None


def race(rows: Rows, task: Task, goals: list[float], is_quick: bool) -> list[dict[str, Any]]:
    """Every peer and setting that is worth its time: peer, setting, seconds and objective of each."""
    tries: list[dict[str, Any]] = []
    for ladder in _ladders(rows, task, is_quick):
        for setting, fit in ladder.rungs:
            seconds, value = _judged(ladder, fit, rows, task)
            one = {"peer": ladder.peer, "setting": setting, "seconds": seconds, "objective": value}
            tries.append({**one, "again": (ladder, fit)})
            best = min((one["seconds"] for one in tries if one["objective"] <= min(goals)), default=np.inf)
            if value <= min(goals) or seconds > HOPELESS * best:
                break
    for goal in [] if is_quick else goals:
        reached = [one for one in tries if one["objective"] <= goal]
        best = min((one["seconds"] for one in reached), default=0.0)
        for one in reached:
            if one["seconds"] <= CLOSE * best:
                one["seconds"] = min(one["seconds"], _judged(*one["again"], rows, task)[0])
    return [{name: value for name, value in one.items() if name != "again"} for one in tries]


def _judged(ladder: Ladder, fit: Callable[[], Any], rows: Rows, task: Task) -> tuple[float, float]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # loose tolerances and few iterations are on purpose
        start = time.perf_counter()
        answer = fit()
        seconds = time.perf_counter() - start
    W = ladder.weights(answer)
    return seconds, objective(rows.X, rows.y, W, task.loss, task.penalty, 1.0 / len(rows.y))


def _ladders(rows: Rows, task: Task, is_quick: bool) -> list[Ladder]:
    found = _liblinear(rows, task) if has("liblinear") else []
    if task == Task(task.data, "logistic", "l1"):
        if has("celer") and rows.n_classes == 2:
            found.append(_celer(rows))
        if has("skglm"):
            found.append(_skglm(rows))
    if is_quick:
        found = [ladder._replace(rungs=ladder.rungs[-3:]) for ladder in found]
    return found


def _liblinear(rows: Rows, task: Task) -> list[Ladder]:
    from liblinear.liblinearutil import parameter, problem, train

    given = problem(rows.y.astype(np.float64), csr_matrix(rows.as_type(np.float64)))

    def weights(model: Any) -> np.ndarray:
        labels = np.array(model.get_labels())
        k = 1 if len(labels) == 2 and task.loss != "crammer_singer" else len(labels)
        found = np.ctypeslib.as_array(model.w, shape=(model.nr_feature * k,)).reshape(-1, k)
        W = np.zeros((rows.X.shape[1], k))
        if k == 1:  # positive for the label that came first
            W[: len(found)] = found if labels[0] == 1 else -found
        else:
            W[: len(found), labels] = found
        return W

    def rung(kind: int, tolerance: float) -> tuple[str, Callable[[], Any]]:
        setting = f"-s {kind} -e {tolerance:g}"
        return setting, lambda: train(given, parameter(f"{setting} -c 1 -B -1 -q"))

    kinds = TYPES[task.loss, task.penalty]
    return [Ladder("LIBLINEAR", [rung(kind, e) for e in tolerances], weights) for kind, tolerances in kinds.items()]


@contextlib.contextmanager
def _warming_up() -> Iterator[None]:
    """Neither warnings nor errors matter: what fails for good will fail again with the clock on."""
    with contextlib.suppress(Exception), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


def _celer(rows: Rows) -> Ladder:
    from celer import LogisticRegression

    X = rows.as_type(np.float64).tocsc()

    def rung(tol: float) -> tuple[str, Callable[[], Any]]:
        return f"tol={tol:g}", lambda: LogisticRegression(C=1.0, tol=tol, max_iter=100).fit(X, rows.y)

    with _warming_up():
        LogisticRegression(max_iter=1).fit(X, rows.y)
    return Ladder("celer", [rung(tol) for tol in (3e-2, 1e-2, 3e-3, 1e-3, 1e-4)], lambda model: model.coef_.T)


def _skglm(rows: Rows) -> Ladder:
    """One fit a class: it has no one-vs-rest of its own for several classes."""
    from skglm import SparseLogisticRegression

    X, alpha = rows.as_type(np.float64).tocsc(), 1.0 / len(rows.y)
    signs = [rows.y == label for label in ([1] if rows.n_classes == 2 else range(rows.n_classes))]

    def fit(tol: float, max_iter: int = 100) -> np.ndarray:
        def one(own: np.ndarray) -> np.ndarray:
            model = SparseLogisticRegression(alpha=alpha, tol=tol, fit_intercept=False, max_iter=max_iter)
            return model.fit(X, np.where(own, 1.0, -1.0)).coef_.ravel()

        return np.stack([one(own) for own in signs], axis=1)

    with _warming_up():
        fit(alpha, 1)
    tolerances = [share * alpha for share in (1.0, 0.3, 0.1, 0.03, 0.01, 0.001)]
    return Ladder("skglm", [(f"tol={tol:.1e}", lambda tol=tol: fit(tol)) for tol in tolerances], lambda W: W)
