"""Files that appear whole or not at all."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import IO

from lineal.errors import LinealError


@contextmanager
def whole_file(path: str | os.PathLike[str]) -> Iterator[IO[bytes]]:
    """A binary file to write; it takes the place of `path` when the block ends well, and vanishes otherwise."""
    path = os.path.realpath(os.fspath(path))  # through a link, so that the link stays one
    if os.path.exists(path) and not os.path.isfile(path):  # a device or a folder must not be replaced
        raise LinealError(f"cannot write {path}: it is not a regular file")
    folder, name = os.path.split(path)
    try:
        handle, temporary = tempfile.mkstemp(prefix=f".{name}.", suffix=".part", dir=folder)
    except OSError as error:
        raise LinealError(f"cannot write {path}: {error.strerror}") from None
    try:
        with os.fdopen(handle, "wb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        umask = os.umask(0)
        os.umask(umask)
        os.chmod(temporary, 0o666 & ~umask)
        os.replace(temporary, path)
    except BaseException as error:
        with suppress(OSError):
            os.unlink(temporary)
        if isinstance(error, OSError):
            raise LinealError(f"cannot write {path}: {error.strerror or error}") from None
        raise
