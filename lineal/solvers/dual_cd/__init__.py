"""Dual coordinate descent for the l2 penalty.

Lives here: `dual_cd.py` is the algorithm, `ascent.py` its weights and passes over the rows, `margin.py` and
`simplex.py` the kernels of one pass (for one-vs-rest and for direct losses), and `rows.py` their arguments.
`holders.py` hands out the rows, all at once or part by part from a file, as `row_set.py` describes them; `geometry.py`
is what all rows have in common. `column_groups.py` and `stored.py` are the matrix of dual variables, in memory and of
rows in files.
May import: `lineal.numerics`, `lineal.problem` and everything below, and `lineal.solvers.options`.
To add a loss: set its `dual_curvature` and define `dual_ascent` and `dual_is_bound`, or `row_dual_ascent` if it is a
direct loss.
"""

from lineal.solvers.dual_cd.dual_cd import check, check_objective, memory, solve

__all__ = ["check", "check_objective", "memory", "solve"]
