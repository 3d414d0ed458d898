"""Hashes strings to columns: FNV-1a over the bytes, scrambled; the same numbers on every platform."""

from __future__ import annotations

from typing import Any

import numpy as np

from lineal.core.jit import kernel
from lineal.core.rng import mix

_BASIS = np.uint64(0xCBF29CE484222325)
_PRIME = np.uint64(0x100000001B3)


@kernel
def _hash_all(text: Any, starts: Any, mask: Any, out: Any) -> None:
    for i in range(out.shape[0]):
        h = _BASIS
        for position in range(starts[i], starts[i + 1]):
            h = (h ^ np.uint64(text[position])) * _PRIME
        out[i] = np.int64(mix(h) & mask)


def hash_strings(strings: Any, bits: int) -> np.ndarray:
    """A number below 2**bits for each string of a null-free Arrow array."""
    import pyarrow as pa

    strings = strings.cast(pa.large_binary())
    out = np.empty(len(strings), dtype=np.int64)
    if len(strings):
        _, offsets, text = strings.buffers()
        starts = np.frombuffer(offsets, dtype=np.int64)[strings.offset : strings.offset + len(strings) + 1]
        _hash_all(np.frombuffer(text or b"", dtype=np.uint8), starts, np.uint64((1 << bits) - 1), out)
    return out
