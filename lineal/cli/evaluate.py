"""`lineal evaluate`: how good a model is on labelled rows."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from lineal.cli import show
from lineal.cli.files import READS, READS_DATA, unseen_in, warn_unseen, with_labels
from lineal.cli.flags import flags
from lineal.cli.terminal import say
from lineal.data.options import ReadOptions


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

    For one label per row: accuracy, macro and micro F1, ROC and PR AUC (for several classes, means of one-vs-rest), and
    the confusion matrix of up to 30 classes; with probabilities also log loss, Brier score and calibration error. For
    label sets: subset accuracy, Hamming loss, macro, micro and example F1; for the order of the labels ranking loss,
    average precision, coverage, one-error, and precision at 1, 3 and 5. Rows with weights count by them.
    """
    from lineal.models import evaluation
    from lineal.models.file import load

    known = load(model)
    rows = with_labels(known.read_labelled(data, **reading), data)
    if rows.bad_lines:
        say(f"warning: {rows.bad_lines} malformed lines of {data} were skipped")
    warn_unseen(unseen_in(rows))
    result = evaluation.evaluate(known, rows)
    if json:
        show.as_json(result)
        return
    for note in result.pop("notes"):
        say(f"note: {note}")
    counts = result.pop("confusion", None)
    show.pairs("lineal evaluate", result)
    if counts is not None:
        labels = [str(label) for label in counts["labels"]]  # as predict writes them
        matrix = [[label, *row] for label, row in zip(labels, counts["matrix"])]
        show.table("confusion (rows: true, columns: predicted)", ["true", *labels], matrix)
