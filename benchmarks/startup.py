"""What a person waits for: the first fit on a machine, the first fit of a process, a command, one prediction.

    python -m benchmarks.startup [--wheel PYTHON] [--before DIR] [--json PATH] [--only TASK,…]

Each fit is a whole process. "Cold" starts from an empty kernel cache, "cached" from the one that the cold process has
filled. `--wheel` names an interpreter in whose environment the wheel is installed, which has its kernels with it;
`--before` a checkout of another version, for which everything is measured as well, in turn. What an older version
cannot do is left out.
"""

from __future__ import annotations

import argparse
import itertools
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from sklearn.datasets import load_digits

from benchmarks.common import RESULTS, measure, print_table, write_json
from lineal import LinearClassifier

ROOT = Path(__file__).resolve().parents[1]

#: Rows for the tasks, and the line that a process ends with.
ROWS = """
import numpy as np
from scipy import sparse
rng = np.random.default_rng(0)
CSR = sparse.random_array((2000, 5000), density=0.01, rng=rng, format="csr")
X = rng.standard_normal((2000, 40))
y, few = rng.integers(0, 20, 2000), rng.integers(0, 2, 2000)
import sys, time, warnings
warnings.simplefilter("ignore")
start = time.perf_counter()
import lineal
"""
END = """
seconds = time.perf_counter() - start
from lineal.core import jit
print(len(jit.compiled), seconds)
"""

#: The ten common tasks.
TASKS = {
    "squared hinge, 20 classes, CSR": "lineal.LinearClassifier().fit(CSR, y)",
    "binary logistic, CSR": "lineal.LinearClassifier('logistic').fit(CSR, few)",
    "softmax, dense": "lineal.LinearClassifier('softmax').fit(X, y)",
    "dropin.LogisticRegression, dense": "lineal.dropin.LogisticRegression().fit(X, y)",
    "dropin.LogisticRegression, CSR": "lineal.dropin.LogisticRegression().fit(CSR, y)",
    "dropin.LinearSVC, CSR": "lineal.dropin.LinearSVC().fit(CSR, y)",
    "l1/l2, CSR": "lineal.LinearClassifier(penalty='l1/l2', alpha=1e-3).fit(CSR, y)",
    "LinearClassifierCV, CSR": "lineal.LinearClassifierCV().fit(CSR, y)",
    "OnlineClassifier, CSR and VW text": (
        "lineal.OnlineClassifier().fit(CSR, few); lineal.OnlineClassifier().fit(sys.argv[1])"
    ),
    "StagewiseClassifier, dense": "lineal.StagewiseClassifier(n_blocks=2).fit(X, y)",
    "LeastSquaresClassifier, dense": "lineal.LeastSquaresClassifier().fit(X, y)",
}
COLUMNS = ("first fit", "kernels", "cold s", "cached s")
REPEATS = 3


class Place(NamedTuple):
    """An installation: its name, its interpreter, and the checkout that the interpreter imports lineal from, if any."""

    name: str
    python: str
    path: Path | None

    def environment(self, cache: str) -> dict[str, str]:
        """The environment of processes."""
        given = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
        return given | {"LINEAL_CACHE_DIR": cache} | ({} if self.path is None else {"PYTHONPATH": str(self.path)})

    def write_bytecode(self) -> None:
        """Write the bytecode of a checkout, as Python does when it first imports it, unless it is told not to."""
        if self.path is not None:
            subprocess.run([self.python, "-m", "compileall", "-q", str(self.path / "lineal")], check=True)


def process(code: str, cache: str, place: Place, argument: str) -> tuple[int, float]:
    """Number of kernels that a process compiles, and its seconds of importing lineal and fitting."""
    command = [place.python, "-c", code, argument]
    done = subprocess.run(command, env=place.environment(cache), check=True, capture_output=True, text=True, cwd="/")
    compiled, seconds = done.stdout.split()
    return int(compiled), float(seconds)


