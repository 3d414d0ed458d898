"""L-BFGS for smooth losses with the l2 penalty.

Lives here: `lbfgs.py` is the algorithm, and `line_search.py` finds step sizes that meet the weak Wolfe conditions.
May import: `lineal.numerics`, `lineal.problem` and everything below.
To use another initial Hessian: call `lbfgs.descend` with a function that returns a `Metric`, as `least_squares` does.
"""

from lineal.solvers.lbfgs.lbfgs import check, memory, solve

__all__ = ["check", "memory", "solve"]
