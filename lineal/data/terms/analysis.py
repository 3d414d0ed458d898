"""What becomes a term: words or characters, n-grams, skips, lower case, accents, stop words."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np

from lineal.data.ngrams import NGrams

#: No row of numbered n-grams.
NO_ROW = np.uint64(0xFFFFFFFFFFFFFFFF)


@dataclass(frozen=True)
class Analysis:
    """How a document is cut into terms; `checked` of the options is the caller's work."""

    analyzer: str = "word"
    ngram_range: tuple[int, int] = (1, 1)
    skips: int = 0
    lowercase: bool = True
    strip_accents: str | None = None
    stop_words: tuple[str, ...] = field(default=())

    @property
    def is_word(self) -> bool:
        """Whether terms are words and n-grams of them, not n-grams of characters."""
        return self.analyzer == "word"

    def rules(self) -> Rules:
        """The same for kernels."""
        low, high = self.ngram_range
        patterns: list[tuple[int, ...]] = [(0,), *NGrams(high if self.is_word else 1, (), self.skips).patterns()]
        is_prefix = {pattern[:-1] for pattern in patterns}
        rows = {pattern: row for row, pattern in enumerate(p for p in patterns if p in is_prefix or p == (0,))}
        longer = patterns[1:]
        return Rules(
            fold=np.uint8(32 if self.lowercase else 0),
            n_stop=np.uint64(len(self.stop_words)),
            low=np.uint64(low),
            high=np.uint64(high),
            between_words=self.analyzer == "char_wb",
            parents=np.array([rows[pattern[:-1]] for pattern in longer], np.uint64),
            places=np.array([pattern[-1] for pattern in longer], np.uint64),
            rows=np.array([rows.get(pattern, NO_ROW) for pattern in longer], np.uint64),
            is_counted=np.array([len(pattern) >= low for pattern in longer], np.bool_),
            steps=_steps(longer, high),
            lengths=np.array([len(pattern) - 1 for pattern in longer], np.uint64),
            has_skips=self.skips > 0,
        )

    @property
    def n_node_rows(self) -> int:
        """Number of rows of numbered n-grams that a document needs: one for words, one for each prefix of n-grams."""
        rules = self.rules()
        return 1 + int((rules.rows != NO_ROW).sum()) if self.is_word else 0


class Rules(NamedTuple):
    """An analysis for kernels.

    N-gram g of words joins an n-gram of row parents[g] and the word places[g] after its first one. Its numbers go to
    row rows[g], if it is a prefix of others. It has lengths[g] words after the first one, at the places steps[g]. The
    words with numbers below `n_stop` are left out.
    """

    fold: Any
    n_stop: Any
    low: Any
    high: Any
    between_words: Any
    parents: Any
    places: Any
    rows: Any
    is_counted: Any
    steps: Any
    lengths: Any
    has_skips: Any


def _steps(patterns: list[tuple[int, ...]], high: int) -> np.ndarray:
    steps: np.ndarray = np.zeros((len(patterns), max(high - 1, 1)), np.uint64)
    for g, pattern in enumerate(patterns):
        steps[g, : len(pattern) - 1] = pattern[1:]
    return steps
