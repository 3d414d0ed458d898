"""Small fits that together use the common kernels: `lineal warmup` runs them, and wheels carry the kernels of them.

Which loss, penalty, layout and so on is common is said in `CHOICES` and nowhere else. A kernel that some fit needs and
none of these uses is compiled when it is first called. Every estimator is fitted with its defaults, whatever they are,
on rows of each layout and precision and of several sizes.
"""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from lineal.cli import common_rows as data
from lineal.cli.common_rows import NARROW, PRECISIONS, WIDE, Size


class Choice(NamedTuple):
    """Values of an option whose kernels are compiled in advance, and those that are compiled when they are first used.

    A new value must be put into one of them.
    """

    common: tuple[str, ...]
    later: tuple[str, ...] = ()


CHOICES = {
    "loss": Choice(
        ("squared_hinge", "logistic", "softmax", "hinge"),
        ("squared", "crammer_singer", "multiclass_squared_hinge", "label_ranking"),
    ),
    "penalty": Choice(("l2", "l1", "elastic_net", "l1/l2"), ("l1/linf", "sparse_group")),
    "solver": Choice(
        ("dual_cd", "lbfgs", "newton", "block_cd", "multipliers"),
        ("admm", "averaging", "fista", "fobos", "hybrid", "least_squares", "sparsa"),
    ),
    "layout": Choice(data.LAYOUTS),
    "format": Choice(("svmlight", "vw", "csv", "tsv", "jsonl", "layout"), ("arrow", "parquet", "npy", "npz")),
    "link": Choice(("softmax", "sigmoid", "identity")),
    "update": Choice(("linear", "softmax", "calibrated")),
    "online loss": Choice(("logistic", "squared", "hinge"), ("quantile",)),
    "expansion": Choice(("quadratic", "adaptive"), ("cubic",)),
}

#: Public estimators, by name; those of `lineal.dropin` with its name before theirs.
ESTIMATORS = (
    "LinearClassifier", "LinearClassifierCV", "LeastSquaresClassifier", "StagewiseClassifier", "OnlineClassifier",
    "OnlineRegressor", "dropin.LinearSVC", "dropin.LogisticRegression", "dropin.RidgeClassifier",
    "dropin.SGDClassifier",
)  # fmt: skip

#: Public estimators of tables, which have columns instead of a layout.
TABLES = ("TableClassifier",)

#: Layouts for which losses and solvers are listed, too, and those of which all estimators are.
MAIN, ALL = ("dense", "csr"), ("dense", "csr", "dense, by columns")

#: Estimators for the other layouts.
ANY_LAYOUT = ("LinearClassifier", "LinearClassifierCV", "dropin.LinearSVC", "dropin.LogisticRegression")

#: Estimators whose fits to large data take long and need no other kernels, and those with a d × d matrix.
ONLY_SMALL, NOT_LONG = ("LinearClassifierCV", "StagewiseClassifier"), ("LeastSquaresClassifier",)

#: Parameters that make a fit shorter, which needs the same kernels as a long one.
SHORTER: dict[str, dict[str, Any]] = {
    "LinearClassifierCV": {"n_alphas": 3, "cv": 2},
    "StagewiseClassifier": {"max_time": 1.0},
}

#: Solvers that a fit of a loss may come to; `auto` alone for others.
SECOND = {"hinge": ("auto", "multipliers")}

#: Numbers of classes, and those for many rows: products have kernels for few and for many columns.
CLASSES, MORE_CLASSES = (2, 3), (3, 20)

#: Numbers of iterations: a fit that stops early runs kernels that a converged one does not.
ITERATIONS = (1, 30)


class Task(NamedTuple):
    """What is run, and the name of it that a person reads."""

    name: str
    run: Callable[[], Any]


def tasks(folder: str) -> list[Task]:
    """All of them; files go to the folder."""
    return [*_readers(folder), *_text(), *_defaults(), *_linear(), *_others(), *_online(folder)]


