"""Labels that are text in a file and may stand for numbers, as in CSV files.

Labels are numbers if each of them is written as one. They are then compared by value: 7, +7, 7.0 and 7e0 are one label,
and so are 0 and -0. Integers are exact up to 64 bits. A number with leading zeros is a name, such as the postal
code 01234. If one occurs, or if any label is not a number, all labels are texts, compared character by character.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lineal.data.label_numbers import INEXACT, large_and_fractional, whole_kind

NUMBER = r"^[-+]?(\d+\.?\d*|\.\d+)([eE][-+]?\d+)?$"
WHOLE = r"^[-+]?\d+$"
LEADING_ZERO = r"^[-+]?0\d"
NEGATIVE = r"^-0*[1-9]"
LONG = r"^[-+]?\d{16,}$"
TRUTH = r"^([Tt]rue|TRUE|[Ff]alse|FALSE)$"

#: Number of distinct labels that are remembered.
FEW = 1000


@dataclass
class Spelling:
    """What is known so far about how the labels of a column are written."""

    are_numbers: bool = True
    are_whole: bool = True
    are_truths: bool = True
    has_leading_zero: bool = False
    lowest: int = 0
    highest: int = 0
    seen: set[str] = field(default_factory=set)

    def note(self, texts: Any) -> None:
        """Note the distinct texts of some rows."""
        if len(texts) <= FEW and len(self.seen) <= FEW:  # most files have few labels, the same in every piece
            found = set(texts.to_pylist())
            if found <= self.seen:
                return
            self.seen |= found
        if self.are_numbers:
            self.are_numbers = _all(texts, NUMBER)
            self.are_whole = self.are_whole and _all(texts, WHOLE)
            self.has_leading_zero |= bool(pc.any(pc.match_substring_regex(texts, LEADING_ZERO)).as_py())
        self.are_truths = self.are_truths and _all(texts, TRUTH)
        if self.are_numbers:
            self.lowest -= self.lowest == 0 and bool(pc.any(pc.match_substring_regex(texts, NEGATIVE)).as_py())
            for text in texts.filter(pc.match_substring_regex(texts, LONG)).to_pylist():
                self.lowest, self.highest = min(self.lowest, int(text)), max(self.highest, int(text))

    def kind(self, name: str) -> str:
        """The kind of the labels of column `name`."""
        if self.are_truths:
            return "boolean"
        if not self.are_numbers or self.has_leading_zero:
            return "string"
        if not self.are_whole:
            if max(self.highest, -self.lowest) >= INEXACT:
                raise large_and_fractional(name)
            return "number"
        return whole_kind(self.lowest, self.highest, name)


def _all(texts: Any, pattern: str) -> bool:
    return bool(pc.all(pc.match_substring_regex(texts, pattern)).as_py() is not False)


def values_of(texts: Any, kind: str) -> tuple[np.ndarray, np.ndarray]:
    """Texts as labels of a kind, and a mask of the texts that are not of this kind."""
    types = {"integer": np.int64, "unsigned": np.uint64, "number": np.float64, "boolean": np.bool_}
    values: np.ndarray = np.zeros(len(texts), types[kind])
    bare = pc.replace_substring_regex(texts, r"^\+", "")
    is_number = pc.match_substring_regex(texts, NUMBER).to_numpy(zero_copy_only=False)
    if kind == "boolean":
        values[:] = pc.is_in(pc.utf8_lower(texts), value_set=pa.array(["true", "1"], texts.type)).to_numpy(
            zero_copy_only=False
        )
        known = pa.array(["true", "false", "1", "0"], texts.type)
        return values, ~pc.is_in(pc.utf8_lower(texts), value_set=known).to_numpy(zero_copy_only=False)
    if kind == "number":
        values[is_number] = bare.filter(pa.array(is_number)).cast(pa.float64()).to_numpy(zero_copy_only=False)
        return values, ~is_number
    is_plain = pc.match_substring_regex(texts, WHOLE).to_numpy(zero_copy_only=False)
    bad = ~is_number
    is_short = is_plain & ~pc.match_substring_regex(texts, LONG).to_numpy(zero_copy_only=False)
    short = bare.filter(pa.array(is_short)).cast(pa.int64()).to_numpy(zero_copy_only=False)
    bounds = np.iinfo(values.dtype)
    for at, value in _others(texts, np.flatnonzero(is_number & ~is_short)):
        if isinstance(value, int) and bounds.min <= value <= bounds.max:
            values[at] = value
        else:
            bad[at] = True
    if kind == "unsigned":
        bad[np.flatnonzero(is_short)[short < 0]] = True
        short = np.maximum(short, 0)
    values[is_short] = short.astype(values.dtype)
    return values, bad


def _others(texts: Any, places: np.ndarray) -> Any:
    """(place, value) of long integers, and of numbers with point or exponent, as integers if they are whole."""
    for at in places.tolist():
        text = texts[at].as_py()
        if text.lstrip("+-").isdigit():
            yield at, int(text)
        else:
            value = float(text)
            yield at, int(value) if value.is_integer() and abs(value) < INEXACT else value
