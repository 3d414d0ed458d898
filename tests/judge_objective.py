"""The objective as docs/guide/objectives.md states it, in plain NumPy: nothing here comes from lineal.

Everything is computed in NumPy's widest floating-point type (80 bits on x86), so that what is compared with it is
judged by its own rounding errors, not by those of the judge.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

Wide = np.longdouble

#: Relative rounding error of a float64 operation.
EPS = float(np.finfo(np.float64).eps)

#: Losses that compare the scores of a row with each other, and so have one column per class also for two classes.
DIRECT = ("softmax", "multiclass_squared_hinge", "crammer_singer", "label_ranking")

#: Losses that take label sets.
TAKES_SETS = ("hinge", "squared_hinge", "logistic", "squared", "label_ranking")

SMOOTH = ("squared_hinge", "logistic", "squared", "softmax", "multiclass_squared_hinge", "label_ranking")


def row_losses(loss: str, has: np.ndarray, Z: np.ndarray) -> np.ndarray:
    """Loss per row; `has` is the (n, k) boolean matrix of labels, Z the scores."""
    T = np.where(has, Wide(1), Wide(-1))
    if loss == "hinge":
        return np.maximum(1 - T * Z, 0).sum(axis=1)
    if loss == "squared_hinge":
        return (np.maximum(1 - T * Z, 0) ** 2).sum(axis=1)
    if loss == "logistic":
        return np.logaddexp(Wide(0), -T * Z).sum(axis=1)
    if loss == "squared":
        return ((Z - T) ** 2).sum(axis=1) / 2
    if loss == "softmax":
        return np.logaddexp.reduce(Z - Z[has][:, None], axis=1)
    if loss == "crammer_singer":
        return (np.where(has, Wide(0), Wide(1)) + Z - Z[has][:, None]).max(axis=1)
    if loss not in ("label_ranking", "multiclass_squared_hinge"):
        raise ValueError(f"the judge does not know the loss {loss!r}: add its formula to tests/judge_objective.py")
    short = np.maximum(1 - (Z[:, :, None] - Z[:, None, :]), 0) ** 2
    return (short * (has[:, :, None] & ~has[:, None, :])).sum(axis=(1, 2))


def block_penalty(penalty: str, w: np.ndarray, ratio: float) -> np.floating:
    """ω of one block of weights."""
    w = np.abs(w.ravel())
    largest = w.max(initial=Wide(0))
    l1 = w.sum()
    l2 = largest * np.sqrt(((w / largest) ** 2).sum()) if largest > 0 else Wide(0)
    if penalty == "l1":
        return l1
    if penalty == "l2":
        return l2**2 / 2
    if penalty == "elastic_net":
        return ratio * l1 + (1 - ratio) / 2 * l2**2
    if penalty == "l1/l2":
        return l2
    if penalty == "l1/linf":
        return largest
    if penalty == "sparse_group":
        return ratio * l1 + (1 - ratio) * l2
    raise ValueError(f"the judge does not know the penalty {penalty!r}: add its formula to tests/judge_objective.py")


@dataclass(frozen=True)
class Stated:
    """One objective: rows, labels, weights and penalty as given, in float64 or wider.

    Attributes
    ----------
    X : (n, d) dense rows with exactly the values that the library got.
    has : (n, k) which row has which label; one column for two classes, unless the loss compares scores.
    weights : (n,) weights of the rows, class weights included, which need not add up to one.
    offsets : (n, k) base scores.
    blocks : features of every block of the penalty.
    strengths : α·f of every block.
    """

    loss: str
    penalty: str
    ratio: float
    X: np.ndarray
    has: np.ndarray
    weights: np.ndarray
    offsets: np.ndarray
    blocks: Sequence[np.ndarray]
    strengths: np.ndarray
    fit_intercept: bool

    def scores(self, W: np.ndarray, b: np.ndarray) -> np.ndarray:
        """X W + b + o."""
        return self.X.astype(Wide) @ W.astype(Wide) + b.astype(Wide) + self.offsets.astype(Wide)

    def value(self, W: np.ndarray, b: np.ndarray) -> float:
        """F(W, b)."""
        s = self.weights.astype(Wide)
        loss = (s * row_losses(self.loss, self.has, self.scores(W, b))).sum() / s.sum()
        return float(loss + self.penalty_value(W))

    def penalty_value(self, W: np.ndarray) -> np.floating:
        """αΩ(W)."""
        W = W.astype(Wide)
        return sum(
            (f * block_penalty(self.penalty, W[block], self.ratio) for f, block in zip(self.strengths, self.blocks)),
            Wide(0),
        )

    def rounding(self, W: np.ndarray, b: np.ndarray) -> float:
        """How far F(W, b) computed in float64 may be from the exact one, whatever the order of its sums.

        Columns count with their largest entry, for those who subtract a constant of that size first.
        """
        n, d = self.X.shape
        largest = np.abs(self.X).max(axis=0, keepdims=True).astype(Wide)
        sizes = largest @ np.abs(W).astype(Wide) + np.abs(b) + np.abs(self.offsets)
        E = (d + 4) * EPS * sizes
        Z = self.scores(W, b)
        s = self.weights.astype(Wide) / self.weights.astype(Wide).sum()
        T = np.where(self.has, Wide(1), Wide(-1))
        if self.loss == "squared":
            moved = (np.abs(Z - T) * E + E**2 / 2).sum(axis=1)
        else:  # losses fall with the scores of a row's labels and rise with the others
            there = row_losses(self.loss, self.has, Z)
            worse, better = (row_losses(self.loss, self.has, Z + sign * T * E) for sign in (-1, 1))
            moved = np.maximum(np.abs(worse - there), np.abs(better - there))
        # Products of float64 numbers below its range vanish: 1e-300 is nothing to the objective.
        return float((s * moved).sum()) + (n + d + 30) * 4 * EPS * self.value(W, b) + 1e-300
