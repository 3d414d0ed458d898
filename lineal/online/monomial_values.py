"""Values of given monomials of rows: products of columns, exact, without hashing.

`factors` has the columns of a monomial in a row, and −1 behind them. Sparse rows are spread out into a dense one, and a
monomial is computed where its rarest column occurs; those of column c are members[member_starts[c]] and on.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from lineal.core.jit import kernel
from lineal.core.maths import wide


@kernel
def products_of_dense(X: Any, first: int, last: int, factors: Any, out: Any) -> None:
    """Values of all monomials of some rows."""
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
    """The value of a monomial of a row that was spread out; zero where a column is missing."""
    value = 1.0
    for f in range(factors.shape[1]):
        if factors[m, f] < 0:
            break
        value *= row[factors[m, f]]
        if value == 0.0:
            break
    return value


@kernel
def count_of_rows(columns: Any, values: Any, starts: Any, first: int, last: int, width: int, factors: Any, members: Any,
                  member_starts: Any, counts: Any) -> None:  # fmt: skip
    """How many monomials of each row are not zero, to counts[row + 1]."""
    row = np.zeros(width)
    for i in range(first, last):
        for e in range(starts[i], starts[i + 1]):
            row[columns[e]] = wide(values[e])
        found = 0
        for e in range(starts[i], starts[i + 1]):
            for p in range(member_starts[columns[e]], member_starts[columns[e] + 1]):
                if product_at(row, members[p], factors) != 0.0:
                    found += 1
        counts[i + 1] = found
        for e in range(starts[i], starts[i + 1]):
            row[columns[e]] = 0.0


@kernel
def products_of_rows(columns: Any, values: Any, starts: Any, first: int, last: int, width: int, factors: Any,
                     members: Any, member_starts: Any, out_starts: Any, out_columns: Any,
                     out_values: Any) -> None:  # fmt: skip
    """The monomials of each row that are not zero, those of row i from out_starts[i] on."""
    row = np.zeros(width)
    for i in range(first, last):
        for e in range(starts[i], starts[i + 1]):
            row[columns[e]] = wide(values[e])
        place = out_starts[i]
        for e in range(starts[i], starts[i + 1]):
            for p in range(member_starts[columns[e]], member_starts[columns[e] + 1]):
                value = product_at(row, members[p], factors)
                if value != 0.0:
                    out_columns[place], out_values[place] = members[p], value
                    place += 1
        for e in range(starts[i], starts[i + 1]):
            row[columns[e]] = 0.0
