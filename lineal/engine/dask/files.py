"""Sources of rows from converted files: ranges of rows, which workers read by themselves.

The client reads only the descriptions of the files and some row offsets. All workers must see the files under the same
names. A range is a pure function of the file and its rows, so that any worker can read it again; a file that has
changed since the fit began is refused.
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
from lineal.data.source import changed
from lineal.engine.converted import ConvertedFiles
from lineal.engine.dask.collections import persisted
from lineal.engine.dask.parcels import aligned
from lineal.engine.dask.source import DaskSource
from lineal.engine.source import RawRows

#: Largest number of bytes of X in a partition.
PART_BYTES = 128 << 20

#: Number of partitions per worker, if files are large enough: a lost worker's rows can then be shared out.
PARTS_PER_WORKER = 4

#: Smallest number of bytes of X in a partition.
LEAST_BYTES = 1 << 20


class Range(NamedTuple):
    """Rows of one file, which had a size and a time of change when the fit began."""

    path: str
    size: int
    changed_ns: int
    start: int
    stop: int

    @property
    def name(self) -> str:
        """What messages call it."""
        return f"{self.path}, rows {self.start} to {self.stop - 1}"


def source_of_files(client: Client, paths: Sequence[str]) -> DaskSource:
    """Source of the rows of some converted files."""
    files = ConvertedFiles([os.path.abspath(path) for path in paths]).files
    wanted = PARTS_PER_WORKER * max(len(client.nthreads()), 1)
    total = sum(file.file.size for file in files)
    part_bytes = max(LEAST_BYTES, min(PART_BYTES, total // wanted))
    ranges = [one for file in files for one in _ranges(file, part_bytes)]
    rows = [delayed(read_range, pure=False)(one) for one in ranges]
    sizes = [float(one.stop - one.start) for one in ranges]
    first = files[0]
    return DaskSource(
        client, persisted(client, rows, sizes), [one.name for one in ranges], feature_names=first.feature_names,
        class_names=first.class_names, schema=first.schema, is_finite=True,
    )  # fmt: skip


def _ranges(file: LayoutFile, part_bytes: int) -> list[Range]:
    status = os.stat(file.path)
    found, start = [], 0
    while start < file.n:
        with explained(file.path):
            stop = file.block_end(start, part_bytes)
        found.append(Range(file.path, status.st_size, status.st_mtime_ns, start, stop))
        start = stop
    return found


def read_range(rows: Range) -> RawRows:
    """Task: read some rows of a file, and check what kernels trust."""
    with explained(rows.path):
        file = LayoutFile(rows.path, mapped=False)
        data = file.rows(rows.start, rows.stop)
        status = os.stat(rows.path)
        if (status.st_size, status.st_mtime_ns) != (rows.size, rows.changed_ns):
            raise changed(rows.path)
        file.check_twins(rows.start, rows.stop + 1)
    check_sparse(data, rows.path, ascending=True)
    return RawRows(aligned(data.X), data.y, data.weights)
