"""Crammer–Singer loss with smoothed kinks: ℓ_μ(z) = max_u u·z − ℓ*(u) − ½μ‖u‖² for the conjugate ℓ* of that loss."""

from __future__ import annotations

from typing import ClassVar, NamedTuple

import numpy as np

from lineal.core.maths import wide
from lineal.core.protocol import protocol
from lineal.losses.crammer_singer import LOSS as CRAMMER_SINGER
from lineal.losses.simplex import SimplexLoss


class _Width(NamedTuple):
    """Base of a loss with one parameter, the width μ > 0 of the smoothed kinks."""

    width: float


@protocol
class SmoothedCrammerSinger(SimplexLoss, _Width):
    """∇ℓ_μ = p − e_y, where p is the projection of (z + 1 − e_y)/μ + e_y onto the simplex."""

    __slots__ = ()
    name: ClassVar[str] = "smoothed_crammer_singer"

    def row_choice(self, labels, z, p):
        """Write p and return the loss.

        p = max(v − τ, 0) with v relative to its largest entry. Any set of entries with positive parts gives a lower
        bound of τ, and the entries above it give the next one, until no entry drops out (Michelot 1986).
        """
        y, k, inverse = labels[0], z.shape[0], 1.0 / self.width
        own = wide(z[y])
        top = self.width  # relative to the score of the label
        for r in range(k):
            if r != y:
                top = max(top, 1.0 + (wide(z[r]) - own))
        for r in range(k):
            lead = self.width if r == y else 1.0 + (wide(z[r]) - own)
            p[r] = (lead - top) * inverse
        tau, above = -1.0, k + 1
        while True:
            count, total = 0, 0.0
            for r in range(k):
                if p[r] > tau:
                    count += 1
                    total += p[r]
            if count >= above or count == 0:  # rounding must not bring back an entry; no number is above NaN
                break
            tau = max((total - 1.0) / count, tau)
            above = count
        value, others, squares = 0.0, 0.0, 0.0
        for r in range(k):
            p[r] = max(p[r] - tau, 0.0)
            if r != y:
                value += p[r] * (1.0 + (wide(z[r]) - own))
                others += p[r]
                squares += p[r] * p[r]
        return value - 0.5 * self.width * (squares + others * others)

    def row_curvature(self, labels, z, v, work, out):
        """Generalised Hessian times v: on the classes with p > 0, v less its mean, over the width."""
        self.row_choice(labels, z, work)
        mean, count = 0.0, 0
        for r in range(z.shape[0]):
            if work[r] > 0.0:
                mean += wide(v[r])
                count += 1
        mean /= max(count, 1)
        for r in range(z.shape[0]):
            out[r] = (wide(v[r]) - mean) / self.width if work[r] > 0.0 else 0.0

    def add_diagonal(self, labels, Z, at, k, scale, out):
        """Add scale·∂²ℓ/∂z_r² of the scores Z[at : at+k] to every out[r]."""
        p = np.empty(k)
        self.row_choice(labels, Z[at : at + k], p)
        count = 0
        for r in range(k):
            count += 1 if p[r] > 0.0 else 0
        for r in range(k):
            if p[r] > 0.0:
                out[r] += scale * (1.0 - 1.0 / count) / self.width

    def conjugate_term(self, u, is_label):
        """Summand of the conjugate: ½μu², less p for every class except the label."""
        return 0.5 * self.width * u * u - (0.0 if is_label else u)

    def lipschitz(self, k: int) -> float | None:
        """One over the width: a projection onto a convex set is not longer than what is projected."""
        return 1.0 / self.width

    def typical_curvature(self, k: int) -> float:
        """The diagonal where all classes have p > 0."""
        return (1.0 - 1.0 / k) / self.width

    def start_intercept(self, class_weights: np.ndarray) -> np.ndarray:
        """That of the Crammer–Singer loss."""
        return CRAMMER_SINGER.start_intercept(class_weights)
