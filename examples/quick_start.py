"""Train a classifier on handwritten digits, print its certificate, save it and load it again."""

from __future__ import annotations

import numpy as np
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split

import lineal


def main() -> None:
    X, y = load_digits(return_X_y=True)
    X = X.astype(np.float32) / 16  # float32 stays float32
    X_train, X_test, y_train, y_test = train_test_split(X, y, test_size=0.25, random_state=0, stratify=y)

    classifier = lineal.LinearClassifier(loss="softmax", alpha=1e-3, tol=1e-3).fit(X_train, y_train)
    print(f"{classifier.status_} after {classifier.n_iter_} iterations")
    print(f"certificate: {classifier.certificate_}")
    print(f"accuracy on new rows: {classifier.score(X_test, y_test):.3f}")

    classifier.save("digits.lineal")
    model = lineal.load("digits.lineal")
    assert np.array_equal(model.predict(X_test), classifier.predict(X_test))
    print(f"the loaded model predicts {model.predict(X_test[0])[0]}, the label is {y_test[0]}")


if __name__ == "__main__":
    main()
