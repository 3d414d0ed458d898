"""`Dataset`: rows, labels and weights with their names, as every reader returns them and every command takes them."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from scipy import sparse

from lineal.core.row_sparse import pick_columns
from lineal.data.schema import Schema
from lineal.errors import DataError

#: Number of values that are checked at a time.
CHECK_STEP = 1 << 20


@dataclass(frozen=True)
class Dataset:
    """Rows with their labels, weights and names, as every reader returns them.

    Attributes
    ----------
    X : (n, d) float32 or float64; a C- or F-ordered ndarray, or a `scipy.sparse.csr_array` (int32 or int64 indices).
        It may be a read-only memory map: nothing writes to it or copies it.
    y : labels, (n,) integers, floats, booleans or strings; for multi-label data an (n, k) boolean csr_array whose
        columns are `class_names`; None if the file has no labels.
    weights : (n,) float64 weights of the rows, or None for all ones.
    feature_names : d strings, or None.
    class_names : k strings or numbers for multi-label y; None otherwise (the classes are the values of y).
    query_ids : (n,) int64 from svmlight's ``qid:``, or None.
    schema : how the columns were made, or None for arrays given in memory.
    bad_lines : number of malformed lines that were skipped.
    kinds : (entries of X,) uint8, for streams with namespaces: the place of each entry's namespace in the requested
        list, from 1, and 0 for any other; else None.
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
        """Whether a row can have several labels."""
        return self.y is not None and self.y.ndim == 2

    def in_columns_of(self, schema: Schema | None) -> Dataset:
        """The data with just the columns that a schema keeps; the data itself if it has no others."""
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
        """The data of the given rows."""

        def pick(values: Any) -> Any:
            return None if values is None else values[rows]

        kinds = None
        if self.kinds is not None:
            kinds = csr_of_parts(self.kinds, self.X.indices, self.X.indptr, self.X.shape)[rows].data
        return Dataset(
            self.X[rows], pick(self.y), pick(self.weights), self.feature_names, self.class_names,
            pick(self.query_ids), self.schema, self.bad_lines, kinds,
        )  # fmt: skip


def labels_by_text(classes: np.ndarray) -> dict[str, Any]:
    """Distinct labels by the texts that stand for them: for 2.0, both "2.0" and "2"."""
    labels = {str(label): label for label in classes.tolist()}
    return labels | {f"{label:g}": label for label in labels.values() if isinstance(label, float)}


def csr_of_parts(data: np.ndarray, indices: np.ndarray, indptr: np.ndarray, shape: tuple[int, int]) -> Any:
    """A csr_array over exactly the given arrays: no copy, no narrower index type, no pass over the contents.

    SciPy's constructor scans int64 indices and copies them to int32 where they fit, which would read all of a
    memory-mapped file.
    """
    matrix = sparse.csr_array(shape, dtype=data.dtype)
    matrix.data, matrix.indices, matrix.indptr = data, indices, indptr
    return matrix


def indicator_matrix(rows: np.ndarray, columns: np.ndarray, shape: tuple[int, int]) -> Any:
    """Label sets as a boolean csr_array with ones at the given rows and columns; repeated ones count once."""
    y = sparse.csr_array((np.ones(len(rows), dtype=bool), (rows, columns)), shape=shape, dtype=bool)
    y.sum_duplicates()
    return y


def check_finite(X: Any, feature_names: list[str] | None = None, first_row: int = 0, name: str | None = None) -> None:
    """Raise a DataError that names the row and the column of the first NaN or infinity.

    Rows are counted from `first_row`; `name` is the file. No boolean array of the size of X is made.
    """
    if sparse.issparse(X):
        for start in range(0, len(X.data), CHECK_STEP):
            bad = ~np.isfinite(X.data[start : start + CHECK_STEP])
            if bad.any():
                entry = start + int(bad.argmax())
                row = int(np.searchsorted(X.indptr, entry, side="right")) - 1
                raise _not_finite(X.data[entry], row + first_row, int(X.indices[entry]), feature_names, name)
        return
    rows = max(1, CHECK_STEP // max(1, X.shape[1]))
    for start in range(0, X.shape[0], rows):
        bad = ~np.isfinite(X[start : start + rows])
        if bad.any():
            row, column = divmod(int(bad.argmax()), X.shape[1])
            raise _not_finite(X[start + row, column], start + row + first_row, column, feature_names, name)


def _not_finite(value: Any, row: int, column: int, feature_names: list[str] | None, name: str | None) -> DataError:
    shown = f"column {column}" if feature_names is None else f"column {feature_names[column]!r}"
    prefix = "" if name is None else f"{name}: "
    return DataError(f"{prefix}row {row} (counted from 0), {shown} is {value}: only finite numbers can be used")
