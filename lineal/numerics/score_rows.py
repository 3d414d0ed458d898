"""Scores and curvatures of all rows, kept while a Newton method works: Z, Y = X·s, R = s∘∇ℓ and D = s∘ℓ''.

They are row state (`lineal.engine.state`), so they live where the rows live. With Z and Y at hand a trial step costs
O(n·k) and no pass over X, and a product with the Hessian two passes. Losses that see one score at a time (one-vs-rest)
are k separate problems that share the passes, and have D as an array; those that couple the columns are one problem,
whose curvature the loss applies to a row (`row_curvature`).

Memory: 4·n·k numbers in the precision of the data (3·n·k for coupled columns), where that much is kept.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from lineal.core import threads as pool
from lineal.core.jit import kernel
from lineal.core.maths import wide
from lineal.design.csr import CSR
from lineal.design.products import matmul, rmatmul
from lineal.engine.base import Block, Engine
from lineal.engine.state import Piece
from lineal.numerics.centred import Centred
from lineal.numerics.cg import column_dots, total_dot
from lineal.problem import row_sums

#: Rows of a chunk of the loss's work; sums over chunks are added in order.
CHUNK_ROWS = 8192

#: Stored numbers below which a second thread is not worth its start.
WORTH_A_THREAD = 200_000

#: Bytes of each array of row state up to which they are kept between products.
KEPT_BYTES = 256 << 20

_U = np.uintp


def useful_threads(engine: Engine, threads: int) -> int:
    """The number of threads, or one where a pass over the rows takes less time than waking another."""
    return threads if engine.stored * engine.n_columns >= 4 * WORTH_A_THREAD else 1


class ScoreRows:
    """All rows seen from θ = (W, b̃), where each column of θ may be a problem of its own.

    `theta` and `columns` are those of the problems that still take part.
    """

    def __init__(self, centred: Centred) -> None:
        self.centred, self.objective, self.engine = centred, centred.objective, centred.objective.engine
        self.is_coupled = self.objective.loss.is_direct
        self.dots = total_dot if self.is_coupled else column_dots
        self.columns = np.arange(self.engine.n_columns)
        self.direction: np.ndarray | None = None
        self.facts = RowFacts(self.objective.loss, self.is_coupled, self.engine.n_columns)
        self.rebuild = ScorePieces(self.facts)

    @property
    def groups(self) -> int:
        """Number of separate problems."""
        return 1 if self.is_coupled else len(self.columns)

    def start(self, theta: np.ndarray) -> np.ndarray:
        """Scores of θ from scratch; loss of every problem."""
        self.theta, self.direction = theta, None
        max_bytes = KEPT_BYTES * (3 if self.is_coupled else 4)
        self.state = self.engine.state(self.rebuild, *self._parameters(np.zeros(self.groups)), max_bytes=max_bytes)
        return self.trial(np.zeros(self.groups))[0]

    def begin(self, theta: np.ndarray, Z: np.ndarray, R: np.ndarray) -> Piece:
        """Take the scores Z of θ from the caller, and write to his Z and R from now on; needs one block of local rows.

        Returns the piece of that block.
        """
        self.theta, self.direction = theta, None
        self.state = self.engine.state(self.rebuild, *self._parameters(np.zeros(self.groups)))
        D = np.empty_like(Z) if not self.is_coupled else np.empty((0, 0), Z.dtype)
        piece = {"Z": Z, "Y": np.zeros_like(Z), "R": R, "D": D, "steps": np.zeros(self.groups)}
        self.engine.cache.put(0, self.state.use(), piece)  # type: ignore[attr-defined]
        return piece

    def look_along(self, direction: np.ndarray) -> None:
        """Y = X·direction."""
        self.direction = direction
        parameters = self._parameters(np.zeros(self.groups))
        self.engine.update(look_along, *parameters[2:4], states=(self.state.to(*parameters),))

    def trial(self, steps: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Loss of every problem, and its slope along Y, at Z + steps·Y; R and D are then those of that point."""
        states = (self.state.to(*self._parameters(steps)),)
        (sums,) = self.engine.sum(Trial(self.facts), steps, self.columns, states=states)
        return sums[0], sums[1]

    def accept(self, steps: np.ndarray, theta: np.ndarray) -> None:
        """Move Z to the scores of θ, which are Z + steps·Y; `trial` must have seen these steps last."""
        self.theta, self.direction = theta, None
        self.engine.update(accept, steps, states=(self.state.to(*self._parameters(np.zeros(self.groups))),))

    def gradient(self) -> np.ndarray:
        """Gradient of the loss term with respect to W and b̃."""
        return self._inside(*self.engine.sum(Gradient(self.facts), self.columns, states=(self.state,)))

    def product(self, V: np.ndarray, chosen: np.ndarray | None = None) -> np.ndarray:
        """Hessian of the loss term times V; `chosen` are the problems of its columns, None for all of them."""
        W, b = self._outside(V)
        sums = self.engine.sum(CurvatureProduct(self.facts), W, b, self.columns, chosen, states=(self.state,))
        return self._inside(*sums)

    def mean_curvature(self, seed: int) -> np.ndarray:
        """Σ_i s_i ∂²ℓ_i/∂z_r² of every column r; where columns are coupled, estimated with random signs."""
        (found,) = self.engine.sum(MeanCurvature(self.facts, seed), self.columns, states=(self.state,))
        return np.maximum(found, 1e-3 * max(float(found.max(initial=0.0)), 0.0)) if self.is_coupled else found

    def keep(self, kept: np.ndarray) -> None:
        """Go on with some of the problems only."""
        self.columns, self.theta = self.columns[kept], np.ascontiguousarray(self.theta[:, kept])
        self.direction = None
        self.engine.update(keep_columns, kept, states=(self.state.to(*self._parameters(np.zeros(self.groups))),))

    def _parameters(self, steps: np.ndarray) -> tuple[Any, ...]:
        """Arguments of `ScorePieces`: where Z, Y, R and D are."""
        along = (None, None) if self.direction is None else self._outside(self.direction)
        return *self._outside(self.theta), *along, steps, self.columns

    def _outside(self, theta: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        return self.objective.split(self.centred.outside(theta))

    def _inside(self, correlation: np.ndarray, total: np.ndarray) -> np.ndarray:
        if self.centred.means is None:
            return correlation
        out = np.empty((len(correlation) + 1, correlation.shape[1]), correlation.dtype)
        np.subtract(correlation, self.centred.means.astype(out.dtype) * total.astype(out.dtype), out=out[:-1])
        out[-1] = total
        return out


# --- steps over rows. A piece has Z, Y and the steps at which R and D are, which are computed when they are needed.


@dataclass(frozen=True)
class RowFacts:
    """What all steps know of the problem: the loss, whether it couples columns, and the number of all columns."""

    loss: Any
    is_coupled: bool
    k: int

    def is_fused(self, block: Block) -> bool:
        """Whether there is one column of sparse rows: each row is then read once per product, there and back."""
        return self.k == 1 and not self.is_coupled and isinstance(block.X.layout, CSR)


@dataclass(frozen=True)
class ScorePieces:
    """Rebuilds a piece: Z of (W, b), and Y of a direction (V, v)."""

    facts: RowFacts

    def __call__(
        self, block: Block, W: np.ndarray, b: np.ndarray, V: np.ndarray | None, v: np.ndarray | None,
        steps: np.ndarray, columns: np.ndarray,
    ) -> Piece:  # fmt: skip
        Z = _scores(block, W, b)
        if block.offsets is not None:
            Z += block.offsets if len(columns) == self.facts.k else block.offsets[:, columns]
        Y = np.zeros_like(Z) if V is None or v is None else _scores(block, V, v)
        return {"Z": Z, "Y": Y, "steps": steps}


def look_along(block: Block, piece: Piece, V: np.ndarray, v: np.ndarray) -> tuple[()]:
    """Y = X·V + v; R and D are left as they are."""
    piece["Y"] = _scores(block, V, v, piece["Y"])
    piece["steps"] = np.zeros_like(piece["steps"])
    return ()


@dataclass(frozen=True)
class Trial:
    """Loss and slope of every problem at Z + steps·Y, (2, problems)."""

    facts: RowFacts

    def __call__(self, block: Block, piece: Piece, steps: np.ndarray, columns: np.ndarray) -> tuple[np.ndarray]:
        return (_derive(self.facts, block, piece, steps, columns),)


def accept(block: Block, piece: Piece, steps: np.ndarray) -> tuple[()]:
    """Z moves to where R and D are."""
    _move(piece["Z"], piece["Y"], np.broadcast_to(steps, (piece["Z"].shape[1],)))
    piece["steps"] = np.zeros_like(piece["steps"])
    return ()


@dataclass(frozen=True)
class Gradient:
    """X'R and the sums of R."""

    facts: RowFacts

    def __call__(self, block: Block, piece: Piece, columns: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        R = derivatives(self.facts, block, piece, columns)["R"]
        if self.facts.is_fused(block):
            return _spread(block, _pull, R)
        return rmatmul(block.X, R, threads=block.threads), R.sum(axis=0, dtype=np.float64)


@dataclass(frozen=True)
class CurvatureProduct:
    """X'D(XW + b) for the curvatures D of the chosen columns, and the sums of D(XW + b)."""

    facts: RowFacts

    def __call__(
        self, block: Block, piece: Piece, W: np.ndarray, b: np.ndarray, columns: np.ndarray, chosen: np.ndarray | None
    ) -> tuple[np.ndarray, np.ndarray]:
        piece = derivatives(self.facts, block, piece, columns)
        if self.facts.is_fused(block):
            if "active" not in piece:
                piece["active"] = np.flatnonzero(piece["D"][:, 0])
            return _spread(block, _there_and_back, piece["active"], piece["D"], np.ascontiguousarray(W[:, 0]), b[0])
        Y = matmul(block.X, W, threads=block.threads)
        Y += b
        if self.facts.is_coupled:
            row_sums.curvatures(self.facts.loss, block, piece["Z"], Y)
        else:
            Y *= piece["D"] if chosen is None else piece["D"][:, chosen]
        return rmatmul(block.X, Y, threads=block.threads), Y.sum(axis=0, dtype=np.float64)


@dataclass(frozen=True)
class MeanCurvature:
    """Σ s·∂²ℓ/∂z_r² of every column r, with random signs where columns are coupled."""

    facts: RowFacts
    seed: int

    def __call__(self, block: Block, piece: Piece, columns: np.ndarray) -> tuple[np.ndarray]:
        if not self.facts.is_coupled:
            return (derivatives(self.facts, block, piece, columns)["D"].sum(axis=0, dtype=np.float64),)
        Z = piece["Z"]
        Y = _signs(self.seed, block.first * Z.shape[1], Z.shape).astype(Z.dtype)
        curved = Y.copy()
        row_sums.curvatures(self.facts.loss, block, Z, curved)
        return (np.einsum("ir,ir->r", Y, curved, dtype=np.float64),)


def keep_columns(block: Block, piece: Piece, kept: np.ndarray) -> tuple[()]:
    """Drop all columns but some."""
    piece.pop("active", None)
    for name in {"Z", "Y", "R", "D"} & piece.keys():
        piece[name] = np.ascontiguousarray(piece[name][:, kept])
    piece["steps"] = np.zeros(len(kept))
    return ()


def _scores(block: Block, W: np.ndarray, b: np.ndarray, out: np.ndarray | None = None) -> np.ndarray:
    """XW + b; without a product where all weights are zero, the usual start."""
    if out is None:
        out = np.zeros((block.n, W.shape[1]), W.dtype)
    if W.any():
        matmul(block.X, W, out=out, threads=block.threads)
    else:
        out[:] = 0.0
    out += b
    return out


def derivatives(facts: RowFacts, block: Block, piece: Piece, columns: np.ndarray) -> Piece:
    """The piece with R and D, which a rebuilt one does not have."""
    if "R" not in piece:
        _derive(facts, block, piece, piece["steps"], columns)
    return piece


def _derive(facts: RowFacts, block: Block, piece: Piece, steps: np.ndarray, columns: np.ndarray) -> np.ndarray:
    """Write R and D at Z + steps·Y; loss and slope of every problem there."""
    Z, n = piece["Z"], block.n
    piece.pop("active", None)
    piece["steps"] = steps
    if "R" not in piece:
        piece["R"] = np.empty_like(Z)
        piece["D"] = np.empty_like(Z) if not facts.is_coupled else np.empty((0, 0), Z.dtype)
    chunks = [(a, min(a + CHUNK_ROWS, n)) for a in range(0, n, CHUNK_ROWS)]
    given = (facts.loss, block.targets, block.weights, Z, piece["Y"], steps, piece["R"])
    if facts.is_coupled:
        tasks = [partial(_coupled_trial, *given, *chunk) for chunk in chunks]
    else:
        tasks = [partial(_separate_trial, *given, columns, facts.k, piece["D"], *chunk) for chunk in chunks]
    return np.sum(pool.run(tasks, block.threads), axis=0) if chunks else np.zeros((2, len(steps)))


def _signs(seed: int, first: int, shape: tuple[int, ...]) -> np.ndarray:
    """Random signs by the numbers of the entries (the finaliser of SplitMix64), however rows are cut into blocks."""
    x = np.arange(first, first + math.prod(shape), dtype=np.uint64) + np.uint64(1) << np.uint64(20)
    x = (x + np.uint64(seed & 0xFFFFFFFF)) * np.uint64(0x9E3779B97F4A7C15)
    x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return (1 - 2 * (x >> np.uint64(63)).astype(np.int8)).reshape(shape)


def _spread(block: Block, task: Any, *given: Any) -> tuple[np.ndarray, np.ndarray]:
    """Run a kernel over ranges of rows, each with its own sums, which are added in order."""
    pieces = block.threads if block.X.stored >= WORTH_A_THREAD else 1
    outs = np.zeros((pieces, block.X.shape[1]), block.X.dtype)
    cuts = pool.ranges(len(given[0]), pieces)
    totals = pool.run([partial(task, block.X.layout, *given, out, *cut) for out, cut in zip(outs, cuts)], block.threads)
    for other in outs[1:]:
        outs[0] += other
    return outs[0][:, None], np.array([sum(totals)])


@kernel
def _separate_trial(loss, targets, weights, Z, Y, steps, R, columns, k, D, start, stop):
    signs = np.empty(k)
    m = Z.shape[1]
    sums = np.zeros((2, m))
    for i in range(_U(start), _U(stop)):
        loss.signs(targets.labels(i), signs)
        weight = weights[i]
        for r in range(_U(m)):
            t = signs[columns[r]]
            y = wide(Y[i, r])
            z = wide(Z[i, r]) + steps[r] * y
            value, derivative = loss.value_and_derivative(t, z)
            R[i, r] = weight * derivative
            D[i, r] = weight * loss.curvature_beside(t, z, derivative)
            sums[0, r] += weight * value
            sums[1, r] += weight * derivative * y
    return sums


@kernel
def _coupled_trial(loss, targets, weights, Z, Y, steps, R, start, stop):
    k = Z.shape[1]
    work, z = np.empty(k), np.empty(k)
    sums = np.zeros((2, 1))
    for i in range(_U(start), _U(stop)):
        for r in range(_U(k)):
            z[r] = wide(Z[i, r]) + steps[0] * wide(Y[i, r])
        sums[0, 0] += weights[i] * loss.row_gradient(targets.labels(i), z, work, R[i])
        for r in range(_U(k)):
            R[i, r] *= weights[i]
            sums[1, 0] += wide(R[i, r]) * wide(Y[i, r])
    return sums


@kernel
def _move(Z, Y, steps):
    for i in range(_U(Z.shape[0])):
        for r in range(_U(Z.shape[1])):
            Z[i, r] += steps[r] * Y[i, r]


@kernel
def _pull(layout, R, out, start, stop):
    """out += X'R over some rows of one column; the sum of R."""
    total = 0.0
    flat = R.reshape(-1)
    for i in range(_U(start), _U(stop)):
        if flat[i] != 0.0:
            layout.row_update(i, flat, i, 1, out)
            total += wide(flat[i])
    return total


@kernel
def _there_and_back(layout, rows, D, v, shift, out, start, stop):
    """out += X'D(Xv + shift) over the listed rows, each read once; the sum of what multiplies the rows."""
    total = 0.0
    work = np.empty(1, v.dtype)
    for p in range(_U(start), _U(stop)):
        i = _U(rows[p])
        layout.row_scores(i, v, 1, work, 0)
        work[0] = (work[0] + shift) * D[i, 0]
        layout.row_update(i, work, 0, 1, out)
        total += wide(work[0])
    return total
