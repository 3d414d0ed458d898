"""Values of given monomials of rows: exact products of columns, without hashing.

Sparse rows are first written to a dense row of zeros. A monomial is computed only where its rarest column occurs.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from lineal.core.jit import kernel
from lineal.core.maths import wide


class Monomials(NamedTuple):
    """Which columns are multiplied.

    factors : one row per monomial, its columns, and −1 after them.
    members : the monomials whose rarest column is c are members[member_starts[c]] to members[member_starts[c + 1] − 1].
    """

    factors: Any
    members: Any
    member_starts: Any


class SparseRows(NamedTuple):
    """Rows in CSR form, `width` columns wide."""

    columns: Any
    values: Any
    starts: Any
    width: int


@kernel
def products_of_dense(X: Any, first: int, last: int, factors: Any, out: Any) -> None:
    """Compute the values of all monomials for rows first … last − 1."""
    for i in range(first, last):
        for m in range(factors.shape[0]):
            value = wide(X[i, factors[m, 0]])
            for f in range(1, factors.shape[1]):
                if factors[m, f] < 0:
                    break
                value *= wide(X[i, factors[m, f]])
            out[i, m] = value


@kernel
def product_at(row: Any, m: int, factors: Any) -> float:
    """Value of a monomial in a dense row; zero if a column is zero."""
    value = 1.0
    for f in range(factors.shape[1]):
        if factors[m, f] < 0:
            break
        value *= row[factors[m, f]]
        if value == 0.0:
            break
    return value


@kernel
def add_row(rows: Any, i: int, sign: float, row: Any) -> None:
    """Write sparse row i to a dense row of zeros (sign 1), or write zeros in its place again (sign 0)."""
    for e in range(rows.starts[i], rows.starts[i + 1]):
        row[rows.columns[e]] = sign * wide(rows.values[e])


@kernel
def products_of_row(rows: Any, i: int, row: Any, monomials: Any, columns: Any, values: Any) -> int:
    """Number of non-zero monomials of row i, which `row` holds; writes them where `columns` has room."""
    found = 0
    for e in range(rows.starts[i], rows.starts[i + 1]):
        column = rows.columns[e]
        for p in range(monomials.member_starts[column], monomials.member_starts[column + 1]):
            value = product_at(row, monomials.members[p], monomials.factors)
            if value != 0.0:
                if found < columns.shape[0]:
                    columns[found], values[found] = monomials.members[p], value
                found += 1
    return found


@kernel
def count_products(rows: Any, first: int, last: int, monomials: Any, counts: Any) -> None:
    """Write the number of non-zero monomials of each row to counts[row + 1]."""
    row = np.zeros(rows.width)
    no_columns, no_values = np.empty(0, np.int32), np.empty(0, rows.values.dtype)
    for i in range(first, last):
        add_row(rows, i, 1.0, row)
        counts[i + 1] = products_of_row(rows, i, row, monomials, no_columns, no_values)
        add_row(rows, i, 0.0, row)


@kernel
def products_of_sparse(rows: Any, first: int, last: int, monomials: Any, out: Any) -> None:
    """Write the non-zero monomials of each row to `out`, `SparseRows` whose starts are known."""
    row = np.zeros(rows.width)
    for i in range(first, last):
        part = slice(out.starts[i], out.starts[i + 1])
        add_row(rows, i, 1.0, row)
        products_of_row(rows, i, row, monomials, out.columns[part], out.values[part])
        add_row(rows, i, 0.0, row)
