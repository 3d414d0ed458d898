"""`lineal demo`: a first look at lineal, on images and on text, compared with scikit-learn."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

from lineal.cli import show
from lineal.system.files import scratch_folder

if TYPE_CHECKING:
    import numpy as np

    from lineal.cli.demo_rows import Rows
    from lineal.linear.model import Model
    from lineal.problem.solution import Certificate

T = TypeVar("T")

#: Strength of the penalty on images, and relative duality gap of lineal's fits.
ALPHA, TOL = 1e-3, 1e-4

#: Distances below this are shown as this one.
SMALL = 1e-5

#: Number of columns of the table that are names.
NAMES = 2

#: Number of fits after the first. The fastest one counts, because other programs disturb the rest.
REPEATS = 5

WHAT = """\
lineal learns to recognise handwritten digits, and to tell which library a paragraph of documentation is from.
scikit-learn does the same, with the same formula, on the same rows and with one thread each. Nothing is downloaded."""

LEGEND = """
correct     share of right answers on rows that were kept for the test
first fit   with what is done only once: on a machine (lineal compiles kernels) or in a process
later fits  the fastest of {repeats}
distance    Training makes one number, the objective, as small as it can. This says how far it is above the smallest
            one. Nobody knows that one exactly, but lineal proves a bound for it, and both are measured by the bound.
"""

NEXT = """\
Next, with a file of your own (svmlight, CSV, TSV, JSON lines, Parquet, Arrow, NumPy, Vowpal Wabbit; .gz is fine):
  lineal train DATA --model my.model --loss softmax --holdout 0.2
  lineal evaluate my.model OTHER_DATA
  lineal predict my.model NEW_DATA --proba
  lineal inspect my.model
