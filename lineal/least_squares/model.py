"""Model of calibrated least squares, which repeats the iterations of its training on new rows."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import Any

import numpy as np

from lineal.core.row_sparse import product
from lineal.models.predictor import Predictor, score_columns
from lineal.numerics.basis import NAMED, Function, name_of
from lineal.numerics.links import with_largest
from lineal.numerics.projections import PROJECTIONS
from lineal.solvers.calibrated import replay


@dataclass(frozen=True)
class CalibratedModel(Predictor):
    """Weights and calibration maps of T iterations; predictions are in the simplex, or in the cube for label sets.

    Attributes
    ----------
    weights, intercepts, maps : (T, d, k), (T, k) and (T, mk, k).
    basis : m calibration functions.
    onto : "simplex" or "cube", where predictions are projected to.
    classes, is_multilabel, feature_names, schema, options, certificate, status : as for `Model`.

    Memory: T·(d + mk + 1)·k numbers; predictions add CHUNK_ROWS·T·k.
    """

    weights: np.ndarray
    intercepts: np.ndarray
    maps: np.ndarray
    basis: tuple[Function, ...]
    onto: str
    classes: np.ndarray
    is_multilabel: bool = False

    kind = "calibrated"

    @property
    def n_features(self) -> int:
        """Number of features, d."""
        return int(self.weights.shape[1])

    @property
    def dtype(self) -> np.dtype[Any]:
        """Precision of the weights."""
        return self.weights.dtype

    @property
    def has_probabilities(self) -> bool:
        """Whether predictions are probabilities: they estimate E[y | x]."""
        return True

    def summary(self) -> dict[str, Any]:
        """Facts about this kind of model, as plain values."""
        names = [name_of(function) or "user-defined" for function in self.basis]
        return {"iterations": len(self.weights), "calibration": names, "weights": int(self.weights.size)}

    def raw_scores(self, X: Any) -> np.ndarray:
        """Predictions (n, k), minus ½ if columns are independent, so that zero is the decision boundary."""
        T, d, k = self.weights.shape
        flat = np.ascontiguousarray(self.weights.transpose(1, 0, 2)).reshape(d, T * k)
        XW = product(X, flat).reshape(-1, T, k)
        P = replay(XW, self.intercepts, self.maps, self.basis, self.onto)
        return P - P.dtype.type(0.5) if self.onto == "cube" else P

    def probabilities_of(self, scores: np.ndarray) -> np.ndarray:
        """Probabilities for these scores; the method can predict exactly zero and one."""
        wide = scores.astype(np.float64)
        if self.is_multilabel:
            return wide + 0.5
        if self.is_binary:
            return np.stack([0.5 - wide, 0.5 + wide], axis=1)
        return with_largest(wide / wide.sum(axis=1, keepdims=True), np.argmax(wide, axis=1))

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the model to a file atomically; raises an error for user-defined functions."""
        from lineal.models.file import save

        save(self, path)

    # --- on disk

    def to_parts(self) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
        """JSON values and tensors that only this kind of model has."""
        names = [name_of(function) for function in self.basis]
        if None in names:
            raise ValueError(f"calibration functions other than {', '.join(NAMED)} cannot be stored")
        tensors = {"weights": self.weights, "intercepts": self.intercepts, "maps": self.maps}
        return {"basis": names, "onto": self.onto}, tensors

    @staticmethod
    def from_parts(values: dict[str, Any], tensors: dict[str, np.ndarray], common: dict[str, Any]) -> CalibratedModel:
        """Inverse of `to_parts`; raises a ValueError if the parts do not fit."""
        W, b, V = (tensors[name] for name in ("weights", "intercepts", "maps"))
        basis = tuple(NAMED[name] for name in values["basis"])
        k = score_columns(common["classes"], common["is_multilabel"])
        if (
            W.ndim != 3
            or W.shape[2] != k
            or len(W) < 1
            or b.shape != (len(W), k)
            or V.shape != (len(W), len(basis) * k, k)
            or len({array.dtype for array in (W, b, V)}) != 1
            or W.dtype not in (np.float32, np.float64)
            or values["onto"] != ("cube" if k == 1 or common["is_multilabel"] else "simplex")
            or values["onto"] not in PROJECTIONS
            or not all(np.isfinite(array).all() for array in (W, b, V))
        ):
            raise ValueError("weights, maps and classes do not fit each other")
        return CalibratedModel(W, b, V, basis, values["onto"], **common)
