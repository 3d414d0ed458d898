"""Which problems take Hessians of samples of rows, how many rows a sample has, and what it costs."""

from __future__ import annotations

import math

from lineal.problem.objective import Objective
from lineal.solvers.newton.small_hessian import MAX_DENSE

#: Largest number of parameters of one matrix, and of all matrices together.
MAX_PARAMETERS, MAX_ENTRIES = 2400, 6_000_000

#: Number of separate columns from which they share passes and samples, whatever the number of features.
MANY_COLUMNS = 4

#: Smallest number of rows per parameter of a matrix, and of entries of X times columns.
MIN_ROWS, MIN_WORK = 8, 1 << 21

#: Number of multiplications, and of entries of X, up to which the Hessian is that of all rows.
FEW_PRODUCTS, FEW_ENTRIES = 4e9, 4_000_000

#: Rows of a sample: this number times n over the parameters of a matrix, but at least so many per parameter.
SAMPLE_SHARE, SAMPLE_ROWS = 15.0, 6.0


def is_worthwhile(objective: Objective) -> bool:
    """Whether there are many dense rows and few parameters."""
    engine, loss = objective.engine, objective.loss
    (n, d), k = engine.shape, engine.n_columns
    if not engine.is_dense or not loss.is_smooth or loss.lipschitz(k) is None or d == 0:
        return False
    if not loss.is_direct and k < MANY_COLUMNS and d <= MAX_DENSE:
        return False  # exact Hessians of separate columns cost less
    size = n_parameters(objective)
    matrices = 1 if loss.is_direct else k
    return (
        size <= MAX_PARAMETERS
        and matrices * size * size <= MAX_ENTRIES
        and n >= MIN_ROWS * size
        and engine.stored * k >= MIN_WORK
    )


def matrix_bytes(n: int, d: int, k: int) -> int:
    """Number of bytes of the matrices of all columns and of the rows of a sample; zero if there can be none."""
    size = (d + 1) * k
    if size > MAX_PARAMETERS or n < MIN_ROWS * size:
        return 0
    return int(24 * size**2 + 16 * min(n, _rows(n, size)) * (d + 1 + k * (k + 1) / 2))


def n_parameters(objective: Objective) -> int:
    """Number of parameters of one matrix."""
    d, k = objective.engine.shape[1], objective.engine.n_columns
    return (d + 1) * k if objective.loss.is_direct else d + 1


def wanted_rows(objective: Objective) -> float:
    """Number of rows of a sample; infinite if all rows are to be taken."""
    engine, size = objective.engine, n_parameters(objective)
    n = engine.shape[0]
    products = n * size**2 * (1.0 if objective.loss.is_direct else engine.n_columns)
    wanted = _rows(n, size)
    is_exact = (products <= FEW_PRODUCTS and engine.stored <= FEW_ENTRIES) or wanted >= 0.5 * n
    return math.inf if is_exact else wanted


def _rows(n: int, size: int) -> float:
    return max(SAMPLE_SHARE * n / size, SAMPLE_ROWS * size)
