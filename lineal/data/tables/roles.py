"""The roles of the columns of a table: label, weight, features of a given kind, and those that are left out."""

from __future__ import annotations

from dataclasses import dataclass

from lineal.data.options import ReadOptions, listed
from lineal.errors import DataError, unknown_value

#: Names of columns that are taken for the label if the options do not name one.
LABEL_NAMES = ("label", "target", "y", "class")


def resolve(name: str | int, names: list[str], option: str) -> str:
    """The name of a column that is given by name, or by position (negative ones count from the end)."""
    if name in names:
        return str(name)
    try:
        return names[int(name)]
    except (ValueError, IndexError):
        error = unknown_value(option, name, names)
        raise DataError(f"no such column: {error}") from None


def choose_label(names: list[str], options: ReadOptions) -> tuple[str | None, str]:
    """The label column and how it was chosen; ``label=""`` means that there is none."""
    if options.label is not None:
        return (None, "none") if options.label == "" else (resolve(options.label, names, "label"), "given")
    marked = {name.lower(): name for name in reversed(names) if name.lower() in LABEL_NAMES}
    found = [marked[known] for known in LABEL_NAMES if known in marked]
    return (found[0], "by its name") if found else (names[-1], "the last column")


@dataclass(frozen=True)
class Roles:
    """The columns of a table that are not features, how the label was chosen, and the kinds that the options give."""

    label: str | None
    label_chosen: str
    weight: str | None
    ignored: set[str]
    kinds: dict[str, str]


def assign_roles(names: list[str], options: ReadOptions) -> Roles:
    """The roles that the options give to columns with these names."""
    ignored = {resolve(name, names, "ignore") for name in listed(options.ignore)}
    if options.id is not None:
        ignored |= {_resolve_role(options.id, names, "id", options) or ""}
    weight = None if options.weight is None else _resolve_role(options.weight, names, "weight", options)
    candidates = [name for name in names if name not in ignored and name != weight]
    if not candidates:
        raise DataError("the table has no columns left without the weight and the ignored columns")
    if options.label:
        label, chosen = _resolve_role(options.label, names, "label", options), "given"
    else:
        label, chosen = choose_label(candidates, options)
    kinds = {
        resolve(name, names, option): kind
        for option, kind in (("text", "text"), ("categorical", "category"), ("numeric", "number"))
        for name in listed(getattr(options, option))
    }
    return Roles(label, chosen, weight, ignored, kinds)


def _resolve_role(name: str, names: list[str], option: str, options: ReadOptions) -> str | None:
    """The label or weight column; rows to predict may lack it."""
    try:
        return resolve(name, names, option)
    except DataError:
        if options.labels:
            raise
        return None
