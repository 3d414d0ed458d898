"""The order in which rows arrive before a buffer shuffles them.

Classes are numbered as they arrive, since the learner does not know them yet.
"""

from __future__ import annotations

import numpy as np

from lineal.online.label_order import LabelOrder, NumberOrder
from lineal.online.rows import label_columns
from lineal.online.trainer import NUMBERS, SETS, Block, Trainer, is_missing


class Arrival:
    """The order of the rows of a pass so far; `kind` is that of their labels, as of `Trainer`."""

    def __init__(self, kind: str) -> None:
        self.kind = kind
        self.order: LabelOrder | NumberOrder = NumberOrder() if kind == NUMBERS else LabelOrder()
        self._places: dict[object, int] = {}

    def add(self, block: Block) -> None:
        """Add rows."""
        if isinstance(self.order, NumberOrder):
            numbers = np.asarray(block.y, np.float64)
            self.order.add(numbers[~np.isnan(numbers)])
        elif self.kind == SETS:
            self.order.add_sets(*label_columns(block.y, np.empty(0)))
        else:
            y = np.asarray(block.y)
            classes, places = np.unique(y[~is_missing(y)], return_inverse=True)
            own = [self._places.setdefault(label, len(self._places)) for label in classes.tolist()]
            self.order.add(np.array(own, np.int64)[places.reshape(-1)])

    def tell(self, trainer: Trainer) -> None:
        """Let a trainer know the order, in terms of its classes, if it has learned from all of the rows."""
        if isinstance(self.order, NumberOrder) or self.kind == SETS:
            trainer.order = self.order
            return
        known = {label: number for number, label in enumerate(trainer.classes.tolist())}
        if set(self._places) <= set(known):
            order = LabelOrder()
            order.append(self.order, np.array([known[label] for label in self._places], np.int64))
            trainer.order = order
