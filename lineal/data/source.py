"""Where text comes from: paths and globs, plain or compressed files, and their bytes in chunks of whole lines."""

from __future__ import annotations

import bz2
import contextlib
import glob
import gzip
import io
import os
import select
import shutil
import sys
import threading
import weakref
import zlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, BinaryIO

import numpy as np

from lineal.errors import DataError, ParseError
from lineal.system.files import scratch_folder

Path = str | os.PathLike[str]

STDIN = "-"

#: A longer line is refused: it is a file of another kind, and would be held in memory whole.
MAX_LINE_BYTES = 256 << 20

NEWLINE = 10
BYTE_ORDER_MARK = b"\xef\xbb\xbf"
MAGIC = {b"\x1f\x8b": "gzip", b"BZh": "bzip2", b"\x28\xb5\x2f\xfd": "zstd"}
COUNT_STEP = 1 << 20

#: Bytes looked at first for the end of a line.
LOOK_BYTES = 1 << 12

#: Set where pipes are to end with what they have given: a read that waits for more cannot be interrupted.
pipes_end = threading.Event()

#: Seconds between two looks at `pipes_end`.
LOOK_EVERY = 0.1


class PlainFile:
    """A regular file read piece by piece, never mapped: touching a mapped page beyond the end of a file that another
    process has cut kills the process."""

    def __init__(self, path: str) -> None:
        self.path = path
        try:
            self._number = os.open(path, os.O_RDONLY)
        except OSError as error:
            raise cannot_read(path, error) from error
        weakref.finalize(self, os.close, self._number)
        self.size = os.fstat(self._number).st_size

    def read_into(self, buffer: np.ndarray, start: int) -> None:
        """Fill a buffer of bytes with those of the file from `start` on."""
        done = 0
        while done < buffer.size:
            try:
                count = os.preadv(self._number, [buffer[done:].data], start + done)
            except OSError as error:
                raise cannot_read(self.path, error) from error
            if count == 0:
                raise changed(self.path)
            done += count

    def bytes_at(self, start: int, stop: int) -> bytes:
        """A small piece of the file."""
        buffer = np.empty(stop - start, np.uint8)
        self.read_into(buffer, start)
        return buffer.tobytes()

    def count_lines(self, stop: int) -> int:
        """Number of newlines before `stop`."""
        buffer = np.empty(min(COUNT_STEP, stop), np.uint8)
        total = 0
        for start in range(0, stop, COUNT_STEP):
            part = buffer[: min(COUNT_STEP, stop - start)]
            self.read_into(part, start)
            total += count_lines(part)
        return total

    def line_end(self, start: int, stop: int) -> int | None:
        """The end of the last line that ends in [start, stop), else of the first one after; None where there is none.

        Lines of `MAX_LINE_BYTES` or more are not looked through.
        """
        step, high = LOOK_BYTES, min(stop, self.size)
        while high > start:
            low = max(start, high - step)
            found = self.bytes_at(low, high).rfind(b"\n")
            if found >= 0:
                return low + found + 1
            step, high = 8 * step, low
        low, last = min(stop, self.size), min(self.size, start + MAX_LINE_BYTES)
        while low < last:
            high = min(low + step, last)
            found = self.bytes_at(low, high).find(b"\n")
            if found >= 0:
                return low + found + 1
            step, low = min(8 * step, COUNT_STEP), high
        return None


@dataclass(frozen=True)
class Chunk:
    """Whole lines of one file, and where they begin.

    Attributes
    ----------
    path : the file, as the user named it ("<stdin>" for standard input).
    text : the bytes, ending with a newline; None where they stay in `file` until they are asked for.
    lines_before : number of lines of the stream before this chunk.
    file : where the bytes are, from `start` to `stop`; a missing last newline is added to them.
    """

    path: str
    text: np.ndarray | None
    lines_before: int = 0
    file: PlainFile | None = None
    start: int = 0
    stop: int = 0

    @property
    def size(self) -> int:
        """Number of bytes, without a newline that is added."""
        return self.stop - self.start if self.text is None else self.text.size

    @property
    def is_in_memory(self) -> bool:
        """Whether keeping the chunk takes memory."""
        return self.text is not None

    @property
    def first_line(self) -> int:
        """Line number of the chunk's first line, from 1. For a plain file it is counted on demand, from the start."""
        return 1 + (self.lines_before if self.file is None else self.file.count_lines(self.start))

    @property
    def data(self) -> np.ndarray:
        """The bytes, read-only, in memory of their own where they come from a file."""
        return self.load(np.empty(0, np.uint8))

    def load(self, buffer: np.ndarray) -> np.ndarray:
        """The bytes, read-only: in `buffer` where they come from a file and fit in there."""
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
        data.flags.writeable = False  # as the text of streams is: kernels compile for one type
        return data


