"""Large-scale linear and near-linear classification, with a certificate on every answer.

Everything public is imported on first use: `import lineal` alone loads neither Numba nor scikit-learn.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"

_HOME = {
    "Dataset": "lineal.data.dataset",
    "LeastSquaresClassifier": "lineal.estimators.least_squares",
    "LinearClassifier": "lineal.estimators.linear",
    "LinearClassifierCV": "lineal.estimators.linear_cv",
    "Link": "lineal.links",
    "Model": "lineal.model",
    "OnlineClassifier": "lineal.estimators.online",
    "OnlineModel": "lineal.online_model",
    "OnlineRegressor": "lineal.estimators.online",
    "StagewiseClassifier": "lineal.estimators.stagewise",
    "load": "lineal.model",
    "read": "lineal.data.read",
    "read_blocks": "lineal.data.read",
    "convert": "lineal.data.layout",
}

#: Modules that are attributes of the package.
_MODULES = ("dropin", "errors", "features")

__all__ = ["__version__", *_MODULES, *sorted(_HOME)]

if TYPE_CHECKING:
    from lineal import dropin as dropin
    from lineal import errors as errors
    from lineal import features as features
    from lineal.data.dataset import Dataset as Dataset
    from lineal.data.layout import convert as convert
    from lineal.data.read import read as read
    from lineal.data.read import read_blocks as read_blocks
    from lineal.estimators.least_squares import LeastSquaresClassifier as LeastSquaresClassifier
    from lineal.estimators.linear import LinearClassifier as LinearClassifier
    from lineal.estimators.linear_cv import LinearClassifierCV as LinearClassifierCV
    from lineal.estimators.online import OnlineClassifier as OnlineClassifier
    from lineal.estimators.online import OnlineRegressor as OnlineRegressor
    from lineal.estimators.stagewise import StagewiseClassifier as StagewiseClassifier
    from lineal.links import Link as Link
    from lineal.model import Model as Model
    from lineal.model import load as load
    from lineal.online_model import OnlineModel as OnlineModel


def __getattr__(name: str) -> Any:
    if name in _MODULES:
        return importlib.import_module(f"lineal.{name}")
    if name not in _HOME:
        raise AttributeError(f"module 'lineal' has no attribute {name!r}")
    return getattr(importlib.import_module(_HOME[name]), name)


def __dir__() -> list[str]:
    return __all__
