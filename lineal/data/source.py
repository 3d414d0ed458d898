"""Where text comes from: paths and globs, plain or compressed files, and their bytes in chunks of whole lines."""

from __future__ import annotations

import bz2
import contextlib
import glob
import gzip
import io
import mmap
import os
import select
import shutil
import sys
import threading
import zlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, BinaryIO

import numpy as np

from lineal.errors import DataError, ParseError
from lineal.files import scratch_folder

Path = str | os.PathLike[str]

STDIN = "-"

#: A longer line is refused: it is a file of another kind, and would be held in memory whole.
MAX_LINE_BYTES = 256 << 20

NEWLINE = 10
BYTE_ORDER_MARK = b"\xef\xbb\xbf"
MAGIC = {b"\x1f\x8b": "gzip", b"BZh": "bzip2", b"\x28\xb5\x2f\xfd": "zstd"}
COUNT_STEP = 16 << 20

#: Set where pipes are to end with what they have given: a read that waits for more cannot be interrupted.
pipes_end = threading.Event()

#: Seconds between two looks at `pipes_end`.
LOOK_EVERY = 0.1


@dataclass(frozen=True)
class Chunk:
    """Whole lines of one file: read-only bytes that always end with a newline, and where they begin.

    Attributes
    ----------
    path : the file, as the user named it ("<stdin>" for standard input).
    data : uint8; a view of the memory map where the file is plain (the added last newline is the only copy).
    before : bytes of the file before this chunk where they are mapped, else the number of lines in them.
    """

    path: str
    data: np.ndarray
    before: np.ndarray | int = 0

    @property
    def first_line(self) -> int:
        """Line number of the chunk's first line, from 1. For a mapped file it is counted on demand, from the start."""
        return 1 + (self.before if isinstance(self.before, int) else count_lines(self.before))

    @property
    def is_mapped(self) -> bool:
        """Whether the bytes are the file's own pages, which cost no memory to keep."""
        return not isinstance(self.before, int)


def count_lines(data: np.ndarray) -> int:
    """Number of newlines."""
    steps = range(0, data.size, COUNT_STEP)
    return sum(int(np.count_nonzero(data[start : start + COUNT_STEP] == NEWLINE)) for start in steps)


def line_count(path: str) -> int | None:
    """Number of lines of a plain file; None where it is compressed."""
    with _open_raw(path) as file:
        if _kind(file.read(4)) is not None:
            return None
    return count_lines(np.memmap(path, np.uint8, "r")) if os.path.getsize(path) else 0


def expand(path: Path | Sequence[Path]) -> list[str]:
    """The files that a path, a glob or "-" (standard input) stands for, sorted; at least one. Of several, in order."""
    if isinstance(path, list | tuple):
        if not path:
            raise DataError("no file was named")
        return [file for one in path for file in expand(one)]
    text = os.path.expanduser(os.fspath(path))  # type: ignore[arg-type]
    if text == STDIN or os.path.isfile(text):
        return [text]
    if os.path.isdir(text):
        raise DataError(f"{text} is a directory: name its files, for example {os.path.join(text, '*')!r}")
    if os.path.exists(text):
        return [text]  # a pipe or a device
    if not glob.has_magic(text):
        raise DataError(f"{text} does not exist")
    found = sorted(name for name in glob.glob(text, recursive=True) if not os.path.isdir(name))
    if not found:
        raise DataError(f"no file matches {text!r}")
    return found


class _Joined(io.RawIOBase):
    """A stream with the bytes put back that were read to look at its magic number."""

    def __init__(self, head: bytes, stream: BinaryIO) -> None:
        self._head, self._stream = head, stream
        self._has_buffer = True  # of what came with the head

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        got = self._head[: len(buffer)] or self._some(len(buffer))
        self._head = self._head[len(got) :]
        buffer[: len(got)] = got
        return len(got)

    def _some(self, count: int) -> bytes:
        """What a pipe has now, instead of waiting until it has all that was asked for."""
        if not self._has_buffer and not _has_more(self._stream):
            return b""
        self._has_buffer = False
        read = getattr(self._stream, "read1", self._stream.read)
        return read(count) or b""

    def close(self) -> None:
        if self._stream is not getattr(sys.stdin, "buffer", None):
            self._stream.close()
        super().close()


def _has_more(stream: BinaryIO) -> bool:
    """Wait until a pipe has something or is closed; False where it is to end instead."""
    try:
        number = stream.fileno()
        while not select.select([number], [], [], LOOK_EVERY)[0]:
            if pipes_end.is_set():
                return False
    except (OSError, ValueError):  # no file of the system's, or a system that cannot wait for one
        pass
    return True


class _Checked(io.RawIOBase):
    """A decompressing stream whose failures name the file and what happened."""

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


def display_name(path: str) -> str:
    """The name of a source in messages."""
    return "<stdin>" if path == STDIN else path


def _kind(head: bytes) -> str | None:
    return next((kind for magic, kind in MAGIC.items() if head.startswith(magic)), None)


def _open_raw(path: str) -> BinaryIO:
    if path == STDIN:
        if sys.stdin is None:
            raise DataError("cannot read standard input: it is closed")
        return sys.stdin.buffer
    try:
        return open(path, "rb")
    except OSError as error:
        raise DataError(f"cannot read {path}: {error.strerror or error}") from error


