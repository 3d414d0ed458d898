"""The decompressed bytes of a file or of standard input, as a stream."""

from __future__ import annotations

import bz2
import contextlib
import gzip
import io
import os
import select
import shutil
import sys
import threading
import zlib
from collections.abc import Iterator
from typing import Any, BinaryIO

from lineal.data.source import STDIN, cannot_read, compression_of, display_name
from lineal.errors import DataError
from lineal.system.files import scratch_folder

#: Set when pipes must end with what they have delivered: a read that waits for more cannot be interrupted.
pipes_end = threading.Event()

#: Seconds between two looks at `pipes_end`.
LOOK_EVERY = 0.1

BUFFER_BYTES = 1 << 18


class _Rejoined(io.RawIOBase):
    """A stream in front of which the bytes are put back that were read to recognise its compression."""

    def __init__(self, head: bytes, stream: io.BufferedReader) -> None:
        self._head, self._stream = head, stream
        self._has_buffer = True  # the bytes that were read together with the head

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        got = self._head[: len(buffer)] or self._some(len(buffer))
        self._head = self._head[len(got) :]
        buffer[: len(got)] = got
        return len(got)

    def _some(self, count: int) -> bytes:
        """The bytes that a pipe has now, instead of waiting until it has `count` of them."""
        if not self._has_buffer and not _has_more(self._stream):
            return b""
        self._has_buffer = False
        return self._stream.read1(count) or b""

    def close(self) -> None:
        if sys.stdin is None or self._stream is not sys.stdin.buffer:
            self._stream.close()
        super().close()


def _has_more(stream: BinaryIO) -> bool:
    """Wait until a pipe has something or is closed; False if pipes must end first."""
    try:
        number = stream.fileno()
        while not select.select([number], [], [], LOOK_EVERY)[0]:
            if pipes_end.is_set():
                return False
    except (OSError, ValueError):  # not a file of the system, or a system that cannot wait for one
        pass
    return True


class _Bzip2:
    """The decompressed bytes of one or more bzip2 streams. What follows them is an error: `bz2.BZ2File` drops it, and
    with it every further stream whose first bytes are damaged."""

    def __init__(self, source: BinaryIO) -> None:
        self._source, self._part = source, bz2.BZ2Decompressor()

    def read(self, count: int) -> bytes:
        """Some bytes, at most `count`; none at the end."""
        while True:
            raw = b""
            if self._part.eof:
                raw = self._part.unused_data or self._source.read(BUFFER_BYTES)
                if not raw:
                    return b""
                self._part = bz2.BZ2Decompressor()
            elif self._part.needs_input:
                raw = self._source.read(BUFFER_BYTES)
                if not raw:
                    raise EOFError("it ends before its end mark")
            if got := self._part.decompress(raw, count):
                return got

    def close(self) -> None:
        """Nothing: the source is closed by whoever opened it."""


class _Decompressed(io.RawIOBase):
    """A decompressing stream whose errors name the file and what is wrong with it."""

    def __init__(self, stream: Any, source: Any, path: str, kind: str) -> None:
        self._stream, self._source, self._path, self._kind = stream, source, path, kind

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        try:
            got = self._stream.read(len(buffer))
        except EOFError as error:
            if pipes_end.is_set():
                return 0
            raise DataError(f"{self._path}: the {self._kind} data is truncated ({error})") from error
        except (OSError, zlib.error, ValueError) as error:
            what = "truncated" if "runcated" in str(error) else "corrupt"
            raise DataError(f"{self._path}: the {self._kind} data is {what} ({error})") from error
        buffer[: len(got)] = got
        return len(got)

    def close(self) -> None:
        self._stream.close()
        self._source.close()
        super().close()


def _open_raw(path: str) -> Any:
    if path == STDIN:
        if sys.stdin is None:
            raise DataError("cannot read standard input: it is closed")
        return sys.stdin.buffer
    try:
        return open(path, "rb")
    except OSError as error:
        raise cannot_read(path, error) from error


#: Standard input after a look at its beginning: the stream, those bytes, and the rest of it, both decompressed.
_looked_at: tuple[Any, bytes, io.BufferedReader] | None = None


def stdin_head(count: int) -> bytes:
    """The first `count` decompressed bytes of standard input, or fewer if it ends; `open_bytes` gives them again.

    The first write to a pipe may hold less, so this waits until there is enough.
    """
    global _looked_at
    stream = open_bytes(STDIN)
    head = stream.read(count)
    _looked_at = sys.stdin, head, stream
    return head


def open_bytes(path: str) -> io.BufferedReader:
    """Open a file or standard input; gzip, bzip2 and zstd are recognised by their first bytes and decompressed."""
    global _looked_at
    if path == STDIN and _looked_at is not None:
        (owner, head, rest), _looked_at = _looked_at, None
        if owner is sys.stdin:
            return io.BufferedReader(_Rejoined(head, rest), BUFFER_BYTES)
    raw = _open_raw(path)
    try:
        head = raw.read(4)
    except OSError as error:
        raise cannot_read(display_name(path), error) from error
    kind = compression_of(head)
    if kind is None and path != STDIN and os.path.isfile(path):
        raw.seek(0)
        return raw
    source: io.BufferedReader = io.BufferedReader(_Rejoined(head, raw), BUFFER_BYTES)
    if kind is None:
        return source
    stream: Any
    if kind == "gzip":
        stream = gzip.GzipFile(fileobj=source)
    elif kind == "bzip2":
        stream = _Bzip2(source)
    else:
        import pyarrow as pa  # only zstd needs it here: the standard library has none before Python 3.14

        stream = pa.CompressedInputStream(pa.PythonFile(source, mode="r"), "zstd")
    return io.BufferedReader(_Decompressed(stream, source, display_name(path), kind), BUFFER_BYTES)


@contextlib.contextmanager
def spooled(paths: list[str]) -> Iterator[list[str]]:
    """Paths that can be read twice: standard input and pipes are copied to temporary files."""
    with contextlib.ExitStack() as stack:
        yield [path if path != STDIN and os.path.isfile(path) else _spool(path, stack) for path in paths]


def _spool(path: str, stack: contextlib.ExitStack) -> str:
    copy = os.path.join(stack.enter_context(scratch_folder()), "copy")
    with open_bytes(path) as stream, open(copy, "wb") as file:
        shutil.copyfileobj(stream, file)
    return copy
