"""Measures of scores and probabilities against labels, as plain dicts.

They are those of scikit-learn, whose import takes longer than most evaluations. A measure that the data do not
determine (the area under a curve with one class only) is None, and "notes" says why. With `weights`, which are
positive, every mean over rows is a weighted one, and counts are sums of weights; a row of weight 2 counts as two.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
from scipy import sparse

from lineal.models import thresholds
from lineal.models.ranking import areas

#: A confusion matrix is given up to this many classes.
MAX_CONFUSION = 30

#: Bins of the calibration error.
N_BINS = 15

#: Numbers of top labels that precision is measured at.
TOP = (1, 3, 5)

#: Scores of label sets that are sorted at a time.
CHUNK_SCORES = 1 << 20


def class_numbers(labels: np.ndarray, classes: np.ndarray) -> np.ndarray:
    """Position of each label in `classes`; −1 for labels that are not in it."""
    labels, classes = np.asarray(labels), np.asarray(classes)
    if (labels.dtype.kind in "USO") != (classes.dtype.kind in "USO"):  # NumPy would compare 1 with "1" as text
        return np.full(len(labels), -1)
    order = np.argsort(classes, kind="stable")
    places = np.minimum(np.searchsorted(classes[order], labels), len(classes) - 1)
    return np.where(classes[order][places] == labels, order[places], -1)


#: From scores to the numbers of the predicted classes: (n,) scores of the second of two classes, or (n, k).
Decision = Callable[[np.ndarray], np.ndarray]

#: The decision without thresholds.
LARGEST: Decision = partial(thresholds.class_numbers, None)


def headline(
    labels: Any,
    scores: np.ndarray,
    classes: np.ndarray,
    weights: np.ndarray | None = None,
    decide: Decision = LARGEST,
) -> tuple[str, float]:
    """The measure for summaries: accuracy, or precision at 1 for label sets. Does not need scikit-learn."""
    if np.ndim(labels) == 2:
        return "precision_at_1", precision_at(labels, scores, 1, weights)
    return "accuracy", _mean(class_numbers(labels, classes) == decide(scores), weights)


def _mean(values: np.ndarray, weights: np.ndarray | None) -> float:
    return float(np.mean(values) if weights is None else np.average(values, weights=weights))


def single_label(
    labels: np.ndarray,
    scores: np.ndarray,
    probabilities: np.ndarray | None,
    classes: np.ndarray,
    weights: np.ndarray | None = None,
    decide: Decision = LARGEST,
) -> dict[str, Any]:
    """Measures for one label per row.

    Parameters
    ----------
    labels : (n,) of the classes' type.
    scores : (n,) for two classes (positive means the second), else (n, k).
    probabilities : (n, k), or None if the model has none.
    classes : (k,) labels that the model knows. Rows with others count as wrong in accuracy and F1; the measures of
        probabilities and the areas leave them out.
    weights : (n,), or None if all rows count equally.
    decide : gives the predicted classes; by default those with the largest score.
    """
    truth, guess = class_numbers(labels, classes), decide(scores)
    known = truth >= 0
    result: dict[str, Any] = {"rows": len(truth), "accuracy": _mean(truth == guess, weights)}
    result |= _f1(truth, guess, len(classes), weights)
    notes = []
    if not known.all():
        count = int((~known).sum())
        notes.append(
            f"{count} {'row has a label' if count == 1 else 'rows have labels'} the model does not know: wrong in "
            "accuracy and F1, left out of the other measures"
        )
    truth, guess, scores = truth[known], guess[known], scores[known]
    weights = None if weights is None else weights[known]
    # Softmax orders the rows of a class otherwise than its scores do: the probabilities are what is used.
    ranking = scores if probabilities is None or scores.ndim == 1 else probabilities[known]
    areas, area_notes = _areas(truth, ranking, classes, weights)
    result |= areas
    if probabilities is not None and len(truth):
        result |= _of_probabilities(truth, guess, probabilities[known], weights)
    if len(classes) <= MAX_CONFUSION:
        result["confusion"] = confusion(truth, guess, classes, weights)
    return result | {"notes": notes + area_notes}


def _f1(truth: np.ndarray, guess: np.ndarray, k: int, weights: np.ndarray | None) -> dict[str, float]:
    """Macro and micro F1 of the classes that occur or are predicted; the truth of rows of unknown labels is −1."""

    def totals(numbers: np.ndarray, some: np.ndarray) -> np.ndarray:
        return np.bincount(numbers[some], None if weights is None else weights[some], minlength=k)

    hits, guessed, true = totals(guess, truth == guess), totals(guess, truth > -2), totals(truth, truth >= 0)
    seen = guessed + true > 0
    each = 2.0 * hits[seen] / (guessed + true)[seen]
    return {
        "macro_f1": float(each.mean()) if len(each) else 0.0,
        "micro_f1": float(2.0 * hits.sum() / max(guessed.sum() + true.sum(), 1e-300)),
    }


def confusion(
    truth: np.ndarray, guess: np.ndarray, classes: np.ndarray, weights: np.ndarray | None = None
) -> dict[str, Any]:
    """Counts, or sums of weights: one row per true class and one column per predicted class."""
    counts = np.zeros((len(classes), len(classes)), np.int64 if weights is None else np.float64)
    np.add.at(counts, (truth, guess), 1 if weights is None else weights)
    return {"labels": np.asarray(classes).tolist(), "matrix": counts.tolist()}


def _areas(
    truth: np.ndarray, ranking: np.ndarray, classes: np.ndarray, weights: np.ndarray | None
) -> tuple[dict[str, float | None], list[str]]:
    """ROC AUC and average precision: of the second of two classes, else the mean of one-vs-rest."""
    if ranking.ndim == 1:
        both = len(np.unique(truth)) == 2
        notes = [] if both else ["the rows have one class only: no ROC AUC and PR AUC"]
        return _mean_areas([(truth == 1, ranking)] if both else [], weights), notes
    counts = np.bincount(truth, minlength=len(classes))
    able = np.flatnonzero((counts > 0) & (counts < len(truth)))
    absent = len(classes) - len(able)
    notes = (
        [f"{absent} of {len(classes)} classes cannot be ranked in these rows: left out of the AUCs"] if absent else []
    )
    return _mean_areas([(truth == number, ranking[:, number]) for number in able], weights), notes


def _mean_areas(problems: list[tuple[np.ndarray, np.ndarray]], weights: np.ndarray | None) -> dict[str, float | None]:
    if not problems:
        return {"roc_auc": None, "pr_auc": None}
    roc, pr = np.mean([areas(truth, values, weights) for truth, values in problems], axis=0)
    return {"roc_auc": float(roc), "pr_auc": float(pr)}


def _of_probabilities(
    truth: np.ndarray, guess: np.ndarray, probabilities: np.ndarray, weights: np.ndarray | None
) -> dict[str, float]:
    rows = np.arange(len(truth))
    return {
        "log_loss": log_loss(probabilities[rows, truth], weights) if probabilities.shape[1] > 1 else 0.0,
        "brier": brier_score(truth, probabilities, weights),
        "calibration_error": calibration_error(probabilities[rows, guess], guess == truth, weights=weights),
    }


def log_loss(chances: np.ndarray, weights: np.ndarray | None = None) -> float:
    """Mean of −log p of what has happened; p is at least the precision of its type, so that the mean is finite."""
    least = np.finfo(chances.dtype).eps
    return -_mean(np.log(np.clip(chances, least, 1.0 - least)), weights)


def brier_score(truth: np.ndarray, probabilities: np.ndarray, weights: np.ndarray | None = None) -> float:
    """Mean of ‖p − e_y‖², the distance to the true class; halved for two classes, as is the custom."""
    squares = np.einsum("ij,ij->i", probabilities, probabilities)
    hits = probabilities[np.arange(len(truth)), truth]
    whole = _mean(squares - 2.0 * hits + 1.0, weights)
    return whole / 2.0 if probabilities.shape[1] == 2 else whole


def calibration_error(
    confidence: np.ndarray, correct: np.ndarray, n_bins: int = N_BINS, weights: np.ndarray | None = None
) -> float:
    """Expected calibration error: |accuracy − mean confidence| over equal-width bins (low, high], weighted by size.

    Guo, Pleiss, Sun & Weinberger, "On calibration of modern neural networks", ICML 2017, Eq. 3.
    """
    bins = np.clip(np.ceil(confidence * n_bins).astype(np.intp) - 1, 0, n_bins - 1)
    counts = np.ones(len(bins)) if weights is None else weights
    confidences = np.bincount(bins, confidence * counts, minlength=n_bins)
    hits = np.bincount(bins, correct * counts, minlength=n_bins)
    return float(np.abs(hits - confidences).sum() / counts.sum())


def label_sets(
    labels: Any,
    scores: np.ndarray,
    probabilities: np.ndarray | None,
    classes: np.ndarray,
    sets_of: Callable[[np.ndarray], np.ndarray] | None = None,
    weights: np.ndarray | None = None,
) -> dict[str, Any]:
    """Measures for label sets: `labels` is an (n, k) indicator matrix, `scores` and `probabilities` are (n, k).

    `sets_of` gives the label sets of some rows of scores; by default those above zero. Rows without labels: F1 of the
    row is 1 where none is predicted, else 0; ranking loss 0, average precision 1 and coverage 0, as for rows with
    nothing to order; precision 0; the one-error leaves them out. A label that no row has and that is never predicted
    has F1 0. Memory: rows are sorted in chunks.
    """
    n, k = scores.shape
    counts, rows = np.zeros((3, k)), []
    for start in range(0, n, max(1, CHUNK_SCORES // k)):
        some = slice(start, start + max(1, CHUNK_SCORES // k))
        truth = (labels[some].toarray() if sparse.issparse(labels) else np.asarray(labels[some])).astype(bool)
        guess = (scores[some] > 0.0) if sets_of is None else sets_of(scores[some]).astype(bool)
        counted = np.ones(len(truth)) if weights is None else weights[some]
        counts += [counted @ (truth & guess), counted @ guess, counted @ truth]
        rows.append(np.column_stack([_of_rows(truth, guess), _of_orders(truth, scores[some])]))
    found = np.concatenate(rows)
    means = dict(zip(_ROW_MEASURES, np.average(found, axis=0, weights=weights).tolist()))
    result: dict[str, Any] = {"rows": n} | {name: means[name] for name in ("subset_accuracy", "hamming_loss")}
    hits, guessed, true = counts
    result["macro_f1"] = float(np.mean(2.0 * hits / np.maximum(guessed + true, 1.0)))
    result["micro_f1"] = float(2.0 * hits.sum() / max(guessed.sum() + true.sum(), 1.0))
    result["example_f1"] = means["example_f1"]
    if k > 1:  # with a single label there is no order
        result |= {name: means[name] for name in _ORDER_MEASURES}
        has_labels = found[:, -1] > 0.0
        first = found[has_labels, _ROW_MEASURES.index("precision_at_1")]
        result["one_error"] = (
            1.0 - _mean(first, None if weights is None else weights[has_labels]) if len(first) else None
        )
    result |= {f"precision_at_{top}": means[f"precision_at_{top}"] for top in TOP if top <= k}
    if probabilities is not None:
        result |= _of_label_probabilities(labels, probabilities, weights)
    empty = n - int((found[:, -1] > 0.0).sum())
    return result | {"notes": [f"{empty} rows have no label that the model knows"] if empty else []}


#: Columns of the measures of rows, in the order that `_of_rows` and `_of_orders` give them.
_ORDER_MEASURES = ("label_ranking_loss", "label_ranking_average_precision", "coverage")
_ROW_MEASURES = (
    "subset_accuracy",
    "hamming_loss",
    "example_f1",
    *_ORDER_MEASURES,
    *(f"precision_at_{top}" for top in TOP),
    "labels",
)


def _of_rows(truth: np.ndarray, guess: np.ndarray) -> np.ndarray:
    """Measures per row, (n, 3): whether the whole set is correct, the fraction of wrong labels, and F1."""
    wrong = (truth != guess).sum(axis=1)
    sizes = truth.sum(axis=1) + guess.sum(axis=1)
    f1 = np.where(sizes > 0, (sizes - wrong) / np.maximum(sizes, 1), 1.0)
    return np.column_stack([wrong == 0, wrong / truth.shape[1], f1])


def _of_orders(truth: np.ndarray, scores: np.ndarray) -> np.ndarray:
    """Measures per row, (n, 7): ranking loss, average precision, coverage, precision at TOP, and number of labels.

    A label shares its rank with those of the same score, the worst of theirs, as in scikit-learn.
    """
    n, k = scores.shape
    order = np.argsort(-scores, axis=1, kind="stable")
    values, truth = np.take_along_axis(scores, order, 1), np.take_along_axis(truth, order, 1)
    ends = np.full((n, k), k - 1)
    ends[:, :-1] = np.where(values[:, :-1] != values[:, 1:], np.arange(k - 1), k - 1)
    ends = np.minimum.accumulate(ends[:, ::-1], axis=1)[:, ::-1]  # where the run of equal scores ends
    hits = np.cumsum(truth, axis=1)
    labels, ranks, above = hits[:, -1], ends + 1, np.take_along_axis(hits, ends, 1)
    pairs = labels * (k - labels)
    loss = ((ranks - above) * truth).sum(axis=1) / np.maximum(pairs, 1)
    average = np.where(pairs > 0, (above / ranks * truth).sum(axis=1) / np.maximum(labels, 1), 1.0)
    coverage = (ranks * truth).max(axis=1)
    precisions = [hits[:, min(top, k) - 1] / top for top in TOP]
    return np.column_stack([np.where(pairs > 0, loss, 0.0), average, coverage, *precisions, labels])


def _of_label_probabilities(labels: Any, probabilities: np.ndarray, weights: np.ndarray | None) -> dict[str, float]:
    """Log loss, Brier score and calibration error, each pair of row and label an event of its own."""
    truth = labels.toarray() if sparse.issparse(labels) else np.asarray(labels)
    events, chances = truth.astype(bool).ravel(), probabilities.ravel()
    weights = None if weights is None else np.repeat(weights, truth.shape[1])
    return {
        "log_loss": log_loss(np.where(events, chances, 1.0 - chances), weights),
        "brier": _mean((chances - events) ** 2, weights),
        "calibration_error": calibration_error(chances, events, weights=weights),
    }


def precision_at(labels: Any, scores: np.ndarray, top: int, weights: np.ndarray | None = None) -> float:
    """Mean share of true labels among the `top` best-scored ones."""
    best = np.argpartition(-scores, top - 1, axis=1)[:, :top]
    rows = np.arange(len(scores))[:, None]
    hits = labels[rows, best]
    return _mean(np.mean(hits.toarray() if sparse.issparse(hits) else hits, axis=1), weights)


def numbers(y: Any, predicted: np.ndarray, weights: np.ndarray | None = None) -> dict[str, Any]:
    """Errors of predicted numbers."""
    y = np.asarray(y, np.float64)
    errors = y - predicted
    spread = _mean((y - _mean(y, weights)) ** 2, weights)
    squared = _mean(errors**2, weights)
    return {
        "rows": len(y),
        "mean_squared_error": squared,
        "mean_absolute_error": _mean(np.abs(errors), weights),
        "r2": 1.0 - squared / spread if spread > 0.0 else float("nan"),
        "notes": [],
    }
