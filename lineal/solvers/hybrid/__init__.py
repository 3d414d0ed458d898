"""The hybrid of online learning and L-BFGS.

`hybrid.py` is the method, `adaptive_pass.py` the online pass of a shard.
"""

from lineal.solvers.hybrid.hybrid import check, memory, solve

__all__ = ["check", "memory", "solve"]
