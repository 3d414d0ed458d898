"""Seeded random numbers that are the same on every platform, in kernels and in plain Python.

The state is a uint64 array of one element, so that kernels can advance it in place. Numbers come from SplitMix64
(Steele, Lea & Flood 2014), bounded integers from a 32-bit multiply (Lemire 2019), floats from the top 53 bits,
normal numbers from pairs of those (Box & Muller 1958): they are the same up to the rounding of log, cos and sin.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from lineal.core.jit import kernel

_GOLDEN = np.uint64(0x9E3779B97F4A7C15)
_MIX_1 = np.uint64(0xBF58476D1CE4E5B9)
_MIX_2 = np.uint64(0x94D049BB133111EB)
_S11, _S27, _S30, _S31, _S32 = (np.uint64(s) for s in (11, 27, 30, 31, 32))
_LOW_32 = np.uint64(0xFFFFFFFF)
_TO_UNIT = 1.0 / (1 << 53)


def generator(seed: int, stream: int = 0) -> np.ndarray:
    """State for `seed`; different `stream` numbers give independent sequences (one per thread, block or epoch)."""
    with np.errstate(over="ignore"):
        start = mix(np.uint64(seed & 0xFFFFFFFFFFFFFFFF)) ^ mix(np.uint64(stream & 0xFFFFFFFFFFFFFFFF) + _GOLDEN)
    return np.array([start], dtype=np.uint64)


@kernel
def mix(x: Any) -> Any:
    """Scramble 64 bits: a bijection whose output bits all depend on all input bits."""
    x = (x ^ (x >> _S30)) * _MIX_1
    x = (x ^ (x >> _S27)) * _MIX_2
    return x ^ (x >> _S31)


@kernel
def next_u64(state: Any) -> Any:
    """The next 64 random bits."""
    state[0] += _GOLDEN
    return mix(state[0])


@kernel
def next_float(state: Any) -> float:
    """Uniform number in [0, 1), a multiple of 2⁻⁵³."""
    return float(next_u64(state) >> _S11) * _TO_UNIT


@kernel
def next_below(state: Any, bound: int) -> int:
    """Uniform integer in [0, bound), for 1 ≤ bound < 2³² (bias below 2⁻³² · bound)."""
    return int(((next_u64(state) >> _S32) * np.uint64(bound)) >> _S32)


@kernel
def shuffle(state: Any, items: Any) -> None:
    """Permute `items` in place, uniformly (Fisher–Yates)."""
    for last in range(items.shape[0] - 1, 0, -1):
        other = next_below(state, last + 1)
        kept = items[last]
        items[last] = items[other]
        items[other] = kept


@kernel
def fill_uniform(state: Any, out: Any) -> None:
    """Fill a vector with uniform numbers in [0, 1)."""
    for i in range(out.shape[0]):
        out[i] = next_float(state)


@kernel
def fill_normal(state: Any, out: Any) -> None:
    """Fill a vector with standard normal numbers, drawn in float64. The first ones do not depend on its length."""
    for i in range(0, out.shape[0], 2):
        radius = math.sqrt(-2.0 * math.log(1.0 - next_float(state)))
        angle = 2.0 * math.pi * next_float(state)
        out[i] = radius * math.cos(angle)
        if i + 1 < out.shape[0]:
            out[i + 1] = radius * math.sin(angle)
