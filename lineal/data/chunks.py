"""Text in chunks of whole lines, which stay on disk until they are parsed, and positions in them for error messages."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass
from typing import BinaryIO

import numpy as np

from lineal.data.source import BYTE_ORDER_MARK, STDIN, PlainFile, changed, compression_of, display_name
from lineal.errors import ParseError

#: A line of this length or more is refused: the file is of another kind, and the line would be held in memory whole.
MAX_LINE_BYTES = 256 << 20

NEWLINE = 10

#: Bytes in which newlines are counted at a time.
COUNT_STEP = 1 << 20

#: Bytes that are first searched for the end of a line.
LOOK_BYTES = 1 << 12

#: Bytes of a token that messages show.
SHOWN_BYTES = 40


@dataclass(frozen=True)
class Chunk:
    """Whole lines of one file, and where they begin.

    Attributes
    ----------
    path : the file, as the user named it ("<stdin>" for standard input).
    text : the bytes, ending with a newline; None if they stay in `file` until they are needed.
    lines_before : number of lines of the stream before this chunk.
    file : the file that has the bytes, from `start` to `stop`; a missing last newline is added to them.
    """

    path: str
    text: np.ndarray | None
    lines_before: int = 0
    file: PlainFile | None = None
    start: int = 0
    stop: int = 0

    @property
    def size(self) -> int:
        """Number of bytes, not counting a newline that is added."""
        return self.stop - self.start if self.text is None else self.text.size

    @property
    def is_in_memory(self) -> bool:
        """Whether keeping the chunk takes memory."""
        return self.text is not None

    @property
    def first_line(self) -> int:
        """Number of the chunk's first line, from 1. In a plain file, the lines before it are counted on demand."""
        return 1 + (self.lines_before if self.file is None else _lines_before(self.file, self.start))

    @property
    def data(self) -> np.ndarray:
        """The bytes, read-only; those of a file are read into new memory."""
        return self.load(np.empty(0, np.uint8))

    def load(self, buffer: np.ndarray) -> np.ndarray:
        """The bytes, read-only; those of a file are read into `buffer` if they fit."""
        if self.text is not None:
            return self.text
        assert self.file is not None
        size = self.stop - self.start
        if buffer.size < size + 1:
            buffer = np.empty(size + 1, np.uint8)
        self.file.read_into(buffer[:size], self.start)
        if buffer[size - 1] != NEWLINE:
            if self.stop < self.file.size:
                raise changed(self.path)
            buffer[size] = NEWLINE
            size += 1
        data = buffer[:size]
        data.flags.writeable = False  # like the text of streams: kernels are compiled for one type
        return data


@dataclass(frozen=True)
class Position:
    """A byte of a chunk."""

    chunk: Chunk
    offset: int

    def line_and_column(self) -> tuple[int, int]:
        """Line number and byte column, both from 1."""
        before = self.chunk.data[: self.offset]
        line_start = before.tobytes().rfind(b"\n") + 1
        return self.chunk.first_line + count_lines(before), self.offset - line_start + 1

    def token(self) -> str:
        """The token that begins at this byte, quoted and cut to a readable length."""
        rest = self.chunk.data[self.offset : self.offset + SHOWN_BYTES + 1].tobytes()
        if rest[:1] in (b"\n", b"\r"):
            return "the end of the line"
        token = (rest.split() or [b""])[0] if not rest[:1].isspace() else rest[:1]
        text = token.decode("utf-8", "backslashreplace")
        return repr(text) if len(token) <= SHOWN_BYTES else repr(text[:SHOWN_BYTES]) + "…"

    def error(self, expected: str, skipped: int = 0, found: str | None = None) -> ParseError:
        """The error for the token at this byte, after `skipped` malformed lines were left out."""
        line, column = self.line_and_column()
        if skipped:
            expected += f" (malformed line number {skipped + 1}; max_bad_lines={skipped} were skipped)"
        return ParseError(self.chunk.path, line, column, found or self.token(), expected)


def count_lines(data: np.ndarray) -> int:
    """Number of newlines."""
    steps = range(0, data.size, COUNT_STEP)
    return sum(int(np.count_nonzero(data[start : start + COUNT_STEP] == NEWLINE)) for start in steps)


def line_count(path: str, start: int = 0, stop: int | None = None) -> int | None:
    """Number of lines of a plain file, or of its bytes from `start` to `stop`; None if it is compressed."""
    file = PlainFile(path)
    if compression_of(file.bytes_at(0, min(4, file.size))) is not None:
        return None
    return _lines_before(file, file.size if stop is None else stop, start)


