"""Arguments of the kernels of dual coordinate descent: what a pass reads, and what it changes."""

from __future__ import annotations

from typing import Any, NamedTuple


class PassRows(NamedTuple):
    """Labels of all rows, and how an update of a row changes W (scale), its own score (q) and the intercept (shift).

    `columns` has the label columns of all rows, and `starts` the position of the first one of each row. With an
    intercept, the mean x̄ is subtracted from the features, and a score is x'W + b + tilt·M. `offsets` are base scores,
    or an empty array.
    """

    columns: Any
    starts: Any
    scale: Any
    q: Any
    shift: Any
    tilt: Any
    offsets: Any


class PassColumns(NamedTuple):
    """State of the k columns from `first` on: flat weights (d, width), b, M, dual variables (n, k) and active rows.

    Columns of W beyond k are zero. `active` is a mask of the rows.
    """

    W: Any
    b: Any
    M: Any
    U: Any
    active: Any
    first: int
    k: int
    width: int
