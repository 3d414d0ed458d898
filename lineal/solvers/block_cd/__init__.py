"""Coordinate descent over the features, for every smooth loss with every penalty."""

from lineal.solvers.block_cd.block_cd import ORDER, check, memory, solve

__all__ = ["ORDER", "check", "memory", "solve"]
