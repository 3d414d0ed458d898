"""FOBOS: a subgradient step on one row, then the prox of the penalty, row after row."""

from lineal.solvers.fobos.fobos import check, check_objective, memory, solve

__all__ = ["check", "check_objective", "memory", "solve"]
