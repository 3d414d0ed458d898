"""Arguments of the kernels of an online learner: update rule, rows, weights, and records.

Every feature j keeps its weight w, the sum G of squared derivatives (AdaGrad: Duchi, Hazan & Singer 2011; McMahan &
Streeter 2010) and the largest |x| seen, s (Ross, Mineiro & Langford 2013). An example with score p, label y and
importance h does

    s_j ← max(s_j, |x_j|), where w_j shrinks as s_j grows;   G_j += h·ℓ'(p)²·x_j²;   r_j = G_j^(−t) · s_j^(2t − 2);
    q = N·Σ x_j²·r_j,   N = (Σh / Σ h·Σ_j x_j²/s_j²)^(1 − t) over all examples so far;   w_j += N·u·x_j·r_j

with t = power_t and the update u of `lineal.online.loss`. With t = ½, r = 1/(√G·s). Without `adaptive`, G drops out and
the rate falls as (examples so far)^(−t). Without `normalised`, s and N drop out. Without `invariant`, u = −η·h·ℓ'(p).

Numbers are stored in units of the scale: w·s, G/s² and 1/s. With z = x/s, no formula above has an s any more: the score
is Σ (w·s)·z, q = N·Σ z²·(G/s²)^(−t), and where s grows, w·s stays (t = ½). Scales from 1e-30 to 1e30 therefore do not
matter, and nothing overflows. Smaller values count as if their scale were 1e-30. Larger products are cut to 1e30 and
counted.

Penalties are lazy: a weight counts as contraction · shrink(w, gravity), two numbers that change with every update.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

#: Columns of the cells of a table for one score.
W, G, INVERSE, RATE = range(4)

#: Entries of `totals`.
IMPORTANCE, NORMS, CONTRACTION, GRAVITY, LOWEST, HIGHEST, SEEN = range(7)

#: Entries of `sums`: weighted losses and importances of rows learned from and of rows held out.
LOSS, WEIGHT, HELD_LOSS, HELD_WEIGHT = range(4)

#: Bounds of squared derivatives and of their sums, which float32 must hold.
LEAST_SQUARE, LARGEST_SUM = np.float32(1e-30), np.float32(1e37)

#: Entries of `counts`: examples learned from or held out in all passes and in this one, and their stored entries.
EXAMPLES, PASS_EXAMPLES, ENTRIES = range(3)

#: During learning, scores are clipped to ± this with the logistic loss, and with other losses to the labels seen.
LOGISTIC_LIMIT = 50.0


class Rule(NamedTuple):
    """Update rule of a learner.

    loss : one of `lineal.online.loss`.
    period : every `period`-th example is held out; 0 for none.
    caution : G of a new product starts at this fraction of the constant's.
    The others are those of `OnlineOptions`.
    """

    loss: Any
    rate: float
    power_t: float
    initial_t: float
    l1: float
    l2: float
    adaptive: bool
    normalised: bool
    invariant: bool
    theorem: bool
    period: int
    caution: float


class Rows(NamedTuple):
    """Rows in CSR form.

    columns, values : int32 and float32 entries; those of row i are from starts[i] to starts[i + 1].
    kinds : namespaces of the entries, or empty.
    labels : numbers, NaN where a row has none.
    importance : float64, one per row.
    first : rows that came before these in the same pass.
    """

    columns: Any
    values: Any
    starts: Any
    kinds: Any
    labels: Any
    importance: Any
    first: int


class OneTable(NamedTuple):
    """Weights of one score: cells (slots + 1, 4), and totals (7,)."""

    cells: Any
    totals: Any


class ManyTable(NamedTuple):
    """Weights of k scores: cells (slots + 1, 2·width) as one flat array, inverse scales (slots + 1,), totals (k, 7).

    Of the totals, importances, norms, count and bounds of the scores are those of the first column.
    """

    cells: Any
    inverses: Any
    totals: Any


class Many(NamedTuple):
    """The weights of k scores, and vectors of `width` ≥ k entries for one example.

    sets : label columns of the rows; those of row i are from set_starts[i] to set_starts[i + 1].
    has_sets : whether an example can have several labels.
    """

    k: int
    has_sets: bool
    table: ManyTable
    scores: Any
    labels: Any
    derivatives: Any
    squares: Any
    q: Any
    updates: Any
    steps: Any
    sets: Any
    set_starts: Any


class Record(NamedTuple):
    """What is noted while learning: sums of losses, counts of examples, and for each row what was predicted before it
    was learned from: its score, or the number of its best column."""

    sums: Any
    counts: Any
    predicted: Any


def fresh_totals(limit: float) -> np.ndarray:
    """Totals before the first example; scores are clipped to ±`limit` and the labels seen."""
    totals: np.ndarray = np.zeros(7)
    totals[CONTRACTION] = 1.0
    totals[LOWEST], totals[HIGHEST] = -limit, limit
    return totals
