"""Tables with hashed levels as a stream, in a single pass: for pipes, and for files that are read once.

Hashing needs no vocabulary. What else an encoding needs (the kinds of the columns, the mean of numbers that are
missing, the type of the labels) is taken from the first piece of the table: about a megabyte of text, or the first
record batch of a binary file. Memory: the head of the input that is looked at, and the blocks.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from functools import partial

from lineal.data.byte_stream import open_bytes, stdin_head
from lineal.data.dataset import Dataset
from lineal.data.options import MIB, ReadOptions
from lineal.data.schema import Schema
from lineal.data.source import STDIN
from lineal.data.tables.csv import Widened
from lineal.data.tables.reader import TableFiles, read_blocks
from lineal.errors import DataError
from lineal.system.files import scratch_folder

#: Bytes that are looked at: enough for the first piece and the record that it ends in.
HEAD_BYTES = 8 * MIB

#: Bytes of JSON lines in the first piece; a piece of a CSV file is as large.
FIRST_BYTES = MIB

#: Formats that are read in one pass: lines of text, and binary ones, of which only a regular file has a first piece.
BINARY = ("parquet", "arrow")
FORMATS = ("csv", "tsv", "jsonl", *BINARY)


def blocks(paths: list[str], options: ReadOptions) -> Iterator[Dataset]:
    """The table in blocks of rows, encoded as its first piece shows; in two passes if that piece cannot be read."""
    return read_blocks(paths, options, _schema_of_head(paths[0], options))


def _schema_of_head(path: str, options: ReadOptions) -> Schema | None:
    """How the first piece of a table is encoded; None if it is not whole, or has an error that the reader will find."""
    if options.format in BINARY:
        return None if path == STDIN or not os.path.isfile(path) else _schema_unless_wrong([path], [path], options)
    if path == STDIN:
        head = stdin_head(HEAD_BYTES)
    elif os.path.isfile(path):
        with open_bytes(path) as stream:
            head = stream.read(HEAD_BYTES)
    else:
        return None  # what is read from a pipe is gone
    if len(head) == HEAD_BYTES and b"\n" not in head[: HEAD_BYTES // 8]:
        return None  # the first piece has several lines, and could be longer than the head
    with scratch_folder() as folder:
        copy = os.path.join(folder, "head")
        with open(copy, "wb") as file:
            file.write(head)
        return _schema_unless_wrong([copy], [path], replace(options, block_bytes=FIRST_BYTES))


def _schema_unless_wrong(files: list[str], names: list[str], options: ReadOptions) -> Schema | None:
    try:
        return _schema_of_first_piece(TableFiles(files, names, options, None))
    except DataError:
        return None


def _schema_of_first_piece(table: TableFiles) -> Schema:
    while True:
        try:
            with closing(table.stream()) as batches:  # type: ignore[type-var]
                first = next(batches, None)
            survey = table.new_survey()
            if first is not None:
                survey.update(*first)
            table.settle(survey, partial(list, [] if first is None else [first]))
            return table.known.schema()
        except Widened:
            continue
