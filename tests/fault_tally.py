"""The count of attempts to break lineal: every test adds its own, and the summary at the end prints them per area.

`conftest.py` of the tests imports the fixtures and hooks: where pytest-xdist runs the tests, the process that prints
the summary loads no conftest of a folder below.
"""

from __future__ import annotations

import math
import os
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

#: How many times as many attempts `make test-all` makes as `make test` (`LINEAL_FAULTS` in its recipe).
FACTOR = int(os.environ.get("LINEAL_FAULTS", "1"))

PROPERTY = "fault attempts"


class Tally:
    """Attempts of one area. An attempt is fine where it ends in a right answer or in one of our errors."""

    def __init__(self, area: str) -> None:
        self.area = area
        self.attempts = 0
        self.not_fine: list[str] = []
        self.counts: dict[str, int] = {}
        self.worst: dict[str, tuple[float, str]] = {}

    def attempt(self, what: str, problem: str | None = None) -> None:
        """Count one attempt; `problem` says what was not fine about it."""
        self.attempts += 1
        if problem is not None:
            self.not_fine.append(f"{what}: {problem}")

    def add(self, counts: dict[str, int], worst: dict[str, tuple[float, str]]) -> None:
        """Add counts, and keep the largest of each kind of measurements, given with where they were made."""
        for what, count in counts.items():
            self.counts[what] = self.counts.get(what, 0) + count
        for what, (value, where) in worst.items():
            self.worst[what] = max(self.worst.get(what, (-math.inf, "")), (value, where))


@pytest.fixture
def tally(record_property: Callable[[str, Any], None]) -> Iterator[Callable[[str], Tally]]:
    """`tally("model files")` counts attempts of that area; the test fails at its end where one was not fine."""
    tallies: list[Tally] = []

    def start(area: str) -> Tally:
        tallies.append(Tally(area))
        return tallies[-1]

    yield start
    for one in tallies:
        record_property(PROPERTY, [one.area, one.attempts, len(one.not_fine), one.counts, one.worst])
    problems = [problem for one in tallies for problem in one.not_fine]
    assert not problems, f"{len(problems)} attempts were not fine:\n" + "\n".join(problems[:20])


@pytest.fixture
def factor() -> int:
    """By how much to multiply the number of attempts."""
    return FACTOR


def pytest_terminal_summary(terminalreporter: Any) -> None:
    """Print the attempts per area, added up over all tests (and all processes of pytest-xdist)."""
    totals: dict[str, Tally] = {}
    not_fine: Counter[str] = Counter()
    for reports in terminalreporter.stats.values():
        for report in reports:
            if getattr(report, "when", None) != "teardown":
                continue
            for name, value in report.user_properties:
                if name == PROPERTY:
                    area, attempts, failed, counts, worst = value
                    total = totals.setdefault(area, Tally(area))
                    total.attempts += attempts
                    total.add(counts, worst)
                    not_fine[area] += failed
    if not totals:
        return
    terminalreporter.section("attempts to break lineal")
    for area, total in sorted(totals.items()):
        terminalreporter.write_line(f"{area:30} {total.attempts:7} attempts, {not_fine[area]} not fine")
        if total.counts:
            counted = ", ".join(f"{count} {what}" for what, count in sorted(total.counts.items()))
            terminalreporter.write_line(f"    {counted}")
        for what, (value, where) in sorted(total.worst.items()):
            terminalreporter.write_line(f"    largest {what}: {value:.3g} ({where})")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark the tests of faults."""
    here = Path(__file__).parent / "faults"
    for item in items:
        if here in item.path.parents:
            item.add_marker(pytest.mark.faults)
