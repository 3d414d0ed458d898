"""Weighted measures on held-out rows: those of `lineal.models.metrics` that can choose a model.

Rows are scored where they are, and only those that are held out. Most measures are sums over rows. The areas under
curves need the scores of all held-out rows at once. Memory: CHUNK_ROWS rows of X and their scores per block, and for
the areas all scores of a fold.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol

import numpy as np

from lineal.design.matrix import unwrapped
from lineal.design.products import matmul
from lineal.engine.base import Block, Engine
from lineal.engine.state import Piece
from lineal.errors import DataError, OptionError
from lineal.linear import decisions
from lineal.linear.model import LINKS, Model
from lineal.linear.search.names import (
    BEFORE_THRESHOLDS,
    LABEL_SETS,
    LESS_IS_BETTER,
    NEED_PROBABILITIES,
    NEED_THRESHOLD,
    ONE_LABEL,
)  # fmt: skip
from lineal.linear.thresholds import HELD_OUT
from lineal.models.predictor import CHUNK_ROWS
from lineal.problem.targets import Encoded, true_labels


class Scorer(Protocol):
    """Measures models on held-out rows."""

    @property
    def name(self) -> str:
        """Name of the measure."""
        ...

    @property
    def greater_is_better(self) -> bool:
        """Whether larger values are better."""
        ...

    def __call__(self, model: Model, rows: np.ndarray) -> float:
        """Measure of a model on the rows with these indices; a repeated row counts twice."""
        ...


def default(threshold: str) -> str:
    """Accuracy (for label sets: that of whole sets), or a measure of the order where thresholds are learnt."""
    if threshold == "zero":
        return "accuracy"
    return BEFORE_THRESHOLDS[threshold not in decisions.RULES]


@dataclass(frozen=True)
class HeldOut:
    """Scores models on rows of an engine by one measure, which is checked before any fit."""

    name: str
    engine: Engine
    encoded: Encoded
    loss: str
    sample_weight: np.ndarray | None = None
    threshold: str = "zero"

    def __post_init__(self) -> None:
        sets = self.encoded.is_multilabel
        able = LABEL_SETS if sets else ONE_LABEL
        what = "label sets" if sets else "one label per row"
        if self.name not in able:
            raise OptionError(f"scoring={self.name!r} does not apply to {what}: use one of {', '.join(able)}")
        if self.name in NEED_PROBABILITIES and self.loss not in LINKS:
            raise OptionError(f"scoring={self.name!r} needs probabilities, and loss {self.loss!r} has none")
        if self.threshold in HELD_OUT and self.name in NEED_THRESHOLD:
            raise OptionError(
                f"scoring={self.name!r} measures label sets, and threshold={self.threshold!r} is chosen after the "
                "search: use a measure of the order as precision_at_1, or threshold 'zero' or 'learned'"
            )
        if self.threshold in decisions.RULES and self.name in NEED_THRESHOLD:
            raise OptionError(
                f"scoring={self.name!r} measures predictions, and the threshold is chosen after the search: use a "
                "measure of scores or probabilities, as roc_auc, pr_auc or log_loss, or no threshold"
            )
        if self.name.startswith("precision_at_") and int(self.name[13:]) > len(self.encoded.classes):
            raise OptionError(f"scoring={self.name!r} needs as many labels: there are {len(self.encoded.classes)}")

    @property
    def greater_is_better(self) -> bool:
        """Whether larger values are better."""
        return self.name not in LESS_IS_BETTER

    def __call__(self, model: Model, rows: np.ndarray) -> float:
        """Measure of the model on these rows; a repeated row counts twice."""
        counts = np.bincount(rows, minlength=self.engine.shape[0])
        weights = counts.astype(np.float64) if self.sample_weight is None else self.sample_weight * counts
        total = float(weights.sum())
        if not total > 0.0:
            raise DataError("the held-out rows of a fold have no weight: nothing can be measured on them")
        states = self.engine.cut(counts > 0), self.engine.cut(weights)
        if self.name in _AREAS:
            return _area(self.name, self.engine.gather(_all_scores, model, states=states), model)
        if self.name in _F1:
            hits, predicted, true = self.engine.sum(_label_counts, model, states=states)
            return _F1[self.name](hits, predicted, true, self.encoded.is_multilabel)
        (value,) = self.engine.sum(_WeightedSum(self.name), model, states=states)
        return float(value) / total


# --- scores, where the rows are


class _Scored(NamedTuple):
    """Labels, scores as of `Model.scores`, and weights of some rows."""

    truth: Any
    scores: np.ndarray
    weights: np.ndarray


def _scored(block: Block, chosen: Piece, weights: Piece, model: Model) -> Iterator[_Scored]:
    """The chosen rows of a block, at most CHUNK_ROWS at a time."""
    rows = np.flatnonzero(chosen["rows"])
    if not len(rows):
        return
    truth = true_labels(block.targets, len(model.intercept))
    for part, scores in _scores(block, rows, model):
        if block.offsets is not None:
            offsets = block.offsets[part]
            scores = scores + (_of_second(offsets) if scores.ndim == 1 else offsets)
        yield _Scored(truth[part], scores, weights["rows"][part])


def _scores(block: Block, rows: np.ndarray, model: Model) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Some of the rows, and their scores without offsets."""
    if not block.X.has_rows:  # no rows to pick: all scores, as its fits need too
        Z = matmul(block.X, np.asarray(model.weights), threads=block.threads)[rows] + model.intercept
        yield rows, _of_second(Z) if model.is_binary else Z
        return
    X = unwrapped(block.X)
    for start in range(0, len(rows), CHUNK_ROWS):
        part = rows[start : start + CHUNK_ROWS]
        yield part, model.scores(X[part], block.first)


