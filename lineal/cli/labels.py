"""Labels that no classifier can learn, refused before the fit: numbers to predict, or one value only."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from lineal.errors import DataError

if TYPE_CHECKING:
    import numpy as np

    from lineal.data.dataset import Dataset
    from lineal.data.schema import Schema
    from lineal.engine.source import Source

#: With more distinct numbers than this, of which some have a fraction, labels are numbers to predict.
MANY_FRACTIONS = 20

#: With more distinct whole numbers than this, most of which occur at most `RARE` times, they are, too.
MANY_WHOLE, RARE = 1000, 2

Classify = Annotated[
    bool,
    typer.Option(
        "--classify", help="Labels are classes, also if they are as many different numbers as a quantity would have."
    ),
]


def check_labels(rows: Dataset | Source, data: str, classify: bool) -> None:
    """Refuse labels that are a single value and, unless `classify`, labels that are numbers to predict."""
    from lineal.data.dataset import Dataset

    if isinstance(rows, Dataset):
        if rows.is_multilabel:
            return
        check_values(rows.y, rows.schema, data, classify)
        return
    from lineal.problem.encoder import survey_of

    found = survey_of(rows)
    if found.labels.n_sets is None:
        _check(found.labels.classes, rows.schema, data, classify, found.shape[0] <= RARE * len(found.labels.classes))


def check_values(y: Any, schema: Schema | None, data: str, classify: bool, is_all: bool = True) -> None:
    """The same of one label per row; without `is_all`, the labels are only the first ones, which may be equal."""
    import numpy as np

    if not is_all and (classify or np.asarray(y).dtype.kind not in "iuf"):
        return
    values, counts = np.unique(y, return_counts=True)
    known = ~np.isnan(values) if values.dtype.kind == "f" else np.ones(len(values), bool)
    values, counts = values[known], counts[known]
    if is_all or len(values) > 1:
        _check(values, schema, data, classify, 2 * int((counts <= RARE).sum()) > len(values))


def _check(values: np.ndarray, schema: Schema | None, data: str, classify: bool, are_rare: bool) -> None:
    name = None if schema is None or schema.format != "table" else schema.settings.get("label")
    label = f"the label column {name!r} of {data}" if name is not None else f"the label of {data}"
    another = "name another label column with --label, or " if name is not None else ""
    if len(values) == 1:
        raise DataError(
            f"{label} has only one value, {values.tolist()[0]!r}, and a classifier needs two classes at least: "
            f"{another}add rows of other classes"
        )
    if classify or values.dtype.kind not in "iuf":
        return
    has_fractions = values.dtype.kind == "f" and bool((values % 1.0 != 0.0).any())
    if has_fractions and len(values) > MANY_FRACTIONS:
        what = "of which some are not whole"
    elif not has_fractions and len(values) > MANY_WHOLE and are_rare:
        what = "most of which occur once or twice"
    else:
        return
    shown = ", ".join(f"{value:.6g}" for value in values[:3].tolist())
    raise DataError(
        f"{label} has {len(values)} different numbers ({shown}, …), {what}: they look like numbers to predict, not "
        f"like classes; {another}learn to predict numbers with --online --regression, or say --classify if they are "
        "classes"
    )
