"""`Schema`: how the records of a file become the columns of X, as model files store it."""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import Any

import numpy as np

from lineal.data import ngrams
from lineal.errors import DataError, OptionError


@dataclass(frozen=True)
class Schema:
    """How records become columns, so that a later file is encoded exactly as the training file was.

    Model files store it as JSON: `settings` holds only JSON values. Each reader documents its own settings.

    Attributes
    ----------
    format : the reader's name ("svmlight", "vw", "table", "array", "arrow").
    n_features : number of columns that the reader makes.
    settings : whatever the reader needs to do the same again (index base, hash bits, vocabularies, label column).
    columns : the columns that X keeps, ascending, for a model that uses no others; None for all.
    """

    format: str
    n_features: int
    settings: dict[str, Any] = field(default_factory=dict)
    columns: list[int] | None = None

    def __getstate__(self) -> dict[str, Any]:
        """The fields: readers keep what they make of a schema beside them."""
        return {name: vars(self)[name] for name in self.__dataclass_fields__}

    @property
    def width(self) -> int:
        """Number of columns of X."""
        return self.n_features if self.columns is None else len(self.columns)

    def takes(self, width: int) -> bool:
        """Whether rows of this width can be used: with all columns that the reader makes, or with those of X only."""
        return width in (self.n_features, self.width)

    def picked(self, columns: np.ndarray) -> Schema:
        """The schema for the given columns of X, ascending; a table may then lack columns that make none of them."""
        numbers = columns if self.columns is None else np.asarray(self.columns, np.int64)[columns]
        if self.format != "table":
            return replace(self, columns=numbers.tolist())
        from lineal.data.tables.encode import without_unused

        return without_unused(self, numbers)

    def to_json(self) -> dict[str, Any]:
        """The schema as plain JSON values."""
        values = {"format": self.format, "n_features": self.n_features, "settings": self.settings}
        return values if self.columns is None else {**values, "columns": self.columns}

    @staticmethod
    def from_json(values: dict[str, Any]) -> Schema:
        """The schema from its JSON values, checked because a stored one may be damaged."""
        try:
            schema = Schema(values["format"], values["n_features"], dict(values["settings"]), values.get("columns"))
        except (KeyError, TypeError, ValueError) as error:
            raise DataError(f"the stored schema is damaged: {error}") from None
        return schema.checked()

    def checked(self) -> Schema:
        """Return this schema, or raise a DataError that names the first setting that no reader could have stored."""
        if not isinstance(self.format, str) or self.format not in CHECKS:
            raise DataError(f"the stored schema is damaged: its format is {self.format!r}")
        d = self.n_features
        if not _is_whole(d) or d < 0:
            raise DataError(f"the stored schema is damaged: n_features is {d!r}")
        if self.columns is not None and not _are_columns(self.columns, d):
            raise DataError(f"the stored schema is damaged: its columns are not ascending numbers below {d}")
        wrong = CHECKS[self.format](self)
        if wrong is not None:
            shown = repr(self.settings.get(wrong))
            shown = shown if len(shown) <= 60 else shown[:60] + "…"
            raise DataError(f"the stored schema is damaged: {wrong} of a {self.format} schema is {shown}")
        return self


def _is_whole(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _are_columns(values: Any, n_features: int) -> bool:
    if not isinstance(values, list) or not all(map(_is_whole, values)):
        return False
    return all(a < b for a, b in pairwise([-1, *values, n_features]))


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and abs(value) <= sys.float_info.max


def _is_texts(values: Any) -> bool:
    return isinstance(values, list) and set(map(type, values)) <= {str}


def _wrong_labels(settings: dict[str, Any]) -> str | None:
    """The wrong setting among those for the labels of text, or None."""
    if settings.get("labels", "int") not in ("int", "uint", "float", "multi", "none"):
        return "labels"
    names = settings.get("class_names")
    if names is None:
        return "class_names" if settings.get("labels") == "multi" else None
    numbers = isinstance(names, list) and all(map(_is_number, names))
    return None if numbers and all(a < b for a, b in pairwise(names)) else "class_names"


def _wrong_svmlight(schema: Schema) -> str | None:
    base, bits = schema.settings.get("index_base"), schema.settings.get("bits", 1)
    if "bits" in schema.settings and (not _is_whole(bits) or not 1 <= bits <= 30 or schema.n_features != 1 << bits):
        return "bits"
    return "index_base" if not _is_whole(base) or base not in (0, 1) else _wrong_labels(schema.settings)


def _wrong_vw(schema: Schema) -> str | None:
    bits = schema.settings.get("bits")
    if not isinstance(bits, int) or not 1 <= bits <= 30 or schema.n_features != 1 << bits:
        return "bits"
    try:
        ngrams.of_settings(schema.settings)
    except OptionError:
        return "ngram"
    return _wrong_labels(schema.settings)


def _wrong_table(schema: Schema) -> str | None:
    settings = schema.settings
    columns = settings.get("columns")
    if not isinstance(columns, list) or not all(map(_is_column, columns)):
        return "columns"
    tests: dict[str, Callable[[Any], bool]] = {
        "label": lambda value: value is None or isinstance(value, str),
        "weight": lambda value: value is None or isinstance(value, str),
        "label_kind": lambda value: value in (None, "integer", "unsigned", "number", "boolean", "string", "list"),
        "class_names": _is_labels,
        "missing": lambda value: value in ("error", "zero", "mean", "indicator"),
        "categorical": lambda value: value in ("onehot", "hash"),
        "na": _is_texts,
        "scale": lambda value: value in ("none", "standard"),
        "rare": lambda value: value is None or _is_whole(value),
        "bits": lambda value: _is_whole(value) and 1 <= value <= 30,
        "dtype": lambda value: value in ("float32", "float64"),
        "header": lambda value: value is None or isinstance(value, bool),
        "header_chosen": lambda value: isinstance(value, str),
        "names": _is_texts,
        "delimiter": lambda value: value is None or isinstance(value, str),
        "density": _is_number,
    }
    return next((name for name, test in tests.items() if name in settings and not test(settings[name])), None)


def _is_labels(values: Any) -> bool:
    """Whether the values can name the classes of label sets: texts, or numbers, or None."""
    return values is None or _is_texts(values) or (isinstance(values, list) and all(map(_is_class_number, values)))


def _is_class_number(value: Any) -> bool:
    return isinstance(value, bool) or _is_number(value)


def _is_column(column: Any) -> bool:
    return (
        isinstance(column, dict)
        and isinstance(column.get("name"), str)
        and column.get("kind") in ("number", "boolean", "category", "date", "text", "numbers")
        and _is_texts(column.get("values", []))
        and isinstance(column.get("fills", []), list)
        and all(map(_is_number, column.get("fills", [])))
        and all(_is_number(column.get(name, 1.0)) for name in ("fill", "shift", "scale"))
        and column.get("scale", 1.0) > 0.0
        and all(isinstance(column.get(name, False), bool) for name in ("indicator", "other"))
        and isinstance(column.get("terms", {}), dict)
        and ("params" in column.get("terms", {})) == (column.get("kind") == "text")
    )


#: For each format, a function that returns the name of an invalid setting, or None.
CHECKS: dict[str, Callable[[Schema], str | None]] = {
    "svmlight": _wrong_svmlight,
    "vw": _wrong_vw,
    "table": _wrong_table,
    "array": lambda schema: None,
    "arrow": lambda schema: None,
}
