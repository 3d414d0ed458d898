"""Plain stochastic gradient descent with scikit-learn's losses, step lengths and penalties, all classes in one pass.

A row with scores p_r = w_r'x + b_r, targets t_r = ±1 and step length η does, for every class r,

    w_r ← max(0, 1 − η·α·(1 − ρ))·w_r − η·c_r·ℓ'(t_r, p_r)·x,     b_r ← b_r − decay·η·c_r·ℓ'(t_r, p_r)

with c_r the weight of the row in problem r, and then |w_j| shrinks by what the l1 penalty has added up to, Σ η·α·ρ,
less what it has received so far (Tsuruoka, Tsujii & Ananiadou 2009). Step lengths are the same for all classes, so that
one number carries the shrinking of all weights, and a row is read once however many classes there are. "pa1" and "pa2"
are the passive-aggressive steps of Crammer et al. (2006).

This serves `partial_fit`, and `fit` where no solver of lineal's minimises the objective. Memory: 8·d·k bytes for the
weights in float64, twice that with an l1 penalty.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np
from scipy import sparse
from sklearn.utils import check_random_state

from lineal.core.jit import kernel
from lineal.core.maths import wide
from lineal.errors import OptionError

LOSSES = (
    "hinge", "perceptron", "squared_hinge", "modified_huber", "log_loss", "squared_error", "huber",
    "epsilon_insensitive", "squared_epsilon_insensitive",
)  # fmt: skip
(HINGE, PERCEPTRON, SQUARED_HINGE, MODIFIED_HUBER, LOG_LOSS, SQUARED_ERROR, HUBER, EPSILON, SQUARED_EPSILON) = range(9)

RATES = ("constant", "optimal", "invscaling", "adaptive", "pa1", "pa2")
CONSTANT, OPTIMAL, INVSCALING, ADAPTIVE, PA1, PA2 = range(6)

#: Entries of `state`: rows seen (from 1 on), the factor of all weights, what the l1 penalty has added up to, losses.
T, SCALE, PULL, LOSS = range(4)

#: Slopes are cut at this; a smaller factor of all weights is multiplied out.
MAX_SLOPE, MIN_SCALE = 1e12, 1e-9

#: Intercepts of sparse rows go by smaller steps, as in scikit-learn.
_SPARSE_DECAY = 0.01

#: "adaptive" divides its steps by this, down to the smallest.
_LESS, _SMALLEST_STEP = 5.0, 1e-6


class Steps(NamedTuple):
    """How to go down. `eta` is the length of "constant", "adaptive" and (as C) of "pa1" and "pa2"; `offset` are the
    rows that count as seen in "optimal"."""

    loss: int
    epsilon: float
    rate: int
    eta: float
    power_t: float
    offset: float
    alpha: float
    l2: float
    l1: float
    fit_intercept: bool
    decay: float


@kernel
def loss_value(kind: int, t: float, p: float, epsilon: float) -> float:
    """ℓ(t, p)."""
    m = t * p
    r = abs(p - t)
    if kind == HINGE:
        return max(0.0, 1.0 - m)
    if kind == PERCEPTRON:
        return max(0.0, -m)
    if kind == SQUARED_HINGE:
        return max(0.0, 1.0 - m) ** 2
    if kind == MODIFIED_HUBER:
        return max(0.0, 1.0 - m) ** 2 if m >= -1.0 else -4.0 * m
    if kind == LOG_LOSS:
        return math.log1p(math.exp(-m)) if m > 0.0 else math.log1p(math.exp(m)) - m
    if kind == SQUARED_ERROR:
        return 0.5 * r * r
    if kind == HUBER:
        return 0.5 * r * r if r <= epsilon else epsilon * (r - 0.5 * epsilon)
    rest = max(0.0, r - epsilon)
    return rest if kind == EPSILON else rest * rest


@kernel
def loss_slope(kind: int, t: float, p: float, epsilon: float) -> float:
    """ℓ'(t, p); at a corner of the hinges the slope of the side that has a loss."""
    m = t * p
    r = p - t
    if kind == HINGE:
        return -t if m <= 1.0 else 0.0
    if kind == PERCEPTRON:
        return -t if m <= 0.0 else 0.0
    if kind == SQUARED_HINGE:
        return -2.0 * t * max(0.0, 1.0 - m)
    if kind == MODIFIED_HUBER:
        return -2.0 * t * max(0.0, 1.0 - m) if m >= -1.0 else -4.0 * t
    if kind == LOG_LOSS:
        return -t / (1.0 + math.exp(m)) if m < 0.0 else -t * math.exp(-m) / (1.0 + math.exp(-m))
    if kind == SQUARED_ERROR:
        return r
    if kind == HUBER:
        return min(max(r, -epsilon), epsilon)
    rest = max(0.0, abs(r) - epsilon)
    side = 1.0 if r > 0.0 else -1.0
    if kind == EPSILON:
        return side if rest > 0.0 else 0.0
    return 2.0 * side * rest


