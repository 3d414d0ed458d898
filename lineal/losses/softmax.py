"""Softmax (multinomial logistic) loss, ℓ(y, z) = log Σ_r exp(z_r) − z_y."""

from __future__ import annotations

import math
from typing import ClassVar

import numpy as np

from lineal.core.jit import kernel
from lineal.core.maths import softmax_into, wide, x_log_x
from lineal.core.protocol import Fieldless, protocol
from lineal.core.simd import lane_exp
from lineal.losses.simplex import SimplexLoss

#: Newton steps per row, at most.
MAX_STEPS = 30


@protocol
class Softmax(SimplexLoss, Fieldless):
    """ℓ = log Σ e^{z_r} − z_y; with p = u + e_y, ℓ*(u) = Σ p_r log p_r on the simplex."""

    __slots__ = ()
    name: ClassVar[str] = "softmax"
    link: ClassVar[str | None] = "softmax"
    dual_curvature: ClassVar[float] = 1.0

    def gradient_at(self, labels, Z, at, k, weight, R):
        """Write weight·∇ℓ(Z[at : at+k]) to R[at : at+k], in the precision of Z."""
        label, top = at + np.uintp(labels[0]), Z[at]
        for r in range(k):
            top = max(top, Z[at + r])
        total = Z.dtype.type(0.0)
        for r in range(k):
            e = lane_exp(Z[at + r] - top)
            R[at + r] = e
            total += e
        share = weight / total
        others = total - R[label]
        for r in range(k):
            R[at + r] *= share
        R[label] = -share * others

    def value_and_gradient_at(self, labels, Z, at, k, weight, work, R):
        """Write weight·∇ℓ(Z[at : at+k]) to R[at : at+k], in the precision of Z, and return ℓ."""
        label, top = at + np.uintp(labels[0]), Z[at]
        for r in range(k):
            top = max(top, Z[at + r])
        total = Z.dtype.type(0.0)
        for r in range(k):
            e = lane_exp(Z[at + r] - top)
            R[at + r] = e
            total += e
        share, others = weight / total, Z.dtype.type(0.0)
        for r in range(k):
            others += R[at + r] if at + r != label else Z.dtype.type(0.0)
            R[at + r] *= share
        R[label] = -share * others
        below = wide(top) - wide(Z[label])
        return math.log1p(wide(others)) if below == 0.0 else math.log(wide(total)) + below

    def curvature_at(self, labels, Z, at, k, weight, V, place, work, R):
        """Write weight·(diag(p) − pp') times V[place : place+k] to R[place : place+k], with p at Z[at : at+k]."""
        top = Z[at]
        for r in range(k):
            top = max(top, Z[at + r])
        total, mean = Z.dtype.type(0.0), Z.dtype.type(0.0)
        for r in range(k):
            e = lane_exp(Z[at + r] - top)
            R[place + r] = e
            total += e
            mean += e * V[place + r]
        mean /= total
        share = weight / total
        for r in range(k):
            R[place + r] *= share * (V[place + r] - mean)

    def add_diagonal(self, labels, Z, at, k, scale, out):
        """Add scale·∂²ℓ/∂z_r² of the scores Z[at : at+k] to every out[r]."""
        top = Z[at]
        for r in range(k):
            top = max(top, Z[at + r])
        total = Z.dtype.type(0.0)
        for r in range(k):
            total += lane_exp(Z[at + r] - top)
        for r in range(k):
            e = lane_exp(Z[at + r] - top)
            out[r] += scale * (e / total) * ((total - e) / total)

    def row_choice(self, labels, z, p):
        """Write softmax(z) and return the loss, exact also where it is tiny."""
        total = softmax_into(z, p)
        others = 0.0
        for r in range(z.shape[0]):
            others += p[r] if r != labels[0] else 0.0
        return -math.log1p(-others) if others < 0.5 else total - wide(z[labels[0]])

    def row_curvature(self, labels, z, v, work, out):
        """Hessian (diag(p) − pp') times v."""
        softmax_into(z, work)
        mean = 0.0
        for r in range(z.shape[0]):
            mean += work[r] * wide(v[r])
        for r in range(z.shape[0]):
            out[r] = work[r] * (wide(v[r]) - mean)

    def conjugate_term(self, u, is_label):
        """Summand p log p of the conjugate, for p = u or, for the label, p = 1 + u."""
        if is_label:
            return (1.0 + u) * math.log1p(u) if u > -1.0 else 0.0
        return x_log_x(u)

    def row_dual_ascent(self, label, k, z, old, q, work, best):
        """Write the minimiser p of Σ p log p − z'p + ½q‖p − old‖² over the simplex of k classes. Returns 0.

        With y = log p it solves y + q·eʸ = z + q·old + τ in every column, with Σ eʸ = 1: Newton steps on y and τ
        together from y = log softmax(z), each of them at most one. If they do not converge, τ is searched for instead.
        """
        one, zero = z.dtype.type(1.0), z.dtype.type(0.0)
        y, rest, inverse = work[0], work[1], work[2]
        top = z[0]
        for r in range(k):
            top = max(top, z[r])
        total = zero
        for r in range(k):
            best[r] = lane_exp(z[r] - top)
            total += best[r]
        shift = top + z.dtype.type(math.log(total))
        for r in range(k):
            y[r] = z[r] - shift
            best[r] /= total
        is_found = False
        for _ in range(MAX_STEPS):
            mass, residual, weight = zero, zero, zero
            for r in range(k):
                p = best[r]
                inverse[r] = one / (one + q * p)
                rest[r] = z[r] + q * (old[r] - p) - y[r]
                mass += p
                residual += p * rest[r] * inverse[r]
                weight += p * inverse[r]
            tau = (one - mass - residual) / weight
            change, climb = zero, zero
            total = zero
            for r in range(k):
                wanted = (rest[r] + tau) * inverse[r]
                climb = max(climb, wanted)  # a p that is still tiny may be the largest in the end
                step = min(max(wanted, -one), one)
                y[r] += step
                p = lane_exp(y[r])
                change += abs(p - best[r])
                best[r] = p
                total += p
            if change * (one + q) < z.dtype.type(0.02) and climb <= one:
                is_found = True
                break
        if not is_found:
            total = z.dtype.type(simplex_from_the_right(k, z, old, q, best))
        for r in range(k):
            best[r] /= total
        return zero

    def lipschitz(self, k: int) -> float | None:
        """One half: the largest eigenvalue of diag(p) − pp' for any p."""
        return 0.5

    def typical_curvature(self, k: int) -> float:
        """Mean of the diagonal for equal probabilities."""
        return (1.0 - 1.0 / k) / k

    def start_intercept(self, class_weights: np.ndarray) -> np.ndarray:
        """Centred logarithms of the class frequencies."""
        logs = np.log(np.maximum(class_weights, 1e-12))
        return logs - logs.mean()


