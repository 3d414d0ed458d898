"""Checks of the parameters of `TextFeatures`, and what they mean for the passes over documents."""

from __future__ import annotations

import numbers
import operator
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from lineal.data.ngrams import MAX_PATTERNS, count_patterns
from lineal.data.terms.analysis import Analysis
from lineal.data.terms.documents import check_decode_error
from lineal.data.terms.learning import Limits
from lineal.data.terms.rows import NORMS
from lineal.data.terms.vocabulary import Names
from lineal.errors import OptionError, unknown_value

if TYPE_CHECKING:
    from lineal.data.terms.text_model import TextModel

ANALYZERS = ("char", "char_wb", "word")
ACCENTS = (None, "ascii", "unicode")
MOST_BITS = 30

#: Longest n-grams of characters; those of words are limited by the number of their patterns.
MOST_CHARACTERS = 1000


def analysis_of(features: TextModel) -> Analysis:
    """How documents are cut into terms; raises an error that names the parameter that cannot be honoured."""
    if features.analyzer not in ANALYZERS:
        raise unknown_value("analyzer", features.analyzer, ANALYZERS)
    if features.strip_accents not in ACCENTS:
        raise OptionError(f"strip_accents={features.strip_accents!r} must be None, 'unicode' or 'ascii'")
    if features.norm not in NORMS:
        raise OptionError(f"norm={features.norm!r} must be 'l2', 'l1' or None")
    for name in ("lowercase", "binary", "sublinear_tf", "use_idf", "smooth_idf", "alternate_sign"):
        value = getattr(features, name)
        if not isinstance(value, bool | np.bool_):
            raise OptionError(f"{name}={value!r} is neither True nor False")
    check_decode_error(features.decode_error)
    try:
        dtype = np.dtype(features.dtype)
    except TypeError:
        dtype = np.dtype(object)
    if dtype not in (np.float32, np.float64):
        raise OptionError(f"dtype={features.dtype!r} must be 'float32' or 'float64'")
    _check_columns(features)
    return Analysis(
        features.analyzer,
        _ngram_range(features),
        int(features.skips),
        bool(features.lowercase),
        features.strip_accents,
        _stop_words(features),
    )


def _ngram_range(features: TextModel) -> tuple[int, int]:
    is_word = features.analyzer == "word"
    try:
        low, high = map(operator.index, features.ngram_range)
    except (TypeError, ValueError):
        low, high = 0, 0
    if not 1 <= low <= high:
        raise OptionError(f"ngram_range={features.ngram_range!r} must be two integers, 1 ≤ smallest ≤ largest")
    skips = whole(features.skips)
    if skips is None or skips < 0:
        raise OptionError(f"skips={features.skips!r} must be an integer of at least 0")
    if skips and (not is_word or high == 1):
        raise OptionError(
            f"skips={skips} is for n-grams of words: set analyzer='word' and a larger ngram_range, such as (1, 2)"
        )
    if is_word and count_patterns(high, skips) > MAX_PATTERNS:
        raise OptionError(
            f"ngram_range={features.ngram_range!r} with skips={skips} makes more than {MAX_PATTERNS} n-grams per word: "
            "use a smaller one or fewer skips"
        )
    if high > MOST_CHARACTERS:
        raise OptionError(f"ngram_range={features.ngram_range!r}: n-grams have at most {MOST_CHARACTERS} characters")
    return low, high


