"""Whether the first line of a CSV file holds the names of its columns.

Decided by comparing every cell of the first line with the column below it, in the first rows of the file:

- text over a column of numbers is a name, and so is the word label, target or class;
- a number over a column of numbers is no name. Where a line has both, it holds names only if one of them is sure (such
  a word, or text over nothing but numbers), and if its numbers could be names: whole, without sign or leading zeros,
  and all different, as the years in "2019,2020,label";
- without a name, a line with a number holds data;
- a text that occurs again in its own column is data;
- what remains is text over text, and is taken for names.
"""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import islice

from lineal.data.source import MAX_LINE_BYTES
from lineal.data.tables.cells import NULLS

#: Rows that are compared with the first line, and cells that are looked at beyond the first row.
ROWS, CELLS = 100, 100_000

#: At each end of a very long line, the columns that are looked at.
COLUMNS = 5000

#: Words that are names wherever they are in the first line.
LABEL_WORDS = ("label", "target", "class")

NUMBER = re.compile(r"[-+]?(\d+\.?\d*|\.\d+)([eE][-+]?\d+)?")
NAME_NUMBER = re.compile(r"0|[1-9]\d*")


@dataclass(frozen=True)
class Header:
    """Whether there is one, and whether there was any doubt."""

    is_there: bool
    is_certain: bool


@contextmanager
def long_cells() -> Iterator[None]:
    """Let Python's CSV reader take cells of any length."""
    limit = csv.field_size_limit(MAX_LINE_BYTES)
    try:
        yield
    finally:
        csv.field_size_limit(limit)


def is_number(cell: str) -> bool:
    """Whether a cell, without surrounding blanks, is a number."""
    return NUMBER.fullmatch(cell) is not None


def sample(text: bytes, delimiter: str, is_whole: bool) -> list[list[str]]:
    """The first records of a text, trimmed; the last one is left out unless the text is whole, as it may be cut.

    Call it inside `long_cells`.
    """
    records = csv.reader(io.StringIO(text.decode("utf-8", "replace"), newline=""), delimiter=delimiter)
    rows: list[list[str]] = []
    try:
        rows.extend([cell.strip() for cell in cells] for cells in islice(_limited(records), ROWS + 1))
        if next(records, None) is None and not is_whole:
            rows.pop()
    except csv.Error:
        pass
    return rows[:ROWS]


def _limited(records: Iterable[list[str]]) -> Iterator[list[str]]:
    seen = 0
    for cells in records:
        if cells:
            yield cells
        seen += len(cells)
        if seen > CELLS:
            return


def _shown_columns(first: list[str]) -> list[int]:
    """The columns that are looked at: of very many the first and the last ones, and those with the word for labels."""
    if len(first) <= 2 * COLUMNS:
        return list(range(len(first)))
    words = {column for column, cell in enumerate(first) if cell.lower() in LABEL_WORDS}
    return sorted(words.union(range(COLUMNS), range(len(first) - COLUMNS, len(first))))


def find_header(first: list[str], rows: list[list[str]]) -> Header:
    """Decide by the first line and the rows below it, as the module says."""
    shown = _shown_columns(first)
    names = numbers_over_numbers = 0
    is_sure = occurs_again = False
    for column in shown:
        cell = first[column]
        if cell in NULLS:
            continue
        below = [row[column] for row in rows if column < len(row) and row[column] not in NULLS]
        numbers_below = sum(map(is_number, below))
        is_numeric = 2 * numbers_below > len(below)
        is_word = cell.lower() in LABEL_WORDS and cell not in below
        if is_number(cell):
            numbers_over_numbers += is_numeric
        elif is_numeric or is_word:
            names += 1
            is_sure |= is_word or numbers_below == len(below)
        else:
            occurs_again |= cell in below
    numbers = [first[column] for column in shown if is_number(first[column])]
    if names:
        could_be_names = all(map(NAME_NUMBER.fullmatch, numbers)) and len(set(numbers)) == len(numbers)
        return Header((is_sure and could_be_names) or not numbers_over_numbers, not numbers)
    return Header(not numbers and not occurs_again, False)
