"""Files as a stream of blocks, for learners that see every row once: one pass, bounded memory, read ahead of them.

Every block is a `Dataset` whose X is a float32 csr_array with int32 indices.

svmlight and VW text are read in a single pass: columns lie below 2**bits (a svmlight index is taken as written, modulo
2**bits), labels are float64, NaN where a VW line has none, and nothing is known beforehand. Rows are as the text has
them, neither sorted nor merged, unless ``merge=True``. Other formats go through their own readers, tables in two passes
unless there is a schema, with the labels and columns that those make.

Memory: the text of a block (of a plain file, one chunk per thread) and about as much again for its arrays, for each of
the `DEPTH` + 2 blocks that are made, wait or are learned from.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass, field, fields, replace
from typing import Any

import numpy as np
from scipy import sparse

from lineal.core.threads import available_cores
from lineal.data.ahead import ahead
from lineal.data.dataset import Dataset, Schema, csr_of_parts
from lineal.data.finite import check_finite
from lineal.data.options import ReadOptions
from lineal.data.read import READERS, prepare, unchanged_blocks
from lineal.data.source import Path, display_name, pipes_end
from lineal.errors import DataError, OptionError

#: Bytes of a block where the options say nothing else, and blocks that wait.
BLOCK_BYTES = 8 << 20
DEPTH = 2

#: Kinds are bytes, and 0 is none.
MAX_NAMESPACES = 255

_DEFAULTS = ReadOptions()


@dataclass
class Wish:
    """What a stream is asked for beside its rows; `seen` collects the namespaces that occur."""

    namespaces: tuple[str, ...]
    merge: bool
    seen: set[str] = field(default_factory=set)

    def __post_init__(self) -> None:
        if len(self.namespaces) > MAX_NAMESPACES:
            raise OptionError(f"{len(self.namespaces)} namespaces are too many: at most {MAX_NAMESPACES}")
        if len(set(self.namespaces)) < len(self.namespaces):
            raise OptionError(f"namespaces={list(self.namespaces)!r} names one twice")
        if self.namespaces and self.merge:
            raise OptionError("merge=True sums features across namespaces, which then have none: choose one of them")

    def warn(self, name: str) -> None:
        """Name the namespaces that never occurred."""
        missing = [wanted for wanted in self.namespaces if wanted not in self.seen]
        if missing:
            found = ", ".join(sorted(map(repr, self.seen))[:20]) or "none"
            shown = ", ".join(map(repr, missing))
            warnings.warn(f"{name} has no namespace {shown}; it has {found}", UserWarning, stacklevel=3)


def stream(
    path: Path | Sequence[Path],
    options: ReadOptions = _DEFAULTS,
    schema: Schema | None = None,
    *,
    namespaces: Sequence[str] = (),
    merge: bool = False,
    class_names: Sequence[float] | None = None,
) -> Iterator[Dataset]:
    """Blocks of rows, in order, made on another thread while the caller learns from those before.

    Parameters
    ----------
    path : a file, a glob, "-" (standard input), or a list of them.
    options : as for `lineal.read`. Rows are float32 whatever `dtype` says, blocks take 8 MiB unless `block_bytes` says
        otherwise, `bits` also bounds the columns of svmlight files, whose `index_base` is 0 unless it is said to be 1.
    schema : how a model's files were read (`Dataset.schema` of its blocks).
    namespaces : those of a VW file (the columns of a table) that `Dataset.kinds` tells apart; "" is the unnamed one.
        One that never occurs is named in a warning at the end.
    merge : sort the rows of svmlight and VW text by column, and sum what meets in one.
    class_names : the numbers that can be labels where a line of text has several; y is then an indicator matrix.

    Close what is returned (`contextlib.closing`) where it is not read to its end. Ctrl-C while a block is waited for is
    raised after the block that is being made; that of a pipe has the whole lines that it has given.
    """
    wish = Wish(tuple(namespaces), merge)
    given = {one.name: value for one in fields(ReadOptions) if (value := getattr(options, one.name)) is not None}
    given = {name: value for name, value in given.items() if value != getattr(_DEFAULTS, name)}
    changes = {"block_bytes": BLOCK_BYTES, "n_jobs": max(1, available_cores() - 1), "dtype": "float32"}
    given |= {name: value for name, value in changes.items() if name not in given or name == "dtype"}
    reader, paths, settings, known = prepare(path, schema, given, streamed=True)
    if reader.__name__ in (READERS["svmlight"], READERS["vw"]):
        from lineal.data.text.stream import text_blocks

        blocks = text_blocks(reader.READER, paths, settings, known, wish, class_names)
    else:
        if class_names is not None:
            raise OptionError("class_names are for svmlight and VW text: other formats tell their labels themselves")
        blocks = _blocks(reader, paths, settings, known, schema, wish)
    return _ahead(unchanged_blocks(blocks, paths), wish, display_name(paths[0]))


def _ahead(blocks: Iterator[Dataset], wish: Wish, name: str) -> Iterator[Dataset]:
    try:
        with closing(ahead(blocks, DEPTH, pipes_end.set)) as ready:  # type: ignore[type-var]
            yield from ready
    finally:
        pipes_end.clear()
    wish.warn(name)


def _blocks(
    reader: Any,
    paths: list[str],
    settings: ReadOptions,
    schema: Schema | None,
    wanted: Schema | None,
    wish: Wish,
) -> Iterator[Dataset]:
    """Blocks of the other formats, made narrow."""
    row = 0
    kinds: np.ndarray | None = None
    make = getattr(reader, "stream_blocks", reader.read_blocks)
    for whole in make(paths, settings, schema):
        block = whole.in_columns_of(wanted)
        if not len(block):
            continue
        X = _rows_of(block.X)
        if reader.__name__ != READERS["layout"] or block.X.dtype != X.dtype:
            check_finite(X, block.feature_names, row, display_name(paths[0]))
        row += len(block)
        if wish.namespaces and kinds is None:
            kinds = _kinds_of_columns(block, wish)
        labels = {} if settings.labels else {"y": None, "weights": None, "class_names": None}
        yield replace(block, X=X, kinds=None if kinds is None else kinds[X.indices], **labels)
        del whole, block, X
    if row == 0:
        raise DataError(f"{display_name(paths[0])} has no rows")


def _rows_of(X: Any) -> Any:
    """Any rows as a float32 csr_array with memory of its own: what is mapped is read here, ahead of the learner."""
    with np.errstate(over="ignore"):  # infinities are found, and named, afterwards
        if sparse.issparse(X):
            columns, values = X.indices.astype(np.int32), X.data.astype(np.float32)
            return csr_of_parts(values, columns, X.indptr.astype(np.int32), X.shape)
        kept = X != 0
        indptr = np.zeros(len(X) + 1, np.int32)
        np.cumsum(np.count_nonzero(kept, axis=1), out=indptr[1:])
        columns = np.broadcast_to(np.arange(X.shape[1], dtype=np.int32), X.shape)[kept]
        return csr_of_parts(X[kept].astype(np.float32), columns, indptr, X.shape)


def _kinds_of_columns(block: Dataset, wish: Wish) -> np.ndarray:
    """The kind of every column: a table's source columns, or the columns of an array by their names, are namespaces."""
    if block.schema is not None and block.schema.format == "table":
        from lineal.data.tables.encode import Encoding

        encoding = Encoding.of_schema(block.schema).expanded()
        if encoding.hashes:
            raise OptionError(
                "namespaces cannot be told apart where categorical='hash' puts texts of all columns together: "
                "use categorical='onehot'"
            )
        owners = [column.name for column in encoding.columns for _ in range(column.width)]
    elif block.feature_names is not None:
        owners = block.feature_names
    else:
        raise OptionError(f"namespaces={list(wish.namespaces)!r}: these files have no namespaces")
    wish.seen |= set(owners)
    places = {name: place for place, name in enumerate(wish.namespaces, 1)}
    kinds = np.array([places.get(name, 0) for name in owners], np.uint8)
    if block.schema is not None and block.schema.columns is not None and len(kinds) != block.X.shape[1]:
        kinds = kinds[block.schema.columns]
    return kinds
