"""What the commands that train share: options checked before a file is read, names of the data, seconds by phase."""

from __future__ import annotations

import dataclasses
import time
from typing import TYPE_CHECKING, Any

from lineal.cli.flags import flag_of, parse_class_weight, parse_solver_options
from lineal.data.options import ReadOptions
from lineal.errors import OptionError, unknown_value
from lineal.least_squares.options import LeastSquaresOptions
from lineal.linear.options import TrainOptions
from lineal.online.options import TUNE, OnlineOptions
from lineal.stagewise.options import StagewiseOptions

if TYPE_CHECKING:
    from lineal.data.dataset import Dataset


#: Options of the kinds of models that a file can be trained to.
KINDS: dict[str, Any] = {
    "linear": TrainOptions,
    "least_squares": LeastSquaresOptions,
    "stagewise": StagewiseOptions,
    "online": OnlineOptions,
}


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
    own = parse_solver_options(training.get("solver_options"), training.get("solver", "auto"))
    options = TrainOptions(**{**training, "class_weight": weights, "solver_options": own, "verbose": verbose}).checked()
    from lineal import losses, solvers

    solvers.choose(options.solver, losses.get(options.loss), options.get_penalty())
    return options


def options_of(kind: str, given: dict[str, dict[str, Any]], verbose: int, tune: bool) -> Any:
    """Checked options of a kind of model; a flag of another kind is refused by name."""
    if kind not in KINDS:
        raise unknown_value("model_type", kind, KINDS)
    if tune and kind not in ("stagewise", "online"):
        raise OptionError(f"--tune is for --model-type stagewise and --online, not {kind}")
    names = {one: {field.name for field in dataclasses.fields(options)} for one, options in KINDS.items()}
    known = names[kind] | {field.name for field in dataclasses.fields(ReadOptions)}  # which whoever reads the file has
    for name in (name for values in given.values() for name in values):
        if name not in known:
            others = ["--online" if one == "online" else f"--model-type {one}" for one in KINDS if name in names[one]]
            raise OptionError(f"{flag_of(name)} is for {' and '.join(others)}, not {kind}")
    if kind == "linear":
        return train_options(given[kind], verbose)
    values = dict(given[kind])
    if "class_weight" in values:
        values["class_weight"] = parse_class_weight(values["class_weight"])
    if tune and kind == "online":
        if "rate" in values:
            raise OptionError("--tune chooses the rate: leave out --rate, or --tune")
        values["rate"] = TUNE
    if values.get("calibration") not in (None, "polynomial"):
        values["calibration"] = values["calibration"].split(",")
    return KINDS[kind](**{**values, "verbose": verbose}).checked()


def fit_rows(kind: str, rows: Dataset, options: Any, tune: bool) -> tuple[Any, Any]:
    """The model of a data set, and how it came about."""
    from lineal.models.file import check_names

    check_names(rows)
    options = for_labels(options, rows.y)
    given: dict[str, Any] = {"sample_weight": rows.weights, "class_names": rows.class_names}
    found: tuple[Any, Any]
    if kind == "linear":
        from lineal.linear.fit import fit

        found = fit(rows.X, rows.y, options, **given)
    elif kind == "least_squares":
        from lineal.least_squares.fit import fit_least_squares

        found = fit_least_squares(rows.X, rows.y, options, **given)
    else:
        from lineal.stagewise.fit import fit_stagewise

        if tune:
            from lineal.stagewise.search import tuned

            options = tuned(rows.X, rows.y, options, rows.weights)
        found = fit_stagewise(rows.X, rows.y, options, **given)
    return with_names(found[0], rows), found[1]


def for_labels(options: Any, y: Any) -> Any:
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


def with_names(model: Any, rows: Dataset) -> Any:
    """The model with what the file of these rows says about its features."""
    return dataclasses.replace(model, feature_names=rows.feature_names, schema=rows.schema)
