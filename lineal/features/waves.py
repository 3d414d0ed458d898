"""Cosines and sines of whole chunks, computed in place: the inner loop of Fourier features.

Arguments are in turns, not in radians: cos 2πt needs only the part of t behind the point, which floating point
gives without any error however large t is. What is left is a polynomial for sin 2πs on |s| ≤ ¼, odd of
degree 9, fitted to the largest error (3e-9, so that rounding decides: below 3e-7 in float32).
"""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np

from lineal.core import threads as pool
from lineal.core.jit import kernel

_C1, _C3, _C5, _C7, _C9 = (
    np.float32(c) for c in (6.283185005187988, -41.34165573120117, 81.60100555419922, -76.54975128173828, 39.536460876)
)
_QUARTER, _HALF = np.float32(0.25), np.float32(0.5)

#: Values below which a thread costs more than it saves.
WORTH_A_THREAD = 1 << 16


def waves(F: np.ndarray, half: int, phases: np.ndarray | None, scale: float, threads: int = 1) -> np.ndarray:
    """Replace turns t in F[:, :half] by scale·cos 2π(t + phase); if F is wider, sines of the first ones follow.

    All in place; returns F. Float32 by the kernels here, float64 by NumPy.
    """
    if F.dtype == np.float64:
        return _numpy_waves(F, half, phases, scale)
    shifts = np.zeros(0, np.float32) if phases is None else phases.astype(np.float32, copy=False)
    pieces = threads if F.size >= WORTH_A_THREAD else 1
    ranges = pool.ranges(len(F), pieces) if len(F) else []
    pool.run([partial(_waves, F[start:stop], half, shifts, np.float32(scale)) for start, stop in ranges], threads)
    return F


def _numpy_waves(F: np.ndarray, half: int, phases: np.ndarray | None, scale: float) -> np.ndarray:
    turns = F[:, :half] if phases is None else F[:, :half] + phases
    angles = (turns - np.rint(turns)) * (2.0 * np.pi)
    F[:, half:] = np.sin(angles[:, : F.shape[1] - half])
    np.cos(angles, out=F[:, :half])
    F *= scale
    return F


#: Without reassociation, which would join ½ to the whole number and lose the part behind the point.
_IN_ORDER = frozenset({"contract", "nsz"})


@kernel(fastmath=_IN_ORDER)
def _waves(F: Any, half: int, phases: Any, scale: Any) -> None:
    sines = F.shape[1] - half
    for i in range(F.shape[0]):
        cosine, sine = F[i, :half], F[i, half:]
        if phases.shape[0] > 0:
            for j in range(half):
                cosine[j] += phases[j]
        alone = F[i, sines:half]  # without a sine
        for j in range(alone.shape[0]):
            alone[j] = _cosine(alone[j]) * scale
        for j in range(sines):
            t = cosine[j]
            cosine[j] = _cosine(t) * scale
            sine[j] = _sine(t) * scale


@kernel(inline="always", fastmath=_IN_ORDER)
def _cosine(t: Any) -> Any:
    r = t - np.floor(t)
    return _quarter_wave(abs(r - _HALF) - _QUARTER)


@kernel(inline="always", fastmath=_IN_ORDER)
def _sine(t: Any) -> Any:
    r = _HALF - (t - np.floor(t))
    low, high = -_HALF - r, _HALF - r
    s = low if low > r else r
    return _quarter_wave(high if high < s else s)


@kernel(inline="always", fastmath=_IN_ORDER)
def _quarter_wave(s: Any) -> Any:
    """Sine sin 2πs for |s| ≤ ¼."""
    u = s * s
    return s * (_C1 + u * (_C3 + u * (_C5 + u * (_C7 + u * _C9))))
