"""`lineal path`: choose the strength of the penalty by cross-validation, from a file to a model file."""

from __future__ import annotations

import math
import sys
from typing import TYPE_CHECKING, Annotated, Any

import typer

from lineal.cli import show
from lineal.cli.cluster import ClusterOptions, cluster_of, engine_of
from lineal.cli.files import WRITES_IMAGE, columns_in, columns_text, save_model
from lineal.cli.flags import flags
from lineal.cli.labels import Classify, check_labels
from lineal.cli.terminal import INTERRUPTED, say
from lineal.cli.training import (
    Clock,
    ModelToWrite,
    TrainingData,
    Verbose,
    bad_lines_of,
    columns_of,
    for_labels,
    in_units_of_the_table,
    is_table,
    row_count,
    seconds_text,
    train_options,
    training_rows,
    with_loss_of_table,
    with_names,
)  # fmt: skip
from lineal.cli.wording import for_command_line
from lineal.data.options import ReadOptions
from lineal.linear.options import TrainOptions
from lineal.linear.search.options import PathOptions

if TYPE_CHECKING:
    from lineal.data.dataset import Dataset
    from lineal.engine.source import Source
    from lineal.linear.model import Model
    from lineal.linear.search.result import Search
    from lineal.problem.solution import Solution


@flags(
    leave_out=("verbose", "alpha", "checkpoint"), searching=PathOptions, training=TrainOptions, cluster=ClusterOptions,
    reading=ReadOptions,
)  # fmt: skip
def path(
    data: TrainingData,
    model: ModelToWrite,
    plot: Annotated[
        str | None, typer.Option(help="Image file to plot scores and weights to, for example path.png."), WRITES_IMAGE
    ] = None,
    plot_sparsity: Annotated[
        str | None,
        typer.Option(help="Image file to plot scores against the percentage of features in use to."),
        WRITES_IMAGE,
    ] = None,
    classify: Classify = False,
    verbose: Verbose = None,
    json: show.Json = False,
    *,
    searching: dict[str, Any],
    training: dict[str, Any],
    cluster: dict[str, Any],
    reading: dict[str, Any],
) -> int | None:
    """Choose the strength of the penalty by cross-validation, train with it and save the model.

    Prints one line per strength: the mean score of held-out rows and its standard error; for the fit to all rows, the
    number and percentage of features in use, the number of non-zero weights, and how close its objective is certified
    to be to the best possible one; seconds. Ctrl-C ends the search early: the best model so far is saved, and the exit
    code is 130.
    """
    shown = sys.stderr.isatty() if verbose is None else verbose
    options = train_options(engine_of(training, cluster, data), int(shown))
    wanted = PathOptions(**searching).checked()
    clock = Clock()
    with cluster_of(cluster):
        has_own_loss = is_table(data, reading)
        rows = training_rows(data, options, reading)
        check_labels(rows, data, classify)
        if has_own_loss:
            options = with_loss_of_table(options, training, rows)
        clock.lap("read")
        bad_lines = bad_lines_of(rows)
        if bad_lines:
            say(f"warning: {bad_lines} malformed lines were skipped")
        fitted, solution, found = _search(rows, options, wanted, keep_path=plot is not None and _is_small(rows))
        n_rows = row_count(rows)
    clock.lap("search")
    save_model(in_units_of_the_table(fitted, rows), model)
    if plot is not None:
        from lineal.report import plot_path

        plot_path(found, plot)
    if plot_sparsity is not None:
        from lineal.report import plot_sparsity as draw_sparsity

        draw_sparsity(found, plot_sparsity)
    clock.lap("save")
    _warn(found, solution, options.tol, model)
    if verbose is not False or json:
        _show(_result(model, n_rows, fitted, solution, found, clock.seconds), solution, json)
    return INTERRUPTED if found.status == "interrupted" else None


