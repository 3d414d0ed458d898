"""L-BFGS for smooth losses with the l2 penalty: min_{W,b} F(W, b) by limited-memory quasi-Newton steps."""

from lineal.solvers.lbfgs.lbfgs import check, memory, solve

__all__ = ["check", "memory", "solve"]