For a table, name the label column: --label NAME. In Python: lineal.LinearClassifier(loss="softmax").fit(X, y).
An existing program: replace `from sklearn.svm import LinearSVC` by `from lineal.dropin import LinearSVC`."""


class Fitted(NamedTuple):
    """A fit: predictions for rows, weights (d, k) and intercepts (k,)."""

    predict: Callable[[Any], np.ndarray]
    weights: np.ndarray
    intercepts: np.ndarray


class Timed(NamedTuple):
    """A fit, with seconds of the first one and of the fastest later one."""

    fitted: Fitted
    first: float
    later: float


def demo(json: show.Json = False) -> None:
    """Train on digits and on text with lineal and with scikit-learn.

    Both minimise the same objective on the same rows, with one thread. Shows how many new rows each gets right, how
    long each takes, and how far each can be from the best possible answer.
    """
    told = _quiet if json else _told
    told(WHAT)
    told("\nLoading NumPy, SciPy, scikit-learn and Numba …")
    from lineal.cli import demo_rows
    from lineal.core import jit

    with _one_thread():
        rows = demo_rows.digits()
        told(f"\nDigits: {len(rows.y)} images of 8 × 8 pixels to train on, {len(rows.y_test)} to test on, 10 classes.")
        told("Multinomial logistic regression. The first fit compiles kernels, unless they came with lineal …")
        results, model, certificate = _digits(rows)
        told(f"lineal's certificate: {certificate}.")
        found: dict[str, Any] = {"digits": {"results": results, "certificate": certificate.to_json()}}
        told("\nText: collecting paragraphs from the documentation of Python, NumPy, SciPy and scikit-learn …")
        text = demo_rows.documentation()
        if text is None:
            told("too few are installed here, so there is no second part.")
        else:
            told(
                f"{text.X.shape[0]} paragraphs to train on, {text.X_test.shape[0]} of other files to "
                f"test on, {text.X.shape[1]} different words, 4 classes."
            )
            told("Linear support vector machine, by lineal.dropin.LinearSVC and by scikit-learn's own …")
            others, certificate = _text(text)
            told(f"lineal's certificate: {certificate}.\n")
            results = [*results, *others]
            found["text"] = {"results": others, "certificate": certificate.to_json()}
    size, agrees = _saved_and_loaded(model, rows.X_test)
    if json:
        show.as_json({
            **found, "compiled_kernels": len(jit.compiled), "model_bytes": size, "reloaded_model_agrees": agrees,
        })  # fmt: skip
        return
    _show(results)
    print(LEGEND.format(repeats=REPEATS))
    if jit.compiled:
        print(f"lineal's first fits have compiled {len(jit.compiled)} kernels. They are kept on disk.")
    print(f"The model of the digits, saved ({size} bytes) and loaded again: predictions {_verdict(agrees)}.\n")
    print(NEXT)


def _told(line: str) -> None:
    print(line, flush=True)


def _quiet(line: str) -> None:
    pass


def _verdict(agrees: bool) -> str:
    return "agree" if agrees else "DIFFER"


@contextmanager
def _one_thread() -> Iterator[None]:
    """One thread for lineal, for scikit-learn and for BLAS: on a busy machine, several wait for each other."""
    import sklearn.linear_model
    import sklearn.svm  # noqa: F401, libraries are limited only if they are there
    from threadpoolctl import threadpool_limits

    from lineal.core.threads import core_share

    with core_share(1), threadpool_limits(1):
        yield


# --- the two comparisons


def _digits(rows: Rows) -> tuple[list[dict[str, Any]], Model, Certificate]:
    from sklearn.linear_model import LogisticRegression

    from lineal.linear.fit import fit
    from lineal.linear.options import TrainOptions

    options = TrainOptions(loss="softmax", alpha=ALPHA, tol=TOL)
    answers = []

    def ours() -> Fitted:
        answers.append(fit(rows.X, rows.y, options))
        model, solution = answers[-1]
        return Fitted(model.predict, solution.weights, solution.intercept)

    def theirs() -> Fitted:
        # C = 1/(α n), and an intercept that is not penalised: the same objective.
        found = LogisticRegression(C=1.0 / (ALPHA * len(rows.y)), max_iter=1000).fit(rows.X, rows.y)
        return Fitted(found.predict, found.coef_.T, found.intercept_)

    timed = _both(ours, theirs)
    model, solution = answers[0]
    return _results("digits", rows, timed, _mean_log_loss, solution.certificate), model, solution.certificate


def _text(rows: Rows) -> tuple[list[dict[str, Any]], Certificate]:
    from sklearn.svm import LinearSVC

    from lineal import dropin

    fits = []

    def ours() -> Fitted:
        found = dropin.LinearSVC().fit(rows.X, rows.y)
        fits.append(found)
        return Fitted(found.predict, found.coef_.T, found.intercept_)

    def theirs() -> Fitted:
        found = LinearSVC().fit(rows.X, rows.y)
        return Fitted(found.predict, found.coef_.T, found.intercept_)

    timed = _both(ours, theirs)
    return _results("text", rows, timed, _mean_squared_hinge, fits[0].certificate_), fits[0].certificate_


def _both(ours: Callable[[], Fitted], theirs: Callable[[], Fitted]) -> dict[str, Timed]:
    """Fits of both, which take turns, so that other programs disturb both alike."""
    first = {"lineal": _timed(ours), "scikit-learn": _timed(theirs)}
    later = [(_timed(ours)[1], _timed(theirs)[1]) for _ in range(REPEATS)]
    return {
        name: Timed(fitted, seconds, min(turn[place] for turn in later))
        for place, (name, (fitted, seconds)) in enumerate(first.items())
    }


def _timed(work: Callable[[], T]) -> tuple[T, float]:
    start = time.perf_counter()
    result = work()
    return result, time.perf_counter() - start


def _mean_log_loss(rows: Rows, fitted: Fitted) -> float:
    """Mean log loss + α/2 ‖W‖²."""
    import numpy as np
    from scipy.special import logsumexp

    scores = rows.X @ fitted.weights + fitted.intercepts
    losses = logsumexp(scores, axis=1) - scores[np.arange(len(rows.y)), rows.y]
    return float(np.mean(losses) + ALPHA / 2.0 * np.sum(fitted.weights**2))


def _mean_squared_hinge(rows: Rows, fitted: Fitted) -> float:
    """Mean squared hinge over rows, summed over classes, + ‖W‖²/(2n) with the intercepts: that of `LinearSVC` / n."""
    import numpy as np

    signs = np.where(rows.y[:, None] == np.unique(rows.y), 1.0, -1.0)
    short = np.maximum(1.0 - signs * (rows.X @ fitted.weights + fitted.intercepts), 0.0)
    squares = np.sum(fitted.weights**2) + np.sum(fitted.intercepts**2)
    return float((np.sum(short**2) + squares / 2.0) / len(rows.y))


def _results(
    data: str, rows: Rows, timed: dict[str, Timed], objective_of: Callable[[Rows, Fitted], float], proof: Certificate
) -> list[dict[str, Any]]:
    bound = proof.primal if proof.dual is None else proof.dual
    results = []
    for name, (fitted, first, later) in timed.items():
        objective = objective_of(rows, fitted)
        results.append({
            "data": data, "program": name,
            "test_accuracy": float((fitted.predict(rows.X_test) == rows.y_test).mean()),
            "first_fit_seconds": first, "seconds": later,
            "objective": objective, "distance": max(objective - bound, 0.0) / bound,
        })  # fmt: skip
    return results


# --- the end


def _show(results: list[dict[str, Any]]) -> None:
    """Print a table, aligned wherever it goes: it is for people."""
    head = ["", "", "correct", "first fit", "later fits", "distance"]
    rows = [
        [
            result["data"], result["program"], f"{result['test_accuracy']:.1%}",
            f"{result['first_fit_seconds']:.2f} s", f"{result['seconds']:.3f} s", _percent(result["distance"]),
        ]
        for result in results
    ]  # fmt: skip
    widths = [max(map(len, column)) for column in zip(head, *rows)]
    for row in (head, *rows):
        names = [cell.ljust(width) for cell, width in zip(row[:NAMES], widths)]
        numbers = [cell.rjust(width) for cell, width in zip(row[NAMES:], widths[NAMES:])]
        print("   ".join((*names, *numbers)).rstrip())


def _percent(share: float) -> str:
    return f"within {100.0 * share:.2g} %" if share >= SMALL else f"within {100.0 * SMALL:g} %"


def _saved_and_loaded(model: Model, X: np.ndarray) -> tuple[int, bool]:
    import numpy as np

    from lineal.models.file import load

    with scratch_folder() as folder:
        path = os.path.join(folder, "digits.model")
        model.save(path)
        again = load(path)
        return os.path.getsize(path), bool(np.array_equal(again.decision_function(X), model.decision_function(X)))
