"""`TableClassifier` with its defaults on a CSV file: `python lineal_script.py JSON`, the files as `sets.Files`.

Prints the AUC on the test rows.
"""

import json
import sys

import pandas as pd
from sklearn.metrics import roc_auc_score

from lineal import TableClassifier


def main():
    """Read, fit, score."""
    given = json.loads(sys.argv[1])
    label = given["label"]
    train, test = (pd.read_csv(given[part], sep=given["delimiter"], na_values="?") for part in ("train", "test"))
    model = TableClassifier().fit(train, label)
    scores = model.decision_function(test)
    print(json.dumps({"auc": roc_auc_score(test[label] == model.classes_[1], scores)}))


if __name__ == "__main__":
    main()
