"""Arrays that stay in memory up to a number of bytes; further ones go to a temporary file.

The file has no name: the operating system removes it however the process ends. A full disk is no error for what can be
computed again: arrays that find no room are not kept, and are made again when they are needed.
"""

from __future__ import annotations

import errno
import os
import tempfile
import threading
import warnings
import weakref
from typing import Any, NamedTuple

import numpy as np

from lineal.engine.state import Piece, StateCache, Use
from lineal.errors import DataError


class Place(NamedTuple):
    """Where an array is in the file, and what it is."""

    start: int
    shape: tuple[int, ...]
    dtype: np.dtype[Any]

    @property
    def size(self) -> int:
        """Number of bytes."""
        return int(np.prod(self.shape, dtype=np.int64)) * self.dtype.itemsize


#: A piece in memory, or the places of its arrays in the file.
Kept = Piece | dict[str, Place]


class Scratch:
    """Pieces in memory, up to `max_bytes`, and in a temporary file. Several threads can use it."""

    def __init__(self, max_bytes: int) -> None:
        self.left = max_bytes
        self._number: int | None = None
        self._end = 0
        self._free: dict[int, list[int]] = {}
        self._has_warned = False
        self._lock = threading.RLock()  # a finalizer can drop a piece while this thread keeps another one

    @property
    def file_bytes(self) -> int:
        """Length of the temporary file."""
        return self._end

    def put(self, piece: Piece) -> Kept | None:
        """Keep a piece; None if there is no room for it, neither in memory nor on the disk."""
        try:
            return self.keep(piece)
        except OSError as error:
            self._warn(error)
            return None

    def keep(self, piece: Piece) -> Kept:
        """Keep a piece that cannot be computed again; an OSError if there is no room for it."""
        size = _bytes_of(piece)
        with self._lock:
            if size <= self.left:
                self.left -= size
                return piece
            places: dict[str, Place] = {}
            try:
                for name, array in piece.items():
                    places[name] = self._write(np.asarray(array, order="C"))
            except OSError:
                self._release(places)
                raise
            return places

    def get(self, kept: Kept) -> Piece:
        """The arrays of a piece: those in memory themselves, or new ones."""
        return {name: self._read(entry) if isinstance(entry, Place) else entry for name, entry in kept.items()}

    def drop(self, kept: Kept) -> None:
        """Release the room of a piece."""
        with self._lock:
            self.left += _bytes_of(kept)
            self._release(kept)

    def _release(self, kept: Kept) -> None:
        for entry in kept.values():
            if isinstance(entry, Place):
                self._free.setdefault(entry.size, []).append(entry.start)

    def _write(self, array: np.ndarray) -> Place:
        if self._number is None:
            file = tempfile.TemporaryFile(prefix="lineal-")  # noqa: SIM115, closed by the finalizer
            self._number = file.fileno()
            weakref.finalize(self, file.close)
        free = self._free.get(array.nbytes)
        start = free.pop() if free else self._end
        place = Place(start, array.shape, array.dtype)
        try:
            _write_all(self._number, array.reshape(-1).view(np.uint8), start)
        except OSError:
            if start != self._end:
                self._free[array.nbytes].append(start)
            raise
        self._end = max(self._end, start + array.nbytes)
        return place

    def _read(self, place: Place) -> np.ndarray:
        array = np.empty(place.shape, place.dtype)
        view, done = array.reshape(-1).view(np.uint8), 0
        while done < view.size:
            count = os.preadv(self._number, [view[done:].data], place.start + done)  # type: ignore[arg-type]
            if count == 0:
                raise OSError(errno.EIO, "the temporary file is shorter than what was written to it")
            done += count
        return array

    def _warn(self, error: OSError) -> None:
        if not self._has_warned:
            self._has_warned = True
            warnings.warn(
                f"no room for numbers per row in {_folder()} ({error.strerror}): they are computed again "
                "for every pass, which is slower; free some space, set TMPDIR to another folder, or raise "
                "memory_budget",
                RuntimeWarning,
                stacklevel=2,
            )


def _folder() -> str:
    """The folder for temporary files, for messages; there can be none that can be written."""
    try:
        return tempfile.gettempdir()
    except OSError:
        return "any folder for temporary files"


def _bytes_of(piece: Kept) -> int:
    return sum(entry.nbytes for entry in piece.values() if isinstance(entry, np.ndarray))


def _write_all(number: int, data: np.ndarray, start: int) -> None:
    done = 0
    while done < data.size:
        done += os.pwrite(number, data[done:].data, start + done)


class ScratchCache(StateCache):
    """Row state whose pieces are in memory, in a temporary file, or computed anew for every step."""

    def __init__(self, scratch: Scratch) -> None:
        super().__init__()
        self.scratch = scratch

    def _take(self, number: int, use: Use, block: Any) -> Piece:
        place = use.key, number
        version, kept = self.kept.get(place, (-1, {}))
        piece = self.scratch.get(kept) if version == use.version else None
        if use.changes or piece is None:
            self._forget(place)
        if piece is None:
            piece = use.rebuild(block, *use.arguments) if use.arguments else {}
        return piece

    def put(self, number: int, use: Use, piece: Piece) -> None:
        """Keep the piece of a block with the version that it has after this use.

        Without room for it, a piece that `rebuild` only approximates is an error: losing it would change the result.
        """
        place, version = (use.key, number), use.version + use.changes
        known = self.kept.get(place)
        if known is not None and known[0] == version and known[1].keys() == piece.keys():
            return  # the step only read it
        self._forget(place)
        kept = self.scratch.put(piece) if use.is_exact else self._secured(piece)
        if kept is not None:
            self.kept[place] = version, kept  # type: ignore[assignment]

    def _secured(self, piece: Piece) -> Kept:
        """Keep a piece that cannot be computed again."""
        try:
            return self.scratch.keep(piece)
        except OSError as error:
            raise DataError(
                f"no room for what shards keep between iterations in {_folder()} ({error.strerror}), and "
                "it cannot be computed again: free some space, set TMPDIR to another folder, or raise memory_budget"
            ) from error

    def drop(self, key: str) -> None:
        """Delete all pieces of a state."""
        for place in [place for place in self.kept if place[0] == key]:
            self._forget(place)

    def _forget(self, place: tuple[str, int]) -> None:
        if place in self.kept:
            self.scratch.drop(self.kept.pop(place)[1])
