"""Method of multipliers: smoothed losses around dual points, for losses with kinks and every penalty.

Lives here: `multipliers.py` is the algorithm; `smoothed_hinge.py` and `smoothed_crammer_singer.py` are the losses that
it minimises, by Newton's method (`few_features.py`, with `smoothed_penalty.py`) or by other solvers (`smooth_fits.py`).
May import: `lineal.numerics`, `lineal.problem` and everything below, `lineal.solvers.options`, and the solvers for
smooth losses.
To add a loss: write its smoothed form, in a file of this folder, and add it to `SMOOTHED` in `multipliers.py`.
"""

from lineal.solvers.multipliers.multipliers import check, check_objective, memory, solve

__all__ = ["check", "check_objective", "memory", "solve"]
