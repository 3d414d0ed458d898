"""Results on standard output: tables on a terminal, plain lines in a pipe, JSON for programs."""

from __future__ import annotations

import json
import math
import sys
from collections.abc import Callable, Sequence
from typing import IO, Annotated, Any

import typer

from lineal.cli.terminal import visible, visible_json

#: Escapes for characters that would break a line or a column, and for the backslash that begins an escape.
ESCAPES = str.maketrans({"\\": "\\\\", "\t": "\\t", "\n": "\\n", "\r": "\\r"})

#: The flag --json, which every command that prints results has.
Json = Annotated[bool, typer.Option("--json", help="Print JSON.")]


def as_json(result: Any) -> None:
    """Print one JSON document; infinite numbers and NaN become null."""
    print(json_text(plain(result), indent=2))


def json_text(value: Any, indent: int | None = None) -> str:
    """A value as JSON without characters that would act on a terminal."""
    return visible_json(json.dumps(value, ensure_ascii=False, indent=indent, allow_nan=False))


def plain(value: Any) -> Any:
    """The value with Python's own types only, and None for infinite numbers and NaN."""
    if value is None or isinstance(value, str | int):
        return value
    if isinstance(value, dict):
        return {str(key): plain(entry) for key, entry in value.items()}
    if isinstance(value, list | tuple):
        return [plain(entry) for entry in value]
    import numpy as np  # not above: help needs no NumPy

    if isinstance(value, np.ndarray | np.generic):
        return plain(value.tolist())
    return None if isinstance(value, float) and not math.isfinite(value) else value


def pairs(title: str, entries: dict[str, Any]) -> None:
    """Print names with values: a table without head on a terminal, "name: value" lines elsewhere.

    Underscores in names become spaces.
    """
    entries = {name.replace("_", " "): value for name, value in entries.items()}
    if not sys.stdout.isatty():
        for name, value in entries.items():
            print(f"{name}: {visible(spelled(value))}")
        return
    from rich.table import Table

    table = Table(title=_literal(title), show_header=False, title_justify="left")
    for name, value in entries.items():
        table.add_row(_literal(name), _literal(spelled(value)))
    _print(table)


def table(title: str, columns: Sequence[str], rows: Sequence[Sequence[Any]]) -> None:
    """Print a table: drawn on a terminal, separated by tabs elsewhere. Numbers are aligned to the right."""
    if not sys.stdout.isatty():
        for row in (columns, *rows):
            print("\t".join(visible(escaped(spelled(cell))) for cell in row))
        return
    from rich.table import Table

    drawn = Table(title=_literal(title), title_justify="left")
    for position, name in enumerate(columns):
        numeric = all(isinstance(row[position], int | float) for row in rows)
        drawn.add_column(_literal(name), justify="right" if numeric else "left")
    for row in rows:
        drawn.add_row(*(_literal(spelled(cell)) for cell in row))
    _print(drawn)


def cells_of(file: IO[bytes]) -> Callable[[str], str]:
    """The function that writes labels and names as cells of `file`: exactly, or made safe if it is a terminal."""
    return (lambda text: visible(escaped(text))) if file.isatty() else escaped


def escaped(text: str) -> str:
    """Text as one cell of a line: tabs, line ends and backslashes are written as escapes."""
    return text.translate(ESCAPES)


def spelled(value: Any) -> str:
    """A value as a person reads it."""
    if value is None:
        return "-"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, float):
        return f"{value:.6g}"
    if isinstance(value, list | tuple):
        return ", ".join(spelled(entry) for entry in value)
    return str(value)


def _literal(text: str) -> Any:
    """Text in which Rich finds no markup and a terminal no commands: labels and names come from the user."""
    from rich.text import Text

    return Text(visible(text))


def _print(renderable: Any) -> None:
    from rich.console import Console

    Console().print(renderable)
