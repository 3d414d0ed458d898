"""The text of a CSV file: its first record, and pieces of whole records, with every quote checked."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import BinaryIO

from lineal.data.source import BYTE_ORDER_MARK, MAX_LINE_BYTES
from lineal.data.tables.quotes import QuoteCheck
from lineal.errors import DataError

RECORD_END = re.compile(rb"\r\n|\n|\r")

#: Bytes that are looked at first.
HEAD_BYTES = 1 << 16


class CsvText:
    """A stream whose beginning can be looked at before it is read; without byte order mark and leading blank lines."""

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
        """The next `size` bytes, or all there are."""
        pieces = [self._head]
        missing = size - len(self._head)
        while missing > 0 and (piece := self._stream.read(missing)):
            pieces.append(piece)
            missing -= len(piece)
        self._head = b"".join(pieces) if len(pieces) > 1 else self._head
        return self._head[:size]

    def _first_record(self) -> tuple[bytes, int, bytes]:
        """The first record without its end, the number of bytes that both take, and the byte that ends records."""
        size = HEAD_BYTES
        while True:
            head = self.look(size)
            found = _record_end(head)
            if found is not None or len(head) < size or size >= MAX_LINE_BYTES:
                break
            size *= 8
        if not head.strip():
            raise DataError(f"{self._path} is empty")
        found = found or RECORD_END.search(head)  # a quote that is never closed is found later
        if found is None:
            return head, len(head), b"\n"
        return head[: found.start()], found.end(), found[0][-1:]

    def pieces(self, delimiter: str, skips_first: bool, size: int) -> Iterator[bytes]:
        """Whole records, in pieces of about `size` bytes; without the first record where that is wanted.

        A quote that is not closed properly is a ParseError before any record after it is given out.
        """
        quotes = QuoteCheck(self._path, delimiter, self._end)
        skipped = self.length if skips_first else 0
        quotes.feed(self._blank_lines + self._head[:skipped])
        self._head = self._head[skipped:]
        held: list[bytes] = []  # no record ends in here
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
    """The first end of a line that is not inside quotes."""
    quotes = start = 0
    for end in RECORD_END.finditer(text):
        quotes += text.count(b'"', start, end.start())
        start = end.start()
        if quotes % 2 == 0:
            return end
    return None
