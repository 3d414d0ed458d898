"""The count of attempts to break lineal: every test adds its own, and the summary at the end prints them per area."""

from __future__ import annotations

import os
from collections import defaultdict
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

    def attempt(self, what: str, problem: str | None = None) -> None:
        """Count one attempt; `problem` says what was not fine about it."""
        self.attempts += 1
        if problem is not None:
            self.not_fine.append(f"{what}: {problem}")


@pytest.fixture
def tally(record_property: Callable[[str, Any], None]) -> Iterator[Callable[[str], Tally]]:
    """`tally("model files")` counts attempts of that area; the test fails at its end where one was not fine."""
    tallies: list[Tally] = []

    def start(area: str) -> Tally:
        tallies.append(Tally(area))
        return tallies[-1]

    yield start
    for one in tallies:
        record_property(PROPERTY, [one.area, one.attempts, len(one.not_fine)])
    problems = [problem for one in tallies for problem in one.not_fine]
    assert not problems, f"{len(problems)} attempts were not fine:\n" + "\n".join(problems[:20])


@pytest.fixture
def factor() -> int:
    """By how much to multiply the number of attempts."""
    return FACTOR


def pytest_terminal_summary(terminalreporter: Any) -> None:
    """Print the attempts per area, added up over all tests (and all processes of pytest-xdist)."""
    counts: dict[str, list[int]] = defaultdict(lambda: [0, 0])
    for reports in terminalreporter.stats.values():
        for report in reports:
            if getattr(report, "when", None) != "teardown":
                continue
            for name, value in report.user_properties:
                if name == PROPERTY:
                    area, attempts, not_fine = value
                    counts[area][0] += attempts
                    counts[area][1] += not_fine
    if not counts:
        return
    terminalreporter.section("attempts to break lineal")
    for area, (attempts, not_fine) in sorted(counts.items()):
        terminalreporter.write_line(f"{area:30} {attempts:7} attempts, {not_fine} not fine")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark the tests of this folder."""
    here = Path(__file__).parent
    for item in items:
        if here in item.path.parents:
            item.add_marker(pytest.mark.faults)