@kernel
def update_of(steps: Any, t: float, p: float, eta: float, square: float) -> float:
    """The multiple of x that the weights of one class gain."""
    if steps.rate == PA1:
        return t * min(eta, loss_value(steps.loss, t, p, steps.epsilon) / square) if square > 0.0 else 0.0
    if steps.rate == PA2:
        return t * loss_value(steps.loss, t, p, steps.epsilon) / (square + 0.5 / eta)
    return -eta * min(max(loss_slope(steps.loss, t, p, steps.epsilon), -MAX_SLOPE), MAX_SLOPE)


@kernel
def shrink_row(columns: Any, start: int, stop: int, W: Any, received: Any, scale: float, pull: float) -> None:
    """Give the weights of a row's columns the part of the l1 penalty that they have not received yet."""
    for e in range(start, stop):
        j = columns[e]
        for r in range(W.shape[1]):
            w = scale * W[j, r]
            if w > 0.0:
                less = max(0.0, w - (pull + received[j, r]))
            elif w < 0.0:
                less = min(0.0, w + (pull - received[j, r]))
            else:
                continue
            received[j, r] += less - w
            W[j, r] = less / scale


@kernel
def rescaled(W: Any, scale: float) -> float:
    """The factor of all weights, multiplied out where it has become too small."""
    if scale <= 0.0:
        W[:] = 0.0
        return 1.0
    if scale < MIN_SCALE:
        W *= scale
        return 1.0
    return scale


@kernel
def descend(columns: Any, values: Any, starts: Any, order: Any, labels: Any, weights: Any, factors: Any, W: Any, b: Any,
            received: Any, steps: Any, state: Any) -> None:  # fmt: skip
    """One pass over the rows of `order`.

    labels : the column of a row's class, −1 for none (the first of two classes).
    weights : of the rows; factors : (2, k), of the negative and of the positive rows of every problem.
    received : (d, k) l1 penalties received, or empty.
    """
    k = W.shape[1]
    scores, updates = np.empty(k), np.empty(k)
    scale = state[SCALE]
    for o in range(order.shape[0]):
        i = order[o]
        start, stop = starts[i], starts[i + 1]
        scores[:] = 0.0
        square = 0.0
        for e in range(start, stop):
            x = wide(values[e])
            square += x * x
            for r in range(k):
                scores[r] += W[columns[e], r] * x
        eta = steps.eta
        if steps.rate == OPTIMAL:
            eta = 1.0 / (steps.alpha * (steps.offset + state[T] - 1.0))
        elif steps.rate == INVSCALING:
            eta = steps.eta / state[T] ** steps.power_t
        for r in range(k):
            p = scale * scores[r] + b[r]
            t = 1.0 if labels[i] == r else -1.0
            state[LOSS] += loss_value(steps.loss, t, p, steps.epsilon)
            side = 1 if labels[i] == r else 0
            updates[r] = update_of(steps, t, p, eta, square) * weights[i] * factors[side, r]
        scale = rescaled(W, scale * max(0.0, 1.0 - steps.l2 * eta * steps.alpha))
        for e in range(start, stop):
            x = wide(values[e]) / scale
            for r in range(k):
                W[columns[e], r] += updates[r] * x
        if steps.fit_intercept:
            for r in range(k):
                b[r] += updates[r] * steps.decay
        if steps.l1 > 0.0:
            state[PULL] += steps.l1 * eta * steps.alpha
            shrink_row(columns, start, stop, W, received, scale, state[PULL])
        state[T] += 1.0
    state[SCALE] = scale


