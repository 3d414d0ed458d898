"""`TextFeatures`: documents as sparse rows of counts or tf-idf weights of words, n-grams of words or of characters."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np

from lineal.core.scikit import BaseEstimator, TransformerMixin
from lineal.data.terms.documents import chunks_of
from lineal.data.terms.text_frames import in_frame
from lineal.data.terms.text_model import TextModel


class TextFeatures(TransformerMixin, TextModel, BaseEstimator):
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

    def fit(self, X: Any, y: Any = None) -> TextFeatures:
        """Learn the vocabulary and the idf of documents: a list or a column of strings."""
        self.learn(X, with_rows=False)
        return self

    def fit_transform(self, X: Any, y: Any = None) -> Any:
        """Learn from documents and return their rows (n, number of terms), in one pass over the text."""
        return self._in_frame(self.learn(X, with_rows=True), X)

    def transform(self, X: Any) -> Any:
        """The rows (n, number of terms) of documents, as CSR with sorted indices; unknown terms do not count."""
        ready = self._ready()
        return ready._in_frame(ready._applier().matrix(chunks_of(X, self.decode_error)), X)

    def _in_frame(self, rows: Any, X: Any) -> Any:
        """The rows as what `set_output` asks for."""
        from sklearn import get_config

        own = vars(self).get("_sklearn_output_config", {})
        return in_frame(rows, own.get("transform", get_config()["transform_output"]), X)

    def get_feature_names_out(self, input_features: Any = None) -> np.ndarray:
        """The terms in the order of their columns; hashed columns have numbers."""
        names = self.names()
        if names is None:
            names = [f"textfeatures{j}" for j in range(self._ready().n_columns_)]
        return np.array(names, dtype=object)

    @property
    def vocabulary_(self) -> dict[str, int]:
        """Terms and their columns."""
        if not self.__sklearn_is_fitted__() or self._terms is None:
            raise AttributeError("a vocabulary is there after fit, and without hashing only")
        return {name: column for column, name in enumerate(self._terms.names.texts())}

    def __sklearn_is_fitted__(self) -> bool:
        return self.is_fitted

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.requires_fit = bool(self.use_idf) or (self.vocabulary is None and self.hashing is None)
        tags.input_tags.two_d_array = False
        tags.input_tags.string = True
        tags.transformer_tags.preserves_dtype = []
        return tags
