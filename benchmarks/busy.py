"""A busy machine: how long fits with defaults take while other programs keep all cores busy.

    python -m benchmarks.busy [--loops 2] [--json PATH] [--only TASK;…]

Every fit is warmed up, and then timed alone and beside busy loops, in turn; the fastest of each counts. With as many
busy loops as cores, a fit has half of the machine: a program whose threads never wait for each other takes twice as
long. More than `LARGEST` times as long means that threads wait for threads that are not running.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
from scipy import sparse
from sklearn import linear_model

import lineal
from benchmarks.common import RESULTS, measure, print_table, write_json
from lineal import dropin
from lineal.core.threads import available_cores

#: Largest ratio of busy seconds to quiet ones that is not a defect.
LARGEST = 4.0

REPEATS = 3
COLUMNS = ("fit with defaults", "quiet s", "busy s", "busy ratio")


def tasks(path: str) -> dict[str, Callable[[], Any]]:
    """Fits by name; text in Vowpal Wabbit's format is in the file."""
    rng = np.random.default_rng(0)
    table = rng.standard_normal((100_000, 54))
    digits = rng.standard_normal((5_000, 400), np.float32)
    words = sparse.random_array((20_000, 50_000), density=1e-3, rng=rng, format="csr")
    seven = (table[:, :7] + rng.standard_normal((len(table), 7))).argmax(axis=1)
    ten = (digits[:, :10] + rng.standard_normal((len(digits), 10))).argmax(axis=1)
    topics = (words[:, :2000] @ rng.standard_normal((2000, 20))).argmax(axis=1)
    few = np.arange(3000)
    return {
        "LinearClassifier, sparse": lambda: lineal.LinearClassifier().fit(words, topics),
        "LinearClassifier, tall dense": lambda: lineal.LinearClassifier().fit(table, seven),
        "LinearClassifier, wide dense": lambda: lineal.LinearClassifier().fit(digits, ten),
        "LinearClassifier('softmax'), sparse": lambda: lineal.LinearClassifier("softmax").fit(words, topics),
        "LinearClassifier('softmax'), tall dense": lambda: lineal.LinearClassifier("softmax").fit(table, seven),
        "LinearClassifier('softmax'), wide dense": lambda: lineal.LinearClassifier("softmax").fit(digits, ten),
        "LinearClassifier, l1/l2, sparse": lambda: lineal.LinearClassifier(penalty="l1/l2").fit(words, topics),
        "LinearClassifierCV, sparse": lambda: lineal.LinearClassifierCV(random_state=0).fit(words[few], topics[few]),
        "LinearClassifierCV, dense": lambda: lineal.LinearClassifierCV(random_state=0).fit(digits[few], ten[few]),
        "dropin.LogisticRegression, dense": lambda: dropin.LogisticRegression().fit(digits, ten),
        "dropin.LogisticRegression, sparse": lambda: dropin.LogisticRegression().fit(words, topics),
        "dropin.LinearSVC, sparse": lambda: dropin.LinearSVC().fit(words, topics),
        "dropin.LinearSVC, dense": lambda: dropin.LinearSVC().fit(digits, ten),
        "dropin.RidgeClassifier, dense": lambda: dropin.RidgeClassifier().fit(table, seven),
        "dropin.SGDClassifier, dense": lambda: dropin.SGDClassifier().fit(table, seven),
        "OnlineClassifier, sparse": lambda: lineal.OnlineClassifier().fit(words, topics),
        "OnlineClassifier, text": lambda: lineal.OnlineClassifier().fit(path),
        "StagewiseClassifier, dense": lambda: lineal.StagewiseClassifier(random_state=0).fit(digits[few], ten[few]),
        "LeastSquaresClassifier, dense": lambda: lineal.LeastSquaresClassifier().fit(digits, ten),
        "LeastSquaresClassifier, sparse": lambda: lineal.LeastSquaresClassifier().fit(words[:, :500], topics),
        "lineal.read, text": lambda: lineal.read(path),
        "scikit-learn: LogisticRegression, tall dense": lambda: linear_model.LogisticRegression().fit(table, seven),
        "scikit-learn: LogisticRegression, dense": lambda: linear_model.LogisticRegression().fit(digits, ten),
    }


@contextmanager
def busy(loops: int) -> Iterator[None]:
    """Other processes that compute without a pause."""
    others = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(loops)]
    try:
        yield
    finally:
        for other in others:
            other.kill()
            other.wait()


def ratio_row(name: str, task: Callable[[], Any], loops: int) -> list[Any]:
    """A row of the table: seconds alone and beside the others, in turn."""
    task()
    quiet, slow = [], []
    for _ in range(REPEATS):
        quiet.append(measure(task, 1))
        with busy(loops):
            slow.append(measure(task, 1))
    return [name, min(quiet), min(slow), min(slow) / min(quiet)]


def main() -> None:
    """Measure, print, write."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", help="not used: rows are generated")
    parser.add_argument("--loops", type=int, default=available_cores(), help="number of busy loops")
    parser.add_argument("--only", type=lambda text: text.split(";"), help="parts of names, with ; between")
    parser.add_argument("--json", default=RESULTS / "busy.json")
    arguments = parser.parse_args()
    warnings.simplefilter("ignore")
    rows = []
    with tempfile.TemporaryDirectory() as folder:
        text = os.path.join(folder, "rows.vw")
        lines = (f"{1 - 2 * (i % 2)} |a w{i % 7} x:{i % 5} |b v{i % 11} u{i % 1013}\n" for i in range(200_000))
        Path(text).write_text("".join(lines))
        for name, task in tasks(text).items():
            if arguments.only is None or any(part in name for part in arguments.only):
                rows.append(ratio_row(name, task, arguments.loops))
                print(rows[-1], flush=True)
    print_table(f"Beside {arguments.loops} busy loops", COLUMNS, rows)
    worse = [row[0] for row in rows if row[-1] > LARGEST and not row[0].startswith("scikit-learn")]
    print(f"more than {LARGEST:g}×: {', '.join(worse) or 'none'}")
    write_json(arguments.json, {"loops": arguments.loops, "largest": LARGEST, "columns": COLUMNS, "rows": rows})


if __name__ == "__main__":
    main()