@kernel
def settle(columns: Any, W: Any, received: Any, state: Any) -> None:
    """Multiply the factor of all weights out, after the l1 penalty has reached all of them."""
    if received.shape[0] > 0:
        shrink_row(columns, 0, columns.shape[0], W, received, state[SCALE], state[PULL])
    W *= state[SCALE]
    state[SCALE] = 1.0


class Descent:
    """Rows, weights and steps of a descent."""

    def __init__(
        self, given: Any, X: Any, numbers: np.ndarray, s: np.ndarray, factors: np.ndarray, W: np.ndarray,
        b: np.ndarray,
    ) -> None:  # fmt: skip
        if given.average:
            raise OptionError(
                f"average={given.average!r} is refused in partial_fit and where fit descends: use average=False, or a "
                "loss and penalty whose minimum fit finds, which averages approach"
            )
        self.X, self.dtype, self.numbers, self.s = X, X.dtype, numbers, s
        self.rows = X if sparse.issparse(X) else sparse.csr_array(X)
        self.W, self.b = W, b
        k = W.shape[1]
        is_binary = k == 1
        self.labels: np.ndarray = (numbers - 1 if is_binary else numbers).astype(np.int32)
        negative = factors[:1] if is_binary else np.ones(k)
        self.factors: np.ndarray = np.stack([negative, factors[-k:]])
        share, alpha = given._l1_share(), given._strength()
        self.received: np.ndarray = np.zeros(W.shape if share > 0.0 else (0, k))
        rate = RATES.index(given.learning_rate)
        self.steps = Steps(
            LOSSES.index(given.loss), float(given.epsilon), rate, float(given.eta0), float(given.power_t),
            0.0 if given.alpha == 0.0 else given.alpha**-0.75, float(given.alpha), float(1.0 - share) * (alpha > 0.0),
            float(share), bool(given.fit_intercept), _SPARSE_DECAY if sparse.issparse(X) else 1.0,
        )  # fmt: skip
        self.state: np.ndarray = np.array([given.t_, 1.0, 0.0, 0.0])
        self.random = check_random_state(given.random_state) if given.shuffle else None

    def order(self, rows: np.ndarray) -> np.ndarray:
        """The rows, shuffled where that is asked for."""
        return rows if self.random is None else self.random.permutation(rows)

    def go(self, order: np.ndarray) -> None:
        """One pass."""
        self.state[LOSS] = 0.0
        descend(
            self.rows.indices, self.rows.data, self.rows.indptr, order, self.labels, self.s, self.factors, self.W,
            self.b, self.received, self.steps, self.state,
        )  # fmt: skip

    def objective(self, n: int) -> float:
        """Mean over rows and classes of the losses met in the last pass, and the penalty of what it ended with."""
        value = self.state[LOSS] / (n * self.W.shape[1])
        if self.steps.rate < PA1:
            W = self.W * self.state[SCALE]
            norms = 0.5 * self.steps.l2 * np.vdot(W, W) + self.steps.l1 * np.abs(W).sum()
            value += self.steps.alpha * float(norms) / W.shape[1]
        return float(value)

    def error(self, held: np.ndarray) -> float:
        """Share of the rows set aside that are wrong."""
        scores = self.rows[held] @ self.W * self.state[SCALE] + self.b
        found = (scores[:, 0] > 0.0).astype(int) if scores.shape[1] == 1 else scores.argmax(axis=1)
        return float(np.average(found != self.numbers[held], weights=self.s[held]))

    def shorter(self) -> bool:
        """Go on by shorter steps; False where there are none."""
        if self.steps.rate != ADAPTIVE or self.steps.eta <= _SMALLEST_STEP:
            return False
        self.steps = self.steps._replace(eta=self.steps.eta / _LESS)
        return True

    def settled(self) -> tuple[np.ndarray, np.ndarray]:
        """Weights and intercepts."""
        settle(np.arange(self.W.shape[0], dtype=self.rows.indices.dtype), self.W, self.received, self.state)
        return self.W, self.b
