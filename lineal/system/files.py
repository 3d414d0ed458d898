"""Files that appear whole or not at all, temporary folders, and the removal of temporary files of killed processes.

A file is first written to a part beside it, `.lineal-….part`, which then takes its place in one step. While a part is
in use, its writer holds a lock on it (`flock`), which the operating system releases however the writer ends. So the
next writer of the same file can tell which parts are stale and remove them, and leaves the parts of other writers
alone.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import stat
import tempfile
import uuid
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import IO

from lineal.errors import LinealError

try:
    import fcntl
except ImportError:  # Windows, where nothing is locked and stale parts stay
    fcntl = None  # type: ignore[assignment]

#: The parts and temporary folders of this process.
_own_parts: set[str] = set()


def target_of(path: str | os.PathLike[str]) -> str:
    """The file, existing or not, that writing to `path` replaces; links are followed.

    An error says why it cannot be written. A device or a folder is never replaced.
    """
    name = os.fsdecode(path)
    try:
        if not name:
            raise LinealError("cannot write a file without a name")
        try:
            mode = os.stat(name).st_mode
        except FileNotFoundError:
            mode = None
        if mode is not None and not stat.S_ISREG(mode):
            what = "a folder" if stat.S_ISDIR(mode) else "not a regular file"
            raise LinealError(f"cannot write {name}: it is {what}")
        if name.endswith(os.sep):
            raise LinealError(f"cannot write {name}: it is not a regular file")
        target = os.path.realpath(name, strict=os.path.lexists(name))
        if mode is not None and not os.access(target, os.W_OK):
            raise LinealError(f"cannot write {name}: it is read-only")
        return target
    except (OSError, ValueError) as error:
        raise cannot_write(name, error) from None


def cannot_write(path: str, error: OSError | ValueError) -> LinealError:
    """The error for a file that cannot be written, with the reason."""
    reason = error.strerror if isinstance(error, OSError) and error.strerror else error
    return LinealError(f"cannot write {path}: {reason}")


def check_writable(path: str | os.PathLike[str]) -> None:
    """Raise an error if `path` cannot become a file: before the work, not after it."""
    target = target_of(path)
    try:
        with tempfile.TemporaryFile(dir=os.path.dirname(target)):
            pass
    except OSError as error:
        raise cannot_write(os.fsdecode(path), error) from None


def identity(path: str | os.PathLike[str] | int) -> tuple[int | str, ...] | None:
    """A value that two names have in common if and only if they are the same file, whether it exists or not.

    Relative paths, symbolic and hard links make no difference. Devices, pipes and folders have None. `path` may be the
    number of an open file.
    """
    try:
        found = os.stat(path)
        return (found.st_dev, found.st_ino) if stat.S_ISREG(found.st_mode) else None
    except (OSError, ValueError):
        if isinstance(path, int):
            return None
    target = os.path.realpath(path)
    try:
        folder = os.stat(os.path.dirname(target))
    except (OSError, ValueError):
        return None
    return folder.st_dev, folder.st_ino, os.path.basename(os.fsdecode(target))


@contextmanager
def whole_file(path: str | os.PathLike[str], durable: bool = True) -> Iterator[IO[bytes]]:
    """A binary file to write. It takes the place of `path` when the context ends well, and vanishes otherwise.

    The permissions of an existing file are kept; a link stays a link. With `durable`, the new file is on the disk, and
    not only in the memory of the system, before it takes its place.
    """
    target = target_of(path)
    try:
        part, handle, lock = _new_part(target)
    except (OSError, ValueError) as error:
        raise cannot_write(os.fsdecode(path), error) from None
    try:
        with os.fdopen(handle, "wb") as file:
            yield file
            file.flush()
            if durable:
                os.fsync(file.fileno())
        put_in_place(part, target, durable)
    except OSError as error:
        raise cannot_write(os.fsdecode(path), error) from None
    finally:
        _drop(part, lock)


@contextmanager
def folder_beside(path: str | os.PathLike[str]) -> Iterator[str]:
    """An empty folder beside `path`, for work on its new contents; it vanishes when the context ends."""
    part, lock = _new_folder(target_of(path))
    try:
        yield part
    finally:
        _drop(part, lock)


@contextmanager
def scratch_folder() -> Iterator[str]:
    """An empty folder among the temporary files of the system; it vanishes when the context ends."""
    with folder_beside(os.path.join(tempfile.gettempdir(), "lineal-scratch")) as folder:
        yield folder


def put_in_place(part: str, target: str, durable: bool = True) -> None:
    """Move a finished file to `target`, and keep the permissions of the file that it replaces."""
    if os.path.exists(target):
        os.chmod(part, stat.S_IMODE(os.stat(target).st_mode))
    os.replace(part, target)
    if durable:
        with suppress(OSError):  # not every file system can do this
            folder = os.open(os.path.dirname(target), os.O_RDONLY)
            try:
                os.fsync(folder)
            finally:
                os.close(folder)


def drop_own_parts() -> None:
    """Remove the parts and folders of this process, which is about to end without leaving their contexts."""
    for part in list(_own_parts):
        _remove(part)


def _new_part(target: str) -> tuple[str, int, int]:
    """Make an empty part of `target`: (its path, its handle, another handle that keeps it locked until closed)."""
    while True:
        part, handle = _new_name(target), None
        try:
            handle = os.open(part, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o666)  # minus the umask, as for any new file
            lock = os.dup(handle)
        except OSError:
            if handle is not None:
                os.close(handle)
            _forget(part)
            raise
        if _hold(part, lock):
            return part, handle, lock
        os.close(handle)
        _drop(part, lock)


def _new_folder(target: str) -> tuple[str, int]:
    """Make an empty folder beside `target`: (its path, a handle that keeps it locked until closed)."""
    while True:
        part = _new_name(target)
        try:
            os.mkdir(part, 0o700)
            lock = os.open(part if fcntl is not None else os.devnull, os.O_RDONLY)
        except OSError:
            _forget(part)
            raise
        if _hold(part, lock):
            return part, lock
        _drop(part, lock)


def _new_name(target: str) -> str:
    """Choose the name of a new part, and remove stale parts of the same target."""
    remove_stale_parts(target)
    part = os.path.join(os.path.dirname(target), f"{_prefix(target)}{uuid.uuid4().hex}.part")
    _own_parts.add(part)
    return part


def remove_stale_parts(target: str) -> None:
    """Remove what killed writers of `target` have left beside it."""
    if fcntl is None:
        return
    prefix = _prefix(target)
    with suppress(OSError), os.scandir(os.path.dirname(target)) as entries:
        for entry in entries:
            if entry.name.startswith(prefix) and entry.path not in _own_parts:
                _remove_stale(entry.path)


def _prefix(target: str) -> str:
    """The beginning of the names of all parts of `target`."""
    name = os.fsencode(os.path.basename(target))
    return f".lineal-{hashlib.blake2b(name, digest_size=6).hexdigest()}-"


def _hold(part: str, lock: int) -> bool:
    """Lock a new part; False if another process took it for stale before it was locked."""
    if fcntl is None:
        return True
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError:  # this file system has no locks, so no part is ever taken for stale
        return True
    return os.path.lexists(part)


def _remove_stale(part: str) -> None:
    """Remove a part unless a process holds a lock on it."""
    with suppress(OSError):
        lock = os.open(part, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            _remove(part)
        finally:
            os.close(lock)


def _drop(part: str, lock: int) -> None:
    """Remove a part and release its lock."""
    _forget(part)
    os.close(lock)


def _forget(part: str) -> None:
    """Remove a part and its entry in `_own_parts`."""
    _remove(part)
    _own_parts.discard(part)


def _remove(part: str) -> None:
    if os.path.isdir(part):
        shutil.rmtree(part, ignore_errors=True)
    else:
        with suppress(OSError):
            os.unlink(part)
