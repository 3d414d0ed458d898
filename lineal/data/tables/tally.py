"""`Tally`: what the first pass over a table learns about one feature column, and the kind that it therefore has."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lineal.data.options import ReadOptions
from lineal.data.tables import dates
from lineal.data.tables.cells import BatchPlace
from lineal.data.tables.columns import DATE_PARTS, PARTS_WITH_TIMES, Column

#: The form of a number in a column of text.
NUMBER = r"^-?(\d+\.?\d*|\.\d+)([eE][-+]?\d+)?$"

#: A column of text is a column of numbers with mistakes if at least `MIN_NUMERIC` cells are numbers, and the share of
#: the others is below `MISTYPED_BELOW`.
MISTYPED_BELOW = 0.01
MIN_NUMERIC = 20

#: A column holds text, not categories, if more than this share of its cells are distinct, and they have at least so
#: many words on average; or if almost all of at least so many cells are distinct.
MOSTLY_DISTINCT, WORDS_OF_TEXT = 0.5, 3.0
NEARLY_ALL_DISTINCT, ENOUGH_CELLS = 0.9, 100

#: Number of distinct cells after which it is decided whether they are text.
CERTAIN = 50_000

#: Without an option, rare categories share a column only if there are more than `MANY` categories.
MANY, RARE = 100, 5

#: Numbers are centred only if most of them are not zero, so that sparse rows stay sparse.
CENTRED_BELOW = 0.5


@dataclass
class Tally:
    """What is known about one feature column so far. `chosen` is the kind that the options give it."""

    chosen: str | None = None
    kind: str | None = None
    sums: list[float] = field(default_factory=list)
    count: int = 0
    filled: int = 0
    spread: float = 0.0
    levels: dict[str, int] = field(default_factory=dict)
    words: int = 0
    has_times: bool = False
    first_gap: tuple[BatchPlace, int] | None = None
    numeric: int = 0
    strays: int = 0
    whole: bool = True

    def note_numbers(self, numbers: np.ndarray) -> None:
        """Count some numbers, NaN for missing ones."""
        known = numbers[~np.isnan(numbers)]
        self.filled += int(np.count_nonzero(known))
        if not len(known):
            return
        with np.errstate(over="ignore", invalid="ignore"):  # infinite numbers are refused later, by name
            total = float(known.sum())
            mean = total / len(known)
            apart = mean - self.mean if self.count else 0.0
            weight = self.count * len(known) / (self.count + len(known))
            self.spread += float(np.square(known - mean).sum()) + apart * apart * weight
        self.sums.append(total)
        self.count += len(known)

    def note_codes(self, codes: np.ndarray, texts: Any, keeps_levels: bool) -> None:
        """Count the cells of a column of text: how often each of the distinct texts occurs, -1 for missing cells."""
        counts = np.bincount(codes[codes >= 0], minlength=len(texts))
        self.filled += int(counts.sum())
        self._note_forms(counts, texts)
        spaces = pc.count_substring(texts, " ").to_numpy(zero_copy_only=False)
        self.words += int(((spaces + 1) * counts).sum())
        if keeps_levels:
            for text, count in zip(texts.to_pylist(), counts.tolist()):
                if count:
                    self.levels[text] = self.levels.get(text, 0) + count
            if len(self.levels) > CERTAIN and self.chosen is None and self.is_text():
                self.chosen, self.kind, self.levels = "text", "text", {}  # not all of a large file is kept in memory

    def _note_forms(self, counts: np.ndarray, texts: Any) -> None:
        """Count the cells that are numbers, and those that are not."""
        numeric = pc.match_substring_regex(texts, NUMBER).to_numpy(zero_copy_only=False)
        whole = pc.match_substring_regex(texts, r"^-?\d{1,18}$").to_numpy(zero_copy_only=False)
        self.numeric += int(counts[numeric].sum())
        self.strays += int(counts[~numeric].sum())
        self.whole &= not (counts[numeric & ~whole].any())

    @property
    def mean(self) -> float:
        """Mean of the numbers; 0 if there are none."""
        return math.fsum(self.sums) / self.count if self.count else 0.0

    @property
    def mistyped(self) -> bool:
        """Whether all cells but a few are numbers."""
        return self.numeric >= MIN_NUMERIC and 0 < self.strays < MISTYPED_BELOW * (self.numeric + self.strays)

    def is_text(self) -> bool:
        """Whether the cells look like text, not like categories."""
        if 2 * self.numeric > self.filled:  # numbers with some mistakes, or numbers that are codes
            return False
        distinct = len(self.levels)
        has_words = self.words >= WORDS_OF_TEXT * self.filled and distinct > MOSTLY_DISTINCT * self.filled
        return distinct > 0 and (
            has_words or (self.filled >= ENOUGH_CELLS and distinct > NEARLY_ALL_DISTINCT * self.filled)
        )

    def column(self, name: str, options: ReadOptions) -> Column:
        """How the column becomes columns of X, after all rows were seen; of text without its words."""
        gap = options.missing == "indicator" and self.first_gap is not None
        kind = self.chosen or self.kind or "number"
        if kind == "category" and self.chosen is None:
            kind = self._kind_of_texts()
        if kind == "text":
            return Column(name, kind)
        if kind == "category":
            if options.levels == "hash":
                return Column(name, kind, indicator=gap)
            least = options.rare if options.rare is not None else RARE if len(self.levels) > MANY else 0
            frequent = sorted(level for level, count in self.levels.items() if count >= least)
            return Column(name, kind, frequent, indicator=gap, other=len(frequent) < len(self.levels))
        parts = PARTS_WITH_TIMES if self.has_times else DATE_PARTS
        fill = self.mean if options.missing in ("mean", "indicator") else 0.0
        shift, scale = self._scaling() if options.scale == "standard" and kind != "boolean" else (0.0, 1.0)
        return Column(name, kind, list(parts) if kind == "date" else [], fill, gap, shift, scale)

    def _kind_of_texts(self) -> str:
        texts = pa.array(self.levels, pa.large_string())
        if dates.are_dates(texts):
            self._note_dates(texts)
            return "date"
        return "text" if self.is_text() else "category"

    def _note_dates(self, texts: Any) -> None:
        """Count the distinct texts of a column of dates as numbers of days."""
        seconds, _ = dates.as_seconds(texts, "", BatchPlace("", 0))
        self.note_seconds(np.repeat(seconds, list(self.levels.values())))

    def note_seconds(self, seconds: np.ndarray, gaps: Any = False) -> None:
        """Count some dates."""
        self.has_times |= bool((seconds % dates.SECONDS_PER_DAY).any())
        self.note_numbers(np.where(gaps, np.nan, seconds / dates.SECONDS_PER_DAY))

    def _scaling(self) -> tuple[float, float]:
        """Mean and standard deviation of the numbers; a constant column keeps its scale."""
        variance = self.spread / self.count if self.count else 0.0
        is_centred = self.count - self.filled <= CENTRED_BELOW * self.count
        size = max(abs(self.mean), math.sqrt(variance)) * 1e-12  # rounding of a constant column
        scale = math.sqrt(variance) if math.isfinite(variance) and math.sqrt(variance) > size else 1.0
        return (self.mean if is_centred and math.isfinite(self.mean) else 0.0), scale
