"""Files that appear whole or not at all."""

from __future__ import annotations

import os
import uuid
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import IO

from lineal.errors import LinealError


@contextmanager
def whole_file(path: str | os.PathLike[str]) -> Iterator[IO[bytes]]:
    """A binary file to write; it takes the place of `path` when the block ends well, and vanishes otherwise.

    A file that was there keeps its permissions; a link stays a link; a device or a folder is never replaced.
    """
    name = os.fsdecode(path)
    try:
        target = os.path.realpath(name, strict=os.path.lexists(name))
        if name.endswith(os.sep) or (os.path.exists(target) and not os.path.isfile(target)):
            raise LinealError(f"cannot write {name}: it is not a regular file")
        if os.path.exists(target) and not os.access(target, os.W_OK):
            raise LinealError(f"cannot write {name}: it is read-only")
        temporary = os.path.join(os.path.dirname(target), f".lineal-{uuid.uuid4().hex}.part")
        handle = os.open(temporary, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o666)  # less the umask, as any new file
    except (OSError, ValueError) as error:
        raise LinealError(f"cannot write {name!r}: {getattr(error, 'strerror', None) or error}") from None
    try:
        with os.fdopen(handle, "wb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        if os.path.exists(target):
            os.chmod(temporary, os.stat(target).st_mode & 0o7777)
        os.replace(temporary, target)
    except BaseException as error:
        with suppress(OSError):
            os.unlink(temporary)
        if isinstance(error, OSError):
            raise LinealError(f"cannot write {name}: {error.strerror or error}") from None
        raise
