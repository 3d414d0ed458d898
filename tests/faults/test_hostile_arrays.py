"""Hostile arrays to every public entry point, in processes of their own: a signal ends those, and is counted.

Every attempt ends in the right answer, or in an error of lineal or scikit-learn that says what is wrong: no crash, no
NaN, no warning, no changed input.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from hostile_arrays import estimators

HERE = Path(__file__).parent

#: Bytes of address space that a process may take, and seconds.
MEMORY, SECONDS = 8 << 30, 600

#: One of so many attempts is made in `make test`.
SHARE = 10

#: Estimators are tried in so many processes.
PROCESSES = 4


def attempts(names, share, area):
    """Run the attempts of some estimators in another process, and count them."""
    command = [sys.executable, str(HERE / "hostile_arrays.py"), str(MEMORY), str(share), *names]
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
    done = subprocess.run(command, capture_output=True, text=True, timeout=SECONDS, env=environment)
    begun = None
    for line in done.stdout.splitlines():
        what, problem, is_over = json.loads(line)
        begun = None if is_over else what
        if is_over:
            area.attempt(what, problem)
    if begun is not None:
        area.attempt(begun, f"ended the process with {done.returncode}: {done.stderr[-300:]}")
    else:
        assert done.returncode == 0, done.stderr[-2000:]


@pytest.mark.parametrize("part", range(PROCESSES))
def test_hostile_arrays_are_answered_or_refused(part, tally, factor):
    attempts(list(estimators())[part::PROCESSES], SHARE if factor == 1 else 1, tally("hostile arrays"))
