"""Files by name: globs and standard input, plain files read by position, and the errors that name a file."""

from __future__ import annotations

import contextlib
import glob
import os
import weakref
from collections.abc import Sequence
from typing import Any

import numpy as np

from lineal.errors import DataError
from lineal.system.memory import available_memory

Path = str | os.PathLike[str]

STDIN = "-"

BYTE_ORDER_MARK = b"\xef\xbb\xbf"

#: The bytes that compressed files begin with.
COMPRESSED = {b"\x1f\x8b": "gzip", b"BZh": "bzip2", b"\x28\xb5\x2f\xfd": "zstd"}


def display_name(path: str) -> str:
    """What messages call a file."""
    return "<stdin>" if path == STDIN else path


def compression_of(head: bytes) -> str | None:
    """How a file is compressed, from its first four bytes; None if it is not."""
    return next((kind for magic, kind in COMPRESSED.items() if head.startswith(magic)), None)


def cannot_read(path: str, error: OSError) -> DataError:
    """The error for a file that the operating system does not let us read."""
    return DataError(f"cannot read {path}: {error.strerror or str(error).splitlines()[0]}")


def changed(path: str) -> DataError:
    """The error for a file that another process has changed."""
    return DataError(f"{path} changed while it was read: wait until nothing writes to it, and read it again")


def size_and_time(path: str) -> tuple[int, int]:
    """Size of a file and time of its last change, by which another process recognises it."""
    try:
        status = os.stat(path)
    except OSError as error:
        raise cannot_read(path, error) from error
    return status.st_size, status.st_mtime_ns


def is_path(X: Any) -> bool:
    """Whether X names files: a path, or a list of paths."""
    paths = X if isinstance(X, list | tuple) and X else (X,)
    return all(isinstance(path, str | os.PathLike) for path in paths)


def expand(path: Path | Sequence[Path]) -> list[str]:
    """The files that a path, a folder, a glob, "-" (standard input) or a list of these stands for: at least one.

    The files of a folder are those with the ending .arrow. They are sorted, as those of a glob; those of a list keep
    its order.
    """
    if isinstance(path, list | tuple):
        if not path:
            raise DataError("no file was named")
        return [file for one in path for file in expand(one)]
    text = os.path.expanduser(os.fspath(path))  # type: ignore[arg-type]
    if text == STDIN or os.path.isfile(text):
        return [text]
    if os.path.isdir(text):
        return _converted_files(text)
    if os.path.exists(text):
        return [text]  # a pipe or a device
    if not glob.has_magic(text):
        raise DataError(f"{text} does not exist")
    found = sorted(name for name in glob.glob(text, recursive=True) if not os.path.isdir(name))
    if not found:
        raise DataError(f"no file matches {text!r}")
    return found


def _converted_files(folder: str) -> list[str]:
    """The converted files of a folder; as in globs, names that begin with a dot are left out."""
    try:
        names = sorted(name for name in os.listdir(folder) if name.endswith(".arrow") and not name.startswith("."))
    except OSError as error:
        raise cannot_read(folder, error) from error
    if not names:
        raise DataError(
            f"the folder {folder} has no .arrow files: convert some, or name its files, for example "
            f"{os.path.join(folder, '*')!r}"
        )
    return [os.path.join(folder, name) for name in names]


def is_mapped(path: str, choice: str) -> bool:
    """Whether to map a file into memory instead of reading it.

    `choice` is "yes", "no" or "auto", which maps a file that takes more than half of the available memory. The system
    reads a map when it is needed, and processes share its pages. But a map also shows what another process does to the
    file, so small files are read.
    """
    if choice != "auto":
        return choice == "yes"
    try:
        size = os.path.getsize(path)
    except OSError as error:
        raise cannot_read(path, error) from error
    available = available_memory()
    return available is not None and 2 * size > available


class PlainFile:
    """A regular file, read by position.

    It is never mapped: if another process cuts a mapped file, touching a page beyond its new end kills this process.
    """

    def __init__(self, path: str) -> None:
        self.path = path
        try:
            self._number = os.open(path, os.O_RDONLY)
        except OSError as error:
            raise cannot_read(path, error) from error
        weakref.finalize(self, os.close, self._number)
        self.size = os.fstat(self._number).st_size

    def read_into(self, buffer: np.ndarray, start: int) -> None:
        """Fill a buffer of bytes from position `start` of the file."""
        done = 0
        while done < buffer.size:
            try:
                count = os.preadv(self._number, [buffer[done:].data], start + done)
            except OSError as error:
                raise cannot_read(self.path, error) from error
            if count == 0:
                raise changed(self.path)
            done += count

    def will_need(self, start: int, stop: int) -> None:
        """Ask the system to read a part of the file soon, without waiting for it."""
        if hasattr(os, "posix_fadvise"):
            with contextlib.suppress(OSError):
                os.posix_fadvise(self._number, start, stop - start, os.POSIX_FADV_WILLNEED)

    def bytes_at(self, start: int, stop: int) -> bytes:
        """The bytes from `start` to `stop`; meant for small pieces."""
        buffer = np.empty(stop - start, np.uint8)
        self.read_into(buffer, start)
        return buffer.tobytes()


class Unchanged:
    """A context that ends with an error if one of the files changes meanwhile, whatever else happened in it.

    Only regular files are watched. A file that is deleted meanwhile may still have been read to its end.
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
