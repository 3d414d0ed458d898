"""Predict, then update, example after example: a score for every class or label, all in one pass over the features.

Each column is told apart from the rest: its label is 1 for the examples that have it and −1 for the others. The table
is (slots + 1, 2·width), the weights of a feature first, then their sums of squared slopes; the (inverse) scale of a
feature is the same for all columns, as are the norms of the examples. Columns are filled up to a `width` of whole
vector registers by columns that stay zero. Memory: 4·(2·width + 1) bytes a slot.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from lineal.core.jit import kernel
from lineal.core.maths import wide
from lineal.core.simd import gather8
from lineal.online.lanes import LANES, advance, grow
from lineal.online.loss import LOGISTIC, invariant_step, logistic_moves, logistic_slopes, loss_slope, loss_value
from lineal.online.monomials import NO_EVIDENCE, example, note_evidence
from lineal.online.one_column import LEAST_CONTRACTION, SMALLEST, TINY, count_rows, sensitivity, shrunk, step_length
from lineal.online.state import (
    CONTRACTION,
    GRAVITY,
    HELD_LOSS,
    HIGHEST,
    IMPORTANCE,
    LARGEST_SUM,
    LEAST_SQUARE,
    LOSS,
    LOWEST,
    SEEN,
)

U = np.uintp


@kernel(forceinline=True, borrows=True)
def score_many(table: Any, inverses: Any, scratch: Any, count: int, many: Any) -> None:
    """Scores of all columns, to `many.scores`."""
    width, stride = U(many.scores.shape[0]), U(2 * many.scores.shape[0])
    scores = many.scores
    any_gravity = False
    for c in range(many.k):
        any_gravity = any_gravity or many.totals[c, GRAVITY] > 0.0
    if any_gravity:
        scores[:] = np.float32(0.0)
        for p in range(U(count)):
            j = U(scratch.slots[p])
            for c in range(U(many.k)):
                w = shrunk(wide(table[j * stride + c]) * wide(inverses[j]), many.totals[c, GRAVITY])
                scores[c] += np.float32(w * wide(scratch.values[p]))
    else:
        z = scratch.rates  # there is room, and no rates yet
        for p in range(U(count)):
            z[p] = scratch.values[p] * inverses[U(scratch.slots[p])]
        for at in range(U(0), width, U(LANES)):
            gather8(z, scratch.slots, U(0), U(count), table, stride, at, scores, at)
    for c in range(U(many.k)):
        scores[c] *= many.totals[c, CONTRACTION]


@kernel(borrows=True)
def rescale(table: Any, row: Any, width: Any, growth: float, power: float) -> None:
    """The scale of a feature has grown: weights and sums in the new unit."""
    shrink, square = np.float32(growth**-power), np.float32(1.0 / (growth * growth))
    for c in range(width):
        table[row + c] *= shrink
        table[row + width + c] *= square


@kernel(borrows=True)
def settle_column(table: Any, inverses: Any, width: Any, totals: Any, c: Any) -> None:
    """Penalties of a column multiplied out: every weight as it counts."""
    for j in range(inverses.shape[0]):
        inverse, place = wide(inverses[j]), U(j) * U(2) * width + U(c)
        if inverse > 0.0:
            w = shrunk(wide(table[place]) * inverse, totals[c, GRAVITY])
            table[place] = totals[c, CONTRACTION] * w / inverse
    totals[c, CONTRACTION], totals[c, GRAVITY] = 1.0, 0.0


@kernel(forceinline=True, borrows=True)
def scale_many(table: Any, inverses: Any, scratch: Any, own: int, count: int, width: Any, rule: Any) -> float:
    """Scales of the features of an example, whose values become z; Σ z².

    Behind its own features are products: the sums of squared slopes of new ones start at a share of the constant's.
    """
    one = np.float32(1.0)
    power = 1.0 - 2.0 * rule.power_t if rule.adaptive else 1.0
    constant = U(scratch.slots[count - 1]) * U(2) * width + width
    for p in range(U(count)):
        j, x = U(scratch.slots[p]), abs(scratch.values[p])
        if not rule.normalised:
            inverses[j] = one
        elif inverses[j] == np.float32(0.0):
            sums = j * U(2) * width + width
            if rule.caution > 0.0 and p >= U(own):
                for c in range(width):
                    table[sums + c] = max(table[sums + c], np.float32(rule.caution) * table[constant + c])
            inverses[j] = one / max(x, SMALLEST)
        elif x * inverses[j] > one:
            rescale(table, j * U(2) * width, width, wide(x * inverses[j]), power)
            inverses[j] = one / x
    norms = 0.0
    for p in range(U(count)):
        z = scratch.values[p] * inverses[U(scratch.slots[p])]
        scratch.values[p] = z
        norms += wide(z * z)
    return norms


@kernel(forceinline=True, borrows=True)
def touch_many(table: Any, scratch: Any, count: int, many: Any, rule: Any) -> None:
    """Sums of squares and rates of the features of an example; sensitivities go to `many.q`."""
    width, stride = U(many.scores.shape[0]), U(2 * many.scores.shape[0])
    q, squares, rates = many.q, many.squares, scratch.rates
    if rule.adaptive and rule.power_t == 0.5:
        for at in range(U(0), width, U(LANES)):
            grow(scratch.slots, scratch.values, U(count), table, stride, width + at, squares, q, rates, width, at)
        return
    q[:] = np.float32(0.0)
    for p in range(U(count)):
        sums, begin = U(scratch.slots[p]) * stride + width, p * width
        z = scratch.values[p] * scratch.values[p]
        for c in range(width):
            rate = np.float32(1.0)
            if rule.adaptive:
                total = min(table[sums + c] + squares[c] * z, LARGEST_SUM)
                table[sums + c] = total
                rate = np.float32(wide(max(total, LEAST_SQUARE)) ** -rule.power_t)
            rates[begin + c] = rate
            q[c] += z * rate


@kernel(forceinline=True, borrows=True)
def learn_many(table: Any, inverses: Any, scratch: Any, own: int, count: int, h: float, many: Any, rule: Any) -> None:
    """Update all columns after their scores were given; `many.labels` are −1 or 1."""
    width = U(many.scores.shape[0])
    common = many.totals[0]
    a = step_length(h, common, rule)
    common[SEEN] += h
    moved = False
    if rule.kind == LOGISTIC:
        logistic_slopes(many.scores, many.labels, many.slopes)
    for c in range(many.k):
        if rule.kind != LOGISTIC:
            many.slopes[c] = loss_slope(rule.kind, wide(many.scores[c]), many.labels[c], rule.tau)
        slope = many.slopes[c]
        many.squares[c] = 0.0 if slope == 0.0 else min(max(h * slope * slope, LEAST_SQUARE), LARGEST_SUM)
        moved = moved or slope != 0.0
    if not moved and not rule.theorem:
        return
    common[IMPORTANCE] += h
    norms = scale_many(table, inverses, scratch, own, count, width, rule)
    touch_many(table, scratch, count, many, rule)
    N = sensitivity(norms, h, common, rule)
    if rule.invariant and rule.kind == LOGISTIC:  # else they stay zero
        logistic_moves(many.scores, many.labels, many.q, a, N, many.moves)
    for c in range(many.k):
        slope, score = many.slopes[c], wide(many.scores[c])
        if slope == 0.0 and not rule.theorem:
            many.steps[c] = 0.0
            continue
        if many.moves[c] != 0.0:
            u = many.moves[c]
        elif rule.invariant:
            u = invariant_step(rule.kind, score, many.labels[c], rule.tau, a, N * wide(many.q[c]))
        else:
            u = -a * slope
        if rule.theorem:
            many.totals[c, CONTRACTION] *= 1.0 - a * rule.l2
        elif (rule.l1 > 0.0 or rule.l2 > 0.0) and abs(u) > TINY and abs(slope) > TINY:
            length = -u / slope
            many.totals[c, CONTRACTION] *= max(1.0 - rule.l2 * length, 0.1)
            many.totals[c, GRAVITY] += rule.l1 * length
        if many.totals[c, CONTRACTION] < LEAST_CONTRACTION:
            settle_column(table, inverses, width, many.totals, c)
        many.steps[c] = N * u / many.totals[c, CONTRACTION]
    for at in range(U(0), width, U(LANES)):
        advance(scratch.slots, scratch.values, U(count), table, U(2) * width, many.steps, scratch.rates, width, at)


@kernel(forceinline=True, borrows=True)
def best_column(scores: Any, k: int) -> int:
    """The column with the largest score, the first of them."""
    best = 0
    for c in range(1, k):
        if scores[c] > scores[best]:
            best = c
    return best


@kernel(forceinline=True, borrows=True)
def widen_bounds(common: Any, n_labels: int, k: int) -> None:
    """Scores stay within 0 and the labels seen, of whichever column: 1 and −1, once an example had each."""
    if n_labels > 0:
        common[HIGHEST] = max(common[HIGHEST], 1.0)
    if n_labels < k:
        common[LOWEST] = min(common[LOWEST], -1.0)


@kernel(borrows=True)
def learn_many_rows(rows: Any, first: int, last: int, table: Any, inverses: Any, many: Any, rule: Any, expansion: Any,
                    scratch: Any, choices: Any, sums: Any, counts: Any) -> None:  # fmt: skip
    """Rows from `first` to before `last`, in order; the labels of row i are columns set[set_starts[i]] … of `rows`.

    `choices` gets the best column of each before it was learned from. Of an example that can have one label, what is
    summed is whether it was wrong; of label sets, the loss over all columns.
    """
    for i in range(first, last):
        count = example(rows, i, expansion, scratch)
        score_many(table, inverses, scratch, count, many)
        choice = best_column(many.scores, many.k)
        choices[i] = choice
        for c in range(many.k):
            if not math.isfinite(many.scores[c]):
                sums[LOSS] = math.nan  # the weights have outgrown float32
            many.scores[c] = min(max(wide(many.scores[c]), many.totals[0, LOWEST]), many.totals[0, HIGHEST])
        h = rows.importance[i]
        begin, end = many.set_starts[i], many.set_starts[i + 1]
        if h == 0.0 or (begin == end and not many.has_sets):
            continue
        for c in range(many.k):
            many.labels[c] = -1.0
        for e in range(begin, end):
            many.labels[many.sets[e]] = 1.0
        widen_bounds(many.totals[0], end - begin, many.k)
        held = rule.period > 0 and (rows.first + i) % rule.period == rule.period - 1
        offset = HELD_LOSS if held else LOSS
        if many.has_sets:
            loss = 0.0
            for c in range(many.k):
                loss += loss_value(rule.kind, wide(many.scores[c]), many.labels[c], rule.tau)
        else:
            loss = 0.0 if choice == many.sets[begin] else 1.0
        sums[offset] += h * loss
        sums[offset + 1] += h
        if not held:
            if expansion.evidence_kind != NO_EVIDENCE:
                square = 0.0
                for c in range(many.k):
                    square += loss_slope(rule.kind, wide(many.scores[c]), many.labels[c], rule.tau) ** 2
                note_evidence(expansion, scratch, count, math.sqrt(square), h)
            learn_many(table, inverses, scratch, rows.starts[i + 1] - rows.starts[i], count, h, many, rule)
    count_rows(rows, first, last, counts)


@kernel(borrows=True)
def score_many_rows(rows: Any, first: int, last: int, table: Any, inverses: Any, many: Any, expansion: Any,
                    scratch: Any, scores: Any) -> None:  # fmt: skip
    """Scores alone, (n, k)."""
    for i in range(first, last):
        count = example(rows, i, expansion, scratch)
        score_many(table, inverses, scratch, count, many)
        for c in range(many.k):
            scores[i, c] = many.scores[c]
