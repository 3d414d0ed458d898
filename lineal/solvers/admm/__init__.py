"""Consensus ADMM: every shard of the rows solves a problem of its own, and all of them are made to agree.

`admm.py` is the loop, `consensus.py` what a shard does in an iteration.
"""

from lineal.solvers.admm.admm import check, memory, solve

__all__ = ["check", "memory", "solve"]
