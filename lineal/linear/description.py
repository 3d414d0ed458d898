"""Description of a linear model as plain values: its shape, its certificate, and the features that it uses."""

from __future__ import annotations

from typing import Any

import numpy as np

from lineal.core.row_sparse import RowSparse, live
from lineal.linear.model import Model


def describe(model: Model, top: int) -> dict[str, Any]:
    """Description of a model, with the `top` largest weights of each class."""
    used, W = live(model.weights)
    return {
        "features": model.n_features,
        "classes": model.classes.tolist(),
        "loss": model.loss,
        "is_multilabel": model.is_multilabel,
        "calibration": None if model.calibration is None else model.calibration.tolist(),
        "thresholds": None if model.thresholds is None else model.thresholds.tolist(),
        "dtype": str(W.dtype),
        "nonzero": {"weights": int(np.count_nonzero(W)), "features": len(used)},
        "weights_kept": "by row" if isinstance(model.weights, RowSparse) else "dense",
        "status": model.status,
        "solver": model.solver,
        "certificate": None if model.certificate is None else model.certificate.to_json(),
        "options": model.options,
        "schema": None if model.schema is None else {"format": model.schema.format},
        "intercept": model.intercept.tolist(),
        "top_features": heaviest_features(model, top),
    }


def heaviest_features(model: Model, top: int) -> list[dict[str, Any]]:
    """For each class (of two, the second) the features with the largest weights; zero weights are left out."""
    columns, W, classes = _by_class(model)
    found = []
    for label, weights in zip(classes, W.T):
        sizes = np.abs(weights)
        best = np.argpartition(-sizes, min(top, len(sizes) - 1))[:top] if len(sizes) else np.empty(0, np.int64)
        best = best[np.argsort(-sizes[best], kind="stable")]
        named = [_entry(model, int(columns[j]), weight=float(weights[j])) for j in best if weights[j]]
        found.append({"class": label, "features": named})
    return found


def used_features(model: Model) -> dict[str, Any]:
    """All features that the model uses, with the norms of their weights, largest first; and those of each class."""
    columns, W, _ = _by_class(model)
    norms, counts = np.sqrt((W.astype(np.float64) ** 2).sum(axis=1)), np.count_nonzero(W, axis=1)
    order = np.argsort(-norms, kind="stable")
    overall = [_entry(model, int(columns[j]), norm=float(norms[j]), classes=int(counts[j])) for j in order]
    return {"selected": overall, "selected_by_class": heaviest_features(model, len(columns))}


def feature_name(model: Model, column: int) -> str:
    """The name of a feature or, without names, its column in the files that the model reads."""
    if model.feature_names is not None:
        return model.feature_names[column]
    kept = None if model.schema is None else model.schema.columns
    return f"column {column if kept is None else kept[column]}"


def _by_class(model: Model) -> tuple[np.ndarray, np.ndarray, list[Any]]:
    """Columns in use, their weights (number of columns, number of classes), and the classes: of two, the second."""
    columns, W = live(model.weights)
    classes = model.classes.tolist()
    if model.is_binary:
        W, classes = (W if W.shape[1] == 1 else W[:, 1:] - W[:, :1]), classes[1:]
    return columns, W, classes


def _entry(model: Model, column: int, **values: Any) -> dict[str, Any]:
    return {"column": column, "name": feature_name(model, column), **values}
