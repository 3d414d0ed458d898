"""Loops over the blocks of a matrix, for the methods of `Regulariser`.

Every loop sees block g of a matrix W as ``blocks[row][:size]``. For rows as blocks, ``blocks`` is W itself; for groups
it is a scratch matrix of one row, into which `_load` copies the group. `_load` is not called for rows: a call that
takes arrays makes Numba count references on every row, which costs ten times the work on a short one.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from lineal.core.jit import kernel


@kernel
def _scratch(offsets: Any, W: Any) -> Any:
    """Room for the largest group of rows of W, as a matrix of one row; none is needed where rows are blocks."""
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
    blocks = scratch if grouped else W
    total = 0.0
    for g in range(strengths.shape[0]):
        if strengths[g] > 0.0:
            row, size = (0, _load(g, offsets, features, W, scratch)) if grouped else (g, W.shape[1])
            total += strengths[g] * penalty.block_value(blocks[row][:size])
    return total


@kernel
def prox(penalty: Any, step: float, strengths: Any, offsets: Any, features: Any, W: Any, out: Any) -> None:
    grouped = features.shape[0] > 0
    scratch = _scratch(offsets, W)
    blocks = scratch if grouped else W
    result_scratch = _scratch(offsets, out)
    results = result_scratch if grouped else out
    for g in range(strengths.shape[0]):
        row, size = (0, _load(g, offsets, features, W, scratch)) if grouped else (g, W.shape[1])
        penalty.block_prox(blocks[row][:size], step * strengths[g], results[row][:size])
        if grouped:
            _store(g, offsets, features, result_scratch, out)


@kernel
def gradient(penalty: Any, strengths: Any, offsets: Any, features: Any, W: Any, out: Any) -> None:
    grouped = features.shape[0] > 0
    scratch = _scratch(offsets, W)
    blocks = scratch if grouped else W
    result_scratch = _scratch(offsets, out)
    results = result_scratch if grouped else out
    for g in range(strengths.shape[0]):
        row, size = (0, _load(g, offsets, features, W, scratch)) if grouped else (g, W.shape[1])
        penalty.block_gradient(blocks[row][:size], strengths[g], results[row][:size])
        if grouped:
            _store(g, offsets, features, result_scratch, out)


@kernel
def conjugate(penalty: Any, scale: float, strengths: Any, offsets: Any, features: Any, V: Any) -> float:
    """Σ (s_g ω)*(c·V_g) = c·Σ (s_g/c·ω)*(V_g): scaling the strengths needs no scaled copy of V."""
    grouped = features.shape[0] > 0
    scratch = _scratch(offsets, V)
    blocks = scratch if grouped else V
    total = 0.0
    for g in range(strengths.shape[0]):
        row, size = (0, _load(g, offsets, features, V, scratch)) if grouped else (g, V.shape[1])
        total += scale * penalty.block_conjugate(blocks[row][:size], strengths[g] / scale)
        if total == math.inf:
            break
    return total


@kernel
def dual_scale(penalty: Any, strengths: Any, offsets: Any, features: Any, V: Any) -> float:
    grouped = features.shape[0] > 0
    scratch = _scratch(offsets, V)
    blocks = scratch if grouped else V
    scale = 1.0
    for g in range(strengths.shape[0]):
        row, size = (0, _load(g, offsets, features, V, scratch)) if grouped else (g, V.shape[1])
        scale = min(scale, penalty.block_dual_scale(blocks[row][:size], strengths[g]))
    return scale


@kernel
def violation(penalty: Any, strengths: Any, offsets: Any, features: Any, W: Any, G: Any, out: Any) -> None:
    grouped = features.shape[0] > 0
    scratch = _scratch(offsets, W)
    blocks = scratch if grouped else W
    gradient_scratch = _scratch(offsets, G)
    gradients = gradient_scratch if grouped else G
    for g in range(strengths.shape[0]):
        row, size = (0, _load(g, offsets, features, W, scratch)) if grouped else (g, W.shape[1])
        if grouped:
            _load(g, offsets, features, G, gradient_scratch)
        out[g] = penalty.block_violation(blocks[row][:size], gradients[row][:size], strengths[g])


@kernel
def critical_strengths(penalty: Any, offsets: Any, features: Any, G: Any, out: Any) -> None:
    grouped = features.shape[0] > 0
    scratch = _scratch(offsets, G)
    blocks = scratch if grouped else G
    for g in range(out.shape[0]):
        row, size = (0, _load(g, offsets, features, G, scratch)) if grouped else (g, G.shape[1])
        out[g] = penalty.block_critical_strength(blocks[row][:size])


@kernel
def slope(penalty: Any, strengths: Any, offsets: Any, features: Any, W: Any, out: Any) -> None:
    grouped = features.shape[0] > 0
    scratch, result_scratch = _scratch(offsets, W), _scratch(offsets, W)
    blocks, results = scratch if grouped else W, result_scratch if grouped else out
    for g in range(strengths.shape[0]):
        row, size = (0, _load(g, offsets, features, W, scratch)) if grouped else (g, W.shape[1])
        penalty.block_slope(blocks[row][:size], strengths[g], results[row][:size])
        if grouped:
            _store(g, offsets, features, result_scratch, out)


@kernel
def bend(penalty: Any, strengths: Any, offsets: Any, features: Any, W: Any, V: Any, out: Any) -> None:
    grouped = features.shape[0] > 0
    scratch, moved_scratch, result_scratch = _scratch(offsets, W), _scratch(offsets, W), _scratch(offsets, W)
    blocks, moves = scratch if grouped else W, moved_scratch if grouped else V
    results = result_scratch if grouped else out
    for g in range(strengths.shape[0]):
        row, size = (0, _load(g, offsets, features, W, scratch)) if grouped else (g, W.shape[1])
        if grouped:
            _load(g, offsets, features, V, moved_scratch)
        penalty.block_bend(blocks[row][:size], moves[row][:size], strengths[g], results[row][:size])
        if grouped:
            _store(g, offsets, features, result_scratch, out)


@kernel
def stiffness(penalty: Any, strengths: Any, offsets: Any, features: Any, W: Any, out: Any) -> None:
    grouped = features.shape[0] > 0
    scratch = _scratch(offsets, W)
    blocks = scratch if grouped else W
    for g in range(strengths.shape[0]):
        row, size = (0, _load(g, offsets, features, W, scratch)) if grouped else (g, W.shape[1])
        out[g] = penalty.block_stiffness(blocks[row][:size], strengths[g])
