"""Stochastic gradient descent with scikit-learn's losses, learning rates and penalties, all classes in one pass.

A row with scores p_r = w_r'x + b_r, targets t_r = ±1 and learning rate η does, for every class r,

    w_r ← max(0, 1 − η·α·(1 − ρ))·w_r − η·c_r·ℓ'(t_r, p_r)·x,     b_r ← b_r − decay·η·c_r·ℓ'(t_r, p_r)

with c_r the weight of the row in problem r. Then |w_j| shrinks by the l1 penalty added up so far, Σ η·α·ρ, less the
part that it has received before (Tsuruoka, Tsujii & Ananiadou 2009). Learning rates are the same for all classes, so
that one number carries the shrinking of all weights, and a row is read once however many classes there are. "pa1" and
"pa2" are the passive-aggressive updates of Crammer et al. (2006).

This serves `partial_fit`, and `fit` where no solver of lineal minimises the objective. Memory: 8·d·k bytes for the
weights in float64, twice that with an l1 penalty.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from scipy import sparse

from lineal.core.jit import kernel
from lineal.core.maths import wide

RATES = ("constant", "optimal", "invscaling", "adaptive", "pa1", "pa2")
CONSTANT, OPTIMAL, INVSCALING, ADAPTIVE, PA1, PA2 = range(6)

#: Entries of `state`: rows seen (from 1 on), the factor of all weights, the l1 penalty added up so far, losses.
T, SCALE, L1_TOTAL, LOSS = range(4)

#: Derivatives are clipped to ± this; a smaller factor of all weights is multiplied into them.
LARGEST_DERIVATIVE, SMALLEST_SCALE = 1e12, 1e-9

#: Intercepts of sparse rows are updated by this fraction, as in scikit-learn.
SPARSE_DECAY = 0.01

#: "adaptive" divides its learning rate by this, down to the smallest.
_LESS, _SMALLEST_RATE = 5.0, 1e-6


class Rule(NamedTuple):
    """How to descend.

    loss : one of `lineal.dropin.losses`.
    rate : number of the learning rate's schedule in `RATES`.
    eta : the rate of "constant" and "adaptive", and C of "pa1" and "pa2".
    offset : rows that count as seen in "optimal".
    decay : fraction of an update that the intercept gets.
    """

    loss: Any
    rate: int
    eta: float
    power_t: float
    offset: float
    alpha: float
    l2: float
    l1: float
    fit_intercept: bool
    decay: float


class LabelledRows(NamedTuple):
    """Rows in CSR form with their labels.

    labels : the column of a row's class; −1 for none (the first of two classes).
    weights : one per row.
    factors : (2, k), of the negative and of the positive rows of every problem.
    """

    columns: Any
    values: Any
    starts: Any
    labels: Any
    weights: Any
    factors: Any


class Weights(NamedTuple):
    """Weights (d, k), intercepts (k,), and the l1 penalty that each weight has received: (d, k), or empty."""

    W: Any
    b: Any
    received: Any


@kernel
def update_of(rule: Any, t: float, p: float, value: float, eta: float, square: float) -> float:
    """The multiple of x that the weights of one class gain; `value` is the loss at the score p."""
    derivative = rule.loss.derivative(t, p)
    if rule.rate == PA1:
        return t * min(eta, value / square) if square > 0.0 else 0.0
    if rule.rate == PA2:
        return t * value / (square + 0.5 / eta)
    return -eta * min(max(derivative, -LARGEST_DERIVATIVE), LARGEST_DERIVATIVE)


@kernel
def shrink_row(columns: Any, start: int, stop: int, weights: Any, scale: float, total: float) -> None:
    """Give the weights of a row's columns the part of the l1 penalty that they have not received yet."""
    W, received = weights.W, weights.received
    for e in range(start, stop):
        j = columns[e]
        for r in range(W.shape[1]):
            w = scale * W[j, r]
            if w > 0.0:
                less = max(0.0, w - (total + received[j, r]))
            elif w < 0.0:
                less = min(0.0, w + (total - received[j, r]))
            else:
                continue
            received[j, r] += less - w
            W[j, r] = less / scale


@kernel
def rescaled(W: Any, scale: float) -> float:
    """The factor of all weights; where it has become too small, W is multiplied by it and the factor is 1."""
    if scale <= 0.0:
        W[:] = 0.0
        return 1.0
    if scale < SMALLEST_SCALE:
        W *= scale
        return 1.0
    return scale


@kernel
def learning_rate(rule: Any, t: float) -> float:
    """η of the t-th row."""
    if rule.rate == OPTIMAL:
        return 1.0 / (rule.alpha * (rule.offset + t - 1.0))
    if rule.rate == INVSCALING:
        return rule.eta / t**rule.power_t
    return rule.eta


