"""Parts that the commands which train share: their arguments, options checked before a file is read, time by phase."""

from __future__ import annotations

import dataclasses
import importlib
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

import typer

from lineal.cli.files import READS_DATA, STDIN, WRITES, note_header, read_labelled, with_labels
from lineal.cli.flags import flag_of, parse_class_weight, parse_solver_options, parse_threshold
from lineal.cli.terminal import say
from lineal.data.options import ReadOptions
from lineal.errors import OptionError, unknown_value
from lineal.least_squares.options import LeastSquaresOptions
from lineal.linear.options import TrainOptions
from lineal.online.options import TUNE, OnlineOptions
from lineal.stagewise.options import StagewiseOptions

if TYPE_CHECKING:
    from lineal.data.dataset import Dataset
    from lineal.engine.source import Source

TrainingData = Annotated[
    str,
    typer.Argument(metavar="DATA", help="Training data: a file, a quoted glob, or - for standard input."),
    READS_DATA,
]
ModelToWrite = Annotated[str, typer.Option("--model", "-m", help="Model file to write.", show_default=False), WRITES]
Verbose = Annotated[
    bool | None,
    typer.Option("--verbose/--quiet", help="Show progress; by default only on a terminal.", show_default=False),
]


class Family(NamedTuple):
    """A kind of model: its options, and the module and names of the functions that fit it, if there are any.

    `function` takes arrays, and `of_source` rows of files or of a cluster.
    """

    options: Any
    module: str = ""
    function: str = ""
    of_source: str = ""


#: The kinds of models that can be trained from a file.
FAMILIES = {
    "linear": Family(TrainOptions, "lineal.linear.fit", "fit", "fit_rows"),
    "least_squares": Family(
        LeastSquaresOptions, "lineal.least_squares.fit", "fit_least_squares", "fit_least_squares_rows"
    ),
    "stagewise": Family(StagewiseOptions, "lineal.stagewise.fit", "fit_stagewise", "fit_stagewise_rows"),
    "online": Family(OnlineOptions),
}


@contextmanager
def announced(options: Any) -> Iterator[None]:
    """Say so if a fit in this context continues from its checkpoint."""
    if options.checkpoint is None:
        yield
        return
    from lineal.problem.checkpoint import listener

    before = listener.set(lambda line: say(f"note: {line}"))
    try:
        yield
    finally:
        listener.reset(before)


class Clock:
    """Measures seconds by phase."""

    def __init__(self) -> None:
        self.seconds: dict[str, float] = {}
        self._last = time.perf_counter()

    def lap(self, phase: str) -> None:
        """End a phase."""
        now = time.perf_counter()
        self.seconds[phase], self._last = now - self._last, now


def seconds_text(seconds: dict[str, float]) -> str:
    """Seconds by phase, as a person reads them."""
    return ", ".join(f"{phase} {value:.2f}" for phase, value in seconds.items())


def train_options(training: dict[str, Any], verbose: int) -> TrainOptions:
    """Checked options of a linear model: what cannot be honoured is refused before a large file is read."""
    weights = parse_class_weight(training.get("class_weight"))
    own = parse_solver_options(training.get("solver_options"), training.get("solver", "auto"))
    read = {
        "class_weight": weights, "solver_options": own, "threshold": parse_threshold(training.get("threshold")),
        "verbose": verbose,
    }  # fmt: skip
    options = TrainOptions(**{**training, **read}).checked()
    from lineal import losses, solvers

    solvers.choose(options.solver, losses.get(options.loss), options.get_penalty())
    return options


def options_of(kind: str, given: dict[str, dict[str, Any]], verbose: int, tune: bool) -> Any:
    """Checked options of a kind of model; a flag of another kind is refused by name."""
    if kind not in FAMILIES:
        raise unknown_value("model_type", kind, FAMILIES)
    if tune and kind not in ("stagewise", "online"):
        raise OptionError(f"--tune is for --model-type stagewise and --online, not {kind}")
    names = {one: {field.name for field in dataclasses.fields(family.options)} for one, family in FAMILIES.items()}
    known = names[kind] | {field.name for field in dataclasses.fields(ReadOptions)}
    for name in (name for values in given.values() for name in values):
        if name not in known:
            others = ["--online" if one == "online" else f"--model-type {one}" for one in names if name in names[one]]
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
    return FAMILIES[kind].options(**{**values, "verbose": verbose}).checked()


def training_rows(data: str, options: Any, reading: dict[str, Any]) -> Dataset | Source:
    """The rows to train on: in memory, or where the option `engine` says. Numbers of tables are standardised."""
    if "scale" not in reading and is_table(data, reading):
        reading = {**reading, "scale": "standard"}
    if data == STDIN:
        return read_labelled(data, reading)
    from lineal.data.dataset import Dataset
    from lineal.linear.rows import rows_of

    rows = rows_of(data, None, options.engine, options.memory_budget, reading=reading)
    assert rows is not None  # that is the answer for arrays
    if not isinstance(rows, Dataset):
        return rows
    note_header(data, rows, reading)
    return with_labels(rows, data)


