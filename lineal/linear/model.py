"""A trained linear model: scores, labels, probabilities; files that appear whole and load without running code."""

from __future__ import annotations

import os
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from lineal import losses
from lineal.core.inputs import MAX_FEATURES
from lineal.core.row_sparse import RowSparse, Weights, live, product
from lineal.models.predictor import Predictor
from lineal.models.thresholds import check as check_thresholds
from lineal.numerics.links import probabilities, sigmoid

if TYPE_CHECKING:
    from lineal.data.tables.encode import Encoding

#: Losses whose scores have probabilities, and how: the files in `losses/` say so too (a test compares them), but naming
#: them here lets a model predict without importing Numba.
LINKS = {"logistic": "logistic", "softmax": "softmax"}

#: Format of files of models with thresholds for one label per row, which older versions would not apply.
DECISIONS_VERSION = 5

#: Numbers whose mean is more than so many standard deviations from 0 need the precision of float64.
FAR = 1000.0


@dataclass(frozen=True)
class Model(Predictor):
    """A linear model: weights with the meaning of their rows and columns.

    Attributes
    ----------
    weights : (d, k), an ndarray, or a `RowSparse` if most features have no weight for any class. NumPy functions treat
        a `RowSparse` like an array, and `np.asarray(weights)` converts it.
    intercept : (k,).
    classes : the labels; two of them with k = 1 for binary problems, else one per column.
    loss : name of the loss that the model was trained with; it determines how scores become labels and probabilities.
    is_multilabel : whether rows have label sets.
    calibration : factors that turn scores into probabilities (see `lineal.linear.calibration`): (1,), or (k,) for
        label sets; None for losses with built-in probabilities, and without `probability=True`.
    thresholds : what scores are compared with when they become labels (see `lineal.models.thresholds`); for label sets
        (k,), or (k + 1,) if they are learned; for two classes (1,); for more (k,); None for zero.
    feature_names : d strings or None.
    schema : how the training file became columns, so that other files are read in the same way; None for arrays.
    options : what the model was trained with.
    certificate : how far its objective can be from the minimum.
    status : how its training ended.
    solver : the solver that found it and, if that was chosen automatically, why.

    Memory: d·k + k numbers, or k numbers and 8 bytes per used feature with `RowSparse` weights. Predictions add
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

    kind = "linear"

    @property
    def n_features(self) -> int:
        """Number of features, d."""
        return int(self.weights.shape[0])

    @property
    def dtype(self) -> np.dtype[Any]:
        """Precision of the weights."""
        return self.weights.dtype

    @property
    def used_features(self) -> np.ndarray:
        """Numbers of the columns of X with a weight that is not zero, ascending."""
        return live(self.weights)[0]

    @property
    def has_probabilities(self) -> bool:
        """Whether scores become probabilities: by nature or by calibration."""
        return self.loss in LINKS or self.calibration is not None

    @property
    def why_no_probabilities(self) -> str:
        """Reason why the model has no probabilities, for messages."""
        return (
            f"loss {self.loss!r} gives scores, not probabilities: train with probability=True, or with the loss "
            "'logistic' or 'softmax'"
        )

    @property
    def coef_(self) -> np.ndarray:
        """Weights, one row per class, or one row for two classes. A dense copy if they are kept row-sparse."""
        W = np.asarray(self.weights)
        return (W[:, 1:] - W[:, :1]).T if self.is_binary and W.shape[1] == 2 else W.T

    @property
    def intercept_(self) -> np.ndarray:
        """Intercepts, one per class, or one for two classes."""
        b = self.intercept
        return b[1:] - b[:1] if self.is_binary and len(b) == 2 else b

    def raw_scores(self, X: Any) -> np.ndarray:
        """X'W + b of a matrix of n_features columns.

        An intercept that is more precise than the weights makes up for columns far from zero: their products must not
        be rounded before it is added.
        """
        if X.dtype.itemsize < self.intercept.dtype.itemsize and self.dtype != self.intercept.dtype:
            X = X.astype(self.intercept.dtype)
        return product(X, self.weights) + self.intercept

    def probabilities_of(self, scores: np.ndarray) -> np.ndarray:
        """What `predict_proba` gives for these scores."""
        slopes = 1.0 if self.calibration is None else self.calibration
        is_multiclass = not (self.is_binary or self.is_multilabel)
        P = probabilities(LINKS.get(self.loss, "softmax"), scores, is_multiclass, slopes)
        if not self.is_binary:
            return P
        return np.stack([sigmoid(-slopes * scores.astype(np.float64)), P], axis=1)

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

    def in_units_of(self, encoding: Encoding) -> Model:
        """The same model of rows that are encoded without the scaling of this encoding, which trained it.

        (x − shift) / scale · w is x · (w / scale) less a constant, which becomes part of the intercept. So files,
        tables and arrays are all given in the units of the table.
        """
        shifts, scales = encoding.scaling()
        W, dtype = self.weights, self.weights.dtype
        if (np.abs(shifts) > FAR * scales).any():  # float32 would lose what tells such numbers apart
            encoding, dtype = replace(encoding, dtype="float64"), np.dtype(np.float64)
        schema = encoding.unscaled().schema()
        rows, values = (W.rows, W.values) if isinstance(W, RowSparse) else (slice(None), W)
        exact = values.astype(np.float64) / scales[rows, None]
        intercept = self.intercept.astype(np.float64) - shifts[rows] @ exact
        with np.errstate(over="ignore", under="ignore"):
            values = exact.astype(dtype)
        weights = RowSparse(W.rows, values, W.shape) if isinstance(W, RowSparse) else values
        return replace(self, weights=weights, intercept=intercept, schema=schema)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the model to a file; the file appears whole or not at all."""
        from lineal.models.file import save

        save(self, path)

    def to_parts(self) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
        """What only linear models have, as JSON values and arrays (see `lineal.models.file`)."""
        W, is_picked = self.weights, self.schema is not None and self.schema.columns is not None
        is_sparse = isinstance(W, RowSparse)
        own: dict[str, Any] = {
            "format_version": self._format_version(is_sparse or is_picked),
            "loss": self.loss,
            "calibration": None if self.calibration is None else self.calibration.tolist(),
            "thresholds": None if self.thresholds is None else self.thresholds.tolist(),
        }
        if not isinstance(W, RowSparse):
            return own, {"weights": W, "intercept": self.intercept}
        return {**own, "n_features": self.n_features}, {
            "rows": W.rows, "weights": W.values, "intercept": self.intercept,
        }  # fmt: skip

    def _format_version(self, is_of_two: bool) -> int:
        """The oldest format of model files that can hold this model (see `lineal.models.file`)."""
        if self.thresholds is None:
            return 2 if is_of_two else 1
        return 2 if self.is_multilabel else DECISIONS_VERSION

    @staticmethod
    def from_parts(own: dict[str, Any], tensors: dict[str, np.ndarray], common: dict[str, Any]) -> Model:
        """Inverse of `to_parts`; a ValueError says what does not fit."""
        if sorted(tensors) not in (["intercept", "weights"], ["intercept", "rows", "weights"]):
            raise ValueError(f"it should hold weights and intercept, not {sorted(tensors)}")
        weights, intercept = _weights(own, tensors), tensors["intercept"]
        classes, is_multilabel = common["classes"], common["is_multilabel"]
        if own["loss"] not in losses.names():
            raise ValueError(f"unknown loss {own['loss']!r}")
        slopes = own.get("calibration")  # absent from files before 0.2, whose readers find scores without probabilities
        calibration: np.ndarray | None = None if slopes is None else np.array(slopes, np.float64)
        if calibration is not None and not (
            calibration.shape == (len(classes) if is_multilabel else 1,)
            and np.isfinite(calibration).all()
            and (calibration > 0.0).all()
        ):
            raise ValueError("the slopes of the probabilities do not fit the classes")
        cuts = own.get("thresholds")
        if cuts is not None and not is_multilabel and own["format_version"] != DECISIONS_VERSION:
            raise ValueError("thresholds are for label sets in this format")
        thresholds = None if cuts is None else check_thresholds(np.array(cuts, np.float64), len(classes), is_multilabel)
        columns = {len(classes)} if is_multilabel or len(classes) != 2 else {1, 2}
        if (
            weights.ndim != 2
            or weights.dtype not in (np.float32, np.float64)
            or intercept.shape != (weights.shape[1],)
            or weights.shape[1] not in columns
            or not (np.isfinite(tensors["weights"]).all() and np.isfinite(intercept).all())
        ):
            raise ValueError("weights, classes and names do not fit each other")
        return Model(
            weights=weights,
            intercept=intercept,
            loss=str(own["loss"]),
            calibration=calibration,
            thresholds=thresholds,
            **common,
        )


def _weights(values: dict[str, Any], tensors: dict[str, np.ndarray]) -> Weights:
    """The weights, dense or row-sparse as they were stored; a ValueError if the parts do not fit."""
    stored, rows = tensors["weights"], tensors.get("rows")
    if (rows is None) != ("n_features" not in values) or (rows is not None and values["format_version"] < 2):
        raise ValueError("rows and the number of features belong together")
    if rows is None:
        return stored
    d = values["n_features"]
    if type(d) is not int or not 0 <= d <= MAX_FEATURES or stored.ndim != 2:
        raise ValueError(f"{d!r} is no number of features")
    if rows.dtype != np.int64:
        raise ValueError(f"rows are of type {rows.dtype}, not int64")
    return RowSparse(rows, stored, (d, stored.shape[1]))
