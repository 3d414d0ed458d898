"""A careful scikit-learn pipeline on a CSV file: `python scikit_script.py JSON`, the files as `sets.Files`.

Numbers are imputed, with 0/1 columns for missing cells, and standardised; categories are one-hot, rare and missing ones
apart; dates become days and months. The strength of the penalty is chosen by cross-validated AUC. Prints the AUC on the
test rows.
"""

import json
import sys

import pandas as pd
from sklearn.compose import make_column_transformer
from sklearn.impute import SimpleImputer
from sklearn.linear_model import LogisticRegressionCV
from sklearn.metrics import roc_auc_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler


def main():
    """Read, fit, score."""
    given = json.loads(sys.argv[1])
    label, tables = given["label"], []
    for part in ("train", "test"):
        table = pd.read_csv(
            given[part], sep=given["delimiter"], na_values="?", parse_dates=list(given["dates"]) or False
        )
        for name in given["dates"]:
            days = table.pop(name)
            table[f"{name} days"] = (days - pd.Timestamp(0)).dt.days
            table[f"{name} month"] = days.dt.month.astype(str)
        tables.append((table.drop(columns=label), table[label]))
    (X, y), (X_test, y_test) = tables
    numbers = X.select_dtypes("number").columns.tolist()
    features = make_column_transformer(
        (make_pipeline(SimpleImputer(add_indicator=True), StandardScaler()), numbers),
        (
            make_pipeline(
                SimpleImputer(strategy="constant", fill_value="missing"),
                OneHotEncoder(handle_unknown="infrequent_if_exist", min_frequency=5),
            ),
            [name for name in X.columns if name not in numbers],
        ),
    )
    classifier = LogisticRegressionCV(
        Cs=10, cv=5, scoring="roc_auc", max_iter=1000, n_jobs=-1, l1_ratios=(0.0,), use_legacy_attributes=False
    )
    model = make_pipeline(features, classifier).fit(X, y)
    scores = model.decision_function(X_test)
    print(json.dumps({"C": float(classifier.C_), "auc": roc_auc_score(y_test == model.classes_[1], scores)}))


if __name__ == "__main__":
    main()
