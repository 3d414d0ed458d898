"""scikit-learn's own linear classifiers, fitted by lineal: change one import line of a program, and nothing else.

`LinearSVC`, `LogisticRegression`, `RidgeClassifier` and `SGDClassifier` are subclasses of scikit-learn's: parameters,
attributes, predictions, tags and `isinstance` are theirs; only `fit` (and `partial_fit`) is lineal's. Parameters that
cannot be honoured raise an error that names them.

This folder may import everything but `cli` and `report`. To add a class, write a file whose `fit` turns scikit-learn's
parameters into lineal's (`problem.py` has the common parts), and name the class in `_HOME`, `__all__` and below.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

_HOME = {
    "LinearSVC": "lineal.dropin.svc",
    "LogisticRegression": "lineal.dropin.logistic",
    "RidgeClassifier": "lineal.dropin.ridge",
    "SGDClassifier": "lineal.dropin.sgd",
}

__all__ = ["LinearSVC", "LogisticRegression", "RidgeClassifier", "SGDClassifier"]

if TYPE_CHECKING:
    from lineal.dropin.logistic import LogisticRegression as LogisticRegression
    from lineal.dropin.ridge import RidgeClassifier as RidgeClassifier
    from lineal.dropin.sgd import SGDClassifier as SGDClassifier
    from lineal.dropin.svc import LinearSVC as LinearSVC


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module 'lineal.dropin' has no attribute {name!r}: it has {', '.join(__all__)}")
    importlib.import_module("lineal.core.scikit")  # first: it imports scikit-learn in a third of the time
    return getattr(importlib.import_module(_HOME[name]), name)


def __dir__() -> list[str]:
    return __all__
