"""Results on standard output: tables on a terminal, plain lines in a pipe, JSON for machines."""

from __future__ import annotations

import json
import math
import sys
from collections.abc import Callable, Sequence
from typing import IO, Annotated, Any

import typer

from lineal.cli.messages import visible, visible_json

#: Characters of labels and names that would break a line or a column in a pipe, and the backslash that marks them.
ESCAPES = str.maketrans({"\\": "\\\\", "\t": "\\t", "\n": "\\n", "\r": "\\r"})

#: The flag of every command that prints results.
Json = Annotated[bool, typer.Option("--json", help="Print JSON.")]


def as_json(result: Any) -> None:
    """Print one JSON document; numbers that JSON does not know become null."""
    print(json_text(plain(result), indent=2))


def json_text(value: Any, indent: int | None = None) -> str:
    """A value as JSON, in which a terminal finds nothing to act on."""
    return visible_json(json.dumps(value, ensure_ascii=False, indent=indent, allow_nan=False))


def plain(value: Any) -> Any:
    """The same with Python's own types only."""
    if hasattr(value, "tolist"):
        value = value.tolist()
    if isinstance(value, dict):
        return {str(key): plain(entry) for key, entry in value.items()}
    if isinstance(value, list | tuple):
        return [plain(entry) for entry in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


def pairs(title: str, entries: dict[str, Any]) -> None:
    """Names with values: a table without head on a terminal, "name: value" lines elsewhere."""
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
    """A table: drawn on a terminal, separated by tabs elsewhere. Numbers stand right."""
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
    """How labels and names are written to `file`: exactly, but for escapes; on a terminal, so that it can show them."""
    return (lambda text: visible(escaped(text))) if file.isatty() else escaped


def escaped(text: str) -> str:
    """Text as one cell of a line: tabs, line ends and backslashes are written with a backslash."""
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
    """Text that Rich does not search for markup, and a terminal not for commands: labels and names are the user's."""
    from rich.text import Text

    return Text(visible(text))


def _print(renderable: Any) -> None:
    from rich.console import Console

    Console().print(renderable)
