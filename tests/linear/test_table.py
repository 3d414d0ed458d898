"""`TableClassifier`: tables in, predictions out, and models in the units of the table."""

from __future__ import annotations

import copy
import pickle
from concurrent.futures import ThreadPoolExecutor

import joblib
import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from sklearn.base import clone
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GroupKFold
from sklearn.preprocessing import StandardScaler

import lineal
from lineal import LinearClassifier, LinearClassifierCV, TableClassifier, TableFeatures
from lineal.errors import DataError, OptionError


@pytest.fixture
def table() -> pd.DataFrame:
    rng = np.random.default_rng(0)
    n = 300
    return pd.DataFrame({
        "income": rng.lognormal(10, 1, n), "age": rng.normal(40, 12, n), "town": rng.choice(["Bonn", "Oslo"], n),
        "note": rng.choice(["late again and again", "always on time here", "never seen before now"], n),
    })  # fmt: skip


@pytest.fixture
def labels(table) -> np.ndarray:
    rng = np.random.default_rng(1)
    score = (table["age"] - 40) / 12 + table["note"].str.contains("late") + rng.normal(0, 0.3, len(table))
    return np.array(["no", "maybe", "yes"])[np.digitize(score, [-0.5, 0.7])]


def test_weights_in_the_units_of_the_table_are_those_of_a_scaled_fit(table, labels):
    numbers = table[["income", "age"]]
    classifier = TableClassifier(LinearClassifier("softmax", alpha=1 / 300, tol=1e-9)).fit(numbers, labels)
    scaler = StandardScaler().fit(numbers)
    expected = LogisticRegression(tol=1e-10, max_iter=10_000).fit(scaler.transform(numbers), labels)
    np.testing.assert_allclose(classifier.coef_ * scaler.scale_, expected.coef_, rtol=1e-3, atol=1e-4)
    np.testing.assert_allclose(
        classifier.predict_proba(numbers), expected.predict_proba(scaler.transform(numbers)), atol=1e-4
    )
    raw = classifier.model_.predict_proba(numbers.to_numpy())  # arrays are in the units of the table
    np.testing.assert_allclose(raw, classifier.predict_proba(numbers), rtol=1e-9)


def test_a_saved_model_takes_tables_files_and_records(table, labels, tmp_path):
    features = TableFeatures(text="note")
    classifier = TableClassifier(LinearClassifier("logistic"), features=features).fit(table, labels)
    expected = classifier.decision_function(table)
    classifier.save(tmp_path / "m.lineal")
    model = lineal.load(tmp_path / "m.lineal")
    np.testing.assert_allclose(model.decision_function(table), expected, rtol=1e-12)
    np.testing.assert_allclose(model.decision_function(pa.Table.from_pandas(table)), expected, rtol=1e-12)
    table.to_parquet(tmp_path / "t.parquet")
    np.testing.assert_allclose(model.decision_function(tmp_path / "t.parquet"), expected, rtol=1e-12)
    np.testing.assert_allclose(model.decision_function(table.to_dict("records")), expected, rtol=1e-12)
    np.testing.assert_allclose(model.decision_function(table.iloc[0].to_dict()), expected[:1], rtol=1e-12)
    assert model.score(table, labels) == classifier.score(table, labels)
    assert model.coef_.shape == (3, len(classifier.get_feature_names_out()))
    np.testing.assert_array_equal(model.classes_, classifier.classes_)


