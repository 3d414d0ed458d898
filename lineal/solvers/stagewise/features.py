"""The features of one stage: made where the rows are, a chunk of rows at a time, and kept between passes if they fit.

What is sent to the rows is how to make the features (generator, number and size of the stage), not what they are.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np

from lineal.engine.base import Block
from lineal.engine.state import Piece
from lineal.features.base import checked_block, checked_features
from lineal.features.chain import Chain
from lineal.features.contracts import KeepsState, Remakes
from lineal.features.rows import matrix_of

#: Bytes of features made at a time.
CHUNK_BYTES = 32 << 20


@dataclass(frozen=True)
class Stage:
    """A stage with its weights, all that prediction needs: weights (p or p + 3k, k), intercept (k,)."""

    number: int
    size: int
    state: dict[str, Any]
    weights: np.ndarray
    intercept: np.ndarray

    def parts(self) -> dict[str, Any]:
        """The fields by name."""
        return dict(self.__dict__)


@dataclass(frozen=True)
class StageFeatures:
    """Features of a stage, which its generator makes. Pickled without what makes them, which is made again.

    Attributes
    ----------
    maker : the generator, prepared; of a chain, its last step.
    number, size, state : what the generator needs to make these features again.
    width : number of features.
    dtype : their precision.
    is_kept : whether there is memory to keep them from one pass over the rows to the next.
    """

    maker: Any
    number: int
    size: int
    state: dict[str, Any]
    width: int
    dtype: np.dtype
    is_kept: bool = False

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in self.__dict__.items() if name != "made"}

    @staticmethod
    def of(maker: Any, number: int, size: int, made: Any, dtype: np.dtype) -> StageFeatures:
        """The features that a generator has just made."""
        checked_block(made, _who(maker, number))
        state = made.state() if isinstance(made, KeepsState) else {}
        features = StageFeatures(maker, number, size, state, int(made.width), dtype)
        features.__dict__["made"] = made
        return features

    def kept_if(self, is_kept: bool) -> StageFeatures:
        """The same features, to be kept between passes or not."""
        other = replace(self, is_kept=is_kept)
        other.__dict__["made"] = self.made
        return other

    @cached_property
    def made(self) -> Any:
        """What makes the features of given rows."""
        return remade(self.maker, self.number, self.size, self.state)

    def chunks(self, X: Any, kept: Piece) -> Iterator[tuple[slice, np.ndarray]]:
        """Rows and their features, which nobody may change; `kept` has those of an earlier pass, or gets them."""
        n = X.shape[0]
        rows = max(1, min(CHUNK_BYTES // (4 * max(self.width, 1)), n))
        who = _who(self.maker, self.number)
        for start in range(0, n, rows):
            part = slice(start, min(start + rows, n))
            name = str(start)
            if name in kept:
                yield part, kept[name]
                continue
            F = checked_features(self.made.transform(X[part]), part.stop - start, self.width, who)
            F = F.astype(self.dtype, copy=False)
            if self.is_kept:
                kept[name] = F
            yield part, F


def remade(maker: Any, number: int, size: int, state: dict[str, Any]) -> Any:
    """What makes the features of a stage, from its number, size and state."""
    if isinstance(maker, Remakes):
        return maker.remake(number, size, state)
    return maker.make(number, size)


def _who(maker: Any, number: int) -> str:
    return f"block {number} of {type(maker).__name__}"


def maker_of(generator: Any) -> Any:
    """What makes the features of the stages: of a chain, its last step."""
    return generator.last if isinstance(generator, Chain) else generator


def through(generator: Any, X: Any) -> Any:
    """The rows that `maker_of(generator)` sees: the first steps of a chain are applied once."""
    return generator.before(X) if isinstance(generator, Chain) and X.shape[0] else X


# --- row state


def seen_rows(block: Block, generator: Any) -> Piece:
    """Rebuilds the rows as the last step of a chain sees them; nothing for other generators, which see X."""
    return {"X": through(generator, matrix_of(block.X))} if isinstance(generator, Chain) else {}


def rows_of(block: Block, seen: Piece) -> Any:
    """Rows as generators take them."""
    return seen["X"] if "X" in seen else matrix_of(block.X)


def nothing_kept(block: Block) -> Piece:
    """Rebuilds the features that are kept: none, since the next pass makes them."""
    return {}
