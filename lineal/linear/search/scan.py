"""Where the scores of a search move: a coarse scan of α, a decade at a time, on one fold.

A path for l2 can only begin at an α that is provably too strong (`alphas.largest_alpha`). Where one column has a much
larger scale than the others, this α is too strong by the square of the ratio: all α of a path may then be spent on
that column, while the others still have no weight. So the first fold is fitted to a loose tolerance at every tenth of
α, at least until half of the columns count (`alphas.typical_alpha`), and further until `PATIENCE` fits have not
improved the score. The path is laid around the best of them: it starts `ABOVE` times above. On columns of one scale
that is the provable start, and the scan changes nothing.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import NamedTuple

#: Factor between the α of a scan.
STEP = 0.1

#: Steps without a better score before the scan ends.
PATIENCE = 2

#: A path starts at most this many times above the best α of the scan, a quick search this many times.
ABOVE, ABOVE_QUICK = 1e4, 1e2

#: Tolerance of the fits.
TOL = 1e-2


class Scan(NamedTuple):
    """What a scan found: its best α (None where it was ended before it had any), and how it ended if it was."""

    best: float | None
    status: str | None = None


def scan(
    first: float, typical: float, least: float, score_at: Callable[[float], float | str], greater_is_better: bool
) -> Scan:
    """Scan from `first` down to `least`; `score_at(α)` is a score, or the status with which the search must end.

    Only steps below `typical` count as steps without gain.
    """
    sign = 1.0 if greater_is_better else -1.0
    best, best_score, idle, alpha = None, -math.inf, 0, first
    while alpha >= least and idle < PATIENCE:
        found = score_at(alpha)
        if isinstance(found, str):
            return Scan(best, found)
        if sign * found > best_score:
            best, best_score, idle = alpha, sign * found, 0
        elif alpha < typical:
            idle += 1
        alpha *= STEP
    return Scan(first if best is None else best)
