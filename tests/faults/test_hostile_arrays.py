"""Hostile arrays to every public entry point, in processes of their own: a signal ends those, and is counted.

Every attempt ends in the right answer, or in an error of lineal or scikit-learn that says what is wrong: no crash, no
NaN, no warning, no changed input.
"""

from __future__ import annotations

import pytest

from faults.children import run_attempts
from faults.hostile_arrays import estimators

#: One of so many attempts is made in `make test`; `make test-all` makes all of them.
SHARE = 25

#: Estimators are tried in so many processes.
PROCESSES = 4


@pytest.mark.parametrize("part", range(PROCESSES))
def test_hostile_arrays_are_answered_or_refused(part, tally, factor):
    share = SHARE if factor == 1 else 1
    run_attempts("hostile_arrays.py", share, list(estimators())[part::PROCESSES], tally("hostile arrays"))
