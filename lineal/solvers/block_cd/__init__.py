"""Coordinate descent over features, for every smooth loss with every penalty.

Lives here: `block_cd.py` chooses between two methods, and `loop.py` is their outer loop. `single_weights.py` is for
penalties of single weights: `proximal_newton.py` and `score_columns.py` have its kernels. `weight_groups.py` is for
groups of weights: `group_state.py` is its state, `group_descent.py` has its kernels, and `support_newton.py` and
`gram_newton.py` (with `chosen_features.py`) are Newton steps on some of the features. Both methods use
`working_set.py`. `screening.py` proves that groups are zero, and `paper/` has the published algorithms.
May import: `lineal.numerics`, `lineal.problem` and everything below, and `lineal.solvers.options`.
To add a method: write a class with the members of `loop.State`, and choose it in `block_cd.solve`.
"""

from lineal.solvers.block_cd.block_cd import check, check_objective, memory, solve

__all__ = ["check", "check_objective", "memory", "solve"]
