"""Arrays that grow on disk, for a conversion that does not know their final sizes yet."""

from __future__ import annotations

import mmap
import os
import sys
from typing import Any, BinaryIO

import numpy as np

#: Number of elements that are rewritten at a time when the type of an array changes.
STEP = 1 << 20


class Spool:
    """A vector in a temporary file: first it grows piece by piece, then it is mapped.

    Its type is that of the first piece. When a piece of a wider type comes, the file is rewritten.
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
            self.convert_to(wider)
        self.file.write(np.ascontiguousarray(values, dtype=wider).data)
        self.size += values.size

    def convert_to(self, dtype: Any) -> None:
        """Rewrite the vector in another type."""
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
        """The whole vector as a read-only map of the file."""
        self.file.close()
        if self.size == 0:
            return np.empty(0, dtype=self.dtype or np.float64)
        with open(self.path, "rb") as file:
            self._pages = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
        return np.frombuffer(self._pages, dtype=self.dtype)

    def release(self) -> None:
        """Free the memory behind `mapped`; pages that are needed again come back from the file."""
        if self._pages is not None and sys.platform != "win32":
            self._pages.madvise(mmap.MADV_DONTNEED)

    def close(self) -> None:
        """Close the file, if it is still open."""
        self.file.close()