def _of_second(Z: np.ndarray) -> np.ndarray:
    """Scores of the second class, from one column or two."""
    return Z[:, 0] if Z.shape[1] == 1 else Z[:, 1] - Z[:, 0]


# --- measures that are means over rows: from (labels, scores, model, name) to one value per row


def _accuracy(truth: Any, scores: np.ndarray, model: Model, name: str) -> np.ndarray:
    if model.is_multilabel:
        return (model.labels_of(scores) == truth.toarray()).all(axis=1).astype(np.float64)
    return (model.class_numbers_of(scores) == truth).astype(np.float64)


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


_ROW_VALUES: dict[str, Callable[..., np.ndarray]] = {
    "accuracy": _accuracy,
    "log_loss": _log_loss,
    "brier": _brier,
    "hamming_loss": _hamming,
    "precision_at_": _precision_at,
}


@dataclass(frozen=True)
class _WeightedSum:
    """Σ weight · value of the chosen rows, by a measure that is a mean over rows."""

    name: str

    def __call__(self, block: Block, chosen: Piece, weights: Piece, model: Model) -> tuple[float]:
        return (sum((self._of(part, model) for part in _scored(block, chosen, weights, model)), start=0.0),)

    def _of(self, part: _Scored, model: Model) -> float:
        if self.name.startswith("label_ranking"):
            return _ranking(self.name, part)
        return float(part.weights @ _ROW_VALUES[self.name.rstrip("135")](part.truth, part.scores, model, self.name))


def _ranking(name: str, part: _Scored) -> float:
    """Σ weight · value by one of scikit-learn's measures of an order of labels."""
    from sklearn import metrics

    weight = float(part.weights.sum())
    if weight == 0.0:
        return 0.0
    of = metrics.label_ranking_loss if name.endswith("loss") else metrics.label_ranking_average_precision_score
    return weight * float(of(part.truth.toarray(), part.scores, sample_weight=part.weights))


# --- F1: from the weights of right, predicted and true labels


def _label_counts(block: Block, chosen: Piece, weights: Piece, model: Model) -> tuple[np.ndarray, ...]:
    """Weight of the chosen rows for which each label is predicted and true, predicted, and true."""
    k = len(model.classes)
    counts = np.zeros((3, k))
    for truth, scores, row_weights in _scored(block, chosen, weights, model):
        if model.is_multilabel:
            known, guess = truth.toarray(), model.labels_of(scores).astype(bool)
            counts += [row_weights @ labels for labels in (known & guess, guess, known)]
        else:
            guess = model.class_numbers_of(scores)
            hits = np.where(guess == truth, row_weights, 0.0)
            for row, (labels, values) in enumerate(((truth, hits), (guess, row_weights), (truth, row_weights))):
                counts[row] += np.bincount(labels, values, minlength=k)
    return tuple(counts)


def _macro_f1(hits: np.ndarray, predicted: np.ndarray, true: np.ndarray, is_multilabel: bool) -> float:
    """Mean F1 of the labels; where rows have one label each, of those that occur in predictions or in truth."""
    sizes = predicted + true
    f1 = 2.0 * hits / np.where(sizes > 0.0, sizes, 1.0)
    return float(f1.mean() if is_multilabel else f1[sizes > 0.0].mean())


def _micro_f1(hits: np.ndarray, predicted: np.ndarray, true: np.ndarray, is_multilabel: bool) -> float:
    """F1 of all labels together; zero if there are none."""
    size = float(predicted.sum() + true.sum())
    return float(2.0 * hits.sum()) / size if size > 0.0 else 0.0


_F1 = {"macro_f1": _macro_f1, "micro_f1": _micro_f1}


# --- areas under curves: scikit-learn's, from all scores


_AREAS = ("roc_auc", "pr_auc")


def _all_scores(block: Block, chosen: Piece, weights: Piece, model: Model) -> list[_Scored]:
    """Scores of all chosen rows of a block, for `Engine.gather`."""
    return list(_scored(block, chosen, weights, model))


def _area(name: str, answers: list[list[_Scored]], model: Model) -> float:
    from sklearn import metrics

    parts = [part for answer in answers for part in answer]
    truth, scores, weights = (np.concatenate(column) for column in zip(*parts))
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
