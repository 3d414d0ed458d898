"""Random problems before the judge: 16 in `make test`, 10,000 in `make test-all`.

A finding names its problem: `python tests/judge.py --problem 1234` shows everything about it.
"""

from __future__ import annotations

import judge
import pytest
from judge_problems import draw, loss_of

import lineal.losses

#: Problems of `make test`, of which each loss has the same share, and of `make test-all`.
QUICK, ALL = 16, 10_000


#: Losses whose problems take longest: for `make test-all`.
LONG = ("label_ranking", "multiclass_squared_hinge", "crammer_singer")


@pytest.mark.parametrize(
    "loss", [pytest.param(name, marks=pytest.mark.slow) if name in LONG else name for name in lineal.losses.names()]
)
def test_random_problems_are_solved_as_stated(loss, tally, factor):
    area = tally("random problems, judged")
    report = judge.Report()
    for number in range(QUICK if factor == 1 else ALL):
        if loss_of(number) == loss:
            before = len(report.findings)
            judge.Judge(draw(number), report).run()
            found = report.findings[before:]
            area.attempt(f"problem {number}", "; ".join(map(str, found)) or None)
    endings = {f"{status} ({solver})": count for (solver, status), count in report.endings.items()}
    area.add({**report.counts, **endings}, report.worst)
    print(report)


@pytest.mark.slow
@pytest.mark.parametrize("number", [20_057, 20_192, 20_204])
def test_problems_that_had_findings(number):
    """Dual methods that ended above zero weights, and an objective that lost tiny losses."""
    report = judge.judge([number])
    assert not report.findings, "\n".join(map(str, report.findings))
