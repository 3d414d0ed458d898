"""Evaluation of a model on labelled rows: all measures that its loss and the labels allow, or the main one."""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy import sparse

from lineal.data.dataset import Dataset
from lineal.errors import DataError
from lineal.models import metrics
from lineal.models.predictor import Predictor

if TYPE_CHECKING:
    from lineal.engine.source import RawRows, Source


def evaluate(model: Predictor, data: Dataset) -> dict[str, Any]:
    """All measures that the model and the labels of the data allow, in plain values.

    Rows count by their weights, if they have any; a row of weight 0 does not count at all.
    """
    data = with_weight(data)
    weights = None if data.weights is None else np.asarray(data.weights, np.float64)
    if model.is_number:
        return metrics.numbers(data.y, _scores(model, data)[:, 0], weights)
    if model.is_multilabel != data.is_multilabel:
        one, sets = "one label per row", "label sets"
        has, wants = (sets, one) if data.is_multilabel else (one, sets)
        raise DataError(f"the data has {has}, but the model was trained on {wants}")
    y = _aligned(data, model.classes) if model.is_multilabel else data.y
    scores = _scores(model, data)
    probabilities = model.probabilities_of(scores) if model.has_probabilities else None
    if model.is_multilabel:
        return metrics.label_sets(y, scores, probabilities, model.classes, model.labels_of, weights)
    return metrics.single_label(y, scores, probabilities, model.classes, weights, model.class_numbers_of)


def with_weight(data: Dataset) -> Dataset:
    """The rows that count: those with a positive weight; an error if there are none."""
    if data.weights is None or (data.weights > 0.0).all():
        return data
    if (data.weights < 0.0).any():
        row = int(np.flatnonzero(data.weights < 0.0)[0])
        raise DataError(f"the weight of row {row} is {data.weights[row]:g}: weights must not be negative")
    counts = np.flatnonzero(data.weights > 0.0)
    if not len(counts):
        raise DataError("the weights of all rows are 0: there is nothing to measure")
    return data.take(counts)


#: Measures that summaries show, of label sets, of numbers, and of one label per row.
SUMMARY = (
    "subset_accuracy",
    "micro_f1",
    "macro_f1",
    "precision_at_1",
    "mean_squared_error",
    "mean_absolute_error",
    "r2",
)
SUMMARY_OF_CLASSES = ("accuracy", "roc_auc", "log_loss", "macro_f1")

#: Number of scores up to which a summary has all of its measures: those of all rows are needed at once.
SUMMARY_SCORES = 1 << 25


def summary_of(model: Predictor, data: Dataset) -> tuple[dict[str, Any], int]:
    """The measures that matter for this kind of problem, and the number of rows; of very many scores the main one."""
    if len(data) * len(model.classes) > SUMMARY_SCORES:
        name, value, rows = headline_of(model, data)
        return {name: value}, rows
    found = evaluate(model, data)
    names = SUMMARY if model.is_multilabel or model.is_number else SUMMARY_OF_CLASSES
    return {name: found[name] for name in names if found.get(name) is not None}, found["rows"]


def accuracy_on(model: Predictor, paths: Any) -> float:
    """Share of the rows of files that are predicted right, with all of their labels; in bounded memory."""
    right, rows = 0.0, 0.0
    for block in model.read_blocks(paths, labels=True):
        share, n = _exact(model, block) if model.is_multilabel else _Headline(model, False)(block)[1:3]
        right, rows = right + share, rows + n
    if rows == 0:
        raise DataError("there are no rows to score")
    return right / rows


def _exact(model: Predictor, data: Dataset) -> tuple[int, int]:
    """Number of rows whose label sets are predicted exactly, and number of rows."""
    Y, right, start = _aligned(data, model.classes), 0, 0
    for batch in model.batches_of(data):
        stop = start + batch.shape[0]
        right += int((model.labels_of(model.scores(batch)) == Y[start:stop].toarray()).all(axis=1).sum())
        start = stop
    return right, start


def headline_of(model: Predictor, data: Dataset | Source) -> tuple[str, float, int]:
    """Name and value of the main measure (accuracy, or precision at 1 for label sets), and the number of rows.

    Rows of a source are scored where they are. Rows count by their weights, if they have any.
    """
    step = _Headline(model)
    parts = [step(data)] if isinstance(data, Dataset) else [part for _, part in data.survey(step)]
    rows, weight = sum(part[3] for part in parts), sum(part[2] for part in parts)
    if rows and not weight > 0.0:
        raise DataError("the weights of all rows are 0: there is nothing to measure")
    name = next((part[0] for part in parts if part[2] > 0.0), "")
    return name, sum(part[1] for part in parts) / weight, rows


@dataclass(frozen=True)
class _Headline:
    """Step of `Source.survey`: name of the measure, its sum over the rows, the sum of weights, number of rows."""

    model: Predictor
    is_weighted: bool = True

    def __call__(self, rows: RawRows | Dataset) -> tuple[str, float, float, int]:
        # In batches, because the scores of all rows and many classes would not fit in memory.
        name, total, weight, start = "", 0.0, 0.0, 0
        counts = rows.weights if self.is_weighted else None
        for batch in self.model.batches(rows.X):
            stop = start + batch.shape[0]
            if stop > start:
                some = None if counts is None else np.asarray(counts[start:stop], np.float64)
                here = float(stop - start if some is None else some.sum())
                if here > 0.0:
                    y = rows.y[start:stop]
                    scores, decide = self.model.scores(batch), self.model.class_numbers_of
                    name, value = metrics.headline(y, scores, self.model.classes, some, decide)
                    total, weight = total + value * here, weight + here
                start = stop
        return name, total, weight, start


def _scores(model: Predictor, data: Dataset) -> np.ndarray:
    return np.concatenate([model.scores(batch) for batch in model.batches_of(data)])


def _aligned(data: Dataset, classes: np.ndarray) -> Any:
    """The label sets with the columns of a model: a file may have its labels in another order, or other labels."""
    names = classes.tolist()
    if list(data.class_names or names) == names:
        return data.y
    entries = data.y.tocoo()
    columns = metrics.class_numbers(np.asarray(data.class_names), classes)[entries.col]
    known = columns >= 0
    if not known.all():
        unknown = int((~known).sum())
        warnings.warn(f"{unknown} labels of the rows are unknown to the model and left out", stacklevel=3)
    cells = (entries.data[known], (entries.row[known], columns[known]))
    return sparse.csr_array(cells, shape=(len(data), len(names)))
