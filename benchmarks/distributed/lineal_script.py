"""lineal, in this process or on a local cluster; see `contestant.py`.

Options: engine ("local" or "dask"), loss, alpha, fit_intercept, solver, workers, parts, n_jobs, goal, repeats, kill,
and for fixed work tol and max_iter. With a goal the clock stops when `fit` has returned, which it does after the first
iteration whose objective is no more than the goal.
"""

from __future__ import annotations

import time
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

import lineal
from benchmarks.distributed import contestant
from benchmarks.distributed.contestant import Contestant, Fitted, ranges
from benchmarks.distributed.traffic import Traffic

#: With a goal, a gap that no fit gets to before. solver="auto" still chooses among all solvers at the first of them;
#: without a penalty an objective can approach zero, which needs the second one.
NEVER, NEVER_UNPENALISED = 1e-8, 1e-15


@contextmanager
def opened(folder: Path, options: dict[str, Any]) -> Iterator[Contestant]:
    """The rows in this process, or on the workers of a cluster that ends with the context."""
    warnings.simplefilter("ignore")  # fits end early on purpose
    about = {"version": lineal.__version__, "engine": options["engine"]}
    if options["engine"] == "local":
        X, y = contestant.load(folder)
        yield Contestant(lambda: _fitted(X, y, options), list, about)
        return
    from benchmarks.distributed.cluster import local_cluster, worker_pids

    with local_cluster(int(options["workers"])) as client:
        X, y = dask_rows(folder, int(options.get("parts") or options["workers"]))
        yield Contestant(lambda: _on_workers(X, y, options), lambda: worker_pids(client), about)


def dask_rows(folder: Path, parts: int) -> tuple[Any, Any]:
    """Dask collections of the rows, in that many partitions, persisted on the workers."""
    import dask
    import dask.array as da
    from distributed import wait

    n = len(np.load(folder / "y.npy", mmap_mode="r"))
    few = contestant.rows(folder, 0, 1)
    cuts = ranges(n, parts)
    blocks = [
        da.from_delayed(
            dask.delayed(contestant.rows)(folder, start, stop), (stop - start, few.shape[1]), np.float64, meta=few[:0]
        )
        for start, stop in cuts
    ]
    labels = [
        da.from_delayed(dask.delayed(_labels)(folder, start, stop), (stop - start,), np.int64) for start, stop in cuts
    ]
    X, y = dask.persist(da.concatenate(blocks), da.concatenate(labels))
    wait([X, y])
    return X, y


def _labels(folder: Path, start: int, stop: int) -> np.ndarray:
    return np.array(np.load(folder / "y.npy", mmap_mode="r")[start:stop])


def _on_workers(X: Any, y: Any, options: dict[str, Any]) -> Fitted:
    with Traffic() as traffic:
        fitted = _fitted(X, y, options, engine="dask")
    return fitted._replace(about=fitted.about | {"rounds": traffic.rounds, "megabytes": traffic.megabytes})


def _fitted(X: Any, y: Any, options: dict[str, Any], **engine: Any) -> Fitted:
    goal = options.get("goal")
    seconds: list[float] = []

    def look(snapshot: Any) -> bool:
        if goal is None or snapshot.objective > goal:
            return False
        seconds.append(time.perf_counter() - start)
        return True

    never = NEVER if options["alpha"] > 0.0 else NEVER_UNPENALISED
    start = time.perf_counter()
    model = lineal.LinearClassifier(
        loss=options["loss"], alpha=options["alpha"], solver=options.get("solver", "auto"),
        fit_intercept=options.get("fit_intercept", True), tol=options.get("tol", never),
        max_iter=options.get("max_iter", 100_000), max_time=options.get("max_time"), n_jobs=options.get("n_jobs"),
        random_state=0, callbacks=[look], **engine,
    ).fit(X, y)  # fmt: skip
    weights = np.asarray(model.coef_, np.float64).T
    about = {
        "reached_seconds": seconds[0] if seconds else None, "iterations": int(model.n_iter_),
        "own_objective": model.certificate_.primal, "gap": model.certificate_.value, "status": model.status_,
    }  # fmt: skip
    return Fitted(weights, np.atleast_1d(model.intercept_), about)


if __name__ == "__main__":
    contestant.main(opened)
