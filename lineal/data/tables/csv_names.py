"""The delimiter and the column names of a CSV file."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable
from typing import TYPE_CHECKING

from lineal.data.formats import named_format
from lineal.data.options import NULLS, ReadOptions, listed
from lineal.data.tables.csv_text import CsvText
from lineal.data.tables.encode import Encoding
from lineal.data.tables.header import find_header, is_number, sample
from lineal.errors import DataError, OptionError

if TYPE_CHECKING:
    from lineal.data.tables.csv import CsvState

DELIMITERS = ",;\t|"

#: Bytes after the first record that tell whether it holds names.
SAMPLE_BYTES = 1 << 16


def find_delimiter(line: bytes, path: str, state: CsvState) -> str:
    """The character that separates cells: as the options say, or the most frequent candidate in the first line."""
    options = state.options
    if options.delimiter is not None:
        delimiter = options.delimiter.replace("\\t", "\t")
        if len(delimiter) != 1 or not delimiter.isascii() or delimiter in '"\r\n':
            raise OptionError(
                f"delimiter={options.delimiter!r} must be one ASCII character, and neither a quote nor a newline"
            )
        return delimiter
    if "tsv" in (options.format, named_format(path)):
        return "\t"
    bare = re.sub(rb'"[^"]*"', b"", line).decode("utf-8", "replace")
    found = max(DELIMITERS, key=bare.count)  # the first of them where none occurs
    state.delimiter = state.delimiter or found
    return found


def rows_below(text: CsvText, delimiter: str) -> list[list[str]]:
    """Some of the records after the first one."""
    size = text.length + max(SAMPLE_BYTES, 2 * text.length)
    head = text.look(size)
    return sample(head[text.length :], delimiter, is_whole=len(head) < size)


def column_names(
    cells: list[str], path: str, state: CsvState, sample_below: Callable[[], list[list[str]]]
) -> tuple[list[str], bool]:
    """The column names, and whether the first line holds them, given the cells of that line and rows below it."""
    if state.options.names is not None:
        state.header = state.options.header == "yes"
        return _given_names(len(cells), path, state.options), state.header
    if state.encoding is not None:
        return _known_names(cells, path, state, state.encoding)
    if state.options.header != "auto":
        state.header = state.options.header == "yes"
    elif state.header is None:
        found = find_header(cells, sample_below())
        state.header, state.header_chosen = found.is_present, "certain" if found.is_certain else "guessed"
    return (_distinct(cells, path), True) if state.header else ([f"f{j}" for j in range(len(cells))], False)


def _given_names(count: int, path: str, options: ReadOptions) -> list[str]:
    names = listed(options.names)
    if len(names) != count:
        raise DataError(
            f"names={options.names!r} are {len(names)} names, but the first line of {path} has {count} cells"
        )
    if twice := [name for name, times in Counter(names).items() if times > 1]:
        raise OptionError(
            f"names={options.names!r} has the name {twice[0]!r} twice: give every column a name of its own"
        )
    return names


def _distinct(cells: list[str], path: str) -> list[str]:
    names = [cell or f"f{j}" for j, cell in enumerate(cells)]
    if twice := [name for name, count in Counter(names).items() if count > 1]:
        raise DataError(f"{path}: two columns have the name {twice[0]!r}; if the first line is data, say header='no'")
    return names


def _known_names(cells: list[str], path: str, state: CsvState, encoding: Encoding) -> tuple[list[str], bool]:
    """The column names of a file that is read as a training file was, and whether its first line holds them.

    A first line with all required names is a header. If the training file had no names, columns are identified by their
    position; a first line is then skipped if it has text wherever the training file had numbers, and none of the texts
    that the training file had in their columns.
    """
    header = state.options.header
    known = encoding.features()
    has_all_names = known.keys() <= set(cells)
    if header != "no" and (has_all_names or encoding.header is not False):
        return _distinct(cells, path), True
    names = _by_position(len(cells), encoding)
    pairs = [(known[name], cell) for name, cell in zip(names, cells) if name in known and cell not in ("", *NULLS)]
    numbers = [cell for column, cell in pairs if column.kind == "number"]
    is_data = any(map(is_number, numbers)) or any(cell in column.values for column, cell in pairs)
    return names, header == "yes" or (header == "auto" and bool(numbers) and not is_data)


def _by_position(count: int, encoding: Encoding) -> list[str]:
    """The names of `count` columns without a header: those of training, of which label and weight may be absent."""
    known = encoding.names
    for absent in ((), (encoding.label,), (encoding.label, encoding.weight)):
        present = [name for name in known if name not in absent]
        if len(present) == count:
            return present
    return [f"f{j}" for j in range(count)]
