"""The label and weight columns of a table."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lineal.data.dataset import indicator_matrix
from lineal.data.label_numbers import INEXACT, large_and_fractional
from lineal.data.tables.cells import BatchPlace, as_codes, as_float, type_name
from lineal.data.tables.spelled_labels import values_of
from lineal.errors import DataError

if TYPE_CHECKING:
    from lineal.data.tables.encode import Encoding

#: What messages call labels of each kind.
LABEL_NAMES = {
    "integer": "integers",
    "unsigned": "integers of at least 0",
    "number": "numbers",
    "boolean": "true or false",
    "string": "text",
    "list": "lists",
}

#: The Arrow type of labels of each kind; "string" and "list" are handled separately.
ARROW_TYPES = {"integer": pa.int64(), "unsigned": pa.uint64(), "number": pa.float64(), "boolean": pa.bool_()}


def label_kind(arrow_type: Any) -> str | None:
    """The kind of labels of an Arrow type; None if all are missing, "" if the type cannot hold labels."""
    types = pa.types
    if types.is_null(arrow_type):
        return None
    if types.is_list(arrow_type) or types.is_large_list(arrow_type):
        return "list"
    if types.is_boolean(arrow_type):
        return "boolean"
    if types.is_integer(arrow_type):
        return "integer"
    if types.is_decimal(arrow_type) and arrow_type.scale <= 0:
        return "integer"
    if types.is_floating(arrow_type) or types.is_decimal(arrow_type):
        return "number"
    text = types.is_string(arrow_type) or types.is_large_string(arrow_type) or types.is_string_view(arrow_type)
    return "string" if text or types.is_dictionary(arrow_type) else ""


def encode_label(cells: Any, encoding: Encoding, place: BatchPlace) -> Any:
    """Labels as one array, or as an (n, k) boolean csr_array if rows have lists of labels."""
    kind, name = str(encoding.label_kind), str(encoding.label)
    cells = decoded(cells)
    _refuse_missing(pc.is_null(cells).to_numpy(zero_copy_only=False), name, place)
    try:
        if kind == "list":
            return _label_sets(cells, encoding.class_names or [])
        if kind == "string":
            codes, texts = as_codes(cells, name, place, encoding.na)
            _refuse_missing(codes < 0, name, place)
            return _text_array(texts.to_pylist(), name, place)[codes]
        if label_kind(cells.type) == "string":
            y = _of_texts(cells, kind, name, place, encoding.na)
        else:
            if kind == "number" and _beyond_doubles(cells):
                raise large_and_fractional(name)
            y = cells.cast(ARROW_TYPES[kind]).to_numpy(zero_copy_only=False)
    except pa.ArrowException:
        found, expected = type_name(cells.type), LABEL_NAMES[kind]
        raise DataError(f"{place.source}: the label {name!r} holds {found}, expected {expected}") from None
    if kind == "number" and not np.isfinite(y).all():
        raise DataError(f"{place.at(~np.isfinite(y))}: the label {name!r} is not a finite number")
    return y


def decoded(cells: Any) -> Any:
    """The labels, with a dictionary of numbers decoded to plain numbers."""
    is_coded = pa.types.is_dictionary(cells.type) and label_kind(cells.type.value_type) != "string"
    return cells.dictionary_decode() if is_coded else cells


def _of_texts(cells: Any, kind: str, name: str, place: BatchPlace, nulls: list[str]) -> np.ndarray:
    codes, texts = as_codes(cells, name, place, nulls)
    _refuse_missing(codes < 0, name, place)
    values, bad = values_of(texts, kind)
    if bad[codes].any():
        row = int(bad[codes].argmax())
        found = texts[int(codes[row])].as_py()
        raise DataError(f"{place.of(row)}: the label {name!r} is {found!r}, expected {LABEL_NAMES[kind]}")
    return values[codes]


def _text_array(texts: list[str], name: str, place: BatchPlace) -> np.ndarray:
    """Texts as a NumPy array. NumPy drops trailing zero bytes, so texts that have them are refused."""
    if wrong := [text for text in texts if text.endswith("\0")]:
        raise DataError(
            f"{place.source}: the label {name!r} holds {wrong[0]!r}, which ends with a zero byte: without the byte "
            "it would be another label; remove the byte"
        )
    return np.array(texts or [""], dtype=np.str_)


def _beyond_doubles(cells: Any) -> bool:
    """Whether some integers could become equal as doubles."""
    lowest, highest = whole_bounds(cells)
    return max(highest, -lowest) >= INEXACT


def whole_bounds(cells: Any) -> tuple[int, int]:
    """The smallest and the largest of some integers and 0; zeros if the cells are of another kind."""
    if label_kind(cells.type) not in ("integer", "unsigned"):
        return 0, 0
    found = pc.min_max(cells).as_py()
    return min(0, int(found["min"] or 0)), max(0, int(found["max"] or 0))


def _refuse_missing(gaps: np.ndarray, name: str, place: BatchPlace) -> None:
    if gaps.any():
        raise DataError(f"{place.at(gaps)}: the label {name!r} is missing")


def _label_sets(cells: Any, names: list[Any]) -> Any:
    """Lists of labels as an indicator matrix; labels unseen in training, which are not in `names`, are left out."""
    flat = cells.flatten()
    codes = np.full(len(flat), -1)
    if names and not pa.types.is_null(flat.type):
        value_set = pa.array(names, pa.large_string() if isinstance(names[0], str) else _whole_type(names))
        codes = pc.index_in(flat.cast(value_set.type), value_set=value_set).fill_null(-1).to_numpy(zero_copy_only=False)
    rows = np.repeat(np.arange(len(cells)), pc.list_value_length(cells).to_numpy(zero_copy_only=False))
    known = codes >= 0
    return indicator_matrix(rows[known], codes[known], (len(cells), len(names)))


def _whole_type(names: list[int]) -> Any:
    return pa.uint64() if max(names) >= 2**63 else pa.int64()


def encode_weight(cells: Any, name: str, place: BatchPlace) -> np.ndarray:
    """The weights of the rows, which must be finite and not negative."""
    weights = as_float(cells, name, place)
    bad = ~(np.isfinite(weights) & (weights >= 0))
    if bad.any():
        value = weights[int(bad.argmax())]
        raise DataError(f"{place.at(bad)}: the weight {name!r} is {value}, expected a number of at least 0")
    return weights
