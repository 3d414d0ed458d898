"""Softmax regression to scikit-learn's objective: lineal's L-BFGS against LogisticRegression(solver="lbfgs").

    python -m benchmarks.lbfgs [--data DIR] [--json PATH]

scikit-learn fits with its defaults (C = 1, at most 100 iterations); lineal minimises the same (α = 1/(C·n); neither
penalises the intercept) until its objective is within 1e-6 of scikit-learn's, and is stopped there by a callback.
"""

from __future__ import annotations

import argparse
import time
import warnings
from pathlib import Path
from typing import Any

import numpy as np
from scipy.special import logsumexp
from sklearn.linear_model import LogisticRegression

from benchmarks import datasets
from benchmarks.common import RESULTS, print_table, write_json
from lineal import LinearClassifier

COLUMNS = ("data", "scikit-learn s", "its", "lineal s", "its", "objective (theirs)", "objective (ours)", "ratio")


def objective(X: Any, y: np.ndarray, coef: np.ndarray, intercept: np.ndarray, alpha: float) -> float:
    """F in float64, computed by neither of the two."""
    total = 0.0
    W = coef.T.astype(np.float64)
    for start in range(0, X.shape[0], 4096):
        Z = X[start : start + 4096].astype(np.float64) @ W + intercept
        total += float((logsumexp(Z, axis=1) - Z[np.arange(len(Z)), y[start : start + 4096]]).sum())
    return total / X.shape[0] + 0.5 * alpha * float((W**2).sum())


def compare(name: str, X: Any, y: np.ndarray) -> list[Any]:
    """A row of the table."""
    alpha = 1.0 / X.shape[0]
    start = time.perf_counter()
    peer = LogisticRegression().fit(X, y)
    peer_seconds = time.perf_counter() - start
    target = objective(X, y, peer.coef_, peer.intercept_, alpha)

    def reached(snapshot: Any) -> bool:
        return snapshot.objective <= target * (1 + 1e-6)

    ours = LinearClassifier(loss="softmax", alpha=alpha, tol=1e-10, callbacks=[reached])
    start = time.perf_counter()
    ours.fit(X, y)
    seconds = time.perf_counter() - start
    found = objective(X, y, ours.coef_, ours.intercept_, alpha)
    return [name, peer_seconds, int(peer.n_iter_[0]), seconds, ours.n_iter_, target, found, peer_seconds / seconds]


def main() -> None:
    """Measure, print, write."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", type=Path, default=Path("../shared/data"))
    parser.add_argument("--json", default=RESULTS / "lbfgs.json")
    arguments = parser.parse_args()
    warnings.simplefilter("ignore")  # both stop early on purpose
    pixels, digits = datasets.mnist(arguments.data)
    words, groups = datasets.newsgroups(arguments.data)
    start = time.perf_counter()
    for dtype in (np.float32, np.float64):
        LinearClassifier(loss="softmax", max_iter=3).fit((pixels[:500] / 255).astype(dtype), digits[:500])
        LinearClassifier(loss="softmax", max_iter=3).fit(words[:500].astype(dtype), groups[:500])
    print(f"warm-up {time.perf_counter() - start:.1f} s")
    table = []
    for dtype in (np.float64, np.float32):
        table.append(compare(f"MNIST pixels {dtype.__name__}", (pixels / 255).astype(dtype), digits))
        table.append(compare(f"20newsgroups {dtype.__name__}", words.astype(dtype), groups))
    print_table("softmax, l2, C = 1", COLUMNS, table)
    write_json(arguments.json, {"columns": COLUMNS, "rows": table})


if __name__ == "__main__":
    main()
