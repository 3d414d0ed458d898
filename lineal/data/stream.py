"""Files as a stream of blocks, for learners that see every row once: one pass, bounded memory, read ahead of them.

Every block is a `Dataset` whose X is a float32 csr_array with int32 indices.

svmlight and VW text are read in a single pass with nothing known beforehand: X has 2**bits columns (an svmlight index
is taken as written, modulo 2**bits), and labels are float64, NaN where a VW line has none. The features of a row are
neither sorted nor summed, unless ``merge=True``. Other formats go through their own readers, with the labels and
columns that those make; tables need two passes unless there is a schema, or hashed levels (see
`lineal.data.tables.one_pass`).

Memory: `DEPTH` + 2 blocks are being made, waiting or learned from. Each takes its text (of a plain file, one chunk per
thread) and about as much again for its arrays.
"""

from __future__ import annotations

import os
import warnings
from collections.abc import Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass, field, fields, replace
from typing import Any

import numpy as np
from scipy import sparse

from lineal.core.threads import available_cores
from lineal.data import formats, ngrams
from lineal.data.ahead import ahead
from lineal.data.byte_stream import pipes_end
from lineal.data.chunks import line_count
from lineal.data.dataset import Dataset, check_finite, csr_of_parts
from lineal.data.ngrams import NGrams
from lineal.data.options import ReadOptions
from lineal.data.parts import Part, Piece, check_cut, pieces_of, whole_files
from lineal.data.read import Plan, make_plan, unchanged_blocks
from lineal.data.schema import Schema
from lineal.data.source import Path, display_name, expand
from lineal.errors import OptionError

#: Default size of a block in bytes, and the number of finished blocks that wait.
BLOCK_BYTES = 8 << 20
DEPTH = 2

#: Kinds are bytes, and 0 stands for no namespace.
MAX_NAMESPACES = 255

_DEFAULTS = ReadOptions()


@dataclass
class StreamChoices:
    """What a stream does beside reading: `namespaces` to tell apart, and whether to `merge` the features of a row.

    `ngrams` are those of files without a schema. `seen` collects the namespaces that occur.
    """

    namespaces: tuple[str, ...]
    merge: bool
    ngrams: NGrams = field(default_factory=NGrams)
    seen: set[str] = field(default_factory=set)

    def __post_init__(self) -> None:
        if len(self.namespaces) > MAX_NAMESPACES:
            raise OptionError(f"{len(self.namespaces)} namespaces are too many: at most {MAX_NAMESPACES}")
        if len(set(self.namespaces)) < len(self.namespaces):
            raise OptionError(f"namespaces={list(self.namespaces)!r} names one twice")
        if self.namespaces and self.merge:
            raise OptionError("merge=True sums features across namespaces, which then have none: choose one of them")

    def warn(self, name: str) -> None:
        """Warn about namespaces that never occurred in the file `name`."""
        message = self.ngrams.unseen(self.seen)
        if message is not None:
            warnings.warn(f"{name}: {message}", UserWarning, stacklevel=3)
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
    part: Part | None = None,
) -> Iterator[Dataset]:
    """Blocks of rows, in order, made on another thread while the caller learns from earlier ones.

    Close the returned iterator (`contextlib.closing`) if you do not read it to its end. Ctrl-C while the caller waits
    for a block is raised after the block that is being made; from a pipe, that block has the whole lines received so
    far.

    Parameters
    ----------
    path : a file, a glob, "-" (standard input), or a list of them.
    options : as for `lineal.read`. Rows are float32 whatever `dtype` says, and blocks take 8 MiB unless `block_bytes`
        says otherwise. `bits` also bounds the columns of svmlight files, whose `index_base` is 0 unless it is set to 1.
    schema : how the files of a model were read (`Dataset.schema` of its blocks).
    namespaces : namespaces of a VW file (or columns of a table) that `Dataset.kinds` tells apart; "" is the unnamed
        one. A warning at the end names those that never occurred.
    merge : sort the features of each row of svmlight and VW text by column, and sum those that share a column.
    class_names : the numbers that can be labels if lines of text have several; y is then an indicator matrix.
    part : read only this part of the files (see `lineal.data.parts`), which may have no rows; needs a schema.
    """
    choices = StreamChoices(tuple(namespaces), merge, NGrams() if schema is not None else ngrams.of_options(options))
    plan = _plan(path, options, schema)
    if part is not None:
        plan = plan.cut(part)
    if plan.format in ("svmlight", "vw"):
        from lineal.data.text.one_pass import text_blocks

        blocks = text_blocks(plan, choices, class_names)
    else:
        if class_names is not None:
            raise OptionError("class_names are for svmlight and VW text: other formats have their own labels")
        blocks = _narrow_blocks(plan, choices)
    return _ahead(unchanged_blocks(blocks, plan), choices, plan)


