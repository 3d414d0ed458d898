"""`Predictor`, the base of all models: from the scores of any kind of rows to labels and probabilities."""

from __future__ import annotations

import abc
import math
import os
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import chain
from typing import Any

import numpy as np
from scipy import sparse

from lineal.core.inputs import Checked, check_frame, checked, checked_sparse, is_frame
from lineal.core.lazy_frames import refuse_lazy
from lineal.core.row_sparse import pick_columns
from lineal.data.dataset import Dataset
from lineal.data.schema import Schema
from lineal.data.source import is_path
from lineal.errors import DataError, OptionError
from lineal.models import thresholds as cuts
from lineal.problem.solution import Certificate

#: Rows scored at a time: bounds the memory of predictions by this many rows of scores.
CHUNK_ROWS = 16_384

#: Types of numbers that are not converted.
FLOATS = (np.dtype(np.float32), np.dtype(np.float64))


@dataclass(frozen=True, kw_only=True)
class TrainingRecord:
    """What every model keeps about the data and the fit that it comes from.

    Attributes
    ----------
    feature_names : d strings or None.
    schema : how the training file became columns, so that other files are read in the same way; None for arrays.
    options : what the model was trained with.
    certificate : how far its objective can be from the minimum.
    status : how its training ended.
    solver : the solver that found it and, if that was chosen automatically, why.
    """

    feature_names: list[str] | None = None
    schema: Schema | None = None
    options: dict[str, Any] = field(default_factory=dict)
    certificate: Certificate | None = None
    status: str = ""
    solver: str = ""


