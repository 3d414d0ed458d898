"""Block coordinate descent as in Blondel, Seki & Uehara (2013): sweeps over all groups, without working sets.

`method="cyclic"`, "random" or "parallel" of `block_cd` selects it. It is meant for comparisons. `sweeps.py` explains
the methods, and `lineal/solvers/options.py` has their options.
"""

from __future__ import annotations

from lineal.errors import OptionError
from lineal.numerics.local_only import local_rows
from lineal.problem.budget import Budget
from lineal.problem.monitor import Monitor
from lineal.problem.objective import Objective
from lineal.problem.solution import Solution
from lineal.problem.solver import Start
from lineal.solvers.block_cd.loop import improve_until_done
from lineal.solvers.block_cd.paper.sweeps import PaperSweeps
from lineal.solvers.options import BlockOptions


def solve(objective: Objective, budget: Budget, start: Start, options: BlockOptions) -> Solution:
    """Minimise the objective until the stopping rule of the options is met: the certificate, or small violations."""
    if objective.regulariser.centre is not None:
        raise OptionError(f"method={options.method!r} does not take a penalty with a centre: use lbfgs or newton")
    engine, theta = local_rows("block_cd", objective), objective.theta_of(start)
    with Monitor(budget) as monitor:
        return improve_until_done(PaperSweeps(objective, engine, theta, budget, options), monitor)
