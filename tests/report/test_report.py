"""Plots of a fit."""

from __future__ import annotations

import numpy as np
import pytest
from conftest import random_problem

from lineal.errors import LinealError
from lineal.linear.fit import fit
from lineal.linear.options import TrainOptions

pytest.importorskip("matplotlib", reason="plots need the report extra")
from lineal.report import plot_history


@pytest.fixture(scope="module")
def history():
    X, y = random_problem(0)
    return fit(X, y, TrainOptions(loss="softmax", tol=1e-6))[1].history


@pytest.mark.parametrize(("ending", "magic"), [("png", b"\x89PNG"), ("svg", b"<?xml"), ("pdf", b"%PDF")])
def test_a_history_becomes_a_picture(history, ending, magic, tmp_path):
    plot_history(history, tmp_path / f"fit.{ending}")
    assert (tmp_path / f"fit.{ending}").read_bytes().startswith(magic)


def test_the_picture_shows_the_numbers(history, tmp_path):
    from matplotlib.image import imread

    plot_history(history, tmp_path / "a.png")
    plot_history([{**row, "objective": 1.0} for row in history], tmp_path / "b.png")
    assert not np.array_equal(imread(tmp_path / "a.png"), imread(tmp_path / "b.png"))


def test_one_iteration_and_a_zero_gap_can_be_drawn(tmp_path):
    plot_history([{"seconds": 0.0, "objective": 1.0, "gap": 0.0}], tmp_path / "fit.png")
    assert (tmp_path / "fit.png").stat().st_size > 0


def test_an_unknown_ending_is_refused_and_nothing_is_written(history, tmp_path):
    with pytest.raises(LinealError, match="must end with"):
        plot_history(history, tmp_path / "fit.txt")
    assert list(tmp_path.iterdir()) == []


def test_iterations_without_an_objective_or_a_finite_gap_are_left_out(tmp_path, monkeypatch):
    from matplotlib.axes import Axes

    drawn = []
    original = Axes.plot
    monkeypatch.setattr(Axes, "plot", lambda self, *points, **style: drawn.append(points) or original(self, *points))
    nan, inf = float("nan"), float("inf")
    rows = [(0.0, nan, inf), (1.0, nan, 0.5), (2.0, 3.0, 0.25), (3.0, 2.0, 0.0)]
    plot_history([{"seconds": at, "objective": value, "gap": gap} for at, value, gap in rows], tmp_path / "a.png")
    assert drawn == [((2.0, 3.0), (3.0, 2.0)), ((1.0, 2.0), (0.5, 0.25))]
