"""`lineal evaluate`: how good a model is on labelled rows."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from lineal.cli import show
from lineal.cli.files import READS, READS_DATA, read_labelled, schema_of, unseen_in, warn_unseen
from lineal.cli.flags import flags
from lineal.cli.messages import say
from lineal.data.options import ReadOptions
from lineal.errors import DataError

if TYPE_CHECKING:
    from lineal.data.dataset import Dataset
    from lineal.linear.model import Model


@flags(reading=ReadOptions)
def evaluate(
    model: Annotated[str, typer.Argument(metavar="MODEL", help="Model file."), READS],
    data: Annotated[
        str,
        typer.Argument(metavar="DATA", help="Labelled rows: a file, a quoted glob, or - for standard input."),
        READS_DATA,
    ],
    json: show.Json = False,
    *,
    reading: dict[str, Any],
) -> None:
    """Measure a model on labelled rows.

    Accuracy, macro and micro F1, ROC and PR AUC (one-vs-rest means for several classes), the confusion matrix of up
    to 30 classes; log loss, Brier score and calibration error where the loss has probabilities. For label sets:
    subset accuracy, Hamming loss, macro, micro and example F1; of the order of the labels ranking loss, average
    precision, coverage, one-error, precision at 1, 3, 5. Rows count equally.
    """
    from lineal.models.file import load

    known = load(model)
    rows = rows_for(known, data, reading)
    if rows.bad_lines:
        say(f"warning: {rows.bad_lines} malformed lines of {data} were skipped")
    warn_unseen(unseen_in(rows))
    if rows.weights is not None:
        say("warning: the weights of the rows are not used: every row counts equally")
    result = measure(known, rows)
    if json:
        show.as_json(result)
        return
    for note in result.pop("notes"):
        say(f"note: {note}")
    counts = result.pop("confusion", None)
    show.pairs("lineal evaluate", {name.replace("_", " "): value for name, value in result.items()})
    if counts is not None:
        labels = counts["labels"]
        matrix = [[label, *row] for label, row in zip(labels, counts["matrix"])]
        show.table("confusion (rows: true, columns: predicted)", ["true", *map(str, labels)], matrix)


def rows_for(model: Any, path: str, reading: dict[str, Any]) -> Dataset:
    """Labelled rows, as the model's training file was read."""
    if getattr(model, "namespaces", None):
        return model.read_labelled(path, **reading)
    return read_labelled(path, schema_of(model), reading)


def measure(model: Model, data: Dataset) -> dict[str, Any]:
    """All measures that the model's loss and the data's labels allow."""
    from lineal.models import metrics

    if model.is_number:
        return metrics.numbers(data.y, _scores(model, data)[:, 0])
    if model.is_multilabel != data.is_multilabel:
        one, sets = "one label a row", "label sets"
        has, wants = (sets, one) if data.is_multilabel else (one, sets)
        raise DataError(f"the data has {has}, the model was trained on {wants}")
    y = _aligned(data, model) if model.is_multilabel else data.y
    scores = _scores(model, data)
    probabilities = model.probabilities_of(scores) if model.has_probabilities else None
    if model.is_multilabel:
        return metrics.label_sets(y, scores, probabilities, model.classes, model.labels_of)
    return metrics.single_label(y, scores, probabilities, model.classes)


def _scores(model: Model, data: Dataset) -> Any:
    import numpy as np

    return np.concatenate([model.scores(batch) for batch in model.batches_of(data)])


def _aligned(data: Dataset, model: Model) -> Any:
    """The indicator matrix with the model's columns: a file may name the labels in another order, or more of them."""
    import numpy as np
    from scipy import sparse

    from lineal.models.metrics import class_numbers

    names = model.classes.tolist()
    if list(data.class_names or names) == names:
        return data.y
    entries = data.y.tocoo()
    columns = class_numbers(np.asarray(data.class_names), model.classes)[entries.col]
    known = columns >= 0
    unknown = int((~known).sum())
    if unknown:
        say(f"warning: {unknown} labels of the rows are unknown to the model and left out")
    cells = (entries.data[known], (entries.row[known], columns[known]))
    return sparse.csr_array(cells, shape=(len(data), len(names)))
