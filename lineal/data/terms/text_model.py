"""`TextModel`: what documents become, learned and applied; `TextFeatures` is the same for scikit-learn."""

from __future__ import annotations

import copy
import inspect
from collections.abc import Iterable
from typing import Any

import numpy as np

from lineal.core import threads as pool
from lineal.data.terms import text_options
from lineal.data.terms.analysis import Analysis
from lineal.data.terms.applying import Applier, hashing_of
from lineal.data.terms.documents import Documents, chunks_of
from lineal.data.terms.learning import count, matrix_of, settle
from lineal.data.terms.rows import NORMS, Weights
from lineal.data.terms.text_terms import Terms, stored_idf, stored_names
from lineal.errors import DataError


class TextModel:
    """The parameters of `TextFeatures`, and what was learned with them. Readers use it: it needs no scikit-learn."""

    n_columns_: int
    _terms: Terms | None
    idf_: np.ndarray

    def __init__(
        self,
        analyzer: str = "word",
        *,
        ngram_range: tuple[int, int] = (1, 1),
        skips: int = 0,
        lowercase: bool = True,
        strip_accents: str | None = None,
        stop_words: Any = None,
        min_df: float = 1,
        max_df: float = 1.0,
        max_features: int | None = None,
        vocabulary: Any = None,
        hashing: int | None = None,
        alternate_sign: bool = True,
        binary: bool = False,
        sublinear_tf: bool = False,
        use_idf: bool = True,
        smooth_idf: bool = True,
        norm: str | None = "l2",
        decode_error: str = "strict",
        dtype: Any = "float32",
        n_jobs: int | None = None,
    ) -> None:
        self.analyzer = analyzer
        self.ngram_range = ngram_range
        self.skips = skips
        self.lowercase = lowercase
        self.strip_accents = strip_accents
        self.stop_words = stop_words
        self.min_df = min_df
        self.max_df = max_df
        self.max_features = max_features
        self.vocabulary = vocabulary
        self.hashing = hashing
        self.alternate_sign = alternate_sign
        self.binary = binary
        self.sublinear_tf = sublinear_tf
        self.use_idf = use_idf
        self.smooth_idf = smooth_idf
        self.norm = norm
        self.decode_error = decode_error
        self.dtype = dtype
        self.n_jobs = n_jobs

    def learn(self, X: Any, with_rows: bool) -> Any:
        """Learn from documents; their rows, if wanted, in the same pass over the text."""
        analysis, threads = self._analysis(), pool.thread_count(self.n_jobs)
        if self.vocabulary is not None or self.hashing is not None:
            return self._learn_idf(X, with_rows)
        counted = count(chunks_of(X, self.decode_error), analysis, threads)
        if counted.n_rows == 0:
            raise DataError("there are no documents to learn terms from: X is empty")
        vocabulary, maps = settle(counted, text_options.limits_of(self, counted.n_rows), bool(self.binary))
        self._set_columns(Terms(vocabulary.n_columns, vocabulary.find_names, vocabulary.lookup))
        if self.use_idf:
            self.idf_ = self._idf_of(vocabulary.df, counted.n_rows)
        if not with_rows:
            return None
        return matrix_of(counted, maps, self.n_columns_, self._weights(), self.dtype)

    def _learn_idf(self, X: Any, with_rows: bool) -> Any:
        """Learn at most the idf, where the columns are given."""
        given = None if self.hashing is not None else text_options.given_terms(self.vocabulary)
        self._set_columns(None if given is None else Terms.of(given))
        chunks: Iterable[Documents] = chunks_of(X, self.decode_error)
        if self.use_idf:
            chunks = list(chunks) if with_rows else chunks
            df: np.ndarray = np.zeros(self.n_columns_, np.int64)
            applier, n_rows = self._applier(Weights(True, False, np.uint8(0), np.empty(0))), 0
            for documents in chunks:
                for piece in applier.pieces(documents):
                    df += np.bincount(piece.indices, minlength=len(df))
                n_rows += len(documents)
            self.idf_ = self._idf_of(df, n_rows)
        return self._applier().matrix(chunks) if with_rows else None

    def _set_columns(self, terms: Terms | None) -> None:
        self.n_columns_ = 1 << self.hashing if terms is None else terms.n_terms  # type: ignore[operator]
        self._terms = terms
        self.__dict__.pop("idf_", None)

    def _idf_of(self, df: np.ndarray, n_rows: int) -> np.ndarray:
        extra = int(self.smooth_idf)
        with np.errstate(divide="ignore"):  # a term of a given vocabulary can be in no document
            return np.log((n_rows + extra) / (df + extra)) + 1.0

    def params(self) -> dict[str, Any]:
        """The parameters by name."""
        return {name: vars(self)[name] for name in PARAMETERS}

    @property
    def is_fitted(self) -> bool:
        """Whether columns are known."""
        return "n_columns_" in vars(self)

    def applier(self) -> Applier:
        """What makes rows of chunks of documents, for streams: see `lineal.data.terms.applying`."""
        return self._ready()._applier()

    def _ready(self) -> Any:
        """This object if it is fitted, or a fitted copy if there is nothing to learn."""
        if self.is_fitted:
            return self
        if self.use_idf or (self.vocabulary is None and self.hashing is None):
            raise not_fitted("this TextFeatures is not fitted yet: call fit with documents first")
        ready = copy.copy(self)
        ready.learn([], with_rows=False)
        return ready

    def _applier(self, weights: Weights | None = None) -> Applier:
        analysis = self._analysis()
        target: Any
        if self._terms is None:
            target = hashing_of(analysis, int(self.hashing), bool(self.alternate_sign))  # type: ignore[arg-type]
        else:
            target = self._terms.lookup(analysis)
        threads = pool.thread_count(self.n_jobs)
        return Applier(analysis, target, self.n_columns_, weights or self._weights(), self.dtype, threads)

    def _analysis(self) -> Analysis:
        """How documents are cut into terms, after a check of all parameters."""
        return text_options.analysis_of(self)

    def _weights(self) -> Weights:
        idf = self.idf_ if self.use_idf else np.empty(0)
        return Weights(bool(self.binary), bool(self.sublinear_tf), np.uint8(NORMS[self.norm]), idf)

    def names(self) -> list[str] | None:
        """The terms in the order of their columns; None if they are hashed."""
        terms = self._ready()._terms
        return None if terms is None else terms.names.texts()

    # Model files.

    def state(self) -> dict[str, Any]:
        """What was learned, and parameters that are not JSON values, as arrays and JSON values."""
        if not self.is_fitted:
            raise not_fitted("call fit of TextFeatures before state")
        names = None if self._terms is None else self._terms.names
        return {
            "dtype": np.dtype(self.dtype).name,
            "stop_words": list(self._analysis().stop_words),
            "names": None if names is None else names.data,
            "stops": None if names is None else names.stops,
            "idf": self.idf_ if self.use_idf else None,
        }

    @classmethod
    def restored(cls, params: dict[str, Any], state: dict[str, Any]) -> Any:
        """The transformer that had these parameters and this state; raises a ValueError if they are invalid."""
        if set(state) != {"dtype", "stop_words", "names", "stops", "idf"}:
            raise ValueError(f"text features should not have {sorted(state)}")
        try:
            features = cls(**params, dtype=state["dtype"], stop_words=state["stop_words"] or None)
            features._analysis()
        except TypeError as error:
            raise ValueError(f"text features: {error}") from None
        if (features.hashing is None) == (state["names"] is None):
            raise ValueError("text features have either terms or hashed columns")
        features._set_columns(
            None if state["names"] is None else Terms.of(stored_names(state["names"], state["stops"]))
        )
        if features.use_idf:
            features.idf_ = stored_idf(state["idf"], features.n_columns_)
        return features


#: Names of the parameters.
PARAMETERS = tuple(inspect.signature(TextModel.__init__).parameters)[1:]


def not_fitted(message: str) -> Exception:
    """The error of scikit-learn, which is imported for it."""
    from lineal.core.scikit import NotFittedError

    return NotFittedError(message)