def _is_small(rows: Dataset | Source) -> bool:
    """Whether the weights are few enough to plot each of them."""
    from lineal.report.path import MAX_LINES

    d, k = columns_of(rows)
    return d * k <= MAX_LINES


def _search(
    rows: Dataset | Source, options: TrainOptions, wanted: PathOptions, keep_path: bool
) -> tuple[Model, Solution, Search]:
    from lineal.linear.search.run import search_rows
    from lineal.models.file import check_names

    check_names(rows)
    model, solution, found = search_rows(rows, for_labels(options, rows), wanted, keep_path=keep_path)
    return with_names(model, rows), solution, found


def _warn(found: Search, solution: Solution, tol: float, model: str) -> None:
    if not found.is_scored:
        say(
            f"the search ended early ({found.status}), before any strength was scored on all folds; the model in "
            f"{model} has the largest strength, {found.alpha:g}: {solution.message}"
        )
    elif found.status != "complete":
        say(f"the search ended early ({found.status}); the best model so far is in {model}: {solution.message}")
    elif found.missed:
        message = for_command_line(solution.message)
        say(f"warning: {found.missed} fits missed the tolerance {tol:g}; the model: {message}")
    if found.warning is not None:
        say(f"warning: {for_command_line(found.warning)}")


def _result(
    path: str, rows: int, model: Model, solution: Solution, found: Search, seconds: dict[str, float]
) -> dict[str, Any]:
    chosen = found.rows()[found.chosen]
    return {
        "model": path,
        "rows": rows,
        **columns_in(model),
        "features": model.n_features,
        "classes": len(model.classes),
        "loss": model.loss,
        "folds": found.scores.shape[1],
        "measure": found.measure,
        "alpha_max": found.alpha_max,
        "alpha": found.alpha,
        "best_alpha": float(found.alphas[found.best]),
        "score": chosen["score"],
        "se": chosen["se"],
        "features_used": chosen["nonzero_rows"],
        "status": solution.status if found.status == "complete" else found.status,
        "certificate": solution.certificate.to_json(),
        "path": found.rows(),
        "seconds": seconds,
    }


def _show(result: dict[str, Any], solution: Solution, as_json: bool) -> None:
    if as_json:
        show.as_json(result)
        return
    is_gap = solution.certificate.kind == "gap"
    columns = (
        "alpha",
        result["measure"],
        "se",
        "features",
        "%",
        "non-zero",
        "within" if is_gap else "violation",
        "seconds",
    )
    formats = ("{:.4g}", "{:.4f}", "{:.4f}", "{}", "{:.3g}", "{}", "{:.2g} %" if is_gap else "{:.2g}", "{:.2f}")
    is_scored = math.isfinite(result["score"])
    marks = {"best": "best_alpha", "chosen": "alpha"} if is_scored else {"chosen": "alpha"}
    lines = [
        [form.format(value) if _is_known(value) else None for form, value in zip(formats, _with_percent(row, is_gap))]
        + [", ".join(word for word, name in marks.items() if row["alpha"] == result[name])]
        for row in result["path"]
    ]
    show.table("lineal path", (*columns, ""), lines)
    hidden = ("path", "certificate", "seconds")
    entries = {name: value for name, value in result.items() if name not in hidden}
    if not is_scored:
        del entries["best_alpha"], entries["se"]
        entries["score"] = "none: the search ended before any strength was scored on all folds"
    if result["alpha_max"] is None:
        del entries["alpha_max"]
    if "columns" in entries:
        entries["columns"] = columns_text(entries["columns"])
    entries["certificate"] = str(solution.certificate)
    entries["seconds"] = seconds_text(result["seconds"])
    show.pairs("lineal path", entries)


def _with_percent(row: dict[str, Any], is_gap: bool) -> list[Any]:
    """The values of a row of the path, with a gap in percent."""
    return [100.0 * value if name == "gap" and is_gap and value is not None else value for name, value in row.items()]


def _is_known(value: float | None) -> bool:
    return value is not None and math.isfinite(value)
