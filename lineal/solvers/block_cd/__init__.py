"""Coordinate descent over the features, for every smooth loss with every penalty."""

from lineal.solvers.block_cd.block_cd import check, check_objective, memory, solve

__all__ = ["check", "check_objective", "memory", "solve"]
