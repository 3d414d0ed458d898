"""Vowpal Wabbit text: ``[label[,label…] [importance [base]]] ['tag]|[namespace[:weight]] feature[:value] … |…``.

Names become columns as in VW: a namespace hashes to a seed (0 for the unnamed one), a feature name is hashed with
MurmurHash3 from that seed, an integer is added to it, and the lowest `bits` bits are the column. Features of one
row that share a column are summed; features with value 0 are left out; no constant feature is added (lineal has an
intercept). A feature without a name (``:0.5``) counts up from the namespace's seed.

With `ngram`, features that follow each other between two bars also make n-grams (see `lineal.data.text.ngrams`). They
come after the features of their namespace. Memory per line: its features, times the number of n-grams per feature.

A token that touches the bar, or begins with a quote, is a tag; tags are skipped. A base (initial prediction) other
than 0 is refused, because a Dataset has no place for it.

Schema settings: `bits`, `namespaces` (names seen, at most 256 per chunk), `labels` ("int", "float", "multi", "none"),
`class_names` (multi-label files), `ngram` and `skips` (files read with n-grams).
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from lineal.core.jit import kernel
from lineal.data import ngrams
from lineal.data.dataset import Dataset
from lineal.data.options import ReadOptions
from lineal.data.schema import Schema
from lineal.data.text.assemble import Facts, Parsed, Parser
from lineal.data.text.byte_words import U3, U8, count_trailing_zeros, leading_digits, name_marks, word_at
from lineal.data.text.lines import (
    BAD_LABEL,
    BAD_VALUE,
    BAR,
    COLON,
    DOUBLES,
    EXPECTED,
    FULL,
    NEWLINE,
    NO_SPACE,
    NOT_FINITE,
    OK,
    QUOTE,
    RETURN,
    SPACE,
    TAB,
    Found,
    count_separators,
    is_blank,
    merge_entries,
    parse_labels,
    skip_bad_line,
    skip_blanks,
    sort_entries,
)
from lineal.data.text.murmur import hash_name, murmur3_of_word
from lineal.data.text.ngrams import Patterns, add_ngrams, count_of, patterns_of
from lineal.data.text.numbers import U0, U1, U, parse_number
from lineal.data.text.reader import TextReader
from lineal.errors import OptionError

NO_BAR, BAD_IMPORTANCE, BAD_BASE, TOO_MANY_TOKENS = range(10, 14)
MAX_BITS = 30  # columns are int32
MAX_NAMES = 256  # slots of the table of namespaces
MULTIPLIER = U(0x9E3779B97F4A7C15)
NO_SEEDS: np.ndarray = np.empty(0, np.uint64)
NAME_SLOT_SHIFT = U(56)  # the top 8 bits choose a slot

ENDS_TOKEN = np.isin(np.arange(256), np.array([SPACE, TAB, RETURN, NEWLINE, BAR]))
ENDS_NAME = np.isin(np.arange(256), np.array([SPACE, TAB, RETURN, NEWLINE, BAR, COLON]))


class Limits(NamedTuple):
    """How hashes become columns.

    A column is the bits of the hash under `mask`. `wanted` has the seeds of the namespaces that `Rows.kinds` tells
    apart. With `merge`, rows are sorted and features that share a column are summed; otherwise the entries stay as the
    text has them. `patterns` are those of the n-grams. `exact` says how labels are stored: see `parse_labels`.
    """

    mask: np.uint64
    wanted: Any
    merge: bool
    patterns: Patterns
    exact: int = DOUBLES


@kernel
def token_end(data: Any, p: Any) -> Any:
    """The end of the token at p: a blank, a bar or the end of the line."""
    c = U(data[p])
    while not is_blank(c) and c != BAR:
        p += U1
        c = U(data[p])
    return p


@kernel
def name_end(data: Any, p: Any) -> Any:
    """The end of the name at p: a colon, or where `token_end` is."""
    while True:
        p += count_trailing_zeros(name_marks(word_at(data, p))) >> U3
        if ENDS_NAME[data[p]]:
            return p
        p += U1  # another control character, or the byte after a word without marks


@kernel
def long_name(data: Any, start: Any, p: Any, seed: Any) -> Any:
    """Parse a name that begins at `start` and does not end before p: (position after it, its hash)."""
    stop = name_end(data, p)
    return stop, hash_name(data, start, stop, seed)


@kernel(forceinline=True)
def parse_name(data: Any, p: Any, seed: Any) -> Any:
    """Parse the name at p: (position after it, its hash). Up to seven bytes are handled as one word."""
    word = word_at(data, p)
    length = count_trailing_zeros(name_marks(word)) >> U3
    stop = p + length
    if length == U8 or not ENDS_NAME[data[stop]]:
        return long_name(data, p, stop, seed)
    digits, number = leading_digits(word)
    return stop, number + seed if digits == length else murmur3_of_word(word, length, seed)


@kernel(forceinline=True)
def parse_value(data: Any, p: Any) -> Any:
    """Parse an optional ``:value`` after a name: (code, position after it, value). Without one, the value is 1."""
    if U(data[p]) != COLON:
        return OK, p, 1.0
    p += U1
    value, after = parse_number(data, p)
    if after == p:
        return BAD_VALUE, p, value
    if np.isinf(value):
        return NOT_FINITE, p, value
    if not ENDS_TOKEN[data[after]]:
        return NO_SPACE, after, value
    return OK, after, value


@kernel
def parse_head(data: Any, p: Any, labels: Any, count: int, exact: int) -> Any:
    """Parse the text before the first bar: (code, position of the bar, new label count, large labels, importance)."""
    importance = 1.0
    token, large = 0, 0
    while True:
        p = skip_blanks(data, p)
        c = U(data[p])
        if c == BAR:
            return OK, p, count, large, importance
        if c == NEWLINE:
            return NO_BAR, p, count, large, importance
        stop = token_end(data, p)
        if c == QUOTE or U(data[stop]) == BAR:  # a tag: only the bar may follow
            p = skip_blanks(data, stop)
            return (OK if U(data[p]) == BAR else NO_BAR), p, count, large, importance
        if token == 0:
            code, after, count, large = parse_labels(data, p, labels, count, exact)
            if code != OK:
                return code, after, count, large, importance
            if after != stop:
                return BAD_LABEL, p, count, large, importance
        else:
            value, after = parse_number(data, p)
            if token == 1:
                if after != stop or value < 0.0 or np.isinf(value):
                    return BAD_IMPORTANCE, p, count, large, importance
                importance = value
            elif token > 2 or after != stop or value != 0.0:
                return (BAD_BASE if token == 2 else TOO_MANY_TOKENS), p, count, large, importance
        p = stop
        token += 1


@kernel
def note_name(names: Any, seed: Any, start: Any, stop: Any) -> None:
    """Remember the span of a namespace in a small hash table, unless the table is full."""
    slot = np.int64(seed * MULTIPLIER >> NAME_SLOT_SHIFT)
    for step in range(MAX_NAMES):
        place = (slot + step) % MAX_NAMES
        if names[place, 1] == 0:
            names[place, 0], names[place, 1], names[place, 2] = np.int64(start), np.int64(stop), np.int64(seed)
            return
        if names[place, 2] == np.int64(seed):
            return


@kernel
def kind_of(seed: Any, wanted: Any) -> Any:
    """The place of a namespace among the wanted ones, from 1; 0 for any other."""
    for place in range(wanted.shape[0]):
        if wanted[place] == seed:
            return np.uint8(place + 1)
    return np.uint8(0)


@kernel(borrows=True)
def end_namespace(rows: Any, start: int, stop: int, seed: Any, kind: Any, limits: Any) -> int:
    """Append the n-grams of the namespace with the entries start … stop; the new end, or −1 if there is no room."""
    count = count_of(limits.patterns, seed)
    if count == 0 or stop - start < 2:
        return stop
    end = add_ngrams(rows.indices, rows.values, start, stop, limits.patterns, count, limits.mask)
    if rows.kinds.shape[0] > 0:
        for i in range(stop, end):
            rows.kinds[i] = kind
    return end


@kernel(borrows=True)
def parse_namespaces(data: Any, p: Any, rows: Any, entry: int, limits: Any) -> Any:
    """Parse from the first bar to the end of the line: (code, position, entries so far)."""
    values, indices, kinds = rows.values, rows.indices, rows.kinds
    capacity = indices.shape[0]
    seed, weight, unnamed, kind, first = U0, 1.0, U0, np.uint8(0), entry
    while True:
        c = U(data[p])
        if c in (NEWLINE, BAR):
            end = end_namespace(rows, first, entry, seed, kind, limits)
            if c == NEWLINE or end < 0:
                return (OK, p, end) if end >= 0 else (FULL, p, entry)
            first = entry = end
        start = p
        if c == BAR:
            p = name_end(data, start + U1)
            seed = U0 if p == start + U1 else hash_name(data, start + U1, p, U0)
            if p > start + U1:
                note_name(rows.names, seed, start + U1, p)
            kind = kind_of(seed, limits.wanted)
            code, p, weight = parse_value(data, p)
            if code != OK:
                return code, p, entry
            unnamed = U0
        else:
            p, column = parse_name(data, start, seed)
            if p == start:
                column = seed + unnamed
                unnamed += U1
            code, p, value = parse_value(data, p)
            if code != OK:
                return code, p, entry
            value *= weight
            if value != 0.0:
                if entry >= capacity:
                    return FULL, p, entry
                values[entry] = value
                if np.isinf(values[entry]):
                    return NOT_FINITE, start, entry
                indices[entry] = np.int64(column & limits.mask)
                if kinds.shape[0] > 0:
                    kinds[entry] = kind
                entry += 1
        p = skip_blanks(data, p)


@kernel(borrows=True)
def parse_chunk(data: Any, rows: Any, bad: Any, limits: Any) -> Any:
    """Parse whole lines into `rows`, and note errors in `bad`; stop when `bad` is full."""
    row, entry, label, n_bad, most_labels, unlabelled, large = 0, 0, 0, 0, 0, 0, 0
    is_full = False
    first_unlabelled: Any = -1
    p, end = U0, U(data.shape[0])
    while p < end and n_bad < bad.shape[0]:
        p = skip_blanks(data, p)
        if U(data[p]) == NEWLINE:
            p += U1
            continue
        start, stop = p, entry
        code, p, label_stop, n_large, importance = parse_head(data, p, rows.labels, label, limits.exact)
        if code == OK:
            code, p, stop = parse_namespaces(data, p, rows, entry, limits)
        if code not in (OK, FULL):
            n_bad, p = skip_bad_line(data, p, code, bad, n_bad)
            continue
        is_full = code == FULL or row >= rows.row_end.shape[0]
        if is_full:
            break
        if limits.merge:
            sort_entries(rows.indices, rows.values, entry, stop)
            stop = merge_entries(rows.indices, rows.values, entry, stop)
        most_labels = max(most_labels, label_stop - label)
        large += n_large
        if label_stop == label:
            unlabelled += 1
            first_unlabelled = np.int64(start) if first_unlabelled < 0 else first_unlabelled
        rows.extras[row] = importance
        entry, label = stop, label_stop
        rows.row_end[row] = entry
        rows.label_end[row] = label
        row += 1
        p += U1
    return Found(row, entry, label, n_bad, 0, -1, most_labels, unlabelled, first_unlabelled, row, -1, large, is_full)


def _bounds(per_feature: int, data: np.ndarray) -> tuple[int, int, int]:
    """Upper bounds of rows, entries and labels. A blank stands before every feature, so blanks bound the entries."""
    found = count_separators(data)
    return found.newlines, found.blanks * per_feature, found.newlines + found.commas


MESSAGES = {
    **EXPECTED,
    NO_BAR: "'|' before the features",
    BAD_IMPORTANCE: "an importance weight: a finite number, at least 0",
    BAD_BASE: "0 or nothing (initial predictions are not supported)",
    TOO_MANY_TOKENS: "'|' after label, importance and base",
}


def _parser(options: ReadOptions, schema: Schema | None) -> Parser:
    bits = options.bits if schema is None else int(schema.settings["bits"])
    if not 1 <= bits <= MAX_BITS:
        raise OptionError(f"bits={bits} must lie between 1 and {MAX_BITS}")
    wanted = ngrams.of_options(options) if schema is None else ngrams.of_settings(schema.settings)
    patterns = patterns_of(wanted)
    limits = Limits(U((1 << bits) - 1), NO_SEEDS, True, patterns)
    bounds = partial(_bounds, 1 + len(patterns.places))
    return Parser(parse_chunk, bounds, np.float64, limits, MESSAGES, options, MAX_NAMES)


def _schema(facts: Facts, options: ReadOptions) -> Schema:
    wanted = ngrams.of_options(options)
    message = wanted.unseen(facts.names)
    if message is not None:
        warnings.warn(message, UserWarning, stacklevel=6)
    settings = {"bits": options.bits, "namespaces": sorted(facts.names)}
    return Schema("vw", 1 << options.bits, settings | wanted.settings())


def _columns(parsed: Parsed, schema: Schema, parser: Parser) -> None:
    """Do nothing: the indices of the kernel are columns already."""


def _extras(parsed: Parsed) -> dict[str, Any]:
    return {"weights": None if np.all(parsed.extras == 1.0) else parsed.extras}


READER = TextReader("vw", _parser, _schema, _columns, _extras, labels_required=False)


def read(paths: list[str], options: ReadOptions, schema: Schema | None = None) -> Dataset:
    """Read VW files as one dataset; with a `schema`, hashed as it says."""
    return READER.read(paths, options, schema)


def read_blocks(paths: list[str], options: ReadOptions, schema: Schema | None = None) -> Iterator[Dataset]:
    """Read VW files block by block, in bounded memory; without a `schema`, a first pass finds the labels."""
    return READER.read_blocks(paths, options, schema)