def check_parts(path: Path | Sequence[Path], options: ReadOptions, schema: Schema | None, count: int) -> None:
    """Refuse files that cannot be streamed in so many parts."""
    plan = _plan(path, options, schema)
    check_cut(plan.paths, plan.format, count)


def _plan(path: Path | Sequence[Path], options: ReadOptions, schema: Schema | None) -> Plan:
    given = {one.name: value for one in fields(ReadOptions) if (value := getattr(options, one.name)) is not None}
    given = {name: value for name, value in given.items() if value != getattr(_DEFAULTS, name)}
    given = {"block_bytes": BLOCK_BYTES, "n_jobs": max(1, available_cores() - 1), **given, "dtype": "float32"}
    return make_plan(path, schema, given, streamed=True)


def _ahead(blocks: Iterator[Dataset], choices: StreamChoices, plan: Plan) -> Iterator[Dataset]:
    try:
        with closing(ahead(blocks, DEPTH, pipes_end.set)) as ready:  # type: ignore[type-var]
            yield from ready
    finally:
        pipes_end.clear()
    if plan.part is None:
        choices.warn(display_name(plan.paths[0]))
    elif plan.part.number == 0 and plan.paths:  # the others may have them, but one warning is enough
        choices.warn(f"the first of {plan.part.n_parts} parts of {plan.paths[0]}")


def _narrow_blocks(plan: Plan, choices: StreamChoices) -> Iterator[Dataset]:
    """Blocks of a format that is not line-oriented text, as float32 rows."""
    row = 0
    kinds: np.ndarray | None = None
    for whole in _whole_blocks(plan):
        block = whole.in_columns_of(plan.wanted)
        if not len(block):
            continue
        X = _narrow_rows(block.X)
        if not plan.is_layout or block.X.dtype != X.dtype:
            check_finite(X, block.feature_names, row, display_name(plan.paths[0]))
        row += len(block)
        if choices.namespaces and kinds is None:
            kinds = _kinds_of_columns(block, choices)
        if not plan.options.labels:
            block = replace(block, y=None, weights=None, class_names=None)
        yield replace(block, X=X, kinds=None if kinds is None else kinds[X.indices])
        del whole, block, X
    if row == 0 and plan.part is None:
        raise plan.no_rows()


def _whole_blocks(plan: Plan) -> Iterator[Dataset]:
    if plan.is_layout:
        from lineal.data.binary.layout import stream_blocks

        return stream_blocks(plan.pieces, plan.options, plan.schema)
    if plan.schema is None and plan.options.levels == "hash":
        from lineal.data.tables import one_pass

        if plan.format in one_pass.FORMATS:
            return one_pass.blocks(plan.paths, plan.options)
    return plan.reader.read_blocks(plan.paths, plan.options, plan.schema)


