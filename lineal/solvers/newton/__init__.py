"""Truncated Newton for smooth losses with the l2 penalty: min_{W,b} F(W, b) by conjugate gradients on ∇²F·s = −∇F."""

from lineal.solvers.newton.newton import check, memory, solve

__all__ = ["check", "memory", "solve"]
