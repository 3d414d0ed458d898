"""Work on workers: the share of one worker in a pass over the rows, and the sum of several shares.

A share can run twice, on another worker than planned, or beside one that was given up: what it needs is in its
arguments or can be made again, and what it keeps carries version numbers (`holder.py`).
"""

from __future__ import annotations

import pickle
import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Container, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from distributed import get_worker

from lineal.core import threads as pool
from lineal.core.threads import blas_limit, core_share
from lineal.engine.dask.holder import Holder, NeedsMore, Outcome, Placed, Recipe, Request
from lineal.engine.dask.lineage import Script
from lineal.engine.dask.parcels import aligned, nbytes
from lineal.engine.source import RawRows
from lineal.engine.tree import Summands, TreeSum
from lineal.errors import DataError, LinealError

#: Number of engines that a worker keeps rows for; the one that was not used for longest is dropped.
KEPT_ENGINES = 16


class Report(NamedTuple):
    """How one share went.

    Attributes
    ----------
    share : its number in the plan.
    worker, address : who ran it.
    seconds : time that it took.
    n_made : number of partitions whose rows had to be made.
    n_rebuilt : number of pieces of row state that had to be rebuilt.
    needs_more : whether it did not run, because it was not sent the rows or the row state that the worker lacks.
    too_large, grown : positions of states that are too large to keep, or that got new entries.
    """

    share: int
    worker: str
    address: str
    seconds: float
    n_made: int = 0
    n_rebuilt: int = 0
    needs_more: bool = False
    too_large: frozenset[int] = frozenset()
    grown: frozenset[int] = frozenset()


class Result:
    """What comes out of one share or several: a partial sum or results by block, reports, and an error if any."""

    def __init__(
        self, reports: tuple[Report, ...], tree: TreeSum | None = None, results: dict[int, Any] | None = None,
        error: Exception | None = None,
    ) -> None:  # fmt: skip
        self.reports, self.tree, self.results, self.error = reports, tree, results or {}, error

    def __sizeof__(self) -> int:
        """Bytes, which Dask takes into account when it places tasks."""
        size = object.__sizeof__(self) + nbytes(self.results)
        return size + sum(map(_bytes_of, self.tree.subtrees.values())) if self.tree is not None else size

    def freeze(self) -> None:
        """Make sums read-only, so that adding to them makes new arrays: a task must not change its arguments."""
        for summands in self.tree.subtrees.values() if self.tree is not None else ():
            for term in summands:
                array = getattr(term, "total", term)
                if isinstance(array, np.ndarray):
                    array.flags.writeable = False


def _bytes_of(summands: Summands) -> int:
    return sum(nbytes(getattr(term, "total", term)) for term in summands)


_holders: OrderedDict[tuple[str, str], Holder] = OrderedDict()
_lock = threading.Lock()


def _holder(worker: str, engine: str, known: Container[Any]) -> Holder:
    """What a worker keeps for an engine; several workers can live in one process.

    What it kept for engines whose partitions are not among the `known` data of the worker is dropped first.
    """
    with _lock:
        mine = [key for key in _holders if key[0] == worker]
        if (worker, engine) not in _holders:
            for key in [key for key in mine if _holders[key].is_orphan(known)]:
                del _holders[key]
                mine.remove(key)
            mine.append((worker, engine))
        found = _holders.setdefault((worker, engine), Holder())
        _holders.move_to_end((worker, engine))
        for key in mine[: len(mine) - KEPT_ENGINES]:
            del _holders[key]
        return found


def drop(engine: str) -> None:
    """Drop what this process keeps for an engine."""
    with _lock:
        for key in [key for key in _holders if key[1] == engine]:
            del _holders[key]


def held() -> dict[str, list[int]]:
    """Partitions that are held in this process, by engine; for tests."""
    with _lock:
        return {engine: sorted(holder.rows) for (_, engine), holder in _holders.items()}


