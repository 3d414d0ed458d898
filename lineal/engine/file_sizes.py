"""The number of bytes that the sizes of blocks and shards of files are made for.

It depends on the budget that was given. What the process takes at the moment differs from process to process, and with
it sizes, sums and iterates would differ: the same fit would not give the same model, and could not continue from its
checkpoint. Whether the sizes fit into what is left is checked afterwards.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable

from lineal.errors import DataError
from lineal.system import memory

#: What a process is assumed to take besides the rows and the parameters of a fit.
PROCESS_BYTES = 512 << 20

#: Number of bytes that sizes are made for if no budget is given.
USUAL_BYTES = 2 << 30

#: Step in which the smallest sufficient budget is searched.
STEP = 1 << 20


def planned_bytes(memory_budget: int | None, left: int) -> int:
    """Number of bytes that sizes are made for, where a budget is given or `left` bytes may be used.

    Without a budget it is a fixed number, which is halved until it is at most twice the number of bytes that are left.
    """
    if memory_budget is not None:
        return _planned_of(memory_budget)
    planned = USUAL_BYTES
    while planned > 2 * max(left, STEP):
        planned //= 2
    return planned


def _planned_of(budget: int) -> int:
    return max(budget - PROCESS_BYTES, budget // 4)


def too_small(what: str, needed: Callable[[int], int], left: int) -> DataError:
    """The error for a budget that does not suffice; `needed` gives the number of bytes for the planned number."""
    own = memory.own_memory() or 0
    least = next(budget for budget in itertools.count(own + STEP, STEP) if needed(_planned_of(budget)) <= budget - own)
    return DataError(
        f"memory_budget is too small: {what} need {memory.size(least - own)}, and {memory.size(max(left, 0))} are left "
        f"besides the {memory.size(own)} that this process takes without them; use at least {-(-least // 10**6)}MB"
    )
