"""Textbook solvers of softmax regression without a penalty, to compare with: small, in NumPy, in float64.

Each yields its weights (d, k) after every iteration, for ever; whoever asks stops asking. There is no intercept.

gradient_descent : W ← W − ∇F/M with M = ½·λmax(Σ̂), the largest curvature that the loss can have.
accelerated_gradient : the same with Nesterov's (1983) momentum, restarted where it points uphill.
irls : Newton's method with the whole dk × dk Hessian, full steps, as iteratively reweighted least squares.
"""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np


class Softmax:
    """F(W) = (1/n) Σ logsumexp(W'x_i) − w_{y_i}'x_i."""

    def __init__(self, X: np.ndarray, y: np.ndarray) -> None:
        self.X, self.y = np.asarray(X, np.float64), y
        self.n, self.d = self.X.shape
        self.k = int(y.max()) + 1
        self.Y = np.eye(self.k)[y]
        self.zero = np.zeros((self.d, self.k))
        self.moment = self.X.T @ self.X / self.n

    def means(self, W: np.ndarray) -> np.ndarray:
        """Expected labels."""
        Z = self.X @ W
        E = np.exp(Z - Z.max(axis=1, keepdims=True))
        return E / E.sum(axis=1, keepdims=True)

    def value(self, W: np.ndarray) -> float:
        Z = self.X @ W
        top = Z.max(axis=1)
        return float(np.mean(np.log(np.exp(Z - top[:, None]).sum(axis=1)) + top - Z[np.arange(self.n), self.y]))

    def gradient(self, W: np.ndarray) -> np.ndarray:
        return self.X.T @ (self.means(W) - self.Y) / self.n

    def hessian(self, W: np.ndarray) -> np.ndarray:
        """(kd, kd), class by class."""
        P = self.means(W)
        H = np.empty((self.k, self.d, self.k, self.d))
        for a in range(self.k):
            for b in range(self.k):
                weights = P[:, a] * ((a == b) - P[:, b]) / self.n
                H[a, :, b, :] = self.X.T @ (weights[:, None] * self.X)
        return H.reshape(self.k * self.d, -1)


def gradient_descent(problem: Softmax) -> Iterator[np.ndarray]:
    """Constant steps."""
    W, step = problem.zero, _step(problem)
    while True:
        W = W - step * problem.gradient(W)
        yield W


def accelerated_gradient(problem: Softmax) -> Iterator[np.ndarray]:
    """Momentum with restarts."""
    W, step, age = problem.zero, _step(problem), 1.0
    point = W
    while True:
        gradient = problem.gradient(point)
        landed = point - step * gradient
        if np.vdot(gradient, landed - W) > 0.0:
            age = 1.0
        older, age = age, 0.5 + math.sqrt(0.25 + age * age)
        point, W = landed + (older - 1.0) / age * (landed - W), landed
        yield W


def irls(problem: Softmax) -> Iterator[np.ndarray]:
    """Full Newton steps; the directions that change no probability are left alone."""
    W = problem.zero
    while True:
        gradient = problem.gradient(W)
        H = problem.hessian(W)
        # Scaled to a unit diagonal, so that only the directions that are really flat fall below the cut.
        scale = 1.0 / np.sqrt(np.maximum(np.diag(H), 1e-300))
        step = np.linalg.lstsq(H * np.outer(scale, scale), scale * gradient.T.reshape(-1), rcond=1e-13)[0]
        W = W - (scale * step).reshape(problem.k, problem.d).T
        yield W


def _step(problem: Softmax) -> float:
    return 2.0 / float(np.linalg.eigvalsh(problem.moment)[-1])
