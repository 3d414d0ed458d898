"""The weights of an online learner: 2^bits slots and the constant's, for one score or for k of them.

For one score a slot is a row of four numbers (see `online_single`); for k of them it is a row of `width` weights and as
many sums of squared slopes, the inverse scales apart. Memory: 16 bytes a slot, or 4·(2·width + 1).
"""

from __future__ import annotations

from typing import Any

import numpy as np

from lineal.online.lanes import LANES
from lineal.online.state import CONTRACTION, GRAVITY, HIGHEST, INVERSE, LOWEST, G, W, fresh_totals


class WeightTable:
    """Weights, sums of squared slopes and inverse scales by slot, and the totals of every column.

    Parameters
    ----------
    slots : how many, without the constant's, which comes last.
    k : scores an example.
    limit : scores of examples stay within ± this and the labels seen.
    """

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
        """Columns kept for k scores."""
        return -(-self.k // LANES) * LANES

    @property
    def rows(self) -> np.ndarray:
        """A row a slot; its weights come first."""
        return self.cells.reshape(self.slots + 1, -1)

    def weights(self, slots: Any = slice(None)) -> np.ndarray:
        """(slots + 1, k) weights as they count, the last row the constant's; or those of some slots."""
        raw = self.rows[slots, : self.k] * self.inverse_scales()[slots, None]
        contraction, gravity = self.totals[:, CONTRACTION], self.totals[:, GRAVITY]
        if not gravity.any():
            return (raw * contraction).astype(np.float32)
        return (contraction * np.sign(raw) * np.maximum(np.abs(raw) - gravity, 0.0)).astype(np.float32)

    def scaled_weights(self, slots: np.ndarray) -> np.ndarray:
        """(slots, k): weights as they would be if the largest |value| were 1."""
        raw = self.rows[slots, : self.k].astype(np.float64)
        scale = np.maximum(self.inverse_scales()[slots], np.finfo(np.float32).tiny)[:, None]
        contraction, gravity = self.totals[:, CONTRACTION], self.totals[:, GRAVITY]
        return contraction * np.sign(raw) * np.maximum(np.abs(raw) - gravity / scale, 0.0)

    def scales(self, slots: Any = slice(None)) -> np.ndarray:
        """The largest |value| seen of every slot, or of some."""
        inverses = self.inverse_scales()[slots]
        return np.divide(1.0, inverses, out=np.zeros_like(inverses), where=inverses > 0.0)

    def inverse_scales(self) -> np.ndarray:
        """One over them; zero where nothing was seen."""
        return self.cells[:, INVERSE] if self.k == 1 else self.inverses

    def grown(self, k: int) -> WeightTable:
        """One for more columns that goes on from here: itself, where it has the room.

        A table for two classes goes on as two columns, one the negative of the other.
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
        """The other sign for the one score: its two classes change places."""
        self.cells[:, W] *= -1.0
        low, high = self.totals[0, LOWEST], self.totals[0, HIGHEST]
        self.totals[0, LOWEST], self.totals[0, HIGHEST] = -high, -low

    # --- files

    def is_touched(self) -> np.ndarray:
        """Slots (and the constant) that have something to keep."""
        return np.asarray(self.rows.any(axis=1)) | (self.inverse_scales() > 0.0)

    def tensors(self, slots: np.ndarray) -> dict[str, np.ndarray]:
        """What some slots have, and the totals."""
        rows = self.rows[slots]
        first = G if self.k == 1 else self.width
        return {
            "weights": rows[:, : self.k], "squares": rows[:, first : first + self.k],
            "scales": self.inverse_scales()[slots], "totals": self.totals,
        }  # fmt: skip

    def restore(self, slots: np.ndarray, tensors: dict[str, np.ndarray]) -> None:
        """Inverse of `tensors`; a ValueError where they do not fit."""
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


def check(name: str, tensor: np.ndarray, shape: tuple[int, ...], dtype: Any) -> None:
    """A ValueError where a tensor of a file is not what it should be."""
    if tensor.shape != shape or tensor.dtype != dtype or not np.isfinite(tensor).all():
        raise ValueError(f"{name} do not fit")
