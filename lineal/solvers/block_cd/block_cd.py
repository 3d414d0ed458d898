"""Coordinate descent over the features, for every smooth loss with every penalty.

    min_{W,b}  Σ_i s_i ℓ(y_i, W'x_i + b + o_i) + α Σ_g f_g ω(W_g)

Two methods, by what the problem is made of.

One-vs-rest losses with l1, elastic net or l2 are sums over single weights: the proximal Newton method of Yuan, Ho & Lin
(2012), newGLMNET, inside of working sets as in Massias, Gramfort & Salmon (2018), Celer. The score columns are
independent problems that share X. An iteration computes the gradient of all columns that are not done in one pass over
X, chooses a working set for each, and improves each on its own set (`proximal_newton.py`), on as many threads as
there are. The gradient gives a duality gap of every column for next to nothing: u = ∇ℓ, scaled to where |X'u| ≤ α. A
column is done when its own gap is small, and each column has a scale of its own; the certificate is computed when all
are done.

Everything else has blocks: the weights of a feature for all classes, or of a group of features. Block coordinate
descent of Blondel, Seki & Uehara (2013) inside of working sets, with Newton steps on the blocks in use between
(`row_blocks.py`); on request also their own algorithms, to compare with (`paper/`).

Memory: X by columns (a copy that X keeps, unless X is CSC or dense in F order), scores and slopes of n·k numbers, a
gradient of d·k, and per thread 5n + d numbers; the certificate adds dual variables and scores of n·k in float64. Blocks
add a copy of the features in use, of at most 256 MB or a quarter of X, and n·k numbers beside it.
"""

from __future__ import annotations

from typing import Any

from lineal.errors import OptionError
from lineal.numerics.local_only import local_rows
from lineal.numerics.smooth_only import check_smooth_loss
from lineal.problem.budget import Budget
from lineal.problem.monitor import Monitor
from lineal.problem.objective import Objective
from lineal.problem.solution import Solution
from lineal.problem.solver import Start, solver
from lineal.solvers.block_cd.loop import improve_until_done
from lineal.solvers.block_cd.paper import paper
from lineal.solvers.block_cd.row_blocks import RowBlocks
from lineal.solvers.block_cd.single_weights import SingleWeights
from lineal.solvers.options import BlockOptions


def check(loss: Any, penalty: Any) -> None:
    """Refuse, by name, what this solver cannot honour."""
    check_smooth_loss("block_cd", loss)


def check_objective(objective: Objective) -> None:
    """Refuse rows that are held elsewhere, and penalties with a centre except on single weights."""
    local_rows("block_cd", objective)
    if objective.regulariser.centre is not None and not _has_single_weights(objective):
        raise OptionError(
            f"block_cd takes no penalty with a centre for loss {objective.loss.name!r}: use lbfgs or newton"
        )


def memory(n: int, d: int, k: int, size: int) -> int:
    """Bytes besides X and its copy by columns."""
    return (2 * n * k + 2 * d * k) * size + 24 * n * k


@solver(check=check, check_objective=check_objective, memory=memory, order="columns", options=BlockOptions)
def solve(objective: Objective, budget: Budget, start: Start, options: BlockOptions) -> Solution:
    """Minimise the objective to a relative duality gap of `tol` (a relative violation where some weights are free)."""
    if options.is_paper:
        return paper.solve(objective, budget, start, options)
    engine, theta = local_rows("block_cd", objective), objective.theta_of(start)
    method = SingleWeights if _has_single_weights(objective) else RowBlocks
    with Monitor(budget) as monitor:
        return improve_until_done(method(objective, engine, theta, budget.tol, budget.threads), monitor)


def _has_single_weights(objective: Objective) -> bool:
    """Whether the objective is a sum over score columns, and its penalty one over single weights."""
    return objective.regulariser.penalty.is_separable and not objective.loss.is_direct
