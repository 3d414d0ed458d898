"""Estimators without a single option set, beside scikit-learn's: error on test rows and seconds, in one run.

    python -m benchmarks.defaults [--data DIR] [--json PATH] [--quick] [--only least_squares,search]

- least_squares: `LeastSquaresClassifier()`, fitted to its tolerance instead (`validation_fraction=None`), and
  `RidgeClassifier()`, on random Fourier features.
- search: `LinearClassifierCV()`, its quick search and `LinearClassifier()`, on a census table and a bank's table whose
  columns are not scaled, and on raw counts of words, beside `LogisticRegressionCV` where it ends in reasonable time.

`StagewiseClassifier()` is in `benchmarks.tables`. Seconds are those of one fit in a warm process. --quick takes the
smaller tables, and at most 5,000 rows of each.
"""

from __future__ import annotations

import argparse
import csv
import gzip
import json
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.feature_extraction.text import CountVectorizer
from sklearn.linear_model import LogisticRegressionCV, RidgeClassifier
from sklearn.metrics import roc_auc_score

import lineal
from benchmarks import datasets
from benchmarks.common import RESULTS, print_table, timed, write_json
from benchmarks.datasets import Split
from lineal.features import RandomFourier

#: Most rows of anything with --quick, for training and for testing.
QUICK_ROWS = 5000

COLUMNS = {
    "least_squares": ("data", "features", "lineal error", "to tol error", "Ridge error", "lineal s", "to tol s",
                      "Ridge s", "iterations"),
    "search": ("data", "rows", "plain auc", "path auc", "quick auc", "LogisticRegressionCV auc", "plain s", "path s",
               "quick s", "LogisticRegressionCV s", "path fits", "quick fits", "path alpha", "quick alpha"),
}  # fmt: skip


def error_of(model: Any, X: Any, y: np.ndarray) -> float:
    """Share of wrong labels."""
    return float((model.predict(X) != y).mean())


def least_squares(folder: Path, name: str, most: int | None) -> list[Any]:
    """A row of the second table."""
    X, y, X_test, y_test = datasets.dense_table(folder, name, most)
    make = RandomFourier(scale=0.5, n_features=1000 if most else 2000, random_state=0).fit(X)
    F, F_test = make.transform(X), make.transform(X_test)
    chosen, seconds = timed(lambda: lineal.LeastSquaresClassifier().fit(F, y))
    full, full_seconds = timed(lambda: lineal.LeastSquaresClassifier(validation_fraction=None).fit(F, y))
    ridge, ridge_seconds = timed(lambda: RidgeClassifier().fit(F, y))
    errors = [error_of(model, F_test, y_test) for model in (chosen, full, ridge)]
    return [name, F.shape[1], *errors, seconds, full_seconds, ridge_seconds, chosen.n_iter_]


def census(folder: Path, most: int | None) -> Split:
    """Adult: text columns as 0/1 columns, numbers as they are, up to a million and a half."""
    parts = []
    for part in ("train", "test"):
        with gzip.open(folder / "adult" / f"{part}.csv.gz", "rt") as file:
            parts.append(list(csv.reader(file))[1:][:most])
    return one_hot(*parts)


def bank(folder: Path, most: int | None) -> Split:
    """bank_additional, a random quarter for testing, without `duration`, which is known only after the call."""
    with gzip.open(folder / "bank_additional" / "bank-additional-full.csv.gz", "rt") as file:
        head, *rows = csv.reader(file, delimiter=";")
    place = head.index("duration")
    rows = [rows[i][:place] + rows[i][place + 1 :] for i in np.random.default_rng(0).permutation(len(rows))]
    test = len(rows) // 4
    return one_hot(rows[test:][:most], rows[:test][:most])


def one_hot(train: list[list[str]], test: list[list[str]]) -> Split:
    """Columns of rows of text, the last of which is the label: 0/1 columns of text, and numbers without any scaling."""
    columns: list[list[np.ndarray]] = [[], []]
    for values, others in zip(zip(*(row[:-1] for row in train)), zip(*(row[:-1] for row in test))):
        try:
            made = [np.array(part, float)[:, None] for part in (values, others)]
        except ValueError:
            known = np.unique(np.array([value.strip() for value in values]))
            made = [np.array([value.strip() for value in part])[:, None] == known for part in (values, others)]
        for part, column in zip(columns, made):
            part.append(column.astype(np.float64))
    y, y_test = (np.array([row[-1].strip() for row in rows]) for rows in (train, test))
    return np.hstack(columns[0]), y, np.hstack(columns[1]), y_test


