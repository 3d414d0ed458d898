"""Cells of a table column, as numbers or as coded text, and the errors that name one of them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lineal.errors import DataError

#: Texts that stand for a missing cell.
NULLS = ("", "?", "NA", "N/A", "NaN", "nan", "null", "NULL")


@dataclass(frozen=True)
class Place:
    """Where a batch starts, for messages; rows are counted from 0 over all files."""

    source: str
    row: int

    def at(self, bad: np.ndarray) -> str:
        """The first of the rows of the batch that are marked."""
        return f"{self.source}: row {self.row + int(bad.argmax())} (counted from 0)"


def missing_cell(name: str, row: int, source: str) -> DataError:
    """The error for a missing cell where nobody said what it should become."""
    return DataError(
        f"{source}: row {row} (counted from 0): column {name!r} is missing; "
        "choose missing='zero', 'mean' or 'indicator'"
    )


def as_float(cells: Any, name: str, place: Place) -> np.ndarray:
    """Numbers, with NaN for missing ones."""
    try:
        if pa.types.is_dictionary(cells.type):
            cells = cells.dictionary_decode()
        cells = cells.cast(pa.float64(), safe=False)
    except pa.ArrowException:
        raise DataError(f"{place.source}: column {name!r} must be numeric, but holds {cells.type}") from None
    return cells.to_numpy(zero_copy_only=False)


def as_codes(cells: Any, name: str, place: Place) -> tuple[np.ndarray, Any]:
    """Text as (codes, texts): trimmed, with code -1 for a missing cell."""
    try:
        if not pa.types.is_dictionary(cells.type):
            cells = cells.dictionary_encode()
        texts = pc.utf8_trim_whitespace(cells.dictionary.cast(pa.large_string()))
    except pa.ArrowException as error:
        if "UTF8" in str(error):
            raise DataError(f"{place.source}: column {name!r} is not UTF-8 text: convert the file's encoding") from None
        raise DataError(f"{place.source}: column {name!r} must be text, but holds {cells.type}") from None
    absent = pc.is_in(texts, value_set=pa.array([*NULLS, None], pa.large_string())).to_numpy(zero_copy_only=False)
    codes = cells.indices.cast(pa.int64()).fill_null(-1).to_numpy(zero_copy_only=False)
    if absent.any():
        codes = np.where(np.append(absent, True)[codes], -1, codes)
    return codes, texts.fill_null("")
