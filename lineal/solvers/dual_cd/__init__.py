"""Dual coordinate descent for the l2 penalty: max_u D(u) one example at a time, all its classes at once."""

from lineal.solvers.dual_cd.dual_cd import check, check_objective, memory, solve

__all__ = ["check", "check_objective", "memory", "solve"]