def toxicity_counts(folder: Path, most: int | None) -> Split:
    """Wikipedia comments as raw counts of words and pairs of words."""
    texts, labels = [], []
    for part in ("train", "test"):
        with gzip.open(folder / "wiki_toxicity" / f"{part}.jsonl.gz", "rt", encoding="utf-8") as file:
            rows = [json.loads(line) for line in list(file)[:most]]
        texts.append([row["text"] for row in rows])
        labels.append(np.array([int(row["label"]) for row in rows]))
    vectorizer = CountVectorizer(ngram_range=(1, 2), min_df=2, dtype=np.float32)
    return vectorizer.fit_transform(texts[0]).tocsr(), labels[0], vectorizer.transform(texts[1]).tocsr(), labels[1]


def search(name: str, split: Split, has_peer: bool) -> list[Any]:
    """A row of the third table."""
    X, y, X_test, y_test = split

    def auc(model: Any) -> float:
        return float(roc_auc_score(y_test, model.decision_function(X_test)))

    makers: dict[str, Callable[[], Any]] = {
        "plain": lineal.LinearClassifier,
        "path": lineal.LinearClassifierCV,
        "quick": lambda: lineal.LinearClassifierCV(search="quick"),
    }
    if has_peer:
        makers["peer"] = lambda: LogisticRegressionCV(Cs=10, cv=5)
    fitted = {kind: timed(lambda make=make: make().fit(X, y)) for kind, make in makers.items()}
    aucs = {kind: auc(model) for kind, (model, _) in fitted.items()}
    seconds = {kind: taken for kind, (_, taken) in fitted.items()}
    found = [fitted[kind][0] for kind in ("path", "quick")]
    return [
        name, X.shape[0], *(aucs.get(kind) for kind in ("plain", "path", "quick", "peer")),
        *(seconds.get(kind) for kind in ("plain", "path", "quick", "peer")),
        *(model.cv_scores_.size for model in found), *(model.alpha_ for model in found),
    ]  # fmt: skip


def warm_up() -> None:
    """Compile or load the kernels of all fits."""
    rng = np.random.default_rng(0)
    for k in (2, 3):
        X, y = rng.normal(size=(300, 70)), np.arange(300) % k
        for options in ({}, {"validation_fraction": None}):
            lineal.LeastSquaresClassifier(**options).fit(X.astype(np.float32), y)
    from scipy import sparse

    y = np.arange(300) % 2
    for rows in (X, sparse.csr_matrix(X * (X > 1), dtype=np.float32)):
        lineal.LinearClassifier().fit(rows, y)
        lineal.LinearClassifierCV(cv=2).fit(rows, y)


def main() -> None:
    """Measure, print, write."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", type=Path, default=Path("../shared/data"))
    parser.add_argument("--json", default=RESULTS / "defaults.json")
    parser.add_argument("--quick", action="store_true", help="smaller tables, and at most 5,000 rows of each")
    parser.add_argument("--only", default=",".join(COLUMNS), help="which of the tables, separated by commas")
    arguments = parser.parse_args()
    warnings.simplefilter("ignore")  # peers that stop at their limits say so every time
    folder, most = arguments.data, QUICK_ROWS if arguments.quick else None
    _, seconds = timed(warm_up)
    print(f"warm-up {seconds:.1f} s")
    results: dict[str, Any] = {}
    for kind in arguments.only.split(","):
        rows: list[list[Any]] = []
        if kind == "least_squares":
            chosen = ("satimage", "optdigits", "pendigits", *(() if arguments.quick else datasets.IMAGES))
            rows = [least_squares(folder, name, most) for name in chosen]
        elif kind == "search":
            for name, make in (("adult", census), ("bank_additional", bank), ("wiki_toxicity counts", toxicity_counts)):
                rows.append(search(name, make(folder, most), make is not toxicity_counts))
        else:
            parser.error(f"--only {kind}: use some of {', '.join(COLUMNS)}")
        print_table(f"defaults: {kind}", COLUMNS[kind], rows)
        results[kind] = {"columns": COLUMNS[kind], "rows": rows}
        write_json(arguments.json, results)


if __name__ == "__main__":
    main()
