"""Tall dense tables, many more rows than parameters: lineal and scikit-learn, in one run with the same threads.

    python -m benchmarks.tall                     # all tables, both precisions
    python -m benchmarks.tall --match shuttle     # only tables whose name has this text
    python -m benchmarks.tall --quick             # a tenth of the rows: a test of the script

- `LinearClassifier(loss="softmax")` with α = 1/n and the default tolerance, against `LogisticRegression()` with C = 1,
  which is the same problem for more than two classes; for two classes, `LinearClassifier(loss="logistic")`. Until the
  certificate, until the objective that scikit-learn ends with, and the objectives of both. A warm start from a short
  fit compiles everything first and is not timed.
- `dropin.LogisticRegression()` and `dropin.LinearSVC()` against scikit-learn's.

A ratio is scikit-learn's time divided by lineal's: above one, lineal is faster.
"""

from __future__ import annotations

import argparse
import os
import time
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
from sklearn import linear_model, svm
from sklearn.preprocessing import scale

from benchmarks import datasets
from benchmarks.common import RESULTS, print_table, write_json

TABLES = ("weather", "elec", "shuttle", "skin", "mnist", "rare", "kddcup99")


def table(name: str, folder: Path) -> tuple[np.ndarray, np.ndarray]:
    """Standardised float64 features (MNIST: pixels between 0 and 1) and class numbers, in random order."""
    if name == "rare":
        return rare_indicators()
    if name == "mnist":
        X, y = datasets.mnist(folder)
        return X / 255.0, y
    if name == "kddcup99":
        X, y = datasets.kddcup(folder, rows=10**9)
    else:
        with np.load(folder / name / f"{name}.npz", allow_pickle=True) as file:
            key = "_train" if name == "shuttle" else ""
            X, y = file[f"X{key}"].astype(np.float64), np.unique(file[f"y{key}"], return_inverse=True)[1]
    order = np.random.default_rng(0).permutation(len(y))
    return scale(X[order]), y[order]


def rare_indicators(n: int = 500_000) -> tuple[np.ndarray, np.ndarray]:
    """A table like covertype: 14 correlated numbers, 40 rare 0/1 columns, all standardised; 7 unequal classes."""
    rng = np.random.default_rng(1)
    X = np.empty((n, 54))
    X[:, :14] = rng.standard_normal((n, 14)) @ (np.eye(14) + 0.3 * rng.standard_normal((14, 14)))
    X[:, 14:] = rng.random((n, 40)) < 10.0 ** rng.uniform(-4.0, -1.0, 40)
    X = scale(X)
    W = rng.standard_normal((54, 7))
    W[14:] *= 0.3
    scores = 0.6 * X @ W + np.array([2.0, 2.5, 0.0, -3.0, -1.0, -0.5, 0.0]) + rng.gumbel(size=(n, 7))
    return X, scores.argmax(axis=1)


def objective(X: np.ndarray, y: np.ndarray, W: np.ndarray, b: np.ndarray) -> float:
    """Mean loss plus ‖W‖²/(2n), in float64; with one column of W the logistic loss."""
    total = 0.0
    for start in range(0, len(y), 1 << 16):
        Z = X[start : start + (1 << 16)].astype(np.float64) @ W + b
        labels = y[start : start + (1 << 16)]
        if Z.shape[1] == 1:
            total += float(np.logaddexp(0.0, -(2.0 * labels - 1.0) * Z[:, 0]).sum())
        else:
            total += float((np.logaddexp.reduce(Z, axis=1) - Z[np.arange(len(Z)), labels]).sum())
    return (total + 0.5 * float(np.square(W, dtype=np.float64).sum())) / len(y)


def timed(function: Callable[[], Any], repeats: int) -> tuple[float, Any]:
    """Least seconds of several calls, and the last result."""
    best, result = float("inf"), None
    for _ in range(repeats):
        start = time.perf_counter()
        result = function()
        best = min(best, time.perf_counter() - start)
    return best, result


