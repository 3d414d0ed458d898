"""Lines of the history of online learning: the progressive loss at doubling numbers of examples.

Several learners report at the same numbers of their own examples. Their first reports together make the first line,
their second ones the second line, and so on; a learner that has no more rows counts with its last report. So the lines
do not depend on which learner is faster.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from lineal.online.state import HELD_LOSS, HELD_WEIGHT, LOSS, WEIGHT


class Report(NamedTuple):
    """Sums of losses and importances in a pass so far, its examples, and the number of parents."""

    sums: np.ndarray
    examples: int
    parents: int

    def line(self, number: int, before: np.ndarray) -> dict[str, Any]:
        """The line of the history in pass `number`; `before` are the sums of the last line."""
        since = self.sums - before
        return {
            "pass": float(number),
            "examples": float(self.examples),
            "average_loss": _ratio(self.sums[LOSS], self.sums[WEIGHT]),
            "since_last": _ratio(since[LOSS], since[WEIGHT]),
            "held_out_loss": _ratio(self.sums[HELD_LOSS], self.sums[HELD_WEIGHT]),
            "parents": float(self.parents),
        }


def together(reports: Sequence[Sequence[Report]], has_ended: Sequence[bool]) -> list[Report]:
    """The reports of several learners as one, as far as those that have not ended have made them.

    The number of parents is the largest of one learner: which of them are the same is known after the pass.
    """
    unfinished = [len(own) for own, ended in zip(reports, has_ended, strict=True) if not ended]
    count = min([max(map(len, reports), default=0), *unfinished])
    found = []
    for place in range(count):
        current = [own[min(place, len(own) - 1)] for own in reports if own]
        sums = np.sum([report.sums for report in current], axis=0)
        found.append(
            Report(sums, sum(report.examples for report in current), max(report.parents for report in current))
        )
    return found


def lines(reports: Sequence[Report], number: int) -> list[dict[str, Any]]:
    """Lines of the history in pass `number`."""
    before = [np.zeros(4), *(report.sums for report in reports)]
    return [report.line(number, last) for report, last in zip(reports, before)]


def _ratio(total: float, weight: float) -> float | None:
    return float(total / weight) if weight > 0.0 else None
