"""Coordinate descent over features, for every smooth loss with every penalty.

    min_{W,b}  Σ_i s_i ℓ(y_i, W'x_i + b + o_i) + α Σ_g f_g ω(W_g)

The loss and the penalty decide which of two methods is used.

**Single weights** (`single_weights.py`): one-vs-rest losses with l1, elastic net or l2, where the penalty is a sum over
single weights. The method is the proximal Newton method of Yuan, Ho & Lin (2012), newGLMNET, on working sets as in
Massias, Gramfort & Salmon (2018), Celer. The score columns are independent problems that share X. An iteration
computes the gradients of all columns that have not converged in one pass over X, chooses a working set for each
column, and improves each column on its own set (`proximal_newton.py`), with one column per thread. The gradient gives
the duality gap of a column at almost no cost: the dual point is u = ∇ℓ, scaled so that |X'u| ≤ α. A column has
converged when its own gap is small; every column has its own scale. The certificate is computed when all have
converged.

**Groups of weights** (`weight_groups.py`): everything else. A group has the weights of one feature for all classes, or
those of several features. The method is the block coordinate descent of Blondel, Seki & Uehara (2013) on working sets,
with Newton steps on the groups that are not zero in between. Their own algorithms can be selected for comparisons
(`paper/`).

Memory: X by columns (a copy that X keeps, unless X is CSC or dense in Fortran order), scores and derivatives of n·k
numbers, a gradient of d·k numbers, and 5n + d numbers per thread. The certificate adds dual variables and scores of
n·k numbers in float64. Groups add a copy of the features in use (at most 256 MB or a quarter of X) and n·k numbers.
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
from lineal.solvers.block_cd.single_weights import SingleWeights
from lineal.solvers.block_cd.weight_groups import WeightGroups
from lineal.solvers.options import BlockOptions


def check(loss: Any, penalty: Any) -> None:
    """Raise an error for a loss that is not smooth."""
    check_smooth_loss("block_cd", loss)


def check_objective(objective: Objective) -> None:
    """Raise an error for rows in another process, and for a penalty with a centre unless it is on single weights."""
    local_rows("block_cd", objective)
    if objective.regulariser.centre is not None and not _has_single_weights(objective):
        raise OptionError(
            f"block_cd does not take a penalty with a centre for loss {objective.loss.name!r}: use lbfgs or newton"
        )


def memory(n: int, d: int, k: int, size: int) -> int:
    """Number of bytes besides X and its copy by columns."""
    return (2 * n * k + 2 * d * k) * size + 24 * n * k


@solver(check=check, check_objective=check_objective, memory=memory, order="columns", options=BlockOptions)
def solve(objective: Objective, budget: Budget, start: Start, options: BlockOptions) -> Solution:
    """Minimise the objective to a relative duality gap of `tol`, or a relative violation if some weights are free."""
    if options.is_paper:
        return paper.solve(objective, budget, start, options)
    engine, theta = local_rows("block_cd", objective), objective.theta_of(start)
    method = SingleWeights if _has_single_weights(objective) else WeightGroups
    with Monitor(budget) as monitor:
        return improve_until_done(method(objective, engine, theta, budget.tol, budget.threads), monitor)


def _has_single_weights(objective: Objective) -> bool:
    """Whether the objective is a sum over score columns, and its penalty a sum over single weights."""
    return objective.regulariser.penalty.is_separable and not objective.loss.is_direct
