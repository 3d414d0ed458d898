"""The contract of a loss: the methods that solvers, certificates and kernels use, with defaults.

A loss ℓ is a function of the labels of one row and of its scores z, a vector of k numbers. It never sees X. These
methods are called inside kernels, once per row:

====================  =============================================================================================
row_value             ℓ(z)
row_gradient          write ∇ℓ(z) and return ℓ(z)
gradient_at           write weight·∇ℓ of one row of a flat matrix of scores, in its precision
value_and_gradient_at  the same, and return ℓ
curvature_at          write weight·∇²ℓ·v of one row of a flat matrix of scores, in the precision of the output
row_curvature         write ∇²ℓ(z)·v, with a generalised Hessian where ℓ'' jumps
add_diagonal          add the diagonal of ∇²ℓ(z); smooth losses only
row_conjugate         ℓ*(u), +∞ outside of its domain; only with `has_conjugate`
row_balance           add what `repair` needs to know about the dual point of a row
row_dual              write ∇ℓ(z), repaired, and return ℓ(z) and −ℓ* of the repaired point
row_dual_repair       write a given dual point, repaired, and return −ℓ* of it; only with `takes_dual_points`
====================  =============================================================================================

`labels` are the label columns of the row, `work` is a scratch row of k float64 numbers, `weight` that of the row.

**Repair.** With a free intercept a dual point is feasible only if its weighted sum over the rows is zero in every
column. `row_balance` adds up what must be known for that, `repair` turns the sums into numbers per column, and
`row_dual` uses them to change every row so that the sums vanish.
"""

from __future__ import annotations

import abc
from typing import ClassVar

import numpy as np


class Loss(abc.ABC):
    """Base of all losses. (Tuples are made without a check for missing methods: mypy and the tests check them.)"""

    __slots__ = ()

    #: How users call it: the name of its file.
    name: ClassVar[str]
    #: Whether the gradient is Lipschitz continuous.
    is_smooth: ClassVar[bool] = True
    #: Whether the loss compares the scores of a row with each other: two classes then have two columns, not one.
    is_direct: ClassVar[bool] = False
    #: Whether the curvature is the same everywhere.
    is_quadratic: ClassVar[bool] = False
    #: Whether a row may have any number of labels.
    takes_label_sets: ClassVar[bool] = False
    #: How scores become probabilities: None, "logistic" (column by column) or "softmax".
    link: ClassVar[str | None] = None
    #: Whether ℓ* is a cheap function of u.
    has_conjugate: ClassVar[bool] = True
    #: Whether any dual point of a row can be repaired; losses of pairs need the dual variables of the pairs.
    takes_dual_points: ClassVar[bool] = True
    #: Rows of the (n_sums, k) sums that `row_balance` adds to.
    n_sums: ClassVar[int] = 1
    #: Smallest curvature of ℓ* on its domain, for losses that dual coordinate ascent knows; None for others.
    dual_curvature: ClassVar[float | None] = None
    #: Whether most classes of a row have a zero in the optimal dual point.
    has_sparse_duals: ClassVar[bool] = False

    # --- called inside kernels

    @abc.abstractmethod
    def row_value(self, labels, z, work): ...

    @abc.abstractmethod
    def row_gradient(self, labels, z, work, gradient): ...

    @abc.abstractmethod
    def row_curvature(self, labels, z, v, work, out): ...

    @abc.abstractmethod
    def row_balance(self, labels, u, weight, references, work, sums): ...

    def gradient_at(self, labels, Z, at, k, weight, R):
        """Write weight·∇ℓ(Z[at : at+k]) to R[at : at+k], in the precision of Z."""
        work = np.empty(k)
        self.row_gradient(labels, Z[at : at + k], work, R[at : at + k])
        for r in range(k):
            R[at + r] *= weight

    def value_and_gradient_at(self, labels, Z, at, k, weight, work, R):
        """Write weight·∇ℓ(Z[at : at+k]) to R[at : at+k], in the precision of Z, and return ℓ."""
        value = self.row_gradient(labels, Z[at : at + k], work, R[at : at + k])
        for r in range(k):
            R[at + r] *= weight
        return value

    def curvature_at(self, labels, Z, at, k, weight, V, place, work, R):
        """Write weight·∇²ℓ(Z[at : at+k]) times V[place : place+k] to R[place : place+k], in the precision of R."""
        self.row_curvature(labels, Z[at : at + k], V[place : place + k], work, R[place : place + k])
        for r in range(k):
            R[place + r] *= weight

    def row_dual(self, labels, z, repair, scale, work, u):
        """Write scale times the repaired gradient at z to `u`; returns ℓ(z) and −ℓ*(u)."""
        value = self.row_gradient(labels, z, work, u)
        return value, self.row_dual_repair(labels, u, repair, scale, work, u)

    # --- called from Python

    @abc.abstractmethod
    def identity_repair(self, k: int) -> np.ndarray:
        """Repair that changes nothing, for fits without an intercept."""

    @abc.abstractmethod
    def repair(self, sums: np.ndarray, class_weights: np.ndarray, references: np.ndarray) -> np.ndarray | None:
        """Argument of `row_dual` that makes Σ_i s_i u_i zero in every column; None if that is impossible."""

    def reference_classes(self, class_weights: np.ndarray) -> np.ndarray:
        """Classes through which imbalances are moved; none if the loss balances columns in another way."""
        return np.empty(0, np.int64)

    @abc.abstractmethod
    def lipschitz(self, k: int) -> float | None:
        """Lipschitz constant of ∇ℓ for rows of k scores; None if the gradient jumps."""

    def pairwise_lipschitz(self, k: int) -> float | None:
        """The bound of `lipschitz` that Blondel, Seki & Uehara (2013) use: looser for the losses of pairs."""
        return self.lipschitz(k)

    def typical_curvature(self, k: int) -> float:
        """Mean of the diagonal of ∇²ℓ for a row at the start of a fit; smooth losses only."""
        raise NotImplementedError(f"loss {self.name!r} has no curvature")

    @abc.abstractmethod
    def start_intercept(self, class_weights: np.ndarray) -> np.ndarray:
        """Best intercept of a model without features, given the share of each class in the total weight."""
