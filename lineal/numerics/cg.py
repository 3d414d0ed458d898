"""Truncated conjugate gradients on many systems H_r s_r = −g_r at once, for Newton's direction.

Steihaug (1983): the preconditioned method of conjugate gradients from zero, ended by a relative residual, by the border
of a trust region (in the preconditioner's norm), or by a direction without curvature. A column of an array is a system
of its own, with its own scalars, where the columns do not meet in the Hessian; else all columns are one system. Systems
that have ended leave the products.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from lineal.numerics.vectors import dot

#: Products with the Hessian that one direction may cost.
MAX_PRODUCTS = 250

#: Share of ended columns at which the others are moved together.
COMPACT = 0.25


class Step(NamedTuple):
    """A direction; decrease of the quadratic model along it; whether it ends on the border; its norm; products."""

    direction: np.ndarray
    model: np.ndarray
    on_border: np.ndarray
    norm: np.ndarray
    products: int


class System(NamedTuple):
    """The Hessian and preconditioner of the columns that still take part.

    `product(V)` and `solve(R)` act on arrays of those columns; `narrow(keep)` gives the same for some of them.
    """

    product: Callable[[np.ndarray], np.ndarray]
    solve: Callable[[np.ndarray], np.ndarray]
    narrow: Callable[[np.ndarray], Any]


def column_dots(A: np.ndarray, B: np.ndarray) -> np.ndarray:
    """a_r·b_r of every column, in float64."""
    if A.shape[1] == 1:
        return np.array([dot(A, B)])
    return np.einsum("jr,jr->r", A, B, dtype=np.float64)


def total_dot(A: np.ndarray, B: np.ndarray) -> np.ndarray:
    """Σ a·b of all entries, as an array of one number in float64."""
    return np.array([np.einsum("jr,jr->", A, B, dtype=np.float64)])


def truncated_cg(
    system: System,
    gradient: np.ndarray,
    dots: Callable[[np.ndarray, np.ndarray], np.ndarray],
    forcing: np.ndarray,
    radius: np.ndarray,
    must_end: Callable[[], Any] = lambda: None,
    most: int = MAX_PRODUCTS,
) -> Step:
    """Directions of the systems, to the relative residuals `forcing` (in the norm of M⁻¹); `radius` may be ∞.

    `most` are the products that they may cost.
    """
    r = np.negative(gradient)
    m, dtype = len(forcing), gradient.dtype
    where: Any = np.arange(m)  # the system of every scalar
    S, residual = np.zeros_like(gradient), r.copy()
    norms, border = np.zeros(m), np.zeros(m, bool)
    s = np.zeros_like(gradient)
    z = system.solve(r)
    p, rz = z.copy(), dots(r, z)
    stop = forcing**2 * rz
    sMs: Any = np.zeros(m)
    sMp, pMp = sMs.copy(), rz.copy()
    live: Any = rz > 0.0
    count = 0
    while live.any() and count < most and not must_end():
        if m > 1 and np.count_nonzero(live) <= (1.0 - COMPACT) * len(live):
            S[:, where], residual[:, where], norms[where] = s, r, sMs
            keep = np.flatnonzero(live)
            system = system.narrow(keep)
            where, live, rz, stop, sMs, sMp, pMp = (a[keep] for a in (where, live, rz, stop, sMs, sMp, pMp))
            s, r, p = (np.ascontiguousarray(a[:, keep]) for a in (s, r, p))
        Hp = system.product(p)
        count += 1
        curvature = dots(p, Hp)
        live &= curvature > 0.0  # a direction without curvature has no minimum to go to
        a = np.where(live, rz / np.where(live, curvature, 1.0), 0.0)
        beyond = live & (sMs + 2.0 * a * sMp + a * a * pMp > radius[where] ** 2)
        if beyond.any():
            room = np.where(beyond, radius[where] ** 2 - sMs, 0.0)
            root = np.sqrt(np.maximum(sMp**2 + pMp * room, 0.0))
            a = np.where(beyond, room / np.maximum(sMp + root, np.finfo(np.float64).tiny), a)
            border[where[beyond]] = True
        sMs = sMs + 2.0 * a * sMp + a * a * pMp
        s += a.astype(dtype) * p
        r -= a.astype(dtype) * Hp
        z = system.solve(r)
        rz_new = np.where(live, dots(r, z), rz)
        live &= ~beyond & (rz_new > stop)
        b = np.where(live, rz_new / np.where(rz > 0.0, rz, 1.0), 0.0)
        sMp, pMp, rz = b * (sMp + a * pMp), rz_new + b * b * pMp, rz_new
        p *= b.astype(dtype)
        p += z
    if m > 1:
        S[:, where], residual[:, where], norms[where] = s, r, sMs
    else:
        S, residual, norms = s, r, sMs
    model = 0.5 * (dots(gradient, S) - dots(S, residual))
    return Step(S, model, border, np.sqrt(np.maximum(norms, 0.0)), count)
