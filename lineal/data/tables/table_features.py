"""`TableFeatures`: tables of numbers, categories, dates and text as matrices of numbers."""

from __future__ import annotations

from typing import Any

import numpy as np

from lineal.core.scikit import BaseEstimator, NotFittedError, TransformerMixin
from lineal.data.read import check_options
from lineal.data.schema import Schema
from lineal.data.tables import frames
from lineal.data.tables.encode import Encoding
from lineal.data.tables.reader import encode_frame
from lineal.data.tables.survey import Survey
from lineal.data.tables.texts import learned
from lineal.errors import DataError


class TableFeatures(TransformerMixin, BaseEstimator):
    """The columns of a table as a matrix: dense, or a csr_array if there is text or if most cells are zero.

    Takes tables of pandas, polars and PyArrow. Numbers are standardised; those that are mostly zero are not centred, so
    that sparse rows stay sparse. Categories have a 0/1 column each, and rare ones one in common. Dates become days, the
    year, and 0/1 columns for months, days of the week and hours. Text becomes weights of its words (tf-idf). Missing
    numbers become the mean, and have a 0/1 column that says so; missing categories are a category of their own.

    A column of strings holds dates if all its values are dates, text if they have three words or more and most of them
    differ, and categories otherwise. `kinds_` says what was found; `text`, `categorical`, `numeric` change it. The
    command line encodes files in the same way.

    Parameters
    ----------
    text : names of columns of text.
    categorical : names of columns of categories, which may be numbers.
    numeric : names of columns of numbers.
    ignore : names of columns to leave out.
    scale : "standard", or "none" to keep numbers as they are.
    missing : "indicator", "mean", "zero", or "error" to refuse missing cells.
    rare : categories in fewer rows share one column; None: in fewer than 5, if a column has more than 100 categories.
    levels : "onehot", or "hash" to hash categories and words to 2**bits columns.
    bits : see `levels`.
    ngram : number of words that follow each other to join, at most; "title=2,body=3" for some columns.
    skips : number of words that an n-gram can leave out in between.
    dtype : "float64" or "float32".
    n_jobs : number of threads for text; None or -1 for all cores.

    Attributes
    ----------
    kinds_ : dict of columns and what they hold: "number", "boolean", "category", "date" or "text".
    schema_ : all that was learned, as model files store it.
    n_features_out_ : number of columns of the matrix.

    Memory: the result, and for text what `lineal.TextFeatures` needs.

    Examples
    --------
    >>> import pandas as pd
    >>> from lineal import TableFeatures
    >>> table = pd.DataFrame({"age": [20, 40, None], "job": ["cook", "smith", "cook"]})
    >>> features = TableFeatures().fit(table)
    >>> features.get_feature_names_out().tolist()
    ['age', 'age is missing', 'job=cook', 'job=smith']
    >>> features.transform(table).tolist()
    [[-1.0, 0.0, 1.0, 0.0], [1.0, 0.0, 0.0, 1.0], [0.0, 1.0, 1.0, 0.0]]
    """

    def __init__(
        self,
        *,
        text: Any = None,
        categorical: Any = None,
        numeric: Any = None,
        ignore: Any = None,
        scale: str = "standard",
        missing: str = "indicator",
        rare: int | None = None,
        levels: str = "onehot",
        bits: int = 18,
        ngram: str | int = 1,
        skips: int = 0,
        dtype: str = "float64",
        n_jobs: int | None = None,
    ) -> None:
        self.text = text
        self.categorical = categorical
        self.numeric = numeric
        self.ignore = ignore
        self.scale = scale
        self.missing = missing
        self.rare = rare
        self.levels = levels
        self.bits = bits
        self.ngram = ngram
        self.skips = skips
        self.dtype = dtype
        self.n_jobs = n_jobs

    def fit(self, X: Any, y: Any = None) -> TableFeatures:
        """Learn from a table how its columns become numbers."""
        values = self.get_params()
        for name in ("text", "categorical", "numeric", "ignore"):
            values[name] = _joined(name, values[name])
        values["dtype"] = np.dtype(values["dtype"]).name
        options = check_options({**values, "label": ""})
        table = frames.flattened(frames.arrow_table(X))
        if not table.num_rows or not table.num_columns:
            raise DataError(
                f"the table has {table.num_rows} rows and {table.num_columns} columns: it needs some of both"
            )
        survey = Survey(options)
        for batch, place in frames.batches_of(table):
            survey.update(batch, place)
        encoding = learned(survey.encoding(), lambda: frames.batches_of(table), table.num_rows, options)
        self.schema_ = encoding.schema()
        self.kinds_ = {column.name: column.kind for column in encoding.columns}
        self.feature_names_in_ = np.array(table.schema.names, dtype=object)
        self.n_features_in_, self.n_features_out_ = table.num_columns, encoding.n_features
        return self

    def transform(self, X: Any) -> Any:
        """The rows of a table as a matrix. Columns are found by their names; categories that are new have no column."""
        return encode_frame(X, self._fitted())

    def get_feature_names_out(self, input_features: Any = None) -> np.ndarray:
        """A name for each column of the matrix."""
        schema = self._fitted()
        names = Encoding.of_schema(schema).feature_names()
        return np.array(names or [f"tablefeatures{j}" for j in range(schema.n_features)], dtype=object)

    def _fitted(self) -> Schema:
        if not self.__sklearn_is_fitted__():
            raise NotFittedError("this TableFeatures is not fitted yet: call fit with a table first")
        return self.schema_

    def __sklearn_is_fitted__(self) -> bool:
        return "schema_" in vars(self)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.string = tags.input_tags.categorical = tags.input_tags.allow_nan = True
        return tags


def _joined(option: str, names: Any) -> str | None:
    """Names of columns as readers take them."""
    if names is None or isinstance(names, str):
        return names
    found = [str(name) for name in names]
    if odd := next((name for name in found if "," in name), None):
        raise DataError(f"{option} names the column {odd!r}, whose name has a comma: rename the column")
    return ",".join(found) or None
