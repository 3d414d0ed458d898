"""`DaskSource`: rows in the memory of a Dask cluster, as a source of rows (see `lineal.engine.source`)."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from distributed import Client, Future

from lineal.engine.dask.cluster import check_synchronous, no_workers
from lineal.engine.dask.engine import DaskEngine
from lineal.engine.dask.rounds import ATTEMPTS, PATIENCE, RETRIES, Rounds
from lineal.engine.dask.shares import Facts, facts_only, survey_part
from lineal.engine.dask.waiting import leave
from lineal.engine.source import Encode, RawRows
from lineal.errors import ClusterError, DataError, LinealError

T = TypeVar("T")


class DaskSource:
    """Rows in partitions on the workers of a cluster.

    Each partition is a future of `RawRows`. Dask knows how it was made, and makes it again if its worker is lost. The
    partitions are kept as long as the source or an engine of it exists.

    Parameters
    ----------
    client : the connection to the cluster.
    parts : futures of `RawRows`, in the order of the rows.
    names : what messages call them; "partition 0" and so on if not given.
    feature_names, class_names, schema, is_finite : as of `Source`.
    """

    def __init__(
        self,
        client: Client,
        parts: Sequence[Future],
        names: Sequence[str] | None = None,
        *,
        feature_names: list[str] | None = None,
        class_names: list[Any] | None = None,
        schema: Any = None,
        is_finite: bool = False,
    ) -> None:
        if not parts:
            raise DataError("the collection has no partitions")
        check_synchronous(client)
        self.client, self.parts = client, list(parts)
        self.names = [f"partition {number}" for number in range(len(parts))] if names is None else list(names)
        self.feature_names, self.class_names, self.schema = feature_names, class_names, schema
        self.is_finite = is_finite
        self._facts: list[Facts] | None = None

    def close(self) -> None:
        """Release the partitions; engines of this source keep them for themselves."""
        self.parts = []

    patience = PATIENCE

    def survey(self, step: Callable[[RawRows], T]) -> list[tuple[str, T]]:
        """Results of a step on the rows of every partition, in order, each with the name of the partition."""
        if not self.parts:
            raise DataError("the rows on the cluster were released: make a new source")
        answers = self.client.sync(self._survey, step)
        self._facts = [facts for facts, _, _ in answers]
        for _, _, error in answers:
            if error is not None:
                raise error
        return [(name, result) for name, (_, result, _) in zip(self.names, answers, strict=True)]

    async def _survey(self, step: Callable[[RawRows], T]) -> list[tuple[Facts, T, Exception | None]]:
        """One task per partition; what is lost with a worker is computed again."""
        failure: Exception | None = None
        for attempt in range(ATTEMPTS):
            await asyncio.sleep(0.1 * (2**attempt - 1))
            futures = [
                self.client.submit(survey_part, step, name, part, pure=False, retries=RETRIES)
                for name, part in zip(self.names, self.parts, strict=True)
            ]
            try:
                return await self._gathered(futures)
            except LinealError:
                raise
            except Exception as error:
                failure = error.with_traceback(None)
                await self._check_parts()
            finally:
                for future in futures:
                    future.release()
        raise ClusterError(f"the partitions cannot be computed: {type(failure).__name__}: {failure}") from failure

    async def _gathered(self, futures: list[Future]) -> list[tuple[Facts, T, Exception | None]]:
        """Results of tasks; an error if there has been no worker for too long."""
        waiting = asyncio.ensure_future(self.client.gather(futures, direct=True))
        last = time.monotonic()
        try:
            while not (await asyncio.wait({waiting}, timeout=0.5))[0]:
                now = time.monotonic()
                last = now if await self.client.nthreads() else last
                if now - last > self.patience:
                    raise no_workers(self.client, now - last)
            found: list[tuple[Facts, T, Exception | None]] = waiting.result()
            return found
        finally:
            leave(waiting)

    async def _check_parts(self) -> None:
        """Raise the error of a partition that cannot be computed, with its name."""
        for name, part in zip(self.names, self.parts, strict=True):
            if part.status == "error":
                error = await part.exception()
                raise DataError(f"{name} cannot be computed: {type(error).__name__}: {error}") from error

    def engine(self, encode: Encode, n_columns: int, threads: int) -> DaskEngine:
        """The rows with their targets, for solvers."""
        facts = self.facts()
        check_agreement(self.names, facts)
        return DaskEngine.of(Rounds(self.client, self.parts, self.names, facts, encode), n_columns, threads)

    def facts(self) -> list[Facts]:
        """Shape and layout of every partition."""
        if self._facts is None:
            self.survey(facts_only)
        assert self._facts is not None
        return self._facts


def check_agreement(names: Sequence[str], facts: Sequence[Facts]) -> None:
    """Refuse partitions with different columns, data types or layouts; those without rows only need the columns."""
    filled = [(name, one) for name, one in zip(names, facts, strict=True) if one.n_rows]
    if not filled:
        raise DataError("there are no rows: all partitions are empty")
    first_name, first = filled[0]
    for name, one in zip(names, facts, strict=True):
        if one.n_features != first.n_features:
            raise DataError(
                f"{name} has {one.n_features} columns, but {first_name} has {first.n_features}: all need the same"
            )
    for name, one in filled:
        if one.dtype != first.dtype:
            raise DataError(f"X is {one.dtype} in {name}, but {first.dtype} in {first_name}: convert it to one type")
        if one.is_dense != first.is_dense:
            kinds = {True: "dense", False: "sparse"}
            raise DataError(
                f"X is {kinds[one.is_dense]} in {name}, but {kinds[first.is_dense]} in {first_name}: convert one"
            )