#: Standard input whose beginning was looked at: the stream, those bytes, and the rest of it, both decompressed.
_looked_at: tuple[Any, bytes, BinaryIO] | None = None


def stdin_head(count: int) -> bytes:
    """The first `count` decompressed bytes of standard input (fewer where it ends); `open_bytes` gives them again.

    A pipe gives what its first write held, so this waits until there are enough.
    """
    global _looked_at
    stream = open_bytes(STDIN)
    head = stream.read(count)
    _looked_at = sys.stdin, head, stream
    return head


def open_bytes(path: str) -> BinaryIO:
    """The decompressed bytes of a file or of standard input; gzip, bzip2 and zstd are known by their magic bytes."""
    global _looked_at
    if path == STDIN and _looked_at is not None:
        (owner, head, rest), _looked_at = _looked_at, None
        if owner is sys.stdin:
            return io.BufferedReader(_Joined(head, rest), 1 << 18)
    raw = _open_raw(path)
    try:
        head = raw.read(4)
    except OSError as error:
        raise DataError(f"cannot read {display_name(path)}: {error.strerror or error}") from error
    source = io.BufferedReader(_Joined(head, raw), 1 << 18)
    kind = _kind(head)
    if kind is None:
        return source
    stream: Any
    if kind == "gzip":
        stream = gzip.GzipFile(fileobj=source)
    elif kind == "bzip2":
        stream = bz2.BZ2File(source)
    else:
        import pyarrow as pa  # only zstd needs it here: the standard library has none before Python 3.14

        stream = pa.CompressedInputStream(pa.PythonFile(source, mode="r"), "zstd")
    return io.BufferedReader(_Checked(stream, source, display_name(path), kind), 1 << 18)


@contextlib.contextmanager
def spooled(paths: list[str]) -> Iterator[list[str]]:
    """The same paths, fit to be read twice: standard input and pipes are copied to temporary files."""
    with contextlib.ExitStack() as stack:
        yield [path if path != STDIN and os.path.isfile(path) else _spool(path, stack) for path in paths]


def _spool(path: str, stack: contextlib.ExitStack) -> str:
    copy = os.path.join(stack.enter_context(scratch_folder()), "copy")
    with open_bytes(path) as stream, open(copy, "wb") as file:
        shutil.copyfileobj(stream, file)
    return copy


def line_chunks(path: str, chunk_bytes: int) -> Iterator[Chunk]:
    """The lines of a file in chunks of about `chunk_bytes`, cut at line ends; a plain file is mapped, not copied.

    A missing last newline is added, a byte order mark is left out. A line above `MAX_LINE_BYTES` is a ParseError.
    """
    if path != STDIN and os.path.isfile(path):  # opening a pipe to look at it would break it
        with _open_raw(path) as file:
            if _kind(file.read(4)) is None and os.fstat(file.fileno()).st_size:
                yield from _mapped_chunks(path, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ), chunk_bytes)
                return
    with open_bytes(path) as stream:
        yield from _stream_chunks(display_name(path), stream, chunk_bytes)


def _mapped_chunks(path: str, pages: mmap.mmap, chunk_bytes: int) -> Iterator[Chunk]:
    whole = np.frombuffer(pages, np.uint8)
    start = len(BYTE_ORDER_MARK) if pages[:3] == BYTE_ORDER_MARK else 0
    size = len(pages)
    while start < size:
        stop = pages.rfind(b"\n", start, min(start + chunk_bytes, size)) + 1
        if stop == 0:
            stop = pages.find(b"\n", start, start + MAX_LINE_BYTES) + 1
        if stop == 0:
            if size - start >= MAX_LINE_BYTES:
                raise _overlong(path, Chunk(path, whole[:0], whole[:start]).first_line)
            yield Chunk(path, _frozen(pages[start:] + b"\n"), whole[:start])
            return
        yield Chunk(path, whole[start:stop], whole[:start])
        start = stop
        _let_go(pages, start)


def _let_go(pages: mmap.mmap, stop: int) -> None:
    """Release the pages before `stop`, so that reading in blocks stays small; who needs them again gets them again."""
    length = stop // mmap.PAGESIZE * mmap.PAGESIZE
    if length and hasattr(mmap, "MADV_DONTNEED"):
        pages.madvise(mmap.MADV_DONTNEED, 0, length)


def _stream_chunks(path: str, stream: BinaryIO, chunk_bytes: int) -> Iterator[Chunk]:
    lines = 0
    rest = stream.read(len(BYTE_ORDER_MARK))
    rest = b"" if rest == BYTE_ORDER_MARK else rest
    while True:
        # A line longer than the chunk doubles the next read, so that gluing stays linear in its length.
        piece = stream.read(max(chunk_bytes, len(rest)))
        text = rest + piece
        if not piece:
            # Ctrl-C ends whoever writes to the pipe as well, which may leave half a line.
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
    return np.frombuffer(text, np.uint8)  # read-only, as the pages of a map are: kernels compile for one type


def _overlong(path: str, line: int) -> ParseError:
    return ParseError(
        path, line, 1, f"a line of {MAX_LINE_BYTES} bytes or more", "shorter lines (is this a text file?)"
    )
