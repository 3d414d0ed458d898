"""Source of rows from converted files that every worker can read, for example on a shared file system.

Files are cut by their size alone, so that the sums over rows do not depend on the number of workers. A worker reads its
ranges of rows itself; nothing of a file goes through the client but its description.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import NamedTuple

from dask.delayed import delayed
from distributed import Client

from lineal.data.binary.checks import check_sparse
from lineal.data.binary.file import LayoutFile
from lineal.data.binary.layout import explained
from lineal.data.source import changed, size_and_time
from lineal.engine.converted import ConvertedFiles
from lineal.engine.dask.collections import persisted
from lineal.engine.dask.parcels import aligned
from lineal.engine.dask.shares import named
from lineal.engine.dask.source import DaskSource
from lineal.engine.source import RawRows

#: Largest number of bytes of a partition.
MOST_BYTES = 128 << 20

#: Small files are cut into about this many partitions, so that several workers have some.
FEW_PARTITIONS = 16

#: Smallest number of bytes that is worth a partition.
LEAST_BYTES = 1 << 20


class Range(NamedTuple):
    """Rows start … stop − 1 of a file of a known size and time of its last change."""

    path: str
    size: int
    changed_at: int
    start: int
    stop: int
    first: int

    @property
    def name(self) -> str:
        """What messages call it."""
        return f"{self.path}, rows {self.start} to {self.stop - 1}"


def source_of_files(client: Client, paths: Sequence[str], partition_bytes: int | None = None) -> DaskSource:
    """Source of the rows of converted files, whose paths must be valid on all workers."""
    converted = ConvertedFiles([os.path.abspath(path) for path in paths])
    files, first = [(file, size_and_time(file.path)) for file in converted.files], converted.files[0]
    total = sum(_bytes(file) for file, _ in files)
    wanted = partition_bytes or max(LEAST_BYTES, min(MOST_BYTES, total // FEW_PARTITIONS))
    ranges = []
    begin = 0
    for file, state in files:
        start = 0
        while start < file.n:
            with explained(file.path):
                stop = file.block_end(start, wanted)
            ranges.append(Range(file.path, *state, start, stop, begin))
            begin, start = begin + stop - start, stop
    rows = [delayed(read_range, pure=False)(tuple(one)) for one in ranges]
    sizes = [float(one.stop - one.start) for one in ranges]
    return DaskSource(
        client, persisted(client, rows, sizes), [one.name for one in ranges], feature_names=first.feature_names,
        class_names=first.class_names, schema=first.schema, is_finite=True,
    )  # fmt: skip


def read_range(given: tuple[str, int, int, int, int, int]) -> RawRows:
    """Task: read some rows of a file; refuses a file that is not the one that the client saw."""
    one = Range(*given)
    with named(one.name):
        expected = one.size, one.changed_at
        if size_and_time(one.path) != expected:
            raise changed(one.path)
        with explained(one.path):
            file = LayoutFile(one.path, mapped=False)
            data = file.rows(one.start, one.stop)
            check_sparse(data, one.path)
            file.check_twins(one.start, one.stop + 1)
        if size_and_time(one.path) != expected:
            raise changed(one.path)
        return RawRows(aligned(data.X), data.y, data.weights, None, one.first)


def _bytes(file: LayoutFile) -> int:
    """Number of bytes of X, without row offsets."""
    indices = 0 if file.indices is None else file.indices.dtype.itemsize
    return len(file.values) * (file.values.dtype.itemsize + indices)
