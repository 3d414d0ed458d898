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
    """All measures that the model and the labels of the data allow, in plain values. Every row counts equally."""
    if model.is_number:
        return metrics.numbers(data.y, _scores(model, data)[:, 0])
    if model.is_multilabel != data.is_multilabel:
        one, sets = "one label per row", "label sets"
        has, wants = (sets, one) if data.is_multilabel else (one, sets)
        raise DataError(f"the data has {has}, but the model was trained on {wants}")
    y = _aligned(data, model.classes) if model.is_multilabel else data.y
    scores = _scores(model, data)
    probabilities = model.probabilities_of(scores) if model.has_probabilities else None
    if model.is_multilabel:
        return metrics.label_sets(y, scores, probabilities, model.classes, model.labels_of)
    return metrics.single_label(y, scores, probabilities, model.classes)


def accuracy_on(model: Predictor, paths: Any) -> float:
    """Share of the rows of files that are predicted right, with all of their labels; in bounded memory."""
    right, rows = 0.0, 0
    for block in model.read_blocks(paths, labels=True):
        share, n = _exact(model, block) if model.is_multilabel else _Headline(model)(block)[1:]
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

    Rows of a source are scored where they are.
    """
    step = _Headline(model)
    parts = [step(data)] if isinstance(data, Dataset) else [part for _, part in data.survey(step)]
    rows = sum(n for _, _, n in parts)
    name = next((name for name, _, n in parts if n), "")
    return name, sum(total for _, total, _ in parts) / rows, rows


@dataclass(frozen=True)
class _Headline:
    """Step of `Source.survey`: name of the measure, its sum over the rows, and the number of rows."""

    model: Predictor

    def __call__(self, rows: RawRows | Dataset) -> tuple[str, float, int]:
        # In batches, because the scores of all rows and many classes would not fit in memory.
        name, total, start = "", 0.0, 0
        for batch in self.model.batches(rows.X):
            stop = start + batch.shape[0]
            if stop > start:
                name, value = metrics.headline(rows.y[start:stop], self.model.scores(batch), self.model.classes)
                total, start = total + value * batch.shape[0], stop
        return name, total, start


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
