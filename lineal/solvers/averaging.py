"""Model averaging: every shard of the rows fits a model of its own, and the models are averaged.

    θ = Σ_j S_j θ_j,   θ_j = argmin f_j(θ) + αΩ(W),

with f_j the mean loss of shard j and S_j its share of the weight of all rows. This is the parameter mixing of Mann et
al. (2009) and Zinkevich, Weimer, Smola & Li (2010): one round of communication. With several rounds it is the iterative
mixing of McDonald, Hall & Mann (2010): a round starts at the last mean, and fits are short. With `combine="vote"` the
models stay apart and vote (bagging).

The mean minimises no objective, and with few rows per shard its objective can even be above that of zero weights while
its predictions are good. Its certificate says how far it is from the minimum for all rows: a fit that ends after its
rounds above `tol` says so. For losses with kinks, the dual point consists of the dual variables of the shards.

Memory per shard: what its solver needs, and its dual variables for losses with kinks. Here: three parameter arrays, and
one per shard for a vote.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np

from lineal.engine.base import Block
from lineal.engine.state import Piece, RowState, ShardPoint
from lineal.engine.time_limit import TimeLimit
from lineal.penalties.regulariser import Regulariser
from lineal.problem.budget import Budget
from lineal.problem.monitor import Monitor
from lineal.problem.objective import Objective
from lineal.problem.solution import Certificate, Members, Solution
from lineal.problem.solver import Start, solver
from lineal.problem.steps import RowGradients
from lineal.solvers import shard_fit
from lineal.solvers.options import AveragingOptions
from lineal.solvers.shard_loop import ShardLoop

#: Iterations of a short fit.
LOCAL_ITER = 10


def check(loss: Any, penalty: Any) -> None:
    """Accept every loss and every penalty for which some solver fits a shard."""


def memory(n: int, d: int, k: int, size: int) -> int:
    """Number of bytes besides X: parameters here, and those and dual variables of four shards in this process."""
    return (16 * d + n) * k * size


@solver(check=check, memory=memory, order="rows", options=AveragingOptions, seeks_minimum=False)
def solve(objective: Objective, budget: Budget, start: Start, options: AveragingOptions) -> Solution:
    """Average the models of the shards; an iteration is one round."""
    with Monitor(budget) as monitor:
        run = _Run(objective, objective.theta_of(start), budget, options)
        iteration = monitor.resume(run)

        def record(iteration: int) -> str | None:
            certificate = run.certify()
            return monitor.record(iteration, certificate.primal, certificate.value, *objective.split(run.theta))

        status, done = record(iteration), iteration
        while done < options.rounds and status is None:
            is_cut = run.mix(None if budget.max_time is None else budget.max_time - monitor.seconds)
            ending, done = monitor.must_end(-1), done + 1
            if monitor.has_checkpoint and (is_cut or ending):  # the round is done again when the fit continues
                status = ending or "max_time"
            else:
                status = record(done) or ("max_time" if is_cut else None)
        found = monitor.finish(
            *objective.split(run.theta), run.certify(), status or "max_iter", dual_point=run.point
        )  # fmt: skip
    if found.status == "max_iter":
        found = replace(found, message=_message(options, done, run.n_models, found.certificate, budget))
    return found if run.voters is None else replace(found, members=Members(*run.voters))


def _message(options: AveragingOptions, done: int, shards: int, certificate: Certificate, budget: Budget) -> str:
    rounds = f"{done} round{'s' if done != 1 else ''}"
    if done < options.rounds:
        rounds = f"{done} of {options.rounds} rounds (max_iter={budget.max_iter})"
    return (
        f"the mean of the models of {shards} shards after {rounds}: {certificate}; tol is {budget.tol:g}; averages end "
        "above the minimum: use solver='admm', 'hybrid' or 'lbfgs' to reach it"
    )


class _Shard(NamedTuple):
    """What the fit of a shard gives: its share of the weight of all rows, parameters, and whether it was cut short."""

    share: float
    theta: np.ndarray
    is_cut: bool


class _Run(ShardLoop):
    """The mean θ of the models, and what the shards keep: their dual points.

    `certified` is the last certificate with its parameters, and `voters` are the models of a vote.
    """

    state_names = ("partition", "theta", "certified", "voters", "n_models")

    def __init__(self, objective: Objective, theta: np.ndarray, budget: Budget, options: AveragingOptions) -> None:
        self.objective, self.theta, self.budget, self.options = objective, theta, budget, options
        self.shards = objective.engine.shards(options.shards, budget.seed)
        self.has_kinks = not objective.loss.is_smooth
        self.state: RowState | None = None
        self.n_models = 0
        self.voters: tuple[np.ndarray, np.ndarray] | None = None
        self.certified: tuple[np.ndarray, Certificate] | None = None

    def mix(self, left: float | None) -> bool:
        """Fit all shards from the mean in the seconds left, and average; returns whether some fits were cut short."""
        options, objective = self.options, self.objective
        is_short = options.rounds > 1 or options.local_iter is not None
        most = options.local_iter or (LOCAL_ITER if is_short else self.budget.max_iter)
        kind = objective.loss, objective.fit_intercept, self.has_kinks
        step, self.state = FitShard(*kind, is_short), self.shards.state(DualsAt(*kind), self.theta, is_exact=False)
        limit = self.shards.time_per_shard(left)
        given = (self.theta, objective.regulariser, self.budget.tol, most, limit)
        states = (self.state.to(self.theta),)
        if options.combine == "vote":
            found = [_Shard(*one) for one in self.shards.gather(step, *given, states=states)]
            found = [one for one in found if one.share > 0.0]
            self.theta = np.sum([one.share * one.theta.astype(np.float64) for one in found], axis=0)
            self.voters, self.n_models = self._apart([one.theta for one in found]), len(found)
            cut = sum(one.is_cut for one in found)
        else:
            self.theta, self.n_models, cut = self.shards.sum(Weighted(step), *given, states=states)
        self.theta = np.ascontiguousarray(self.theta, dtype=objective.engine.dtype)
        return cut > 0

    def _apart(self, thetas: list[np.ndarray]) -> tuple[np.ndarray, np.ndarray]:
        """Weights (m, d, k) and intercepts (m, k) of the models."""
        pairs = [self.objective.split(theta) for theta in thetas]
        return np.stack([W for W, _ in pairs]), np.stack([b for _, b in pairs])

    @property
    def point(self) -> ShardPoint | None:
        """Dual points of the shards, for losses with kinks."""
        if self.state is None or not self.has_kinks:
            return None
        return ShardPoint(self.state, self.options.shards, self.budget.seed)

    def certify(self) -> Certificate:
        """Certificate of the mean."""
        if self.certified is None or self.certified[0] is not self.theta:
            self.certified = self.theta, self.objective.certificate(self.theta, self.budget.tol, self.point)
        return self.certified[1]


# --- steps over shards


@dataclass(frozen=True)
class DualsAt:
    """Rebuild the dual points of a shard as gradients at the mean, if they are kept."""

    loss: Any
    fit_intercept: bool
    keeps_duals: bool

    def __call__(self, block: Block, theta: np.ndarray) -> Piece:
        if not self.keeps_duals:
            return {"rows": np.zeros((0, theta.shape[1]), theta.dtype)}
        d = block.X.shape[1]
        b = theta[d] if self.fit_intercept else np.zeros(theta.shape[1], theta.dtype)
        return {"rows": RowGradients(self.loss)(block, theta[:d], b)}


@dataclass(frozen=True)
class FitShard:
    """Step for `Engine.gather`: the share and the parameters of a shard, fitted from θ; keeps its dual points.

    A short fit only improves θ.
    """

    loss: Any
    fit_intercept: bool
    keeps_duals: bool
    is_short: bool

    def __call__(
        self, block: Block, piece: Piece, theta: np.ndarray, regulariser: Regulariser, tol: float, most: int,
        limit: TimeLimit | None,
    ) -> _Shard:  # fmt: skip
        share = float(block.weights.sum())
        if share == 0.0:
            return _Shard(0.0, np.zeros_like(theta), False)
        objective = shard_fit.objective_of(block, self.loss, theta.shape[1], regulariser, self.fit_intercept)
        budget = Budget(tol, most, None if limit is None else limit(block))
        found = (shard_fit.improve if self.is_short else shard_fit.fit)(objective, theta.copy(), budget)
        fitted = np.vstack([found.weights, found.intercept[None, :]])[: len(theta)]
        if self.keeps_duals and found.dual_point is not None:
            piece["rows"] = np.asarray(found.dual_point)
        return _Shard(share, fitted.astype(theta.dtype, copy=False), shard_fit.is_cut(found, budget.max_time))


@dataclass(frozen=True)
class Weighted:
    """Step: the parameters of a shard times its share, and the numbers of shards that count and were cut short."""

    step: FitShard

    def __call__(self, block: Block, *arguments: Any) -> tuple[np.ndarray, int, int]:
        share, theta, is_cut = self.step(block, *arguments)
        return share * theta.astype(np.float64), int(share > 0.0), int(is_cut)