def count_lines(data: np.ndarray) -> int:
    """Number of newlines."""
    steps = range(0, data.size, COUNT_STEP)
    return sum(int(np.count_nonzero(data[start : start + COUNT_STEP] == NEWLINE)) for start in steps)


def line_count(path: str) -> int | None:
    """Number of lines of a plain file; None where it is compressed."""
    file = PlainFile(path)
    return None if _kind(file.bytes_at(0, min(4, file.size))) is not None else file.count_lines(file.size)


def cannot_read(path: str, error: OSError) -> DataError:
    """The error for a file that the system does not let us read."""
    return DataError(f"cannot read {path}: {error.strerror or str(error).splitlines()[0]}")


def changed(path: str) -> DataError:
    """The error for a file that another process changed."""
    return DataError(f"{path} changed while it was read: wait until nothing writes to it, and read it again")


class Unchanged:
    """Notices that files change while they are read: a context that ends in an error then, whatever happened in it.

    Only regular files can be watched. A file that is deleted meanwhile may still have been read to its end.
    """

    def __init__(self, paths: Sequence[str]) -> None:
        self._files: list[tuple[str, int, tuple[int, ...]]] = []
        for path in dict.fromkeys(paths):
            if path != STDIN and os.path.isfile(path):
                try:
                    number = os.open(path, os.O_RDONLY)
                except OSError as error:
                    raise cannot_read(path, error) from error
                weakref.finalize(self, os.close, number)
                self._files.append((path, number, _state(os.fstat(number))))

    def check(self) -> None:
        """Raise an error if one of the files is no longer what it was."""
        for path, number, before in self._files:
            now = [_state(os.fstat(number))]
            with contextlib.suppress(FileNotFoundError):
                now.append(_state(os.stat(path)))
            if any(state != before for state in now):
                raise changed(path)

    def __enter__(self) -> Unchanged:
        return self

    def __exit__(self, kind: type | None, error: BaseException | None, where: Any) -> None:
        if error is None or isinstance(error, Exception):
            try:
                self.check()
            except DataError as change:
                raise change from error


def _state(status: os.stat_result) -> tuple[int, ...]:
    return status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns


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
        raise cannot_read(path, error) from error


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
        raise cannot_read(display_name(path), error) from error
    kind = _kind(head)
    if kind is None and path != STDIN and os.path.isfile(path):
        raw.seek(0)
        return raw
    source = io.BufferedReader(_Joined(head, raw), 1 << 18)
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
    """The lines of a file in chunks of about `chunk_bytes`, cut at line ends; a plain file stays on disk meanwhile.

    A missing last newline is added, a byte order mark is left out. A line above `MAX_LINE_BYTES` is a ParseError.
    """
    if path != STDIN and os.path.isfile(path):  # opening a pipe to look at it would break it
        file = PlainFile(path)
        head = file.bytes_at(0, min(4, file.size))
        if _kind(head) is None:
            yield from _file_chunks(file, len(BYTE_ORDER_MARK) if head[:3] == BYTE_ORDER_MARK else 0, chunk_bytes)
            return
    with open_bytes(path) as stream:
        yield from _stream_chunks(display_name(path), stream, chunk_bytes)


def _file_chunks(file: PlainFile, start: int, chunk_bytes: int) -> Iterator[Chunk]:
    while start < file.size:
        stop = file.line_end(start, start + chunk_bytes)
        if stop is None:
            if file.size - start >= MAX_LINE_BYTES:
                raise _overlong(file.path, 1 + file.count_lines(start))
            stop = file.size
        yield Chunk(file.path, None, 0, file, start, stop)
        start = stop


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
    return np.frombuffer(text, np.uint8)


def _overlong(path: str, line: int) -> ParseError:
    return ParseError(
        path, line, 1, f"a line of {MAX_LINE_BYTES} bytes or more", "shorter lines (is this a text file?)"
    )
