"""Small fits that together use the common kernels: `lineal warmup` runs them, and wheels carry the kernels of them.

Which loss with which layout, precision and kind of index is common is said here and nowhere else. A kernel that some
fit needs and none of these uses is compiled when it is first called.
"""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any, NamedTuple

import numpy as np

#: Losses of linear models, and the smooth ones whose penalties may set weights to zero.
LOSSES = ("squared_hinge", "logistic", "softmax", "hinge")
SMOOTH = ("squared_hinge", "logistic", "softmax")

#: Solvers that `auto` chooses among, for rows of which each is the quickest somewhere.
SOLVERS = ("auto", "dual_cd", "lbfgs", "newton")

PENALTIES = ("l1", "elastic_net", "l1/l2")
PRECISIONS = ("float32", "float64")
CLASSES = 3

#: Rows and columns: `auto` chooses other solvers for many columns, and short rows have kernels of their own.
N_ROWS, NARROW, WIDE = 240, 12, 700


class Task(NamedTuple):
    """What is run, and the name of it that a person reads."""

    name: str
    run: Callable[[], Any]


def tasks(folder: str) -> list[Task]:
    """All of them; files go to the folder."""
    return [*_linear(folder), *_penalised(), *_searched(), *_dropins(), *_others(), *_online(folder), *_products()]


