"""Scalar and small-vector functions that stay finite: exponentials, logarithms, thresholds, norms, projections.

Everything here is computed in float64, whatever the precision of the arguments.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from lineal.core.jit import kernel


@kernel
def wide(x: Any) -> float:
    """Convert x to float64. Inside a kernel, ``float(x)`` does not convert a float32."""
    return float(np.float64(x))


@kernel
def log1p_exp(z: float) -> float:
    """log(1 + eᶻ) without overflow or loss of small values."""
    z = wide(z)
    if z > 0.0:
        return z + math.log1p(math.exp(-z))
    return math.log1p(math.exp(z))


@kernel
def sigmoid(z: float) -> float:
    """1 / (1 + e⁻ᶻ), accurate in both tails."""
    z = wide(z)
    if z >= 0.0:
        return 1.0 / (1.0 + math.exp(-z))
    e = math.exp(z)
    return e / (1.0 + e)


@kernel
def x_log_x(x: float) -> float:
    """x·log x, continued by 0 at 0."""
    return x * math.log(x) if x > 0.0 else 0.0


@kernel
def soft_threshold(x: float, threshold: float) -> float:
    """Shrink x towards zero by `threshold`: the proximal map of the absolute value."""
    return x - min(max(x, -threshold), threshold)  # without branches: the signs of weights are hard to predict


@kernel
def sign(x: float) -> float:
    """Sign of x: −1, 0 or 1."""
    return 1.0 if x > 0.0 else -1.0 if x < 0.0 else 0.0


@kernel(borrows=True)
def softmax_into(z: Any, out: Any) -> float:
    """Write softmax(z) to `out` and return log Σ exp(z_r)."""
    top = wide(z[0])
    for r in range(1, z.shape[0]):
        top = max(top, wide(z[r]))
    total = 0.0
    for r in range(z.shape[0]):
        e = math.exp(wide(z[r]) - top)
        out[r] = e
        total += e
    for r in range(z.shape[0]):
        out[r] = out[r] / total
    return top + math.log(total)


@kernel
def project_simplex(v: Any, radius: float, out: Any) -> float:
    """Project v onto {x ≥ 0, Σx = radius} into `out`; returns the threshold τ with out = max(v − τ, 0).

    Sorts once: O(m log m) (Held, Wolfe & Crowder 1974).
    """
    ordered = np.sort(v)
    total = 0.0
    tau = 0.0
    m = v.shape[0]
    for count in range(1, m + 1):
        candidate = wide(ordered[m - count])
        total += candidate
        trial = (total - radius) / count
        if candidate > trial:
            tau = trial
    for r in range(m):
        out[r] = max(wide(v[r]) - tau, 0.0)
    return tau


@kernel(borrows=True)
def norm1(v: Any) -> float:
    """l1 norm Σ|v_r|."""
    total = 0.0
    for r in range(v.shape[0]):
        total += abs(wide(v[r]))
    return total


@kernel(borrows=True)
def norm_inf(v: Any) -> float:
    """Maximum norm max |v_r|; 0 for an empty vector."""
    top = 0.0
    for r in range(v.shape[0]):
        top = max(top, abs(wide(v[r])))
    return top


@kernel(borrows=True)
def norm2(v: Any) -> float:
    """Euclidean norm ‖v‖₂, zero only for v = 0."""
    return soft_norm2(v, 0.0)


@kernel(borrows=True)
def soft_norm2(v: Any, threshold: float) -> float:
    """‖soft_threshold(v, threshold)‖₂, zero only for zeros: squares of extreme values neither overflow nor vanish."""
    size = _scaled_soft_norm2(v, threshold, 1.0)
    if 1e-140 < size < 1e140:
        return size
    return _scaled_soft_norm2(v, threshold, 2.0**600 if size < 1.0 else 2.0**-600)


@kernel(borrows=True)
def _scaled_soft_norm2(v: Any, threshold: float, scale: float) -> float:
    total = 0.0
    for r in range(v.shape[0]):
        x = soft_threshold(wide(v[r]), threshold) * scale
        total += x * x
    return math.sqrt(total) / scale


@kernel(borrows=True)
def count_nonzero_rows(W):
    """Number of rows of a matrix with a non-zero entry."""
    count = 0
    for j in range(W.shape[0]):
        for r in range(W.shape[1]):
            if W[j, r] != 0.0:
                count += 1
                break
    return count


@kernel(borrows=True)
def largest(x, k):
    """Largest of x[0], …, x[k − 1], in four chains of comparisons that the processor runs at the same time."""
    first, second, third, fourth = x[0], x[0], x[0], x[0]
    whole = k - k % np.uintp(4)
    for r in range(np.uintp(0), whole, np.uintp(4)):
        first = x[r] if x[r] > first else first
        second = x[r + np.uintp(1)] if x[r + np.uintp(1)] > second else second
        third = x[r + np.uintp(2)] if x[r + np.uintp(2)] > third else third
        fourth = x[r + np.uintp(3)] if x[r + np.uintp(3)] > fourth else fourth
    for r in range(whole, k):
        first = x[r] if x[r] > first else first
    first, third = second if second > first else first, fourth if fourth > third else third
    return third if third > first else first
