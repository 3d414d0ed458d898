"""What the commands that train share: options checked before a file is read, names of the data, seconds by phase."""

from __future__ import annotations

import dataclasses
import time
from typing import TYPE_CHECKING, Any

from lineal.cli.flags import parse_class_weight
from lineal.options import TrainOptions

if TYPE_CHECKING:
    from lineal.data.dataset import Dataset
    from lineal.model import Model


class Clock:
    """Seconds by phase."""

    def __init__(self) -> None:
        self.seconds: dict[str, float] = {}
        self._last = time.perf_counter()

    def lap(self, phase: str) -> None:
        """End a phase."""
        now = time.perf_counter()
        self.seconds[phase], self._last = now - self._last, now


def train_options(training: dict[str, Any], verbose: int) -> TrainOptions:
    """Options that can be honoured; what cannot is said before a large file is read."""
    weights = parse_class_weight(training.get("class_weight"))
    options = TrainOptions(**{**training, "class_weight": weights, "verbose": verbose}).checked()
    from lineal import losses, solvers

    solvers.choose(options.solver, losses.get(options.loss), options.get_penalty())
    return options


def for_labels(options: TrainOptions, y: Any) -> TrainOptions:
    """Options with class weights by label instead of by its text.

    A text that is no label stays, for `fit` to complain about.
    """
    if not isinstance(options.class_weight, dict) or getattr(y, "ndim", 1) != 1:
        return options
    import numpy as np

    labels = {str(label): label for label in np.unique(y).tolist()}
    labels |= {f"{label:g}": label for label in labels.values() if isinstance(label, float)}
    weights = {labels.get(text, text): weight for text, weight in options.class_weight.items()}
    return dataclasses.replace(options, class_weight=weights)


def with_names(model: Model, rows: Dataset) -> Model:
    """The model with what the file of these rows says about its features."""
    return dataclasses.replace(model, feature_names=rows.feature_names, schema=rows.schema)
