"""`lineal predict`: labels, probabilities or scores, one line per row, in bounded memory."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Annotated, Any

import typer

from lineal.cli import show
from lineal.cli.files import READS, READS_DATA, STDOUT, WRITES_STREAM, destination, unseen_in, warn_unseen
from lineal.cli.flags import flags
from lineal.cli.terminal import say
from lineal.data.options import ReadOptions
from lineal.errors import OptionError

if TYPE_CHECKING:
    import numpy as np

    from lineal.linear.model import Model


@flags(reading=ReadOptions)
def predict(
    model: Annotated[str, typer.Argument(metavar="MODEL", help="Model file."), READS],
    data: Annotated[
        str, typer.Argument(metavar="DATA", help="Rows: a file, a quoted glob, or - for standard input."), READS_DATA
    ],
    output: Annotated[
        str, typer.Option("--output", "-o", help="File to write, - for standard output."), WRITES_STREAM
    ] = STDOUT,
    proba: Annotated[bool, typer.Option("--proba", help="Print the probability of each class.")] = False,
    scores: Annotated[bool, typer.Option("--scores", help="Print the score of each class.")] = False,
    json: Annotated[bool, typer.Option("--json", help="Print one JSON object per row.")] = False,
    *,
    reading: dict[str, Any],
) -> None:
    """Predict the rows of a file, one line per row.

    Several labels of a row are separated by commas. Probabilities and scores are columns separated by tabs, below a
    line with the classes. Two classes have one score, which is that of the second class. The file is read block by
    block.
    """
    from lineal.models.file import load

    if proba and scores:
        raise OptionError("--proba and --scores exclude each other: give one of them")
    known = load(model)
    if proba:
        known.check_probabilities()
    if scores and known.is_number:
        raise OptionError("--scores are for classes, but this model predicts numbers")
    wanted = "probabilities" if proba else "scores" if scores else None
    bad_lines, unseen = 0, Counter[str]()
    with destination(output) as file:
        cell = show.cells_of(file)
        spell = _json_lines(known, wanted) if json else _text_lines(known, wanted, cell)
        if wanted is not None and not json:
            file.write(("\t".join(map(cell, _columns(known, wanted))) + "\n").encode())
        for block in known.read_blocks(data, **reading):
            bad_lines += block.bad_lines
            unseen.update(unseen_in(block))
            for batch in known.batches_of(block):
                file.write("".join(f"{line}\n" for line in spell(known.scores(batch))).encode())
    if bad_lines:
        say(f"warning: {bad_lines} malformed lines of {data} were skipped")
    warn_unseen(unseen)


Spell = Callable[["np.ndarray"], Iterator[str]]


def _columns(model: Model, wanted: str) -> list[str]:
    names = [str(label) for label in model.classes.tolist()]
    return names[1:] if model.is_binary and wanted == "scores" else names


def _text_lines(model: Model, wanted: str | None, cell: Callable[[str], str]) -> Spell:
    if model.is_number:
        return lambda scores: (f"{value:.9g}" for value in scores[:, 0].tolist())
    if wanted is None:
        names = {label: cell(str(label)) for label in model.classes.tolist()}
        return lambda scores: (",".join([names[label] for label in labels]) for labels in _labels(model, scores))

    def spell(scores: np.ndarray) -> Iterator[str]:
        values = scores if wanted == "scores" else model.probabilities_of(scores)
        digits = "{:.9g}".format if values.dtype.itemsize == 4 else repr  # enough digits to read the same number back
        for row in values.reshape(len(values), -1).tolist():
            yield "\t".join(map(digits, row))

    return spell


def _json_lines(model: Model, wanted: str | None) -> Spell:
    columns = _columns(model, wanted) if wanted is not None else []

    def spell(scores: np.ndarray) -> Iterator[str]:
        rows: list[dict[str, Any]] = [{} for _ in range(len(scores))]
        for row, labels in zip(rows, _labels(model, scores)):
            row |= {"labels": labels} if model.is_multilabel else {"label": labels[0]}
        if wanted is not None:
            values = scores if wanted == "scores" else model.probabilities_of(scores)
            for row, numbers in zip(rows, values.reshape(len(values), -1).tolist()):
                row[wanted] = dict(zip(columns, numbers))
        return (show.json_text(show.plain(row)) for row in rows)

    return spell


def _labels(model: Model, scores: np.ndarray) -> Iterator[list[Any]]:
    """The labels of each row."""
    predicted = model.labels_of(scores)
    if not model.is_multilabel:
        yield from ([label] for label in predicted.tolist())
        return
    names = model.classes.tolist()
    for row in predicted:
        yield [names[column] for column in row.nonzero()[0]]
