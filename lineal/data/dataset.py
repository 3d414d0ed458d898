"""`Dataset`: rows, labels and weights with their names, as every reader returns it and every command takes it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from scipy import sparse


@dataclass(frozen=True)
class Schema:
    """How records became columns, so that a later file is encoded exactly as the training file was.

    It is stored in model files as JSON: `settings` holds only JSON values. Each reader documents its own.

    Attributes
    ----------
    format : the reader's name ("svmlight", "vw", "table", "array", "arrow").
    n_features : number of columns of X.
    settings : whatever the reader needs to do the same again (index base, hash bits, vocabularies, label column).
    """

    format: str
    n_features: int
    settings: dict[str, Any] = field(default_factory=dict)

    def to_json(self) -> dict[str, Any]:
        """Plain JSON values."""
        return {"format": self.format, "n_features": self.n_features, "settings": self.settings}

    @staticmethod
    def from_json(values: dict[str, Any]) -> Schema:
        """Inverse of `to_json`."""
        return Schema(str(values["format"]), int(values["n_features"]), dict(values["settings"]))


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
    """

    X: Any
    y: Any = None
    weights: np.ndarray | None = None
    feature_names: list[str] | None = None
    class_names: list[Any] | None = None
    query_ids: np.ndarray | None = None
    schema: Schema | None = None
    bad_lines: int = 0

    def __len__(self) -> int:
        return int(self.X.shape[0])

    @property
    def is_multilabel(self) -> bool:
        """Whether an example can have several labels."""
        return self.y is not None and self.y.ndim == 2

    def take(self, rows: np.ndarray | slice) -> Dataset:
        """The given rows, with their labels and weights."""

        def pick(values: Any) -> Any:
            return None if values is None else values[rows]

        return Dataset(
            self.X[rows], pick(self.y), pick(self.weights), self.feature_names, self.class_names,
            pick(self.query_ids), self.schema, self.bad_lines,
        )  # fmt: skip


def csr_of_parts(data: np.ndarray, indices: np.ndarray, indptr: np.ndarray, shape: tuple[int, int]) -> Any:
    """A csr_array over the given arrays exactly: no copy, no index downcast, no pass over the contents.

    SciPy's own constructor scans int64 indices and copies them to int32 where they fit, which would read a whole
    memory-mapped file.
    """
    matrix = sparse.csr_array(shape, dtype=data.dtype)
    matrix.data, matrix.indices, matrix.indptr = data, indices, indptr
    return matrix
