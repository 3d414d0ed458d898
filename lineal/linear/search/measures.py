"""Scores of held-out rows: the measures of `lineal.models.metrics` that can choose a model, with weights of the rows.

Only held-out rows are scored, some at a time. Memory: CHUNK_ROWS rows of X and their scores; the areas, F1 and ranking
measures need the scores of all rows of a fold at once.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import sparse

from lineal.design import wrap
from lineal.design.products import matmul
from lineal.errors import DataError, OptionError
from lineal.linear.model import LINKS, Model
from lineal.linear.search.names import LABEL_SETS, NEED_PROBABILITIES, NEED_THRESHOLD, ONE_LABEL
from lineal.linear.thresholds import HELD_OUT
from lineal.models.metrics import predicted_numbers
from lineal.models.predictor import CHUNK_ROWS
from lineal.problem.targets import Encoded, indicator

#: Gives the score of a model on the rows of these numbers.
Scorer = Callable[[Model, np.ndarray], float]


def default(threshold: str) -> str:
    """Accuracy (for label sets: that of whole sets), or precision at 1 where thresholds are learnt from scores."""
    return "accuracy" if threshold == "zero" else "precision_at_1"


@dataclass(frozen=True)
class HeldOut:
    """Scores models on rows of X by one measure; checked on creation, so that it fails before the work."""

    name: str
    X: Any
    encoded: Encoded
    loss: str
    sample_weight: np.ndarray | None = None
    offsets: np.ndarray | None = None
    threshold: str = "zero"

    def __post_init__(self) -> None:
        sets = self.encoded.is_multilabel
        able = LABEL_SETS if sets else ONE_LABEL
        what = "label sets" if sets else "one label a row"
        if self.name not in able:
            raise OptionError(f"scoring={self.name!r} does not apply to {what}: use one of {', '.join(able)}")
        if self.name in NEED_PROBABILITIES and self.loss not in LINKS:
            raise OptionError(f"scoring={self.name!r} needs probabilities, and loss {self.loss!r} has none")
        if self.threshold in HELD_OUT and self.name in NEED_THRESHOLD:
            raise OptionError(
                f"scoring={self.name!r} measures label sets, and threshold={self.threshold!r} is chosen after the "
                "search: use a measure of the order as precision_at_1, or threshold 'zero' or 'learned'"
            )
        if self.name.startswith("precision_at_") and int(self.name[13:]) > len(self.encoded.classes):
            raise OptionError(f"scoring={self.name!r} needs as many labels: there are {len(self.encoded.classes)}")

    def __call__(self, model: Model, rows: np.ndarray) -> float:
        """The measure of the model on these rows."""
        weights = np.ones(len(rows)) if self.sample_weight is None else self.sample_weight[rows]
        total = float(weights.sum())
        if not total > 0.0:
            raise DataError("the held-out rows of a fold have no weight: nothing can be measured on them")
        truth, row_values = self._truth(), _ROW_VALUES.get(self.name.rstrip("135"))
        if row_values is not None:
            done, sum_ = 0, 0.0
            for scores in self._scores(model, rows):
                stop = done + len(scores)
                values = row_values(truth[rows[done:stop]], scores, model, self.name)
                sum_, done = sum_ + float(weights[done:stop] @ values), stop
            return sum_ / total
        scores = np.concatenate(list(self._scores(model, rows)))
        return _of_all(self.name, truth[rows], scores, model, weights)

    def _truth(self) -> np.ndarray | sparse.csr_array:
        """Class numbers, or an indicator matrix."""
        if not self.encoded.is_multilabel:
            return self.encoded.class_numbers
        return indicator(self.encoded)

    def _scores(self, model: Model, rows: np.ndarray) -> Iterator[np.ndarray]:
        if sparse.issparse(self.X) and self.X.format == "csc":  # no rows to pick: all scores, as its fits need too
            design = wrap(self.X)
            Z = matmul(design, np.asarray(model.weights))[rows] + model.intercept
            yield self._with_offsets(_of_second(Z) if model.is_binary else Z, rows)
            return
        for start in range(0, len(rows), CHUNK_ROWS):
            part = rows[start : start + CHUNK_ROWS]
            yield self._with_offsets(model.scores(self.X[part]), part)

    def _with_offsets(self, scores: np.ndarray, rows: np.ndarray) -> np.ndarray:
        if self.offsets is None:
            return scores
        offsets = self.offsets[rows]
        if scores.ndim == 1:
            offsets = _of_second(offsets)
        return scores + offsets


def _of_second(Z: np.ndarray) -> np.ndarray:
    """Scores of the second of two classes, from one column or two."""
    return Z[:, 0] if Z.shape[1] == 1 else Z[:, 1] - Z[:, 0]


# --- measures that are means over rows: (truth, scores, model, name) → one value a row


def _accuracy(truth: Any, scores: np.ndarray, model: Model, name: str) -> np.ndarray:
    if model.is_multilabel:
        return (model.labels_of(scores) == truth.toarray()).all(axis=1).astype(np.float64)
    return (predicted_numbers(scores) == truth).astype(np.float64)


def _log_loss(truth: Any, scores: np.ndarray, model: Model, name: str) -> np.ndarray:
    tiny = np.finfo(np.float64).eps
    p = np.clip(model.probabilities_of(scores), tiny, 1.0 - tiny)
    if model.is_multilabel:
        return -np.where(truth.toarray(), np.log(p), np.log1p(-p)).mean(axis=1)
    return -np.log(p[np.arange(len(truth)), truth])


def _brier(truth: Any, scores: np.ndarray, model: Model, name: str) -> np.ndarray:
    p = model.probabilities_of(scores)
    if model.is_multilabel:
        return ((p - truth.toarray()) ** 2).mean(axis=1)
    whole = (p**2).sum(axis=1) - 2.0 * p[np.arange(len(truth)), truth] + 1.0
    return whole / 2.0 if p.shape[1] == 2 else whole


def _hamming(truth: Any, scores: np.ndarray, model: Model, name: str) -> np.ndarray:
    return (model.labels_of(scores) != truth.toarray()).mean(axis=1)


def _precision_at(truth: Any, scores: np.ndarray, model: Model, name: str) -> np.ndarray:
    top = int(name[13:])
    best = np.argpartition(-scores, top - 1, axis=1)[:, :top]
    return np.take_along_axis(truth.toarray(), best, axis=1).mean(axis=1)


_ROW_VALUES = {
    "accuracy": _accuracy,
    "log_loss": _log_loss,
    "brier": _brier,
    "hamming_loss": _hamming,
    "precision_at_": _precision_at,
}


def _of_all(name: str, truth: Any, scores: np.ndarray, model: Model, weights: np.ndarray) -> float:
    """Measures that are no means over rows: scikit-learn's."""
    from sklearn import metrics

    if name.endswith("_f1"):
        return _f1(name.removesuffix("_f1"), truth, scores, model, weights)
    if name.startswith("label_ranking"):
        function = getattr(metrics, f"{name}_score" if name.endswith("precision") else name)
        return float(function(truth.toarray(), scores, sample_weight=weights))
    area = metrics.roc_auc_score if name == "roc_auc" else metrics.average_precision_score
    if scores.ndim == 1:
        sides = [(truth == 1, scores)]
    else:
        ranking = model.probabilities_of(scores) if model.loss in LINKS else scores
        sides = [(truth == r, ranking[:, r]) for r in range(len(model.classes))]
    sides = [(labels, values) for labels, values in sides if 0.0 < weights @ labels < weights.sum()]
    if not sides:
        raise DataError(f"scoring={name!r}: a held-out part has rows of one class only; use fewer folds")
    return float(np.mean([area(labels, values, sample_weight=weights) for labels, values in sides]))


def _f1(average: str, truth: Any, scores: np.ndarray, model: Model, weights: np.ndarray) -> float:
    from sklearn.metrics import f1_score

    if model.is_multilabel:
        known, guess, labels = truth.toarray(), model.labels_of(scores).astype(bool), None
        if known.shape[1] == 1:
            known, guess, average = known[:, 0], guess[:, 0], "binary"
    else:
        known, guess = truth, predicted_numbers(scores)
        labels = np.union1d(known[weights > 0.0], guess[weights > 0.0])
    return float(f1_score(known, guess, labels=labels, average=average, sample_weight=weights, zero_division=0.0))