def with_loss_of_table(options: Any, given: dict[str, Any], rows: Dataset | Source) -> Any:
    """The options of a linear model with the default loss of tables, if neither loss nor solver was given."""
    if "loss" in given or "solver" in given:
        return options
    from lineal.data.dataset import Dataset
    from lineal.linear.default_loss import loss_of_table

    assert isinstance(rows, Dataset)
    assert rows.schema is not None  # that is how tables are read
    return dataclasses.replace(options, loss=loss_of_table(rows.schema, rows.y))


def is_table(data: str, reading: dict[str, Any]) -> bool:
    """Whether files are tables with named columns, not matrices or converted files."""
    from lineal.data.binary.layout import is_layout
    from lineal.data.formats import FORMATS, format_of
    from lineal.data.source import expand

    kind = reading.get("format", "auto")
    first = expand(data)[0]
    kind = format_of(first) if kind == "auto" else kind
    if kind not in FORMATS or FORMATS[kind].reader != FORMATS["csv"].reader:
        return False
    return not (kind == "arrow" and first != STDIN and is_layout(first))


def row_count(rows: Dataset | Source) -> int:
    """Number of the rows."""
    from lineal.data.dataset import Dataset

    if isinstance(rows, Dataset):
        return len(rows)
    from lineal.problem.encoder import survey_of

    return survey_of(rows).shape[0]


def bad_lines_of(rows: Dataset | Source) -> int:
    """Number of malformed lines that were skipped; a converted file has none."""
    from lineal.data.dataset import Dataset

    return rows.bad_lines if isinstance(rows, Dataset) else 0


def columns_of(rows: Dataset | Source) -> tuple[int, int]:
    """Number of features and of labels."""
    import numpy as np

    from lineal.data.dataset import Dataset

    if isinstance(rows, Dataset):
        y: Any = rows.y
        return rows.X.shape[1], y.shape[1] if rows.is_multilabel else len(np.unique(y))
    from lineal.problem.encoder import survey_of

    survey = survey_of(rows)
    return survey.shape[1], survey.labels.n_sets or len(survey.labels.classes)


def fit_rows(kind: str, rows: Dataset | Source, options: Any, tune: bool) -> tuple[Any, Any]:
    """The model of the rows, and the solution (or run) that it comes from."""
    from lineal.data.dataset import Dataset
    from lineal.models.file import check_names

    check_names(rows)
    options = for_labels(options, rows)
    family = FAMILIES[kind]
    if not isinstance(rows, Dataset):
        if tune:
            from lineal.stagewise.search import tuned_rows

            options = tuned_rows(rows, options)
        fit_source = importlib.import_module(family.module).__dict__[family.of_source]
        model, solution = fit_source(rows, options)
        return with_names(model, rows), solution
    if tune:
        from lineal.stagewise.search import tuned

        options = tuned(rows.X, rows.y, options, rows.weights)
    fit = importlib.import_module(family.module).__dict__[family.function]
    model, solution = fit(rows.X, rows.y, options, sample_weight=rows.weights, class_names=rows.class_names)
    return with_names(model, rows), solution


def for_labels(options: Any, rows: Dataset | Source) -> Any:
    """The options with class weights by label instead of by the text of the label.

    A text that is not a label stays as it is; `fit` refuses it.
    """
    if not isinstance(options.class_weight, dict):
        return options
    import numpy as np

    from lineal.data.dataset import Dataset, labels_by_text

    if isinstance(rows, Dataset):
        if rows.is_multilabel:
            return options
        labels = labels_by_text(np.unique(rows.y))
    else:
        from lineal.problem.encoder import survey_of

        labels = labels_by_text(survey_of(rows).labels.classes)
    weights = {labels.get(text, text): weight for text, weight in options.class_weight.items()}
    return dataclasses.replace(options, class_weight=weights)


def in_units_of_the_table(model: Any, rows: Dataset | Source) -> Any:
    """The model as it is saved: a linear one has the weights of numbers as they are in the table."""
    from lineal.linear.model import Model

    if not isinstance(model, Model) or rows.schema is None or rows.schema.format != "table":
        return model
    from lineal.data.tables.encode import Encoding

    return model.in_units_of(Encoding.of_schema(rows.schema))


def with_names(model: Any, rows: Dataset | Source) -> Any:
    """The model with the feature names and the schema of the rows it was trained on."""
    return dataclasses.replace(model, feature_names=rows.feature_names, schema=rows.schema)
