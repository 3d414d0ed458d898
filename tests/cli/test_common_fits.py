"""The list of common fits has all public estimators, on dense and sparse rows in both precisions."""

from __future__ import annotations

import os

import lineal
from lineal import dropin
from lineal.cli import common_fits


def public_estimators() -> list[type]:
    found = [getattr(lineal, name) for name in lineal.__all__ if name[0].isupper()]
    found += [getattr(dropin, name) for name in dropin.__all__]
    return [one for one in found if hasattr(one, "fit")]


def test_every_public_estimator_is_in_the_list(monkeypatch, tmp_path):
    fitted = set()

    def noted(estimator, X, y=None):
        if not isinstance(X, str | os.PathLike):
            fitted.add((type(estimator), isinstance(X, common_fits.np.ndarray), X.dtype.name))
        return estimator

    for one in public_estimators():
        monkeypatch.setattr(one, "fit", noted)
    monkeypatch.setattr(common_fits, "_use", lambda model, X: None)
    for task in common_fits.tasks(str(tmp_path)):
        if not task.name.startswith(("reading", "products", "online, files")):
            common_fits.run(task)
    wanted = {(one, is_dense, dtype) for one in public_estimators() for is_dense in (True, False)
              for dtype in common_fits.PRECISIONS}  # fmt: skip
    wanted -= {(lineal.StagewiseClassifier, False, dtype) for dtype in common_fits.PRECISIONS}  # features are dense
    assert wanted - fitted == set()


def test_names_are_unique(tmp_path):
    names = [task.name for task in common_fits.tasks(str(tmp_path))]
    assert len(set(names)) == len(names) > 50
