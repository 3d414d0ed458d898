"""The first pass over a training table: the role and type of each column, the texts that occur, the missing cells."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lineal.data.label_numbers import INEXACT, large_and_fractional, whole_kind
from lineal.data.options import ReadOptions
from lineal.data.tables import dates
from lineal.data.tables.cells import BatchPlace, as_codes, as_float, as_text, missing_cell, type_name
from lineal.data.tables.columns import Column
from lineal.data.tables.encode import Encoding
from lineal.data.tables.labels import LABEL_NAMES as LABEL_KIND_NAMES
from lineal.data.tables.labels import decoded, label_kind, whole_bounds
from lineal.data.tables.roles import assign_roles
from lineal.data.tables.spelled_labels import Spelling
from lineal.data.tables.tally import Tally
from lineal.data.tables.wide import NUMBERS, matrix_of
from lineal.errors import DataError

WideNames = Callable[[], list[str] | None]

#: What messages call a kind of column.
KIND_NAMES = {"number": "numbers", "boolean": "true or false", "category": "text", "date": "dates"}


class Survey:
    """Collects what an `Encoding` needs from record batches.

    With `spelled`, text in the label column may stand for numbers, as in a CSV file. `wide_names` returns the names of
    all columns of a table whose numbers are parsed together, else None.
    """

    def __init__(self, options: ReadOptions, spelled: bool = False, wide_names: WideNames = lambda: None) -> None:
        self.options, self.spelled, self._wide_names = options, spelled, wide_names
        self.together: list[str] = []
        self.sums: np.ndarray = np.zeros(1)
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
        self.nulls = options.nulls if spelled else []

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
                if name not in self.ignored:
                    self.tallies[name] = Tally(self.kinds.get(name), first_gap=(BatchPlace(str(self.start), 0), 0))
        for name, tally in self.tallies.items():
            if name in present:
                self._count(batch.column(name), name, tally, place)
            elif tally.first_gap is None:
                tally.first_gap = (place, 0)
            if tally.first_gap is not None and self.options.missing == "error" and tally.chosen != "text":
                raise missing_cell(name, tally.first_gap[0].of(tally.first_gap[1]))
        if self.together:
            with np.errstate(over="ignore", invalid="ignore"):
                self.sums = self.sums + matrix_of(batch.column(NUMBERS)).sum(axis=0)
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
        self.ignored, self.kinds = roles.ignored, roles.kinds
        used = {self.label, self.weight, *self.ignored}
        features = [name for name in names if name not in used]
        if wide_names:
            self.together = features
        else:
            self.tallies = {name: Tally(self.kinds.get(name)) for name in features}
        if not features:
            raise DataError(f"the table has no feature columns beside the label {self.label!r}")

    def _count(self, cells: Any, name: str, tally: Tally, place: BatchPlace) -> None:
        kind = feature_kind(cells.type, name, place)
        if tally.chosen == "category":
            cells, kind = as_text(cells, name, place), "category"
        elif tally.chosen is not None:
            kind = tally.chosen
        if kind is not None and tally.kind not in (None, kind):
            if {kind, tally.kind} != {"number", "boolean"}:
                raise DataError(
                    f"{place.source}: column {name!r} changes from {KIND_NAMES[tally.kind or '']} to "
                    f"{KIND_NAMES[kind]} at row {place.row}: "
                    "give all its values one type"
                )
            kind = "number"
        tally.kind = kind or tally.kind
        if kind == "text":
            as_text(cells, name, place)  # an error if it cannot be
            return
        if tally.kind == "category" and kind is not None:
            codes, texts = as_codes(cells, name, place, self.nulls)
            gaps = codes < 0
            tally.note_codes(codes, texts, self.options.levels == "onehot" or tally.chosen is None)
        elif tally.kind == "date" and kind is not None:
            seconds, gaps = dates.as_seconds(cells, name, place)
            tally.note_seconds(seconds, gaps)
        else:
            numbers = as_float(cells, name, place)
            gaps = np.isnan(numbers)
            tally.note_numbers(numbers)
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
            codes, texts = as_codes(cells, str(self.label), place, self.nulls)
            self.label_tally.note_codes(codes, texts, keeps_levels=False)
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
        found = {name: pa.float64() for name, tally in self.tallies.items() if tally.chosen is None and tally.mistyped}
        if self.label is not None and self.label_tally.mistyped and not self.spelling.are_numbers:
            found[self.label] = pa.int64() if self.label_tally.whole else pa.float64()
        if self.weight is not None and self.weight_is_text and self.options.labels:
            found[self.weight] = pa.float64()
        return found

    def encoding(
        self, header: bool | None = None, header_chosen: str = "given", delimiter: str | None = None
    ) -> Encoding:
        """The encoding, after all rows were seen; columns of text still lack their words."""
        options = self.options
        columns = [tally.column(name, options) for name, tally in self.tallies.items()]
        density = self._density(columns)
        if self.together:
            fills = self.sums / max(1, self.rows) if options.missing in ("mean", "indicator") else 0.0 * self.sums
            columns.append(Column(NUMBERS, "numbers", self.together, fills=fills.tolist()))
        labels = self._label_kind()
        classes = self._class_names() if labels == "list" else None
        return Encoding(
            columns=columns, label=self.label, label_kind=labels, label_chosen=self.label_chosen, class_names=classes,
            weight=self.weight, missing=options.missing, categorical=options.levels, na=self.nulls, bits=options.bits,
            dtype=options.dtype, header=header, names=self.names, density=density, header_chosen=header_chosen,
            scale=options.scale, rare=options.rare, delimiter=delimiter,
        )  # fmt: skip

    def _density(self, columns: list[Column]) -> float:
        """The share of cells of X that are not zero, without the words of text."""
        filled, width = 0, 0
        for column, tally in zip(columns, self.tallies.values()):
            if column.kind != "text":
                is_full = column.kind in ("number", "date") and column.shift != 0.0
                filled += self.rows if is_full else tally.filled
                width += column.width
        return filled / max(1, self.rows * width)

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
    """The kind of a feature column: "number", "boolean", "category" or "date"; None if it has no value so far."""
    if pa.types.is_timestamp(arrow_type) or pa.types.is_date(arrow_type):
        return "date"
    kind = label_kind(arrow_type)
    if kind in ("list", ""):
        raise DataError(
            f"{place.source}: column {name!r} holds {type_name(arrow_type)}, which is neither number, text nor date: "
            f"leave it out with ignore={name}"
        )
    return {None: None, "integer": "number", "string": "category"}.get(kind, kind)
