"""Truncated conjugate gradients for several systems H_r s_r = −g_r at once, to compute Newton directions.

Steihaug (1983): preconditioned conjugate gradients that start at zero and end when the relative residual is small, at
the boundary of a trust region (in the norm of the preconditioner), or at a direction without positive curvature. If the
Hessian does not couple the columns of θ, each column is a system with its own scalars; otherwise all columns are one
system. Systems that have ended are no longer part of the products.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

#: Largest number of products with the Hessian per direction.
MAX_PRODUCTS = 250

#: Fraction of ended systems at which the active ones are copied into smaller arrays.
COMPACT = 0.25


class NewtonDirection(NamedTuple):
    """Approximate solution of the systems.

    Attributes
    ----------
    direction : s, in the shape of θ.
    model_change : change of the quadratic model along s, per system; not positive.
    on_boundary : whether s ends at the boundary of the trust region, per system.
    norm : norm of s in the norm of the preconditioner, per system.
    products : number of products with the Hessian.
    """

    direction: np.ndarray
    model_change: np.ndarray
    on_boundary: np.ndarray
    norm: np.ndarray
    products: int


class System(NamedTuple):
    """Hessian and preconditioner of the active columns.

    `product(V)` multiplies V by the Hessian, `solve(R)` applies the inverse of the preconditioner, and `narrow(keep)`
    returns the system of some of the columns.
    """

    product: Callable[[np.ndarray], np.ndarray]
    solve: Callable[[np.ndarray], np.ndarray]
    narrow: Callable[[np.ndarray], Any]


def truncated_cg(
    system: System,
    gradient: np.ndarray,
    dots: Callable[[np.ndarray, np.ndarray], np.ndarray],
    forcing: np.ndarray,
    radius: np.ndarray,
    must_end: Callable[[], Any] = lambda: None,
    most: int = MAX_PRODUCTS,
) -> NewtonDirection:
    """Solve the systems to the relative residuals `forcing`, in the norm of M⁻¹ for the preconditioner M.

    `radius` is that of the trust region and can be ∞; `most` is the largest number of products.
    """
    r = np.negative(gradient)
    m, dtype = len(forcing), gradient.dtype
    where: Any = np.arange(m)  # index of the system of each active column
    S, residual = np.zeros_like(gradient), r.copy()
    norms, on_boundary = np.zeros(m), np.zeros(m, bool)
    s = np.zeros_like(gradient)
    z = system.solve(r)
    p, rz = z.copy(), dots(r, z)
    stop = forcing**2 * rz
    sMs: Any = np.zeros(m)
    sMp, pMp = sMs.copy(), rz.copy()
    active: Any = rz > 0.0
    count = 0
    while active.any() and count < most and not must_end():
        if m > 1 and np.count_nonzero(active) <= (1.0 - COMPACT) * len(active):
            S[:, where], residual[:, where], norms[where] = s, r, sMs
            keep = np.flatnonzero(active)
            system = system.narrow(keep)
            where, active, rz, stop, sMs, sMp, pMp = (a[keep] for a in (where, active, rz, stop, sMs, sMp, pMp))
            s, r, p = (np.ascontiguousarray(a[:, keep]) for a in (s, r, p))
        Hp = system.product(p)
        count += 1
        curvature = dots(p, Hp)
        active &= curvature > 0.0  # along a direction without positive curvature there is no minimum
        a = np.where(active, rz / np.where(active, curvature, 1.0), 0.0)
        outside = active & (sMs + 2.0 * a * sMp + a * a * pMp > radius[where] ** 2)
        if outside.any():
            room = np.where(outside, radius[where] ** 2 - sMs, 0.0)
            root = np.sqrt(np.maximum(sMp**2 + pMp * room, 0.0))
            a = np.where(outside, room / np.maximum(sMp + root, np.finfo(np.float64).tiny), a)
            on_boundary[where[outside]] = True
        sMs = sMs + 2.0 * a * sMp + a * a * pMp
        s += a.astype(dtype) * p
        r -= a.astype(dtype) * Hp
        z = system.solve(r)
        rz_new = np.where(active, dots(r, z), rz)
        active &= ~outside & (rz_new > stop)
        b = np.where(active, rz_new / np.where(rz > 0.0, rz, 1.0), 0.0)
        sMp, pMp, rz = b * (sMp + a * pMp), rz_new + b * b * pMp, rz_new
        p *= b.astype(dtype)
        p += z
    if m > 1:
        S[:, where], residual[:, where], norms[where] = s, r, sMs
    else:
        S, residual, norms = s, r, sMs
    model_change = 0.5 * (dots(gradient, S) - dots(S, residual))
    return NewtonDirection(S, model_change, on_boundary, np.sqrt(np.maximum(norms, 0.0)), count)
