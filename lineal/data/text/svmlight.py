"""svmlight / LIBSVM text: ``<label>[,<label>…] [qid:<int>] <index>:<value> … [# comment]``.

Values equal Python's ``float()`` of their text. Indices are int32 in memory, so an index above 2³¹ − 2 is refused
(hash larger spaces first, or use the VW format); from 2³¹ entries on, the index arrays are int64. Rows are sorted by
index; a repeated index in a row is an error.

Streams for online learners take indices of up to 18 digits modulo 2**bits and sum the features that share a column. The
schema then has the setting `bits`, so that later files are read in the same way.

Schema settings: `index_base` (0 or 1), `bits` (if indices are taken modulo 2**bits), `labels` ("int", "float" or
"multi"), `class_names` (multi-label files).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np

from lineal.core.jit import kernel
from lineal.data.dataset import Dataset
from lineal.data.options import ReadOptions
from lineal.data.schema import Schema
from lineal.data.text.assemble import Facts, Parsed, Parser
from lineal.data.text.lines import (
    BAD_LABEL,
    BAD_VALUE,
    COLON,
    DOUBLES,
    EXPECTED,
    FULL,
    HASH,
    NEWLINE,
    NO_SPACE,
    NOT_FINITE,
    OK,
    Found,
    count_separators,
    is_blank,
    merge_entries,
    parse_integer,
    parse_labels,
    skip_bad_line,
    skip_blanks,
    skip_line,
    sort_entries,
)
from lineal.data.text.numbers import U0, U1, U, parse_number
from lineal.data.text.reader import TextReader
from lineal.errors import DataError, OptionError, unknown_value

MAX_INDEX = 2**31 - 2
MAX_WRAPPED = 10**18 - 1  # an index that is taken modulo 2**bits may have 18 digits
ANY_COLUMN = -1  # the mask of all bits
BAD_FEATURE, INDEX_TOO_SMALL, INDEX_TOO_LARGE, REPEATED, BAD_QUERY = range(10, 15)
LETTER_Q, LETTER_I, LETTER_D, MINUS = (U(ord(c)) for c in "qid-")


class Limits(NamedTuple):
    """Which indices a file may have, and how they become columns.

    `base` is subtracted from every index; `lowest` and `highest` bound the index as written in the file. With `wraps`,
    only the bits under `mask` make the column, and features that share a column are summed. Rows are then sorted and
    summed only with `merge`; otherwise the entries stay as the text has them. `exact` says how labels are stored: see
    `parse_labels`.
    """

    base: int
    lowest: int
    highest: int
    mask: int
    wraps: bool
    merge: bool
    exact: int = DOUBLES


@kernel
def is_query(data: Any, p: Any) -> bool:
    """Whether "qid:" begins at p (the final newline stops the comparison in time)."""
    return (
        U(data[p]) == LETTER_Q and U(data[p + U1]) == LETTER_I
        and U(data[p + U(2)]) == LETTER_D and U(data[p + U(3)]) == COLON
    )  # fmt: skip


@kernel
def parse_query(data: Any, p: Any) -> Any:
    """Parse an optional ``qid:<int>``: (code, position after it, query id, whether there is one)."""
    p = skip_blanks(data, p)
    if not is_query(data, p):
        return OK, p, 0, False
    p += U(4)
    negative = U(data[p]) == MINUS
    start = p + U1 if negative else p
    query, after = parse_integer(data, start)
    if after == start or query < 0 or not is_blank(U(data[after])):
        return BAD_QUERY, p, 0, False
    return OK, after, (-query if negative else query), True


@kernel(borrows=True)
def parse_features(data: Any, p: Any, rows: Any, entry: int, limits: Any) -> Any:
    """Parse the features up to the end of the line: (code, position, entries so far, whether the indices ascend)."""
    values, indices = rows.values, rows.indices
    capacity = indices.shape[0]
    previous = np.int64(-2)
    ascending = True
    while True:
        p = skip_blanks(data, p)
        c = U(data[p])
        if c in (NEWLINE, HASH):
            return OK, p, entry, ascending
        index, after = parse_integer(data, p)
        if after == p or U(data[after]) != COLON:
            return BAD_FEATURE, p, entry, ascending
        if index > limits.highest or index < 0:
            return INDEX_TOO_LARGE, p, entry, ascending
        if index < limits.lowest:
            return INDEX_TOO_SMALL, p, entry, ascending
        column = index - limits.base & limits.mask
        if column <= previous:
            if column == previous and not limits.wraps:
                return REPEATED, p, entry, ascending
            ascending = False
        previous = column
        p = after + U1
        value, after = parse_number(data, p)
        if after == p:
            return BAD_VALUE, p, entry, ascending
        if entry >= capacity:
            return FULL, p, entry, ascending
        values[entry] = value
        if np.isinf(values[entry]):
            return NOT_FINITE, p, entry, ascending
        c = U(data[after])
        if not is_blank(c) and c != HASH:
            return NO_SPACE, after, entry, ascending
        indices[entry] = column
        entry += 1
        p = after


@kernel
def find_repeat(data: Any, p: Any, indices: Any, start: int, stop: int, base: int) -> Any:
    """Position where a sorted row repeats an index, given the position p of its first feature; p if no index repeats.

    The first feature cannot be a repetition, so p itself can stand for none.
    """
    for i in range(start + 1, stop):
        if indices[i] == indices[i - 1]:
            repeated = np.int64(indices[i]) + base
            times = 0
            while True:
                p = skip_blanks(data, p)
                index, _ = parse_integer(data, p)
                times += index == repeated
                if times == 2:
                    return p
                while not is_blank(U(data[p])):
                    p += U1
    return p


@kernel(borrows=True)
def parse_chunk(data: Any, rows: Any, bad: Any, limits: Any) -> Any:
    """Parse whole lines into `rows`, and note errors in `bad`; stop when `bad` is full."""
    row, entry, label, n_bad = 0, 0, 0, 0
    lowest, highest, most_labels = MAX_INDEX, -1, 0
    unlabelled, queries, large, n_large = 0, 0, 0, 0
    is_full = False
    first_unlabelled: Any = -1
    first_without: Any = -1
    p, end = U0, U(data.shape[0])
    while p < end and n_bad < bad.shape[0]:
        p = skip_blanks(data, p)
        c = U(data[p])
        if c in (NEWLINE, HASH):
            p = skip_line(data, p)
            continue
        start, first, label_stop, stop, query, has_query, ascending = p, p, label, entry, 0, False, True
        code, n_large = OK, 0
        if not is_query(data, p):
            code, p, label_stop, n_large = parse_labels(data, p, rows.labels, label, limits.exact)
            c = U(data[p])
            if code == OK and not is_blank(c) and c != HASH:
                if c == COLON and label_stop == label + 1:  # that was the first feature: no labels
                    label_stop, n_large = label, 0
                else:
                    code = BAD_LABEL
                p = start
        if code == OK:
            code, p, query, has_query = parse_query(data, p)
        if code == OK:
            first = p = skip_blanks(data, p)
            code, p, stop, ascending = parse_features(data, p, rows, entry, limits)
        if code == OK and not ascending and limits.merge:
            sort_entries(rows.indices, rows.values, entry, stop)
            if limits.wraps:
                stop = merge_entries(rows.indices, rows.values, entry, stop)
            else:
                repeat = find_repeat(data, first, rows.indices, entry, stop, limits.base)
                if repeat != first:
                    code, p = REPEATED, repeat
        is_full = code == FULL or row >= rows.row_end.shape[0]
        if is_full:
            break
        if code != OK:
            n_bad, p = skip_bad_line(data, p, code, bad, n_bad)
            continue
        if stop > entry:
            lowest = min(lowest, np.int64(rows.indices[entry]) + limits.base)
            highest = max(highest, np.int64(rows.indices[stop - 1]) + limits.base)
        most_labels = max(most_labels, label_stop - label)
        large += n_large
        if label_stop == label:
            unlabelled += 1
            first_unlabelled = np.int64(start) if first_unlabelled < 0 else first_unlabelled
        if has_query:
            queries += 1
        elif first_without < 0:
            first_without = np.int64(start)
        rows.extras[row] = query
        entry, label = stop, label_stop
        rows.row_end[row] = entry
        rows.label_end[row] = label
        row += 1
        p = skip_line(data, p)
    return Found(
        row, entry, label, n_bad, lowest, highest, most_labels, unlabelled, first_unlabelled, queries, first_without,
        large, is_full,
    )  # fmt: skip


def _bounds(data: np.ndarray) -> tuple[int, int, int]:
    found = count_separators(data)
    return found.newlines, found.colons, found.newlines + found.commas


def _expected(limits: Limits, options: ReadOptions, schema: Schema | None) -> dict[int, str]:
    if limits.wraps:
        reason = " (18 digits)"
    elif schema is not None:
        reason = f" (the model knows only {schema.n_features} features)"
    elif options.n_features is not None:
        reason = f" (n_features={options.n_features})"
    else:
        reason = " (indices are 32-bit: hash larger ones, or use the VW format)"
    return {
        BAD_FEATURE: "a feature as index:value, where the index is an integer",
        INDEX_TOO_SMALL: f"a feature index of at least {limits.lowest}, as index_base is {limits.base}",
        INDEX_TOO_LARGE: f"a feature index of at most {limits.highest}{reason}",
        REPEATED: "each feature at most once in a row",
        BAD_QUERY: "an integer after 'qid:'",
        **EXPECTED,
    }


def _limits(options: ReadOptions, schema: Schema | None) -> Limits:
    """The limits for some options. "auto" takes base 1 and accepts index 0; if one occurs, `_columns` adds 1 to all."""
    if options.index_base not in ("auto", "0", "1"):
        raise unknown_value("index_base", options.index_base, ("auto", "0", "1"))
    base, n_features = options.index_base, options.n_features
    if n_features is not None and n_features < 1:
        raise OptionError(f"n_features={n_features} must be positive")
    if schema is not None:
        known = str(schema.settings["index_base"])
        if base not in ("auto", known):
            raise OptionError(f"index_base={base!r} contradicts the model's files, whose index base is {known}")
        base, n_features = known, schema.n_features
    first = 0 if base == "0" else 1
    if schema is not None and "bits" in schema.settings:
        return Limits(first, first, MAX_WRAPPED, n_features - 1, True, True)  # type: ignore[operator]
    highest = MAX_INDEX if n_features is None else min(n_features - 1 + first, MAX_INDEX)
    return Limits(first, 0 if base == "auto" else first, highest, ANY_COLUMN, False, True)


def _parser(options: ReadOptions, schema: Schema | None) -> Parser:
    limits = _limits(options, schema)
    return Parser(parse_chunk, _bounds, np.int64, limits, _expected(limits, options, schema), options)


def _schema(facts: Facts, options: ReadOptions) -> Schema:
    base = int(options.index_base) if options.index_base != "auto" else int(facts.lowest_index != 0)
    n_features = options.n_features
    if n_features is None:
        n_features = max(int(facts.highest_index) + 1 - base, 0)
    elif facts.highest_index - base >= n_features:
        raise DataError(
            f"feature 0 occurs, so that indices start at 0, and feature {facts.highest_index} makes "
            f"{facts.highest_index + 1} columns, but n_features={n_features}"
        )
    return Schema("svmlight", n_features, {"index_base": base})


def _columns(parsed: Parsed, schema: Schema, parser: Parser) -> None:
    if parser.limits.base != schema.settings["index_base"]:
        parsed.indices += 1


def _extras(parsed: Parsed) -> dict[str, Any]:
    return {"query_ids": parsed.extras if parsed.facts.with_extra else None}


READER = TextReader(
    "svmlight",
    _parser,
    _schema,
    _columns,
    _extras,
    labels_required=True,
    missing_extra="'qid:', as other lines have it",
)


def read(paths: list[str], options: ReadOptions, schema: Schema | None = None) -> Dataset:
    """Read svmlight files as one dataset; with a `schema`, into the columns that it describes."""
    return READER.read(paths, options, schema)


def read_blocks(paths: list[str], options: ReadOptions, schema: Schema | None = None) -> Iterator[Dataset]:
    """Read svmlight files block by block, in bounded memory.

    Without a `schema`, a first pass finds the index base, the number of columns and the labels.
    """
    return READER.read_blocks(paths, options, schema)
