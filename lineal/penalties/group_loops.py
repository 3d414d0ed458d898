"""Loops over the groups of a weight matrix, for the methods of `Regulariser`.

Every loop sees group g of a matrix W as ``groups[row][:size]``. Where every row of W is a group, ``groups`` is W. Where
the user gave groups of features, it is a scratch matrix of one row, into which `_load` copies the group. `_load`
is not called for single rows: a call that takes arrays makes Numba count references on every row, which costs ten times
the work on a short one.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from lineal.core.jit import kernel


@kernel
def _scratch(offsets: Any, W: Any) -> Any:
    """Room for the largest group of rows of W, as a matrix of one row; empty where every row is a group."""
    largest = 0
    for g in range(offsets.shape[0] - 1):
        largest = max(largest, offsets[g + 1] - offsets[g])
    return np.empty((1, largest * W.shape[1]), W.dtype)


@kernel
def _load(g: int, offsets: Any, features: Any, W: Any, scratch: Any) -> int:
    """Copy the rows of group g to `scratch`; returns their size."""
    k = W.shape[1]
    at = 0
    for i in range(offsets[g], offsets[g + 1]):
        for r in range(k):
            scratch[0, at + r] = W[features[i], r]
        at += k
    return at


@kernel
def _store(g: int, offsets: Any, features: Any, scratch: Any, out: Any) -> None:
    """Copy `scratch` back to the rows of group g."""
    k = out.shape[1]
    at = 0
    for i in range(offsets[g], offsets[g + 1]):
        for r in range(k):
            out[features[i], r] = scratch[0, at + r]
        at += k


@kernel
def value(penalty: Any, strengths: Any, offsets: Any, features: Any, W: Any) -> float:
    grouped = features.shape[0] > 0
    scratch = _scratch(offsets, W)
    groups = scratch if grouped else W
    total = 0.0
    for g in range(strengths.shape[0]):
        if strengths[g] > 0.0:
            row, size = (0, _load(g, offsets, features, W, scratch)) if grouped else (g, W.shape[1])
            total += strengths[g] * penalty.group_value(groups[row][:size])
    return total


@kernel
def prox(penalty: Any, step: float, strengths: Any, offsets: Any, features: Any, W: Any, out: Any) -> None:
    grouped = features.shape[0] > 0
    scratch = _scratch(offsets, W)
    groups = scratch if grouped else W
    result_scratch = _scratch(offsets, out)
    results = result_scratch if grouped else out
    for g in range(strengths.shape[0]):
        row, size = (0, _load(g, offsets, features, W, scratch)) if grouped else (g, W.shape[1])
        penalty.group_prox(groups[row][:size], step * strengths[g], results[row][:size])
        if grouped:
            _store(g, offsets, features, result_scratch, out)


@kernel
def gradient(penalty: Any, strengths: Any, offsets: Any, features: Any, W: Any, out: Any) -> None:
    grouped = features.shape[0] > 0
    scratch = _scratch(offsets, W)
    groups = scratch if grouped else W
    result_scratch = _scratch(offsets, out)
    results = result_scratch if grouped else out
    for g in range(strengths.shape[0]):
        row, size = (0, _load(g, offsets, features, W, scratch)) if grouped else (g, W.shape[1])
        penalty.group_gradient(groups[row][:size], strengths[g], results[row][:size])
        if grouped:
            _store(g, offsets, features, result_scratch, out)


@kernel
def conjugate(penalty: Any, scale: float, strengths: Any, offsets: Any, features: Any, V: Any) -> float:
    """Σ (s_g ω)*(c·V_g) = c·Σ (s_g/c·ω)*(V_g): scaling the strengths needs no scaled copy of V."""
    grouped = features.shape[0] > 0
    scratch = _scratch(offsets, V)
    groups = scratch if grouped else V
    total = 0.0
    for g in range(strengths.shape[0]):
        row, size = (0, _load(g, offsets, features, V, scratch)) if grouped else (g, V.shape[1])
        total += scale * penalty.group_conjugate(groups[row][:size], strengths[g] / scale)
        if total == math.inf:
            break
    return total


@kernel
def dual_scale(penalty: Any, strengths: Any, offsets: Any, features: Any, V: Any) -> float:
    grouped = features.shape[0] > 0
    scratch = _scratch(offsets, V)
    groups = scratch if grouped else V
    scale = 1.0
    for g in range(strengths.shape[0]):
        row, size = (0, _load(g, offsets, features, V, scratch)) if grouped else (g, V.shape[1])
        scale = min(scale, penalty.group_dual_scale(groups[row][:size], strengths[g]))
    return scale


@kernel
def violation(penalty: Any, strengths: Any, offsets: Any, features: Any, W: Any, G: Any, out: Any) -> None:
    grouped = features.shape[0] > 0
    scratch = _scratch(offsets, W)
    groups = scratch if grouped else W
    gradient_scratch = _scratch(offsets, G)
    gradients = gradient_scratch if grouped else G
    for g in range(strengths.shape[0]):
        row, size = (0, _load(g, offsets, features, W, scratch)) if grouped else (g, W.shape[1])
        if grouped:
            _load(g, offsets, features, G, gradient_scratch)
        out[g] = penalty.group_violation(groups[row][:size], gradients[row][:size], strengths[g])


@kernel
def critical_strengths(penalty: Any, offsets: Any, features: Any, G: Any, out: Any) -> None:
    grouped = features.shape[0] > 0
    scratch = _scratch(offsets, G)
    groups = scratch if grouped else G
    for g in range(out.shape[0]):
        row, size = (0, _load(g, offsets, features, G, scratch)) if grouped else (g, G.shape[1])
        out[g] = penalty.group_critical_strength(groups[row][:size])


@kernel
def curvature(penalty: Any, strengths: Any, offsets: Any, features: Any, W: Any, V: Any, out: Any) -> None:
    grouped = features.shape[0] > 0
    scratch, direction_scratch, result_scratch = _scratch(offsets, W), _scratch(offsets, W), _scratch(offsets, W)
    groups, directions = scratch if grouped else W, direction_scratch if grouped else V
    results = result_scratch if grouped else out
    for g in range(strengths.shape[0]):
        row, size = (0, _load(g, offsets, features, W, scratch)) if grouped else (g, W.shape[1])
        if grouped:
            _load(g, offsets, features, V, direction_scratch)
        penalty.group_curvature(groups[row][:size], directions[row][:size], strengths[g], results[row][:size])
        if grouped:
            _store(g, offsets, features, result_scratch, out)


@kernel
def typical_curvatures(penalty: Any, strengths: Any, offsets: Any, features: Any, W: Any, out: Any) -> None:
    grouped = features.shape[0] > 0
    scratch = _scratch(offsets, W)
    groups = scratch if grouped else W
    for g in range(strengths.shape[0]):
        row, size = (0, _load(g, offsets, features, W, scratch)) if grouped else (g, W.shape[1])
        out[g] = penalty.group_typical_curvature(groups[row][:size], strengths[g])
