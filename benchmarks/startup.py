"""What a person waits for: imports, the first fit ever on a machine, the first fit of a process, one prediction.

    python -m benchmarks.startup [--json PATH]

Each line but the last is a whole process. "Cold" starts from an empty kernel cache.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.datasets import load_digits

from benchmarks.common import RESULTS, measure, print_table, write_json
from lineal import LinearClassifier

COLUMNS = ("what", "seconds")
FIT = """
from sklearn.datasets import load_digits
import lineal
X, y = load_digits(return_X_y=True)
lineal.LinearClassifier(loss="softmax").fit(X / 16, y)
"""


def process(code: str, cache: str) -> float:
    """Seconds of a Python process."""
    environment = {**os.environ, "LINEAL_CACHE_DIR": cache}
    return measure(lambda: subprocess.run([sys.executable, "-c", code], env=environment, check=True), 1)


def main() -> None:
    """Measure, print, write."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", help="not used: the data ships with scikit-learn")
    parser.add_argument("--json", default=RESULTS / "startup.json")
    arguments = parser.parse_args()
    table: list[list[Any]] = []
    with tempfile.TemporaryDirectory() as cache:
        table.append(["python -c pass", process("pass", cache)])
        table.append(["import lineal", process("import lineal", cache)])
        lineal = Path(sys.executable).with_name("lineal")
        table.append(["lineal --help", measure(lambda: subprocess.run([lineal, "-h"], stdout=subprocess.DEVNULL), 3)])
        table.append(["first fit on a machine (cold)", process(FIT, cache)])
        table.append(["first fit of a process (cached)", min(process(FIT, cache) for _ in range(3))])
        table.append(["scikit-learn import and data alone", process(FIT.split("lineal.L")[0], cache)])
    X, y = load_digits(return_X_y=True)
    model = LinearClassifier(loss="softmax").fit(X / 16, y).model_
    row = np.ascontiguousarray(X[:1] / 16)
    table.append(
        ["predict one row (in a running process)", measure(lambda: [model.predict(row) for _ in range(1000)]) / 1000]
    )
    print_table("start-up", COLUMNS, table)
    write_json(arguments.json, {"columns": COLUMNS, "rows": table})


if __name__ == "__main__":
    main()
