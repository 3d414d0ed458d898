"""`Dataset`: rows, labels and weights with their names, as every reader returns it and every command takes it."""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import Any

import numpy as np
from scipy import sparse

from lineal.core.row_sparse import pick_columns
from lineal.errors import DataError


@dataclass(frozen=True)
class Schema:
    """How records became columns, so that a later file is encoded exactly as the training file was.

    It is stored in model files as JSON: `settings` holds only JSON values. Each reader documents its own.

    Attributes
    ----------
    format : the reader's name ("svmlight", "vw", "table", "array", "arrow").
    n_features : number of columns that the reader makes.
    settings : whatever the reader needs to do the same again (index base, hash bits, vocabularies, label column).
    columns : those of them that become columns of X, ascending, for a model that uses no others; None for all.
    """

    format: str
    n_features: int
    settings: dict[str, Any] = field(default_factory=dict)
    columns: list[int] | None = None

    @property
    def width(self) -> int:
        """Number of columns of X."""
        return self.n_features if self.columns is None else len(self.columns)

    def takes(self, width: int) -> bool:
        """Whether rows with so many columns can be used: all that the reader makes, or just those that are wanted."""
        return width in (self.n_features, self.width)

    def picked(self, columns: np.ndarray) -> Schema:
        """The same for the given columns of X, ascending; a table may then lack columns of which nothing is used."""
        numbers = columns if self.columns is None else np.asarray(self.columns, np.int64)[columns]
        if self.format != "table":
            return replace(self, columns=numbers.tolist())
        from lineal.data.tables.encode import without_unused

        return without_unused(self, numbers)

    def to_json(self) -> dict[str, Any]:
        """Plain JSON values."""
        values = {"format": self.format, "n_features": self.n_features, "settings": self.settings}
        return values if self.columns is None else {**values, "columns": self.columns}

    @staticmethod
    def from_json(values: dict[str, Any]) -> Schema:
        """Inverse of `to_json`. What was stored may be damaged: it is checked."""
        try:
            schema = Schema(values["format"], values["n_features"], dict(values["settings"]), values.get("columns"))
        except (KeyError, TypeError, ValueError) as error:
            raise DataError(f"the stored schema is damaged: {error}") from None
        return schema.checked()

    def checked(self) -> Schema:
        """This schema; a DataError names the first setting that no reader could have stored."""
        if not isinstance(self.format, str) or self.format not in CHECKS:
            raise DataError(f"the stored schema is damaged: its format is {self.format!r}")
        d = self.n_features
        if not _is_whole(d) or d < 0:
            raise DataError(f"the stored schema is damaged: n_features is {d!r}")
        if self.columns is not None and not _are_columns(self.columns, d):
            raise DataError(f"the stored schema is damaged: its columns are not ascending numbers below {d}")
        wrong = CHECKS[self.format](self)
        if wrong is not None:
            shown = repr(self.settings.get(wrong))
            shown = shown if len(shown) <= 60 else shown[:60] + "…"
            raise DataError(f"the stored schema is damaged: {wrong} of a {self.format} schema is {shown}")
        return self


