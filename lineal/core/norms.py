"""The Euclidean norm of a large array, in NumPy: a fit whose penalty is ‖W‖² needs no kernels for it."""

from __future__ import annotations

import math

import numpy as np

#: Sums of squares between these bounds have lost nothing that matters to overflow and underflow.
SMALLEST, LARGEST = 1e-280, 1e280


def norm_of(array: np.ndarray) -> float:
    """‖array‖₂ over all entries, summed in float64; zero only for zeros. One thread, whatever BLAS would use."""
    flat = array.reshape(-1)
    square = _square(flat)
    if SMALLEST < square < LARGEST:
        return math.sqrt(square)
    largest = float(np.abs(flat).max(initial=0.0))
    if largest == 0.0 or not math.isfinite(largest):
        return largest
    return largest * math.sqrt(_square(flat / np.float64(largest)))


def _square(flat: np.ndarray) -> float:
    with np.errstate(over="ignore", under="ignore"):
        return float(np.einsum("i,i->", flat, flat, dtype=np.float64))
