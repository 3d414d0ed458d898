"""dask-ml on a local cluster; see `contestant.py`. Options: solver, alpha, workers, repeats, kill.

dask-ml minimises Σ log loss + (1/C)·½‖w‖², an intercept included, of columns that it standardises. Without an intercept
and with normalize=False that is n times our objective, with C = 1/(αn). Its solvers newton and gradient_descent have no
penalty at all: α is 0 for them. Rows are persisted on the workers, one chunk per worker, before the clock starts.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import dask
import dask.array as da
import dask_ml
import numpy as np
from dask_ml.linear_model import LogisticRegression
from distributed import wait

from benchmarks.distributed import contestant
from benchmarks.distributed.cluster import local_cluster, worker_pids
from benchmarks.distributed.contestant import Contestant, Fitted, ranges


@contextmanager
def opened(folder: Path, options: dict[str, Any]) -> Iterator[Contestant]:
    """Start a cluster, load the rows there, and stop it at the end."""
    warnings.simplefilter("ignore")
    with local_cluster(int(options["workers"])) as client:
        X, y = _rows(folder, int(options["workers"]))
        X, y = dask.persist(X, y)
        wait([X, y])
        n = X.shape[0]
        cost = 1.0 / (options["alpha"] * n) if options["alpha"] > 0.0 else 1.0

        def fit() -> Fitted:
            model = LogisticRegression(
                solver=options["solver"], C=cost, fit_intercept=False, solver_kwargs={"normalize": False}
            ).fit(X, y)
            weights = np.asarray(model.coef_, np.float64).reshape(-1, 1)
            if not np.isfinite(weights).all():
                raise FloatingPointError("the weights are not finite")
            return Fitted(weights, np.zeros(1), {})

        yield Contestant(fit, lambda: worker_pids(client), {"version": dask_ml.__version__, "dask": dask.__version__})


def _rows(folder: Path, parts: int) -> tuple[Any, Any]:
    y = np.load(folder / "y.npy")
    is_dense = (folder / "X.npy").exists()
    few = _chunk(folder, 0, 1)
    meta = few[:0]
    cuts = ranges(len(y), parts)
    blocks = [
        da.from_delayed(dask.delayed(_chunk)(folder, start, stop), (stop - start, few.shape[1]), np.float64, meta=meta)
        for start, stop in cuts
    ]
    labels = [
        da.from_delayed(dask.delayed(_labels)(folder, start, stop), (stop - start,), np.float64) for start, stop in cuts
    ]
    assert is_dense == isinstance(few, np.ndarray)
    return da.concatenate(blocks), da.concatenate(labels)


def _chunk(folder: Path, start: int, stop: int) -> Any:
    found = contestant.rows(folder, start, stop)
    if isinstance(found, np.ndarray):
        return found
    import sparse

    return sparse.COO.from_scipy_sparse(found)


def _labels(folder: Path, start: int, stop: int) -> np.ndarray:
    return np.load(folder / "y.npy", mmap_mode="r")[start:stop].astype(np.float64)


if __name__ == "__main__":
    contestant.main(opened)