def line_start(file: PlainFile, place: int) -> int:
    """The first byte at `place` or after it with which a line begins; the size of the file if there is none."""
    return 0 if place == 0 else _line_end(file, place - 1, place - 1) or file.size


def line_chunks(path: str, chunk_bytes: int, start: int = 0, stop: int | None = None) -> Iterator[Chunk]:
    """The lines of a file in chunks of about `chunk_bytes`, cut at line ends; the chunks of a plain file stay on disk.

    A missing last newline is added, a byte order mark is left out. A line of `MAX_LINE_BYTES` is a ParseError.
    Of a plain file, the lines can be those from byte `start` to byte `stop`, where lines begin.
    """
    if path != STDIN and os.path.isfile(path):  # opening a pipe to look at it would break it
        file = PlainFile(path)
        head = file.bytes_at(0, min(4, file.size))
        if compression_of(head) is None:
            begin = max(start, len(BYTE_ORDER_MARK) if head[:3] == BYTE_ORDER_MARK else 0)
            yield from _file_chunks(file, begin, file.size if stop is None else stop, chunk_bytes)
            return
    from lineal.data.byte_stream import open_bytes

    with open_bytes(path) as stream:
        yield from _stream_chunks(display_name(path), stream, chunk_bytes)


def _file_chunks(file: PlainFile, start: int, last: int, chunk_bytes: int) -> Iterator[Chunk]:
    while start < last:
        stop = _line_end(file, start, min(start + chunk_bytes, last))
        if stop is None:
            if file.size - start >= MAX_LINE_BYTES:
                raise _overlong(file.path, 1 + _lines_before(file, start))
            stop = file.size
        yield Chunk(file.path, None, 0, file, start, stop)
        start = stop


def _line_end(file: PlainFile, start: int, stop: int) -> int | None:
    """The end of the last line that ends in [start, stop), else of the first line after; None if there is none.

    At most `MAX_LINE_BYTES` are searched.
    """
    step, high = LOOK_BYTES, min(stop, file.size)
    while high > start:
        low = max(start, high - step)
        found = file.bytes_at(low, high).rfind(b"\n")
        if found >= 0:
            return low + found + 1
        step, high = 8 * step, low
    low, last = min(stop, file.size), min(file.size, start + MAX_LINE_BYTES)
    while low < last:
        high = min(low + step, last)
        found = file.bytes_at(low, high).find(b"\n")
        if found >= 0:
            return low + found + 1
        step, low = min(8 * step, COUNT_STEP), high
    return None


def _lines_before(file: PlainFile, stop: int, start: int = 0) -> int:
    """Number of newlines before the position `stop`, from `start` on."""
    buffer = np.empty(min(COUNT_STEP, stop - start), np.uint8)
    total = 0
    for place in range(start, stop, COUNT_STEP):
        part = buffer[: min(COUNT_STEP, stop - place)]
        file.read_into(part, place)
        total += count_lines(part)
    return total


def _stream_chunks(path: str, stream: BinaryIO, chunk_bytes: int) -> Iterator[Chunk]:
    from lineal.data.byte_stream import LOOK_EVERY, pipes_end

    lines = 0
    rest = stream.read(len(BYTE_ORDER_MARK))
    rest = b"" if rest == BYTE_ORDER_MARK else rest
    while True:
        # A line longer than the chunk doubles the next read, so that the total work stays linear in its length.
        piece = stream.read(max(chunk_bytes, len(rest)))
        text = rest + piece
        if not piece:
            # Ctrl-C also ends the program that writes to the pipe, which may leave half a line.
            if text and not pipes_end.wait(LOOK_EVERY):
                yield Chunk(path, _frozen(text if text.endswith(b"\n") else text + b"\n"), lines)
            return
        cut = text.rfind(b"\n") + 1
        if len(text) - cut >= MAX_LINE_BYTES:
            raise _overlong(path, 1 + lines + text.count(b"\n"))
        if cut:
            yield Chunk(path, _frozen(text[:cut]), lines)
            lines += text.count(b"\n", 0, cut)
        rest = text[cut:]


def _frozen(text: bytes) -> np.ndarray:
    return np.frombuffer(text, np.uint8)


def _overlong(path: str, line: int) -> ParseError:
    return ParseError(
        path, line, 1, f"a line of {MAX_LINE_BYTES} bytes or more", "shorter lines (is this a text file?)"
    )
