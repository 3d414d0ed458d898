"""`lineal inspect`: show what is in a model file or a data file."""

from __future__ import annotations

import os
from typing import Annotated, Any

import typer

from lineal.cli import show
from lineal.cli.files import READS_DATA
from lineal.cli.flags import flag_of, flags
from lineal.cli.terminal import say
from lineal.data.options import ReadOptions
from lineal.errors import OptionError
from lineal.system import memory

#: Number of classes whose features are shown without --json.
SHOWN_CLASSES = 50

#: Number of features in use that are shown without --json.
SHOWN_FEATURES = 100


@flags(reading=ReadOptions)
def inspect(
    file: Annotated[
        str,
        typer.Argument(metavar="FILE", help="Model file, or data file, a quoted glob, or - for standard input."),
        READS_DATA,
    ],
    top: Annotated[
        int, typer.Option(min=0, help="Number of features to show for each class: those with the largest weights.")
    ] = 5,
    features: Annotated[
        bool, typer.Option("--features", help="List the features in use: overall, and how many for each class.")
    ] = False,
    json: show.Json = False,
    *,
    reading: dict[str, Any],
) -> None:
    """Show what is in a model file or a data file.

    Of data: rows, columns and what they hold, missing cells, scales, classes, and which model and solver lineal train
    takes, and why; of a large table, that is the profile of its first rows (64 MB), and a note says so. A file whose
    name does not show that it holds data needs --format.

    Of a model: its shape, how sparse it is, its certificate, and the features with the largest weights for each class.
    With --features, lists the features that the model uses, largest weights first; --json gives all of them, for every
    class.
    """
    from lineal.cli.profile import is_data, show_profile
    from lineal.linear.description import describe, used_features
    from lineal.models.file import load
    from lineal.models.thresholds import describe as described
    from lineal.models.thresholds import describe_decision

    model = file
    if is_data(file, reading):
        if features:
            raise OptionError(f"--features is for models, and {file} is data")
        show_profile(file, reading, json)
        return
    if reading:
        raise OptionError(f"{flag_of(next(iter(reading)))} is for data, and {file} is a model (else give --format)")
    known = load(model)
    if known.kind != "linear":
        if features:
            raise OptionError(
                f"--features is for linear models, which have weights per feature; {model} is a {known.kind} model"
            )
        _show_other(known, model, json, top)
        return
    result = {**describe(known, top), "bytes": os.path.getsize(model)}
    if features:
        result |= used_features(known)
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
            **(
                {"label sets": described(known.thresholds, len(known.classes))}
                if known.is_multilabel
                else {"predicted": describe_decision(known.thresholds, result["classes"])}
            ),
            "precision": result["dtype"],
            "file": memory.size(result["bytes"]),
            "non-zero weights": f"{nonzero['weights']} of {known.weights.size}",
            "features used": f"{nonzero['features']} of {known.n_features}",
            "read from": "arrays" if known.schema is None else known.schema.format,
            "status": known.status,
            "solver": known.solver or "not known",
            "certificate": "none" if known.certificate is None else str(known.certificate),
            "options": ", ".join(f"{name}={value}" for name, value in known.options.items() if value is not None),
        },
    )
    if features:
        _show_selected(result)
    rows = [
        [str(entry["class"]), feature["name"], feature["weight"]]
        for entry in result["top_features"][:SHOWN_CLASSES]
        for feature in entry["features"]
    ]
    if rows:
        show.table("features with the largest weights", ["class", "feature", "weight"], rows)


def _show_other(known: Any, model: str, as_json: bool, top: int) -> None:
    """Show a model that is not linear: what all models have, and what is particular to its kind."""
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
    show.pairs(f"lineal inspect {model}", {name: _text(value) for name, value in shown.items()})
    if listed:
        rows = [[str(entry["class"]), one["name"], one["weight"]] for entry in listed for one in entry["features"]]
        show.table("monomials with the largest weights", ["class", "monomial", "weight"], rows)


def _text(value: Any) -> Any:
    return ", ".join(map(str, value)) if isinstance(value, list) else value


def _show_selected(result: dict[str, Any]) -> None:
    shown = result["selected"][:SHOWN_FEATURES]
    rows = [[feature["name"], feature["norm"], feature["classes"]] for feature in shown]
    show.table("features in use", ["feature", "norm", "classes"], rows)
    if len(result["selected"]) > len(shown):
        say(f"note: {len(result['selected']) - len(shown)} more features are in use: --json lists all of them")
    counts = [[str(entry["class"]), len(entry["features"])] for entry in result["selected_by_class"]]
    show.table("features in use by class", ["class", "features"], counts)


def _listed(labels: list[Any]) -> str:
    more = f", … ({len(labels)} in all)" if len(labels) > 10 else ""
    return ", ".join(map(str, labels[:10])) + more
