"""Consensus ADMM, for every loss and every penalty:

    min_{z, θ_1 … θ_m} Σ_j S_j f_j(θ_j) + αΩ(z),  θ_j = z,

with f_j the mean loss of shard j and S_j its share of the weight of all rows. Boyd, Parikh, Chu, Peleato & Eckstein
(2011), section 7.1, in the scaled form, with over-relaxation (3.4.3). An iteration is one pass:

    u_j ← u_j + γθ_j + (1 − γ)z_before − z,   θ_j ← argmin f_j(θ) + ρ/2‖θ − z + u_j‖²   (every shard, on its own rows)
    z ← prox_{αΩ/ρ}(Σ_j S_j (u_j + γθ_j + (1 − γ)z))                                     (once, from one sum)

Only the shards' sums travel; the rows never do. A shard is fitted by another solver with the centred l2 penalty, from
its last answer, to a tolerance that decreases with the residuals. Since S_j multiplies both f_j and ρ, the problem of a
shard does not depend on how many shards there are. The first u_j are (∇F(z) − ∇f_j(z))/ρ: from there every shard moves
along the gradient of all rows, and a z that is optimal stays where it is, so that a good start is not lost. Without a
start they are zero, so that the first z is close to an average of models (`averaging.py`).

ρ keeps the two relative residuals balanced (Wohlberg 2017): ‖θ_j − z‖ relative to the parameters, and ‖z − z_before‖
relative to the multipliers. It is changed less and less often, so that the method converges.

The fit ends when the certificate of z meets `tol`, or, in the given precision, when both residuals vanish. For a loss
with kinks, the dual point of the certificate consists of the dual variables of the shards' fits.

Memory per shard: two parameter arrays, a copy of its rows with an intercept, and its dual variables where they are
needed. Here: four parameter arrays.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from lineal.engine.state import RowState, ShardPoint
from lineal.numerics.best_iterate import LowerBound
from lineal.numerics.certificate_waits import CertificateWaits
from lineal.numerics.vectors import dot
from lineal.problem.budget import Budget
from lineal.problem.loop_state import Later, LoopState
from lineal.problem.monitor import Monitor
from lineal.problem.objective import Objective
from lineal.problem.solution import Certificate, Solution
from lineal.problem.solver import Start, solver
from lineal.solvers.admm.consensus import NAMES, Begin, Iterate, Kept, Totals
from lineal.solvers.options import AdmmOptions
from lineal.solvers.shard_loop import ShardLoop

#: ρ changes when one relative residual is this many times the other one, at most by the factor LARGEST_CHANGE.
UNBALANCED, LARGEST_CHANGE = 3.0, 10.0

#: Largest tolerance of a shard's fit, smallest one per data type, and the part of the residuals that errors may have.
LOOSE, TIGHT, ERROR_SHARE = 0.1, {4: 1e-6, 8: 1e-13}, 0.03

#: The number of iterations up to the next certificate is the number of iterations so far divided by this.
WAIT_DIVISOR = 6


def check(loss: Any, penalty: Any) -> None:
    """Raise an error for a loss of which no solver can fit a shard; every penalty will do."""


def memory(n: int, d: int, k: int, size: int) -> int:
    """Number of bytes besides X: the parameters here, and rows and dual variables of shards in this process."""
    return (12 * d + n) * k * size


@solver(check=check, memory=memory, order="rows", options=AdmmOptions)
def solve(objective: Objective, budget: Budget, start: Start, options: AdmmOptions) -> Solution:
    """Minimise the objective to a relative duality gap of `tol`; an iteration is one fit of every shard.

    The objective costs a pass. So `history` has it (instead of None) only when the gap was checked or, if there are
    callbacks, after every iteration.
    """
    with Monitor(budget) as monitor:
        run = _Run(objective, objective.theta_of(start), start is not None, budget, options)
        iteration = monitor.resume(run)

        def record(iteration: int) -> str | None:
            if not budget.callbacks:
                return monitor.count(iteration, run.best.estimate, lambda: objective.split(run.outside()))
            theta = run.outside()
            return monitor.record(iteration, objective.value(theta), run.best.estimate, *objective.split(theta))

        status, seconds = record(iteration), math.inf
        while not run.is_enough(iteration, monitor.history[-1]) and status is None:
            if run.is_done:
                status = "stalled"
                break
            began, left = monitor.seconds, None if budget.max_time is None else budget.max_time - monitor.seconds
            if seconds == math.inf or (left is not None and left < 2.0 * seconds):
                monitor.save()  # what shards keep is lost if the iteration is cut short
            is_cut, ending = run.iterate(iteration, left), monitor.must_end(-1)
            if monitor.has_checkpoint and (is_cut or ending):  # it is done again when the fit continues
                status = ending or "max_time"
                monitor.lose()
                break
            iteration, seconds = iteration + 1, monitor.seconds - began
            status = record(iteration)
        theta, certificate, point = run.answer()
    return monitor.finish(*objective.split(theta), certificate, status, dual_point=point)


class _Run(ShardLoop):
    """The consensus z, in the coordinates (W, b/c), and what the shards keep.

    `lean` is the mean of the multipliers, Σ S_j u_j; shards scale theirs for `rho_before`; `primal` and
    `dual` are the relative residuals of the last iteration.
    """

    state_names = ("partition", "z", "lean", "rho", "rho_before", "tol", "primal", "dual", "best", "kept")

    def __init__(
        self, objective: Objective, theta: np.ndarray, is_warm: bool, budget: Budget, options: AdmmOptions
    ) -> None:  # fmt: skip
        self.objective, self.budget, self.options = objective, budget, options
        engine, loss = objective.engine, objective.loss
        self.shards = engine.shards(options.shards, budget.seed)
        self.constant = objective.unit if objective.fit_intercept else 0.0
        self.has_kinks = not loss.is_smooth
        keeps = self.has_kinks or (loss.dual_curvature is not None and not engine.is_dense)
        self.z = self._inside(theta)
        self.rho = self.rho_before = _first_rho(objective) if options.rho is None else float(options.rho)
        self.begin = Begin(loss, self.constant, keeps)
        self.step = Iterate(loss, self.constant, float(options.relaxation))
        self.lean, gradient = np.zeros_like(self.z), None
        if is_warm:
            mean, gradient = self._gradients(theta)
            self.lean = (gradient - mean) / self.rho
        self.state: RowState = self.shards.state(self.begin, self.z, self.rho, gradient, is_exact=False)
        self.tol, self.primal, self.dual = LOOSE, math.inf, math.inf
        self.best = _Best()

    # --- one iteration

    def iterate(self, iteration: int, left: float | None) -> bool:
        """Fit all shards in the seconds left, and move z to where they agree best; whether some fits were cut short."""
        before, limit = self.z, self.shards.time_per_shard(left)
        moved = self.state.to(before, self.rho, np.zeros_like(before))
        totals = Totals(
            *self.shards.sum(
                self.step, before, self.rho, self.rho_before, self.tol, limit, states=(moved,)
            )
        )  # fmt: skip
        self.rho_before = self.rho
        self.z = self._prox(totals.mean)
        self._measure(totals, before)
        if self.options.adaptive and _is_turn(iteration):
            self._balance()
        self.lean = ((totals.mean - self.z) * (self.rho_before / self.rho)).astype(self.z.dtype)
        return totals.cut > 0

    def _prox(self, z: np.ndarray) -> np.ndarray:
        """The proximal point of αΩ/ρ; the intercept has no penalty."""
        z = np.array(z, dtype=self.z.dtype, order="C")
        W = z[: self.objective.engine.shape[1]]
        self.objective.regulariser.prox(W, 1.0 / self.rho, out=W)
        return z

    def _gradients(self, theta: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Gradients of f and F at the start; where Ω has none, ρ(z − prox(z − ∇f(z)/ρ)) takes the place of ∇F."""
        _, gradient = self.objective.loss_and_gradient(theta)
        if self.constant:
            gradient[-1] *= self.constant
        return gradient, self.rho * (self.z - self._prox(self.z - gradient / self.rho))

    def _measure(self, totals: Totals, before: np.ndarray) -> None:
        """Relative residuals, and the tolerance that the next fits of the shards need."""
        change = self.z - before
        moved, tiny = math.sqrt(dot(change, change)), np.finfo(np.float64).tiny
        # Σ S‖θ_j − z‖² at the new z, from that at the one before: θ_j − z = (θ_j − z_before) − change, and the mean of
        # the sums has the mean multipliers in it.
        drift = dot(totals.mean - before - self.lean, change) / self.options.relaxation
        away = math.sqrt(max(totals.away - 2.0 * drift + moved * moved, 0.0))
        size = max(math.sqrt(totals.size), math.sqrt(dot(self.z, self.z)), tiny)
        self.primal = away / size
        self.dual = moved / math.sqrt(totals.multipliers) if totals.multipliers > 0.0 else math.inf
        error = ERROR_SHARE * self.rho * (away * away + moved * moved) / max(2.0 * totals.value, tiny)
        self.tol = min(max(error, TIGHT[self.z.dtype.itemsize]), LOOSE)

    def _balance(self) -> None:
        """Change ρ if one of the residuals is much larger than the other one."""
        if not (0.0 < self.primal < math.inf and 0.0 < self.dual < math.inf):
            return
        ratio = self.primal / self.dual
        if max(ratio, 1.0 / ratio) > UNBALANCED:
            self.rho *= min(max(math.sqrt(ratio), 1.0 / LARGEST_CHANGE), LARGEST_CHANGE)

    @property
    def is_done(self) -> bool:
        """Whether both residuals are rounding errors."""
        return max(self.primal, self.dual) <= float(np.finfo(self.z.dtype).eps)

    # --- parameters

    def _inside(self, theta: np.ndarray) -> np.ndarray:
        inside = theta.copy()
        if self.constant:
            inside[-1] /= self.constant
        return inside

    def outside(self) -> np.ndarray:
        """The consensus as θ."""
        theta = self.z.copy()
        if self.constant:
            theta[-1] *= self.constant
        return theta

    # --- certificates

    def is_enough(self, iteration: int, row: dict[str, Any]) -> bool:
        """Whether a certificate was due and meets tol."""
        if not self.best.waits.is_due(iteration) or (iteration == 0 and self.has_kinks):
            return False
        certificate = self._certify()
        row.update(objective=certificate.primal, gap=certificate.value)
        return self.best.certificate is not None and self.best.certificate.meets(self.budget.tol)

    def _certify(self) -> Certificate:
        theta = self.outside()
        certificate = self.objective.certificate(theta, self.budget.tol, self._point() if self.has_kinks else None)
        return self.best.offer(self.z, theta, certificate)

    def _point(self) -> ShardPoint:
        return ShardPoint(self.state, self.options.shards, self.budget.seed)

    def answer(self) -> tuple[np.ndarray, Certificate, ShardPoint | None]:
        """The best parameters with a certificate, and the dual point that gives it for losses with kinks."""
        if self.best.at is not self.z:
            self._certify()
        assert self.best.theta is not None
        assert self.best.certificate is not None
        return self.best.theta, self.best.certificate, self._point() if self.has_kinks else None

    # --- checkpoints

    @property
    def kept(self) -> Later:
        """What the shards keep: it cannot be computed from z."""
        return Later(self._gathered)

    def _gathered(self) -> dict[str, Any]:
        found = self.shards.gather(Kept(), states=(self.state,))
        places = np.array([[first, n] for first, n, _ in found], np.int64)
        return {"places": places, "pieces": [[piece[name] for name in NAMES] for _, _, piece in found]}

    def restore_part(self, name: str, value: Any) -> None:
        """Restore one of the attributes in `state_names`."""
        if name == "kept":
            arrays = [array for piece in value["pieces"] for array in piece]
            self.state = self.shards.state(
                self.begin, self.z, self.rho, None, value["places"], *arrays, is_exact=False
            )  # fmt: skip
        else:
            super().restore_part(name, value)


