"""Monitor a fit: stop on validation accuracy, limit its time, and plot the certified gap."""

from __future__ import annotations

import importlib.util
import warnings

import numpy as np
from sklearn.datasets import load_digits
from sklearn.exceptions import ConvergenceWarning
from sklearn.model_selection import train_test_split

import lineal
from lineal.problem.solution import Snapshot
from lineal.report import plot_history


class StopOnValidation:
    """Stop a fit when the accuracy on validation rows has not improved for `patience` iterations."""

    def __init__(self, X: np.ndarray, y: np.ndarray, patience: int = 5) -> None:
        self.X, self.y, self.patience = X, y, patience
        self.best, self.best_iteration = 0.0, 0

    def __call__(self, snapshot: Snapshot) -> bool:
        scores = self.X @ snapshot.weights + snapshot.intercept  # labels are the column numbers
        accuracy = float((scores.argmax(axis=1) == self.y).mean())
        if accuracy > self.best:
            self.best, self.best_iteration = accuracy, snapshot.iteration
        return snapshot.iteration - self.best_iteration >= self.patience


def main() -> None:
    X, y = load_digits(return_X_y=True)
    X_train, X_valid, y_train, y_valid = train_test_split(X / 16, y, test_size=0.25, random_state=0, stratify=y)
    warnings.simplefilter("ignore", ConvergenceWarning)  # these fits stop early on purpose

    stop = StopOnValidation(X_valid, y_valid)
    early = lineal.LinearClassifier(loss="softmax", alpha=1e-5, tol=1e-6, callbacks=[stop]).fit(X_train, y_train)
    print(f"{early.status_} at iteration {early.n_iter_}: validation accuracy {stop.best:.3f}")
    print(f"  {early.certificate_}")

    limited = lineal.LinearClassifier(loss="softmax", alpha=1e-5, tol=1e-9, max_time=0.02).fit(X_train, y_train)
    print(f"{limited.status_} after {limited.n_iter_} iterations")
    print(f"  {limited.certificate_}")

    full = lineal.LinearClassifier(loss="softmax", alpha=1e-3, tol=1e-6).fit(X_train, y_train)
    print(f"{full.status_} after {full.n_iter_} iterations")
    print(f"  {full.certificate_}")
    if importlib.util.find_spec("matplotlib"):
        plot_history(full.history_, "history.png")
        print(f"plotted {len(full.history_)} rows of the history to history.png")
    else:
        print("no plot: matplotlib is not installed (pip install 'lineal[report]')")


if __name__ == "__main__":
    main()
