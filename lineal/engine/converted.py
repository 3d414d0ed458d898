"""Converted files, read run by run into memory that is used again.

Nothing is mapped: the pages of the files are the system's to keep or to drop, and a file that another process changes
ends in an error.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from lineal.data.binary.file import LayoutFile, Room
from lineal.data.binary.layout import explained
from lineal.data.dataset import Dataset, csr_of_parts
from lineal.data.source import Unchanged
from lineal.engine.streamed import Span
from lineal.errors import DataError


class ConvertedFiles:
    """Some converted files of the same kind, one below the other."""

    def __init__(self, paths: Sequence[str]) -> None:
        self.paths = list(paths)
        if not self.paths:
            raise DataError("there are no files to train on")
        self.files, self.watches = [], []
        for path in self.paths:
            self.watches.append(Unchanged([path]))
            with explained(path):
                self.files.append(LayoutFile(path, mapped=False))
        first = self.files[0]
        for file in self.files[1:]:
            for what in ("d", "is_sparse", "feature_names", "class_names"):
                if getattr(file, what) != getattr(first, what):
                    shown = {"d": "number of columns", "is_sparse": "layout (sparse or dense)"}.get(what, what)
                    values = f" ({file.d} and {first.d})" if what == "d" else ""
                    raise DataError(f"{file.path} and {first.path} differ in their {shown}{values}: convert them alike")
            if (file.weight is None) != (first.weight is None) or (file.label is None) != (first.label is None):
                raise DataError(f"only one of {file.path} and {first.path} has labels or weights: convert them alike")

    @property
    def feature_names(self) -> list[str] | None:
        """Names of the columns of X, if they have any."""
        return self.files[0].feature_names

    @property
    def class_names(self) -> list[Any] | None:
        """Names of the columns of an indicator matrix, if they have any."""
        return self.files[0].class_names

    @property
    def schema(self) -> Any:
        """How columns were made."""
        return self.files[0].schema

    @property
    def nbytes(self) -> int:
        """Number of bytes of X in all files."""
        return sum(_entry_bytes(file) for file in self.files)

    @property
    def n_rows(self) -> int:
        """Number of rows of all files."""
        return sum(file.n for file in self.files)

    def will_need(self, span: Span) -> None:
        """Ask the system to read the features of some rows soon."""
        self.files[span.file].will_need(span.start, span.stop)

    def spans(self, block_bytes: int, most_rows: int = 1 << 62) -> Iterator[Span]:
        """Blocks of at most that many bytes of X and rows, but at least one row."""
        first = 0
        for number, file in enumerate(self.files):
            start = 0
            while start < file.n:
                with explained(file.path):
                    stop = min(file.block_end(start, block_bytes), start + most_rows)
                yield Span(number, start, stop, first)
                first, start = first + stop - start, stop

    def read(self, span: Span, room: Room) -> Dataset:
        """Features and labels of some rows; the features are in `room`."""
        return replace(self.labels(span), X=self.matrix([span], room))

    def matrix(self, spans: Sequence[Span], room: Room) -> Any:
        """Features of some rows, read into `room`; an error if a file has changed since it was opened."""
        if len(spans) == 1:
            with explained(self.paths[spans[0].file]):
                X = self.files[spans[0].file].matrix(spans[0].start, spans[0].stop, room)
        else:
            X = self._joined(spans, room)
        for number in {span.file for span in spans}:
            self.watches[number].check()
        return X

    def _joined(self, spans: Sequence[Span], room: Room) -> Any:
        """Rows of several places, one below the other."""
        extents = []
        for span in spans:
            with explained(self.paths[span.file]):
                extents.append(self.files[span.file].entries(span.start, span.stop))
        total, n = sum(last - first for _, first, last in extents), sum(span.n for span in spans)
        data = room.values.take(total, self.files[0].values.dtype)
        indices = room.indices.take(total, self.index_dtype) if self.files[0].is_sparse else None
        starts, at = [np.zeros(1, np.int64)], 0
        for span, (offsets, first, last) in zip(spans, extents):
            file, part = self.files[span.file], slice(at, at + last - first)
            with explained(file.path):
                file.values.read_into(data[part], first)
                if indices is not None and file.indices is not None and offsets is not None:
                    if file.indices.dtype == indices.dtype:
                        file.indices.read_into(indices[part], first)
                    else:
                        indices[part] = file.indices.part(first, last)
                    starts.append(at + offsets[1:])
            at += last - first
        data.flags.writeable = False
        if indices is None:
            return data.reshape(n, self.files[0].d)
        indices.flags.writeable = False
        return csr_of_parts(data, indices, np.concatenate(starts), (n, self.files[0].d))

    @functools.cached_property
    def index_dtype(self) -> np.dtype[Any]:
        """Type of column indices that holds those of all files."""
        return np.result_type(*(file.indices.dtype for file in self.files if file.indices is not None))

    def span_bytes(self, span: Span) -> int:
        """Number of bytes of X in some rows."""
        file = self.files[span.file]
        with explained(file.path):
            entry = file.values.dtype.itemsize + (0 if file.indices is None else file.indices.dtype.itemsize)
            if file.offsets is None:
                return span.n * file.d * entry
            ends = [int(file.offsets.part(row, row + 1)[0]) for row in (span.start, span.stop)]
            return (ends[1] - ends[0]) * entry + span.n * file.offsets.dtype.itemsize

    def labels(self, span: Span) -> Dataset:
        """Labels and weights of some rows."""
        with explained(self.paths[span.file]):
            return self.files[span.file].labels(span.start, span.stop)


def _entry_bytes(file: LayoutFile) -> int:
    size = len(file.values) * file.values.dtype.itemsize
    if file.indices is not None and file.offsets is not None:
        size += len(file.indices) * file.indices.dtype.itemsize + len(file.offsets) * file.offsets.dtype.itemsize
    return size