def test_the_scaled_classifier_and_the_model_agree(table, labels):
    for precision in ("float32", "float64"):
        features = TableFeatures(dtype=precision)
        classifier = TableClassifier(LinearClassifier(), features=features).fit(table, labels)
        scaled = classifier.classifier_.decision_function(classifier.features_.transform(table))
        tolerance = 1e-10 if precision == "float64" else 1e-4
        np.testing.assert_allclose(classifier.decision_function(table), scaled, rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize("library", ["pandas", "polars", "pyarrow"])
def test_predictions_come_in_the_library_of_the_table(table, labels, library):
    given = table.set_index(np.arange(300) * 2)
    if library == "polars":
        given = pytest.importorskip("polars").DataFrame(table.to_dict("list"))
    elif library == "pyarrow":
        given = pa.Table.from_pandas(table)
    classifier = TableClassifier(LinearClassifier("softmax"), output="frame").fit(given, labels)
    found, probabilities = classifier.predict(given), classifier.predict_proba(given)
    assert type(found).__module__.partition(".")[0] == library
    assert type(probabilities).__module__.partition(".")[0] == library
    if library == "pandas":
        assert found.index.equals(given.index)
        assert probabilities.columns.tolist() == ["maybe", "no", "yes"]
    arrays = clone(classifier).set_params(output="array").fit(given, labels)
    assert list(found.to_pylist() if library == "pyarrow" else found.to_list()) == arrays.predict(given).tolist()


def test_labels_and_weights_can_be_columns(table, labels):
    whole = table.assign(answer=labels, importance=np.where(labels == "no", 2.0, 1.0))
    named = TableClassifier().fit(whole, "answer", "importance")
    apart = TableClassifier().fit(table, labels, whole["importance"])
    assert {"answer", "importance"}.isdisjoint(named.features_.kinds_)
    np.testing.assert_array_equal(named.predict(whole), apart.predict(table))
    assert named.score(whole, "answer") == apart.score(table, labels)
    with pytest.raises(DataError, match="the table has no column 'anser'; it has income, age"):
        TableClassifier().fit(whole, "anser")
    whole.loc[5, "answer"] = None
    with pytest.raises(DataError, match="'answer' of the table, which should be the labels, is missing in row 5"):
        TableClassifier().fit(whole, "answer")


@pytest.mark.filterwarnings("ignore:A column-vector y was passed")
def test_a_column_of_labels_is_a_list_of_them(table, labels):
    numbers = table[["age", "income"]]
    for column in (labels[:, None], [[label] for label in labels], pd.DataFrame({"label": labels})):
        assert TableClassifier().fit(numbers, column).classifier_.loss == "softmax"
    assert TableClassifier().fit(numbers, labels[:, None] == "no").classifier_.loss == "logistic"
    assert TableClassifier().fit(numbers, labels[:, None] == np.unique(labels)).classifier_.loss == "logistic"
    with pytest.raises(DataError, match="its rows have different lengths"):
        TableClassifier().fit(numbers, [["a"], ["b", "c"], *[["a"]] * 298])


def test_a_named_column_can_have_a_comma_and_holds_one_value_per_row(table, labels):
    whole = table.assign(**{"y, b": labels, "w": 1.0})
    named = TableClassifier().fit(whole, "y, b", "w")
    assert set(named.features_.kinds_) == set(table.columns)
    assert (named.predict(whole) == TableClassifier().fit(table, labels).predict(table)).all()
    assert set(TableClassifier(features=TableFeatures(ignore="age,town")).fit(whole, "y, b", "w").features_.kinds_) == {
        "income", "note",
    }  # fmt: skip
    weights = np.arange(300) % 7
    assert named.score(whole.assign(w=weights), "y, b", "w") == named.score(table, labels, weights)
    lists = pa.Table.from_pandas(table).append_column("l", pa.array([[label] for label in labels]))
    with pytest.raises(
        DataError, match="'l' of the table, which should be the labels, holds lists: give one value per"
    ):
        TableClassifier().fit(lists, "l")


@pytest.mark.filterwarnings("ignore:the best accuracy is at the")
def test_groups_are_held_out_together(table, labels):
    groups, whole = np.arange(300) % 10, table.assign(group=np.arange(300) % 10)
    model = LinearClassifierCV("softmax", alphas=[0.1, 0.01], cv=GroupKFold(3))
    features = TableFeatures(text="note")
    found = TableClassifier(model, features=features).fit(table, labels, groups=groups)
    rows = found.features_.transform(table)
    np.testing.assert_array_equal(found.classifier_.cv_scores_, model.fit(rows, labels, groups=groups).cv_scores_)
    named = TableClassifier(model, features=features).fit(whole, labels, groups="group")
    np.testing.assert_array_equal(named.classifier_.cv_scores_, found.classifier_.cv_scores_)
    for other, name in ((None, "LinearClassifier"), (lineal.LeastSquaresClassifier(), "LeastSquaresClassifier")):
        with pytest.raises(OptionError, match=f"groups are for models that hold rows out, and {name} fits all"):
            TableClassifier(other).fit(table, labels, groups=groups)


def test_any_classifier_of_lineal(table, labels):
    for model in (LinearClassifierCV("logistic", n_alphas=3, cv=2), lineal.LeastSquaresClassifier()):
        assert TableClassifier(model).fit(table, labels).score(table, labels) > 0.6
    with pytest.raises(OptionError, match="must be a classifier of lineal"):
        TableClassifier(LogisticRegression()).fit(table, labels)
    with pytest.raises(OptionError, match="output='list' must be"):
        TableClassifier(output="list").fit(table, labels)


def test_one_row_at_a_time_equals_all_rows(table, labels):
    classifier = TableClassifier(LinearClassifier("logistic")).fit(table, labels)
    rows = [classifier.decision_function(table[i : i + 1]) for i in range(20)]
    np.testing.assert_allclose(np.concatenate(rows), classifier.decision_function(table[:20]), rtol=1e-12)


def test_scaling_keeps_sparse_penalties(table, labels, tmp_path):
    """Row-sparse weights are brought to the units of the table as well."""
    model = LinearClassifier("softmax", "l1/l2", alpha=0.05)
    features = TableFeatures(text="note", ngram=2)
    classifier = TableClassifier(model, features=features).fit(table, labels)
    scaled = classifier.classifier_.decision_function(classifier.features_.transform(table))
    np.testing.assert_allclose(classifier.decision_function(table), scaled, rtol=1e-9, atol=1e-12)


def test_the_command_line_saves_the_units_of_the_table(table, labels, tmp_path):
    from tests.cli.test_cli import done

    table.assign(label=labels).to_csv(tmp_path / "t.csv", index=False)
    done("train", tmp_path / "t.csv", "-m", tmp_path / "m", "--loss", "softmax", "--tol", "1e-8", "--alpha", "0.01")
    model = lineal.load(tmp_path / "m")
    own = TableClassifier(LinearClassifier("softmax", tol=1e-8, alpha=0.01)).fit(table, labels)
    np.testing.assert_allclose(model.coef_, own.coef_, rtol=1e-3, atol=1e-6)
    assert model.schema.settings["scale"] == "standard"
    np.testing.assert_array_equal(model.predict(tmp_path / "t.csv"), own.predict(table))


def test_threads_predict_the_same_texts_side_by_side(table, labels, tmp_path):
    table["note"] = [f"{note} Straße w{i} {'x' * (i % 7)}" for i, note in enumerate(table["note"])]
    TableClassifier(features=TableFeatures(text="note")).fit(table, labels).save(tmp_path / "m")
    expected, model = lineal.load(tmp_path / "m").decision_function(table), lineal.load(tmp_path / "m")
    with ThreadPoolExecutor(8) as threads:
        found = list(threads.map(model.decision_function, 4 * table.to_dict("records")))
        whole = list(threads.map(model.decision_function, 4 * [table]))
    np.testing.assert_allclose(np.concatenate(found), np.tile(expected, (4, 1)), rtol=1e-12)
    np.testing.assert_array_equal(whole, 4 * [expected])


@pytest.mark.parametrize("levels", ["onehot", "hash"])
def test_used_classifiers_and_models_are_pickled_and_copied(table, labels, tmp_path, levels):
    classifier = TableClassifier(features=TableFeatures(text="note", levels=levels)).fit(table, labels)
    classifier.save(tmp_path / "m")
    for used in (classifier, lineal.load(tmp_path / "m"), classifier.features_):
        call = used.transform if used is classifier.features_ else used.decision_function
        fresh = len(pickle.dumps(used))
        first, every = call(table[:1]), call(table)
        data = pickle.dumps(used)
        assert len(data) == fresh  # nothing of what was made for prediction
        joblib.dump(used, tmp_path / "j")
        for again in (pickle.loads(data), copy.deepcopy(used), copy.copy(used), joblib.load(tmp_path / "j")):
            call = again.transform if used is classifier.features_ else again.decision_function
            for rows, expected in ((table[:1], first), (table, every)):
                assert abs(call(rows) - expected).max() == 0.0
