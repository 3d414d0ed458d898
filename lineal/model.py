"""A trained linear model: scores, labels, probabilities; files that appear whole and load without running code."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from scipy import sparse

from lineal import thresholds as label_cuts
from lineal.data.dataset import Schema
from lineal.errors import DataError, OptionError
from lineal.row_sparse import Weights, live, pick_columns, product
from lineal.solution import Certificate

#: Rows scored at a time: bounds the memory of predictions by this many rows of scores.
CHUNK_ROWS = 16_384

#: Losses whose scores have probabilities, and how: the files in `losses/` say so too (a test compares them), but naming
#: them here lets a model predict without importing Numba.
LINKS = {"logistic": "logistic", "softmax": "softmax"}


@dataclass(frozen=True)
class Model:
    """Weights with the meaning of their rows and columns. Immutable, hence safe to share between threads.

    Attributes
    ----------
    weights : (d, k): an ndarray, or a `RowSparse` where most features have no weight for any class. It is taken by
        NumPy's functions as an array would be; `np.asarray(weights)` is a dense one.
    intercept : (k,).
    classes : the labels; two of them with k = 1 for binary problems, else one a column.
    loss : name of the loss it was trained with; it decides how scores become labels and probabilities.
    is_multilabel : whether rows have label sets.
    calibration : slopes that make probabilities of the scores (see `lineal.calibration`): (1,), or (k,) for label sets;
        None for losses that have probabilities of their own, and where none were asked for.
    thresholds : where label sets begin (see `lineal.thresholds`): (k,) cuts, (k + 1,) learned; None for zero.
    feature_names : d strings or None.
    schema : how the training file became columns, so that other files are read the same way; None for arrays.
    options : what it was trained with.
    certificate : how good it is.
    status : how its training ended.

    Memory: d·k + k numbers, or k numbers and 8 bytes a used feature with `RowSparse` weights. Predictions add
    CHUNK_ROWS·k numbers, CHUNK_ROWS times the used features with such weights, and CHUNK_ROWS·d where dense rows must
    be converted to the precision of the weights; CSC matrices and DataFrames are converted whole.
    """

    weights: Weights
    intercept: np.ndarray
    classes: np.ndarray
    loss: str
    is_multilabel: bool = False
    calibration: np.ndarray | None = None
    thresholds: np.ndarray | None = None
    feature_names: list[str] | None = None
    schema: Schema | None = None
    options: dict[str, Any] = field(default_factory=dict)
    certificate: Certificate | None = None
    status: str = ""

    @property
    def n_features(self) -> int:
        """d."""
        return int(self.weights.shape[0])

    @property
    def used_features(self) -> np.ndarray:
        """Numbers of the columns of X with a weight that is not zero, ascending."""
        return live(self.weights)[0]

    @property
    def is_binary(self) -> bool:
        """Two classes, told apart by one score."""
        return len(self.classes) == 2 and not self.is_multilabel

    def decision_function(self, X: Any) -> np.ndarray:
        """Scores: (n,) for two classes (positive means the second), else (n, k). X as for `predict`."""
        return self._collect(X, lambda scores: scores)

    def predict(self, X: Any) -> np.ndarray:
        """Labels (n,), or for label sets an (n, k) array of 0 and 1.

        X is an array, a SciPy sparse matrix, a DataFrame, or the path of a file, which is read block by block.
        """
        return self._collect(X, self.labels_of)

    def predict_proba(self, X: Any) -> np.ndarray:
        """Probabilities (n, number of classes), a column a label for label sets; the likeliest class is `predict`'s.

        For losses that have probabilities, and for others where they were calibrated at fit time.
        """
        self.check_probabilities()
        return self._collect(X, self.probabilities_of)

    def check_probabilities(self) -> None:
        """Refuse a loss whose scores are no probabilities, and were not calibrated to be."""
        if not self.has_probabilities:
            raise OptionError(
                f"loss {self.loss!r} gives scores, not probabilities: train with probability=True, or with the loss "
                "'logistic' or 'softmax'"
            )

    @property
    def has_probabilities(self) -> bool:
        """Whether scores become probabilities: by nature or by calibration."""
        return self.loss in LINKS or self.calibration is not None

    # --- from scores

    def labels_of(self, scores: np.ndarray) -> np.ndarray:
        """What `predict` gives for these scores."""
        if self.is_multilabel:
            return label_cuts.label_sets(self.thresholds, scores).astype(np.int64)
        if self.is_binary:
            return self.classes[(scores > 0.0).astype(np.intp)]
        return self.classes[np.argmax(scores, axis=1)]

    def probabilities_of(self, scores: np.ndarray) -> np.ndarray:
        """What `predict_proba` gives for these scores."""
        wide = scores.astype(np.float64)
        slopes = 1.0 if self.calibration is None else self.calibration
        if self.is_binary or self.is_multilabel:
            positive = _sigmoid(slopes * wide)
            # A score too small to move ½ in this precision still decides.
            positive = np.where((wide > 0.0) & (positive <= 0.5), np.nextafter(0.5, 1.0), positive)
            return positive if self.is_multilabel else np.stack([_sigmoid(-slopes * wide), positive], axis=1)
        if LINKS.get(self.loss) == "logistic":
            raised = np.maximum(_sigmoid(wide), np.finfo(np.float64).tiny)  # a row that all classes refuse
        else:
            raised = np.exp(slopes * (wide - wide.max(axis=1, keepdims=True)))
        return _with_largest(raised / raised.sum(axis=1, keepdims=True), np.argmax(wide, axis=1))

    # --- over any kind of rows

    def batches(self, X: Any) -> Iterator[Any]:
        """The rows of X, in matrices of at most CHUNK_ROWS rows."""
        if isinstance(X, str | os.PathLike):
            from lineal.data.read import read_blocks

            schema = self.schema or Schema("array", self.n_features)
            for block in read_blocks(X, schema=schema, labels=False):
                yield from self._cut(block.X)
        else:
            yield from self._cut(self.as_matrix(X))

    def scores(self, X: Any, first_row: int = 0) -> np.ndarray:
        """Scores of a matrix, all at once; `first_row` is its number in whatever it was cut from, for messages."""
        if X.shape[1] != self.n_features:
            raise DataError(f"X has {X.shape[1]} features, the model knows {self.n_features}")
        with np.errstate(over="ignore", invalid="ignore"):
            scores = product(X, self.weights) + self.intercept
        if not np.isfinite(scores).all():
            row = first_row + int(np.flatnonzero(~np.isfinite(scores).all(axis=1))[0])
            raise DataError(f"row {row} of X has NaN, infinite or too large values")
        if self.is_binary:
            return scores[:, 0] if scores.shape[1] == 1 else scores[:, 1] - scores[:, 0]
        return scores

    def as_matrix(self, X: Any) -> Any:
        """A matrix of numbers; the columns of a DataFrame are picked by name, one row may come as a vector."""
        if hasattr(X, "columns") and hasattr(X, "to_numpy"):
            return self._from_frame(X)
        if sparse.issparse(X) and X.ndim == 2:
            return X if X.format == "csr" else X.tocsr()
        try:
            X = np.asarray(X)
        except ValueError:
            raise DataError("X is no matrix: its rows have different lengths") from None
        if X.ndim == 1 and len(X) == self.n_features:
            X = X[None, :]
        if X.ndim != 2:
            raise DataError(f"X must have two dimensions, found {X.ndim}")
        if X.dtype.kind not in "fiub":
            raise DataError(f"X must hold real numbers, found {X.dtype}")
        return X

    def _from_frame(self, frame: Any) -> Any:
        if self.schema is not None and self.schema.format == "table":
            from lineal.data.readers.table import encode_frame

            return _needed(encode_frame(frame, self.schema), self.schema)
        names = self.feature_names
        if names is None:
            return self._numbers(frame)
        absent = sorted(set(names) - set(frame.columns))
        if absent:
            raise DataError(f"the table lacks {len(absent)} of the model's columns: {', '.join(map(repr, absent[:5]))}")
        return self._numbers(frame[names])

    def _numbers(self, frame: Any) -> np.ndarray:
        try:
            return np.asarray(frame.to_numpy(), dtype=self.weights.dtype)
        except (TypeError, ValueError) as error:
            raise DataError(f"the table has columns that are no numbers ({error})") from None

    def _cut(self, X: Any) -> Iterator[Any]:
        for start in range(0, max(X.shape[0], 1), CHUNK_ROWS):
            part = X if X.shape[0] <= CHUNK_ROWS else X[start : start + CHUNK_ROWS]
            yield part if part.dtype.kind == "f" else part.astype(self.weights.dtype)

    def _collect(self, X: Any, view: Any) -> np.ndarray:
        parts, row = [], 0
        for batch in self.batches(X):
            parts.append(view(self.scores(batch, row)))
            row += batch.shape[0]
        return parts[0] if len(parts) == 1 else np.concatenate(parts)

    # --- smaller, and on disk

    def compact(self) -> tuple[Model, np.ndarray]:
        """The same model of the features that it uses, and their columns in the X that this model takes.

        The small model scores ``X[:, columns]`` as this one scores X; all other features need not be extracted any
        more. Names follow, so that a DataFrame needs only the named columns. A model that reads files still reads
        those that this one reads, and picks the columns by itself; a table may leave out the columns of which nothing
        is used, and an array file all columns but the needed ones.
        """
        columns, values = live(self.weights)
        names = None if self.feature_names is None else [self.feature_names[j] for j in columns.tolist()]
        schema = None if self.schema is None else self.schema.picked(columns)
        return replace(self, weights=np.ascontiguousarray(values), feature_names=names, schema=schema), columns

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the model to a file; the file appears whole or not at all."""
        from lineal.model_file import save

        save(self, path)


def load(path: str | os.PathLike[str]) -> Model:
    """Read a model that `Model.save` wrote. Runs no code from the file."""
    from lineal.model_file import load

    return load(path)


def _needed(X: Any, schema: Schema) -> Any:
    """Of the columns that the schema makes, those that the model takes."""
    return X if schema.columns is None else pick_columns(X, np.asarray(schema.columns, np.int64))


def _with_largest(P: np.ndarray, best: np.ndarray) -> np.ndarray:
    """P with the class `best` of every row the first of its largest: scores may differ where probabilities round."""
    rows = np.flatnonzero(np.argmax(P, axis=1) != best)
    P[rows, best[rows]] = np.nextafter(P[rows].max(axis=1), np.inf)
    return P


def _sigmoid(z: np.ndarray) -> np.ndarray:
    e = np.exp(-np.abs(z))
    return np.where(z >= 0.0, 1.0, e) / (1.0 + e)
