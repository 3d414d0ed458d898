"""What travels with a task: small things inside of it, large ones sent to workers once."""

from __future__ import annotations

import pickle
from dataclasses import fields, is_dataclass
from typing import Any

import numpy as np
from scipy import sparse

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
