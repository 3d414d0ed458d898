"""The order of rows that come in several calls, judged over the latest calls as well as over all of them.

A long beginning in random order would otherwise hide any number of sorted rows after it. The calls before the latest
one are kept as parts, each of them longer than the one after it, so that there are few of them: about the binary
logarithm of the number of rows. What is judged are all rows, and those from the beginning of each part.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from lineal.online.label_order import LabelOrder, NumberOrder, joined

#: The latest rows are judged by themselves if they are so many, or this fraction of all.
ENOUGH_ROWS, ENOUGH_SHARE = 1000, 0.1

Order = LabelOrder | NumberOrder


class CallOrder:
    """The orders of the calls before the latest one, in parts."""

    def __init__(self) -> None:
        self.parts: list[Order] = []

    def add(self, order: Order) -> None:
        """Add the rows of a call."""
        self.parts += [order] if order.rows else []
        while len(self.parts) > 1 and self.parts[-1].rows >= self.parts[-2].rows:
            self.parts[-2:] = [_together(self.parts[-2:])]

    def turn(self) -> None:
        """Exchange the labels 0 and 1."""
        for part in self.parts:
            if isinstance(part, LabelOrder):
                part.turn()

    def judged(self, latest: Order) -> Iterator[Order]:
        """All rows, and those of the latest calls, where they are enough; `latest` are those of the latest call."""
        parts = [*self.parts, latest]
        enough = min(float(ENOUGH_ROWS), ENOUGH_SHARE * sum(part.rows for part in parts))
        for first in range(len(parts)):
            order = _together(parts[first:])
            if order.rows >= enough:
                yield order


def _together(orders: list[Order]) -> Order:
    if len(orders) == 1:
        return orders[0]
    places = [np.arange(len(order.counts)) for order in orders if isinstance(order, LabelOrder)]
    return joined([order.loop_state() for order in orders], places or None)
