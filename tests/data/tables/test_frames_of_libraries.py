"""Columns that only one library has: lazy tables, sparse columns, intervals; and numbers beyond float32."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

import lineal
from lineal.errors import DataError


@pytest.fixture
def table() -> pd.DataFrame:
    random = np.random.default_rng(0)
    return pd.DataFrame({"size": random.normal(size=60), "kind": random.choice(["x", "y"], 60)})


@pytest.fixture
def labels(table) -> np.ndarray:
    return np.where(table["size"] > 0.0, "large", "small")


def test_lazy_frames_are_refused_with_what_to_do(table, labels):
    polars = pytest.importorskip("polars")
    lazy = polars.from_pandas(table).lazy()
    numbers = polars.from_pandas(table[["size"]])
    tables, linear = lineal.TableClassifier().fit(table, labels), lineal.LinearClassifier().fit(numbers, labels)
    for call in (
        lambda: lineal.TableClassifier().fit(lazy, labels),
        lambda: lineal.LinearClassifier().fit(numbers.lazy(), labels),
        lambda: tables.predict(lazy),
        lambda: tables.model_.predict(lazy),
        lambda: tables.features_.transform(lazy),
        lambda: linear.predict(numbers.lazy()),
        lambda: linear.model_.predict(numbers.lazy()),
    ):
        with pytest.raises(DataError, match=r"X is a LazyFrame of polars.*give X\.collect\(\)"):
            call()
    np.testing.assert_array_equal(tables.predict(lazy.collect()), tables.predict(table))


@pytest.mark.parametrize("fill", [0.0, np.nan])
def test_sparse_columns_are_those_with_all_cells(table, labels, fill):
    values = np.where(np.arange(60) % 5 == 0, 1.5, fill)
    dense, sparse = table.assign(extra=values), table.assign(extra=pd.arrays.SparseArray(values))
    wanted, found = (lineal.TableClassifier().fit(one, labels) for one in (dense, sparse))
    assert found.get_feature_names_out().tolist() == wanted.get_feature_names_out().tolist()
    np.testing.assert_array_equal(found.coef_, wanted.coef_)
    for rows in (slice(0, 60), slice(5, 6), slice(6, 7)):
        np.testing.assert_array_equal(found.decision_function(sparse[rows]), wanted.decision_function(dense[rows]))


def test_intervals_are_categories(table, labels):
    ranges = pd.cut(table["size"], [-4.0, -0.5, 0.5, 4.0])
    ranges[3] = np.nan
    texts = pd.Series([None if cell is np.nan else str(cell) for cell in ranges], dtype=object)
    wanted = lineal.TableClassifier().fit(table.assign(range=texts), labels)
    assert "range=(-0.5, 0.5]" in wanted.get_feature_names_out()
    for given in (ranges, ranges.astype(ranges.cat.categories.dtype)):  # categories, and a column of intervals
        typed = table.assign(range=given)
        found = lineal.TableClassifier().fit(typed, labels)
        assert found.get_feature_names_out().tolist() == wanted.get_feature_names_out().tolist()
        np.testing.assert_array_equal(found.coef_, wanted.coef_)
        for rows in (slice(0, 60), slice(3, 4), slice(4, 5)):
            np.testing.assert_array_equal(found.predict(typed[rows]), wanted.predict(typed[rows].assign(range=texts)))


def test_other_types_of_columns_are_named(table, labels):
    periods, numbers = pd.period_range("2024-01", periods=60, freq="M"), table["size"] * 1j
    for given, said in (
        (periods, "column 'odd' holds .*ignore=odd"),
        (numbers, "column 'odd' of the table cannot be used"),
    ):
        with pytest.raises(DataError, match=said):
            lineal.TableClassifier().fit(table.assign(odd=given), labels)


@pytest.mark.parametrize("kinds", [{}, {"levels": "hash", "bits": 10}, {"categorical": "kind"}])
def test_numbers_beyond_float32_name_their_column(table, labels, kinds):
    table = table.assign(note=np.arange(60) % 7 * 1.0)
    features = lineal.TableFeatures(dtype="float32", scale="none", **kinds)
    classifier = lineal.TableClassifier(features=features).fit(table, labels)
    table.loc[5, "note"] = -1e60
    for rows, row in ((table, 5), (table[5:6], 0), (table[4:], 1)):
        with pytest.raises(DataError, match=rf"row {row} \(counted from 0\), column 'note' has a number .* float32"):
            classifier.predict(rows)
    with pytest.raises(DataError, match=r"row 0 .* column 'note' has a number"):
        classifier.model_.predict(table.to_dict("records")[5])
    with pytest.raises(DataError, match=r"row 5 .* column 'note'"):
        lineal.TableClassifier(features=features).fit(table, labels)


def test_matrices_for_a_model_of_standardised_tables(table, labels):
    classifier = lineal.TableClassifier(lineal.OnlineClassifier()).fit(table, labels)
    with pytest.raises(DataError, match="a dict or a list of dicts with the columns 'size', 'kind', or"):
        classifier.predict(classifier.features_.transform(table))
    wanted = classifier.predict(table)
    np.testing.assert_array_equal(classifier.model_.predict(table.to_dict("records")), wanted)
    np.testing.assert_array_equal(classifier.classifier_.predict(classifier.features_.transform(table)), wanted)
