"""Every script in examples/ runs in an empty folder and says what it did."""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys
from pathlib import Path

import pytest

EXAMPLES = sorted((Path(__file__).resolve().parent.parent / "examples").glob("*.py"))

#: Texts that each example must print.
SAYS = {
    "quick_start": ["converged", "relative duality gap", "accuracy on new rows: 0.9"],
    "multilabel": ["logistic: within 0.0", "label ranking: within 0.0", "threshold learned: 0."],
    "online": [
        "linear: progressive loss 0.",
        "with products: progressive loss 0.",
        "new rows 0.99",
        "c0*c3",
    ],
    "path_and_search": ["best alpha", "accuracy on new rows: 0.9"],
    "stagewise": ["softmax: ", "relative duality gap", "stagewise, patches: ", "held-out error by stage", "kept"],
    "text_file_to_model": ["400 rows, 30 columns, float64", "accuracy on new.svm: 0.9"],
    "larger_than_memory": ["file: within 0.0091 %", "local: within 0.0091 %"],
    "cluster": ["two workers: within 0.058 %", "here: within 0.058 %"],
    "mixed_table": ["'joined': 'date'", "accuracy on others: 0.8", "the same from a file: True"],
    "raw_text": ["certificate: within", "accuracy: 1", "read from: table"],
    "text_stream": ["progressive loss: 0.0", "accuracy on new reviews: "],
    "certificates_and_callbacks": ["stopped at iteration", "validation accuracy 0.9", "converged after"],
}


def test_every_example_is_known() -> None:
    assert {path.stem for path in EXAMPLES} == set(SAYS)


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_example_runs(path: Path, tmp_path: Path) -> None:
    environment = {**os.environ, "MPLCONFIGDIR": str(tmp_path / "matplotlib")}
    ran = subprocess.run(
        [sys.executable, str(path)], cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=600
    )
    assert ran.returncode == 0, ran.stderr[-4000:]
    assert [text for text in SAYS[path.stem] if text not in ran.stdout] == [], ran.stdout
    if path.stem == "certificates_and_callbacks" and importlib.util.find_spec("matplotlib"):
        assert (tmp_path / "history.png").read_bytes().startswith(b"\x89PNG")
