"""The first pass over a training table: the role and type of each column, the texts that occur, the missing cells."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lineal.data.label_numbers import INEXACT, large_and_fractional, whole_kind
from lineal.data.options import ReadOptions
from lineal.data.tables.cells import BatchPlace, as_codes, as_float, missing_cell, type_name
from lineal.data.tables.encode import Column, Encoding
from lineal.data.tables.labels import LABEL_NAMES as LABEL_KIND_NAMES
from lineal.data.tables.labels import decoded, label_kind, whole_bounds
from lineal.data.tables.spelled_labels import Spelling
from lineal.data.tables.wide import NUMBERS
from lineal.errors import DataError, unknown_value

WideNames = Callable[[], list[str] | None]

#: Names of columns that are taken for the label if the options do not name one.
LABEL_NAMES = ("label", "target", "y", "class")

#: What messages call a kind of column.
KIND_NAMES = {"number": "numbers", "boolean": "true or false", "category": "text"}

#: The form of a number in a column of text.
NUMBER = r"^-?(\d+\.?\d*|\.\d+)([eE][-+]?\d+)?$"

#: A column of text is a column of numbers with mistakes if at least `MIN_NUMERIC` cells are numbers, and the share of
#: the others is below `MISTYPED_BELOW`.
MISTYPED_BELOW = 0.01
MIN_NUMERIC = 20


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
    """The columns of a table that are not features, and how the label was chosen."""

    label: str | None
    label_chosen: str
    weight: str | None
    dropped: set[str]


def assign_roles(names: list[str], options: ReadOptions) -> Roles:
    """The roles that the options give to columns with these names."""
    dropped = {resolve(name.strip(), names, "drop") for name in (options.drop or "").split(",") if name.strip()}
    weight = None if options.weight is None else _resolve_role(options.weight, names, "weight", options)
    candidates = [name for name in names if name not in dropped and name != weight]
    if not candidates:
        raise DataError("the table has no columns left without the weight and the dropped columns")
    if options.label:
        label, chosen = _resolve_role(options.label, names, "label", options), "given"
    else:
        label, chosen = choose_label(candidates, options)
    return Roles(label, chosen, weight, dropped)


def _resolve_role(name: str, names: list[str], option: str, options: ReadOptions) -> str | None:
    """The label or weight column; rows to predict may lack it."""
    try:
        return resolve(name, names, option)
    except DataError:
        if options.labels:
            raise
        return None


@dataclass
class Tally:
    """What is known about one feature column so far."""

    kind: str | None = None
    sums: list[float] = field(default_factory=list)
    count: int = 0
    filled: int = 0
    texts: set[str] = field(default_factory=set)
    first_gap: tuple[BatchPlace, int] | None = None
    numeric: int = 0
    strays: int = 0
    whole: bool = True

    def note_texts(self, codes: np.ndarray, texts: Any) -> None:
        """Count the text cells that are numbers, and those that are not."""
        counts = np.bincount(codes[codes >= 0], minlength=len(texts))
        numeric = pc.match_substring_regex(texts, NUMBER).to_numpy(zero_copy_only=False)
        whole = pc.match_substring_regex(texts, r"^-?\d{1,18}$").to_numpy(zero_copy_only=False)
        self.numeric += int(counts[numeric].sum())
        self.strays += int(counts[~numeric].sum())
        self.whole &= not (counts[numeric & ~whole].any())

    @property
    def mistyped(self) -> bool:
        """Whether all cells but a few are numbers."""
        return self.numeric >= MIN_NUMERIC and 0 < self.strays < MISTYPED_BELOW * (self.numeric + self.strays)


class Survey:
    """Collects what an `Encoding` needs from record batches.

    With `spelled`, text in the label column may stand for numbers, as in a CSV file. `wide_names` returns the names of
    all columns of a table whose numbers are parsed together, else None.
    """

    def __init__(self, options: ReadOptions, spelled: bool = False, wide_names: WideNames = lambda: None) -> None:
        self.options, self.spelled, self._wide_names = options, spelled, wide_names
        self.together: list[str] = []
        self.spelling = Spelling()
        self.lowest = self.highest = 0
        self.names: list[str] = []
        self.tallies: dict[str, Tally] = {}
        self.label_kinds: set[str] = set()
        self.classes: set[Any] = set()
        self.rows = 0
        self.start: str | None = None
        self.label_tally = Tally()
        self.weight_is_text = False

    def update(self, batch: Any, place: BatchPlace) -> None:
        """Note what some rows show."""
        if not self.names:
            self._assign_roles(batch.schema.names, self._wide_names())
            self.start = place.source
        present = set(batch.schema.names)
        for name in batch.schema.names if present - self.known else ():
            if name not in self.known:  # a JSON field that the first lines lack
                self.names.append(name)
                self.known.add(name)
                if name not in self.dropped:
                    self.tallies[name] = Tally(first_gap=(BatchPlace(str(self.start), 0), 0))
        for name, tally in self.tallies.items():
            if name in present:
                self._count(batch.column(name), name, tally, place)
            elif tally.first_gap is None:
                tally.first_gap = (place, 0)
            if tally.first_gap is not None and self.options.missing == "error":
                raise missing_cell(name, tally.first_gap[0].of(tally.first_gap[1]))
        if self.label is not None and self.options.labels:
            absent = self.label not in present
            self._label(pa.nulls(len(batch)) if absent else batch.column(self.label), place)
        if self.weight in present:
            self.weight_is_text |= label_kind(batch.column(self.weight).type) == "string"
        self.rows += batch.num_rows

    def _assign_roles(self, present: list[str], wide_names: list[str] | None) -> None:
        names = wide_names or present
        self.names, self.known = list(names), {*names, *present}
        roles = assign_roles(names, self.options)
        self.label, self.label_chosen, self.weight = roles.label, roles.label_chosen, roles.weight
        self.dropped = roles.dropped
        used = {self.label, self.weight, *self.dropped}
        features = [name for name in names if name not in used]
        if wide_names:
            self.together = features
        else:
            self.tallies = {name: Tally() for name in features}
        if not features:
            raise DataError(f"the table has no feature columns beside the label {self.label!r}")

    def _count(self, cells: Any, name: str, tally: Tally, place: BatchPlace) -> None:
        kind = feature_kind(cells.type, name, place)
        if kind is not None and tally.kind not in (None, kind):
            if {kind, tally.kind} != {"number", "boolean"}:
                raise DataError(
                    f"{place.source}: column {name!r} changes from {KIND_NAMES[tally.kind or '']} to "
                    f"{KIND_NAMES[kind]} at row {place.row}: "
                    "give all its values one type"
                )
            kind = "number"
        tally.kind = kind or tally.kind
        if tally.kind == "category" and kind is not None:
            codes, texts = as_codes(cells, name, place)
            gaps = codes < 0
            used = np.zeros(len(texts) + 1, dtype=bool)  # the last entry is for missing cells
            used[codes] = True
            tally.filled += len(codes) - int(gaps.sum())
            tally.note_texts(codes, texts)
            if self.options.categorical == "onehot":
                tally.texts.update(texts.filter(pa.array(used[:-1])).to_pylist())
        else:
            numbers = as_float(cells, name, place)
            gaps = np.isnan(numbers)
            tally.sums.append(float(np.sum(numbers, where=~gaps)))
            tally.count += len(numbers) - int(gaps.sum())
            tally.filled += int(np.count_nonzero(numbers))
        if tally.first_gap is None and gaps.any():
            tally.first_gap = (place, int(gaps.argmax()))

    def _label(self, cells: Any, place: BatchPlace) -> None:
        cells = decoded(cells)
        kind = label_kind(cells.type)
        if kind is None:
            raise DataError(f"{place.of(0)}: the label {self.label!r} is missing")
        if kind == "":
            raise DataError(
                f"{place.source}: the label {self.label!r} holds {type_name(cells.type)}: give numbers or text"
            )
        self.label_kinds.add(kind)
        if kind == "integer":
            lowest, highest = whole_bounds(cells)
            self.lowest, self.highest = min(self.lowest, lowest), max(self.highest, highest)
        if kind == "string":
            codes, texts = as_codes(cells, str(self.label), place)
            self.label_tally.note_texts(codes, texts)
            if self.spelled:
                used = np.zeros(len(texts) + 1, dtype=bool)  # the last entry is for missing cells
                used[codes] = True
                self.spelling.note(texts.filter(pa.array(used[:-1])))
        if kind == "list":
            values = cells.flatten()
            if not (pa.types.is_null(values.type) or label_kind(values.type) in ("string", "integer")):
                raise DataError(
                    f"{place.source}: the label {self.label!r} holds lists of {type_name(values.type)}: give text"
                )
            try:
                self.classes.update(pc.unique(values.drop_null()).to_pylist())
            except UnicodeDecodeError:
                raise DataError(f"{place.source}: the label {self.label!r} is not UTF-8 text") from None

    def mistyped(self) -> dict[str, Any]:
        """Text columns of which all cells but a few are numbers, and the type of these."""
        found = {name: pa.float64() for name, tally in self.tallies.items() if tally.mistyped}
        if self.label is not None and self.label_tally.mistyped and not self.spelling.are_numbers:
            found[self.label] = pa.int64() if self.label_tally.whole else pa.float64()
        if self.weight is not None and self.weight_is_text and self.options.labels:
            found[self.weight] = pa.float64()
        return found

    def encoding(self, header: bool | None = None, header_chosen: str = "given") -> Encoding:
        """The encoding, after all rows were seen."""
        options = self.options
        columns = []
        for name, tally in self.tallies.items():
            kind = tally.kind or "number"
            mean = math.fsum(tally.sums) / tally.count if options.missing == "mean" and tally.count else 0.0
            gap = options.missing == "indicator" and tally.first_gap is not None
            columns.append(Column(name, kind, sorted(tally.texts), 0.0 if kind == "category" else mean, gap))
        if self.together:
            columns.append(Column(NUMBERS, "numbers", self.together))
        labels = self._label_kind()
        filled = sum(tally.filled for tally in self.tallies.values())
        density = filled / max(1, self.rows * sum(column.width for column in columns))
        classes = self._class_names() if labels == "list" else None
        return Encoding(
            columns, self.label, labels, self.label_chosen, classes, self.weight,
            options.missing, options.categorical, options.bits, options.dtype, header, self.names, density,
            header_chosen,
        )  # fmt: skip

    def _class_names(self) -> list[Any]:
        if len({isinstance(value, str) for value in self.classes}) > 1:
            raise DataError(f"the label {self.label!r} mixes text and numbers in its lists")
        return sorted(self.classes)

    def _label_kind(self) -> str | None:
        kinds = set(self.label_kinds)
        if kinds == {"string"} and self.spelled and not self.label_tally.mistyped:
            return self.spelling.kind(str(self.label))
        if kinds == {"integer", "number"}:
            if max(self.highest, -self.lowest) >= INEXACT:
                raise large_and_fractional(str(self.label))
            return "number"
        if kinds == {"integer"}:
            return whole_kind(self.lowest, self.highest, str(self.label))
        if len(kinds) > 1:
            names = sorted(LABEL_KIND_NAMES[kind] for kind in kinds)
            raise DataError(f"the label {self.label!r} changes its type between rows: {', '.join(names)}")
        return kinds.pop() if kinds else None


def feature_kind(arrow_type: Any, name: str, place: BatchPlace) -> str | None:
    """The kind of a feature column ("number", "boolean" or "category"); None if it has no value so far."""
    kind = label_kind(arrow_type)
    if kind in ("list", ""):
        raise DataError(
            f"{place.source}: column {name!r} holds {type_name(arrow_type)}, which is neither number nor text: "
            f"leave it out with drop={name}"
        )
    return {None: None, "integer": "number", "string": "category"}.get(kind, kind)
