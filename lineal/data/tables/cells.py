"""The cells of a table column as numbers or as coded text, and the errors that name a cell."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lineal.errors import DataError


@dataclass(frozen=True)
class BatchPlace:
    """Where a record batch starts, for messages; rows are counted from 0 in each file.

    `line_of` finds the line (from 1) of a row of the batch by reading the file once more.
    """

    source: str
    row: int
    line_of: Callable[[int], int | None] | None = None

    def at(self, bad: np.ndarray) -> str:
        """The place of the first marked row of the batch."""
        return self.of(int(bad.argmax()))

    def of(self, index: int) -> str:
        """The place of the row of the batch with this number."""
        line = None if self.line_of is None else self.line_of(index)
        return f"{self.source}: row {self.row + index} (counted from 0)" + ("" if line is None else f", line {line}")


def missing_cell(name: str, where: str, advice: str = "choose") -> DataError:
    """The error for a missing cell if no option says what it should become."""
    return DataError(f"{where}: column {name!r} is missing; {advice} missing='zero', 'mean' or 'indicator'")


def lacks_columns(source: str, absent: list[str], may_lack_header: bool) -> DataError:
    """The error for a table without all the columns of the training table."""
    shown = ", ".join(absent[:20]) + (", …" if len(absent) > 20 else "")
    hint = "; if its first line is data, and its columns are in the order of the training file, say header='no'"
    return DataError(f"{source} lacks columns that training had: {shown}" + hint * may_lack_header)


def type_name(arrow_type: Any) -> str:
    """What messages call values of an Arrow type."""
    types = pa.types
    if types.is_dictionary(arrow_type):
        return type_name(arrow_type.value_type)
    names = {
        "nothing": types.is_null, "true or false": types.is_boolean, "integers": types.is_integer,
        "numbers": lambda kind: types.is_floating(kind) or types.is_decimal(kind),
        "dates or times": types.is_temporal, "lists": types.is_nested, "text": lambda kind: "string" in str(kind),
    }  # fmt: skip
    if types.is_struct(arrow_type):
        return "objects"
    return next((name for name, fits in names.items() if fits(arrow_type)), str(arrow_type))


def as_float(cells: Any, name: str, place: BatchPlace) -> np.ndarray:
    """The cells as numbers, with NaN for missing ones."""
    try:
        if pa.types.is_dictionary(cells.type):
            cells = cells.dictionary_decode()
        cells = cells.cast(pa.float64(), safe=False)
    except pa.ArrowException:
        raise DataError(f"{place.source}: column {name!r} must be numbers, but holds {type_name(cells.type)}") from None
    return cells.to_numpy(zero_copy_only=False)


def as_codes(cells: Any, name: str, place: BatchPlace, nulls: Sequence[str] = ()) -> tuple[np.ndarray, Any]:
    """The cells as (codes, distinct texts): the texts are trimmed; a missing cell, or one of `nulls`, has code -1."""
    if pa.types.is_floating(cells.type):
        cells = as_text(cells, name, place)
    try:
        if not pa.types.is_dictionary(cells.type):
            cells = cells.dictionary_encode()
        cells.dictionary.validate(full=True)  # of JSON, Arrow checks the first and last characters only
        texts = pc.utf8_trim_whitespace(cells.dictionary.cast(pa.large_string()))
    except pa.ArrowException as error:
        if "UTF8" in str(error):
            raise DataError(f"{place.source}: column {name!r} is not UTF-8 text: convert the file's encoding") from None
        raise DataError(f"{place.source}: column {name!r} must be text, but holds {type_name(cells.type)}") from None
    absent = pc.is_in(texts, value_set=pa.array([*nulls, None], pa.large_string())).to_numpy(zero_copy_only=False)
    codes = cells.indices.cast(pa.int64()).fill_null(-1).to_numpy(zero_copy_only=False)
    if absent.any():
        codes = np.where(np.append(absent, True)[codes], -1, codes)
    return codes, texts.fill_null("")


def as_text(cells: Any, name: str, place: BatchPlace) -> Any:
    """The cells as text, as Arrow's large strings; missing ones stay missing."""
    try:
        if pa.types.is_dictionary(cells.type):
            cells = cells.dictionary_decode()
        if not pa.types.is_floating(cells.type):
            return cells.cast(pa.large_string())
        whole = pc.equal(pc.floor(cells), cells)  # 3.0 is the category 3: integers with missing cells become such
        return pc.if_else(
            whole,
            pc.if_else(whole, cells, None).cast(pa.int64()).cast(pa.large_string()),
            cells.cast(pa.large_string()),
        )
    except pa.ArrowException:
        raise DataError(f"{place.source}: column {name!r} must be text, but holds {type_name(cells.type)}") from None
