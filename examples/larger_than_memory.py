"""Train on a file within a memory budget, and compare with a fit in memory.

The file is small here, so that the example runs in seconds. The code is the same for a file of any size.
"""

import tempfile
from pathlib import Path

import numpy as np
from scipy import sparse

import lineal
from lineal.data.binary.write import write
from lineal.data.dataset import Dataset


def blocks(n_blocks=5, rows=2000, columns=5000, seed=0):
    """Rows of a generated data set, block by block: nobody ever holds all of them."""
    rng = np.random.default_rng(seed)
    weights = rng.normal(size=columns)
    for _ in range(n_blocks):
        X = sparse.random_array((rows, columns), density=0.004, rng=rng, format="csr")
        scores = X @ weights
        yield Dataset(X, np.digitize(scores, [-0.5, 0.5]))


def main():
    """Write the file, train within a budget, and predict from the file."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "rows.arrow"
        write(blocks(), path)
        for engine in ("file", "local"):
            budget = {"memory_budget": "2GB"} if engine == "file" else {}
            model = lineal.LinearClassifier("softmax", solver="lbfgs", engine=engine, **budget).fit(path)
            right = np.mean(model.predict(path) == lineal.read(path).y)
            print(f"{engine}: {model.certificate_}; {right:.1%} of the training rows")


if __name__ == "__main__":
    main()
