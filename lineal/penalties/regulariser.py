"""αΩ(W) = Σ_g α·f_g·ω(W_g) over a whole weight matrix: value, prox, conjugate, optimality.

The loops over groups are compiled once per penalty. A group of one row is used in place; a group of several rows is
copied to a scratch vector of its own size. Only results are as large as W. The commonest penalty, ½‖W‖² with one
strength, needs no loops that are compiled.
"""

from __future__ import annotations

import copy
import math
import numbers
from typing import Any

import numpy as np

from lineal import penalties
from lineal.core.norms import norm_of
from lineal.errors import DataError, OptionError
from lineal.penalties import group_loops
from lineal.penalties.base import Penalty
from lineal.penalties.groups import Groups, parse_groups, rows_as_groups


class Regulariser:
    """The penalty term αΩ(W) of an objective, for W of shape (n_features, k) in C order, float32 or float64.

    Parameters
    ----------
    penalty : a penalty, from `lineal.penalties.get`
    alpha : float
        α ≥ 0.
    n_features : int
        Number of rows of W.
    factors : array, optional
        f_g ≥ 0, one per feature, or one per group if `groups` are given; 1 by default. 0 leaves a group unpenalised.
    groups : list of lists of feature numbers, or one group number per feature, optional
        A partition of the features into groups, for the group penalties. By default each feature is one group.
    centre : (n_features, k) array, optional
        V: the penalty is αΩ(W − V), so that it shrinks towards V instead of zero; smooth penalties only.

    Attributes
    ----------
    strengths : float64 array
        α·f_g of every group.
    """

    def __init__(
        self,
        penalty: Penalty,
        alpha: float,
        n_features: int,
        factors: Any = None,
        groups: Any = None,
        centre: np.ndarray | None = None,
    ) -> None:
        if not isinstance(alpha, numbers.Real) or not 0.0 <= alpha < math.inf:
            raise OptionError(f"alpha={alpha!r} is not a finite number ≥ 0")
        if groups is not None and not penalty.is_group:
            able = [repr(name) for name in penalties.names() if penalties.get(name).is_group]
            raise OptionError(f"penalty {penalty.name!r} does not take feature_groups: {', '.join(able)} do")
        self.penalty: Penalty = penalty
        self.alpha: float = float(alpha)
        self.n_features: int = n_features
        self.groups: Groups = rows_as_groups() if groups is None else parse_groups(groups, n_features)
        self.n_groups: int = n_features if groups is None else len(self.groups.offsets) - 1
        self.factors: np.ndarray = _check_factors(factors, self.n_groups, "feature" if groups is None else "group")
        with np.errstate(over="ignore"):
            self.strengths: np.ndarray = self.alpha * self.factors
        if not np.isfinite(self.strengths).all():
            raise OptionError(f"alpha={alpha!r} times the largest of penalty_factors overflows: use smaller numbers")
        if centre is not None:
            if not penalty.is_smooth:
                raise OptionError(f"penalty {penalty.name!r} does not take a centre: 'l2' does")
            self._check(centre)
            if not np.isfinite(centre).all():
                raise DataError("the centre of the penalty has NaN or infinite weights")
        self.centre: np.ndarray | None = centre

    @property
    def is_uniform(self) -> bool:
        """Whether every feature is a group of its own, all with the same strength."""
        return not self.groups.features.size and self.n_groups > 0 and bool(np.all(self.factors == self.factors[0]))

    @property
    def is_radial(self) -> bool:
        """Whether αΩ(W) is a function of ‖W‖ alone."""
        return self.penalty.is_radial and self.is_uniform and self.centre is None

    def radial_conjugate(self, size: float) -> float:
        """(αΩ)* of any matrix of this norm, for a radial penalty with α > 0."""
        return float(self.penalty.radial_conjugate(size, float(self.strengths[0])))

    def with_alpha(self, alpha: float) -> Regulariser:
        """The same penalty, factors, groups and centre with another strength."""
        other = copy.copy(self)
        other.alpha, other.strengths = float(alpha), float(alpha) * self.factors
        return other

    @property
    def has_units(self) -> bool:
        """Whether the penalty of weights in another unit is known (`in_unit`)."""
        return self.penalty.is_norm or self.penalty.is_smooth

    def in_unit(self, unit: float) -> Regulariser:
        """The same term as a function of unit·W: a norm is proportional to the unit, the l2 penalty to its square."""
        if unit == 1.0:
            return self
        other = self.with_alpha(self.alpha / (unit if self.penalty.is_norm else unit * unit))
        other.centre = None if self.centre is None else self.centre * self.centre.dtype.type(unit)
        return other

    def value(self, W: np.ndarray) -> float:
        """αΩ(W)."""
        self._check(W)
        moved = W if self.centre is None else np.subtract(W, self.centre, dtype=np.float64)
        if self._is_half_square:
            return float(self.strengths[0]) * self.penalty.radial_value(norm_of(moved))
        strengths, (W,) = self._whole(moved)
        return group_loops.value(self.penalty, strengths, *self._rooms(W), W)

    def prox(self, W: np.ndarray, step: float, out: np.ndarray | None = None) -> np.ndarray:
        """argmin_X ½‖X − W‖² + step·αΩ(X), into `out` (which may be W) if given."""
        out = np.empty_like(W) if out is None else out
        self._check(W, out)
        strengths, (moved, whole) = self._whole(self._from_centre(W), out)
        group_loops.prox(self.penalty, step, strengths, *self._rooms(moved, whole), moved, whole)
        if self.centre is not None:
            out += self.centre
        return out

    def gradient(self, W: np.ndarray, out: np.ndarray | None = None) -> np.ndarray:
        """Gradient of αΩ at W, into `out` if given; smooth penalties only."""
        if not self.penalty.is_smooth:
            raise OptionError(f"penalty {self.penalty.name!r} is not smooth and has no gradient: use its prox")
        return self.curvature(self._from_centre(W), out)

    def curvature(self, V: np.ndarray, out: np.ndarray | None = None) -> np.ndarray:
        """∇²(αΩ)·V, into `out` if given: the smooth penalties are quadratic, so it is the same everywhere."""
        out = np.empty_like(V) if out is None else out
        self._check(V, out)
        if self._is_half_square:
            return np.multiply(V, self.strengths[0], out=out, dtype=np.float64, casting="same_kind")
        strengths, (V, whole) = self._whole(V, out)
        group_loops.gradient(self.penalty, strengths, *self._rooms(V, whole), V, whole)
        return out

    def conjugate(self, V: np.ndarray, scale: float = 1.0) -> float:
        """(αΩ)*(scale·V), ∞ where infeasible. Pass `dual_scale(V)` as the scale: a product in float32 would round."""
        self._check(V)
        if scale == 0.0:
            return 0.0  # no penalty is negative, and all are zero at zero
        shift = 0.0 if self.centre is None else scale * float(np.einsum("jr,jr->", V, self.centre, dtype=np.float64))
        if self._is_half_square:
            return scale * self.penalty.radial_conjugate(norm_of(V), float(self.strengths[0]) / scale) + shift
        strengths, (V,) = self._whole(V)
        return group_loops.conjugate(self.penalty, scale, strengths, *self._rooms(V), V) + shift

    def dual_scale(self, V: np.ndarray) -> float:
        """The largest c in [0, 1] with (αΩ)*(c·V) < ∞."""
        self._check(V)
        if self._is_half_square:
            return 1.0
        strengths, (V,) = self._whole(V)
        return group_loops.dual_scale(self.penalty, strengths, *self._rooms(V), V)

    def violation(self, W: np.ndarray, G: np.ndarray) -> np.ndarray:
        """Distance of −G to the subdifferential of αΩ at W, per group: all zero where W is optimal.

        G is the gradient of the loss term at W.
        """
        self._check(W, G)
        out, moved = np.empty(self.n_groups), self._from_centre(W)
        group_loops.violation(self.penalty, self.strengths, *self._rooms(moved, G), moved, G, out)
        return out

    def critical_alpha(self, G: np.ndarray) -> float:
        """The smallest α at which W = 0 is optimal, for the loss gradient G at W = 0.

        Unpenalised groups are left out, since no α holds them at zero. If there are some, G must be the gradient
        after a fit of these groups alone.
        """
        if self.penalty.is_smooth:
            raise OptionError(f"penalty {self.penalty.name!r} sets no weights to zero and has no critical alpha")
        strengths, factors = self.critical_strengths(-G), self.factors
        return float(np.max(strengths[factors > 0.0] / factors[factors > 0.0], initial=0.0))

    def by_group(self, numbers: np.ndarray) -> np.ndarray:
        """Sum per group of one number per feature."""
        if not self.groups.features.size:
            return numbers
        return np.add.reduceat(numbers[self.groups.features], self.groups.offsets[:-1])

    def critical_strengths(self, V: np.ndarray) -> np.ndarray:
        """Smallest strength per group with V_g in strength·∂ω(0): it keeps a group with the gradient −V_g at zero."""
        self._check(V)
        out = np.empty(self.n_groups)
        group_loops.critical_strengths(self.penalty, *self._rooms(V), V, out)
        return out

    def restricted(self, features: np.ndarray) -> Regulariser:
        """The same penalty of some features (ascending numbers), which must be whole groups."""
        other = copy.copy(self)
        other.n_features, other.centre = len(features), None if self.centre is None else self.centre[features]
        if self.groups.features.size:
            place = np.full(self.n_features, -1, np.int64)
            place[features] = np.arange(len(features))
            sizes = np.diff(self.groups.offsets)
            kept = place[self.groups.features[self.groups.offsets[:-1]]] >= 0
            members = place[self.groups.features[np.repeat(kept, sizes)]]
            other.groups = Groups(np.concatenate([[0], np.cumsum(sizes[kept])]), members)
        else:
            kept = features
        other.factors, other.strengths = self.factors[kept], self.strengths[kept]
        other.n_groups = len(other.factors)
        return other

    def features_of(self, groups: np.ndarray) -> np.ndarray:
        """Mask of the features of some groups, given as a mask of the groups."""
        if not self.groups.features.size:
            return groups
        rows = np.empty(self.n_features, bool)
        rows[self.groups.features] = np.repeat(groups, np.diff(self.groups.offsets))
        return rows

    def nonzero_features(self, W: np.ndarray) -> np.ndarray:
        """Mask of the features whose group is not zero; all features where the penalty is smooth."""
        if self.penalty.is_smooth:
            return np.ones(self.n_features, bool)
        return self.features_of(~self.zero_groups(W))

    def free_weights(self, W: np.ndarray) -> np.ndarray:
        """Mask of the weights in which αΩ is differentiable at W, for penalties with `has_curvature`."""
        if not self.penalty.frees_all:
            return W != 0.0
        return np.broadcast_to(self.nonzero_features(W)[:, None], W.shape)

    def free_gradient(self, W: np.ndarray) -> np.ndarray:
        """Gradient of αΩ at W with respect to its free weights; no group may be zero."""
        self._check(W)
        out = np.empty_like(W)
        group_loops.gradient(self.penalty, self.strengths, *self._rooms(W, out), W, out)
        return out

    def free_curvature(self, W: np.ndarray, V: np.ndarray) -> np.ndarray:
        """∇²(αΩ)(W)·V with respect to the free weights of W; no group may be zero."""
        self._check(W, V)
        out = np.empty_like(W)
        group_loops.curvature(self.penalty, self.strengths, *self._rooms(W, V, out), W, V, out)
        return out

    def typical_curvatures(self, W: np.ndarray) -> np.ndarray:
        """One number per feature, of the size of the diagonal of ∇²(αΩ)(W)."""
        self._check(W)
        out = np.empty(self.n_groups)
        group_loops.typical_curvatures(self.penalty, self.strengths, *self._rooms(W), W, out)
        if not self.groups.features.size:
            return out
        by_feature = np.empty(self.n_features)
        by_feature[self.groups.features] = np.repeat(out, np.diff(self.groups.offsets))
        return by_feature

    def zero_groups(self, W: np.ndarray) -> np.ndarray:
        """Mask of the groups that are entirely zero."""
        self._check(W)
        nonzero: np.ndarray = np.asarray(W.any(axis=1))
        if self.groups.features.size:
            nonzero = np.logical_or.reduceat(nonzero[self.groups.features], self.groups.offsets[:-1])
        return ~nonzero

    @property
    def _is_half_square(self) -> bool:
        """Whether αΩ(W) is ½α‖W − V‖², with α > 0."""
        return self.penalty.is_radial and self.is_uniform and self.strengths[0] > 0.0

    def _rooms(self, *matrices: np.ndarray) -> tuple[Groups, tuple[np.ndarray, ...]]:
        """The groups and room for one of each matrix, as the kernels get them."""
        return self.groups, group_loops.rooms_for(self.groups, *matrices)

    def _whole(self, *matrices: np.ndarray) -> tuple[np.ndarray, tuple[np.ndarray, ...]]:
        """Strengths and matrices as the kernels get them.

        Where all weights are penalised one by one and equally, all of W is treated as one group: loops over long rows
        are faster.
        """
        if not (self.penalty.is_separable and self.is_uniform):
            return self.strengths, matrices
        return self.strengths[:1], tuple(matrix.reshape(1, -1) for matrix in matrices)

    def _from_centre(self, W: np.ndarray) -> np.ndarray:
        return W if self.centre is None else W - self.centre

    def _check(self, *matrices: np.ndarray) -> None:
        for W in matrices:
            if W.ndim != 2 or W.shape[0] != self.n_features or W.shape != matrices[0].shape:
                shapes = " and ".join(str(matrix.shape) for matrix in matrices)
                raise DataError(f"expected ({self.n_features}, k) weights, one row per feature, but got {shapes}")
            if not W.flags.c_contiguous or W.dtype not in (np.float32, np.float64):
                raise DataError(f"expected weights in C order, float32 or float64, but got {W.dtype}, {W.strides=}")


def _check_factors(factors: Any, n_groups: int, group: str) -> np.ndarray:
    if factors is None:
        return np.ones(n_groups)
    try:
        factors = np.array(factors, np.float64)
    except (TypeError, ValueError):
        raise OptionError(f"penalty_factors={factors!r} are not numbers") from None
    if factors.shape != (n_groups,):
        raise OptionError(f"penalty_factors has shape {factors.shape}, expected one per {group}: ({n_groups},)")
    bad = np.flatnonzero(~((factors >= 0.0) & np.isfinite(factors)))
    if bad.size:
        raise OptionError(f"penalty_factors: {group} {bad[0]} has {factors[bad[0]]}, expected a finite number ≥ 0")
    return factors
