"""The share of random problems with kinks that reach a tolerance of 1e-2 within 1,000 iterations.

    python tests/judge_kinks.py 0:1400        # of the problems of the judge with these numbers

Those with a loss that is not smooth, and a penalty other than l2 or weights without one: only `multipliers`, `admm` and
`fobos` can minimise them.
"""

from __future__ import annotations

import argparse
import sys
import warnings
from collections import Counter
from collections.abc import Iterable, Iterator

from judge_objective import SMOOTH
from judge_problems import Problem, draw, loss_of

import lineal

#: Limits of every fit.
TOL, MAX_ITER = 1e-2, 1000


def with_kinks(numbers: Iterable[int]) -> Iterator[Problem]:
    """The problems of this kind among those with the given numbers."""
    for number in numbers:
        if loss_of(number) in SMOOTH:
            continue
        problem = draw(number)
        if problem.options["penalty"] != "l2" or (problem.stated().strengths == 0.0).any():
            yield problem


def status_of(problem: Problem, solver: str = "auto") -> str:
    """How a fit of the problem ends."""
    options = {**problem.options, "tol": TOL, "max_iter": MAX_ITER, "solver": solver}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        classifier = lineal.LinearClassifier(**options, n_jobs=1)
        classifier.fit(problem.rows, problem.y, sample_weight=problem.sample_weight, offsets=problem.offsets)
    return str(classifier.status_)


def main() -> int:
    """Command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("problems", nargs="?", default="0:1400", help="numbers first:end")
    parser.add_argument("--solver", default="auto")
    arguments = parser.parse_args()
    endings: Counter[tuple[str, str]] = Counter()
    for problem in with_kinks(range(*map(int, arguments.problems.split(":")))):
        status = status_of(problem, arguments.solver)
        endings[problem.options["loss"], status] += 1
        if status != "converged":
            print(f"{status}: {problem}", flush=True)
    for loss in sorted({loss for loss, _ in endings}):
        print(f"{loss}: " + ", ".join(f"{n} {status}" for (name, status), n in endings.items() if name == loss))
    reached = sum(n for (_, status), n in endings.items() if status == "converged")
    print(f"{reached} of {endings.total()} ({reached / max(endings.total(), 1):.1%}) reach tol={TOL:g}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