def run(task: Task) -> None:
    """Run a task; its fits end early, which nobody needs to know."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        task.run()


def _use(model: Any, X: Any) -> None:
    """Predict with a model, as its users do."""
    for some in (X, X[:1]):
        model.predict(some)
        if hasattr(model, "predict_proba"):
            model.predict_proba(some)


# --- files


def _readers(folder: str) -> Iterator[Task]:
    for precision in PRECISIONS:
        for name in data.LINES:
            yield Task(f"reading {name}, {precision}", partial(_read, data.file(folder, name), precision))
        yield Task(f"reading the binary layout, {precision}", partial(_convert, folder, precision))
    yield Task("reading tokens", _tokens)


def _read(path: str, precision: str) -> None:
    import lineal
    from lineal.data.holdout import split
    from lineal.data.read import read

    found = read(path, dtype=precision)
    part, _ = split(found, 0.2, 0)
    _use(lineal.LinearClassifier().fit(part.X, part.y), part.X)


def _convert(folder: str, precision: str) -> None:
    import lineal
    from lineal.data.binary.layout import convert, open_layout

    path = os.path.join(folder, f"{precision}.arrow")
    found = open_layout(convert(data.file(folder, "rows.svmlight"), path, dtype=precision))
    _use(lineal.LinearClassifier().fit(found.X, found.y), found.X)


def _text() -> Iterator[Task]:
    for precision in PRECISIONS:
        for name, options in TEXT.items():
            yield Task(f"text, {name}, {precision}", partial(_features_of_text, precision, options))
        yield Task(f"TableClassifier, {precision}", partial(_table, precision))


#: Ways to turn text into features.
TEXT: dict[str, dict[str, Any]] = {
    "words": {},
    "n-grams": {"ngram_range": (1, 2), "sublinear_tf": True},
    "characters": {"analyzer": "char", "ngram_range": (2, 3)},
    "characters of words": {"analyzer": "char_wb", "ngram_range": (3, 3)},
    "hashed words": {"hashing": 10, "ngram_range": (1, 2)},
    "hashed characters": {"hashing": 10, "analyzer": "char_wb", "ngram_range": (2, 3)},
}


def _features_of_text(precision: str, options: dict[str, Any]) -> None:
    import lineal

    for documents in (data.documents(), [*data.documents(), "Ärger mit É und Ω"]):
        features = lineal.TextFeatures(**options, dtype=precision).fit(documents)
        features.transform(documents)
        features.fit_transform(documents)


def _table(precision: str) -> None:
    import pyarrow as pa

    import lineal

    documents = data.documents()
    table = pa.table({"text": documents, "size": np.arange(len(documents)), "kind": ["a", "b"] * (len(documents) // 2)})
    for ngram in (1, 2):
        features = lineal.TableFeatures(text="text", ngram=ngram, dtype=precision)
        _use(lineal.TableClassifier(features=features).fit(table, data.labels(len(documents), 3)), table)


def _tokens() -> None:
    from lineal.features import HashedTokens

    for ngram in (1, 2):
        HashedTokens(bits=10, ngram=ngram).transform(["some words and other words", ""])


# --- every estimator with its defaults


def _defaults() -> Iterator[Task]:
    for layout in CHOICES["layout"].common:
        for precision in PRECISIONS:
            for name in ESTIMATORS if layout in ALL else ANY_LAYOUT:
                yield Task(f"{name}, {layout}, {precision}", partial(_default, name, layout, precision))


def estimator(name: str) -> Any:
    """The class that `ESTIMATORS` calls so."""
    import lineal
    from lineal import dropin

    return getattr(dropin if name.startswith("dropin.") else lineal, name.removeprefix("dropin."))


def _default(name: str, layout: str, precision: str) -> None:
    for size in (NARROW, WIDE):
        for n_classes in CLASSES:
            _fit_default(name, layout, precision, size, n_classes)
    large = data.TALL if layout == "dense" else data.LONG
    if layout in MAIN and takes(name, large):
        for n_classes in MORE_CLASSES:
            _fit_default(name, layout, precision, large, n_classes)


def takes(name: str, size: Size) -> bool:
    """Whether the defaults of an estimator are fitted to rows of this size."""
    return size in (NARROW, WIDE) or not (name in ONLY_SMALL or (size == data.LONG and name in NOT_LONG))


def _fit_default(name: str, layout: str, precision: str, size: Size, n_classes: int) -> None:
    X, y = data.rows(layout, precision, size), data.labels(size.n, n_classes)
    model = estimator(name)().set_params(**SHORTER.get(name, {}))
    _use(model.fit(X, y.astype(np.float64) if name.endswith("Regressor") else y), X)


# --- linear models


def _linear() -> Iterator[Task]:
    losses, penalties, solvers = (CHOICES[option].common for option in ("loss", "penalty", "solver"))
    for precision in PRECISIONS:
        for layout in MAIN:
            for loss in losses:
                for penalty in penalties:
                    name = f"{loss}, {penalty}, {layout}, {precision}"
                    yield Task(name, partial(_fit_linear, layout, precision, loss, penalty, ("auto",)))
                name = f"{loss}, {', '.join(solvers)}, {layout}, {precision}"
                yield Task(name, partial(_fit_linear, layout, precision, loss, "l2", solvers))
            yield Task(f"label sets, {layout}, {precision}", partial(_fit_label_sets, layout, precision))
        for loss in losses:
            yield Task(f"{loss}, many dense rows, {precision}", partial(_fit_many_rows, precision, loss))
            yield Task(f"{loss}, beyond float32, {precision}", partial(_fit_beyond_float32, precision, loss))


def _fit_many_rows(precision: str, loss: str) -> None:
    import lineal

    X = data.rows("dense", precision, data.TALL)
    for n_classes in (2, *MORE_CLASSES):
        y = data.labels(data.TALL.n, n_classes)
        for solver in SECOND.get(loss, ("auto",)):
            _use(lineal.LinearClassifier(loss, solver=solver, max_iter=10).fit(X, y), X)


def _fit_beyond_float32(precision: str, loss: str) -> None:
    import lineal

    for layout in ("dense", "dense, by columns"):
        X = data.rows(layout, precision, data.SHORT)
        for n_classes in (2, max(MORE_CLASSES)):
            y = data.labels(data.SHORT.n, n_classes)
            for solver in SECOND.get(loss, ("auto",)):
                model = lineal.LinearClassifier(loss, alpha=1e-6, tol=1e-10, max_iter=30, solver=solver)
                _use(model.fit(X, y), X)
            if loss == "squared_hinge" and layout == "dense":
                _use(lineal.LinearClassifierCV(n_alphas=3, cv=2).fit(X, y), X)


def _fit_linear(layout: str, precision: str, loss: str, penalty: str, solvers: tuple[str, ...]) -> None:
    import lineal
    from lineal.errors import OptionError

    for size in (NARROW, WIDE):
        X = data.rows(layout, precision, size)
        for n_classes in CLASSES:
            y = data.labels(size.n, n_classes)
            for solver in solvers:
                for max_iter in ITERATIONS:
                    model = lineal.LinearClassifier(loss, penalty, alpha=1e-3, solver=solver, max_iter=max_iter)
                    try:
                        _use(model.fit(X, y), X)
                    except OptionError:  # the solver cannot minimise this
                        break


def _fit_label_sets(layout: str, precision: str) -> None:
    import lineal

    for size in (NARROW, WIDE):
        X, Y = data.rows(layout, precision, size), data.label_sets(size.n)
        for loss in ("squared_hinge", "logistic"):
            _use(lineal.LinearClassifier(loss, alpha=1e-3).fit(X, Y), X)
        y = data.labels(size.n, 3)
        _use(lineal.LinearClassifier(probability=True).fit(X, y), X)
        _use(lineal.LinearClassifier(class_weight="balanced").fit(X, y), X)
        for threshold in ("f1", "balanced"):
            _use(lineal.LinearClassifier(threshold=threshold).fit(X, y), X)


# --- the others


def _others() -> Iterator[Task]:
    for precision in PRECISIONS:
        for layout in MAIN:
            for link in CHOICES["link"].common:
                yield Task(f"link {link}, {layout}, {precision}", partial(_fit_link, layout, precision, link))
        for update in CHOICES["update"].common:
            yield Task(f"update {update}, {precision}", partial(_fit_stages, precision, update))


def _fit_link(layout: str, precision: str, link: str) -> None:
    import lineal

    for size in (NARROW, WIDE):
        X = data.rows(layout, precision, size)
        for n_classes in CLASSES:
            y = data.labels(size.n, n_classes)
            for accelerated in (False, True, "quasi_newton"):
                _use(lineal.LeastSquaresClassifier(link, accelerated=accelerated, max_iter=3).fit(X, y), X)
            _use(lineal.LeastSquaresClassifier(calibration="polynomial", max_iter=3).fit(X, y), X)
            if link != "identity":  # which needs one iteration, and chooses no number of them
                _use(lineal.LeastSquaresClassifier(link, validation_fraction=0.2).fit(X, y), X)


def _fit_stages(precision: str, update: str) -> None:
    import lineal

    for size in (NARROW, WIDE):
        X = data.rows("dense", precision, size)
        for fraction in (None, 0.2):
            model = lineal.StagewiseClassifier(
                update=update, block_size=64, n_blocks=2, validation_fraction=fraction, precision=precision
            )
            _use(model.fit(X, data.labels(size.n, 3)), X)


def _online(folder: str) -> Iterator[Task]:
    for loss in CHOICES["online loss"].common:
        for precision in PRECISIONS:
            for layout in MAIN:
                yield Task(f"online {loss}, {layout}, {precision}", partial(_learn, layout, precision, loss))
        yield Task(f"online {loss}, files", partial(_learn_files, folder, loss))
    for expansion in CHOICES["expansion"].common:
        yield Task(f"online {expansion}, files", partial(_learn_products, folder, expansion))


def _learn(layout: str, precision: str, loss: str) -> None:
    import lineal

    X = data.rows(layout, precision, NARROW)
    for n_classes in CLASSES:
        y = data.labels(NARROW.n, n_classes)
        for passes in (1, 2):
            _use(lineal.OnlineClassifier(loss=loss, passes=passes).fit(X, y), X)
        _use(lineal.OnlineClassifier(loss=loss).partial_fit(X, y), X)


def _learn_files(folder: str, loss: str) -> None:
    import lineal

    for name in ("binary.vw", "rows.vw", "rows.svmlight", "rows.csv"):
        for passes in (1, 2):
            lineal.OnlineClassifier(loss=loss, passes=passes).fit(data.file(folder, name))


def _learn_products(folder: str, expansion: str) -> None:
    import lineal

    for name in ("binary.vw", "rows.vw"):
        lineal.OnlineClassifier(expansion=expansion).fit(data.file(folder, name))
