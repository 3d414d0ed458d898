"""Damaged and forged model files of every kind, in processes of their own with a limit of memory.

A damaged file ends in a ModelFileError. A forged one, whose checksum fits, does so too, or it is a model that answers
with finite numbers or an error of lineal: no crash, no traceback, no NaN, no terabytes.
"""

from __future__ import annotations

import numpy as np
import pytest

import lineal
from faults.children import run_attempts
from faults.model_makers import MAKERS, parts_of, write
from lineal import LinearClassifier
from lineal.errors import ModelFileError

#: Attempts per way to damage or forge a file and kind of model in `make test`; `make test-all` multiplies them.
COUNT = 2

#: Models are tried in so many processes.
PROCESSES = 3


@pytest.mark.parametrize("part", range(PROCESSES))
def test_damaged_and_forged_files_are_refused(part, tally, factor):
    run_attempts("model_attempts.py", COUNT * factor, list(MAKERS)[part::PROCESSES], tally("model files"))


def test_loading_runs_no_code(tmp_path):
    """A description that names modules, functions or pickles is only text."""
    model = LinearClassifier("logistic", alpha=1e-2).fit(np.eye(4), [0, 1, 0, 1]).model_
    model.save(tmp_path / "m")
    description, tensors = parts_of(tmp_path / "m")
    for kind in ("os", "subprocess.Popen", "lineal.models.file", "__import__('os')", ["online"], {"a": 1}):
        write(tmp_path / "m", {**description, "format_version": 3, "kind": kind, "own": {}}, tensors)
        with pytest.raises(ModelFileError, match="damaged"):
            lineal.load(tmp_path / "m")
