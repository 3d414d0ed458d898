"""The text of a CSV file: its first record, pieces of whole records with every quote checked, and a single record."""

from __future__ import annotations

import csv
import io
import os
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import BinaryIO

from lineal.data.byte_stream import open_bytes
from lineal.data.chunks import MAX_LINE_BYTES
from lineal.data.source import BYTE_ORDER_MARK, STDIN
from lineal.data.tables.header import long_cells
from lineal.data.tables.quotes import QuoteCheck
from lineal.errors import DataError, ParseError

RECORD_END = re.compile(rb"\r\n|\n|\r")

#: Number of bytes that are looked at first.
HEAD_BYTES = 1 << 16


class CsvText:
    """A stream whose beginning can be looked at before it is read. A byte order mark and blank lines are skipped."""

    def __init__(self, stream: BinaryIO, path: str) -> None:
        self._stream, self._path, self._head = stream, path, b""
        head = self.look(HEAD_BYTES)
        if head.startswith((b"\xff\xfe", b"\xfe\xff")):
            raise DataError(f"{path} is UTF-16 text: convert it to UTF-8")
        text = head.removeprefix(BYTE_ORDER_MARK)
        self._head = text.lstrip(b"\r\n")
        self._blank_lines = text[: len(text) - len(self._head)]
        self.first, self.length, self._end = self._first_record()

    def look(self, size: int) -> bytes:
        """The next `size` bytes, or all if there are fewer; they stay to be read."""
        pieces = [self._head]
        missing = size - len(self._head)
        while missing > 0 and (piece := self._stream.read(missing)):
            pieces.append(piece)
            missing -= len(piece)
        self._head = b"".join(pieces) if len(pieces) > 1 else self._head
        return self._head[:size]

    def _first_record(self) -> tuple[bytes, int, bytes]:
        """The first record without its line end, the number of bytes of both, and the byte that ends records."""
        size = HEAD_BYTES
        while True:
            head = self.look(size)
            found = _record_end(head)
            if found is not None or len(head) < size or size >= MAX_LINE_BYTES:
                break
            size *= 8
        if not head.strip():
            raise DataError(f"{self._path} is empty")
        found = found or RECORD_END.search(head)  # a quote that is never closed is reported later
        if found is None:
            return head, len(head), b"\n"
        return head[: found.start()], found.end(), found[0][-1:]

    def pieces(self, delimiter: str, skips_first: bool, size: int) -> Iterator[bytes]:
        """Pieces of whole records, of about `size` bytes; with `skips_first`, without the first record.

        A quote that is not closed properly is a ParseError, raised before any record after it is returned.
        """
        quotes = QuoteCheck(self._path, delimiter, self._end)
        skipped = self.length if skips_first else 0
        quotes.feed(self._blank_lines + self._head[:skipped])
        self._head = self._head[skipped:]
        held: list[bytes] = []  # the beginning of a record whose end was not read yet
        while text := self._read(size):
            cut = quotes.feed(text)
            if cut:
                yield b"".join([*held, memoryview(text)[:cut]])
                held = [text[cut:]]
            else:
                held.append(text)
                if sum(map(len, held)) > MAX_LINE_BYTES:
                    raise quotes.too_long(MAX_LINE_BYTES)
        quotes.end()
        yield b"".join(held)

    def _read(self, size: int) -> bytes:
        got = self._head[:size]
        self._head = self._head[size:]
        return got or self._stream.read(size) or b""


def _record_end(text: bytes) -> re.Match[bytes] | None:
    """The first line end that is not inside quotes."""
    quotes = start = 0
    for end in RECORD_END.finditer(text):
        quotes += text.count(b'"', start, end.start())
        start = end.start()
        if quotes % 2 == 0:
            return end
    return None


@dataclass(frozen=True)
class Records:
    """Finds single records of a file by reading it once more, to report an error."""

    file: str
    delimiter: str
    width: int
    has_header: bool

    def find(self, number: int, whole: bool = False) -> tuple[int, str] | None:
        """Line and text of a record, counted from 1 with the header; None if the file cannot be read again.

        With `whole`, records with too many or too few cells do not count.
        """
        if self.file == STDIN or not os.path.isfile(self.file):
            return None
        try:
            with long_cells(), open_bytes(self.file) as stream:
                return self._find(stream, number, whole)
        except csv.Error:
            return None

    def _find(self, stream: BinaryIO, number: int, whole: bool) -> tuple[int, str] | None:
        texts: list[str] = []

        def lines() -> Iterator[str]:
            for line in io.TextIOWrapper(stream, "latin-1", newline=""):  # a character is a byte
                texts.append(line if texts or reader.line_num else line.removeprefix(BYTE_ORDER_MARK.decode("latin-1")))
                yield texts[-1]

        reader = csv.reader(lines(), delimiter=self.delimiter)
        seen, start = 0, 1
        for cells in reader:
            if cells and (not whole or len(cells) == self.width or (seen == 0 and self.has_header)):
                seen += 1
                if seen == number:
                    return start, "".join(texts)
            texts.clear()
            start = reader.line_num + 1
        return None

    def line_of_row(self, row: int) -> int | None:
        """The line of a row of the table, which is counted from 0."""
        found = self.find(row + 1 + self.has_header, whole=True)
        return None if found is None else found[0]

    def bad_cell(self, path: str, found: tuple[int, str] | None, column: int, what: str, expected: str) -> DataError:
        """The error for a cell of the record that `find` returned, in the column with this number."""
        if found is None:
            return DataError(f"{path}: found {what}, expected {expected}")
        line, text = found
        mark = re.escape(self.delimiter)
        cell, start = re.compile(rf'(?:"(?:[^"]|"")*")?[^{mark}]*{mark}'), 0
        for _ in range(column):
            match = cell.match(text, start)
            start = start if match is None else match.end()
        ends = list(re.finditer(r"\r\n|\r|\n", text[:start]))
        return ParseError(path, line + len(ends), start - (ends[-1].end() if ends else 0) + 1, what, expected)
