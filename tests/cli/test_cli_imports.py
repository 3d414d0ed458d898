"""What commands do not import: packages whose import takes longer than the work on a small file."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

ENDING = """
import json, sys
from lineal.data import own_process
own_process.claim()
from lineal.cli.app import app
app(prog_name="lineal", standalone_mode=False)
print(json.dumps([name for name in ("pandas", "sklearn", "scipy.stats") if name in sys.modules]))
import pyarrow
assert pyarrow.array([1, None]).to_pylist() == [1, None]
import pandas  # others may still import it
assert pandas.Series([1]).sum() == 1
"""


@pytest.mark.parametrize("kind", ["numbers", "text"])
def test_training_on_a_table_and_measuring(kind, tmp_path):
    path = tmp_path / "t.jsonl"
    rows = [
        {"a": i, "t": f"w{i % 3} good and long" if kind == "text" else "xyz"[i % 3], "label": "no" if i % 3 else "yes"}
        for i in range(60)
    ]
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    text = ["--text", "t"] if kind == "text" else []
    arguments = ["train", path, "--model", tmp_path / "m", "--validate", path, "--json", *text]
    done = subprocess.run(
        [sys.executable, "-c", ENDING, *map(str, arguments)], capture_output=True, text=True, check=True
    )
    assert '"validation_roc_auc": 1.0' in done.stdout
    assert json.loads(done.stdout.splitlines()[-1]) == []
