"""Columns of text: what they learn from the rows of training, and the columns of X that their words become."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from lineal.data import ngrams
from lineal.data.options import ReadOptions
from lineal.data.tables.cells import BatchPlace, as_text
from lineal.data.tables.columns import Column
from lineal.data.terms.documents import Chunks, Documents, chunks_of
from lineal.errors import DataError

if TYPE_CHECKING:
    from lineal.data.tables.encode import Encoding
    from lineal.data.terms.text_model import TextModel

#: With more rows than this, words of a single row are left out: they say nothing about others, and may be private.
FEW_ROWS = 1000

#: The record batches of a table, each time from the beginning.
Batches = Callable[[], Iterable[tuple[Any, BatchPlace]]]


class TextColumn:
    """What makes the columns of X of one column of text; several threads may use it.

    An applier has room that one call at a time can work in. Those that are free wait in a list, whose `pop` and
    `append` are atomic: there are as many as calls that ran side by side.
    """

    def __init__(self, features: TextModel) -> None:
        self.features = features
        self._free = [features.applier()]

    @property
    def width(self) -> int:
        """Number of columns of X."""
        return self.features.n_columns_

    def names(self) -> list[str] | None:
        """The words, or n-grams of words, of these columns; None if they are hashed."""
        return self.features.names()

    def rows_of(self, cells: Any, name: str, place: BatchPlace) -> Any:
        """The rows of X of some cells, as CSR; a missing text has no words."""
        documents = documents_of(cells, name, place)
        try:
            applier = self._free.pop()
        except IndexError:
            applier = self.features.applier()
        rows = applier.matrix([documents])
        self._free.append(applier)  # not after an error, which it may have been left in the middle of
        return rows


def documents_of(cells: Any, name: str, place: BatchPlace) -> Documents:
    """The cells as documents; a missing one is empty."""
    try:
        (found,) = list(chunks_of(as_text(cells, name, place).fill_null(""))) or [Documents(*_EMPTY)]
        return found
    except UnicodeDecodeError:
        raise DataError(f"{place.source}: column {name!r} is not UTF-8 text: convert the file's encoding") from None


_EMPTY = (np.zeros(0, np.uint8), np.zeros(1, np.int64))


def learned(encoding: Encoding, batches: Batches, n_rows: int, options: ReadOptions) -> Encoding:
    """The encoding with the words of its columns of text, found in a pass over the rows for each of them."""
    columns = [
        _learned(column, batches, n_rows, options) if column.kind == "text" else column for column in encoding.columns
    ]
    return replace(encoding, columns=columns)


def _learned(column: Column, batches: Batches, n_rows: int, options: ReadOptions) -> Column:
    from lineal.data.terms.text_model import TextModel

    wanted = ngrams.of_options(options)
    longest = dict(wanted.by_name).get(column.name, wanted.everywhere)
    is_hashed = options.levels == "hash"
    features = TextModel(
        ngram_range=(1, longest), skips=wanted.skips if longest > 1 else 0, sublinear_tf=True,
        hashing=options.bits if is_hashed else None, alternate_sign=False, use_idf=not is_hashed,
        min_df=1 if is_hashed or n_rows <= FEW_ROWS else 2,
        dtype=options.dtype, n_jobs=options.n_jobs,
    )  # fmt: skip

    def documents() -> Iterator[Documents]:
        for batch, place in batches():
            if column.name in batch.schema.names:
                yield documents_of(batch.column(column.name), column.name, place)

    try:
        features.learn(Chunks(documents()), with_rows=False)
    except DataError as error:
        raise DataError(f"column {column.name!r}: {error}") from None
    return replace(column, terms=StoredTerms(to_json(features), features))


class StoredTerms(dict[str, Any]):
    """What is stored of a column of text, with what it stands for in this process, which is not made of it again."""

    def __init__(self, values: dict[str, Any], features: TextModel) -> None:
        super().__init__(values)
        self.features = features

    def __reduce__(self) -> Any:
        """Elsewhere it is a plain dict."""
        return dict, (dict(self),)


def to_json(features: TextModel) -> dict[str, Any]:
    """Fitted features as JSON values."""
    state = features.state()
    params = {name: value for name, value in features.params().items() if name not in NOT_STORED}
    params["ngram_range"] = list(params["ngram_range"])
    return {
        "params": params,
        "dtype": state["dtype"],
        "stop_words": state["stop_words"],
        "terms": features.names(),
        "idf": None if state["idf"] is None else state["idf"].tolist(),
    }


#: Parameters that are not stored: threads belong to a machine, and the others are in the state.
NOT_STORED = ("n_jobs", "dtype", "stop_words", "vocabulary")


def terms_of(column: Column) -> TextColumn:
    """What makes columns of X from a column of text, as it was stored."""
    from lineal.data.terms.text_model import TextModel

    stored = column.terms
    if isinstance(stored, StoredTerms):
        return TextColumn(stored.features)
    try:
        params = dict(stored["params"])
        params["ngram_range"] = tuple(params["ngram_range"])
        words: Any = (
            None if stored["terms"] is None else [word.encode("utf-8", "surrogatepass") for word in stored["terms"]]
        )
        idf = None if stored["idf"] is None else np.array(stored["idf"], np.float64)
        state = {
            "dtype": stored["dtype"],
            "stop_words": stored["stop_words"],
            "names": None if words is None else np.frombuffer(b"".join(words), np.uint8),
            "stops": None if words is None else np.append(0, np.cumsum([len(word) for word in words])).astype(np.int64),
            "idf": idf,
        }
        return TextColumn(TextModel.restored(params, state))
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise DataError(f"the stored description of the column {column.name!r} is damaged: {error}") from None
