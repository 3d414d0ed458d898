"""Scores, derivatives and curvatures of all rows for Newton methods.

For parameters θ and a direction V, with row weights s: scores Z = Xθ, their change Y = XV, R = s∘∇ℓ and D = s∘ℓ''.
They are row state (`lineal.engine.state`), so they are kept where the rows are. With Z and Y, a trial step costs O(n·k)
without a pass over X, and a product with the Hessian takes two passes. One-vs-rest losses are k separate problems that
share the passes, and D is an array. Losses that couple the columns are one problem, and the loss itself multiplies a
row by its curvature (`row_curvature`).

Memory: 4·n·k numbers in the data type of X (3·n·k for coupled columns) if they take at most KEPT_BYTES per array.
Otherwise nothing is kept between steps, and a block rebuilds its Z, Y, R and D for every step.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from lineal.core import threads as pool
from lineal.core.jit import kernel
from lineal.core.maths import wide
from lineal.design.csr import CSR
from lineal.design.products import matmul, rmatmul
from lineal.engine.base import Block, Engine
from lineal.engine.local import LocalEngine, pieces_of, put_pieces
from lineal.engine.state import Piece
from lineal.numerics.centred import Centred
from lineal.numerics.vectors import column_dots, total_dot
from lineal.problem import dense_pass, row_sums
from lineal.problem.loop_state import LoopState

#: Rows per range when the loss is evaluated; sums over ranges are added in order.
RANGE_ROWS = 8192

#: Smallest number of stored entries of X for which several threads are used.
WORTH_A_THREAD = 200_000

#: Largest number of bytes per array of row state (of all rows) that is kept between steps.
KEPT_BYTES = 256 << 20

#: Number of coupled columns up to which their mean curvatures are computed one by one, and not estimated.
FEW_COLUMNS = 4

_U = np.uintp


def useful_threads(engine: Engine, threads: int) -> int:
    """Number of threads, or one if a pass over the rows takes less time than starting another thread."""
    return threads if engine.stored * engine.n_columns >= 4 * WORTH_A_THREAD else 1


class ScoreRows(LoopState):
    """Scores of all rows at θ = (W, b̃), where each column of θ can be a separate problem.

    `theta` and `columns` contain only the active problems.
    """

    state_names = ("columns", "theta", "pieces")

    def __init__(self, centred: Centred, is_coupled: bool | None = None) -> None:
        """`is_coupled` says whether all columns are one problem; by default they are if the loss compares scores."""
        self.centred, self.objective, self.engine = centred, centred.objective, centred.objective.engine
        self.is_coupled = self.objective.loss.is_direct if is_coupled is None else is_coupled
        self.dots = total_dot if self.is_coupled else column_dots
        self.columns = np.arange(self.engine.n_columns)
        self.direction: np.ndarray | None = None
        self.facts = RowFacts(self.objective.loss, self.is_coupled, self.engine.n_columns)
        self.rebuild = ScorePieces(self.facts)

    @property
    def is_local(self) -> bool:
        """Whether the rows are in this process, so that a checkpoint can have their state."""
        return isinstance(self.engine, LocalEngine)

    @property
    def pieces(self) -> list[Piece] | None:
        """Row state of all blocks; None if it is not kept, or in other processes."""
        return pieces_of(self.engine, self.state)

    def restore_part(self, name: str, value: Any) -> None:
        """Restore one of the attributes in `state_names`, between two directions."""
        if name == "pieces":
            self._begin()
            put_pieces(self.engine, self.state, value)
        else:
            super().restore_part(name, value)

    @property
    def n_problems(self) -> int:
        """Number of separate problems."""
        return 1 if self.is_coupled else len(self.columns)

    def start(self, theta: np.ndarray) -> np.ndarray:
        """Compute the scores of θ; returns the loss of each problem."""
        self.theta = theta
        self._begin()
        return self.trial(np.zeros(self.n_problems))[0]

    def _begin(self) -> None:
        """Make row state for the scores of `theta`."""
        self.direction = None
        max_bytes = KEPT_BYTES * (3 if self.is_coupled else 4)
        self.state = self.engine.state(self.rebuild, *self._parameters(np.zeros(self.n_problems)), max_bytes=max_bytes)

    def begin(self, theta: np.ndarray, Z: np.ndarray, R: np.ndarray) -> Piece:
        """Start at θ with given scores Z, and update the given arrays Z and R in place from now on.

        The rows must be one block of the local engine. Returns the piece of that block.
        """
        self.theta, self.direction = theta, None
        self.state = self.engine.state(self.rebuild, *self._parameters(np.zeros(self.n_problems)))
        D = np.empty_like(Z) if not self.is_coupled else np.empty((0, 0), Z.dtype)
        piece = {"Z": Z, "Y": np.zeros_like(Z), "R": R, "D": D, "steps": np.zeros(self.n_problems)}
        self.engine.cache.put(0, self.state.use(), piece)  # type: ignore[attr-defined]
        return piece

    def set_direction(self, direction: np.ndarray) -> None:
        """Set the direction of the following trials and compute Y = X·direction."""
        self.direction = direction
        parameters = self._parameters(np.zeros(self.n_problems))
        self.engine.update(set_direction, *parameters[2:4], states=(self.state.to(*parameters),))

    def advance(self, direction: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """`set_direction`, `trial` at a step size of one, and `gradient` there; dense rows are read once for it.

        All columns must be one problem. Returns loss and derivative, and the gradient in float64.
        """
        self.direction = direction
        parameters = self._parameters(np.ones(1))
        states = (self.state.to(*parameters),)
        sums, correlation, total = self.engine.sum(Advance(self.facts), *parameters[2:4], self.columns, states=states)
        return sums[:, 0], self._inside(correlation, total)

    def trial(self, steps: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Loss and its derivative along Y of each problem at Z + steps·Y; R and D are then those at this point."""
        states = (self.state.to(*self._parameters(steps)),)
        (sums,) = self.engine.sum(Trial(self.facts), steps, self.columns, states=states)
        return sums[0], sums[1]

    def accept(self, steps: np.ndarray, theta: np.ndarray) -> None:
        """Change Z to Z + steps·Y, the scores of θ; the last call of `trial` must have had these steps."""
        self.theta, self.direction = theta, None
        self.engine.update(accept, steps, states=(self.state.to(*self._parameters(np.zeros(self.n_problems))),))

    def gradient(self) -> np.ndarray:
        """Gradient of the loss term with respect to W and b̃."""
        return self._inside(*self.engine.sum(Gradient(self.facts), self.columns, states=(self.state,)))

    def product(self, V: np.ndarray, chosen: np.ndarray | None = None) -> np.ndarray:
        """Product of the Hessian of the loss term with V; `chosen` are the problems of its columns, None for all."""
        W, b = self._outside(V)
        sums = self.engine.sum(CurvatureProduct(self.facts), W, b, self.columns, chosen, states=(self.state,))
        return self._inside(*sums)

    def mean_curvature(self, seed: int) -> np.ndarray:
        """Curvature Σ_i s_i ∂²ℓ_i/∂z_r² of each column r; for coupled columns estimated with random signs."""
        (sums,) = self.engine.sum(MeanCurvature(self.facts, seed), self.columns, states=(self.state,))
        return np.maximum(sums, 1e-3 * max(float(sums.max(initial=0.0)), 0.0)) if self.is_coupled else sums

    def keep(self, kept: np.ndarray) -> None:
        """Keep only some of the problems active."""
        self.columns, self.theta = self.columns[kept], np.ascontiguousarray(self.theta[:, kept])
        self.direction = None
        self.engine.update(keep_columns, kept, states=(self.state.to(*self._parameters(np.zeros(self.n_problems))),))

    def _parameters(self, steps: np.ndarray) -> tuple[Any, ...]:
        """Arguments of `ScorePieces`, which determine Z, Y, R and D."""
        along = (None, None) if self.direction is None else self._outside(self.direction)
        return *self._outside(self.theta), *along, steps, self.columns

    def _outside(self, theta: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        return self.objective.split(self.centred.outside(theta))

    def _inside(self, correlation: np.ndarray, total: np.ndarray) -> np.ndarray:
        """Gradient with respect to W and b̃, from X'R and the sums of R."""
        if self.centred.means is None:
            return correlation
        out = np.empty((len(correlation) + 1, correlation.shape[1]), correlation.dtype)
        np.subtract(correlation, self.centred.means.astype(out.dtype) * total.astype(out.dtype), out=out[:-1])
        out[-1] = total
        return out


# --- steps over rows. A piece has Z, Y and the step sizes at which R and D are computed when they are needed.


@dataclass(frozen=True)
class RowFacts:
    """What all steps need to know: the loss, whether it couples columns, and the number of all columns."""

    loss: Any
    is_coupled: bool
    k: int

    def is_fused(self, block: Block) -> bool:
        """Whether one pass over X is enough for a product with the Hessian: one column and sparse rows."""
        return self.k == 1 and not self.is_coupled and isinstance(block.X.layout, CSR)


@dataclass(frozen=True)
class ScorePieces:
    """Rebuild a piece: the scores Z of (W, b), and Y of a direction (V, v)."""

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


def set_direction(block: Block, piece: Piece, V: np.ndarray, v: np.ndarray) -> tuple[()]:
    """Step: compute Y = X·V + v; R and D do not change."""
    piece["Y"] = _scores(block, V, v, piece["Y"])
    piece["steps"] = np.zeros_like(piece["steps"])
    return ()


@dataclass(frozen=True)
class Trial:
    """Step: loss and its derivative along Y of each problem at Z + steps·Y, (2, problems)."""

    facts: RowFacts

    def __call__(self, block: Block, piece: Piece, steps: np.ndarray, columns: np.ndarray) -> tuple[np.ndarray]:
        return (_derive(self.facts, block, piece, steps, columns),)


def accept(block: Block, piece: Piece, steps: np.ndarray) -> tuple[()]:
    """Step: change Z to Z + steps·Y, where R and D have been computed."""
    _advance(piece["Z"], piece["Y"], np.broadcast_to(steps, (piece["Z"].shape[1],)))
    piece["steps"] = np.zeros_like(piece["steps"])
    return ()


@dataclass(frozen=True)
class Gradient:
    """Step: X'R and the sums of R."""

    facts: RowFacts

    def __call__(self, block: Block, piece: Piece, columns: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        R = derivatives(self.facts, block, piece, columns)["R"]
        if self.facts.is_fused(block):
            return _in_parallel(block, _transposed_product, R)
        return rmatmul(block.X, R, threads=block.threads), R.sum(axis=0, dtype=np.float64)


@dataclass(frozen=True)
class Advance:
    """Step: compute Y = XV + v; loss and derivative at Z + Y, (2, 1), X'R there, and the sums of R.

    Where a fused pass does this, R is not kept.
    """

    facts: RowFacts

    def __call__(
        self, block: Block, piece: Piece, V: np.ndarray, v: np.ndarray, columns: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        if not dense_pass.suits(block.X, V):
            set_direction(block, piece, V, v)
            sums = _derive(self.facts, block, piece, np.ones(1), columns)
            correlation = rmatmul(block.X, piece["R"], threads=block.threads)
            return sums, correlation.astype(np.float64), piece["R"].sum(axis=0, dtype=np.float64)
        for name in ("R", "D", "active"):
            piece.pop(name, None)
        value, derivative, gradient = dense_pass.gradients(self.facts.loss, block, V, v, piece["Z"], piece["Y"])
        piece["steps"] = np.ones(1)
        return np.array([[value], [derivative]]), gradient[:-1], gradient[-1]


@dataclass(frozen=True)
class CurvatureProduct:
    """Step: X'D(XW + b) for the curvatures D of the chosen columns, and the sums of D(XW + b)."""

    facts: RowFacts

    def __call__(
        self, block: Block, piece: Piece, W: np.ndarray, b: np.ndarray, columns: np.ndarray, chosen: np.ndarray | None
    ) -> tuple[np.ndarray, np.ndarray]:
        if self.facts.is_coupled and dense_pass.suits(block.X, W):
            sums = dense_pass.product(self.facts.loss, block, W, b, piece["Z"])
            return sums[:-1], sums[-1]
        piece = derivatives(self.facts, block, piece, columns)
        if self.facts.is_fused(block):
            if "active" not in piece:
                piece["active"] = np.flatnonzero(piece["D"][:, 0])
            v = np.ascontiguousarray(W[:, 0])
            return _in_parallel(block, _hessian_product, piece["active"], piece["D"], v, b[0])
        Y = matmul(block.X, W, threads=block.threads)
        Y += b
        if self.facts.is_coupled:
            row_sums.curvatures(self.facts.loss, block, piece["Z"], Y)
        else:
            Y *= piece["D"] if chosen is None else piece["D"][:, chosen]
        return rmatmul(block.X, Y, threads=block.threads), Y.sum(axis=0, dtype=np.float64)


@dataclass(frozen=True)
class MeanCurvature:
    """Step: Σ s·∂²ℓ/∂z_r² of each column r, estimated with random signs if columns are coupled."""

    facts: RowFacts
    seed: int

    def __call__(self, block: Block, piece: Piece, columns: np.ndarray) -> tuple[np.ndarray]:
        if not self.facts.is_coupled:
            return (derivatives(self.facts, block, piece, columns)["D"].sum(axis=0, dtype=np.float64),)
        Z = piece["Z"]
        if Z.shape[1] <= FEW_COLUMNS:
            return (np.array([_diagonal_curvature(self.facts.loss, block, Z, r) for r in range(Z.shape[1])]),)
        Y = _signs(self.seed, block.first * Z.shape[1], Z.shape).astype(Z.dtype)
        curved = Y.copy()
        row_sums.curvatures(self.facts.loss, block, Z, curved)
        return (np.einsum("ir,ir->r", Y, curved, dtype=np.float64),)


def keep_columns(block: Block, piece: Piece, kept: np.ndarray) -> tuple[()]:
    """Step: keep only some of the columns."""
    piece.pop("active", None)
    for name in {"Z", "Y", "R", "D"} & piece.keys():
        piece[name] = np.ascontiguousarray(piece[name][:, kept])
    piece["steps"] = np.zeros(len(kept))
    return ()


def _scores(block: Block, W: np.ndarray, b: np.ndarray, out: np.ndarray | None = None) -> np.ndarray:
    """Scores XW + b; without a product if all weights are zero, as at the usual start."""
    if out is None:
        out = np.zeros((block.n, W.shape[1]), W.dtype)
    if W.any():
        matmul(block.X, W, out=out, threads=block.threads)
    else:
        out[:] = 0.0
    out += b
    return out


def derivatives(facts: RowFacts, block: Block, piece: Piece, columns: np.ndarray) -> Piece:
    """The piece, with R and D computed if it does not have them yet."""
    if "R" not in piece:
        _derive(facts, block, piece, piece["steps"], columns)
    return piece


def _derive(facts: RowFacts, block: Block, piece: Piece, steps: np.ndarray, columns: np.ndarray) -> np.ndarray:
    """Compute R and D at Z + steps·Y; returns the loss and its derivative along Y of each problem."""
    Z, n = piece["Z"], block.n
    piece.pop("active", None)
    piece["steps"] = steps
    if "R" not in piece:
        piece["R"] = np.empty_like(Z)
        piece["D"] = np.empty_like(Z) if not facts.is_coupled else np.empty((0, 0), Z.dtype)
    ranges = [(a, min(a + RANGE_ROWS, n)) for a in range(0, n, RANGE_ROWS)]
    rows = TrialRows(block.weights, Z, piece["Y"], piece["R"], piece["D"])
    given = (facts.loss, block.targets, rows, steps)
    if facts.is_coupled:
        tasks = [partial(_coupled_trial, *given, *bounds) for bounds in ranges]
    else:
        tasks = [partial(_separate_trial, *given, columns, facts.k, *bounds) for bounds in ranges]
    return np.sum(pool.run(tasks, block.threads), axis=0) if ranges else np.zeros((2, len(steps)))


def _diagonal_curvature(loss: Any, block: Block, Z: np.ndarray, r: int) -> float:
    """Σ s·∂²ℓ/∂z_r² over the rows of a block."""
    Y = np.zeros_like(Z)
    Y[:, r] = 1.0
    row_sums.curvatures(loss, block, Z, Y)
    return float(Y[:, r].sum(dtype=np.float64))


def _signs(seed: int, first: int, shape: tuple[int, ...]) -> np.ndarray:
    """Random signs that depend only on the index of an entry (the finaliser of SplitMix64), not on the blocks."""
    x = np.arange(first, first + math.prod(shape), dtype=np.uint64) + np.uint64(1) << np.uint64(20)
    x = (x + np.uint64(seed & 0xFFFFFFFF)) * np.uint64(0x9E3779B97F4A7C15)
    x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return (1 - 2 * (x >> np.uint64(63)).astype(np.int8)).reshape(shape)


def _in_parallel(block: Block, task: Any, *given: Any) -> tuple[np.ndarray, np.ndarray]:
    """Run a kernel on ranges of rows in parallel; each has its own sums, which are added in order."""
    pieces = block.threads if block.X.stored >= WORTH_A_THREAD else 1
    outs = np.zeros((pieces, block.X.shape[1]), block.X.dtype)
    cuts = pool.ranges(len(given[0]), pieces)
    totals = pool.run([partial(task, block.X.layout, *given, out, *cut) for out, cut in zip(outs, cuts)], block.threads)
    for other in outs[1:]:
        outs[0] += other
    return outs[0][:, None], np.array([sum(totals)])


class TrialRows(NamedTuple):
    """Arrays of the rows that a trial reads (weights, scores Z, scores Y along the direction) and writes (R and D)."""

    weights: Any
    Z: Any
    Y: Any
    R: Any
    D: Any


@kernel
def _separate_trial(loss, targets, rows, steps, columns, k, start, stop):
    """Compute R and D of a range of rows, for a loss that treats columns separately; returns losses and derivatives."""
    weights, Z, Y, R, D = rows.weights, rows.Z, rows.Y, rows.R, rows.D
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
def _coupled_trial(loss, targets, rows, steps, start, stop):
    """Compute R of a range of rows, for a loss that couples the columns; returns the loss and its derivative."""
    weights, Z, Y, R = rows.weights, rows.Z, rows.Y, rows.R
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
def _advance(Z, Y, steps):
    for i in range(_U(Z.shape[0])):
        for r in range(_U(Z.shape[1])):
            Z[i, r] += steps[r] * Y[i, r]


@kernel
def _transposed_product(layout, R, out, start, stop):
    """Add X'R over a range of rows to `out`, for one column; returns the sum of R."""
    total = 0.0
    flat = R.reshape(-1)
    for i in range(_U(start), _U(stop)):
        if flat[i] != 0.0:
            layout.row_update(i, flat, i, 1, out)
            total += wide(flat[i])
    return total


@kernel
def _hessian_product(layout, rows, D, v, shift, out, start, stop):
    """Add X'D(Xv + shift) over the listed rows to `out`, reading each row once; returns the sum of D(Xv + shift)."""
    total = 0.0
    work = np.empty(1, v.dtype)
    for p in range(_U(start), _U(stop)):
        i = _U(rows[p])
        layout.row_scores(i, v, 1, work, 0)
        work[0] = (work[0] + shift) * D[i, 0]
        layout.row_update(i, work, 0, 1, out)
        total += wide(work[0])
    return total
