"""Choose the strength of the penalty by cross-validation, and print and plot the path."""

from __future__ import annotations

import importlib.util

from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split

import lineal


def main() -> None:
    X, y = load_digits(return_X_y=True)
    X_train, X_test, y_train, y_test = train_test_split(X / 16, y, test_size=0.25, random_state=0, stratify=y)

    classifier = lineal.LinearClassifierCV(
        loss="softmax", n_alphas=8, alpha_min_ratio=1e-5, cv=3, select="one_standard_error"
    ).fit(X_train, y_train)
    for alpha, mean, se, certificate in zip(
        classifier.alphas_, classifier.cv_mean_, classifier.cv_se_, classifier.certificates_
    ):
        print(f"alpha {alpha:9.3g}: accuracy {mean:.3f} ± {se:.3f}, gap {certificate.value:.1e}")
    print(f"best alpha {classifier.alphas_[classifier.best_index_]:.3g}, chosen {classifier.alpha_:.3g}")
    print(f"accuracy on new rows: {classifier.score(X_test, y_test):.3f}")

    if importlib.util.find_spec("matplotlib"):
        from lineal.report import plot_path

        plot_path(classifier.search_, "path.png")


if __name__ == "__main__":
    main()
