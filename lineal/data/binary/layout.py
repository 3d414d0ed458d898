"""The binary layout: an Arrow IPC file whose columns are the arrays of a `Dataset`, read or mapped without parsing.

One uncompressed record batch. Sparse rows are two list columns, `indices` and `values`; dense rows are one column
`values` of fixed-size lists. Beside them `label` (int32, int64, uint64, float64; uint8 for booleans; dictionary-coded
text; lists of int32 codes where a row has several), `weight` and `qid`, each where the data has them. The schema's
metadata holds, under the key "lineal", a JSON object: version, shape, names, and the `Schema` of the file that was
converted, so that a model trained on the `.arrow` predicts from the original format. Other Arrow readers open the file
as a table.

**Safety.** Compiled kernels trust row offsets and column indices: one out of range would read foreign memory. So they
are always checked, whatever the size of the file. A checksum would read more and prove less: whoever alters a file can
recompute it. ``trusted=True`` skips the check.
Values are not looked at: they were finite when they were written, and a NaN cannot harm more than the result.

**Memory.** A file is read into memory where it takes at most half of what is available, and mapped otherwise, or as
`mapped` says. A map is read by the system when it is needed, and its pages are shared by processes; but what another
process does to the file happens to the map, too: if it is cut, the system ends this process (SIGBUS), which cannot be
prevented from here. Blocks of rows are always read, never mapped.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pyarrow as pa

from lineal.data.binary.file import DAMAGE, KEY, LayoutFile, validate_full
from lineal.data.dataset import Dataset, Schema
from lineal.data.join import blocks_of, join
from lineal.data.mapping import is_mapped
from lineal.data.options import ReadOptions
from lineal.data.source import cannot_read
from lineal.errors import DataError

#: Bytes of a dataset that are written at a time.
BLOCK_BYTES = 64 << 20


def is_layout(path: str) -> bool:
    """Whether an Arrow file was written by `write_layout` or `convert` (other ones are ordinary tables)."""
    try:
        with pa.OSFile(path) as source:
            return KEY in (pa.ipc.open_file(source).schema.metadata or {})
    except PermissionError as error:
        raise cannot_read(path, error) from error
    except (pa.ArrowException, OSError):
        return False


def open_layout(path: str | os.PathLike[str], trusted: bool = False, mapped: str = "auto") -> Dataset:
    """Open a converted file: X is read-only. See this module on `trusted` and `mapped` ("auto", "yes" or "no")."""
    path = os.fspath(path)
    with _explained(path):
        file = LayoutFile(path, is_mapped(path, mapped))
        data = file.dataset()
        if not trusted:
            file.check_contents()
    return data


@contextmanager
def _explained(path: str) -> Iterator[None]:
    """Errors that say what is wrong with the file."""
    try:
        yield
    except DataError as error:
        if str(error).startswith("the stored schema"):
            raise DataError(f"{path} is damaged: {error}") from None
        raise
    except MemoryError:
        raise  # nothing in the file can ask for more than the size of the file
    except OSError as error:
        raise cannot_read(path, error) from error
    except DAMAGE as error:
        raise DataError(f"{path} is damaged: {(str(error).splitlines() or [type(error).__name__])[0]}") from error


def read(paths: list[str], options: ReadOptions, schema: Schema | None = None) -> Dataset:
    """Converted files, one below the other."""
    datasets = [open_layout(path, options.trusted, options.mapped) for path in paths]
    for path, data in zip(paths, datasets):
        _agree(data, schema, path)
    return join(datasets, paths)


def read_blocks(paths: list[str], options: ReadOptions, schema: Schema | None = None) -> Iterator[Dataset]:
    """The same in blocks of rows, each of them checked when it is read."""
    return _blocks(paths, options, schema, True)


def stream_blocks(paths: list[str], options: ReadOptions, schema: Schema | None = None) -> Iterator[Dataset]:
    """As `read_blocks`, but whether indices ascend is not looked at: who learns from a stream does not depend on it."""
    return _blocks(paths, options, schema, False)


def _blocks(paths: list[str], options: ReadOptions, schema: Schema | None, ascending: bool) -> Iterator[Dataset]:
    for path in paths:
        with _explained(path):
            file = LayoutFile(path, mapped=False)
        start = 0
        while start < file.n:
            with _explained(path):
                stop = file.block_end(start, options.block_bytes)
                block = file.rows(start, stop)
                if not options.trusted:
                    validate_full(block, path, ascending)
                    file.check_twins(start, stop + 1)
            if start == 0:
                _agree(block, schema, path)
            start = stop
            yield block
            del block


def _agree(data: Dataset, schema: Schema | None, path: str) -> None:
    """Refuse a file whose columns were made otherwise than those a model knows."""
    if schema is None:
        return
    if not schema.takes(data.X.shape[1]):
        raise DataError(f"{path} has {data.X.shape[1]} columns, expected {schema.width}")
    if data.schema is None or not data.schema.format == schema.format == "table" or data.schema == schema:
        return
    from lineal.data.tables.encode import Encoding

    if Encoding.of_schema(data.schema).expanded().columns != Encoding.of_schema(schema).expanded().columns:
        raise DataError(f"{path} encodes its table otherwise than the model: convert it again with the model's schema")


def write_layout(dataset: Dataset, path: str | os.PathLike[str]) -> None:
    """Write a dataset; the file appears whole or not at all."""
    from lineal.data.binary.convert import write

    write(blocks_of(dataset, BLOCK_BYTES), path)


def convert(source: str | os.PathLike[str], destination: str | os.PathLike[str], **options: Any) -> str:
    """Convert any readable file, in bounded memory; `options` are those of `lineal.read`.

    Returns the destination's path, for ``lineal.read(lineal.convert("big.svm", "big.arrow"))``.
    """
    from lineal.data.binary.convert import write
    from lineal.data.read import read_blocks

    write(read_blocks(source, **options), destination)
    return os.fspath(destination)
