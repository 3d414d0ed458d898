"""The hybrid of online learning and L-BFGS.

`hybrid.py` is the method, `adaptive_pass.py` the online pass of a shard.
May import: `lineal.numerics`, `lineal.problem` and everything below, `lineal.solvers.options`, `lineal.solvers.lbfgs`.
To add an online pass: write it beside `adaptive_pass.py`, as a step that the engine runs on every shard.
"""

from lineal.solvers.hybrid.hybrid import check, memory, solve

__all__ = ["check", "memory", "solve"]
