"""What an online learner is told (`Rule`), what it keeps of many columns (`Many`), and the rows that its kernels see.

Every feature j keeps its weight w, the sum G of squared slopes (AdaGrad: Duchi, Hazan & Singer 2011; McMahan &
Streeter 2010) and the largest |x| seen, s (Ross, Mineiro & Langford 2013). An example with score p, label y and
importance h does

    s_j ← max(s_j, |x_j|), where w_j shrinks as s_j grows;   G_j += h·ℓ'(p)²·x_j²;   r_j = G_j^(−t) · s_j^(2t − 2);
    q = N·Σ x_j²·r_j,   N = (Σh / Σ h·Σ_j x_j²/s_j²)^(1 − t) over all examples so far;   w_j += N·u·x_j·r_j

with t = power_t and the step u of `online_loss`. With t = ½, r = 1/(√G·s). Without `adaptive`, G drops out and the
rate falls as (examples so far)^(−t); without `normalised` s and N drop out; without `invariant` u = −η·h·ℓ'(p).

What is kept is in units of the scale: w·s, G/s² and 1/s. With z = x/s all of the above loses its s: the score is
Σ (w·s)·z, q = N·Σ z²·(G/s²)^(−t), and where s grows, w·s stays (t = ½). From 1e-30 to 1e30 the scale drops out, and
nothing overflows. Below, s is 1e-30: values count as less than they would. Products above are cut to 1e30, and counted.

Penalties are lazy: a weight counts as contraction · shrink(w, gravity), two numbers that grow with the steps.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

#: Columns of a table for one score.
W, G, INVERSE, RATE = range(4)

#: Entries of `totals`.
IMPORTANCE, NORMS, CONTRACTION, GRAVITY, LOWEST, HIGHEST, SEEN = range(7)

#: Entries of `sums`: weighted losses and importances of rows learned from and of rows held out.
LOSS, WEIGHT, HELD_LOSS, HELD_WEIGHT = range(4)

#: Bounds of squared slopes and of their sums, which float32 must hold.
LEAST_SQUARE, LARGEST_SUM = np.float32(1e-30), np.float32(1e37)

#: Entries of `counts`: examples learned from or held out in all passes and in this one, and their stored entries.
EXAMPLES, PASS_EXAMPLES, ENTRIES = range(3)

#: While learning, scores stay within ± this with logistic loss, and with others within 0 and the labels seen.
LOGISTIC_LIMIT = 50.0


class Rule(NamedTuple):
    """How to learn. `period`: every so manieth example is held out (0 for none). `caution`: G of a new product starts
    at this share of the constant's."""

    kind: int
    tau: float
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
    """Rows in CSR: columns (int32) and values (float32) of row i from starts[i] to starts[i+1]. `kinds` are the
    namespaces of the entries, or empty. Labels are numbers (NaN for none), importances float64; so many rows as `first`
    came before."""

    columns: Any
    values: Any
    starts: Any
    kinds: Any
    labels: Any
    importance: Any
    first: int


class Many(NamedTuple):
    """What is kept of k columns: their totals (k, 7), of which importances, norms, count and bounds of the scores are
    those of the first, and vectors of `width` ≥ k entries for one example. `sets` are the columns of the rows' labels.
    """

    k: int
    has_sets: bool
    totals: Any
    scores: Any
    labels: Any
    slopes: Any
    squares: Any
    q: Any
    moves: Any
    steps: Any
    sets: Any
    set_starts: Any


def fresh_totals(limit: float) -> np.ndarray:
    """Totals before the first example; scores stay within ±`limit` and the labels seen."""
    totals: np.ndarray = np.zeros(7)
    totals[CONTRACTION] = 1.0
    totals[LOWEST], totals[HIGHEST] = -limit, limit
    return totals
