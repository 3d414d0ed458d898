"""skrub's pipeline for tables on a CSV file: `python skrub_script.py JSON`, the files as `sets.Files`.

`tabular_pipeline` with scikit-learn's `LogisticRegression` of enough iterations. Prints the AUC on the test rows.
"""

import json
import sys

import pandas as pd
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import roc_auc_score
from skrub import tabular_pipeline


def main():
    """Read, fit, score."""
    given = json.loads(sys.argv[1])
    label = given["label"]
    train, test = (pd.read_csv(given[part], sep=given["delimiter"], na_values="?") for part in ("train", "test"))
    model = tabular_pipeline(LogisticRegression(max_iter=1000)).fit(train.drop(columns=label), train[label])
    scores = model.decision_function(test.drop(columns=label))
    print(json.dumps({"auc": roc_auc_score(test[label] == model.classes_[1], scores)}))


if __name__ == "__main__":
    main()
