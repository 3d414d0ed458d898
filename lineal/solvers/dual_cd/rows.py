"""What a pass of dual coordinate descent reads of the rows, and what it changes: arguments of its kernels."""

from __future__ import annotations

from typing import Any, NamedTuple


class PassRows(NamedTuple):
    """Label columns of all rows and where each row's begin; how much of a step in a row reaches W, its own score and b.

    With an intercept the features are seen from their mean x̄: a score is x'W + b + tilt·M. `offsets` are base scores,
    or empty.
    """

    columns: Any
    starts: Any
    scale: Any
    q: Any
    shift: Any
    tilt: Any
    offsets: Any


class PassColumns(NamedTuple):
    """Weights (d, width) of k columns, flat, zero beyond them; b, M; dual variables (n, k). They begin at `first`."""

    W: Any
    b: Any
    M: Any
    U: Any
    first: int
    k: int
    width: int
