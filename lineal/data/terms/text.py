"""`TextFeatures`: documents as sparse rows of counts or tf-idf weights of words, n-grams of words or of characters."""

from __future__ import annotations

import copy
from collections.abc import Iterable
from typing import Any, ClassVar

import numpy as np

from lineal.core import threads as pool
from lineal.core.scikit import BaseEstimator, NotFittedError, TransformerMixin
from lineal.data.terms import text_options
from lineal.data.terms.analysis import Analysis
from lineal.data.terms.applying import Applier, hashing_of
from lineal.data.terms.documents import Documents, chunks_of
from lineal.data.terms.learning import count, matrix_of, settle
from lineal.data.terms.rows import NORMS, Weights
from lineal.data.terms.text_frames import in_frame
from lineal.data.terms.text_terms import Terms, stored_idf, stored_names
from lineal.errors import DataError


class TextFeatures(TransformerMixin, BaseEstimator):
    """Documents as sparse rows: how often each term of a vocabulary occurs, by default as tf-idf weights.

    The results are those of scikit-learn's `TfidfVectorizer`, and with ``use_idf=False, norm=None`` those of
    `CountVectorizer`, for the same options: words are what the pattern ``\\b\\w\\w+\\b`` finds, and columns are in the
    order of the terms. With `hashing` they are those of `HashingVectorizer`. Documents are read in parallel, as UTF-8
    bytes; results do not depend on the number of threads.

    Parameters
    ----------
    analyzer : "word", "char" for n-grams of characters, "char_wb" for those within words and the blanks around them.
    ngram_range : smallest and largest number of words or characters of a term.
    skips : number of words that an n-gram of words can leave out in between.
    lowercase : whether to convert to lower case first.
    strip_accents : None, "unicode" to remove accents, or "ascii" to remove everything but ASCII too.
    stop_words : words to leave out, before n-grams are made: a list, or "english" for scikit-learn's list.
    min_df, max_df : leave out terms in fewer or more documents: a number of them (int), or a share (float).
    max_features : keep only so many terms, those that occur most often.
    vocabulary : the terms to count, in the order of their columns, or a dict of terms and columns; None: learn them.
    hashing : None, or the number of bits b of hashed columns: 2**b columns without a vocabulary.
    alternate_sign : whether hashed terms count as +1 or −1, so that collisions cancel out on average.
    binary : whether to count each term once per document.
    sublinear_tf : whether to replace a count c by 1 + log(c).
    use_idf : whether to multiply by log(n / df) + 1, for n documents of which df have the term.
    smooth_idf : whether to add one to n and df.
    norm : "l2" or "l1" to divide each row by that norm, or None.
    decode_error : what to do with bytes that are not UTF-8: "strict" (an error), "replace" or "ignore", as in Python.
    dtype : type of the values, "float32" or "float64". They are computed in float64.
    n_jobs : number of threads; None or -1 for all cores.

    Attributes
    ----------
    vocabulary_ : dict of terms and their columns (made when it is asked for).
    idf_ : the idf of each column, if `use_idf`.
    n_columns_ : number of columns.

    Examples
    --------
    >>> from lineal import TextFeatures
    >>> features = TextFeatures(ngram_range=(1, 2), use_idf=False, norm=None).fit(["To be or not", "to BE"])
    >>> features.get_feature_names_out().tolist()
    ['be', 'be or', 'not', 'or', 'or not', 'to', 'to be']
    >>> features.transform(["be, be, be"]).toarray().tolist()
    [[3.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0]]
    """

    name: ClassVar[str] = "text"

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

    # Learning.

    def fit(self, X: Any, y: Any = None) -> TextFeatures:
        """Learn the vocabulary and the idf of documents: a list or a column of strings."""
        self._learn(X, with_rows=False)
        return self

    def fit_transform(self, X: Any, y: Any = None) -> Any:
        """Learn from documents and return their rows (n, number of terms), in one pass over the text."""
        return self._learn(X, with_rows=True)

    def _learn(self, X: Any, with_rows: bool) -> Any:
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
        return self._in_frame(matrix_of(counted, maps, self.n_columns_, self._weights(), self.dtype), X)

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
        return self._in_frame(self._applier().matrix(chunks), X) if with_rows else None

    def _set_columns(self, terms: Terms | None) -> None:
        self.n_columns_ = 1 << self.hashing if terms is None else terms.n_terms  # type: ignore[operator]
        self._terms = terms
        self.__dict__.pop("idf_", None)

    def _idf_of(self, df: np.ndarray, n_rows: int) -> np.ndarray:
        extra = int(self.smooth_idf)
        with np.errstate(divide="ignore"):  # a term of a given vocabulary can be in no document
            return np.log((n_rows + extra) / (df + extra)) + 1.0

    # Applying.

    def transform(self, X: Any) -> Any:
        """The rows (n, number of terms) of documents, as CSR with sorted indices; unknown terms do not count."""
        ready = self._ready()
        return ready._in_frame(ready._applier().matrix(chunks_of(X, self.decode_error)), X)

    def applier(self) -> Applier:
        """What makes rows of chunks of documents, for streams: see `lineal.data.terms.applying`."""
        return self._ready()._applier()

    def _in_frame(self, rows: Any, X: Any) -> Any:
        """The rows as what `set_output` asks for."""
        from sklearn import get_config

        own = vars(self).get("_sklearn_output_config", {})
        return in_frame(rows, own.get("transform", get_config()["transform_output"]), X)

    def _ready(self) -> TextFeatures:
        """This object if it is fitted, or a fitted copy if there is nothing to learn."""
        if self.__sklearn_is_fitted__():
            return self
        if self.use_idf or (self.vocabulary is None and self.hashing is None):
            raise NotFittedError("this TextFeatures is not fitted yet: call fit with documents first")
        return copy.copy(self).fit([])

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

    def get_feature_names_out(self, input_features: Any = None) -> np.ndarray:
        """The terms in the order of their columns; hashed columns have numbers."""
        ready = self._ready()
        if ready._terms is None:
            return np.array([f"textfeatures{j}" for j in range(ready.n_columns_)], dtype=object)
        return np.array(ready._terms.names.texts(), dtype=object)

    @property
    def vocabulary_(self) -> dict[str, int]:
        """Terms and their columns."""
        if not self.__sklearn_is_fitted__() or self._terms is None:
            raise AttributeError("a vocabulary is there after fit, and without hashing only")
        return {name: column for column, name in enumerate(self._terms.names.texts())}

    # Model files.

    def state(self) -> dict[str, Any]:
        """What was learned, and parameters that are not JSON values, as arrays and JSON values."""
        if not self.__sklearn_is_fitted__():
            raise NotFittedError("call fit of TextFeatures before state")
        names = None if self._terms is None else self._terms.names
        return {
            "dtype": np.dtype(self.dtype).name,
            "stop_words": list(self._analysis().stop_words),
            "names": None if names is None else names.data,
            "stops": None if names is None else names.stops,
            "idf": self.idf_ if self.use_idf else None,
        }

    @classmethod
    def restored(cls, params: dict[str, Any], state: dict[str, Any]) -> TextFeatures:
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

    # scikit-learn.

    def __sklearn_is_fitted__(self) -> bool:
        return "n_columns_" in vars(self)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.requires_fit = bool(self.use_idf) or (self.vocabulary is None and self.hashing is None)
        tags.input_tags.two_d_array = False
        tags.input_tags.string = True
        tags.transformer_tags.preserves_dtype = []
        return tags
