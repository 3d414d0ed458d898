"""`lineal train`: from a file to a model file."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

import typer

from lineal.cli import show
from lineal.cli.cluster import ClusterOptions, cluster_of, engine_of
from lineal.cli.files import (
    READS_DATA,
    WRITES,
    WRITES_IMAGE,
    Reads,
    columns_in,
    columns_text,
    read_labelled,
    save_model,
    unseen_in,
    warn_unseen,
    write_history,
)  # fmt: skip
from lineal.cli.flags import flags
from lineal.cli.labels import Classify, check_labels
from lineal.cli.terminal import INTERRUPTED, say
from lineal.cli.training import (
    FAMILIES,
    Clock,
    ModelToWrite,
    TrainingData,
    Verbose,
    announced,
    bad_lines_of,
    fit_rows,
    in_units_of_the_table,
    is_table,
    options_of,
    row_count,
    seconds_text,
    training_rows,
    with_loss_of_table,
)  # fmt: skip
from lineal.cli.wording import for_command_line
from lineal.data.options import ReadOptions
from lineal.errors import OptionError
from lineal.least_squares.options import LeastSquaresOptions
from lineal.linear.options import TrainOptions
from lineal.online.options import OnlineOptions
from lineal.stagewise.options import StagewiseOptions

if TYPE_CHECKING:
    from lineal.data.dataset import Dataset
    from lineal.engine.source import Source
    from lineal.linear.model import Model
    from lineal.problem.solution import Solution


@flags(
    leave_out=("verbose",), training=TrainOptions, least_squares=LeastSquaresOptions, stagewise=StagewiseOptions,
    online_learning=OnlineOptions, cluster=ClusterOptions, reading=ReadOptions,
)  # fmt: skip
def train(
    data: TrainingData,
    model: ModelToWrite,
    model_type: Annotated[str, typer.Option(help=f"Kind of model: {', '.join(FAMILIES)}.")] = "linear",
    online: Annotated[
        bool,
        typer.Option("--online", help="Learn row by row, in constant memory: the same as --model-type online."),
    ] = False,
    regression: Annotated[
        bool, typer.Option("--regression", help="Labels are numbers to predict, not classes (--online).")
    ] = False,
    classify: Classify = False,
    label_sets: Annotated[
        bool, typer.Option("--label-sets", help="Rows can have any number of labels, which --classes names (--online).")
    ] = False,
    classes: Annotated[
        str | None,
        typer.Option(help="All labels, separated by commas; without it, new labels may appear at any time (--online)."),
    ] = None,
    resume: Annotated[
        str | None,
        typer.Option(help="Model file to continue from (--online); can be the same file as --model."),
        Reads(updated_by="model"),
    ] = None,
    tune: Annotated[
        bool,
        typer.Option(
            "--tune",
            help="Choose settings first: bandwidth, ridge and features per stage of stagewise models, on a sample; "
            "for --online the learning rate, by learning with several rates at once.",
        ),
    ] = False,
    validate: Annotated[str | None, typer.Option(help="Labelled file to evaluate the model on."), READS_DATA] = None,
    holdout: Annotated[
        float | None, typer.Option(help="Fraction of the rows to hold out for evaluation, for example 0.2.")
    ] = None,
    history: Annotated[str | None, typer.Option(help="JSON file to write the history of the fit to."), WRITES] = None,
    plot: Annotated[
        str | None,
        typer.Option(help="Image file to plot objective and gap to, for example fit.png."),
        WRITES_IMAGE,
    ] = None,
    verbose: Verbose = None,
    json: show.Json = False,
    *,
    training: dict[str, Any],
    least_squares: dict[str, Any],
    stagewise: dict[str, Any],
    online_learning: dict[str, Any],
    cluster: dict[str, Any],
    reading: dict[str, Any],
) -> int | None:
    """Train a model on a file and save it.

    Ctrl-C ends the training early: the best model so far is saved, and the exit code is 130.
    """
    shown = sys.stderr.isatty() if verbose is None else verbose
    given_online = {**online_learning, **cluster}
    if online or model_type == "online":
        online_learning = engine_of(online_learning, cluster, data)
    else:
        training, least_squares, stagewise = (
            engine_of(values, cluster, data) for values in (training, least_squares, stagewise)
        )
    given = {"linear": training, "least_squares": least_squares, "stagewise": stagewise, "online": online_learning}
    if online and model_type not in ("linear", "online"):
        raise OptionError(f"--online and --model-type {model_type} exclude each other: give one of them")
    model_type = "online" if online else model_type
    options = options_of(model_type, given, int(shown), tune)
    _check_split(data, validate, holdout)
    if model_type == "online":
        from lineal.cli.online import Request, on_workers, train_online

        request = Request(
            data, model, validate, history, plot, regression, label_sets, classes, resume, verbose, json, classify
        )
        request.check(options, holdout, given_online)
        with cluster_of(cluster) as workers:
            return train_online(request, on_workers(options, workers, given_online), reading)
    for flag, wanted in (
        ("--regression", regression), ("--label-sets", label_sets), ("--classes", classes), ("--resume", resume),
    ):  # fmt: skip
        if wanted:
            raise OptionError(f"{flag} is for --online")

    seed = given[model_type].get("random_state", 0)
    outputs = _Outputs(model, history, plot, verbose is not False or json, json)
    with cluster_of(cluster):
        return _train(
            _Rows(data, validate, holdout, seed, reading, classify),
            _Model(model_type, options, tune, given[model_type]),
            outputs,
        )


class _Rows(NamedTuple):
    """What to train and to measure on."""

    data: str
    validate: str | None
    holdout: float | None
    seed: int
    reading: dict[str, Any]
    classify: bool


class _Model(NamedTuple):
    """What to train."""

    kind: str
    options: Any
    tune: bool
    given: dict[str, Any]


class _Outputs(NamedTuple):
    """Where results go."""

    model: str
    history: str | None
    plot: str | None
    is_shown: bool
    as_json: bool


def _train(given: _Rows, wanted: _Model, outputs: _Outputs) -> int | None:
    from lineal.data.dataset import Dataset

    clock = Clock()
    has_own_loss = wanted.kind == "linear" and is_table(given.data, given.reading)
    rows: Any = training_rows(given.data, wanted.options, given.reading)
    check_labels(rows, given.data, given.classify)
    options = with_loss_of_table(wanted.options, wanted.given, rows) if has_own_loss else wanted.options
    if given.holdout is not None and not isinstance(rows, Dataset):
        raise OptionError("--holdout needs rows in memory: measure on another file with --validate")
    measured = None if given.validate is None else read_labelled(given.validate, given.reading, rows.schema)
    clock.lap("read")
    bad_lines = bad_lines_of(rows) + (0 if measured is None else measured.bad_lines)
    if bad_lines:
        say(f"warning: {bad_lines} malformed lines were skipped")
    if measured is not None:
        warn_unseen(unseen_in(measured))
    on = "training" if measured is None else "validation"
    if given.holdout is not None:
        from lineal.data.holdout import split

        (rows, measured), on = split(rows, given.holdout, given.seed), "holdout"
    with announced(options):
        fitted, solution = fit_rows(wanted.kind, rows, options, wanted.tune)
    clock.lap("fit")
    save_model(in_units_of_the_table(fitted, rows), outputs.model)
    if outputs.history is not None:
        write_history(outputs.history, solution.history)
    if outputs.plot is not None:
        from lineal.report import plot_history

        plot_history(solution.history, outputs.plot)
    clock.lap("save")
    interrupted = solution.status == "interrupted"
    if interrupted:
        say(f"{solution.message}; the best model so far is in {outputs.model}")
    elif solution.needs_warning:
        say(f"warning: {for_command_line(solution.message)}")
    if outputs.is_shown:
        result = {"model": outputs.model, **_result(rows, measured, on, fitted, solution), "bad_lines": bad_lines}
        clock.lap("measure")
        _show(result | {"seconds": clock.seconds}, solution, outputs.as_json)
    return INTERRUPTED if interrupted else None


def _check_split(data: str, validate: str | None, holdout: float | None) -> None:
    if validate is not None and holdout is not None:
        raise OptionError("--validate and --holdout exclude each other: give one of them")
    if data == validate == "-":
        raise OptionError("DATA and --validate are both standard input, which can be read once: name a file")
    if holdout is not None and not 0.0 < holdout < 1.0:
        raise OptionError(f"--holdout {holdout:g} is not a share between 0 and 1")


def _result(
    rows: Dataset | Source, measured: Dataset | None, on: str, model: Model, solution: Solution
) -> dict[str, Any]:
    """The outcome of the training, in plain values."""
    return {
        "rows": row_count(rows),
        **columns_in(rows),
        "features": model.n_features,
        "classes": len(model.classes),
        **({"loss": model.loss} if model.kind == "linear" else {}),
        "status": solution.status,
        "message": solution.message,
        "solver": solution.took,
        "iterations": max(0, len(solution.history) - 1),
        "certificate": solution.certificate.to_json(),
        **({} if measured is None and not solution.is_answered else _measures(rows, measured, on, model)),
    }


def _measures(rows: Dataset | Source, measured: Dataset | None, on: str, model: Model) -> dict[str, Any]:
    """The measures on rows that were not trained on; without such rows, the main one on those of training."""
    from lineal.models.evaluation import headline_of, summary_of

    if measured is None:
        name, value, n_measured = headline_of(model, rows)
        return {f"{on}_{name}": value, f"{on}_rows": n_measured}
    found, n_measured = summary_of(model, measured)
    return {**{f"{on}_{name}": value for name, value in found.items()}, f"{on}_rows": n_measured}


def _show(result: dict[str, Any], solution: Solution, as_json: bool) -> None:
    if as_json:
        show.as_json(result)
        return
    hidden = ("message", "bad_lines", "seconds", "certificate")
    entries = {name: value for name, value in result.items() if name not in hidden}
    if "columns" in entries:
        entries["columns"] = columns_text(entries["columns"])
    entries["certificate"] = str(solution.certificate)
    entries["seconds"] = seconds_text(result["seconds"])
    show.pairs("lineal train", entries)
