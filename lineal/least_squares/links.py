"""`Link`: a user's own generalised linear model E[y | x] = g(W'x), and its objective.

With a convex Φ of which g is the gradient, ℓ(y, z) = Φ(z) − y'z is a convex loss that its true weights minimise. Only g
and its Lipschitz constant are needed to minimise it; Φ gives it a value.

The certificate is a relative violation of the optimality conditions. With Φ, a penalty on all weights and no intercept
it is a gap: F is α-strongly convex, so that no objective is below F − ‖∇F‖²/(2α).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from numbers import Real
from typing import Any

import numpy as np

from lineal import losses
from lineal.engine.base import Block
from lineal.errors import DataError, OptionError
from lineal.problem import row_sums
from lineal.problem.objective import Objective
from lineal.problem.solution import Certificate
from lineal.problem.steps import parameter_gradient
from lineal.problem.targets import label_entries


@dataclass(frozen=True)
class Link:
    """Link function g of a model E[y | x] = g(W'x).

    Parameters
    ----------
    mean : g, of (m, k) scores (k = 1 for two classes) to (m, k) expected labels. Labels are those of the largest
        score, or of scores above zero for two classes and label sets, where g(0) must be ½.
    lipschitz : L with ‖g(u) − g(v)‖ ≤ L‖u − v‖ for all rows u, v.
    potential : Φ, of (m, k) scores to m values, whose gradient is g. Without it objectives are NaN.
    name : what models and messages call it.
    """

    mean: Callable[[np.ndarray], np.ndarray]
    lipschitz: float
    potential: Callable[[np.ndarray], np.ndarray] | None = None
    name: str = "link"

    def __post_init__(self) -> None:
        if not callable(self.mean) or not (self.potential is None or callable(self.potential)):
            raise OptionError("mean and potential of a Link must be functions")
        is_number = isinstance(self.lipschitz, Real) and not isinstance(self.lipschitz, bool)
        if not is_number or not 0.0 < self.lipschitz < math.inf:
            raise OptionError(f"lipschitz={self.lipschitz!r} of a Link must be a finite number > 0")
        if not isinstance(self.name, str) or self.name in losses.names():
            raise OptionError(f"name={self.name!r} of a Link must be a text of your own, not the name of a loss")


@dataclass(frozen=True)
class _Loss:
    """The attributes of a loss that solvers use."""

    link: Link
    is_smooth = True
    is_direct = True
    is_quadratic = False

    @property
    def name(self) -> str:
        return self.link.name

    def lipschitz(self, k: int) -> float:
        return float(self.link.lipschitz)

    def typical_curvature(self, k: int) -> float:
        return float(self.link.lipschitz)

    def start_intercept(self, class_weights: np.ndarray) -> np.ndarray:
        return np.zeros(len(class_weights))


@dataclass(frozen=True)
class _LinkGradient:
    """The loss term of a link (NaN without Φ) and its gradient, as a step over rows."""

    link: Link
    fit_intercept: bool

    def __call__(self, block: Block, W: np.ndarray, b: np.ndarray) -> tuple[float, np.ndarray]:
        Z, link = row_sums.scores(block, W, b), self.link
        R = _checked(link.mean(Z), Z.shape, f"mean of {link.name}").astype(Z.dtype)
        value = math.nan
        if link.potential is not None:
            potentials = _checked(link.potential(Z), Z.shape[:1], f"potential of {link.name}")
            value = float(block.weights @ (potentials - _label_sums(block.targets, Z)))
        R[label_entries(block.targets)] -= 1.0
        R *= block.weights[:, None].astype(R.dtype)
        return value, parameter_gradient(block, R, self.fit_intercept)


@dataclass(frozen=True)
class LinkObjective(Objective):
    """Objective whose loss is defined by a link."""

    @staticmethod
    def of(objective: Objective, link: Link) -> LinkObjective:
        """Objective with the same rows, penalty and intercept, and another link."""
        return LinkObjective(objective.engine, _Loss(link), objective.regulariser, objective.fit_intercept)

    def loss_and_gradient(self, theta: np.ndarray) -> tuple[float, np.ndarray]:
        """The loss term (NaN without Φ) and its gradient, in the shape of θ."""
        value, gradient = self.engine.sum(_LinkGradient(self.loss.link, self.fit_intercept), *self.split(theta))
        return float(value), gradient

    def value(self, theta: np.ndarray, dtype: Any = None) -> float:
        """Objective F at θ."""
        return self.value_and_gradient(theta)[0]

    @property
    def has_values(self) -> bool:
        """Whether F can be computed, which needs Φ."""
        return self.loss.link.potential is not None

    @property
    def has_gap(self) -> bool:
        """Whether the certificate is a gap."""
        is_strong = not self.fit_intercept and bool(np.all(self.regulariser.strengths > 0.0))
        return is_strong and self.loss.link.potential is not None

    def certificate(self, theta: np.ndarray, tol: float = 0.0, dual_point: Any = None) -> Certificate:
        """A gap by strong convexity, or a relative violation (see above)."""
        value, gradient = self.value_and_gradient(theta)
        W, _ = self.split(gradient)
        if self.has_gap:
            rows = np.einsum("jr,jr->j", W, W, dtype=np.float64)
            distance = float(rows @ (0.5 / self.regulariser.strengths))
            relative = distance / abs(value) if value != 0.0 else math.inf if distance > 0.0 else 0.0
            return Certificate("gap", relative, value, value - distance)
        size = float(np.linalg.norm(gradient, axis=1).max(initial=0.0))
        return Certificate("violation", size / self._reference, value)

    @cached_property
    def _reference(self) -> float:
        """Violation of the model with zero weights."""
        _, gradient = self.value_and_gradient(np.zeros(self.shape, self.engine.dtype))
        return float(np.linalg.norm(gradient, axis=1).max(initial=0.0)) or 1.0


def _checked(values: Any, shape: tuple[int, ...], what: str) -> np.ndarray:
    values = np.asarray(values)
    if values.shape != shape:
        raise DataError(f"the {what} has shape {values.shape} for scores of {shape[0]} rows; it should be {shape}")
    if not np.isfinite(values).all():
        raise DataError(f"the {what} has NaN or infinite values")
    return values


def _label_sums(targets: Any, Z: np.ndarray) -> np.ndarray:
    """Inner products y'z of every row."""
    rows, columns = label_entries(targets)
    return np.bincount(rows, Z[rows, columns].astype(np.float64), minlength=len(Z))
