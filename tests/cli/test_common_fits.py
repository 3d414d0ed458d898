"""The list of common fits against what the package offers: a new loss, estimator or layout must be put into it."""

from __future__ import annotations

import importlib
import pkgutil

import pytest

import lineal
from lineal import design, dropin, losses, penalties, solvers
from lineal.cli import common_fits
from lineal.cli.common_fits import ANY_LAYOUT, CHOICES, ESTIMATORS, MAIN, ONLY_SMALL, SHORTER
from lineal.data.formats import FORMATS
from lineal.least_squares.options import LINKS, LeastSquaresOptions
from lineal.linear.options import TrainOptions
from lineal.online.options import EXPANSIONS, OnlineOptions
from lineal.online.options import LOSSES as ONLINE_LOSSES
from lineal.solvers.stagewise import UPDATES
from lineal.stagewise.options import StagewiseOptions

KNOWN = {
    "loss": losses.names(),
    "penalty": penalties.names(),
    "solver": solvers.names(),
    "format": FORMATS,
    "link": LINKS,
    "update": UPDATES,
    "online loss": ONLINE_LOSSES,
    "expansion": EXPANSIONS,
}


@pytest.mark.parametrize("option", sorted(KNOWN))
def test_every_value_of_an_option_is_listed_once(option):
    common, later = CHOICES[option]
    assert sorted((*common, *later)) == sorted(KNOWN[option]), (
        f"put it into CHOICES[{option!r}] of lineal/cli/common_fits.py: among the common ones, whose kernels come with "
        "the wheel, or among those that are compiled when they are first used"
    )


def test_every_layout_is_listed():
    layouts = set()
    for module in pkgutil.iter_modules(design.__path__):
        things = vars(importlib.import_module(f"lineal.design.{module.name}"))
        layouts |= {
            name.lower()
            for name, thing in things.items()
            if isinstance(thing, type) and ("row_scores" in vars(thing) or "column_products" in vars(thing))
        }
    assert {layout.partition(",")[0] for layout in CHOICES["layout"].common} == layouts
    assert set(CHOICES) == {*KNOWN, "layout"}


def is_estimator(thing: object) -> bool:
    return isinstance(thing, type) and {"fit", "predict"} <= set(dir(thing)) and "get_params" in dir(thing)


def test_every_public_estimator_is_listed():
    public = {name for name in lineal.__all__ if is_estimator(getattr(lineal, name))}
    public |= {f"dropin.{name}" for name in dropin.__all__ if is_estimator(getattr(dropin, name))}
    assert public == set(ESTIMATORS)
    assert all(common_fits.estimator(name).__name__ == name.rpartition(".")[2] for name in ESTIMATORS)
    assert {*ANY_LAYOUT, *ONLY_SMALL, *SHORTER} <= public


def test_defaults_are_common():
    options = TrainOptions()
    assert options.loss in CHOICES["loss"].common
    assert options.penalty in CHOICES["penalty"].common
    assert StagewiseOptions().update in CHOICES["update"].common
    assert OnlineOptions().expansion is None
    assert {OnlineOptions(loss=None).loss, "logistic", "squared"} - {None} <= set(CHOICES["online loss"].common)
    assert LeastSquaresOptions().link is None
    assert "softmax" in CHOICES["link"].common


def test_the_tasks_use_everything_that_is_common(tmp_path):
    names = [task.name for task in common_fits.tasks(str(tmp_path))]
    assert len(set(names)) == len(names)
    for option, (common, _) in CHOICES.items():
        for value in common:
            assert any(value in name for name in names), (option, value)
    for precision in ("float32", "float64"):
        for layout in MAIN:
            for loss in CHOICES["loss"].common:
                for penalty in CHOICES["penalty"].common:
                    assert f"{loss}, {penalty}, {layout}, {precision}" in names
            for name in ESTIMATORS:
                assert f"{name}, {layout}, {precision}" in names


def test_a_task_that_fails_is_not_silent(tmp_path):
    """The build of a wheel must not leave out a fit that has stopped working."""

    def broken() -> None:
        raise ValueError("no such loss")

    with pytest.raises(ValueError, match="no such loss"):
        common_fits.run(common_fits.Task("broken", broken))