def run(task: Task) -> None:
    """Run a task; its fits end early, which nobody needs to know."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        task.run()


# --- rows


def _rows(layout: str, precision: str, d: int) -> Any:
    """Random rows: dense, or sparse with 32-bit or 64-bit indices."""
    from scipy import sparse

    rng = np.random.default_rng(0)
    if layout == "dense":
        return rng.standard_normal((N_ROWS, d)).astype(precision)
    X = sparse.random_array((N_ROWS, d), density=min(0.5, 20.0 / d), rng=rng, format="csr", dtype=precision)
    index = np.int64 if layout == "csr, 64-bit" else np.int32
    return sparse.csr_array((X.data, X.indices.astype(index), X.indptr.astype(index)), shape=X.shape)


def _labels(n_classes: int) -> np.ndarray:
    return np.arange(N_ROWS) % n_classes


def _read(folder: str, name: str, precision: str) -> Any:
    from lineal.data.read import read

    path = os.path.join(folder, name)
    if not os.path.exists(path):
        with open(path, "w") as file:
            file.writelines(_LINES[name](i) for i in range(N_ROWS))
    return read(path, dtype=precision)


#: Lines of files, by their names.
_LINES: dict[str, Callable[[int], str]] = {
    "rows.svm": lambda i: f"{i % CLASSES} {1 + i % 5}:{i + 1} {6 + i % 4}:0.5\n",
    "rows.vw": lambda i: f"{i % CLASSES + 1} |a w{i % 7} x:{i % 5}.5 |b v{i % 11}\n",
    "binary.vw": lambda i: f"{2 * (i % 2) - 1} |a w{i % 7} x:{i % 5}.5 |b v{i % 11}\n",
    "rows.csv": lambda i: f"{i % CLASSES},{i * 0.5},{i % 7}\n" if i else "label,x,z\n",
}


# --- linear models


def _linear(folder: str) -> Iterator[Task]:
    for precision in PRECISIONS:
        yield Task(f"reading files, {precision}", partial(_read_all, folder, precision))
        for layout in ("dense", "csr", "csr, 64-bit"):
            for loss in LOSSES:
                solvers = SOLVERS[:1] if layout == "csr, 64-bit" else SOLVERS
                yield Task(f"{loss}, {layout}, {precision}", partial(_fit, layout, precision, loss, "l2", solvers))


def _read_all(folder: str, precision: str) -> None:
    from lineal.data.binary.layout import convert, open_layout
    from lineal.data.holdout import split

    for name in _LINES:
        data = _read(folder, name, precision)
    split(data, 0.2, 0)
    path = os.path.join(folder, f"{precision}.arrow")
    open_layout(convert(os.path.join(folder, "rows.svm"), path, dtype=precision))


def _fit(layout: str, precision: str, loss: str, penalty: str, solvers: tuple[str, ...]) -> None:
    import lineal
    from lineal.errors import OptionError

    for d in (NARROW, WIDE):
        X = _rows(layout, precision, d)
        for n_classes in (2, CLASSES):
            for solver in solvers:
                for max_iter in (1, 30):  # a fit that stops early runs kernels that a converged one does not
                    model = lineal.LinearClassifier(
                        loss, penalty, alpha=1e-3, solver=solver, max_iter=max_iter, max_time=20.0
                    )
                    try:
                        model.fit(X, _labels(n_classes))
                    except OptionError:  # the solver cannot minimise this loss
                        continue
            _use(model, X)
        if loss in ("squared_hinge", "logistic") and penalty == "l2":
            several = np.stack([_labels(2), _labels(3) == 0], axis=1).astype(np.int64)
            _use(lineal.LinearClassifier(loss, alpha=1e-3, max_iter=30).fit(X, several), X)


def _use(model: Any, X: Any) -> None:
    """Predict with a model, as its users do."""
    for rows in (X, X[:1]):
        model.predict(rows)
        if hasattr(model, "predict_proba"):
            model.predict_proba(rows)


def _penalised() -> Iterator[Task]:
    for precision in PRECISIONS:
        for layout in ("dense", "csr"):
            for penalty in PENALTIES:
                for loss in SMOOTH:
                    name = f"{loss}, {penalty}, {layout}, {precision}"
                    yield Task(name, partial(_fit, layout, precision, loss, penalty, ("auto",)))


def _searched() -> Iterator[Task]:
    for precision in PRECISIONS:
        for layout in ("dense", "csr"):
            yield Task(f"cross-validation, {layout}, {precision}", partial(_search, layout, precision))


def _search(layout: str, precision: str) -> None:
    import lineal

    for d in (NARROW, WIDE):
        X = _rows(layout, precision, d)
        for n_classes in (2, CLASSES):
            _use(lineal.LinearClassifierCV(n_alphas=3, cv=2, random_state=0).fit(X, _labels(n_classes)), X)


# --- the others


def _dropins() -> Iterator[Task]:
    for precision in PRECISIONS:
        for layout in ("dense", "csr"):
            for name in ("LinearSVC", "LogisticRegression", "RidgeClassifier", "SGDClassifier"):
                yield Task(f"dropin.{name}, {layout}, {precision}", partial(_drop_in, name, layout, precision))


def _drop_in(name: str, layout: str, precision: str) -> None:
    from lineal import dropin

    for d in (NARROW, WIDE):
        X = _rows(layout, precision, d)
        for n_classes in (2, CLASSES):
            _use(getattr(dropin, name)().fit(X, _labels(n_classes)), X)


def _others() -> Iterator[Task]:
    for precision in PRECISIONS:
        for layout in ("dense", "csr"):
            yield Task(f"least squares, {layout}, {precision}", partial(_least_squares, layout, precision))
    yield Task("stagewise, dense", _stagewise)


def _least_squares(layout: str, precision: str) -> None:
    import lineal

    for d in (NARROW, WIDE):
        X = _rows(layout, precision, d)
        for n_classes in (2, CLASSES):
            for link, calibration in ((None, None), ("softmax", None), (None, "polynomial")):
                model = lineal.LeastSquaresClassifier(link, calibration, max_iter=3)
                _use(model.fit(X, _labels(n_classes)), X)
        for n_classes in (2, CLASSES):  # the default, which holds rows out
            _use(lineal.LeastSquaresClassifier(validation_fraction=0.2).fit(X, _labels(n_classes)), X)


def _stagewise() -> None:
    import lineal

    for precision in PRECISIONS:
        X = _rows("dense", precision, NARROW)
        for update in ("linear", "softmax", "calibrated"):
            model = lineal.StagewiseClassifier(update=update, block_size=64, n_blocks=2, validation_fraction=0.2)
            _use(model.fit(X, _labels(CLASSES)), X)


def _online(folder: str) -> Iterator[Task]:
    for precision in PRECISIONS:
        for layout in ("dense", "csr"):
            yield Task(f"online, {layout}, {precision}", partial(_learn, layout, precision))
    yield Task("online, files", partial(_learn_files, folder))


def _learn(layout: str, precision: str) -> None:
    import lineal

    X = _rows(layout, precision, NARROW)
    for n_classes in (2, CLASSES):
        for passes in (1, 2):
            _use(lineal.OnlineClassifier(passes=passes).fit(X, _labels(n_classes)), X)
    _use(lineal.OnlineRegressor().fit(X, _labels(CLASSES).astype(np.float64)), X)


def _learn_files(folder: str) -> None:
    import lineal

    for name in ("binary.vw", "rows.vw", "rows.svm"):
        path = os.path.join(folder, name)
        _read(folder, name, "float32")
        for passes in (1, 2):
            lineal.OnlineClassifier(passes=passes).fit(path)
    for expansion in ("quadratic", "adaptive"):
        lineal.OnlineClassifier(expansion=expansion).fit(os.path.join(folder, "binary.vw"))


def _products() -> Iterator[Task]:
    for precision in PRECISIONS:
        yield Task(f"products, {precision}", partial(_multiply, precision))


def _multiply(precision: str) -> None:
    """Multiply enough dense rows for kernels to be used, in their own precision and in that of certificates."""
    from lineal.design import narrow_products, products, wrap

    d = narrow_products.MIN_COLUMNS
    X, V = wrap(np.ones((narrow_products.WORTH_A_KERNEL // d, d), precision)), np.ones((d, 10), precision)
    for dtype in dict.fromkeys((precision, "float64")):
        products.rmatmul(X, products.matmul(X, V, dtype=dtype))
