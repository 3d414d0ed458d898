"""The features of one stage: made where the rows are, a chunk of rows at a time, and kept between passes if they fit.

What is sent to the rows is how to make the features (generator, number and size of the stage), not what they are.
"""

from __future__ import annotations

import threading
import uuid
from collections import OrderedDict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np

from lineal.engine.base import Block
from lineal.engine.state import Piece
from lineal.features.base import checked_block, checked_features
from lineal.features.chain import Chain
from lineal.features.contracts import KeepsState, NeedsResidual, Remakes
from lineal.features.rows import in_precision, matrix_of

#: Bytes of features made at a time, at most.
CHUNK_BYTES = 32 << 20

#: Stages of which a process keeps what makes their features (frequencies, filters) from some rows to the next.
KEPT_STAGES = 64

#: Stages of which a process that gets tasks keeps what makes their features from one task to the next.
KEPT_FOR_TASKS = 2


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
    chunk_bytes : bytes of features made at a time; None for CHUNK_BYTES.
    key : by which other processes know what they have made.
    """

    maker: Any
    number: int
    size: int
    state: dict[str, Any]
    width: int
    dtype: np.dtype
    is_kept: bool = False
    chunk_bytes: int | None = None
    key: str = ""

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in self.__dict__.items() if name != "made"}

    def __deepcopy__(self, memo: Any) -> StageFeatures:
        return replace(self)  # engines remember them for every pass: with the same generator, without what it made

    @staticmethod
    def of(
        maker: Any, number: int, size: int, made: Any, dtype: np.dtype, chunk_bytes: int | None = None
    ) -> StageFeatures:
        """The features that a generator has just made."""
        checked_block(made, _who(maker, number))
        state = made.state() if isinstance(made, KeepsState) else {}
        features = StageFeatures(
            maker, number, size, state, int(made.width), dtype, chunk_bytes=chunk_bytes, key=uuid.uuid4().hex
        )
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
        return _made_for_tasks(self) if self.key else remade(self.maker, self.number, self.size, self.state)

    def chunks(self, X: Any, kept: Piece) -> Iterator[tuple[slice, np.ndarray]]:
        """Rows and their features, which nobody may change; `kept` has those of an earlier pass, or gets them."""
        n = X.shape[0]
        most = CHUNK_BYTES if self.chunk_bytes is None else self.chunk_bytes
        rows = max(1, min(most // (4 * max(self.width, 1)), n))
        who = _who(self.maker, self.number)
        for start in range(0, n, rows):
            part = slice(start, min(start + rows, n))
            name = str(start)
            if name in kept:
                yield part, kept[name]
                continue
            found = self.made.transform(in_precision(X[part], self.dtype))
            F = checked_features(found, part.stop - start, self.width, who).astype(self.dtype, copy=False)
            if self.is_kept:
                kept[name] = F if F.base is None else F.copy()  # the memory of the rows may be used for others
            yield part, F


_made_here: OrderedDict[str, Any] = OrderedDict()
_lock = threading.Lock()


def _made_for_tasks(features: StageFeatures) -> Any:
    """What makes the features of a stage that has come from another process; the last ones are kept for the next pass.

    Orthogonal frequencies, for example, take longer to make than a few rows of features.
    """
    with _lock:
        if features.key in _made_here:
            _made_here.move_to_end(features.key)
            return _made_here[features.key]
    made = remade(features.maker, features.number, features.size, features.state)
    with _lock:
        _made_here[features.key] = made
        while len(_made_here) > KEPT_FOR_TASKS:
            _made_here.popitem(last=False)
    return made


def remade(maker: Any, number: int, size: int, state: dict[str, Any]) -> Any:
    """What makes the features of a stage, from its number, size and state."""
    if isinstance(maker, Remakes):
        return maker.remake(number, size, state)
    return maker.make(number, size)


def remade_once(maker: Any, stage: Stage, kept: dict[tuple[int, int], Any]) -> Any:
    """What makes the features of a stage; `kept` has those of up to KEPT_STAGES stages, or gets them."""
    place = stage.number, stage.size
    if place in kept:
        return kept[place]
    made = remade(maker, stage.number, stage.size, stage.state)
    if len(kept) < KEPT_STAGES:
        kept[place] = made
    return made


def tell_of(maker: Any, stages: Iterable[Stage]) -> None:
    """Tell a generator that chooses features by the residual which ones were chosen before it came here."""
    if isinstance(maker, NeedsResidual) and maker.needs_residual and isinstance(maker, Remakes):
        for stage in stages:
            remade(maker, stage.number, stage.size, stage.state)


def _who(maker: Any, number: int) -> str:
    return f"block {number} of {type(maker).__name__}"


def maker_of(generator: Any) -> Any:
    """What makes the features of the stages: of a chain, its last step."""
    return generator.last if isinstance(generator, Chain) else generator


def through(generator: Any, X: Any) -> Any:
    """The rows that `maker_of(generator)` sees: the first steps of a chain are applied once."""
    return generator.before(X) if isinstance(generator, Chain) and X.shape[0] else X


# --- row state


def seen_rows(block: Block, generator: Any, dtype: Any) -> Piece:
    """Rebuilds the rows as the last step of a chain sees them; nothing for other generators, which see X."""
    return {"X": through(generator, in_precision(matrix_of(block.X), dtype))} if isinstance(generator, Chain) else {}


def rows_of(block: Block, seen: Piece) -> Any:
    """Rows as generators take them, but for their precision."""
    return seen["X"] if "X" in seen else matrix_of(block.X)
