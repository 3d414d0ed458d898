"""`lineal compact`: drop the features that a model does not use, and list those that it needs."""

from __future__ import annotations

import os
from typing import Annotated

import typer

from lineal.cli import show
from lineal.cli.files import READS, WRITES, WRITES_STREAM, destination, is_stdout
from lineal.errors import OptionError
from lineal.system import memory


def compact(
    model: Annotated[str, typer.Argument(metavar="MODEL", help="Model file."), READS],
    output: Annotated[str, typer.Option("--output", "-o", help="Model file to write.", show_default=False), WRITES],
    columns: Annotated[
        str | None,
        typer.Option(help="File to list the needed columns in, as number (from 0), tab, name; - for standard output."),
        WRITES_STREAM,
    ] = None,
    json: show.Json = False,
) -> None:
    """Drop the features that a model does not use.

    The smaller model makes the same predictions and reads the same files. A table may then lack the columns that are
    not used, and arrays may have just the needed columns.
    """
    from lineal.linear.description import feature_name
    from lineal.models.file import load

    is_listed = columns is not None and is_stdout(columns)
    if json and is_listed:
        raise OptionError("--json and --columns - would both write to standard output: give one of them")
    known, before = load(model), os.path.getsize(model)
    if known.kind != "linear":
        raise OptionError(
            f"compact is for linear models, which have weights per feature; {model} is a {known.kind} model"
        )
    small, needed = known.compact()
    small.save(output)
    names = [feature_name(known, j) for j in needed.tolist()]
    if columns is not None:
        with destination(columns) as listing:
            cell = show.cells_of(listing)
            lines = (f"{j}\t{cell(name)}\n" for j, name in zip(needed.tolist(), names))
            listing.write("".join(lines).encode())
    after = os.path.getsize(output)
    result = {"model": output, "features": known.n_features, "features_kept": small.n_features}
    if json:
        sizes = {"bytes_before": before, "bytes": after}
        show.as_json({**result, **sizes, "columns": needed.tolist(), "names": small.feature_names})
    elif not is_listed:
        show.pairs(f"lineal compact {model}", {**result, "file": f"{memory.size(after)} (was {memory.size(before)})"})
