"""From an svmlight file to predictions: convert it once, train on the binary file, and predict another file."""

from __future__ import annotations

import os
from dataclasses import replace

from sklearn.datasets import dump_svmlight_file, load_breast_cancer
from sklearn.preprocessing import MaxAbsScaler

import lineal


def write_files() -> None:
    """Write example files."""
    X, y = load_breast_cancer(return_X_y=True)
    X = MaxAbsScaler().fit_transform(X)
    dump_svmlight_file(X[:400], y[:400], "train.svm", zero_based=False)
    dump_svmlight_file(X[400:], y[400:], "new.svm", zero_based=False)


def main() -> None:
    write_files()

    lineal.convert("train.svm", "train.arrow")
    print(f"train.svm {os.path.getsize('train.svm')} bytes, train.arrow {os.path.getsize('train.arrow')} bytes")
    data = lineal.read("train.arrow")  # no parsing; large files are memory-mapped
    print(f"{len(data)} rows, {data.X.shape[1]} columns, {data.X.dtype}")

    classifier = lineal.LinearClassifier(loss="squared_hinge", alpha=1e-4).fit(data.X, data.y)
    print(f"certificate: {classifier.certificate_}")

    # With the schema of the training file, the model reads other files into the same columns.
    replace(classifier.model_, schema=data.schema).save("cancer.lineal")
    model = lineal.load("cancer.lineal")
    labels = model.predict("new.svm")  # block by block
    truth = lineal.read("new.svm", schema=model.schema).y
    print(f"accuracy on new.svm: {(labels == truth).mean():.3f}")


if __name__ == "__main__":
    main()
