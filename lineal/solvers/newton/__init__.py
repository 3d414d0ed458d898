"""Truncated Newton method for smooth losses with the l2 penalty.

Lives here: `newton.py` is the algorithm, `globalise.py` chooses step sizes (line search or trust region), and
`small_hessian.py` factorises the Hessians of few features. `sampled.py` is the variant for many dense rows and few
parameters: `sample_size.py` says where it is worthwhile, `row_sample.py` draws rows, `sampled_hessian.py` makes their
matrices, `sampler.py` does this again and again, `damping.py` and `shorter.py` limit steps, and `newton_dual.py` makes
a dual point of a direction.
May import: `lineal.numerics`, `lineal.problem` and everything below, and `lineal.solvers.options`.
To add a way to choose step sizes: write a class like `LineSearch` in `globalise.py`, and add its name to
`GLOBALISATIONS` and to `NewtonOptions`.
"""

from lineal.solvers.newton.newton import check, memory, solve

__all__ = ["check", "memory", "solve"]
