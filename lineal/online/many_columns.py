"""Learning with one score per class or label, in one pass over the features: predict, then update.

Each column is told apart from the rest: its label is 1 for the examples that have it and −1 for the others. The cells
of the table are (slots + 1, 2·width): first the weights of a feature, then their sums of squared derivatives. The
(inverse) scale of a feature is the same for all columns, as are the norms of the examples. `width` is the number of
columns, rounded up to whole vector registers; the columns added stay zero. Memory: 4·(2·width + 1) bytes per slot.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from lineal.core.jit import kernel
from lineal.core.maths import wide
from lineal.core.simd import gather8
from lineal.online.lanes import LANES, advance, grow
from lineal.online.monomials import NO_EVIDENCE, example, note_evidence
from lineal.online.one_column import (
    LEAST_CONTRACTION,
    SMALLEST,
    count_rows,
    has_penalties,
    is_held_out,
    learning_rate,
    penalise,
    sensitivity,
    shrunk,
)
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
def score_many(many: Any, scratch: Any, count: int) -> None:
    """Scores of all columns, written to `many.scores`."""
    width, stride = U(many.scores.shape[0]), U(2 * many.scores.shape[0])
    cells, inverses, totals, scores = many.table.cells, many.table.inverses, many.table.totals, many.scores
    any_gravity = False
    for c in range(many.k):
        any_gravity = any_gravity or totals[c, GRAVITY] > 0.0
    if any_gravity:
        scores[:] = np.float32(0.0)
        for p in range(U(count)):
            j = U(scratch.slots[p])
            for c in range(U(many.k)):
                w = shrunk(wide(cells[j * stride + c]) * wide(inverses[j]), totals[c, GRAVITY])
                scores[c] += np.float32(w * wide(scratch.values[p]))
    else:
        z = scratch.rates  # there is room, and no rates yet
        for p in range(U(count)):
            z[p] = scratch.values[p] * inverses[U(scratch.slots[p])]
        for at in range(U(0), width, U(LANES)):
            gather8(z, scratch.slots, U(0), U(count), cells, stride, at, scores, at)
    for c in range(U(many.k)):
        scores[c] *= totals[c, CONTRACTION]


@kernel(borrows=True)
def rescale(cells: Any, row: Any, width: Any, growth: float, power: float) -> None:
    """Convert the weights and sums of a feature to its new scale, which has grown."""
    shrink, square = np.float32(growth**-power), np.float32(1.0 / (growth * growth))
    for c in range(width):
        cells[row + c] *= shrink
        cells[row + width + c] *= square


@kernel(borrows=True)
def settle_column(table: Any, width: Any, c: Any) -> None:
    """Apply the lazy penalties of a column to every weight."""
    cells, totals = table.cells, table.totals
    for j in range(table.inverses.shape[0]):
        inverse, place = wide(table.inverses[j]), U(j) * U(2) * width + U(c)
        if inverse > 0.0:
            w = shrunk(wide(cells[place]) * inverse, totals[c, GRAVITY])
            cells[place] = totals[c, CONTRACTION] * w / inverse
    totals[c, CONTRACTION], totals[c, GRAVITY] = 1.0, 0.0


@kernel(forceinline=True, borrows=True)
def scale_many(table: Any, scratch: Any, own: int, count: int, width: Any, rule: Any) -> float:
    """Update the scales of an example's features; its values become z. Returns Σ z².

    After its `own` features come products: the sums of squared derivatives of new ones start at a fraction of the
    constant's.
    """
    cells, inverses, one = table.cells, table.inverses, np.float32(1.0)
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
                    cells[sums + c] = max(cells[sums + c], np.float32(rule.caution) * cells[constant + c])
            inverses[j] = one / max(x, SMALLEST)
        elif x * inverses[j] > one:
            rescale(cells, j * U(2) * width, width, wide(x * inverses[j]), power)
            inverses[j] = one / x
    norms = 0.0
    for p in range(U(count)):
        z = scratch.values[p] * inverses[U(scratch.slots[p])]
        scratch.values[p] = z
        norms += wide(z * z)
    return norms


@kernel(forceinline=True, borrows=True)
def touch_many(many: Any, scratch: Any, count: int, rule: Any) -> None:
    """Update the sums of squares and rates of an example's features; writes Σ z²·rate of each column to `many.q`."""
    cells, width = many.table.cells, U(many.scores.shape[0])
    q, squares, rates = many.q, many.squares, scratch.rates
    if rule.adaptive and rule.power_t == 0.5:
        for at in range(U(0), width, U(LANES)):
            grow(scratch, U(count), cells, many, width, at)
        return
    q[:] = np.float32(0.0)
    for p in range(U(count)):
        sums, begin = U(scratch.slots[p]) * U(2) * width + width, p * width
        z = scratch.values[p] * scratch.values[p]
        for c in range(width):
            rate = np.float32(1.0)
            if rule.adaptive:
                total = min(cells[sums + c] + squares[c] * z, LARGEST_SUM)
                cells[sums + c] = total
                rate = np.float32(wide(max(total, LEAST_SQUARE)) ** -rule.power_t)
            rates[begin + c] = rate
            q[c] += z * rate


