"""Large-scale linear and near-linear classification that says how good each answer is.

Everything public is imported on first use: `import lineal` alone loads neither Numba nor scikit-learn.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"

_HOME = {
    "Dataset": "lineal.data.dataset",
    "LeastSquaresClassifier": "lineal.least_squares.estimator",
    "LinearClassifier": "lineal.linear.estimator",
    "LinearClassifierCV": "lineal.linear.search.estimator",
    "Link": "lineal.least_squares.links",
    "Model": "lineal.linear.model",
    "OnlineClassifier": "lineal.online.estimator",
    "OnlineModel": "lineal.online.model",
    "OnlineRegressor": "lineal.online.estimator",
    "StagewiseClassifier": "lineal.stagewise.estimator",
    "TextFeatures": "lineal.data.terms.text",
    "TableClassifier": "lineal.linear.table",
    "TableFeatures": "lineal.data.tables.table_features",
    "load": "lineal.models.file",
    "read": "lineal.data.read",
    "read_blocks": "lineal.data.read",
    "convert": "lineal.data.binary.layout",
}

#: Modules that are attributes of the package.
_MODULES = ("dropin", "errors", "features")

__all__ = ["__version__", *_MODULES, *sorted(_HOME)]

if TYPE_CHECKING:
    from lineal import dropin as dropin
    from lineal import errors as errors
    from lineal import features as features
    from lineal.data.binary.layout import convert as convert
    from lineal.data.dataset import Dataset as Dataset
    from lineal.data.read import read as read
    from lineal.data.read import read_blocks as read_blocks
    from lineal.data.tables.table_features import TableFeatures as TableFeatures
    from lineal.data.terms.text import TextFeatures as TextFeatures
    from lineal.least_squares.estimator import LeastSquaresClassifier as LeastSquaresClassifier
    from lineal.least_squares.links import Link as Link
    from lineal.linear.estimator import LinearClassifier as LinearClassifier
    from lineal.linear.model import Model as Model
    from lineal.linear.search.estimator import LinearClassifierCV as LinearClassifierCV
    from lineal.linear.table import TableClassifier as TableClassifier
    from lineal.models.file import load as load
    from lineal.online.estimator import OnlineClassifier as OnlineClassifier
    from lineal.online.estimator import OnlineRegressor as OnlineRegressor
    from lineal.online.model import OnlineModel as OnlineModel
    from lineal.stagewise.estimator import StagewiseClassifier as StagewiseClassifier


def __getattr__(name: str) -> Any:
    if name in _MODULES:
        return importlib.import_module(f"lineal.{name}")
    if name not in _HOME:
        raise AttributeError(f"module 'lineal' has no attribute {name!r}")
    return getattr(importlib.import_module(_HOME[name]), name)


def __dir__() -> list[str]:
    return __all__