def run_share(
    worker: Any, request: Request, share: int, mine: tuple[Placed, ...], arguments: tuple[Any, ...],
    script: Script | None, recipe: Recipe | None, cuts: tuple[tuple[np.ndarray, ...], ...], *parts: RawRows,
) -> Result:  # fmt: skip
    """Run a step on all blocks of some partitions. Errors of the step are returned: trying again would not help."""
    threads = worker.state.nthreads if request.threads is None else min(request.threads, worker.state.nthreads)
    holder = _holder(worker.id, request.engine, worker.data)
    with holder.lock:
        start, outcome = time.perf_counter(), Outcome()
        arguments, cuts = aligned(arguments), aligned(cuts)
        report = Report(share, worker.id, worker.address, 0.0)
        try:
            # Partitions run side by side, each on one thread: some sums depend on how many threads share a block.
            with blas_limit(1), core_share(1), np.errstate(**request.float_errors):
                for function in request.first_of_all:
                    function()
                holder.forget(request, mine)
                n_made = holder.take_rows(mine, recipe, parts)
                holder.check_states(request, mine, script)
                tasks = [
                    partial(_run_partition, holder, request, placed, arguments, script, arrays)
                    for placed, arrays in zip(mine, cuts, strict=True)
                ]
                tree, results = TreeSum(), {}
                for part, found, noted in pool.run(tasks, threads):
                    tree.join(part)
                    results.update(found)
                    outcome.join(noted)
        except NeedsMore:
            return Result((report._replace(needs_more=True),))
        except Exception as error:
            return Result((report,), error=sendable(error))
        report = report._replace(
            seconds=time.perf_counter() - start, n_made=n_made, n_rebuilt=outcome.n_rebuilt,
            too_large=frozenset(outcome.too_large), grown=frozenset(outcome.grown),
        )  # fmt: skip
        return Result((report,), tree if request.mode == "sum" else None, results)


def _run_partition(
    holder: Holder, request: Request, placed: Placed, arguments: tuple[Any, ...], script: Script | None,
    arrays: Sequence[np.ndarray],
) -> tuple[TreeSum, dict[int, Any], Outcome]:  # fmt: skip
    """Run a step on the blocks of one partition."""
    tree, results, outcome = TreeSum(), {}, Outcome()
    for number, result in holder.run(request, placed, arguments, script, arrays, 1, outcome):
        if request.mode == "sum":
            tree.add(number, result)
        elif request.mode == "gather":
            results[number] = result
    return tree, results, outcome


def join_shares(*shares: Result) -> Result:
    """Sum of some shares. Nothing is added up if one of them has to run again or has failed."""
    reports = tuple(report for share in shares for report in share.reports)
    error = next((share.error for share in shares if share.error is not None), None)
    if error is not None or any(report.needs_more for report in reports):
        return Result(reports, error=error)
    results: dict[int, Any] = {}
    tree: TreeSum | None = None
    for share in shares:
        results.update(share.results)
        if share.tree is not None:
            share.freeze()
            tree = (tree or TreeSum()).join(share.tree)
    return Result(reports, tree, results)


def sendable(error: Exception) -> Exception:
    """The error, or what it says if it cannot be sent."""
    try:
        pickle.loads(pickle.dumps(error))
    except Exception:
        return DataError(str(error)) if isinstance(error, LinealError) else RuntimeError(repr(error))
    return error


class Facts(NamedTuple):
    """What the client needs to know of a partition before an engine is made."""

    n_rows: int
    n_features: int
    dtype: np.dtype[Any]
    is_dense: bool
    stored: int
    nbytes: int


def survey_part(step: Callable[[RawRows], Any], name: str, rows: RawRows) -> tuple[Facts, Any, Exception | None]:
    """Facts of a partition, and the result of a step on it, or its error."""
    X = rows.X
    stored = int(X.size if isinstance(X, np.ndarray) else X.nnz)
    facts = Facts(X.shape[0], X.shape[1], X.dtype, isinstance(X, np.ndarray), stored, nbytes(X))
    try:
        with named(name):
            return facts, step(rows), None
    except Exception as error:
        return facts, None, sendable(error)


def facts_only(rows: RawRows) -> None:
    """Step of a survey that asks for nothing but facts."""


@contextmanager
def named(name: str) -> Iterator[None]:
    """Put the name of a partition in front of errors that say what is wrong with its rows."""
    try:
        yield
    except LinealError as error:
        text = str(error)
        raise DataError(text if text.startswith(name) else f"{name}: {text}") from None


def get_ready(warm_up: Sequence[Callable[[], Any]]) -> str:
    """Run what loads kernels; returns the address of the worker."""
    for run in warm_up:
        run()
    return str(get_worker().address)