@kernel(forceinline=True, borrows=True)
def learn_many(many: Any, scratch: Any, own: int, count: int, h: float, rule: Any) -> None:
    """Update all columns after their scores were given; `many.labels` are −1 or 1."""
    table, width = many.table, U(many.scores.shape[0])
    common = table.totals[0]
    a = learning_rate(h, common, rule)
    common[SEEN] += h
    changes = False
    rule.loss.column_derivatives(many.scores, many.labels, many.k, many.derivatives)
    for c in range(many.k):
        derivative = many.derivatives[c]
        many.squares[c] = 0.0 if derivative == 0.0 else min(max(h * derivative * derivative, LEAST_SQUARE), LARGEST_SUM)
        changes = changes or derivative != 0.0
    if not changes and not rule.theorem:
        return
    common[IMPORTANCE] += h
    norms = scale_many(table, scratch, own, count, width, rule)
    touch_many(many, scratch, count, rule)
    N = sensitivity(norms, h, common, rule)
    if rule.invariant:
        rule.loss.column_updates(many.scores, many.labels, many.q, N, a, many.updates)
    for c in range(many.k):
        derivative = many.derivatives[c]
        if derivative == 0.0 and not rule.theorem:
            many.steps[c] = 0.0
            continue
        u = many.updates[c] if rule.invariant else -a * derivative
        if has_penalties(rule):
            penalise(table.totals[c], u, derivative, a, rule)
        if table.totals[c, CONTRACTION] < LEAST_CONTRACTION:
            settle_column(table, width, c)
        many.steps[c] = N * u / table.totals[c, CONTRACTION]
    for at in range(U(0), width, U(LANES)):
        advance(scratch, U(count), table.cells, many, width, at)


@kernel(forceinline=True, borrows=True)
def best_column(scores: Any, k: int) -> int:
    """Column with the largest score; the first one in a tie."""
    best = 0
    for c in range(1, k):
        if scores[c] > scores[best]:
            best = c
    return best


@kernel(forceinline=True, borrows=True)
def widen_bounds(common: Any, n_labels: int, k: int) -> None:
    """Widen the bounds of the scores, which are 0 and the labels ±1 that have occurred in any column."""
    if n_labels > 0:
        common[HIGHEST] = max(common[HIGHEST], 1.0)
    if n_labels < k:
        common[LOWEST] = min(common[LOWEST], -1.0)


@kernel(forceinline=True, borrows=True)
def set_labels(many: Any, i: int) -> None:
    """Write ±1 to `many.labels` for the labels of row i, and widen the bounds of the scores."""
    begin, end = many.set_starts[i], many.set_starts[i + 1]
    for c in range(many.k):
        many.labels[c] = -1.0
    for e in range(begin, end):
        many.labels[many.sets[e]] = 1.0
    widen_bounds(many.table.totals[0], end - begin, many.k)


@kernel(forceinline=True, borrows=True)
def loss_of_example(many: Any, i: int, choice: int, rule: Any) -> float:
    """The progressive loss of row i: the sum over columns for label sets, else whether the best column is wrong."""
    if not many.has_sets:
        return 0.0 if choice == many.sets[many.set_starts[i]] else 1.0
    loss = 0.0
    for c in range(many.k):
        loss += rule.loss.value(many.labels[c], wide(many.scores[c]))
    return loss


@kernel(borrows=True)
def learn_many_rows(rows: Any, first: int, last: int, many: Any, rule: Any, expansion: Any, scratch: Any,
                    record: Any) -> None:  # fmt: skip
    """Predict and learn from rows first … last − 1, in order."""
    common, sums = many.table.totals[0], record.sums
    for i in range(first, last):
        count = example(rows, i, expansion, scratch)
        score_many(many, scratch, count)
        choice = best_column(many.scores, many.k)
        record.predicted[i] = choice
        for c in range(many.k):
            if not math.isfinite(many.scores[c]):
                sums[LOSS] = math.nan  # the weights have outgrown float32
            many.scores[c] = min(max(wide(many.scores[c]), common[LOWEST]), common[HIGHEST])
        h = rows.importance[i]
        has_label = many.set_starts[i] < many.set_starts[i + 1]
        if h == 0.0 or not (has_label or many.has_sets):
            continue
        set_labels(many, i)
        held = is_held_out(rows, i, rule)
        offset = HELD_LOSS if held else LOSS
        sums[offset] += h * loss_of_example(many, i, choice, rule)
        sums[offset + 1] += h
        if not held:
            if expansion.evidence_kind != NO_EVIDENCE:
                square = 0.0
                for c in range(many.k):
                    square += rule.loss.derivative(many.labels[c], wide(many.scores[c])) ** 2
                note_evidence(expansion, scratch, count, math.sqrt(square), h)
            learn_many(many, scratch, rows.starts[i + 1] - rows.starts[i], count, h, rule)
    count_rows(rows, first, last, record.counts)


@kernel(borrows=True)
def score_many_rows(rows: Any, first: int, last: int, many: Any, expansion: Any, scratch: Any, scores: Any) -> None:
    """Scores (n, k) of rows first … last − 1, without learning."""
    for i in range(first, last):
        score_many(many, scratch, example(rows, i, expansion, scratch))
        for c in range(many.k):
            scores[i, c] = many.scores[c]