class Predictor(TrainingRecord, abc.ABC):
    """Base of the models. Immutable, hence safe to share between threads.

    Attributes
    ----------
    classes : the labels.
    is_multilabel : whether rows have label sets.
    is_number : whether the score is the prediction: a regression, without classes.
    thresholds : what scores are compared with when they become labels (see `lineal.models.thresholds`); None for zero.
    """

    classes: np.ndarray
    is_multilabel: bool = False
    is_number: bool = False
    thresholds: np.ndarray | None = None

    @property
    @abc.abstractmethod
    def n_features(self) -> int:
        """Number of features."""

    @property
    @abc.abstractmethod
    def dtype(self) -> np.dtype[Any]:
        """Precision of the weights."""

    @property
    @abc.abstractmethod
    def has_probabilities(self) -> bool:
        """Whether scores become probabilities."""

    @property
    def why_no_probabilities(self) -> str:
        """Reason why the model has no probabilities, for messages."""
        return "this model gives scores, not probabilities"

    @abc.abstractmethod
    def raw_scores(self, X: Any) -> np.ndarray:
        """Scores (n, columns) of a matrix with n_features columns."""

    @abc.abstractmethod
    def probabilities_of(self, scores: np.ndarray) -> np.ndarray:
        """Probabilities for these scores."""

    @property
    def is_binary(self) -> bool:
        """Whether there are two classes with one score."""
        return len(self.classes) == 2 and not self.is_multilabel

    def decision_function(self, X: Any) -> np.ndarray:
        """Scores: (n,) for two classes (positive means the second), else (n, k). X as for `predict`."""
        return self._collect(X, lambda scores: scores)

    @property
    def classes_(self) -> np.ndarray:
        """The labels, under the name that they have in scikit-learn."""
        return self.classes

    def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:
        """Accuracy; for label sets, the share of rows whose labels are all right."""
        found, truth = self.predict(X), y.toarray() if sparse.issparse(y) else np.asarray(checked(y, "y"))
        from lineal.problem.labels import check_present

        check_present(truth)
        if truth.shape != found.shape:
            raise DataError(f"y has the shape {truth.shape}, expected {found.shape}, as that of the predictions")
        right = (found == truth).all(axis=1) if found.ndim == 2 else found == truth
        if sample_weight is None:
            return float(np.mean(right))
        weights = np.asarray(checked(sample_weight, "sample_weight"), np.float64)
        if weights.shape != right.shape or not (np.isfinite(weights) & (weights >= 0.0)).all() or not weights.any():
            raise DataError(f"sample_weight must be {len(right)} finite numbers of at least 0, not all of them 0")
        return float(np.average(right, weights=weights))

    def predict(self, X: Any) -> np.ndarray:
        """Labels (n,), or for label sets an (n, k) array of 0 and 1.

        Thresholds that were chosen for a measure or for costs apply here, and wherever predictions are measured.

        X is an array, a SciPy sparse matrix, a DataFrame, a dict or a list of dicts, or a path, a glob, a folder of
        converted files or a list of these, which are read block by block.
        """
        return self._collect(X, self.labels_of)

    def predict_proba(self, X: Any) -> np.ndarray:
        """Probabilities (n, number of classes), one column per label for label sets.

        The likeliest class is the predicted one, unless the model has thresholds, which do not change probabilities.
        For losses that have probabilities, and for others where they were calibrated at fit time.
        """
        self.check_probabilities()
        return self._collect(X, self.probabilities_of)

    def check_probabilities(self) -> None:
        """Raise an error if the model has no probabilities."""
        if not self.has_probabilities:
            raise OptionError(self.why_no_probabilities)

    # --- from scores

    def labels_of(self, scores: np.ndarray) -> np.ndarray:
        """Labels for these scores."""
        if self.is_multilabel:
            return cuts.label_sets(self.thresholds, scores).astype(np.int64)
        return self.classes[self.class_numbers_of(scores)]

    def class_numbers_of(self, scores: np.ndarray) -> np.ndarray:
        """Positions in `classes` of the labels that these scores decide for, where rows have one label each."""
        return cuts.class_numbers(self.thresholds, scores)

    # --- over any kind of rows

    def read_blocks(self, path: Any, labels: bool = False, **reading: Any) -> Iterator[Any]:
        """The rows of a file for this model, without their labels unless they are wanted, as `Dataset` blocks."""
        from lineal.data.read import read_blocks

        return read_blocks(path, schema=self.schema or Schema("array", self.n_features), labels=labels, **reading)

    def read_labelled(self, path: Any, **reading: Any) -> Dataset:
        """All rows of a file for this model, with their labels."""
        from lineal.data.read import read

        return read(path, schema=self.schema or Schema("array", self.n_features), **reading)

    def batches_of(self, block: Any) -> Iterator[Any]:
        """The rows of a `Dataset`, in matrices of at most CHUNK_ROWS rows."""
        return self.batches(block.X)

    def batches(self, X: Any) -> Iterator[Any]:
        """The rows of X, in matrices of at most CHUNK_ROWS rows."""
        if not isinstance(X, np.ndarray) and isinstance(X, (str, os.PathLike, list, tuple)) and is_path(X):
            return chain.from_iterable(map(self.batches_of, self.read_blocks(X)))
        return self._cut(self.as_matrix(X))

    @np.errstate(over="ignore", invalid="ignore")
    def scores(self, X: Any, first_row: int = 0) -> np.ndarray:
        """Scores of a matrix, all at once; `first_row` is its number in whatever it was cut from, for messages."""
        if X.shape[1] != self.n_features:
            raise DataError(f"X has {X.shape[1]} features, the model knows {self.n_features}")
        scores = self.raw_scores(X)
        if self.is_binary:
            scores = scores[:, 0] if scores.shape[1] == 1 else scores[:, 1] - scores[:, 0]
        return finite_scores(scores, first_row)

    def as_matrix(self, X: Any) -> Any:
        """A matrix of numbers; the columns of a DataFrame are picked by name, one row may come as a vector."""
        is_checked = type(X) is Checked
        if is_checked:
            X = X.matrix
        if sparse.issparse(X):
            if not is_checked:
                X = checked_sparse(X, "X")
            if X.format != "csr":
                X = X.tocsr()
        elif not isinstance(X, np.ndarray) and _is_frame(X):
            return self._from_frame(X)
        elif isinstance(X, dict) or (isinstance(X, list) and X and isinstance(X[0], dict)):
            return self._from_records([X] if isinstance(X, dict) else X)
        else:
            try:
                X = np.asarray(checked(X, "X"))
            except ValueError as error:
                if isinstance(error, DataError):
                    raise
                raise DataError("X is not a matrix: its rows have different lengths") from None
            if X.ndim == 1 and len(X) == self.n_features:
                X = X[None, :]
            if X.ndim != 2:
                raise DataError(f"X must have two dimensions, found {X.ndim}")
        if X.dtype.kind not in "fiub":
            raise DataError(f"X must hold real numbers, found {X.dtype}")
        return X

    def _from_frame(self, frame: Any) -> Any:
        if self.schema is not None and self.schema.format == "table":
            from lineal.data.tables.reader import encode_frame

            return _needed(encode_frame(frame, self.schema), self.schema)
        if not hasattr(frame, "to_numpy"):  # an Arrow table, which NumPy does not understand
            import narwhals

            frame = narwhals.from_native(frame, eager_only=True)
        names = self.feature_names
        if names is None:
            return self._numbers(frame)
        columns = list(frame.columns)
        if columns == names:
            return self._numbers(frame)
        absent = sorted(set(names) - set(columns))
        if absent:
            raise DataError(f"the table lacks {len(absent)} of the model's columns: {', '.join(map(repr, absent[:5]))}")
        twice = next((name for name in names if columns.count(name) > 1), None)
        if twice is not None:
            raise DataError(f"the table has the column {twice!r} more than once: rename one of them")
        return self._numbers(frame[names])

    def _from_records(self, records: list[Any]) -> Any:
        """Rows of records: a dict of the columns of the table, or of the names of the features, for each row."""
        if odd := next((record for record in records if not isinstance(record, dict)), None):
            raise DataError(f"X mixes records and other rows: expected dicts only, found {type(odd).__name__}")
        if self.schema is not None and self.schema.format == "table":
            from lineal.data.tables.reader import encode_records

            return _needed(encode_records(records, self.schema), self.schema)
        names = self.feature_names
        if names is None:
            raise DataError("X is a dict, but the model does not know the names of its columns: give an array")
        for row, record in enumerate(records):
            if absent := [name for name in names if name not in record]:
                raise DataError(f"row {row} lacks {len(absent)} of the model's columns: {', '.join(absent[:5])}")
        try:
            return np.array([[float(record[name]) for name in names] for record in records])
        except (TypeError, ValueError) as error:
            raise DataError(f"X has values that are not numbers: {error}") from None

    def _numbers(self, frame: Any) -> np.ndarray:
        try:
            with np.errstate(over="ignore", invalid="ignore"):  # numbers that become infinite are refused as such
                return np.asarray(frame.to_numpy(), dtype=self.dtype)
        except (TypeError, ValueError, OverflowError) as error:
            check_frame(frame)
            raise DataError(f"the table has columns that are not numeric ({error})") from None

    def _cut(self, X: Any) -> Iterator[Any]:
        n = X.shape[0]
        if n <= CHUNK_ROWS:  # single rows are predicted in microseconds: not even a generator
            return iter((self._floats(X),))
        return (self._floats(X[start : start + CHUNK_ROWS]) for start in range(0, n, CHUNK_ROWS))

    def _floats(self, X: Any) -> Any:
        if X.dtype in FLOATS:
            return X
        with np.errstate(over="ignore", invalid="ignore"):  # numbers that become infinite are refused as such
            return X.astype(self.dtype)

    def _check_units(self) -> None:
        """Refuse a matrix if the model knows standardised numbers: nothing says whether those of the matrix are."""
        if self.schema is None or self.schema.format != "table":
            return
        from lineal.data.tables.encode import Encoding

        encoding = Encoding.of_schema(self.schema)
        if encoding.is_scaled:
            names = encoding.single.needed()
            columns = ", ".join(map(repr, names[:5])) + ", …" * (len(names) > 5)
            raise DataError(
                "X is a matrix, but this model was trained on the standardised numbers of a table: give a DataFrame, a "
                f"dict or a list of dicts with the columns {columns}, or the path of such a file, which it "
                "standardises itself; or train with scale='none'"
            )

    def _collect(self, X: Any, view: Any) -> np.ndarray:
        parts, row = [], 0
        is_list = isinstance(X, list | tuple) and not is_path(X) and not (X and isinstance(X[0], dict))
        if is_list or isinstance(X, np.ndarray) or sparse.issparse(X):
            self._check_units()
        for batch in self.batches(X):
            parts.append(view(self.scores(batch, row)))
            row += batch.shape[0]
        return parts[0] if len(parts) == 1 else np.concatenate(parts)


def finite_scores(scores: np.ndarray, first_row: int = 0) -> np.ndarray:
    """Return the scores; raises a DataError that names the first row whose scores are not finite."""
    if not _all_finite(scores):
        row = first_row + int(np.flatnonzero(~np.isfinite(scores.reshape(len(scores), -1)).all(axis=1))[0])
        raise DataError(f"row {row} of X has NaN, infinite or too large values")
    return scores


def _all_finite(values: np.ndarray) -> bool:
    """Whether all numbers are finite. Few numbers are tested one by one, which takes half of the time."""
    if values.size <= 32:
        return all(map(math.isfinite, values.ravel().tolist()))
    return bool(np.isfinite(values).all())


def _is_frame(X: Any) -> bool:
    refuse_lazy(X)
    return is_frame(X)


def _needed(X: Any, schema: Schema) -> Any:
    """The columns that the model uses, of those that the schema describes."""
    return X if schema.columns is None else pick_columns(X, np.asarray(schema.columns, np.int64))


def score_columns(classes: np.ndarray, is_multilabel: bool) -> int:
    """Number of score columns: one for two classes, else one per class."""
    return 1 if len(classes) == 2 and not is_multilabel else len(classes)
