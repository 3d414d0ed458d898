"""Decides whether the first line of a CSV file holds the names of its columns.

Every cell of the first line is compared with the cells below it, in the first rows of the file:

- text above a column of numbers is a name, and so is the word label, target or class;
- a number above a column of numbers is not a name. A line with both holds names only if one of its names is certain
  (one of these words, or text above nothing but numbers), and if its numbers could be names: whole, without sign or
  leading zeros, and all different, like the years in "2019,2020,label";
- a line without a name but with a number holds data;
- a text that occurs again in its own column is data;
- all other lines have text above text, which is taken for names.
"""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import islice

from lineal.data.chunks import MAX_LINE_BYTES
from lineal.data.options import NULLS

#: Number of rows that are compared with the first line, and the number of cells after which no more rows are read.
ROWS, CELLS = 100, 100_000

#: Number of columns that are compared at each end of a very long line.
COLUMNS = 5000

#: Words that are always names in the first line.
LABEL_WORDS = ("label", "target", "class")

NUMBER = re.compile(r"[-+]?(\d+\.?\d*|\.\d+)([eE][-+]?\d+)?")
NAME_NUMBER = re.compile(r"0|[1-9]\d*")


@dataclass(frozen=True)
class Header:
    """Whether there is a header, and whether that is certain."""

    is_present: bool
    is_certain: bool


@contextmanager
def long_cells() -> Iterator[None]:
    """A context in which Python's CSV reader accepts cells of any length."""
    limit = csv.field_size_limit(MAX_LINE_BYTES)
    try:
        yield
    finally:
        csv.field_size_limit(limit)


def is_number(cell: str) -> bool:
    """Whether a trimmed cell is a number."""
    return NUMBER.fullmatch(cell) is not None


def sample(text: bytes, delimiter: str, is_whole: bool) -> list[list[str]]:
    """The first records of a text, with trimmed cells. The last one may be cut, and is left out unless `is_whole`.

    Call it in the context `long_cells`.
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


def _compared_columns(first: list[str]) -> list[int]:
    """The columns that are compared: of very many, the first and the last ones, and those named like a label."""
    if len(first) <= 2 * COLUMNS:
        return list(range(len(first)))
    words = {column for column, cell in enumerate(first) if cell.lower() in LABEL_WORDS}
    return sorted(words.union(range(COLUMNS), range(len(first) - COLUMNS, len(first))))


def find_header(first: list[str], rows: list[list[str]]) -> Header:
    """Decide from the first line and the rows below it, by the rules above."""
    shown = _compared_columns(first)
    names = numbers_over_numbers = 0
    is_sure = occurs_again = False
    for column in shown:
        cell = first[column]
        if cell in ("", *NULLS):
            continue
        below = [row[column] for row in rows if column < len(row) and row[column] not in ("", *NULLS)]
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
