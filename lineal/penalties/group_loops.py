"""Loops over the groups of a weight matrix, for the methods of `Regulariser`.

A group is one row of W, used in place, or the rows of several features, copied to a vector of their own: `rooms` has
one for each matrix that a kernel sees. The kernels borrow their arrays, since counting references on every short row
would cost several times the work on it.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from lineal.core.jit import kernel
from lineal.penalties.groups import Groups


def rooms_for(groups: Groups, *matrices: np.ndarray) -> tuple[np.ndarray, ...]:
    """Room for the largest group of every matrix that a kernel sees; empty where every row of W is a group."""
    largest = int(np.diff(groups.offsets).max(initial=0))
    return tuple(np.empty(largest * matrix.shape[1], matrix.dtype) for matrix in matrices)


@kernel(inline="always")
def _group(g: int, groups: Any, W: Any, room: Any) -> Any:
    """Group g of W as a vector."""
    if groups.features.shape[0] == 0:
        return W[g]
    at, k = 0, W.shape[1]
    for i in range(groups.offsets[g], groups.offsets[g + 1]):
        for r in range(k):
            room[at + r] = W[groups.features[i], r]
        at += k
    return room[:at]


@kernel(inline="always")
def _place(g: int, groups: Any, out: Any, room: Any) -> Any:
    """Where the results of group g are written: in `out` itself, or in `room` until `_store` copies them."""
    if groups.features.shape[0] == 0:
        return out[g]
    return room[: (groups.offsets[g + 1] - groups.offsets[g]) * out.shape[1]]


@kernel(borrows=True, forceinline=True)
def _store(g: int, groups: Any, room: Any, out: Any) -> None:
    """Copy the results of group g to its rows of `out`, unless they are there already."""
    if groups.features.shape[0] == 0:
        return
    at, k = 0, out.shape[1]
    for i in range(groups.offsets[g], groups.offsets[g + 1]):
        for r in range(k):
            out[groups.features[i], r] = room[at + r]
        at += k


@kernel(borrows=True)
def value(penalty: Any, strengths: Any, groups: Any, rooms: Any, W: Any) -> float:
    """Σ s_g ω(W_g)."""
    total = 0.0
    for g in range(strengths.shape[0]):
        if strengths[g] > 0.0:
            total += strengths[g] * penalty.group_value(_group(g, groups, W, rooms[0]))
    return total


@kernel(borrows=True)
def prox(penalty: Any, step: float, strengths: Any, groups: Any, rooms: Any, W: Any, out: Any) -> None:
    """Proximal map of step·s_g·ω for every group."""
    for g in range(strengths.shape[0]):
        w, result = _group(g, groups, W, rooms[0]), _place(g, groups, out, rooms[1])
        penalty.group_prox(w, step * strengths[g], result)
        _store(g, groups, rooms[1], out)


@kernel(borrows=True)
def gradient(penalty: Any, strengths: Any, groups: Any, rooms: Any, W: Any, out: Any) -> None:
    """s_g·∇ω(W_g) with respect to the free weights, for every group."""
    for g in range(strengths.shape[0]):
        w, result = _group(g, groups, W, rooms[0]), _place(g, groups, out, rooms[1])
        penalty.group_gradient(w, strengths[g], result)
        _store(g, groups, rooms[1], out)


@kernel(borrows=True)
def curvature(penalty: Any, strengths: Any, groups: Any, rooms: Any, W: Any, V: Any, out: Any) -> None:
    """s_g·∇²ω(W_g)·V_g with respect to the free weights, for every group."""
    for g in range(strengths.shape[0]):
        w, v = _group(g, groups, W, rooms[0]), _group(g, groups, V, rooms[1])
        penalty.group_curvature(w, v, strengths[g], _place(g, groups, out, rooms[2]))
        _store(g, groups, rooms[2], out)


@kernel(borrows=True)
def conjugate(penalty: Any, scale: float, strengths: Any, groups: Any, rooms: Any, V: Any) -> float:
    """Σ (s_g ω)*(c·V_g) = c·Σ (s_g/c·ω)*(V_g): scaling the strengths needs no scaled copy of V."""
    total = 0.0
    for g in range(strengths.shape[0]):
        total += scale * penalty.group_conjugate(_group(g, groups, V, rooms[0]), strengths[g] / scale)
        if total == math.inf:
            break
    return total


@kernel(borrows=True)
def dual_scale(penalty: Any, strengths: Any, groups: Any, rooms: Any, V: Any) -> float:
    """The largest c in [0, 1] with (s_g ω)*(c·V_g) < ∞ for all groups."""
    scale = 1.0
    for g in range(strengths.shape[0]):
        scale = min(scale, penalty.group_dual_scale(_group(g, groups, V, rooms[0]), strengths[g]))
    return scale


@kernel(borrows=True)
def violation(penalty: Any, strengths: Any, groups: Any, rooms: Any, W: Any, G: Any, out: Any) -> None:
    """Distance of −G_g to s_g·∂ω(W_g), for every group."""
    for g in range(strengths.shape[0]):
        w, gradient = _group(g, groups, W, rooms[0]), _group(g, groups, G, rooms[1])
        out[g] = penalty.group_violation(w, gradient, strengths[g])


@kernel(borrows=True)
def critical_strengths(penalty: Any, groups: Any, rooms: Any, V: Any, out: Any) -> None:
    """Smallest strength with V_g in strength·∂ω(0), for every group."""
    for g in range(out.shape[0]):
        out[g] = penalty.group_critical_strength(_group(g, groups, V, rooms[0]))


@kernel(borrows=True)
def typical_curvatures(penalty: Any, strengths: Any, groups: Any, rooms: Any, W: Any, out: Any) -> None:
    """One number per group, of the size of the diagonal of s_g·∇²ω(W_g)."""
    for g in range(strengths.shape[0]):
        out[g] = penalty.group_typical_curvature(_group(g, groups, W, rooms[0]), strengths[g])
