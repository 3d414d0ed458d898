"""`Encoding`: how the columns of a table become the columns of X, decided on the training file and stored with a model.

The settings of a `Schema` with format "table" are the fields of an `Encoding`: for each source column its kind, the
texts that have a column of X each, and the mean that replaces missing numbers; the label column and its type.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lineal.data.options import NULLS
from lineal.data.schema import Schema
from lineal.data.tables import dates
from lineal.data.tables.cells import BatchPlace, as_codes, as_float, missing_cell
from lineal.data.tables.columns import Column
from lineal.data.tables.labels import encode_label, encode_weight
from lineal.data.tables.matrices import beside, csr_of_slots
from lineal.data.tables.wide import matrix_of
from lineal.errors import DataError

if TYPE_CHECKING:
    from lineal.data.tables.one_row import RowEncoder

#: X is a csr_array below this share of non-zero cells: CSR then takes less than half the memory, and less time.
SPARSE_BELOW = 0.25


@dataclass
class Part:
    """Some encoded rows; `unseen` counts cells per column that training did not see."""

    X: Any
    y: Any
    weights: np.ndarray | None
    unseen: dict[str, int]


@dataclass(frozen=True)
class Encoding:
    """How a table becomes X, y and weights; `schema` and `of_schema` are inverse to each other.

    `header_chosen` says how the presence of a header was decided: "given" by the options or the format, or "certain" or
    "guessed" from the contents of the file. `na` are the texts that mean a missing cell; in formats with types there
    are none. `categorical` says whether categories have columns of their own ("onehot") or are hashed ("hash"). `scale`
    and `rare` are the options of training; what they led to is in the columns. `delimiter` is that of the training file
    if it was detected.

    The columns of X are those of numbers, dates and categories, in the order of the table, then the hashed categories,
    then those of the words of each column of text.
    """

    columns: list[Column]
    label: str | None = None
    label_kind: str | None = None
    label_chosen: str = "given"
    class_names: list[Any] | None = None
    weight: str | None = None
    missing: str = "error"
    categorical: str = "onehot"
    na: list[str] = field(default_factory=lambda: ["", *NULLS])
    bits: int = 18
    dtype: str = "float64"
    header: bool | None = None
    names: list[str] = field(default_factory=list)
    density: float = 1.0
    header_chosen: str = "given"
    scale: str = "none"
    rare: int | None = None
    delimiter: str | None = None

    def __getstate__(self) -> dict[str, Any]:
        """The fields: what else was made of them is made again where it is needed."""
        return _values(self)

    def schema(self) -> Schema:
        """The encoding as a schema, which is stored with a model."""
        settings = {**_values(self), "columns": [_values(column) for column in self.columns]}
        return Schema("table", self.n_features, settings)

    @staticmethod
    def of_schema(schema: Schema) -> Encoding:
        """The encoding that a schema holds, which is made once for each schema."""
        known = vars(schema)
        if "_encoding" not in known:
            known["_encoding"] = Encoding._of_schema(schema)
        return known["_encoding"]

    @staticmethod
    def _of_schema(schema: Schema) -> Encoding:
        try:
            settings = {key: value for key, value in schema.settings.items() if key != "unseen"}
            columns = [Column(**column) for column in settings.pop("columns")]
            encoding = Encoding(columns=columns, **settings)
            if encoding.n_features != schema.n_features:
                raise ValueError(f"{encoding.n_features} columns instead of {schema.n_features}")
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            raise DataError(f"the stored description of the table is damaged: {error}") from None
        return encoding

    @cached_property
    def together(self) -> Column | None:
        """The columns of numbers that are parsed together, if there are such."""
        return next((column for column in self.columns if column.kind == "numbers"), None)

    @cached_property
    def single(self) -> Encoding:
        """The same encoding with one `Column` for every column of the table."""
        if self.together is None:
            return self
        columns: list[Column] = []
        for one in self.columns:
            columns += _singles(one) if one.kind == "numbers" else [one]
        return replace(self, columns=columns)

    @cached_property
    def of_one_row(self) -> RowEncoder:
        """The encoder of single rows; for an encoding with one `Column` for every column of the table."""
        from lineal.data.tables.one_row import RowEncoder

        return RowEncoder(self)

    @cached_property
    def nulls(self) -> frozenset[str]:
        """`na`, for lookups."""
        return frozenset(self.na)

    @cached_property
    def hashes(self) -> bool:
        """Whether text goes to hashed columns, which follow the columns of the numbers."""
        return self.categorical == "hash" and any(column.kind == "category" for column in self.columns)

    @cached_property
    def offsets(self) -> list[int]:
        """The first column of X for each source column."""
        widths = [0 if self._is_at_the_end(column) else column.width for column in self.columns]
        return [0, *np.cumsum(widths).tolist()]

    def _is_at_the_end(self, column: Column) -> bool:
        """Whether the columns of X that a column makes follow those of all others."""
        return column.kind == "text" or (self.hashes and column.kind == "category")

    @cached_property
    def texts(self) -> list[tuple[Column, Any]]:
        """The columns of text, and what makes columns of X from each of them."""
        columns = [column for column in self.columns if column.kind == "text"]
        if not columns:
            return []
        from lineal.data.tables.texts import terms_of

        return [(column, terms_of(column)) for column in columns]

    @cached_property
    def n_features(self) -> int:
        """Number of columns of X."""
        return self.offsets[-1] + ((1 << self.bits) if self.hashes else 0) + sum(terms.width for _, terms in self.texts)

    @cached_property
    def sparse(self) -> bool:
        """Whether X is a csr_array: with text or hashed categories, and if few cells were non-zero in training."""
        has_zeros = any(column.kind in ("category", "date") for column in self.columns)
        return self.hashes or bool(self.texts) or (has_zeros and self.density < SPARSE_BELOW)

    def feature_names(self) -> list[str] | None:
        """A name for each column of X; None if categories or words are hashed."""
        words = [terms.names() for _, terms in self.texts]
        if self.hashes or None in words:
            return None
        own = [name for column in self.columns if column.kind != "text" for name in column.names()]
        return own + [f"{column.name}={word}" for (column, _), names in zip(self.texts, words) for word in names or []]

    def owners(self) -> list[str]:
        """The column of the table that each column of X comes from; not with hashed categories."""
        own = [column.name for column in self.columns if column.kind != "text" for _ in range(column.width)]
        return own + [column.name for column, terms in self.texts for _ in range(terms.width)]

    def names_by_kind(self) -> dict[str, list[str]]:
        """The feature columns of the table by what they hold."""
        found: dict[str, list[str]] = {}
        for column in self.columns:
            found.setdefault(column.kind, []).append(column.name)
        return found

    def scaling(self) -> tuple[np.ndarray, np.ndarray]:
        """The shift and the scale of the numbers in each column of X: zeros and ones for all that are no numbers."""
        shifts, scales = np.zeros(self.n_features), np.ones(self.n_features)
        for column, first in zip(self.columns, self.offsets):
            if column.is_scaled:
                last = first + column.width
                shifts[first:last], scales[first:last] = column.scaling()
        return shifts, scales

    @cached_property
    def is_scaled(self) -> bool:
        """Whether some numbers are changed."""
        return any(column.is_scaled for column in self.columns)

    def unscaled(self) -> Encoding:
        """The same encoding with numbers as they are in the table."""
        return replace(self, columns=[replace(column, shift=0.0, scale=1.0) for column in self.columns])

    def wanted(self, labels: bool = True) -> list[str]:
        """Columns of the table that are read; without `labels` (rows to predict), neither label nor weight."""
        extra = [name for name in (self.label, self.weight) if name is not None]
        return self.needed() + (extra if labels else [])

    def needed(self) -> list[str]:
        """Columns that record batches must have for prediction: all but label and weight."""
        return [column.name for column in self.columns]

    def features(self) -> dict[str, Column]:
        """The `Column` of every column that a table must have for prediction; those parsed together share one."""
        number = Column("", "number")
        found = {} if self.together is None else dict.fromkeys(self.together.values, number)
        return found | {column.name: column for column in self.columns if column.kind != "numbers"}

    def encode(self, batch: Any, place: BatchPlace) -> Part:
        """Encode the rows of a record batch."""
        unseen: dict[str, int] = {}
        pieces = list(self._pieces(batch, place, unseen))
        with np.errstate(over="ignore"):  # float32 infinities are found, and named, by the check after reading
            X = self._fill_sparse(pieces, len(batch)) if self.sparse else self._fill_dense(pieces, len(batch))
            if self.texts:
                words = [terms.rows_of(batch.column(column.name), column.name, place) for column, terms in self.texts]
                X = beside([X, *words], self.n_features)
        y = weights = None
        if self.label is not None and self.label in batch.schema.names:
            y = encode_label(batch.column(self.label), self, place)
        if self.weight is not None and self.weight in batch.schema.names:
            weights = encode_weight(batch.column(self.weight), self.weight, place)
        return Part(X, y, weights, unseen)

    def _pieces(self, batch: Any, place: BatchPlace, unseen: dict[str, int]) -> Iterator[tuple[Any, np.ndarray]]:
        """Pairs (column of X, values of all rows); the column is one number, a slice, or one number per row."""
        for column, first in zip(self.columns, self.offsets):
            if column.kind != "text":
                yield from self.pieces_of(column, first, batch.column(column.name), place, unseen)

    def pieces_of(
        self, column: Column, first: int, cells: Any, place: BatchPlace, unseen: dict[str, int]
    ) -> Iterator[tuple[Any, np.ndarray]]:
        """Such pairs for one column, all but text. `first` is the first column of X that it makes."""
        if column.kind == "date":
            seconds, gaps = dates.as_seconds(cells, column.name, place)
            if gaps.any():
                self._note_missing(gaps, column, place, unseen)
            yield from dates.pieces_of(seconds, gaps, column, first)
        elif column.kind == "numbers":
            yield slice(first, first + column.width), self._matrix(cells, column, place, unseen)
        elif column.kind != "category":
            numbers, gaps = self._numbers(cells, column, place, unseen)
            yield first, numbers
            if column.indicator:
                yield first + 1, gaps
        elif self.hashes or column.width:
            yield self._category(cells, column, first, place, unseen)

    def _fill_dense(self, pieces: list[tuple[Any, np.ndarray]], n: int) -> np.ndarray:
        X = np.zeros((n, self.n_features), dtype=self.dtype)
        rows = np.arange(n)
        for where, values in pieces:
            X[rows if isinstance(where, np.ndarray) else slice(None), where] = values
        return X

    def _fill_sparse(self, pieces: list[tuple[Any, np.ndarray]], n: int) -> Any:
        where = np.empty((n, len(pieces)), dtype=np.int32)  # 2**bits and any vocabulary stay below 2**31
        values = np.empty((n, len(pieces)), dtype=self.dtype)
        for slot, (column, value) in enumerate(pieces):
            where[:, slot], values[:, slot] = column, value
        return csr_of_slots(where, values, self.n_features, merge=self.hashes)

    def _matrix(self, cells: Any, column: Column, place: BatchPlace, unseen: dict[str, int]) -> np.ndarray:
        matrix = matrix_of(cells)
        if np.isfinite(matrix).all():
            return matrix
        singles = _singles(column)
        matrix = matrix.copy()
        for at in np.flatnonzero((~np.isfinite(matrix)).any(axis=0)):
            matrix[:, at], _ = self._numbers(pa.array(matrix[:, at]), singles[at], place, unseen)
        return matrix

    def _numbers(self, cells: Any, column: Column, place: BatchPlace, unseen: dict[str, int]) -> tuple[Any, Any]:
        numbers = as_float(cells, column.name, place)
        gaps = ~np.isfinite(numbers)
        if gaps.any():
            if (infinite := np.isinf(numbers)).any():
                value = numbers[int(infinite.argmax())]
                where = f"{place.at(infinite)}, column {column.name!r}"
                raise DataError(f"{where} is {value}: only finite numbers can be used")
            self._note_missing(gaps, column, place, unseen)
            numbers = np.where(gaps, column.fill, numbers)
        return (numbers - column.shift) / column.scale if column.is_scaled else numbers, gaps

    def _category(self, cells: Any, column: Column, first: int, place: BatchPlace, unseen: dict[str, int]) -> Any:
        codes, texts = as_codes(cells, column.name, place, self.na)
        gaps = codes < 0
        if self.hashes:
            from lineal.data.tables.hashing import hash_strings

            keys = pc.binary_join_element_wise(
                pa.scalar(column.name, pa.large_string()), texts, pa.scalar("=", pa.large_string())
            )
            absent = pa.array([f"{column.name} is missing"], pa.large_string())
            found = self.offsets[-1] + hash_strings(pa.concat_arrays([keys, absent]), self.bits)
        else:
            rest = len(column.values) if column.other else -1  # the column of all other categories
            found = pc.index_in(texts, value_set=column.vocabulary).fill_null(rest).to_numpy(zero_copy_only=False)
            found = np.append(found.astype(np.int64), len(column.values) + column.other)
        if gaps.any():
            self._note_missing(gaps, column, place, unseen)
        at = found[codes]  # a missing cell has code -1, which is the last entry
        filled = (at >= 0) & (~gaps | column.indicator)
        if strangers := int(np.count_nonzero(at < 0)):
            unseen[column.name] = unseen.get(column.name, 0) + strangers
        base = 0 if self.hashes else first
        return np.where(filled, base + at, base), filled

    def _note_missing(self, gaps: np.ndarray, column: Column, place: BatchPlace, unseen: dict[str, int]) -> None:
        if self.missing == "error":
            raise missing_cell(column.name, place.at(gaps), "training saw none: to allow them, train with")
        if self.missing == "indicator" and not column.indicator:  # nothing was missing in this column in training
            unseen[column.name] = unseen.get(column.name, 0) + int(gaps.sum())


def _singles(column: Column) -> list[Column]:
    """A `Column` for each of the columns of numbers that are parsed together."""
    fills = column.fills or [0.0] * len(column.values)
    return [Column(name, "number", fill=fill) for name, fill in zip(column.values, fills)]


def _values(one: Encoding | Column) -> dict[str, Any]:
    """The fields as a dict, without copies."""
    return {name: getattr(one, name) for name in one.__dataclass_fields__}


def without_unused(schema: Schema, columns: np.ndarray) -> Schema:
    """The schema of a table for these columns of X only: source columns that make none of them are left out.

    Of hashed categories and text all columns stay if one of theirs is used: they can be in any hashed column. One
    source column always stays, because rows are counted by it.
    """
    old = Encoding.of_schema(schema).single
    starts, ends = np.array(old.offsets[:-1], np.int64), np.array(old.offsets[1:], np.int64)
    is_used = np.searchsorted(columns, ends) > np.searchsorted(columns, starts)
    if len(columns) and columns[-1] >= old.offsets[-1]:
        is_used |= [old._is_at_the_end(column) for column in old.columns]
    if len(is_used) and not is_used.any():
        is_used[0] = True
    new = replace(old, columns=[column for column, used in zip(old.columns, is_used) if used])
    shift = np.array(new.offsets[:-1], np.int64) - starts[is_used]
    owner = np.searchsorted(ends[is_used], columns, side="right")
    shifts = np.append(shift, new.offsets[-1] - old.offsets[-1])  # hashed columns come after those of the numbers
    numbers = (columns + shifts[owner]).tolist()
    made = new.schema()
    return made if len(numbers) == made.n_features else replace(made, columns=numbers)