@kernel
def descend(rows: Any, order: Any, weights: Any, rule: Any, state: Any) -> None:
    """One pass over the rows, in the given order."""
    columns, values, W, b = rows.columns, rows.values, weights.W, weights.b
    k = W.shape[1]
    scores, updates = np.empty(k), np.empty(k)
    scale = state[SCALE]
    for o in range(order.shape[0]):
        i = order[o]
        start, stop = rows.starts[i], rows.starts[i + 1]
        scores[:] = 0.0
        square = 0.0
        for e in range(start, stop):
            x = wide(values[e])
            square += x * x
            for r in range(k):
                scores[r] += W[columns[e], r] * x
        eta = learning_rate(rule, state[T])
        for r in range(k):
            p = scale * scores[r] + b[r]
            t = 1.0 if rows.labels[i] == r else -1.0
            value = rule.loss.value(t, p)
            state[LOSS] += value
            side = 1 if rows.labels[i] == r else 0
            updates[r] = update_of(rule, t, p, value, eta, square) * rows.weights[i] * rows.factors[side, r]
        scale = rescaled(W, scale * max(0.0, 1.0 - rule.l2 * eta * rule.alpha))
        for e in range(start, stop):
            x = wide(values[e]) / scale
            for r in range(k):
                W[columns[e], r] += updates[r] * x
        if rule.fit_intercept:
            for r in range(k):
                b[r] += updates[r] * rule.decay
        if rule.l1 > 0.0:
            state[L1_TOTAL] += rule.l1 * eta * rule.alpha
            shrink_row(columns, start, stop, weights, scale, state[L1_TOTAL])
        state[T] += 1.0
    state[SCALE] = scale


@kernel
def settle(columns: Any, weights: Any, state: Any) -> None:
    """Multiply W by the factor of all weights, after all of them have received the l1 penalty."""
    if weights.received.shape[0] > 0:
        shrink_row(columns, 0, columns.shape[0], weights, state[SCALE], state[L1_TOTAL])
    W = weights.W
    W *= state[SCALE]
    state[SCALE] = 1.0


class Descent:
    """Rows, weights and rule of a descent.

    Parameters
    ----------
    rule : how to descend.
    X : (n, d), dense or CSR.
    numbers, s : the class number and the weight of every row.
    factors : the weight of every class.
    W, b : what to start from; both are overwritten.
    t : rows seen before, plus one.
    random : generator that shuffles the rows; None keeps their order.
    """

    def __init__(
        self, rule: Rule, X: Any, numbers: np.ndarray, s: np.ndarray, factors: np.ndarray, W: np.ndarray, b: np.ndarray,
        t: float, random: np.random.RandomState | None,
    ) -> None:  # fmt: skip
        self.rule, self.dtype, self.numbers, self.s, self.random = rule, X.dtype, numbers, s, random
        self.matrix = X if sparse.issparse(X) else sparse.csr_array(X)
        k = W.shape[1]
        is_binary = k == 1
        labels = (numbers - 1 if is_binary else numbers).astype(np.int32)
        negative = factors[:1] if is_binary else np.ones(k)
        self.rows = LabelledRows(
            self.matrix.indices, self.matrix.data, self.matrix.indptr, labels, s, np.stack([negative, factors[-k:]])
        )
        self.weights = Weights(W, b, np.zeros(W.shape if rule.l1 > 0.0 else (0, k)))
        self.state: np.ndarray = np.array([t, 1.0, 0.0, 0.0])

    def run_pass(self, rows: np.ndarray) -> None:
        """One pass over some rows, shuffled where a generator was given."""
        self.state[LOSS] = 0.0
        order = rows if self.random is None else self.random.permutation(rows)
        descend(self.rows, order, self.weights, self.rule, self.state)

    def objective(self, n: int) -> float:
        """Mean loss over the rows and classes of the last pass, plus the penalty of the weights after it."""
        W = self.weights.W
        value = self.state[LOSS] / (n * W.shape[1])
        if self.rule.rate < PA1:
            W = W * self.state[SCALE]
            norms = 0.5 * self.rule.l2 * np.vdot(W, W) + self.rule.l1 * np.abs(W).sum()
            value += self.rule.alpha * float(norms) / W.shape[1]
        return float(value)

    def error(self, held: np.ndarray) -> float:
        """Weighted fraction of wrong predictions among the rows set aside."""
        scores = self.matrix[held] @ self.weights.W * self.state[SCALE] + self.weights.b
        predicted = (scores[:, 0] > 0.0).astype(int) if scores.shape[1] == 1 else scores.argmax(axis=1)
        return float(np.average(predicted != self.numbers[held], weights=self.s[held]))

    def lower_rate(self) -> bool:
        """Go on with a lower learning rate; False if the schedule has none."""
        if self.rule.rate != ADAPTIVE or self.rule.eta <= _SMALLEST_RATE:
            return False
        self.rule = self.rule._replace(eta=self.rule.eta / _LESS)
        return True

    def settled(self) -> tuple[np.ndarray, np.ndarray]:
        """Weights and intercepts, with all penalties applied."""
        W = self.weights.W
        settle(np.arange(W.shape[0], dtype=self.matrix.indices.dtype), self.weights, self.state)
        return W, self.weights.b