def _check_columns(features: TextModel) -> None:
    """Refuse options of columns that contradict each other or have no effect."""
    for name in ("min_df", "max_df"):
        value = getattr(features, name)
        is_count = (whole(value) or 0) >= 1
        is_share = isinstance(value, float | np.floating) and 0.0 <= value <= 1.0
        if not is_count and not is_share:
            raise OptionError(f"{name}={value!r} must be a number of documents ≥ 1 (int) or a share from 0.0 to 1.0")
    if features.max_features is not None and (whole(features.max_features) or 0) < 1:
        raise OptionError(f"max_features={features.max_features!r} must be None or an integer ≥ 1")
    bits = features.hashing
    if bits is not None and not 1 <= (whole(bits) or 0) <= MOST_BITS:
        raise OptionError(f"hashing={bits!r} must be None or a number of bits from 1 to {MOST_BITS}")
    if bits is None and features.vocabulary is None:
        return
    given = "hashing" if bits is not None else "a given vocabulary"
    if bits is not None and features.vocabulary is not None:
        raise OptionError("give a vocabulary or hashing, not both")
    for name, neutral in (("min_df", (1, 0.0)), ("max_df", (1.0,)), ("max_features", (None,))):
        value = getattr(features, name)
        if not any(value is option or (value == option and type(value) is type(option)) for option in neutral):
            raise OptionError(f"{name}={value!r} is for a learned vocabulary: it has no effect with {given}")
    if bits is not None and features.alternate_sign and not features.binary and features.sublinear_tf:
        raise OptionError("sublinear_tf=True has no logarithms of negative counts: set alternate_sign=False")


def _stop_words(features: TextModel) -> tuple[str, ...]:
    words = features.stop_words
    if words is None:
        return ()
    if isinstance(words, str):
        if words != "english":
            raise OptionError(f"stop_words={words!r} must be None, 'english' or a list of words")
        from sklearn.feature_extraction.text import ENGLISH_STOP_WORDS

        words = ENGLISH_STOP_WORDS
    if not isinstance(words, Iterable) or not all(isinstance(word, str) for word in words):
        raise OptionError("stop_words must be None, 'english' or a list of words")
    if features.analyzer != "word":
        raise OptionError(f"stop_words are left out of words only: analyzer={features.analyzer!r} has none")
    return tuple(sorted({word for word in words if word}))


def limits_of(features: TextModel, n_rows: int) -> Limits:
    """Numbers of documents that terms to keep are in."""
    least, most = (
        float(value) if isinstance(value, numbers.Integral) else float(value) * n_rows
        for value in (features.min_df, features.max_df)
    )
    if most < least:
        raise OptionError(
            f"max_df={features.max_df!r} allows at most {most:g} of {n_rows} documents, but min_df={features.min_df!r} "
            f"wants at least {least:g}"
        )
    return Limits(least, most, None if features.max_features is None else int(features.max_features))


def given_terms(vocabulary: Any) -> Names:
    """The names of a given vocabulary in the order of their columns."""
    if isinstance(vocabulary, Mapping):
        terms: list[Any] = [None] * len(vocabulary)
        for term, column in vocabulary.items():
            place = whole(column)
            if place is None or not 0 <= place < len(terms) or terms[place] is not None:
                raise OptionError(
                    f"vocabulary: the columns must be 0 … {len(terms) - 1}, each once; that of {term!r} is {column!r}"
                )
            terms[place] = term
    elif isinstance(vocabulary, Iterable) and not isinstance(vocabulary, str | bytes):
        terms = sorted(vocabulary) if isinstance(vocabulary, set | frozenset) else list(vocabulary)
    else:
        raise OptionError(f"vocabulary must be terms, or a dict of terms and columns, not {type(vocabulary).__name__}")
    wrong = next((term for term in terms if not isinstance(term, str)), None)
    if wrong is not None:
        raise OptionError(f"vocabulary: {wrong!r} is not a string")
    if not terms:
        raise OptionError("the vocabulary is empty")
    if len(set(terms)) < len(terms):
        seen: set[str] = set()
        twice = next(term for term in terms if term in seen or seen.add(term))  # type: ignore[func-returns-value]
        raise OptionError(f"vocabulary: {twice!r} comes twice")
    data = [term.encode("utf-8", "surrogatepass") for term in terms]
    stops: np.ndarray = np.zeros(len(data) + 1, np.int64)
    np.cumsum([len(term) for term in data], out=stops[1:])
    return Names(np.frombuffer(b"".join(data), np.uint8), stops)


def whole(value: Any) -> int | None:
    """An integer, or None for anything else."""
    try:
        return None if isinstance(value, bool) else operator.index(value)
    except TypeError:
        return None
