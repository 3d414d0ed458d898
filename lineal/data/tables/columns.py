"""`Column`: how one column of a table becomes columns of X, as model files store it."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
import pyarrow as pa

#: What a column of a table can hold.
KINDS = ("number", "boolean", "category", "date", "text", "numbers")

#: Columns of X that a date makes: days since 1970, the year, and 0/1 columns for months, days of the week and hours.
DAYS, YEAR = "days", "year"
MONTHS = [f"month={month}" for month in range(1, 13)]
WEEKDAYS = [f"weekday={name}" for name in ("Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun")]
HOURS = [f"hour={hour}" for hour in range(24)]
DATE_PARTS = [DAYS, YEAR, *MONTHS, *WEEKDAYS]
PARTS_WITH_TIMES = [*DATE_PARTS, *HOURS]

#: Days of a year, and the year that day 0 is the first of.
DAYS_PER_YEAR, FIRST_YEAR = 365.2425, 1970.0


@dataclass(frozen=True)
class Column:
    """One feature column of the table.

    Attributes
    ----------
    name : name of the column.
    kind : "number", "boolean", "category", "date", "text", or "numbers" for many columns of numbers at once (see
        `lineal.data.tables.wide`), whose names are the `values`.
    values : the sorted categories, each of which has a column of X; the parts of a date.
    fill : replaces missing numbers, and the days of missing dates.
    indicator : whether missing cells have a column of their own.
    shift, scale : numbers x become (x - shift) / scale; of a date, its days.
    other : whether all further categories, rare or new ones, share a column.
    fills : what replaces missing cells in each of the columns of "numbers".
    terms : of text, what its words become (see `lineal.data.terms.text`), as JSON values.
    """

    name: str
    kind: str
    values: list[str] = field(default_factory=list)
    fill: float = 0.0
    indicator: bool = False
    shift: float = 0.0
    scale: float = 1.0
    other: bool = False
    fills: list[float] = field(default_factory=list)
    terms: dict[str, Any] = field(default_factory=dict)

    @property
    def width(self) -> int:
        """Number of columns of X that it makes, if categories are not hashed."""
        own = len(self.values) if self.kind in ("category", "numbers", "date") else 1
        return own + self.other + self.indicator

    def names(self) -> list[str]:
        """Names of these columns of X."""
        if self.kind == "numbers":
            return self.values
        own = [self.name]
        if self.kind == "category":
            own = [f"{self.name}={value}" for value in self.values] + [f"{self.name} is another one"] * self.other
        elif self.kind == "date":
            own = [f"{self.name}: {part}" for part in self.values]
        return own + [f"{self.name} is missing"] * self.indicator

    @cached_property
    def vocabulary(self) -> Any:
        """`values` as an Arrow array, for lookups."""
        return pa.array(self.values, pa.large_string())

    def scaling(self) -> tuple[np.ndarray, np.ndarray]:
        """For each of these columns of X, the shift and the scale of its numbers."""
        shifts, scales = np.zeros(self.width), np.ones(self.width)
        if self.kind in ("number", "date"):
            shifts[0], scales[0] = self.shift, self.scale
        if self.kind == "date" and self.is_scaled:
            shifts[1], scales[1] = FIRST_YEAR + self.shift / DAYS_PER_YEAR, self.scale / DAYS_PER_YEAR
        return shifts, scales

    @property
    def is_scaled(self) -> bool:
        """Whether its numbers are changed."""
        return (self.shift, self.scale) != (0.0, 1.0)