def rows_of(name: str, X: np.ndarray, y: np.ndarray, repeats: int, threads: int) -> Iterator[dict[str, Any]]:
    """What was measured on one table in one precision."""
    import lineal
    from lineal import dropin

    n, k = len(y), int(y.max()) + 1
    facts = {"table": name, "n": n, "d": X.shape[1], "k": k, "dtype": str(X.dtype)}

    def fitted() -> Any:
        loss = "softmax" if k > 2 else "logistic"
        return lineal.LinearClassifier(loss=loss, alpha=1.0 / n, n_jobs=threads).fit(X, y)

    fitted()
    seconds, ours = timed(fitted, repeats)
    peer_seconds, peer = timed(lambda: linear_model.LogisticRegression().fit(X, y), repeats)
    W, b = np.atleast_2d(ours.coef_).T, np.atleast_1d(ours.intercept_)
    value, peer_value = objective(X, y, W, b), objective(X, y, peer.coef_.T, peer.intercept_)
    reached = [row["seconds"] for row in ours.history_ if row["objective"] <= peer_value * (1.0 + 1e-6)]
    # The time before the first iteration (labels, checks) is part of the fit, that of the certificate is not.
    overhead = seconds - max(ours.history_[-1]["seconds"], 0.0)
    until = reached[0] if reached else None
    yield {
        **facts, "part": "certificate", "seconds": seconds, "peer_seconds": peer_seconds,
        "ratio": peer_seconds / seconds, "until_objective": until, "overhead": overhead,
        "objective_ratio": None if until is None else peer_seconds / until, "objective": value,
        "peer_objective": peer_value, "gap": ours.certificate_.value, "status": ours.status_,
        "iterations": len(ours.history_) - 1, "peer_iterations": int(np.max(peer.n_iter_)),
    }  # fmt: skip
    for part, ours_class, peer_class in (
        ("LogisticRegression", dropin.LogisticRegression, linear_model.LogisticRegression),
        ("LinearSVC", dropin.LinearSVC, svm.LinearSVC),
    ):
        ours_class().fit(X, y)
        seconds, model = timed(lambda: ours_class().fit(X, y), repeats)  # noqa: B023
        if part == "LinearSVC":
            peer_seconds, peer = timed(lambda: peer_class().fit(X, y), 1)  # noqa: B023
        same = float(np.mean(model.predict(X) == peer.predict(X)))
        yield {
            **facts, "part": part, "seconds": seconds, "peer_seconds": peer_seconds, "ratio": peer_seconds / seconds,
            "gap": model.certificate_.value, "same_predictions": same,
        }  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--data", type=Path, default=Path("../shared/data"))
    parser.add_argument("--json", type=Path, default=RESULTS / "tall.json")
    parser.add_argument("--match", default="", help="only tables whose name has this text")
    parser.add_argument("--dtypes", default="float32,float64", help="precisions of X")
    parser.add_argument("--threads", type=int, default=None, help="of both sides; set OMP_NUM_THREADS to the same")
    parser.add_argument("--quick", action="store_true", help="a tenth of the rows, one repeat: a test of the script")
    arguments = parser.parse_args()
    threads = arguments.threads or int(os.environ.get("OMP_NUM_THREADS", "0")) or os.cpu_count() or 1
    warnings.simplefilter("ignore")
    found: list[dict[str, Any]] = []
    for name in TABLES:
        if arguments.match not in name:
            continue
        X, y = table(name, arguments.data)
        if arguments.quick:
            X, y = X[: len(y) // 10], np.unique(y[: len(y) // 10], return_inverse=True)[1]
        for dtype in arguments.dtypes.split(","):
            for row in rows_of(name, X.astype(dtype), y, 1 if arguments.quick else 2, threads):
                found.append(row)
                print(f"{name} {dtype} {row['part']}: {row['seconds']:.3g} s, {row['ratio']:.2f}×", flush=True)
            write_json(arguments.json, {"quick": arguments.quick, "threads": threads, "rows": found})
    certificates = [row for row in found if row["part"] == "certificate"]
    print_table(
        "Softmax (two classes: logistic), α = 1/n: until the certificate, and until scikit-learn's objective",
        ["table", "dtype", "n", "d", "k", "s", "sklearn s", "certificate ratio", "objective ratio", "gap",
         "objective", "sklearn's", "iterations", "sklearn's iterations"],
        [[row["table"], row["dtype"], row["n"], row["d"], row["k"], row["seconds"], row["peer_seconds"], row["ratio"],
          row["objective_ratio"], row["gap"], f"{row['objective']:.8f}", f"{row['peer_objective']:.8f}",
          row["iterations"], row["peer_iterations"]] for row in certificates],
    )  # fmt: skip
    print_table(
        "Drop-in classifiers with their defaults",
        ["table", "dtype", "class", "s", "sklearn s", "ratio", "gap", "same predictions"],
        [[row["table"], row["dtype"], row["part"], row["seconds"], row["peer_seconds"], row["ratio"], row["gap"],
          f"{row['same_predictions']:.6f}"] for row in found if row["part"] != "certificate"],
    )  # fmt: skip


if __name__ == "__main__":
    main()
