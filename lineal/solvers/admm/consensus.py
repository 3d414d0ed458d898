"""What a shard does in an iteration of ADMM, and what it keeps: its parameters θ_j and its scaled multipliers u_j.

The intercept takes part in the consensus like a weight: it is the weight of a constant feature, which the penalty of
the model leaves out. Parameters here are therefore (W, b/c), where c is the value of that feature.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np

from lineal import penalties
from lineal.design.ones import with_constant
from lineal.design.orders import by_rows
from lineal.engine.base import Block
from lineal.engine.state import Piece
from lineal.engine.time_limit import TimeLimit
from lineal.numerics.vectors import dot
from lineal.penalties.regulariser import Regulariser
from lineal.problem.budget import Budget
from lineal.problem.objective import check_finite
from lineal.problem.solution import NO_CERTIFICATE, Solution
from lineal.problem.steps import RowGradients, parameter_gradient
from lineal.solvers import shard_fit

#: Names of what a shard keeps.
NAMES = ("theta", "sum", "rows")

#: Largest number of iterations of the fit of a shard.
MAX_ITER = 100


@dataclass(frozen=True)
class Shard:
    """How a shard sees its rows: the loss, and the value of the constant feature, zero without an intercept."""

    loss: Any
    constant: float

    def block(self, block: Block) -> Block:
        """The block with the constant feature."""
        X = by_rows(block.X)
        return replace(block, X=X if self.constant == 0.0 else with_constant(X, self.constant))


@dataclass(frozen=True)
class Begin(Shard):
    """Rebuild the pieces of a shard at parameters z: θ_j = z, and u_j = (∇F(z) − ∇f_j(z))/ρ.

    `gradient` is ∇F(z) of all rows; without it u_j is zero. `sum` is u_j plus the relaxed θ_j; `rows` are dual points
    of the rows, if they are kept. After a checkpoint, the pieces are those that it has: `places` are the first rows of
    its shards and their lengths, and `saved` are the arrays of one shard after the other.
    """

    keeps_duals: bool = False

    def __call__(
        self, block: Block, z: np.ndarray, rho: float, gradient: np.ndarray | None, places: np.ndarray | None = None,
        *saved: np.ndarray,
    ) -> Piece:  # fmt: skip
        if places is not None:
            number = places.tolist().index([block.first, block.n])
            return dict(zip(NAMES, saved[len(NAMES) * number : len(NAMES) * (number + 1)]))
        rows = self.block(block)
        zeros = np.zeros(z.shape[1], z.dtype)
        U = RowGradients(self.loss)(rows, z, zeros)
        sums = z.copy()
        if gradient is not None:
            own = parameter_gradient(rows, U * share_of(rows).astype(U.dtype)[:, None], False)
            sums += (gradient - own) / rho
        return {
            "theta": z.copy(), "sum": sums,
            "rows": U if self.keeps_duals else U[:0].copy(),
        }  # fmt: skip


class Totals(NamedTuple):
    """Sums over the shards, weighted by their share S_j of the weight of all rows.

    Attributes
    ----------
    mean : Σ S_j·sum_j.
    away : Σ S_j‖θ_j − z‖².
    size : Σ S_j‖θ_j‖².
    multipliers : Σ S_j‖u_j‖².
    value : Σ S_j·(mean loss of the shard + ρ/2‖θ_j − z + u_j‖²).
    cut : number of fits that were cut short.
    """

    mean: np.ndarray
    away: float
    size: float
    multipliers: float
    value: float
    cut: int


@dataclass(frozen=True)
class Iterate(Shard):
    """Step: one iteration of a shard, given the consensus z.

    u_j ← sum − z, θ_j ← argmin of its mean loss + ρ/2‖θ − z + u_j‖², sum ← u_j + γθ_j + (1 − γ)z

    γ is the relaxation, and the rest of the arguments limits the fit of the shard. Returns `Totals`.
    """

    relaxation: float = 1.0

    def __call__(
        self, block: Block, piece: Piece, z: np.ndarray, rho: float, rho_before: float, tol: float,
        limit: TimeLimit | None,
    ) -> Totals:  # fmt: skip
        if not bool((block.weights > 0.0).any()):
            return Totals(np.zeros_like(z), 0.0, 0.0, 0.0, 0.0, 0)
        u = (piece["sum"] - z) * z.dtype.type(rho_before / rho)
        centre = np.ascontiguousarray(z - u)
        check_finite(float(np.abs(centre).max(initial=0.0)), "the consensus of the shards")
        budget = Budget(tol, MAX_ITER, None if limit is None else limit(block))
        found = self._fitted(block, piece, rho, centre, budget)
        theta, share = np.ascontiguousarray(found.weights), float(block.weights.sum())
        away = theta - z
        piece["theta"], piece["sum"] = theta, u + z.dtype.type(self.relaxation) * away + z
        if piece["rows"].size and found.dual_point is not None:
            piece["rows"] = np.asarray(found.dual_point)
        apart, size, multipliers = (share * dot(part, part) for part in (away, theta, u))
        value, cut = share * found.certificate.primal, int(shard_fit.is_cut(found, budget.max_time))
        return Totals(z.dtype.type(share) * piece["sum"], apart, size, multipliers, value, cut)

    def _fitted(self, block: Block, piece: Piece, rho: float, centre: np.ndarray, budget: Budget) -> Solution:
        """Solution of a shard, from the parameters and dual points of the iteration before."""
        rows, theta = self.block(block), piece["theta"]
        regulariser = Regulariser(penalties.get("l2"), rho, len(theta), centre=centre)
        objective = shard_fit.objective_of(rows, self.loss, theta.shape[1], regulariser, fit_intercept=False)
        point = piece["rows"] if piece["rows"].size else None
        start = Solution(theta, np.zeros(theta.shape[1], theta.dtype), NO_CERTIFICATE, [], "", "", point)
        return shard_fit.fit(objective, start, budget)


@dataclass(frozen=True)
class Kept:
    """Step for `Engine.gather`: what a shard keeps, with the place of its rows, for a checkpoint."""

    def __call__(self, block: Block, piece: Piece) -> tuple[int, int, Piece]:
        return block.first, block.n, dict(piece)


def share_of(block: Block) -> np.ndarray:
    """Weights of the rows of a block, made to add up to one; zeros if all of them are zero."""
    total = float(block.weights.sum())
    return block.weights / total if total > 0.0 else block.weights
