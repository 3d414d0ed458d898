"""The weights of an online learner: 2^bits slots and the constant's, for one score or for k of them.

For one score a slot is a row of four numbers (see `one_column`). For k of them it is a row of `width` weights and as
many sums of squared derivatives, and the inverse scales are kept apart (see `many_columns`). Memory: 16 bytes per slot,
or 4·(2·width + 1).
"""

from __future__ import annotations

from typing import Any

import numpy as np

from lineal.online.lanes import LANES
from lineal.online.state import (
    CONTRACTION,
    GRAVITY,
    HIGHEST,
    INVERSE,
    LOWEST,
    G,
    ManyTable,
    OneTable,
    W,
    fresh_totals,
)
from lineal.problem.loop_state import LoopState, put


class WeightTable(LoopState):
    """Weights, sums of squared derivatives and inverse scales by slot, and the totals of every column.

    Parameters
    ----------
    slots : how many, without the constant's, which comes last.
    k : scores per example.
    limit : scores of examples are clipped to ± this and the labels seen.
    """

    state_names = ("k", "used", "totals")

    def __init__(self, slots: int, k: int, limit: float) -> None:
        self.slots, self.k, self.limit = slots, k, limit
        if k == 1:
            self.cells: np.ndarray = np.zeros((slots + 1, 4), np.float32)
            self.inverses: np.ndarray = np.empty(0, np.float32)
        else:
            self.cells = np.zeros((slots + 1) * 2 * self.width, np.float32)
            self.inverses = np.zeros(slots + 1, np.float32)
        self.totals: np.ndarray = np.tile(fresh_totals(limit), (k, 1))

    @property
    def width(self) -> int:
        """Number of columns kept for k scores."""
        return padded(self.k)

    @property
    def one(self) -> OneTable:
        """The table of one score, as kernels see it."""
        return OneTable(self.cells, self.totals[0])

    @property
    def many(self) -> ManyTable:
        """The table of several scores, as kernels see it."""
        return ManyTable(self.cells, self.inverses, self.totals)

    @property
    def rows(self) -> np.ndarray:
        """One row per slot; its weights come first."""
        return self.cells.reshape(self.slots + 1, -1)

    def weights(self, slots: Any = slice(None)) -> np.ndarray:
        """Weights after penalties, (slots + 1, k), with the constant in the last row; or those of some slots."""
        raw = self.rows[slots, : self.k] * self.inverse_scales()[slots, None]
        contraction, gravity = self.totals[:, CONTRACTION], self.totals[:, GRAVITY]
        if not gravity.any():
            return (raw * contraction).astype(np.float32)
        return (contraction * np.sign(raw) * np.maximum(np.abs(raw) - gravity, 0.0)).astype(np.float32)

    def scaled_weights(self, slots: np.ndarray) -> np.ndarray:
        """Weights (slots, k) as they would be if the largest |value| were 1."""
        raw = self.rows[slots, : self.k].astype(np.float64)
        scale = np.maximum(self.inverse_scales()[slots], np.finfo(np.float32).tiny)[:, None]
        contraction, gravity = self.totals[:, CONTRACTION], self.totals[:, GRAVITY]
        return contraction * np.sign(raw) * np.maximum(np.abs(raw) - gravity / scale, 0.0)

    def scales(self, slots: Any = slice(None)) -> np.ndarray:
        """The largest |value| seen in every slot, or in some."""
        inverses = self.inverse_scales()[slots]
        return np.divide(1.0, inverses, out=np.zeros_like(inverses), where=inverses > 0.0)

    def inverse_scales(self) -> np.ndarray:
        """One over the scales; zero for slots without a value so far."""
        return self.cells[:, INVERSE] if self.k == 1 else self.inverses

    def grown(self, k: int) -> WeightTable:
        """Table for more columns with the same weights; this table if it has room for them.

        The one score of two classes becomes two columns, one the negative of the other.
        """
        if 1 < self.k < k <= self.width:  # columns beyond the last are zero
            self.totals = np.concatenate([self.totals, np.tile(fresh_totals(self.limit), (k - self.k, 1))])
            self.k = k
            return self
        new = WeightTable(self.slots, k, self.limit)
        rows, old = new.rows, self.rows
        if self.k == 1:
            rows[:, 0], rows[:, 1] = -old[:, W], old[:, W]
            rows[:, new.width : new.width + 2] = old[:, [G]]
            new.totals[:2] = self.totals[0]
            low, high = self.totals[0, LOWEST], self.totals[0, HIGHEST]
            new.totals[:2, LOWEST], new.totals[:2, HIGHEST] = min(low, -high), max(high, -low)
        else:
            rows[:, : self.k] = old[:, : self.k]
            rows[:, new.width : new.width + self.k] = old[:, self.width : self.width + self.k]
            new.totals[: self.k] = self.totals
        new.inverses[:] = self.inverse_scales()
        return new

    def turn(self) -> None:
        """Change the sign of the only score, which swaps the two classes."""
        self.cells[:, W] *= -1.0
        low, high = self.totals[0, LOWEST], self.totals[0, HIGHEST]
        self.totals[0, LOWEST], self.totals[0, HIGHEST] = -high, -low

    # --- files

    @property
    def used(self) -> dict[str, np.ndarray]:
        """Everything about the slots in use, for a checkpoint."""
        slots = np.flatnonzero(self.is_touched())
        inverses = self.inverses if self.k == 1 else self.inverses[slots]
        return {"slots": slots, "rows": self.rows[slots], "inverses": inverses}

    def restore_part(self, name: str, value: Any) -> None:
        """Restore one of the attributes in `state_names`; the table is new, and for as many scores."""
        if name == "used":
            self.rows[value["slots"]] = value["rows"]
            if self.k > 1:
                self.inverses[value["slots"]] = value["inverses"]
        elif name == "totals":
            put(self.totals, value)

    def is_touched(self) -> np.ndarray:
        """Slots (and the constant) with learned values."""
        return np.asarray(self.rows.any(axis=1)) | (self.inverse_scales() > 0.0)

    def tensors(self, slots: np.ndarray) -> dict[str, np.ndarray]:
        """Weights, sums and scales of some slots, and the totals."""
        rows = self.rows[slots]
        first = G if self.k == 1 else self.width
        return {
            "weights": rows[:, : self.k], "squares": rows[:, first : first + self.k],
            "scales": self.inverse_scales()[slots], "totals": self.totals,
        }  # fmt: skip

    def restore_tensors(self, slots: np.ndarray, tensors: dict[str, np.ndarray]) -> None:
        """Inverse of `tensors`; raises a ValueError if they do not fit."""
        m = len(slots)
        shapes: dict[str, tuple[tuple[int, ...], Any]] = {
            "weights": ((m, self.k), np.float32), "squares": ((m, self.k), np.float32), "scales": ((m,), np.float32),
            "totals": (self.totals.shape, np.float64),
        }  # fmt: skip
        for name, (shape, dtype) in shapes.items():
            check(name, tensors[name], shape, dtype)
        for name in ("squares", "scales"):
            if (tensors[name] < 0.0).any():
                raise ValueError(f"{name} are negative")
        first = G if self.k == 1 else self.width
        self.rows[slots, : self.k] = tensors["weights"]
        self.rows[slots, first : first + self.k] = tensors["squares"]
        self.inverse_scales()[slots] = tensors["scales"]
        self.totals[:] = tensors["totals"]


def padded(k: int) -> int:
    """Number of columns that are kept for k > 1 scores."""
    return -(-k // LANES) * LANES


def check(name: str, tensor: np.ndarray, shape: tuple[int, ...], dtype: Any) -> None:
    """Raise a ValueError if a tensor of a file has another shape or type, or numbers that are not finite."""
    if tensor.shape != shape or tensor.dtype != dtype or not np.isfinite(tensor).all():
        raise ValueError(f"{name} do not fit")
