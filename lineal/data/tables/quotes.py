"""Checks where quoted cells of a CSV file begin and end, so that a stray quote cannot swallow the rows after it.

A quote opens a cell only at its beginning, two quotes inside stand for one, and the closing quote ends the cell. Less
strict parsers take everything up to the next quote, or to the end of the file, as one cell.
"""

from __future__ import annotations

import re

import numpy as np

from lineal.errors import ParseError

QUOTE, NEWLINE, RETURN = b'"\n\r'


class QuoteCheck:
    """Scans the bytes of a file, piece by piece, and raises an error at a quote that is not closed properly."""

    def __init__(self, path: str, delimiter: str, record_end: bytes = b"\n") -> None:
        self._path = path
        self._delimiter, self._record_end = delimiter.encode()[0], record_end
        marks = {self._delimiter, NEWLINE, RETURN}
        ends = b"[" + re.escape(bytes(sorted(marks))) + b"]"
        self._opening = re.compile(rb"(?<=" + ends + rb')"')
        self._rest = re.compile(b"[" + bytes({*b" \t"} - marks) + b"]*(?=" + ends + rb"|\Z)")
        self._before = b"\n"  # the byte before the next piece, and bytes that are scanned together with it
        self._line, self._column = 1, 1  # of the first byte that was not scanned
        self._opened: tuple[int, int] | None = None  # line and column of the quote that is open

    def feed(self, piece: bytes) -> int:
        """Scan the next bytes; return the end of the last record that ends in them, or 0."""
        if self._opened is None and len(self._before) == 1 and b'"' not in piece:
            return self._pass_over(piece)
        data, offset = self._before + piece, len(self._before)
        # Whether a quote closes a cell depends on the byte after it.
        stop = len(data.rstrip(b'" \t'))
        stop = len(data) if b'"' not in data[stop:] else max(stop, 1)
        return max(self._scan(data, stop) - offset, 0)

    def _pass_over(self, piece: bytes) -> int:
        """As `feed`, for bytes without quotes, which is the usual case: they are not copied."""
        for end in (b"\n", b"\r"):
            if lines := _count(piece, end):
                self._line, self._column = self._line + lines, len(piece) - piece.rfind(end)
                break
        else:
            self._column += len(piece)
        self._before = piece[-1:] or self._before
        return piece.rfind(self._record_end) + 1

    def end(self) -> None:
        """Check the end of the file."""
        data = self._before
        self._scan(data + b"\n", len(data))
        if self._opened is not None:
            raise ParseError(
                self._path, *self._opened, "a quote that is never closed", 'a closing " before the end of the file'
            )

    def too_long(self, size: int) -> ParseError:
        """The error for a record with more bytes than `size`."""
        line, column = self._opened or (self._line, self._column)
        what = "a cell" if self._opened else "a row"
        return ParseError(self._path, line, column, f"{what} of more than {size} bytes", "a closing quote before")

    def _scan(self, data: bytes, stop: int) -> int:
        """Scan data[1:stop]; return the end of the last record that ends there, or 0."""
        end = self._regular(data, stop)
        end = self._scan_each(data, stop) if end is None else end
        self._done(data, stop)
        return end

    def _done(self, data: bytes, stop: int) -> None:
        """Note that everything before `stop` was scanned."""
        self._line, self._column = self._place(data, stop)
        self._before = data[stop - 1 :]

    def _regular(self, data: bytes, stop: int) -> int | None:
        """As `_scan`, if every quote is at the beginning or the end of a cell, which is the usual case; else None."""
        array = np.frombuffer(data, np.uint8)
        quotes = 1 + np.flatnonzero(array[1:stop] == QUOTE)
        is_open = self._opened is not None
        if quotes.size:
            after = array[np.minimum(quotes[1 - is_open :: 2] + 1, array.size - 1)]
            ahead = array[quotes[int(is_open) :: 2] - 1]
            if not self._are_ends(after) or not self._are_ends(ahead):
                return None
            if is_open == bool(quotes.size % 2):
                self._opened = None
            else:
                self._opened = self._last_opening(data, quotes[int(is_open) :: 2][ahead != QUOTE])
        end = stop
        while (end := data.rfind(self._record_end, 1, end)) > 0:
            before = int(np.searchsorted(quotes, end))
            if (before + is_open) % 2 == 0:
                return end + 1
            if before == 0:
                return 0
            end = int(quotes[before - 1])  # where the cell that contains this line end was opened
        return 0

    def _last_opening(self, data: bytes, openings: np.ndarray) -> tuple[int, int] | None:
        """Line and column of the last quote that opens a cell; that of an earlier piece if there is none."""
        return self._place(data, int(openings[-1])) if openings.size else self._opened

    def _are_ends(self, neighbours: np.ndarray) -> bool:
        """Whether these bytes end cells, or are quotes that form a pair with the quote beside them."""
        fits = neighbours == self._delimiter
        for other in (NEWLINE, QUOTE, RETURN):
            if fits.all():
                return True
            fits |= neighbours == other
        return bool(fits.all())

    def _scan_each(self, data: bytes, stop: int) -> int:
        """As `_scan`, quote by quote: some may be in the middle of cells that are not quoted."""
        at, end = 1, 0
        while True:
            if self._opened is None:
                opening = self._opening.search(data, at - 1, stop)
                end = max(end, data.rfind(self._record_end, at, stop if opening is None else opening.start()) + 1)
                if opening is None:
                    return end
                self._opened, at = self._place(data, opening.start()), opening.end()
            while (closing := data.find(b'"', at, stop)) >= 0 and data[closing + 1 : closing + 2] == b'"':
                at = closing + 2
            if closing < 0:
                return end
            at = closing + 1
            if not self._rest.match(data, at):
                raise self._misplaced(data, at)
            self._opened = None

    def _misplaced(self, data: bytes, at: int) -> ParseError:
        assert self._opened is not None
        line, column = self._place(data, at)
        text = re.split(rb"[\r\n]", data[at : at + 40])[0].decode("utf-8", "backslashreplace")
        opened = self._opened[0]
        where = "" if opened == line else f" (the quote opened in line {opened}: is its end missing?)"
        return ParseError(self._path, line, column, f"{text!r} after a closing quote", f"the end of the cell{where}")

    def _place(self, data: bytes, at: int) -> tuple[int, int]:
        """Line and column of a byte, both from 1; a line end is a newline or, in a text without newlines, a return."""
        for end in (b"\n", b"\r"):
            if lines := _count(data[1:at], end):
                return self._line + lines, at - data.rfind(end, 0, at)
        return self._line, self._column + at - 1


def _count(text: bytes, mark: bytes) -> int:
    """As `text.count(mark)` for one byte, but several times as fast if the byte is frequent."""
    return int(np.count_nonzero(np.frombuffer(text, np.uint8) == mark[0]))
