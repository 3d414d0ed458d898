"""Coordinate descent over the features, for every smooth loss with every penalty.

    min_{W,b}  Σ_i s_i ℓ(y_i, W'x_i + b + o_i) + α Σ_g f_g ω(W_g)

Two methods, by what the problem is made of.

One-vs-rest losses with l1, elastic net or l2 are sums over single weights: the proximal Newton method of Yuan, Ho & Lin
(2012), newGLMNET, inside of working sets as in Massias, Gramfort & Salmon (2018), Celer. The score columns are
independent problems that share X. An iteration computes the gradient of all columns that are not done in one pass over
X, chooses a working set for each, and improves each on its own set (`parts/proximal_newton.py`), on as many threads as
there are. The gradient gives a duality gap of every column for next to nothing: u = ∇ℓ, scaled to where |X'u| ≤ α. A
column is done when its own gap is small, and each column has a scale of its own; the certificate is computed when all
are done.

Everything else has blocks: the weights of a feature for all classes, or of a group of features. Block coordinate
descent of Blondel, Seki & Uehara (2013) inside of working sets, with Newton steps on the blocks in use between
(`parts/row_blocks.py`); on request also their own algorithms, to compare with (`parts/paper_sweeps.py`).

Memory: X by columns (a copy that X keeps, unless X is CSC or dense in F order), scores and slopes of n·k numbers, a
gradient of d·k, and per thread 5n + d numbers; the certificate adds dual variables and scores of n·k in float64. Blocks
add a copy of the features in use, of at most 256 MB or a quarter of X, and n·k numbers beside it.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np

from lineal.core import threads as pool
from lineal.engine.local import LocalEngine
from lineal.errors import OptionError, unknown_value
from lineal.numerics.smooth_only import check_smooth_loss
from lineal.problem.monitor import Callback, Monitor, explain
from lineal.problem.objective import Objective, check_finite
from lineal.problem.solution import Solution
from lineal.solvers.block_cd.paper.sweeps import METHODS, PaperSweeps, check_options
from lineal.solvers.block_cd.row_blocks import RowBlocks
from lineal.solvers.block_cd.single_weights import SingleWeights

#: How X is read; a copy is made where it is not stored like this.
ORDER = "columns"

#: Iterations without any progress after which rounding is to blame.
PATIENCE = 5


def check(loss: Any, penalty: Any) -> None:
    """Refuse, by name, what this solver cannot honour."""
    check_smooth_loss("block_cd", loss)


def memory(n: int, d: int, k: int, size: int) -> int:
    """Bytes besides X and its copy by columns (`ORDER`)."""
    return (2 * n * k + 2 * d * k) * size + 24 * n * k


def solve(
    objective: Objective,
    *,
    tol: float = 1e-3,
    max_iter: int = 1000,
    max_time: float | None = None,
    callbacks: Iterable[Callback] = (),
    start: np.ndarray | Solution | None = None,
    n_jobs: int | None = None,
    seed: int = 0,
    method: str = "working_sets",
    step: str | None = None,
    constant: str = "tight",
    shrinking: bool = False,
    rule: str = "gap",
) -> Solution:
    """Minimise the objective to a relative duality gap of `tol` (a relative violation where some weights are free).

    The other methods are those of the paper, to compare with (`parts/paper_sweeps.py`): "cyclic", "random" (whose
    order `seed` chooses) and "parallel", with a `step` by "line_search" or by a "constant" that is "tight" or the
    "paper"'s, with or without `shrinking`. They can also end by the paper's rules: the "sum" or the "max" of the
    violations that a sweep meets, relative to the first sweep, is below `tol`.
    """
    check(objective.loss, objective.regulariser.penalty)
    options = _options(method, step, constant, shrinking, rule)
    theta = objective.theta_of(start)
    with Monitor(max_iter, max_time, callbacks) as monitor:
        state = _state(objective, theta, tol, pool.thread_count(n_jobs), seed, options)
        value = state.objective()
        check_finite(value, "the objective at the starting point")
        state.look()
        iteration, idle, best = 0, 0, state.estimate()
        status = monitor.record(0, value, state.estimate(), *objective.split(theta))
        while True:
            if state.is_done() or status is not None:
                certificate = state.certificate()
                if state.accepts(certificate) or status is not None:
                    break
                state.tighten()
            before = value
            state.improve()
            state.look()
            iteration, value = iteration + 1, state.objective()
            status = monitor.record(iteration, value, state.estimate(), *objective.split(theta))
            idle = 0 if value < before * (1.0 - 1e-14) or state.estimate() < 0.9 * best else idle + 1
            best = min(best, state.estimate())
            if idle >= PATIENCE:
                status = status or "stalled"
    status = "converged" if state.accepts(certificate) else status or "stalled"
    monitor.history[-1]["gap"] = certificate.value
    W, b = objective.split(theta)
    return Solution(W, b, certificate, monitor.history, status, explain(status, certificate, tol, max_iter))


def _options(method: str, step: str | None, constant: str, shrinking: bool, rule: str) -> dict[str, Any] | None:
    """Options of the paper's methods, None for working sets, which have none."""
    if method in METHODS:
        return check_options(method, step, constant, shrinking, rule)
    if method != "working_sets":
        raise unknown_value("method", method, ["working_sets", *METHODS])
    if (step, constant, shrinking, rule) != (None, "tight", False, "gap"):
        raise OptionError(f"step, constant, shrinking and rule are for method={' or '.join(map(repr, METHODS))}")
    return None


def _state(
    objective: Objective, theta: np.ndarray, tol: float, threads: int, seed: int, options: dict[str, Any] | None
) -> SingleWeights | RowBlocks | PaperSweeps:
    engine = objective.engine
    if not isinstance(engine, LocalEngine):
        raise OptionError(f"block_cd needs all rows in this process: {type(engine).__name__} has them elsewhere")
    is_separable = options is None and objective.regulariser.penalty.is_separable and not objective.loss.is_direct
    if not is_separable and objective.regulariser.centre is not None:
        raise OptionError(
            f"block_cd takes no penalty with a centre for loss {objective.loss.name!r}: use lbfgs or newton"
        )
    if options is not None:
        return PaperSweeps(objective, engine, theta, tol, threads, seed, options)
    return (SingleWeights if is_separable else RowBlocks)(objective, engine, theta, tol, threads)
