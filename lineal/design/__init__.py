"""The matrix as kernels see it. Dense or sparse is decided here, once, and nowhere else."""

from lineal.design.matrix import Design, wrap

__all__ = ["Design", "wrap"]