def _is_whole(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _are_columns(values: Any, n_features: int) -> bool:
    if not isinstance(values, list) or not all(map(_is_whole, values)):
        return False
    return all(a < b for a, b in pairwise([-1, *values, n_features]))


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and abs(value) <= sys.float_info.max


def _is_texts(values: Any) -> bool:
    return isinstance(values, list) and all(isinstance(value, str) for value in values)


def _wrong_labels(settings: dict[str, Any]) -> str | None:
    """The setting that is wrong about the labels of text, if one is."""
    if settings.get("labels", "int") not in ("int", "uint", "float", "multi", "none"):
        return "labels"
    names = settings.get("class_names")
    if names is None:
        return "class_names" if settings.get("labels") == "multi" else None
    numbers = isinstance(names, list) and all(map(_is_number, names))
    return None if numbers and all(a < b for a, b in pairwise(names)) else "class_names"


def _wrong_svmlight(schema: Schema) -> str | None:
    base, bits = schema.settings.get("index_base"), schema.settings.get("bits", 1)
    if "bits" in schema.settings and (not _is_whole(bits) or not 1 <= bits <= 30 or schema.n_features != 1 << bits):
        return "bits"
    return "index_base" if not _is_whole(base) or base not in (0, 1) else _wrong_labels(schema.settings)


def _wrong_vw(schema: Schema) -> str | None:
    bits = schema.settings.get("bits")
    if not isinstance(bits, int) or not 1 <= bits <= 30 or schema.n_features != 1 << bits:
        return "bits"
    return _wrong_labels(schema.settings)


def _wrong_table(schema: Schema) -> str | None:
    settings = schema.settings
    columns = settings.get("columns")
    if not isinstance(columns, list) or not all(map(_is_column, columns)):
        return "columns"
    tests: dict[str, Callable[[Any], bool]] = {
        "label": lambda value: value is None or isinstance(value, str),
        "weight": lambda value: value is None or isinstance(value, str),
        "label_kind": lambda value: value in (None, "integer", "unsigned", "number", "boolean", "string", "list"),
        "class_names": _is_labels,
        "missing": lambda value: value in ("error", "zero", "mean", "indicator"),
        "categorical": lambda value: value in ("onehot", "hash"),
        "bits": lambda value: _is_whole(value) and 1 <= value <= 30,
        "dtype": lambda value: value in ("float32", "float64"),
        "header": lambda value: value is None or isinstance(value, bool),
        "header_chosen": lambda value: isinstance(value, str),
        "names": _is_texts,
        "density": _is_number,
    }
    return next((name for name, test in tests.items() if name in settings and not test(settings[name])), None)


def _is_labels(values: Any) -> bool:
    """Whether these can name the classes of label sets: texts, or numbers."""
    return values is None or _is_texts(values) or (isinstance(values, list) and all(map(_is_class_number, values)))


def _is_class_number(value: Any) -> bool:
    return isinstance(value, bool) or _is_number(value)


def _is_column(column: Any) -> bool:
    return (
        isinstance(column, dict)
        and isinstance(column.get("name"), str)
        and column.get("kind") in ("number", "boolean", "category", "numbers")
        and _is_texts(column.get("values", []))
        and _is_number(column.get("fill", 0.0))
        and isinstance(column.get("indicator", False), bool)
    )


#: For each format, what finds the name of a setting that cannot be.
CHECKS: dict[str, Callable[[Schema], str | None]] = {
    "svmlight": _wrong_svmlight,
    "vw": _wrong_vw,
    "table": _wrong_table,
    "array": lambda schema: None,
    "arrow": lambda schema: None,
}


@dataclass(frozen=True)
class Dataset:
    """Examples with their labels.

    Attributes
    ----------
    X : (n, d) float32 or float64; a C- or F-ordered ndarray, or a `scipy.sparse.csr_array` (int32 or int64 indices).
        Read-only memory maps are welcome; nothing downstream writes to it or copies it.
    y : labels: (n,) of integers, floats, booleans or strings; for multi-label data an (n, k) boolean csr_array whose
        columns are `class_names`; None where the file has no labels.
    weights : (n,) float64 example weights, or None for all ones.
    feature_names : d strings, or None.
    class_names : k strings or numbers for multi-label y; None otherwise (the classes are the values of y).
    query_ids : (n,) int64 from svmlight's ``qid:``, or None.
    schema : how the columns were made, or None for arrays given in memory.
    bad_lines : number of malformed lines that were skipped.
    kinds : (entries of X,) uint8: the place, from 1, of each entry's namespace among those that a stream was asked
        for, 0 for any other; None where nobody asked.
    """

    X: Any
    y: Any = None
    weights: np.ndarray | None = None
    feature_names: list[str] | None = None
    class_names: list[Any] | None = None
    query_ids: np.ndarray | None = None
    schema: Schema | None = None
    bad_lines: int = 0
    kinds: np.ndarray | None = None

    def __len__(self) -> int:
        return int(self.X.shape[0])

    @property
    def is_multilabel(self) -> bool:
        """Whether an example can have several labels."""
        return self.y is not None and self.y.ndim == 2

    def in_columns_of(self, schema: Schema | None) -> Dataset:
        """The columns that a schema wants, of all that its reader made; a Dataset of just those is left as it is."""
        if schema is None or schema.columns is None:
            return self
        unseen = {} if self.schema is None else self.schema.settings.get("unseen", {})
        if unseen:
            schema = replace(schema, settings={**schema.settings, "unseen": unseen})
        if self.X.shape[1] == schema.width:
            return replace(self, schema=schema)
        columns = np.asarray(schema.columns, np.int64)
        names = None if self.feature_names is None else [self.feature_names[j] for j in columns.tolist()]
        return replace(self, X=pick_columns(self.X, columns), schema=schema, feature_names=names)

    def take(self, rows: np.ndarray | slice) -> Dataset:
        """The given rows, with their labels and weights."""

        def pick(values: Any) -> Any:
            return None if values is None else values[rows]

        kinds = None
        if self.kinds is not None:
            kinds = csr_of_parts(self.kinds, self.X.indices, self.X.indptr, self.X.shape)[rows].data
        return Dataset(
            self.X[rows], pick(self.y), pick(self.weights), self.feature_names, self.class_names,
            pick(self.query_ids), self.schema, self.bad_lines, kinds,
        )  # fmt: skip


def csr_of_parts(data: np.ndarray, indices: np.ndarray, indptr: np.ndarray, shape: tuple[int, int]) -> Any:
    """A csr_array over the given arrays exactly: no copy, no index downcast, no pass over the contents.

    SciPy's own constructor scans int64 indices and copies them to int32 where they fit, which would read a whole
    memory-mapped file.
    """
    matrix = sparse.csr_array(shape, dtype=data.dtype)
    matrix.data, matrix.indices, matrix.indptr = data, indices, indptr
    return matrix
