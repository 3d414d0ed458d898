"""What travels with a task: small things inside of it, large ones sent to workers once."""

from __future__ import annotations

import copy
import pickle
from dataclasses import fields, is_dataclass
from typing import Any

import numpy as np
from scipy import sparse

#: Bytes per cache line.
LINE_BYTES = 64

#: Things of at most this many bytes travel inside tasks.
SMALL = 64 << 10


def nbytes(thing: Any) -> int:
    """Number of bytes of the arrays in a thing, without a look at the attributes of unknown classes."""
    if isinstance(thing, np.ndarray):
        return int(thing.nbytes)
    if sparse.issparse(thing):
        return sum(int(part.nbytes) for part in (thing.data, getattr(thing, "indices", thing.data)))
    if isinstance(thing, dict):
        return sum(map(nbytes, thing.values()))
    if isinstance(thing, tuple | list):
        return sum(map(nbytes, thing))
    if is_dataclass(thing) and not isinstance(thing, type):
        return sum(nbytes(getattr(thing, entry.name, None)) for entry in fields(thing))
    return 0


def aligned(thing: Any) -> Any:
    """The same with the numbers of every array at the beginning of a cache line.

    Products by BLAS have other bits where they are not, and NumPy avoids BLAS for numbers that are not aligned at all,
    as those that arrive from another process may be.
    """
    if isinstance(thing, np.ndarray):
        return _at_line(thing)
    if sparse.issparse(thing) and thing.format in ("csr", "csc"):
        parts = thing.data, thing.indices, thing.indptr
        if not all(part.flags.aligned for part in parts):
            thing = copy.copy(thing)
            thing.data, thing.indices, thing.indptr = map(aligned, parts)
        return thing
    if isinstance(thing, dict):
        return {name: aligned(value) for name, value in thing.items()}
    if type(thing) in (tuple, list):
        return type(thing)(map(aligned, thing))
    return thing


def _at_line(array: np.ndarray) -> np.ndarray:
    if array.dtype.hasobject or array.nbytes == 0 or array.ctypes.data % LINE_BYTES == 0:
        return array
    if array.ndim > 1 and array.flags.f_contiguous and not array.flags.c_contiguous:
        return _at_line(array.T).T
    room = np.empty(array.nbytes + LINE_BYTES, np.uint8)
    start = -room.ctypes.data % LINE_BYTES
    moved: np.ndarray = room[start : start + array.nbytes].view(array.dtype).reshape(array.shape)
    moved[...] = array
    return moved


def is_small(thing: Any) -> bool:
    """Whether a thing travels inside tasks."""
    if nbytes(thing) > SMALL:
        return False
    buffers: list[pickle.PickleBuffer] = []
    try:
        head = pickle.dumps(thing, protocol=5, buffer_callback=buffers.append)
    except Exception:  # what Dask can send and pickle cannot, such as functions of a notebook
        return True
    return len(head) + sum(buffer.raw().nbytes for buffer in buffers) <= SMALL
