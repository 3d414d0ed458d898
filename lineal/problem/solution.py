"""Result of a fit: parameters, certificate, history and status."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np


@dataclass(frozen=True)
class Certificate:
    """Bound on how far a solution can be from the best possible one.

    Attributes
    ----------
    kind : "gap": `value` is the relative duality gap (P − D)/P, so that P ≤ P*/(1 − value) if value < 1;
        "violation": `value` is the largest violation of the optimality conditions, relative to that of the model
        without features (used where no finite gap exists); "none": the method minimises no single convex objective.
    value : relative gap or violation, NaN for "none".
    primal : objective P of the solution.
    dual : lower bound D of the smallest objective, None unless kind is "gap".
    """

    kind: str
    value: float
    primal: float
    dual: float | None = None

    @staticmethod
    def of_gap(primal: float, dual: float) -> Certificate:
        """Certificate of a solution with objective `primal`, given a lower bound `dual` of the smallest objective."""
        return Certificate("gap", max(primal - dual, 0.0) / primal if primal > 0.0 else 0.0, primal, dual)

    def meets(self, tol: float) -> bool:
        """Whether the certificate meets the tolerance."""
        return self.kind != "none" and self.value <= tol

    def to_json(self) -> dict[str, Any]:
        """Dictionary of JSON values."""
        return {
            "kind": self.kind,
            "value": _plain(self.value),
            "primal": _plain(self.primal),
            "dual": _plain(self.dual),
        }

    @staticmethod
    def from_json(values: dict[str, Any]) -> Certificate:
        """Certificate from the dictionary that `to_json` returns."""

        def number(name: str) -> float:
            return math.nan if values[name] is None else float(values[name])

        dual = None if values["dual"] is None else float(values["dual"])
        return Certificate(str(values["kind"]), number("value"), number("primal"), dual)

    def __str__(self) -> str:
        if self.kind == "gap" and (self.dual is None or self.dual <= 0.0 < self.primal):
            return f"relative duality gap {self.value:.2g} (objective {self.primal:.8g}, no useful bound yet)"
        if self.kind == "gap" and self.dual is not None:
            above = 100.0 * max(self.primal - self.dual, 0.0) / self.dual if self.dual > 0.0 else 0.0
            return (
                f"within {above:.2g} % of the best possible (relative duality gap {self.value:.2g}, "
                f"objective {self.primal:.8g})"
            )
        if self.kind == "violation":
            return f"relative optimality violation {self.value:.2g} (objective {self.primal:.8g})"
        return "none: this method minimises no single convex objective"


#: Certificate of methods that minimise no single convex objective.
NO_CERTIFICATE = Certificate("none", math.nan, math.nan)


class Members(NamedTuple):
    """Models that vote: their weights (m, d, k), and their intercepts (m, k)."""

    weights: np.ndarray
    intercepts: np.ndarray


@dataclass(frozen=True)
class Run:
    """History, status and message of a fit without a certificate; `is_answered` as of `Solution`."""

    history: list[dict[str, float]]
    status: str
    message: str
    certificate = NO_CERTIFICATE
    is_answered: bool = field(default=True, kw_only=True)
    took = ""

    @property
    def needs_warning(self) -> bool:
        """Whether the message must be shown as a warning."""
        return self.status != "converged"


def _plain(value: float | None) -> float | None:
    return None if value is None or not math.isfinite(value) else float(value)


@dataclass(frozen=True)
class Snapshot:
    """One iteration, as passed to callbacks. `gap` is the current estimate of the solver."""

    iteration: int
    seconds: float
    objective: float
    gap: float
    nonzero_rows: int
    weights: np.ndarray = field(repr=False)
    intercept: np.ndarray = field(repr=False)

    def row(self) -> dict[str, Any]:
        """Row of the history for this iteration; None for numbers that the method does not have."""
        return {
            "iteration": self.iteration,
            "seconds": self.seconds,
            "objective": None if math.isnan(self.objective) else self.objective,
            "gap": None if math.isnan(self.gap) else self.gap,
            "nonzero_rows": self.nonzero_rows,
        }


@dataclass(frozen=True)
class Solution:
    """Result of a solver.

    Attributes
    ----------
    weights : (d, k), in the data type of X.
    intercept : (k,), zeros if no intercept is fitted.
    certificate : bound on how far the solution can be from the best possible one.
    history : one dict per iteration: iteration, seconds, objective, gap, nonzero_rows, and the name of the solver. A
        number that was too expensive to compute is None.
    status : "converged", "max_iter", "max_time", "stopped" (by a callback), "interrupted" or "stalled" (no further
        progress is possible in this precision); "slow" only between two solvers (see `Budget.is_slow`).
    message : one sentence about the status and what would help.
    dual_point : (n, k) dual variables of a solver that has them, from which another fit to the same rows can start:
        an array, or something that `np.asarray` converts.
    members : models of parts of the rows that vote instead of the mean, which `weights` and `intercept` are; or None.
    is_answered : False if workers did not answer, so that nothing more could be computed.
    solver : name of the solver that found it; of several that ran one after the other, the last one.
    choice : which solvers "auto" took, and why; empty if the solver was named.
    has_minimum : False if the objective decreases as long as the weights grow, so that any tolerance is met eventually.
    """

    weights: np.ndarray
    intercept: np.ndarray
    certificate: Certificate
    history: list[dict[str, Any]]
    status: str
    message: str
    dual_point: Any = field(default=None, repr=False)
    members: Members | None = field(default=None, repr=False)
    has_minimum: bool = True
    is_answered: bool = True
    solver: str = ""
    choice: str = ""

    @property
    def took(self) -> str:
        """The solver that found it and, if that was chosen automatically, why."""
        return self.choice or self.solver

    @property
    def needs_warning(self) -> bool:
        """Whether the message must be shown as a warning: the fit did not converge, or there is no minimum."""
        return self.status != "converged" or not self.has_minimum
