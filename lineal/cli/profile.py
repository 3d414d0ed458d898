"""The profile of a data file: what its columns hold, its classes, its scales, and how it would be trained on."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from scipy import sparse

from lineal.cli import show
from lineal.cli.files import note_header
from lineal.cli.labels import check_values
from lineal.cli.terminal import say
from lineal.cli.training import is_table, with_loss_of_table
from lineal.data.dataset import Dataset
from lineal.data.formats import named_format
from lineal.data.source import STDIN
from lineal.errors import DataError

if TYPE_CHECKING:
    from lineal.data.tables.encode import Encoding

#: Bytes of a table's first rows, as they are in memory, from which its profile is made.
PROFILE_BYTES = 64 << 20

#: Number of columns and of classes that are shown without --json.
SHOWN = 50


def is_data(path: str, reading: dict[str, Any]) -> bool:
    """Whether a file holds data, not a model: by its name or the option `format`, unless it begins like a model."""
    if path == STDIN or "format" in reading:
        return True
    if named_format(path) is None:
        return False
    try:
        with open(path, "rb") as file:
            head = file.read(10)  # a model file begins with the length of its header in 8 bytes, of which the last is 0
            return head[7:] != b'\0{"'
    except OSError:  # a glob, or the reader says what is wrong
        return True


def show_profile(path: str, reading: dict[str, Any], as_json: bool) -> None:
    """Read a data file, or the first rows of a large table, and print its profile."""
    from lineal.data.read import read_first

    is_encoded = is_table(path, reading)  # as `lineal train` does it, on which the choice of the solver depends
    if is_encoded:
        reading = {"scale": "standard", **reading}
    data, is_cut = read_first(path, PROFILE_BYTES, **reading)
    note_header(path, data, reading)
    result = {"file": path, **profile(data, path, is_encoded), "has_more_rows": is_cut}
    if is_cut:
        say(f"note: {path} has more rows: this is the profile of the first {len(data)}")
    if as_json:
        show.as_json(result)
        return
    columns, classes = result.pop("columns", None), result.pop("classes")
    if result["note"] is not None:
        say(f"warning: {result['note']}")
    del result["note"], result["has_more_rows"]
    show.pairs(f"lineal inspect {path}", {name: value for name, value in result.items() if value is not None})
    if columns:
        heads = ("column", "holds", "missing", "features", "mean", "sd", "min", "max")
        show.table("columns", heads, [[one.get(head) for head in heads] for one in columns[:SHOWN]])
    if classes:
        rows = [[str(one["class"]), one["rows"], f"{one['share']:.1%}"] for one in classes[:SHOWN]]
        show.table("classes", ["class", "rows", "share"], rows)
    for what, all_of_them in (("columns", columns or []), ("classes", classes or [])):
        if len(all_of_them) > SHOWN:
            say(f"note: {len(all_of_them) - SHOWN} more {what}: --json lists all of them")


def profile(data: Dataset, path: str, is_encoded: bool) -> dict[str, Any]:
    """The profile in plain values; `path` is what the messages call the file.

    `is_encoded`: the rows are those of a table whose columns became numbers when it was read.
    """
    has_table = data.schema is not None and data.schema.format == "table"
    found: dict[str, Any] = {
        "rows": len(data),
        "features": int(data.X.shape[1]),
        "nonzero": _nonzero(data.X) / max(1, data.X.shape[0] * data.X.shape[1]),
        "bad_lines": data.bad_lines or None,
    }
    means, deviations, lowest, highest = _statistics(data.X)
    if has_table:
        from lineal.data.tables.encode import Encoding

        assert data.schema is not None
        encoding = Encoding.of_schema(data.schema)
        found["label"] = None if encoding.label is None else f"{encoding.label} ({encoding.label_chosen})"
        found["weight"] = encoding.weight
        shifts, scales = encoding.scaling()  # back to the units of the table
        means, lowest, highest = (values * scales + shifts for values in (means, lowest, highest))
        found["columns"] = _columns(encoding, data.X, means, deviations * scales, lowest, highest)
        spreads = [one["sd"] for one in found["columns"] if one.get("sd")]
    else:
        spreads = deviations[deviations > 0.0].tolist()
        found["weight"] = None if data.weights is None else "given"
    found["scales"] = f"standard deviations from {min(spreads):.3g} to {max(spreads):.3g}" if spreads else None
    return found | _of_labels(data, path, is_encoded)


def _nonzero(X: Any) -> float:
    return float(X.nnz if sparse.issparse(X) else np.count_nonzero(X))


def _statistics(X: Any) -> tuple[np.ndarray, ...]:
    """Mean, standard deviation, minimum and maximum of every column."""
    n = X.shape[0]
    if not sparse.issparse(X):
        return tuple(np.asarray(f(axis=0), np.float64) for f in (X.mean, X.std, X.min, X.max))
    X = X.astype(np.float64)
    means = np.asarray(X.sum(axis=0)).ravel() / n
    squares = np.asarray(X.multiply(X).sum(axis=0)).ravel() / n
    deviations = np.sqrt(np.maximum(squares - means**2, 0.0))
    return means, deviations, X.min(axis=0).toarray().ravel(), X.max(axis=0).toarray().ravel()


def _columns(encoding: Encoding, X: Any, *statistics: np.ndarray) -> list[dict[str, Any]]:
    """What each column of a table holds, how many of its cells are missing, and the numbers of columns of numbers."""
    means, deviations, lowest, highest = statistics
    widths = {column.name: terms.width for column, terms in encoding.texts}
    found: list[dict[str, Any]] = []
    for column, first in zip(encoding.columns, encoding.offsets):
        if column.kind == "numbers":
            names, kind = column.values, "number"
        else:
            names, kind = [column.name], column.kind
        for at, name in enumerate(names, first):
            one: dict[str, Any] = {"column": name, "holds": kind, "missing": 0, "features": 1}
            if kind in ("number", "boolean"):
                one |= {"mean": means[at], "sd": deviations[at], "min": lowest[at], "max": highest[at]}
            if column.kind == "text":
                one |= {"features": widths[name], "missing": None}
            elif column.kind != "numbers":
                is_hashed = encoding.hashes and kind == "category"
                one["features"] = None if is_hashed else column.width
                if column.indicator and not is_hashed:
                    one["missing"] = round(means[first + column.width - 1] * X.shape[0])
                elif is_hashed or encoding.missing != "indicator":
                    one["missing"] = None  # not known from X
            found.append({key: float(v) if isinstance(v, np.floating) else v for key, v in one.items()})
    return found


def _of_labels(data: Dataset, path: str, is_encoded: bool) -> dict[str, Any]:
    if data.y is None:
        return {"classes": None, "model": None, "solver": None, "note": "there are no labels"}
    labels: Any = data.y
    if data.is_multilabel:
        counts = np.asarray(labels.sum(axis=0)).ravel()
        values = list(data.class_names or range(labels.shape[1]))
    else:
        distinct, counts = np.unique(labels, return_counts=True)
        values = distinct.tolist()
        try:
            check_values(labels, data.schema, path, classify=False)
        except DataError as error:
            return {"classes": None, "model": None, "solver": None, "note": str(error)}
    order = np.argsort(-counts, kind="stable").tolist()
    classes = [{"class": values[j], "rows": int(counts[j]), "share": float(counts[j]) / len(data)} for j in order]
    return {"classes": classes, "note": None, **_training(data, is_encoded)}


def _training(data: Dataset, is_encoded: bool) -> dict[str, str]:
    """The model that `lineal train` fits by default, and the solver that it takes, and why."""
    from lineal import solvers
    from lineal.linear.fit import prepare
    from lineal.linear.options import TrainOptions
    from lineal.solvers.choice.rules import by_speed

    options = TrainOptions()
    if is_encoded:
        options = with_loss_of_table(options, {}, data)
    names = data.class_names
    problem = prepare(data.X, data.y, options, sample_weight=data.weights, class_names=names)
    solver, why = solvers.plan("auto", problem.objective, options.tol)
    if not why:  # the first of several that may follow each other
        why = next((f"{name}: {reason}" for name, reason in by_speed(problem.objective, options.tol, True)), "")
    is_scaled = is_encoded and data.schema is not None and data.schema.settings["scale"] == "standard"
    scaled = ", numbers standardised" if is_scaled else ""
    return {
        "model": f"linear, loss {options.loss}, penalty {options.penalty}, alpha {options.alpha:g}{scaled}",
        "solver": why or solver.name,
    }
