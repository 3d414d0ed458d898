"""Arrays that grow on disk: what a conversion collects before their final sizes are known."""

from __future__ import annotations

import mmap
import os
from typing import Any, BinaryIO

import numpy as np

#: Elements rewritten at a time when the type of an array changes.
STEP = 1 << 20


def drop_pages(pages: mmap.mmap) -> None:
    """Let go of the memory behind a read-only map; what is needed again comes back from the file."""
    if hasattr(mmap, "MADV_DONTNEED"):
        pages.madvise(mmap.MADV_DONTNEED)


class Spool:
    """A vector in a temporary file: appended to in pieces, then mapped.

    Its type is that of the first piece; a later piece of a wider type rewrites what is there.
    """

    def __init__(self, folder: str, name: str) -> None:
        self.path = os.path.join(folder, name)
        self.file: BinaryIO = open(self.path, "wb")  # noqa: SIM115, `close` closes it
        self.dtype: np.dtype[Any] | None = None
        self.size = 0
        self._pages: mmap.mmap | None = None

    def append(self, values: np.ndarray) -> None:
        """Add a vector at the end."""
        if self.dtype is None:
            self.dtype = values.dtype
        wider = np.promote_types(self.dtype, values.dtype)
        if wider != self.dtype:
            self.become(wider)
        self.file.write(np.ascontiguousarray(values, dtype=wider).data)
        self.size += values.size

    def become(self, dtype: Any) -> None:
        """Change the type of everything so far."""
        dtype = np.dtype(dtype)
        if dtype == self.dtype:
            return
        self.file.close()
        old_path, self.path = self.path, self.path + f".{dtype.name}"
        self.file = open(self.path, "wb")  # noqa: SIM115
        with open(old_path, "rb") as old:
            while (piece := np.fromfile(old, dtype=self.dtype, count=STEP)).size:
                self.file.write(piece.astype(dtype).data)
        os.unlink(old_path)
        self.dtype = dtype

    def mapped(self) -> np.ndarray:
        """All of it, read-only, on disk."""
        self.file.close()
        if self.size == 0:
            return np.empty(0, dtype=self.dtype or np.float64)
        with open(self.path, "rb") as file:
            self._pages = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
        return np.frombuffer(self._pages, dtype=self.dtype)

    def release(self) -> None:
        """Let go of the memory behind `mapped`."""
        if self._pages is not None:
            drop_pages(self._pages)

    def close(self) -> None:
        """Close the file, if it still is open."""
        self.file.close()
