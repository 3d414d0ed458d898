"""From a table with numbers, categories, dates and text to a model that takes such tables, files and records."""

from __future__ import annotations

import numpy as np
import pandas as pd

import lineal


def customers(n: int, seed: int) -> tuple[pd.DataFrame, np.ndarray]:
    """Generated customers of a mobile network, and whether they left."""
    rng = np.random.default_rng(seed)
    table = pd.DataFrame(
        {
            "minutes": rng.gamma(2.0, 100.0, n),
            "plan": rng.choice(["small", "medium", "large"], n, p=[0.5, 0.3, 0.2]),
            "joined": pd.Timestamp("2022-01-01") + pd.to_timedelta(rng.integers(0, 1000, n), "D"),
            "last_call": rng.choice(["bill too high again", "thanks for the quick help", "asked for a new phone"], n),
        }
    )
    table.loc[rng.random(n) < 0.05, "minutes"] = np.nan
    score = 1.5 * table["last_call"].str.contains("high") - (table["plan"] == "large") - table["joined"].dt.year + 2023
    return table, np.where(score + rng.normal(0.0, 0.5, n) > 0.5, "left", "stayed")


def main() -> None:
    table, labels = customers(5000, seed=0)
    features = lineal.TableFeatures(text="last_call", ngram=2)
    classifier = lineal.TableClassifier(lineal.LinearClassifier("logistic"), features=features).fit(table, labels)
    print(f"columns: {classifier.features_.kinds_}")
    print(f"certificate: {classifier.classifier_.certificate_}")

    others, truth = customers(1000, seed=1)
    print(f"accuracy on others: {classifier.score(others, truth):.3f}")
    strongest = np.argsort(-np.abs(classifier.coef_[0]))[:5]
    names = classifier.get_feature_names_out()
    print("largest weights:", ", ".join(f"{names[j]} {classifier.coef_[0, j]:+.2f}" for j in strongest))

    classifier.save("customers.lineal")
    model = lineal.load("customers.lineal")
    others.to_parquet("others.parquet")
    print(f"the same from a file: {bool((model.predict('others.parquet') == classifier.predict(others)).all())}")
    print(f"one record: {model.predict(others.iloc[0].to_dict())[0]}")


if __name__ == "__main__":
    main()
