"""Odd tables in memory: empty ones, repeated and strange names, texts that are not Unicode, old dates."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

import lineal
from lineal import TableClassifier, TableFeatures
from lineal.errors import DataError


@pytest.fixture
def table() -> pd.DataFrame:
    rng = np.random.default_rng(0)
    return pd.DataFrame({
        "size": rng.normal(5, 2, 60), "town": rng.choice(["Bonn", "Oslo"], 60),
        "day": pd.date_range("2024-01-01", periods=60), "note": [f"some words of row {i}" for i in range(60)],
    })  # fmt: skip


@pytest.fixture
def labels(table) -> np.ndarray:
    return np.where(table["size"] > 5, "large", "small")


@pytest.mark.parametrize("library", ["pandas", "polars", "pyarrow"])
def test_no_rows_have_no_predictions(table, labels, library):
    if library == "polars":
        of = pytest.importorskip("polars").from_pandas
    else:
        of = pd.DataFrame if library == "pandas" else pa.Table.from_pandas
    classifier = TableClassifier().fit(of(table), labels)
    assert classifier.predict(of(table[:0])).shape == (0,)
    assert classifier.features_.transform(of(table[:0])).shape == (0, classifier.features_.n_features_out_)


def test_repeated_columns_are_named_in_training_and_prediction(table, labels):
    twice = pd.concat([table, table[["size"]]], axis=1)
    for call in (lambda: TableFeatures().fit(twice), lambda: TableClassifier().fit(table, labels).predict(twice)):
        with pytest.raises(DataError, match="several columns of one name: 'size'; rename or drop one of them"):
            call()


def test_numbers_as_names_are_refused(labels):
    with pytest.raises(DataError, match="a column called 0, which is not a text"):
        TableFeatures().fit(pd.DataFrame(np.ones((60, 2))))


def test_record_batches_are_tables(table, labels):
    batch = pa.RecordBatch.from_pandas(table)
    classifier = TableClassifier().fit(batch, labels)
    np.testing.assert_array_equal(classifier.predict(batch), classifier.predict(table))


def test_half_a_surrogate_pair_names_its_column(table):
    with pytest.raises(DataError, match="column 'town' of the table has a text that is not valid Unicode"):
        TableFeatures().fit(table.assign(town=pd.Series(["\ud800", "Oslo"] * 30, dtype=object)))


def test_labels_may_be_an_arrow_array(table, labels):
    classifier = TableClassifier().fit(pa.Table.from_pandas(table), pa.array(labels))
    assert classifier.score(table, labels) > 0.9


def test_infinite_numbers_are_called_so(table):
    with pytest.raises(DataError, match="column 'size' is inf"):
        TableFeatures().fit_transform(table.assign(size=[np.inf, 1.0] * 30))


def test_dates_in_text_may_be_in_any_year(table):
    days = ["9999-12-31", "0001-01-01", "2024-01-01T12:30:15.123456789+02:00"] * 20
    features = TableFeatures(ignore=["note"]).fit(table.assign(day=days))
    assert features.kinds_["day"] == "date"
    X, names = features.transform(table.assign(day=days)), features.get_feature_names_out().tolist()
    X = X.toarray() if hasattr(X, "toarray") else X
    assert X[:3, names.index("day: hour=10")].tolist() == [0.0, 0.0, 1.0]
    assert X[:3, names.index("day: month=12")].tolist() == [1.0, 0.0, 0.0]


@pytest.mark.parametrize("offset", [0.0, 1e4, 1e9])
def test_float32_keeps_apart_numbers_far_from_zero(tmp_path, labels, table, offset):
    far = pd.DataFrame({"size": table["size"] + offset})
    classifier = TableClassifier(features=TableFeatures(dtype="float32")).fit(far, labels)
    expected = classifier.classifier_.decision_function(classifier.features_.transform(far))
    np.testing.assert_allclose(classifier.decision_function(far), expected, atol=1e-3)
    far.to_csv(tmp_path / "far.csv", index=False)
    np.testing.assert_allclose(classifier.decision_function(str(tmp_path / "far.csv")), expected, atol=1e-3)


@pytest.mark.parametrize("label", ["town", "kind"])
def test_json_lines_that_are_not_utf8_name_their_column(tmp_path, label):
    path = tmp_path / "t.jsonl"
    lines = [f'{{"town": "caf\u00e9 {i}", "kind": "{"ab"[i % 2]}"}}' for i in range(20)]
    path.write_bytes("\n".join(lines).encode("latin-1"))
    with pytest.raises(DataError, match="'town' is not UTF-8 text"):
        lineal.read(path, label=label)


@pytest.mark.parametrize("gap", [None, float("nan"), pd.NA, pd.NaT])
def test_missing_cells_of_records_are_those_of_tables(table, labels, gap):
    table.loc[[1, 5], ["size", "town", "day", "note"]] = None
    classifier = TableClassifier(features=TableFeatures(text=["note"])).fit(table, labels)
    records = table.to_dict("records")
    for row in (1, 5):
        records[row] = dict.fromkeys(records[row], gap)
    model = classifier.model_
    np.testing.assert_array_equal(model.decision_function(records), model.decision_function(table))
    np.testing.assert_array_equal(model.decision_function(records[1]), model.decision_function(table[1:2]))
