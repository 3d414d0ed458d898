"""Linear models of standardised numbers take matrices in the units of the table; other models refuse them."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from scipy import sparse

import lineal
from lineal import (
    LeastSquaresClassifier,
    LinearClassifier,
    OnlineClassifier,
    StagewiseClassifier,
    TableClassifier,
    TableFeatures,
)
from lineal.errors import DataError


def people() -> tuple[pd.DataFrame, np.ndarray]:
    rng = np.random.default_rng(0)
    n = 200
    table = pd.DataFrame({
        "income": rng.normal(50_000, 9_000, n), "town": rng.choice(["Bonn", "Oslo"], n), "age": rng.normal(40, 9, n),
        "note": rng.choice(["late again and again", "always on time here"], n),
    })  # fmt: skip
    table.loc[3, "age"] = None
    return table, np.where(table["income"] > 50_000, "rich", "poor")


@pytest.mark.parametrize("text", [[], ["note"]], ids=["dense", "sparse"])
@pytest.mark.parametrize("kind", [LinearClassifier, LeastSquaresClassifier])
def test_linear_models_take_matrices_in_the_units_of_the_table(tmp_path, kind, text):
    table, labels = people()
    TableClassifier(kind(), features=TableFeatures(text=text)).fit(table, labels).save(tmp_path / "m.lineal")
    model = lineal.load(tmp_path / "m.lineal")
    X = TableFeatures(text=text, scale="none").fit_transform(table)
    assert sparse.issparse(X) == bool(text)
    expected = model.decision_function(table)
    np.testing.assert_allclose(model.decision_function(X), expected, rtol=1e-4, atol=1e-4)
    assert model.score(X, labels) == model.score(table, labels) > 0.8


@pytest.mark.parametrize("text", [[], ["note"]], ids=["dense", "sparse"])
@pytest.mark.parametrize("kind", [OnlineClassifier, StagewiseClassifier])
def test_other_models_refuse_matrices_if_numbers_were_standardised(tmp_path, kind, text):
    table, labels = people()
    for scale in ("standard", "none"):
        features = TableFeatures(text=text, scale=scale)
        classifier = TableClassifier(kind(), features=features).fit(table, labels)
        classifier.save(tmp_path / "m.lineal")
        model, X = lineal.load(tmp_path / "m.lineal"), classifier.features_.transform(table)
        expected = classifier.classifier_.decision_function(X)
        table.to_parquet(tmp_path / "t.parquet")
        for rows in (table, table.to_dict("records"), str(tmp_path / "t.parquet")):
            np.testing.assert_allclose(model.decision_function(rows), expected)
        if scale == "none":
            np.testing.assert_allclose(model.decision_function(X), expected)
            continue
        for matrix in (X, X[:1], *([] if text else [X.tolist(), X[0], X[0].tolist()])):
            with pytest.raises(DataError, match="standardised numbers of a table: give a DataFrame, a dict or"):
                model.predict(matrix)