def first_fits(places: list[Place], tasks: list[str], text: str) -> list[dict[str, Any]]:
    """Cold and cached first fits of the installations, in turn."""
    found = []
    for task, place in itertools.product(tasks, places):
        code = ROWS + TASKS[task] + END
        try:
            with tempfile.TemporaryDirectory() as cache:
                compiled, cold = process(code, cache, place, text)
                cached = [process(code, cache, place, text)[1] for _ in range(REPEATS)]
        except subprocess.CalledProcessError as error:
            print(f"{place.name} cannot do {task}: {error.stderr.splitlines()[-1]}", flush=True)
            continue
        found.append({"from": place.name, "task": task, "compiled": compiled, "cold": cold, "cached": min(cached)})
        print(found[-1], flush=True)
    return found


def commands(folder: str, places: list[Place]) -> list[list[Any]]:
    """Seconds of whole processes, once everything is cached; the commands of the installations in turn."""
    svm, model = os.path.join(folder, "small.svm"), os.path.join(folder, "model")
    rng = np.random.default_rng(0)
    with open(svm, "w") as file:
        for i in range(1000):
            columns = np.unique(rng.integers(1, 500, 10))
            file.write(f"{i % 2} " + " ".join(f"{j}:{rng.random():.3f}" for j in columns) + "\n")

    def run(place: Place, *arguments: str) -> float:
        start = time.perf_counter()
        environment = place.environment(os.path.join(folder, place.name))
        subprocess.run([place.python, *arguments], check=True, capture_output=True, cwd="/", env=environment)
        return time.perf_counter() - start

    here = places[-1]
    wanted = [
        ("python -c pass", [here], ["-c", "pass"]),
        ("import numpy, scipy.sparse", [here], ["-c", "import numpy, scipy.sparse"]),
        ("import sklearn.linear_model", [here], ["-c", "import sklearn.linear_model"]),
        ("import lineal", places, ["-c", "import lineal"]),
        ("lineal --help", places, ["-m", "lineal", "--help"]),
        ("lineal train, 1000 lines of svmlight", places, ["-m", "lineal", "train", svm, "--model", model]),
        ("lineal predict, the same", places, ["-m", "lineal", "predict", model, svm]),
    ]
    table: list[list[Any]] = []
    for what, compared, arguments in wanted:
        for place in compared:
            run(place, *arguments)
        seconds = [[run(place, *arguments) for place in compared] for _ in range(5)]
        for place, times in zip(compared, zip(*seconds)):
            table.append([what if len(compared) == 1 else f"{what} ({place.name})", statistics.median(times)])
    return table


def one_row() -> float:
    """Seconds of predicting one row in a running process."""
    X, y = load_digits(return_X_y=True)
    model = LinearClassifier(loss="softmax").fit(X / 16, y).model_
    row = np.ascontiguousarray(X[:1] / 16)
    return measure(lambda: [model.predict(row) for _ in range(1000)]) / 1000


def main() -> None:
    """Measure, print, write."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", help="not used: rows are generated")
    parser.add_argument("--wheel", metavar="PYTHON", help="an interpreter that has the wheel")
    parser.add_argument("--before", type=Path, metavar="DIR", help="a checkout of another version")
    parser.add_argument("--only", type=lambda text: text.split(";"), default=list(TASKS), help="tasks, with ; between")
    parser.add_argument("--json", default=RESULTS / "startup.json")
    arguments = parser.parse_args()
    places = [Place("checkout", sys.executable, ROOT)]
    if arguments.before is not None:
        places.insert(0, Place("before", sys.executable, arguments.before.resolve()))
    if arguments.wheel is not None:
        places.append(Place("wheel", arguments.wheel, None))
    for place in places:
        place.write_bytecode()
    with tempfile.TemporaryDirectory() as folder:
        text = os.path.join(folder, "rows.vw")
        Path(text).write_text("".join(f"{1 - 2 * (i % 2)} |a w{i % 7} x:{i % 5} |b v{i % 11}\n" for i in range(2000)))
        fits = first_fits(places, arguments.only, text)
        table = commands(folder, places)
    table.append(["predict one row, in a running process", one_row()])
    for place in places:
        rows = [[one["task"], one["compiled"], one["cold"], one["cached"]] for one in fits if one["from"] == place.name]
        print_table(f"first fit, {place.name}", COLUMNS, rows)
    print_table("whole processes", ("what", "seconds"), table)
    write_json(arguments.json, {"fits": fits, "columns": ("what", "seconds"), "rows": table})
    print(json.dumps({"cores": os.cpu_count()}))


if __name__ == "__main__":
    main()
