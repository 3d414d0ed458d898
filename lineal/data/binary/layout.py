"""The binary layout: an Arrow IPC file whose columns are the arrays of a `Dataset`, read or mapped without parsing.

The file has one uncompressed record batch. Sparse rows are two list columns, `indices` and `values`; dense rows are one
column `values` of fixed-size lists. There may also be columns `label` (int32, int64, uint64 or float64; uint8 for
booleans; dictionary-coded text; lists of int32 codes for label sets), `weight` and `qid`. The metadata of the Arrow
schema holds, under the key "lineal", a JSON object: version, shape, names, and the `Schema` of the file that was
converted. So a model that was trained on the `.arrow` file predicts from files of the original format. Other Arrow
readers open the file as a table.

**Safety.** Compiled kernels trust row offsets and column indices: one out of range would read other memory. So these
are always checked, whatever the size of the file. A checksum would read more and prove less: anyone who alters a file
can recompute it. ``trusted=True`` skips the check. Values are not checked: they were finite when they were written, and
a NaN can spoil only the result.

**Memory.** A file that takes at most half of the available memory is read, a larger one is mapped; the option `mapped`
overrides this. The system reads a map when it is needed, and processes share its pages. But a map also shows what
another process does to the file: if the file is cut, the system ends this process (SIGBUS), and nothing here can
prevent that. Blocks of rows are always read, never mapped.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import pyarrow as pa

from lineal.data.binary.checks import check_sparse
from lineal.data.binary.file import DAMAGE, LayoutFile
from lineal.data.dataset import Dataset
from lineal.data.formats import ARROW_MAGIC, LAYOUT_KEY
from lineal.data.join import blocks_of, join
from lineal.data.options import ReadOptions
from lineal.data.parts import Piece, whole_files
from lineal.data.schema import Schema
from lineal.data.source import cannot_read, is_mapped
from lineal.errors import DataError

#: Number of bytes of a dataset that are written at a time.
BLOCK_BYTES = 64 << 20


def is_layout(path: str) -> bool:
    """Whether an Arrow file was written by `write_layout` or `convert`; others are ordinary tables."""
    try:
        with pa.OSFile(path) as source:
            return LAYOUT_KEY in (pa.ipc.open_file(source).schema.metadata or {})
    except PermissionError as error:
        raise cannot_read(path, error) from error
    except (pa.ArrowException, OSError):
        return False


def is_damaged(path: str) -> bool:
    """Whether a file begins as an Arrow file and cannot be opened as one, because it was cut short or overwritten."""
    try:
        with open(path, "rb") as file:
            if file.read(len(ARROW_MAGIC)) != ARROW_MAGIC:
                return False
        with pa.OSFile(path) as source:
            pa.ipc.open_file(source)
    except PermissionError as error:
        raise cannot_read(path, error) from error
    except (pa.ArrowException, OSError):
        return True
    return False


def open_layout(path: str | os.PathLike[str], trusted: bool = False, mapped: str = "auto") -> Dataset:
    """Open a converted file; X is read-only. The text above explains `trusted` and `mapped` ("auto", "yes" or "no")."""
    path = os.fspath(path)
    with explained(path):
        file = LayoutFile(path, is_mapped(path, mapped))
        data = file.dataset()
        if not trusted:
            file.check_contents()
    return data


@contextmanager
def explained(path: str) -> Iterator[None]:
    """A context whose errors name the file and what is wrong with it."""
    try:
        yield
    except DataError as error:
        if str(error).startswith("the stored schema"):
            raise DataError(f"{path} is damaged: {error}") from None
        raise
    except MemoryError:
        raise  # a damaged file cannot cause it: no array is longer than the file
    except OSError as error:
        raise cannot_read(path, error) from error
    except DAMAGE as error:
        raise DataError(f"{path} is damaged: {(str(error).splitlines() or [type(error).__name__])[0]}") from error


def read(paths: list[str], options: ReadOptions, schema: Schema | None = None) -> Dataset:
    """Read converted files, one below the other."""
    datasets = [open_layout(path, options.trusted, options.mapped) for path in paths]
    for path, data in zip(paths, datasets):
        _agree(data, schema, path)
    return join(datasets, paths)


def read_blocks(paths: list[str], options: ReadOptions, schema: Schema | None = None) -> Iterator[Dataset]:
    """Read the same rows in blocks, each of which is checked when it is read."""
    return _blocks(whole_files(paths), options, schema, True)


def stream_blocks(pieces: Sequence[Piece], options: ReadOptions, schema: Schema | None = None) -> Iterator[Dataset]:
    """Read blocks without the check that indices ascend, on which online learners do not depend."""
    return _blocks(pieces, options, schema, False)


def _blocks(pieces: Sequence[Piece], options: ReadOptions, schema: Schema | None, ascending: bool) -> Iterator[Dataset]:
    for path, first, last in pieces:
        with explained(path):
            file = LayoutFile(path, mapped=False)
        start, last = first, file.n if last is None else min(last, file.n)
        while start < last:
            with explained(path):
                stop = min(file.block_end(start, options.block_bytes), last)
                block = file.rows(start, stop)
                if not options.trusted:
                    check_sparse(block, path, ascending)
                    file.check_twins(start, stop + 1)
            if start == first:
                _agree(block, schema, path)
            start = stop
            yield block
            del block


def _agree(data: Dataset, schema: Schema | None, path: str) -> None:
    """Refuse a file whose columns were not made as the schema of a model says."""
    if schema is None:
        return
    if not schema.takes(data.X.shape[1]):
        raise DataError(f"{path} has {data.X.shape[1]} columns, expected {schema.width}")
    if data.schema is None or not data.schema.format == schema.format == "table" or data.schema == schema:
        return
    from lineal.data.tables.encode import Encoding

    if Encoding.of_schema(data.schema).single.columns != Encoding.of_schema(schema).single.columns:
        raise DataError(
            f"{path} encodes its table differently from the model: convert it again with the model's schema"
        )


def write_layout(dataset: Dataset, path: str | os.PathLike[str]) -> None:
    """Write a dataset to a file, which appears whole or not at all."""
    from lineal.data.binary.write import write

    write(blocks_of(dataset, BLOCK_BYTES), path)


def convert(source: str | os.PathLike[str], destination: str | os.PathLike[str], **options: Any) -> str:
    """Convert any file that can be read, in bounded memory; `options` are those of `lineal.read`.

    Returns the destination's path, for ``lineal.read(lineal.convert("big.svm", "big.arrow"))``.
    """
    from lineal.data.binary.write import write
    from lineal.data.read import read_blocks

    write(read_blocks(source, **options), destination)
    return os.fspath(destination)
