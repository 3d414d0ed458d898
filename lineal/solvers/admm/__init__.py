"""Consensus ADMM: every shard of the rows solves a problem of its own, and all of them are made to agree.

`admm.py` is the loop, `consensus.py` what a shard does in an iteration.
May import: `lineal.numerics`, `lineal.problem` and everything below, `lineal.solvers.options`, and the solvers that fit
the shards.
To add a way of fitting shards: add it to `consensus.py`, which chooses among them.
"""

from lineal.solvers.admm.admm import check, memory, solve

__all__ = ["check", "memory", "solve"]
