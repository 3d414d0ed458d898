"""Dense, ill-conditioned features: least squares with a learned link, and stagewise regression."""

from __future__ import annotations

from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split

import lineal
from lineal.features import Chain, PatchConvolution, PrincipalComponents, RandomFourier


def main() -> None:
    X, y = load_digits(return_X_y=True)
    X_train, X_test, y_train, y_test = train_test_split(X / 16, y, random_state=0, stratify=y)

    models = {
        "softmax": lineal.LeastSquaresClassifier(alpha=1e-5),
        "calibrated": lineal.LeastSquaresClassifier(calibration="polynomial", alpha=1e-4),
        "stagewise, Fourier features": lineal.StagewiseClassifier(
            Chain(PrincipalComponents(30), RandomFourier()), block_size=256, n_blocks=6
        ),
        "stagewise, patches": lineal.StagewiseClassifier(
            PatchConvolution(image_shape=(8, 8), patch=4), block_size=256, n_blocks=4, alpha=1e-5
        ),
    }
    for name, model in models.items():
        model.fit(X_train, y_train)
        print(f"{name}: {100 * (1 - model.score(X_test, y_test)):.1f} % error; {model.certificate_}")

    stopped = lineal.StagewiseClassifier(block_size=256, n_blocks=20, validation_fraction=0.2, patience=3)
    stopped.fit(X_train, y_train)
    errors = [f"{100 * row['validation']:.1f}" for row in stopped.history_]
    print(f"held-out error by stage, in %: {' '.join(errors)}; kept {stopped.model_.n_blocks} stages")


if __name__ == "__main__":
    main()