class _Best(LoopState):
    """The best certified parameters so far, the highest lower bound, and when to certify again."""

    state_names = ("waits", "bound", "at", "theta", "certificate")

    def __init__(self) -> None:
        self.waits, self.bound = CertificateWaits(1, WAIT_DIVISOR), LowerBound()
        self.at: np.ndarray | None = None  # the consensus that was certified last
        self.theta: np.ndarray | None = None
        self.certificate: Certificate | None = None

    @property
    def estimate(self) -> float:
        """The relative gap of the last certificate."""
        return math.inf if self.certificate is None else self.certificate.value

    def offer(self, z: np.ndarray, theta: np.ndarray, certificate: Certificate) -> Certificate:
        """Keep parameters that are the best so far; returns their certificate with the highest lower bound."""
        self.at, certificate = z, self._improved(certificate)
        if self.certificate is None or certificate.primal <= self.certificate.primal:
            self.theta, self.certificate = theta, certificate
        else:
            self.certificate = self._improved(self.certificate)
        return certificate

    def _improved(self, certificate: Certificate) -> Certificate:
        return self.bound.improve(certificate) if certificate.kind == "gap" else certificate


def _first_rho(objective: Objective) -> float:
    """ρ at the start: between the strength of the penalty and the curvature of the loss along a typical feature."""
    d, k = objective.engine.shape[1], objective.engine.n_columns
    loss, strengths = objective.loss, objective.regulariser.strengths
    curvature = loss.typical_curvature(k) if loss.is_smooth else 1.0
    typical = curvature * float(objective.moments[1].sum()) / max(d, 1)
    weak = float(strengths.mean()) if objective.regulariser.penalty.is_smooth and d else 0.0
    return max(typical, weak, float(np.finfo(np.float64).tiny) ** 0.25)


def _is_turn(iteration: int) -> bool:
    """Whether ρ may change after this iteration: often at first, then at intervals that grow."""
    return iteration < 10 or (iteration & (iteration - 1)) == 0
