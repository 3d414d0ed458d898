"""Where a path begins and ends by itself: whatever the scale of the columns, and with a warning at its edges."""

from __future__ import annotations

import json
import warnings

import numpy as np
import pytest
from cli_files import done
from sklearn.datasets import make_classification
from sklearn.preprocessing import scale

import lineal
from lineal.linear.options import TrainOptions
from lineal.linear.search.options import PathOptions
from lineal.linear.search.run import search
from lineal.linear.search.scan import PATIENCE, STEP, scan


def table(n=600, seed=0):
    """Columns that tell the class, and columns of a huge scale that tell little or nothing, as money in a census."""
    X, y = make_classification(n, 10, n_informative=6, class_sep=1.2, flip_y=0.02, random_state=seed)
    rng = np.random.default_rng(seed)
    money = 1e5 * rng.lognormal(size=(n, 2)) * (1.0 + 0.1 * y[:, None])
    return X, np.hstack([X, money]), y


def run(X, y, **wanted):
    return search(X, y, TrainOptions(loss="logistic"), PathOptions(folds=3, **wanted))


def test_a_scan_ends_after_steps_without_gain():
    tried = []

    def score_at(alpha):
        tried.append(alpha)
        return {1.0: 0.5, 0.1: 0.5, 0.01: 0.7, 1e-3: 0.6}.get(round(alpha, 9), 0.65)

    found = scan(1.0, 1.5, 1e-9, score_at, True)
    assert found.best == pytest.approx(0.01)
    assert len(tried) == 3 + PATIENCE
    np.testing.assert_allclose(tried, STEP ** np.arange(len(tried)))
    tried.clear()
    scan(1.0, 1.5e-5, 1e-9, score_at, True)  # steps above 1.5e-5 do not count
    assert len(tried) == 5 + PATIENCE
    assert scan(1.0, 1.5, 1e-9, lambda alpha: alpha, False).best < 1e-8  # losses fall to the end
    assert scan(1.0, 1.5, 0.5, lambda alpha: "max_time", True) == (None, "max_time")


@pytest.mark.parametrize("quick", [False, True])
def test_the_scale_of_a_column_does_not_decide(quick):
    """The path must reach the strengths at which the other columns count, however large one column is."""
    X, wide, y = table()
    options = {"search": "quick"} if quick else {}
    plain, found = (run(rows, y, **options)[2] for rows in (X, wide))
    assert found.mean.max() > plain.mean.max() - 0.02
    assert found.edge is None
    provable = run(wide, y, n_alphas=1)[2].alphas[0]
    assert found.alphas[0] < 1e-4 * provable


def test_on_columns_of_one_scale_paths_start_where_they_did():
    X, _, y = table()
    provable = run(scale(X), y, n_alphas=1)[2].alphas[0]
    found = run(scale(X), y)[2]
    assert found.alphas[0] == pytest.approx(provable)
    assert found.alphas[19] == pytest.approx(1e-6 * provable)


def test_a_path_goes_on_while_its_last_strength_wins_and_is_bounded():
    X, _, y = table()
    one = run(X, y, scoring="log_loss", n_alphas=5)[2]
    assert len(one.alphas) <= 10
    np.testing.assert_allclose(one.alphas[1:] / one.alphas[:-1], one.alphas[1] / one.alphas[0])
    rng = np.random.default_rng(0)
    hard = rng.normal(size=(400, 2)) * [1.0, 1e-3]
    z = (hard[:, 1] > 0).astype(int)  # a tiny column decides: the weaker the penalty, the better
    found = run(hard, z, scoring="log_loss", n_alphas=4)[2]
    assert 4 < len(found.alphas) <= 8
    if found.best == len(found.alphas) - 1:
        assert found.edge == "smallest"
        assert "smallest alpha" in found.warning


def test_edges_of_given_paths_warn():
    X, _, y = table()
    X = scale(X)
    with pytest.warns(UserWarning, match=r"smallest alpha of the path, 10: smaller ones may be better"):
        lineal.LinearClassifierCV(alphas=[1e4, 10.0], scoring="log_loss", loss="logistic", cv=3).fit(X, y)
    with pytest.warns(UserWarning, match="largest alpha of the path"):
        lineal.LinearClassifierCV(alphas=[1e-2, 1e-9], scoring="log_loss", loss="logistic", cv=3).fit(X[:60], y[:60])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        lineal.LinearClassifierCV(alphas=[1e3, 1e-2, 1e-9], scoring="log_loss", loss="logistic", cv=3).fit(
            X[:60], y[:60]
        )
        lineal.LinearClassifierCV(alphas=[1e-2], cv=3).fit(X, y)  # one strength has no edges


def test_a_quick_search_does_less_than_a_path():
    X, wide, y = table()
    fits = {}
    for rows in (scale(X), wide):
        for kind in ("path", "quick"):
            counted: list[int] = []
            search(
                rows, y, TrainOptions(loss="logistic"), PathOptions(folds=3, search=kind),
                callbacks=[lambda snapshot, counted=counted: counted.append(snapshot.iteration) or False],
            )  # fmt: skip
            fits[kind] = counted.count(0)
        assert fits["quick"] < 0.75 * fits["path"]


def test_a_quick_search_fits_all_rows_once():
    X, _, y = table()
    model, solution, found = run(scale(X), y, search="quick")
    fitted = [i for i, certificate in enumerate(found.certificates) if certificate is not None]
    assert fitted == [found.chosen]
    assert (found.nonzero[[i for i in range(len(found.alphas)) if i != found.chosen]] == -1).all()
    assert solution.certificate.meets(1e-3)
    assert model.options["alpha"] == found.alpha
    smallest = run(scale(X), y, search="quick", select="smallest", within=0.05)[2]
    assert (smallest.nonzero_rows >= 0).all()


def test_searches_that_are_ended_in_the_scan_have_a_model():
    _, wide, y = table()
    model, _, found = search(
        wide, y, TrainOptions(loss="logistic"), PathOptions(folds=3), callbacks=[lambda snapshot: True]
    )
    assert found.status == "stopped"
    assert np.isfinite(model.weights).all()


def test_the_command_warns_too(tmp_path):
    X, _, y = table(200)
    rows = tmp_path / "rows.csv"
    np.savetxt(rows, np.column_stack([scale(X), y]), delimiter=",", header=",".join([*"abcdefghij", "y"]), comments="")
    ended = done(
        "path", rows, "-m", tmp_path / "m", "--label", "y", "--alphas", "10000,10", "--scoring", "log_loss",
        "--loss", "logistic", "--json",
    )  # fmt: skip
    assert "smallest alpha of the path" in ended.stderr
    assert json.loads(ended.stdout)["alpha"] == 10.0
