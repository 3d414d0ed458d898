"""What loops over shards have in common: they continue on the same shards only."""

from __future__ import annotations

from typing import Any

import numpy as np

from lineal.engine.base import Shards
from lineal.problem.loop_state import LoopState


class ShardLoop(LoopState):
    """Base of the state of a loop over `shards`; "partition" is the first of its `state_names`."""

    shards: Shards

    @property
    def partition(self) -> np.ndarray:
        """Numbers that tell which rows are in which shard."""
        return self.shards.partition

    def restore_part(self, name: str, value: Any) -> None:
        """Restore one of the attributes in `state_names`; a ValueError for the state of other shards."""
        if name != "partition":
            super().restore_part(name, value)
        elif not np.array_equal(value, self.partition):
            raise ValueError("its shards have other rows: give the same files and the same memory_budget")