def _narrow_rows(X: Any) -> Any:
    """Rows as a float32 csr_array in memory of its own: a map is read here, ahead of the learner. May be X itself."""
    with np.errstate(over="ignore"):  # infinities are found, and named, afterwards
        if sparse.issparse(X):
            columns, values = _owned(X.indices, np.int32), _owned(X.data, np.float32)
            return csr_of_parts(values, columns, _owned(X.indptr, np.int32), X.shape)
        kept = X != 0
        indptr = np.zeros(len(X) + 1, np.int32)
        np.cumsum(np.count_nonzero(kept, axis=1), out=indptr[1:])
        columns = np.broadcast_to(np.arange(X.shape[1], dtype=np.int32), X.shape)[kept]
        return csr_of_parts(X[kept].astype(np.float32, copy=False), columns, indptr, X.shape)


def _owned(array: np.ndarray, dtype: Any) -> np.ndarray:
    """The numbers in memory of their own, which can be written to: kernels are compiled for one type of arrays."""
    if array.dtype != dtype or not array.flags.owndata:
        return array.astype(dtype)
    array.flags.writeable = True
    return array


def _kinds_of_columns(block: Dataset, choices: StreamChoices) -> np.ndarray:
    """The kind of every column: namespaces are the source columns of a table, or the named columns of an array."""
    if block.schema is not None and block.schema.format == "table":
        from lineal.data.tables.encode import Encoding

        encoding = Encoding.of_schema(block.schema).single
        if encoding.hashes:
            raise OptionError(
                "namespaces cannot be distinguished, because levels='hash' hashes the categories of all columns "
                "together: use levels='onehot'"
            )
        owners = encoding.owners()
    elif block.feature_names is not None:
        owners = block.feature_names
    else:
        raise OptionError(f"namespaces={list(choices.namespaces)!r}: these files have no namespaces")
    choices.seen |= set(owners)
    places = {name: place for place, name in enumerate(choices.namespaces, 1)}
    kinds = np.array([places.get(name, 0) for name in owners], np.uint8)
    if block.schema is not None and block.schema.columns is not None and len(kinds) != block.X.shape[1]:
        kinds = kinds[block.schema.columns]
    return kinds


# --- what can be known of files before they are streamed


def has_fixed_columns(path: Path | Sequence[Path], format: str = "auto") -> bool:
    """Whether files have columns of their own, as arrays and converted files do, instead of 2**bits columns."""
    first = expand(path)[0]
    if not os.path.isfile(first):
        return False
    kind = formats.format_of(first) if format == "auto" else format
    if kind == "arrow":
        from lineal.data.binary.layout import is_layout

        return is_layout(first)
    return kind in ("npy", "npz")


def count_rows(path: Path | Sequence[Path], format: str, schema: Schema, part: Part | None = None) -> int | None:
    """The number of rows of files, or of a part of them, without parsing; None if only reading them would tell."""
    paths = expand(path)
    if not all(map(os.path.isfile, paths)):
        return None
    kinds = {one: formats.format_of(one) if format == "auto" else format for one in paths}
    pieces = whole_files(paths) if part is None else pieces_of(paths, _cut_as(kinds[paths[0]], paths), part)
    counts = [_count_rows(piece, kinds[piece.path], schema) or 0 for piece in pieces]
    return sum(counts) if all(counts) else None


def _cut_as(kind: str, paths: list[str]) -> str:
    from lineal.data.binary.layout import is_layout

    return "layout" if kind == "arrow" and all(map(is_layout, paths)) else kind


def _count_rows(piece: Piece, kind: str, schema: Schema) -> int | None:
    path, start, stop = piece
    if kind in ("npy", "npz"):
        return None
    if kind in ("parquet", "arrow"):
        if stop is not None:
            return stop - start
        from pyarrow import ArrowException
        from pyarrow.dataset import dataset

        try:
            return int(dataset(path, format=kind).count_rows())
        except (ArrowException, OSError):  # compressed, or not a regular file of that kind
            return None
    lines = line_count(path, start, stop)
    return lines if lines is None else lines - bool(schema.settings.get("header") and kind in formats.CSV_LIKE)
