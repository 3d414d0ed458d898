"""Levels of instruction sets that kernels are shipped for, and the best one that this processor has.

Code of a level that the processor does not have would end the process with an illegal instruction. So a level is
chosen only if LLVM reports each of its features, which includes that the operating system saves the wider registers.
The levels are those of the x86-64 psABI; their names are also LLVM's names of processors.
"""

from __future__ import annotations

import platform
from collections.abc import Mapping
from functools import cache
from typing import NamedTuple

import llvmlite.binding

from lineal.core.numba_internals import settings

X86 = ("x86_64", "AMD64")
ARM = ("aarch64", "arm64")

_V2 = frozenset(("cx16", "sahf", "popcnt", "sse3", "ssse3", "sse4.1", "sse4.2"))
_V3 = _V2 | frozenset(("avx", "avx2", "bmi", "bmi2", "f16c", "fma", "lzcnt", "movbe", "xsave"))
_V4 = _V3 | frozenset(("avx512f", "avx512bw", "avx512cd", "avx512dq", "avx512vl"))


class Level(NamedTuple):
    """Instructions that code may use: LLVM's name, kinds of machines, and the features that a processor must have."""

    name: str
    machines: tuple[str, ...]
    features: frozenset[str]


#: All levels, the best ones first.
LEVELS = (
    Level("x86-64-v4", X86, _V4),
    Level("x86-64-v3", X86, _V3),
    Level("x86-64-v2", X86, _V2),
    Level("generic", ARM, frozenset()),
)


def supported(machine: str, features: Mapping[str, bool]) -> list[str]:
    """Names of the levels that a processor has, the best one first."""
    return [
        level.name
        for level in LEVELS
        if machine in level.machines and all(features.get(name, False) for name in level.features)
    ]


@cache
def of_this_machine() -> tuple[str, ...]:
    """Names of the levels that this processor has, the best one first. NUMBA_ENABLE_AVX=0 leaves those without AVX."""
    try:
        features = dict(llvmlite.binding.get_host_cpu_features())
    except RuntimeError:  # LLVM does not know this kind of processor
        features = {}
    if not settings.ENABLE_AVX:
        features["avx"] = False
    return tuple(supported(platform.machine(), features))