@kernel
def simplex_from_the_right(k, z, old, q, best):
    """Write p with log p + q·p = z + q·old + τ in every column, for the τ with Σ p = 1; returns Σ p.

    Every p is a convex, increasing function of τ with derivative p/(1 + q·p): Newton steps from a τ that is too large
    decrease to the right one. At τ = q − max(z + q·old) the largest p is one.
    """
    top = wide(z[0]) + wide(q) * wide(old[0])
    for r in range(k):
        top = max(top, wide(z[r]) + wide(q) * wide(old[r]))
    tau, total = wide(q), 0.0
    for _ in range(100):
        total, derivative = 0.0, 0.0
        for r in range(k):
            p = root_of_log(wide(z[r]) + wide(q) * wide(old[r]) - top + tau, wide(q))
            best[r] = p
            total += p
            derivative += p / (1.0 + wide(q) * p)
        if abs(total - 1.0) < 1e-7:
            break
        tau -= (total - 1.0) / derivative
    return total


@kernel
def root_of_log(a, q):
    """Root p > 0 of log p + q·p = a: Newton steps on w = q·p, with log w + w = v, from a w that is too large."""
    v = a + math.log(q)
    w = v if v > 1.0 else math.exp(v)
    for _ in range(20):
        if w <= 0.0:  # underflow
            return 0.0
        step = (v - w - math.log(w)) * w / (1.0 + w)
        w = max(w + step, 0.1 * w)
        if abs(step) < 1e-10 * w:
            break
    return w / q


LOSS = Softmax()
