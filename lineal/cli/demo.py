"""`lineal demo`: a first look at lineal, on real data, compared with scikit-learn."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar

from lineal.cli import show
from lineal.system import memory
from lineal.system.files import scratch_folder

if TYPE_CHECKING:
    import numpy as np

    from lineal.linear.model import Model
    from lineal.problem.solution import Solution

T = TypeVar("T")

#: Strength of the penalty and relative duality gap of the demonstration.
ALPHA, TOL = 1e-3, 1e-4

#: Number of fits after the first. The fastest one counts, because other programs disturb the rest.
REPEATS = 5

NEXT = """\
Next, with a file of your own (svmlight, CSV, TSV, JSON lines, Parquet, Arrow, NumPy, Vowpal Wabbit; .gz is fine):
  lineal train DATA --model my.model --loss softmax --holdout 0.2
  lineal evaluate my.model OTHER_DATA
  lineal predict my.model NEW_DATA --proba
  lineal inspect my.model
For a table, name the label column: --label NAME. In Python: lineal.LinearClassifier(loss="softmax").fit(X, y)."""


def demo(json: show.Json = False) -> None:
    """Train on handwritten digits with lineal and with scikit-learn.

    Both minimise the same objective on the same rows. Shows accuracy, seconds and objective, and lineal's certificate.
    """
    from lineal.core import jit

    X, y, X_test, y_test = _digits()
    if not json:
        print(f"Handwritten digits: {len(X)} images to train on, {len(X_test)} to test on, 64 pixels, 10 classes.")
        print(f"Multinomial logistic regression, alpha={ALPHA:g}, to within {100 * TOL:g} % of the best possible.")
    before = len(jit.compiled)
    (model, solution), first = _timed(lambda: _fit(X, y, sys.stderr.isatty() and not json))
    compiled = len(jit.compiled) - before
    again = min(_timed(lambda: _fit(X, y, False))[1] for _ in range(REPEATS))
    theirs, their_first, their_again = _scikit_learn(X, y)
    ours = _objective(X, y, solution.weights, solution.intercept)
    peers = _objective(X, y, theirs.coef_.T, theirs.intercept_)
    rows = [
        _row("lineal", model.predict(X_test) == y_test, first, again, ours),
        _row("scikit-learn", theirs.predict(X_test) == y_test, their_first, their_again, peers),
    ]
    size, agree = _saved_and_loaded(model, X_test)
    if json:
        show.as_json({
            "results": rows, "compiled_kernels": compiled, "certificate": solution.certificate.to_json(),
            "model_bytes": size, "reloaded_model_agrees": agree,
        })  # fmt: skip
        return
    _show_rows(rows)
    kernels = f"compiled {compiled} kernels, which are kept on disk" if compiled else "loaded its compiled kernels"
    print(f"The first fit includes work that is done once: lineal {kernels}.")
    print(f"Certificate: {solution.certificate}.")
    print(f"Saved ({memory.size(size)}), loaded again: predictions {'agree' if agree else 'DIFFER'}.\n")
    print(NEXT)


def _digits() -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Rows to train on, and every fourth row to test on. The images come with scikit-learn."""
    import numpy as np
    from sklearn.datasets import load_digits

    X, y = load_digits(return_X_y=True)
    X = X / 16.0
    test = np.arange(len(X)) % 4 == 3
    return X[~test], y[~test], X[test], y[test]


def _fit(X: np.ndarray, y: np.ndarray, verbose: bool) -> tuple[Model, Solution]:
    from lineal.linear.fit import fit
    from lineal.linear.options import TrainOptions

    return fit(X, y, TrainOptions(loss="softmax", alpha=ALPHA, tol=TOL, verbose=int(verbose)))


def _scikit_learn(X: np.ndarray, y: np.ndarray) -> tuple[Any, float, float]:
    """Fit the same problem: C = 1/(α n), multinomial, with an intercept that is not penalised."""
    from sklearn.linear_model import LogisticRegression

    estimator = LogisticRegression(C=1.0 / (ALPHA * len(X)), max_iter=1000)
    _, first = _timed(lambda: estimator.fit(X, y))
    again = min(_timed(lambda: estimator.fit(X, y))[1] for _ in range(REPEATS))
    return estimator, first, again


def _timed(work: Callable[[], T]) -> tuple[T, float]:
    start = time.perf_counter()
    result = work()
    return result, time.perf_counter() - start


def _objective(X: np.ndarray, y: np.ndarray, W: np.ndarray, b: np.ndarray) -> float:
    """Mean log loss + α/2 ‖W‖², computed in the same way for both."""
    import numpy as np
    from scipy.special import logsumexp

    scores = X @ W + b
    return float(np.mean(logsumexp(scores, axis=1) - scores[np.arange(len(y)), y]) + ALPHA / 2.0 * np.sum(W * W))


def _row(name: str, hits: np.ndarray, first: float, again: float, objective: float) -> dict[str, Any]:
    return {
        "program": name,
        "test_accuracy": float(hits.mean()),
        "first_fit_seconds": first,
        "seconds": again,
        "objective": objective,
    }


def _show_rows(rows: list[dict[str, Any]]) -> None:
    columns = ("", "test accuracy", "first fit, s", f"best of {REPEATS}, s", "objective")
    formats = ("{}", "{:.4f}", "{:.3f}", "{:.3f}", "{:.8f}")
    show.table("Results", columns, [[f.format(v) for f, v in zip(formats, row.values())] for row in rows])


def _saved_and_loaded(model: Model, X: np.ndarray) -> tuple[int, bool]:
    import numpy as np

    from lineal.models.file import load

    with scratch_folder() as folder:
        path = os.path.join(folder, "digits.model")
        model.save(path)
        again = load(path)
        return os.path.getsize(path), bool(np.array_equal(again.decision_function(X), model.decision_function(X)))
