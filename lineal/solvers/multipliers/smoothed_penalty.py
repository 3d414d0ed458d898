"""Smoothed penalties: the Moreau envelope of αΩ around dual variables y of the weights, with its gradient and Hessian.

    E(W) = min_V αΩ(V) + Σ_g ‖W_g + ν_g y_g − V_g‖²/(2ν_g)

The minimiser V is the proximal point of W + νy, and the gradient is (W + νy − V)/ν. It lies in the domain of (αΩ)*.
Each group of weights has a width ν_g of its own, as features have their own units. A smooth penalty is left as it is.

Memory: six arrays of the size of W, and k² numbers per feature (and those of groups of features: (size·k)² per group).
"""

from __future__ import annotations

import copy
from collections.abc import Iterator

import numpy as np

from lineal.penalties.regulariser import Regulariser


def has_hessian(regulariser: Regulariser) -> bool:
    """Whether the Hessian of the envelope is known: where the penalty has one, and for ‖·‖∞."""
    return regulariser.penalty.has_curvature or regulariser.penalty.name == "l1/linf"


class SmoothedPenalty:
    """The envelope for given widths per group, around given dual variables."""

    def __init__(self, regulariser: Regulariser, widths: np.ndarray, dual: np.ndarray) -> None:
        self.regulariser, self.dual = regulariser, dual
        self.is_exact = regulariser.penalty.is_smooth
        self.widths = widths
        self.by_feature = by_feature(regulariser, widths)[:, None]
        self.stretched = copy.copy(
            regulariser
        )  # whose proximal map with step 1 has the width of each group as its step
        self.stretched.alpha, self.stretched.factors = 1.0, regulariser.strengths * widths
        self.stretched.strengths = self.stretched.factors

    def point(self, W: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """The proximal point V and the gradient at W."""
        if self.is_exact:
            return W, self.regulariser.gradient(W)
        moved = np.ascontiguousarray(W + self.by_feature * self.dual)
        V = self.stretched.prox(moved, 1.0)
        return V, (moved - V) / self.by_feature

    def hessians(self, W: np.ndarray) -> Iterator[tuple[np.ndarray, np.ndarray]]:
        """Generalised Hessians at W: the places of groups of one size in the flat W, and a matrix for each group."""
        regulariser = self.regulariser
        V, _ = self.point(W)
        V = np.ascontiguousarray(V)
        groups = list(places(regulariser, W.shape[1]))
        products = [np.zeros((*where.shape, where.shape[1])) for where in groups]
        has_formula = regulariser.penalty.has_curvature
        for p in range(max((where.shape[1] for where in groups), default=0) if has_formula else 0):
            probe = np.zeros(W.size)
            for where in groups:
                if p < where.shape[1]:
                    probe[where[:, p]] = 1.0
            result = self._curvature(V, probe).ravel()
            for where, out in zip(groups, products):
                if p < where.shape[1]:
                    out[:, :, p] = result[where]
        free = self._free(V).ravel()
        widths, strengths = self.by_feature.repeat(W.shape[1], axis=1).ravel(), self._strengths(W.shape[1])
        for where, matrices in zip(groups, products):
            unit = np.eye(where.shape[1])
            width = widths[where[:, :1], None]
            if self.is_exact:
                hessians = matrices
            elif has_formula:  # M(I + νM)⁻¹ where the penalty has the Hessian M, and 1/ν where V cannot change
                hessians = np.linalg.solve(unit + width * matrices, matrices)
                hessians += np.where(free[where], 0.0, 1.0 / width[:, :, 0])[:, :, None] * unit
            else:
                hessians = _of_largest(V.ravel()[where]) / width
            hessians[strengths[where[:, 0]] == 0.0] = 0.0
            yield where, 0.5 * (hessians + hessians.transpose(0, 2, 1))

    def _curvature(self, V: np.ndarray, probe: np.ndarray) -> np.ndarray:
        """Hessian of the penalty at V, on its free weights, times a vector."""
        out = np.zeros_like(V)
        used = np.flatnonzero(self.regulariser.nonzero_features(V))
        if len(used):
            part = self.regulariser.restricted(used)
            free = part.free_weights(np.ascontiguousarray(V[used]))
            vector = np.ascontiguousarray(np.where(free, probe.reshape(V.shape)[used], 0.0))
            out[used] = np.where(free, part.free_curvature(np.ascontiguousarray(V[used]), vector), 0.0)
        return out

    def _free(self, V: np.ndarray) -> np.ndarray:
        if self.is_exact or not self.regulariser.penalty.has_curvature:
            return np.ones(V.shape, bool)
        return np.array(self.regulariser.free_weights(V)) & ~_zero_groups(self.regulariser, V)[:, None]

    def _strengths(self, k: int) -> np.ndarray:
        return by_feature(self.regulariser, self.regulariser.strengths).repeat(k)


def _of_largest(V: np.ndarray) -> np.ndarray:
    """I − J per group, for the Jacobian J of the proximal map of ‖·‖∞ whose result is V.

    The map clips the largest weights to a common size. J averages them, up to their signs; other weights do not change.
    """
    largest = np.abs(V).max(axis=1, keepdims=True)
    signs = np.where(np.abs(V) >= largest * (1.0 - 1e-12), np.sign(V), 0.0)
    signs[largest[:, 0] == 0.0] = 0.0
    count = np.maximum(np.count_nonzero(signs, axis=1), 1)[:, None, None]
    is_fixed = np.where(largest == 0.0, 1.0, np.abs(signs))
    out: np.ndarray = is_fixed[:, :, None] * np.eye(V.shape[1]) - signs[:, :, None] * signs[:, None, :] / count
    return out


def _zero_groups(regulariser: Regulariser, V: np.ndarray) -> np.ndarray:
    mask: np.ndarray = regulariser.features_of(regulariser.zero_groups(V))
    return mask


def by_feature(regulariser: Regulariser, numbers: np.ndarray) -> np.ndarray:
    """One number per group as one per feature."""
    groups = regulariser.groups
    if not groups.features.size:
        return numbers
    out = np.empty(regulariser.n_features)
    out[groups.features] = np.repeat(numbers, np.diff(groups.offsets))
    return out


def places(regulariser: Regulariser, k: int) -> Iterator[np.ndarray]:
    """Places of the weights of each group in the flat W: one matrix per size of groups, with one row per group."""
    groups, d = regulariser.groups, regulariser.n_features
    if not groups.features.size:
        yield np.arange(d * k).reshape(d, k)
        return
    sizes = np.diff(groups.offsets)
    for size in np.unique(sizes):
        starts = groups.offsets[:-1][sizes == size]
        features = groups.features[starts[:, None] + np.arange(size)]
        yield (features[:, :, None] * k + np.arange(k)).reshape(len(starts), -1)
