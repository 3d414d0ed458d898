"""Peak memory of children that train on, and convert, files of several times their budget."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from scipy import sparse

from lineal.data.binary.layout import write_layout
from lineal.data.dataset import Dataset

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="anonymous memory is read from /proc"),
]

#: Samples the anonymous memory of this process on a thread. `peak()` is the largest value since `start()`.
SAMPLER = """
import re, threading, time

def anonymous():
    with open("/proc/self/status") as file:
        return 1024 * int(re.search(r"RssAnon:\\s+(\\d+)", file.read())[1])

class Sampler:
    def start(self):
        self.before = self.largest = anonymous()
        self.thread = threading.Thread(target=self.watch, daemon=True)
        self.thread.start()

    def watch(self):
        while True:
            self.largest = max(self.largest, anonymous())
            time.sleep(0.002)

sampler = Sampler()
"""

TRAIN = """
import sys
from lineal.engine.file import FileSource
from lineal.linear.fit import fit_problem, prepare_source
from lineal.linear.options import TrainOptions
import numpy as np

small, solver, extra, *paths = sys.argv[1:]
options = TrainOptions(loss="logistic", alpha=1e-4, solver=solver, tol=1e-3, max_iter=8, n_jobs=1)
fit_problem(prepare_source(FileSource([small], 8 << 30), options))  # compiles the kernels
sampler.start()
budget = sampler.before + int(extra)
problem = prepare_source(FileSource(paths, budget), options)
model, solution = fit_problem(problem)
assert np.isfinite(model.weights).all()
print(problem.objective.engine.source.nbytes, sampler.largest - sampler.before)
"""

CONVERT = """
import sys
from lineal.data.binary.layout import convert

small, large, destination, *options = sys.argv[1:]
options = dict(option.split("=") for option in options)
options["block_bytes"] = int(options["block_bytes"])
convert(small, destination, **options)  # compiles the kernels
sampler.start()
convert(large, destination, **options)
print(0, sampler.largest - sampler.before)
"""


def child(code: str, *arguments) -> tuple[int, int]:
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", SAMPLER + code, *map(str, arguments)], capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    first, second = done.stdout.split()
    return int(first), int(second)


def rows(n: int, layout: str, seed: int):
    rng = np.random.default_rng(seed)
    if layout == "dense":
        X = rng.standard_normal((n, 200), np.float32)
        return X, (X[:, 0] > 0.3).astype(np.int32)
    indices = rng.integers(0, 5000, (n, 40), np.int32)
    indices.sort(axis=1)
    values = rng.standard_normal(40 * n)
    X = sparse.csr_array((values, indices.ravel(), np.arange(0, 40 * n + 1, 40)), shape=(n, 5000))
    X.sum_duplicates()
    return X, (indices[:, 0] % 2).astype(np.int32)


@pytest.mark.parametrize("parts", [1, 12])
@pytest.mark.parametrize("layout", ["dense", "csr"])
@pytest.mark.parametrize("solver", ["newton", "lbfgs", "dual_cd"])
def test_training_stays_within_the_budget(solver, layout, parts, tmp_path):
    per_part = (400_000 if layout == "dense" else 640_000) // parts
    paths = []
    for part in range(parts):
        paths.append(tmp_path / f"{part}.arrow")
        write_layout(Dataset(*rows(per_part, layout, part)), paths[-1])
    write_layout(Dataset(*rows(1000, layout, 99)), tmp_path / "small.arrow")
    budget = 100 << 20
    size, peak = child(TRAIN, tmp_path / "small.arrow", solver, budget, *paths)
    assert size > 2.9 * budget
    assert peak < budget


TEXT_ROWS = 150_000


def write_text(kind: str, path: Path, n: int) -> None:
    rng = np.random.default_rng(0)
    with open(path, "w") as file:
        if kind == "csv":
            file.write(",".join(["kind", *(f"x{number}" for number in range(30)), "label"]) + "\n")
        for start in range(0, n, 1000):
            numbers = rng.standard_normal((1000, 30)).round(4)
            for number, values in enumerate(numbers.tolist(), start):
                if kind == "svmlight":
                    entries = " ".join(f"{1 + 7 * j + number % 7}:{value}" for j, value in enumerate(values))
                    file.write(f"{number % 3} {entries}\n")
                elif kind == "csv":
                    file.write(",".join([f"k{number % 9}", *map(str, values), f"class {number % 3}"]) + "\n")
                else:
                    entries = ", ".join(f'"x{j}": {value}' for j, value in enumerate(values))
                    file.write(f'{{"kind": "k{number % 9}", {entries}, "label": "class {number % 3}"}}\n')


@pytest.mark.parametrize("kind", ["svmlight", "csv", "jsonl"])
def test_conversion_of_text_takes_a_few_blocks(kind, tmp_path):
    names = {"svmlight": "svm", "csv": "csv", "jsonl": "jsonl"}
    for name, n in (("small", 1000), ("large", TEXT_ROWS)):
        write_text(kind, tmp_path / f"{name}.{names[kind]}", n)
    size = (tmp_path / f"large.{names[kind]}").stat().st_size
    block = 2 << 20
    options = [f"block_bytes={block}", *(["label=label"] if kind != "svmlight" else [])]
    files = [tmp_path / f"{name}.{names[kind]}" for name in ("small", "large")]
    _, peak = child(CONVERT, *files, tmp_path / "out.arrow", *options)
    print(kind, size, peak)
    assert size > 15 * block
    assert peak < 15 * block
