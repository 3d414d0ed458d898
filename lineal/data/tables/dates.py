"""Dates and times of a table as days since 1970, years, months, days of the week and hours."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lineal.data.tables.cells import BatchPlace
from lineal.data.tables.columns import (
    DAYS_PER_YEAR,
    FIRST_YEAR,
    HOURS,
    MONTHS,
    PARTS_WITH_TIMES,
    WEEKDAYS,
    Column,
)
from lineal.errors import DataError

#: Dates in text, as in ISO 8601: a day, or a day and a time, perhaps with a zone.
ISO = r"^\d{4}-\d{2}-\d{2}([ T]\d{2}:\d{2}(:\d{2}(\.\d{1,9})?)?(Z|[+-]\d{2}(:?\d{2})?)?)?$"

SECONDS_PER_DAY, SECONDS_PER_HOUR = 86_400, 3_600


def are_dates(texts: Any) -> bool:
    """Whether all of some texts are dates."""
    if not len(texts) or not pc.all(pc.match_substring_regex(texts, ISO)).as_py():
        return False
    try:
        return _of_texts(texts) is not None
    except pa.ArrowException:
        return False


def as_seconds(cells: Any, column: str, place: BatchPlace) -> tuple[np.ndarray, np.ndarray]:
    """Seconds since 1970, in UTC if the cells say their zone, and which cells are missing; these have 0."""
    try:
        if pa.types.is_dictionary(cells.type):
            cells = cells.dictionary_decode()
        if not pa.types.is_temporal(cells.type):
            texts = pc.utf8_trim_whitespace(cells.cast(pa.large_string()))
            cells = _of_texts(pc.if_else(pc.equal(texts, ""), None, texts))
        gaps = pc.is_null(cells).to_numpy(zero_copy_only=False)
        seconds = cells.cast(pa.timestamp("s"), safe=False).cast(pa.int64()).fill_null(0)
        return seconds.to_numpy(zero_copy_only=False), gaps
    except pa.ArrowException as error:
        raise DataError(
            f"{place.source}: column {column!r} had dates in training, such as 2026-01-31 or 2026-01-31T12:30, and a "
            f"cell from row {place.row} on is none ({str(error).splitlines()[0]})"
        ) from None


def _of_texts(texts: Any) -> Any:
    """Dates in texts, in seconds, which have the years 0 to 9999; an Arrow error if a text is none."""
    texts = pc.replace_substring_regex(texts, r"(:\d{2})\.\d{1,9}", r"\1")
    zoned = pc.match_substring_regex(texts, r":.*(Z|[+-]\d{2}(:?\d{2})?)$").fill_null(False)
    dates = pc.if_else(zoned, None, texts).cast(pa.timestamp("s"))
    times = pc.if_else(zoned, texts, None).cast(pa.timestamp("s", "UTC")).cast(pa.timestamp("s"))
    return pc.coalesce(dates, times)


def pieces_of(
    seconds: np.ndarray, gaps: np.ndarray, column: Column, first: int
) -> Iterator[tuple[int | np.ndarray, np.ndarray]]:
    """Pairs (columns of X, values) of some dates. `first` is the first column of X that they make."""
    days = np.where(gaps, column.fill, seconds / SECONDS_PER_DAY)
    instants = seconds.astype("datetime64[s]")
    months = instants.astype("datetime64[M]").astype(np.int64)
    yield first, (days - column.shift) / column.scale
    (_, shift, *_), (_, scale, *_) = column.scaling()
    years = np.where(gaps, FIRST_YEAR + np.floor(column.fill / DAYS_PER_YEAR), FIRST_YEAR + months // 12)
    yield first + 1, (years - shift) / scale
    kept = (~gaps).astype(np.float64)
    start = first + 2
    yield start + months % 12, kept
    start += len(MONTHS)
    yield start + (seconds // SECONDS_PER_DAY + 3) % 7, kept  # 1970-01-01 was a Thursday
    start += len(WEEKDAYS)
    if len(column.values) == len(PARTS_WITH_TIMES):
        yield start + seconds % SECONDS_PER_DAY // SECONDS_PER_HOUR, kept
        start += len(HOURS)
    if column.indicator:
        yield start, gaps
