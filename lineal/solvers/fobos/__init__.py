"""FOBOS: stochastic subgradient updates, each followed by the prox of the penalty.

Lives here: `fobos.py` is the algorithm, and `subgradient_pass.py` the kernels of one pass over the rows.
May import: `lineal.numerics`, `lineal.problem` and everything below, and `lineal.solvers.options`.
To add a schedule of step sizes: add its name to `FobosOptions`, and set the clock for it in `_Passes.run`.
"""

from lineal.solvers.fobos.fobos import check, check_objective, memory, solve

__all__ = ["check", "check_objective", "memory", "solve"]
