"""The contract of a penalty, methods that follow from others, and scalar parts of their formulas.

A penalty ω is a function of one group of weights, the vector w. Its methods are called inside kernels with
``strength`` = α·f_g ≥ 0, on float32 or float64 vectors; they compute in float64.

========================  ==========================================================================================
group_value               ω(w)
group_prox                argmin_x ½‖x − v‖² + strength·ω(x); `out` may be `v`
group_conjugate           (strength·ω)*(v) = sup_w v'w − strength·ω(w)
group_dual_scale          the largest c in [0, 1] with (strength·ω)*(c·v) < ∞
group_violation           distance of −g to strength·∂ω(w): zero where w is optimal, g the gradient of the loss
group_critical_strength   the smallest strength with v in strength·∂ω(0): the dual norm, where ω is a norm
group_gradient            strength·∇ω(w) with respect to the free weights, see `has_curvature`
group_curvature           strength·∇²ω(w)·v with respect to the free weights
group_typical_curvature   one number of the size of the diagonal of that Hessian
group_is_zero             whether w = 0
========================  ==========================================================================================
"""

from __future__ import annotations

import abc
import math
import numbers
from typing import Any, ClassVar, NamedTuple

from lineal.core.jit import kernel
from lineal.core.maths import norm2, soft_threshold, wide
from lineal.errors import OptionError

#: A dual norm counts as feasible up to this relative excess over its bound: scaling a point to the bound rounds.
FEASIBILITY_SLACK = 1e-12

#: Dual scales are reduced by a few units in the last place, so that the scaled point lies inside the bound.
ROUND_DOWN = 1.0 - 2.0**-48


class Penalty(abc.ABC):
    """Base of all penalties. (Tuples are made without a check for missing methods: mypy and the tests check them.)"""

    __slots__ = ()
    name: ClassVar[str]
    is_group: ClassVar[bool] = False  # a group may hold several features, as given by the user
    is_smooth: ClassVar[bool] = False  # has a gradient everywhere
    is_norm: ClassVar[bool] = False  # positively homogeneous: ω(c·w) = c·ω(w)
    is_additive: ClassVar[bool] = False  # the prox of one strength after that of another is the prox of their sum
    is_separable: ClassVar[bool] = False  # a sum over single weights, see `SeparablePenalty`
    is_radial: ClassVar[bool] = False  # ½‖w‖², with `radial_value` and `radial_conjugate`
    has_curvature: ClassVar[bool] = False  # twice differentiable in the free weights of w ≠ 0
    frees_all: ClassVar[bool] = False  # all weights of a group w ≠ 0 are free, else those that are not zero

    @abc.abstractmethod
    def group_value(self, w: Any) -> float: ...

    @abc.abstractmethod
    def group_prox(self, v: Any, strength: float, out: Any) -> None: ...

    @abc.abstractmethod
    def group_conjugate(self, v: Any, strength: float) -> float: ...

    @abc.abstractmethod
    def group_dual_scale(self, v: Any, strength: float) -> float: ...

    @abc.abstractmethod
    def group_violation(self, w: Any, g: Any, strength: float) -> float: ...

    @abc.abstractmethod
    def group_critical_strength(self, v: Any) -> float: ...

    def group_gradient(self, w: Any, strength: float, out: Any) -> None:
        """Needed only with `has_curvature`."""
        raise NotImplementedError

    def group_curvature(self, w: Any, v: Any, strength: float, out: Any) -> None:
        """Needed only with `has_curvature`."""
        raise NotImplementedError

    def group_typical_curvature(self, w: Any, strength: float) -> float:
        """Needed only with `has_curvature`."""
        raise NotImplementedError

    def radial_value(self, size: float) -> float:
        """ω of any vector of this 2-norm; only with `is_radial`."""
        raise NotImplementedError

    def radial_conjugate(self, size: float, strength: float) -> float:
        """(strength·ω)* of any vector of this 2-norm, for strength > 0; only with `is_radial`."""
        raise NotImplementedError

    def dual_norm_factor(self, size: int) -> float:
        """The largest ratio of the dual norm to the 2-norm for groups of this size; only with `is_norm`."""
        raise NotImplementedError

    @property
    def l1_weight(self) -> float:
        """ρ in [0, 1], see `SeparablePenalty`; only with `is_separable`."""
        raise NotImplementedError

    def group_is_zero(self, w: Any) -> bool:
        for r in range(w.shape[0]):  # noqa: SIM110 (Numba compiles no generators here)
            if w[r] != 0.0:
                return False
        return True


class SeparablePenalty(Penalty):
    """Base of the penalties on single weights: Σ_r ρ|w_r| + (1 − ρ)/2·w_r² with ρ = `l1_weight`."""

    __slots__ = ()
    is_separable = True


class NormPenalty(Penalty):
    """Base of the penalties that are norms: the conjugate is the indicator of a ball of the dual norm."""

    __slots__ = ()
    is_norm = True
    is_additive = True

    def dual_norm_factor(self, size: int) -> float:
        """One, which is correct if ω ≥ ‖·‖₂."""
        return 1.0

    def group_conjugate(self, v: Any, strength: float) -> float:
        return ball_indicator(self.group_critical_strength(v), strength)

    def group_dual_scale(self, v: Any, strength: float) -> float:
        return ball_scale(self.group_critical_strength(v), strength)


class _L1RatioField(NamedTuple):
    l1_ratio: float


class L1Ratio(_L1RatioField):
    """Base of the penalties that mix ‖w‖₁, with weight ρ = `l1_ratio` in (0, 1], and another term, with 1 − ρ."""

    __slots__ = ()

    def __new__(cls, l1_ratio: float = 0.5) -> L1Ratio:
        if not isinstance(l1_ratio, numbers.Real) or not 0.0 < l1_ratio <= 1.0:
            raise OptionError(
                f"l1_ratio={l1_ratio!r} is not in (0, 1]: it is the share of ‖w‖₁ in the penalty; "
                "for a penalty without it choose 'l2' or 'l1/l2'"
            )
        return super().__new__(cls, float(l1_ratio))


@kernel
def ball_indicator(dual_norm: float, radius: float) -> float:
    """Indicator of the ball, given the norm of a point: 0 inside (up to `FEASIBILITY_SLACK`), ∞ outside."""
    return 0.0 if dual_norm <= radius * (1.0 + FEASIBILITY_SLACK) else math.inf


@kernel
def ball_scale(dual_norm: float, radius: float) -> float:
    """Largest c in [0, 1], rounded down, that scales a point of this norm into the ball."""
    return 1.0 if dual_norm <= radius else radius / dual_norm * ROUND_DOWN


@kernel
def l1_residual(w: float, g: float, threshold: float) -> float:
    """Residual: g plus the element of threshold·∂|w| nearest to −g."""
    if w > 0.0:
        return g + threshold
    if w < 0.0:
        return g - threshold
    return soft_threshold(g, threshold)


@kernel
def over_norm(x: float, norm: float) -> float:
    """Quotient x / norm for |x| ≤ norm, even if 1 / norm would overflow."""
    if norm > 1e-290:
        return x / norm
    return (x * 2.0**600) / (norm * 2.0**600)


@kernel(borrows=True)
def norm_curvature(w: Any, v: Any, strength: float, out: Any) -> None:
    """out = strength·∇²‖w‖₂·v, for w ≠ 0."""
    size = norm2(w)
    along = 0.0
    for r in range(w.shape[0]):
        along += over_norm(wide(w[r]), size) * wide(v[r])
    for r in range(w.shape[0]):
        out[r] = strength * (wide(v[r]) - along * over_norm(wide(w[r]), size)) / size
