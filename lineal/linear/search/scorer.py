"""Scorers of scikit-learn in a search for α: they get a fitted estimator and copies of the rows held out."""

from __future__ import annotations

from inspect import Parameter, isfunction, signature
from typing import Any, NamedTuple

import numpy as np

from lineal.core.scikit import get_config
from lineal.errors import OptionError
from lineal.linear.decisions import RULES
from lineal.linear.estimator import LinearClassifier
from lineal.linear.model import Model
from lineal.linear.thresholds import HELD_OUT

#: Rules whose thresholds are chosen after the search, so that its models have none.
AFTER_SEARCH = (*HELD_OUT, *RULES)


class Rows(NamedTuple):
    """All rows of a search."""

    X: Any
    y: Any
    sample_weight: np.ndarray | None


class _Searched(LinearClassifier):
    """A model of the search as scikit-learn sees it: what comes after the search is refused."""

    is_decided: bool = True

    def predict(self, X: Any) -> Any:
        """Labels, if no thresholds are to be chosen."""
        if not self.is_decided:
            raise OptionError(
                "this scoring measures predictions, and the threshold is chosen after the search: use a measure of "
                "scores or probabilities, as 'roc_auc' or 'average_precision', or no threshold"
            )
        return super().predict(X)


def takes_weights(estimator: Any, scorer: Any, sample_weight: Any) -> bool:
    """Whether a scorer gets the weights of the rows: always, or where metadata are routed, as it requests them."""
    if sample_weight is None:
        return False
    if get_config()["enable_metadata_routing"]:
        from sklearn.utils.metadata_routing import process_routing

        return "sample_weight" in process_routing(estimator, "fit", sample_weight=sample_weight).scorer.score
    if isfunction(scorer) and "sample_weight" not in (known := signature(scorer).parameters) and not any(
        entry.kind is Parameter.VAR_KEYWORD for entry in known.values()
    ):  # fmt: skip
        raise OptionError(
            f"scoring={scorer.__name__!r} is a function without the parameter sample_weight, and rows have weights: "
            "add it, or leave out the weights"
        )
    return True


class SklearnScorer:
    """A scorer of scikit-learn as the search calls it. Copies the rows held out."""

    greater_is_better = True  # so scikit-learn's scorers are made

    def __init__(self, scorer: Any, scoring: Any, is_decided: bool, rows: Rows) -> None:
        self.scorer, self.is_decided, self.rows = scorer, is_decided, rows
        self.name = scoring if isinstance(scoring, str) else getattr(scorer, "__name__", "score")

    def __call__(self, model: Model, rows: np.ndarray) -> float:
        """Score of a model on the rows with these indices."""
        fitted = _Searched(loss=model.loss)
        fitted.model_, fitted.n_features_in_, fitted.is_decided = model, model.n_features, self.is_decided
        X, y, sample_weight = self.rows
        weights = {} if sample_weight is None else {"sample_weight": sample_weight[rows]}
        try:
            value = self.scorer(fitted, X[rows], y[rows], **weights)
        except AttributeError as error:
            if model.has_probabilities:
                raise
            raise OptionError(
                f"scoring={self.name!r} needs what the models of a search with loss {model.loss!r} do not have: for "
                "probabilities use 'logistic' or 'softmax'"
            ) from error
        if not np.ndim(value) == 0 or not np.isfinite(value):
            raise OptionError(f"scoring={self.name!r} gave {value!r}: a scorer must give one finite number")
        return float(value)
