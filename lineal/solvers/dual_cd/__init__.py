"""Dual coordinate descent for the l2 penalty.

Lives here: `dual_cd.py` is the algorithm, `ascent.py` its state and passes over the rows, `margin.py` and `simplex.py`
the kernels of one pass (for one-vs-rest and for direct losses), `rows.py` their arguments, and `column_groups.py` the
matrix of dual variables.
May import: `lineal.numerics`, `lineal.problem` and everything below, and `lineal.solvers.options`.
To add a loss: set its `dual_curvature` and define `dual_ascent` and `dual_is_bound`, or `row_dual_ascent` if it is a
direct loss.
"""

from lineal.solvers.dual_cd.dual_cd import check, check_objective, memory, solve

__all__ = ["check", "check_objective", "memory", "solve"]
