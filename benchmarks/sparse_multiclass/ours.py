"""lineal, timed from the matrix in memory: to an objective, to a gap, and the least objective it can find."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from contextlib import AbstractContextManager
from functools import partial
from typing import Any

import numpy as np

from benchmarks.liblinear.problems import spread
from benchmarks.sparse_multiclass.exact import objective as judged
from lineal import losses, penalties
from lineal.core.threads import blas_limit, thread_count
from lineal.design import wrap
from lineal.engine.local import LocalEngine
from lineal.penalties.regulariser import Regulariser
from lineal.problem.objective import Objective
from lineal.problem.solution import Solution
from lineal.problem.targets import encode
from lineal.solvers import fista, sparsa
from lineal.solvers.block_cd import block_cd
from lineal.solvers.fobos import fobos

LOSS = "multiclass_squared_hinge"

#: Settings of the tables: name, precision and threads (None means all cores).
SETTINGS = (
    ("f32", np.float32, None), ("f64", np.float64, None), ("f32, 1 thread", np.float32, 1),
    ("f64, 1 thread", np.float64, 1),
)  # fmt: skip

#: Tolerances (relative duality gaps) that are tried in turn.
GRID = (1e-1, 3e-2, 1e-2, 3e-3, 1e-3, 3e-4, 1e-4, 3e-5, 1e-5)

#: A gap that no run gets to: it is ended by something else.
NEVER = 1e-12

MANY = 1_000_000


def problem(
    X: Any, y: np.ndarray, alpha: float, loss: str = LOSS, penalty: str = "l1/l2", groups: Any = None,
    n_jobs: int | None = None,
) -> Objective:  # fmt: skip
    """The objective without intercept, every row with the weight 1/n."""
    kind, design = losses.get(loss), wrap(X)
    n, d = design.shape
    encoded = encode(y, direct=kind.is_direct)
    engine = LocalEngine(
        design, encoded.targets, np.full(n, 1.0 / n), encoded.n_columns, None, thread_count(n_jobs)
    )  # fmt: skip
    return Objective(engine, kind, Regulariser(penalties.get(penalty), alpha, d, groups=groups), False)


def blas_for(X: Any, n_jobs: int | None) -> AbstractContextManager[Any]:
    """BLAS's own threads, as a fit of lineal limits them."""
    return blas_limit(thread_count(n_jobs) if isinstance(X, np.ndarray) else 1)


def algorithms() -> dict[str, Callable[..., Solution]]:
    """Those of the figures that this version has, by the paper's names; constant steps are the largest safe ones."""
    return {
        "BCD-LS": cyclic(),
        "BCD-CST": randomised(),
        "working sets": block_cd.solve,
        "FISTA-LS": partial(fista.solve, step="line_search"),
        "FISTA-CST": partial(fista.solve, step="constant", constant="spectral"),
        "SpaRSA": sparsa.solve,
        "FOBOS": fobos.solve,
    }


def cyclic(**options: Any) -> Callable[..., Solution]:
    """The paper's block coordinate descent with line search."""
    return partial(block_cd.solve, method="cyclic", step="line_search", **options)


def randomised(**options: Any) -> Callable[..., Solution]:
    """The paper's block coordinate descent with a constant step."""
    return partial(block_cd.solve, method="random", step="constant", **{"constant": "tight", **options})


def warm_up(X: Any, y: np.ndarray, alpha: float, solve: Callable[..., Solution] = block_cd.solve, **kind: Any) -> float:
    """Seconds of two runs that compile whatever is needed: of few rows to a small gap, of all rows for a moment."""
    start = time.perf_counter()
    few = spread(len(y), 500)
    solve(problem(X[few], y[few], alpha, **kind), tol=1e-4, max_time=5.0)
    solve(problem(X, y, alpha, **kind), tol=NEVER, max_iter=2)
    return time.perf_counter() - start


def time_to(
    X: Any, y: np.ndarray, alpha: float, goal: float, n_jobs: int | None, max_time: float, repeats: int = 1
) -> dict[str, Any]:
    """Seconds until an iteration's objective is no more than the goal, with the exact objective of its weights."""
    best: dict[str, Any] = {"seconds": None, "objective": None}
    for _ in range(repeats):
        start, found = time.perf_counter(), {}

        def look(snapshot: Any) -> bool:
            if snapshot.objective > goal:
                return False
            found.update(seconds=time.perf_counter() - start, weights=snapshot.weights.copy())  # noqa: B023
            return True

        with blas_for(X, n_jobs):
            block_cd.solve(
                problem(X, y, alpha, n_jobs=n_jobs), tol=NEVER, max_iter=MANY, max_time=max_time, callbacks=[look],
                n_jobs=n_jobs,
            )  # fmt: skip
        if not found:
            break
        if best["seconds"] is None or found["seconds"] < best["seconds"]:
            best = {"seconds": found["seconds"], "objective": judged(X, y, found["weights"], LOSS, alpha)}
    return best


def run(
    X: Any, y: np.ndarray, alpha: float, tol: float, solve: Callable[..., Solution] = block_cd.solve,
    n_jobs: int | None = None, max_time: float | None = None, max_iter: int = MANY, **kind: Any,
) -> tuple[float, Solution]:  # fmt: skip
    """One certified solution, and the seconds from the matrix in memory to it."""
    with blas_for(X, n_jobs):
        start = time.perf_counter()
        found = problem(X, y, alpha, n_jobs=n_jobs, **kind)
        solution = solve(found, tol=tol, max_iter=max_iter, max_time=max_time, n_jobs=n_jobs)
        return time.perf_counter() - start, solution


def descend(
    X: Any, y: np.ndarray, alpha: float, value_of: Callable[[np.ndarray], float], goals: Iterable[float],
    repeats: int, **options: Any,
) -> list[dict[str, Any]]:  # fmt: skip
    """Solutions of smaller and smaller gaps until the least of the objectives `goals` is reached.

    The first that reaches a goal is repeated; of its times the least counts.
    """
    left, tries = sorted(goals, reverse=True), []
    for tol in GRID:
        seconds, solution = run(X, y, alpha, tol, **options)
        value = value_of(solution.weights)
        is_near, left = any(value <= goal for goal in left), [goal for goal in left if value > goal]
        for _ in range(repeats - 1 if is_near else 0):
            seconds = min(seconds, run(X, y, alpha, tol, **options)[0])
        tries.append({"tol": tol, "seconds": seconds, "objective": value, "status": solution.status})
        if not left or solution.status == "max_time":
            break
    return tries


def show(ratio: float | None) -> str:
    """For a line of progress."""
    return "–" if ratio is None else f"{ratio:.2f}×"
