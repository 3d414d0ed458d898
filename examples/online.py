"""Online learning: one pass over a file in blocks, adaptive products of features, and a batch solver for them."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from sklearn.pipeline import make_pipeline

import lineal
from lineal.features import AdaptivePolynomial


def main() -> None:
    # Whether a visitor buys depends on products of features, which a linear model cannot represent.
    rng = np.random.default_rng(0)
    X = (rng.random((12_000, 12)) < 0.5).astype(float)
    y = np.where(X[:, 0] * X[:, 3] + (1 - X[:, 0]) * X[:, 5] + 0.2 * rng.normal(size=12_000) > 0.5, "buys", "leaves")
    X_train, X_test, y_train, y_test = X[:10_000], X[10_000:], y[:10_000], y[10_000:]

    names = [f"c{j}" for j in range(12)]
    lines = [",".join([*names, "label"])]
    lines += [",".join([*(f"{value:g}" for value in row), label]) for row, label in zip(X_train, y_train)]
    Path("visits.csv").write_text("\n".join(lines) + "\n")

    linear, products = lineal.OnlineClassifier(), lineal.OnlineClassifier(expansion="adaptive")
    for block in lineal.read_blocks("visits.csv", block_bytes=65_536):
        labels = np.asarray(block.y)
        linear.partial_fit(block.X, labels, classes=["buys", "leaves"])
        products.partial_fit(block.X, labels, classes=["buys", "leaves"])
    print(f"linear: progressive loss {linear.history_[-1]['average_loss']:.3f}", end=", ")
    print(f"accuracy on new rows {linear.score(X_test, y_test):.3f}")
    print(f"with products: progressive loss {products.history_[-1]['average_loss']:.3f}", end=", ")
    print(f"accuracy on new rows {products.score(X_test, y_test):.3f}")

    chosen = AdaptivePolynomial(n_monomials=20)
    batch = make_pipeline(chosen, lineal.LinearClassifier(loss="squared_hinge", alpha=1e-3)).fit(X_train, y_train)
    print(f"chosen online, fitted in batch: accuracy on new rows {batch.score(X_test, y_test):.3f}")
    print("products with the largest weights:", ", ".join(chosen.get_feature_names_out(names)[12:16]))
    print(batch[-1].certificate_)


if __name__ == "__main__":
    main()
