"""`lineal inspect`: what is in a model file."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Annotated, Any

import typer

from lineal.cli import show
from lineal.cli.files import READS
from lineal.cli.messages import say
from lineal.errors import OptionError
from lineal.system import memory

if TYPE_CHECKING:
    from lineal.linear.model import Model

#: Classes whose features are shown without --json.
SHOWN_CLASSES = 50

#: Features in use that are shown without --json.
SHOWN_FEATURES = 100


def inspect(
    model: Annotated[str, typer.Argument(metavar="MODEL", help="Model file."), READS],
    top: Annotated[int, typer.Option(min=0, help="Features to show for each class, by size of their weight.")] = 5,
    features: Annotated[
        bool, typer.Option("--features", help="List the features in use: overall, and how many for each class.")
    ] = False,
    json: show.Json = False,
) -> None:
    """Show what is in a model file.

    Its shape, how sparse and how good it is, and the features that weigh most for each class. With --features the
    features that the model uses, by the size of their weights; --json gives all of them, for every class.
    """
    from lineal.models.file import load
    from lineal.models.thresholds import describe as described

    known = load(model)
    if known.kind != "linear":
        if features:
            raise OptionError(
                f"--features is for linear models, which have a weight a feature; {model} is {known.kind}"
            )
        _show_other(known, model, json, top)
        return
    result = describe(known, os.path.getsize(model), top)
    if features:
        result |= selected(known)
    if json:
        show.as_json(result)
        return
    nonzero = result["nonzero"]
    show.pairs(
        f"lineal inspect {model}",
        {
            "features": known.n_features,
            "classes": _listed(result["classes"]),
            "loss": known.loss,
            "labels of a row": "any number" if known.is_multilabel else "one",
            "probabilities": "calibrated"
            if known.calibration is not None
            else "yes"
            if known.has_probabilities
            else "no",
            "label sets": described(known.thresholds, len(known.classes)) if known.is_multilabel else "no",
            "precision": result["dtype"],
            "file": memory.size(result["bytes"]),
            "non-zero weights": f"{nonzero['weights']} of {known.weights.size}",
            "features used": f"{nonzero['features']} of {known.n_features}",
            "read from": "arrays" if known.schema is None else known.schema.format,
            "status": known.status,
            "certificate": "none" if known.certificate is None else str(known.certificate),
            "options": ", ".join(f"{name}={value}" for name, value in known.options.items() if value is not None),
        },
    )
    if features:
        _show_selected(result)
    rows = [
        [entry["class"], feature["name"], feature["weight"]]
        for entry in result["top_features"][:SHOWN_CLASSES]
        for feature in entry["features"]
    ]
    if rows:
        show.table("features that weigh most", ["class", "feature", "weight"], rows)


def _show_other(known: Any, model: str, as_json: bool, top: int) -> None:
    """A model that is not linear: what it has in common with those, and what is peculiar to it."""
    shared = {
        "kind": known.kind,
        "features": known.n_features,
        "classes": known.classes.tolist(),
        "is_multilabel": known.is_multilabel,
        "probabilities": known.has_probabilities,
        "dtype": str(known.dtype),
        "bytes": os.path.getsize(model),
        **known.summary(),
        "read_from": "arrays" if known.schema is None else known.schema.format,
        "status": known.status,
        "options": known.options,
    }
    listed = known.heaviest(None if as_json else top) if known.kind == "online" else None
    if as_json:
        show.as_json(shared if listed is None else shared | {"weights": listed})
        return
    options = ", ".join(f"{name}={value}" for name, value in known.options.items() if value is not None)
    shown = {**shared, "classes": _listed(shared["classes"]), "bytes": memory.size(shared["bytes"]), "options": options}
    show.pairs(f"lineal inspect {model}", {name.replace("_", " "): _text(value) for name, value in shown.items()})
    if listed:
        rows = [[entry["class"], one["name"], one["weight"]] for entry in listed for one in entry["features"]]
        show.table("monomials that weigh most", ["class", "monomial", "weight"], rows)


def _text(value: Any) -> Any:
    return ", ".join(map(str, value)) if isinstance(value, list) else value


def describe(model: Model, file_bytes: int, top: int) -> dict[str, Any]:
    """Everything about a model, in plain values."""
    import numpy as np

    from lineal.core.row_sparse import RowSparse, live

    used, W = live(model.weights)
    return {
        "features": model.n_features,
        "classes": model.classes.tolist(),
        "loss": model.loss,
        "is_multilabel": model.is_multilabel,
        "calibration": None if model.calibration is None else model.calibration.tolist(),
        "thresholds": None if model.thresholds is None else model.thresholds.tolist(),
        "dtype": str(W.dtype),
        "bytes": file_bytes,
        "nonzero": {"weights": int(np.count_nonzero(W)), "features": len(used)},
        "weights_kept": "by row" if isinstance(model.weights, RowSparse) else "dense",
        "status": model.status,
        "certificate": None if model.certificate is None else model.certificate.to_json(),
        "options": model.options,
        "schema": None if model.schema is None else {"format": model.schema.format},
        "intercept": model.intercept.tolist(),
        "top_features": top_features(model, top),
    }


def top_features(model: Model, top: int) -> list[dict[str, Any]]:
    """For each class (the second of two) the features of the largest weights; zero weights are left out."""
    import numpy as np

    columns, W, classes = _by_class(model)
    found = []
    for label, weights in zip(classes, W.T):
        sizes = np.abs(weights)
        best = np.argpartition(-sizes, min(top, len(sizes) - 1))[:top] if len(sizes) else np.empty(0, np.int64)
        best = best[np.argsort(-sizes[best], kind="stable")]
        named = [_entry(model, int(columns[j]), weight=float(weights[j])) for j in best if weights[j]]
        found.append({"class": label, "features": named})
    return found


def selected(model: Model) -> dict[str, Any]:
    """All features that the model uses: with the norms of their weights, largest first; and those of each class."""
    import numpy as np

    columns, W, _ = _by_class(model)
    norms, counts = np.sqrt((W.astype(np.float64) ** 2).sum(axis=1)), np.count_nonzero(W, axis=1)
    order = np.argsort(-norms, kind="stable")
    overall = [_entry(model, int(columns[j]), norm=float(norms[j]), classes=int(counts[j])) for j in order]
    return {"selected": overall, "selected_by_class": top_features(model, len(columns))}


def _by_class(model: Model) -> tuple[Any, Any, list[Any]]:
    """Columns in use, their weights (number of columns, number of classes), and the classes: the second of two."""
    from lineal.core.row_sparse import live

    columns, W = live(model.weights)
    classes = model.classes.tolist()
    if model.is_binary:
        W, classes = (W if W.shape[1] == 1 else W[:, 1:] - W[:, :1]), classes[1:]
    return columns, W, classes


def _show_selected(result: dict[str, Any]) -> None:
    shown = result["selected"][:SHOWN_FEATURES]
    rows = [[feature["name"], feature["norm"], feature["classes"]] for feature in shown]
    show.table("features in use", ["feature", "norm", "classes"], rows)
    if len(result["selected"]) > len(shown):
        say(f"note: {len(result['selected']) - len(shown)} more features are in use: --json lists all of them")
    counts = [[entry["class"], len(entry["features"])] for entry in result["selected_by_class"]]
    show.table("features in use by class", ["class", "features"], counts)


def _entry(model: Model, column: int, **values: Any) -> dict[str, Any]:
    return {"column": column, "name": feature_name(model, column), **values}


def feature_name(model: Model, column: int) -> str:
    """The name of a feature or, without names, its column in the files that the model reads."""
    if model.feature_names is not None:
        return model.feature_names[column]
    is_picked = model.schema is not None and model.schema.columns is not None
    return f"column {model.schema.columns[column] if is_picked else column}"  # type: ignore[union-attr,index]


def _listed(labels: list[Any]) -> str:
    more = f", … ({len(labels)} in all)" if len(labels) > 10 else ""
    return ", ".join(map(str, labels[:10])) + more
