"""Options of the solvers: given to estimators and the command line, checked, saved, cloned, searched."""

from __future__ import annotations

import dataclasses
import re

import numpy as np
import pytest
from cli_files import done, failed, write_digits
from sklearn.base import clone
from sklearn.datasets import load_iris
from sklearn.model_selection import GridSearchCV
from sklearn.preprocessing import scale

import lineal
from lineal import LinearClassifier, LinearClassifierCV, solvers
from lineal.errors import OptionError
from lineal.solvers.options import OPTIONS
from lineal.system.solver_options import parsed

X, y = load_iris(return_X_y=True)
X = scale(X)

#: By solver: an objective, options that differ from the defaults, and the same as texts.
CASES = [
    ("newton", {}, {"globalisation": "trust_region"}),
    ("dual_cd", {"tol": 1e-5}, {"shrinking": False}),
    ("block_cd", {"penalty": "l1/l2", "loss": "softmax"}, {"method": "cyclic", "shrinking": True, "rule": "sum"}),
    (
        "block_cd",
        {"penalty": "l1/l2", "loss": "softmax"},
        {"method": "random", "step": "constant", "constant": "paper"},
    ),
    ("block_cd", {"penalty": "l1/l2", "loss": "softmax"}, {"method": "parallel"}),
    ("fista", {"penalty": "l1"}, {"restart": False}),
    ("fista", {"penalty": "l1"}, {"step": "constant", "constant": "trace"}),
    ("multipliers", {"loss": "hinge", "penalty": "l1"}, {"width": 0.1}),
    ("fobos", {"penalty": "l1", "tol": 5e-2}, {"rate": 0.5, "schedule": "plain"}),
    ("admm", {"tol": 1e-3}, {"shards": 3, "rho": 0.5, "relaxation": 1.0, "adaptive": False}),
    ("hybrid", {"tol": 1e-4}, {"shards": 2, "passes": 2, "rate": 0.05}),
    ("least_squares", {"loss": "softmax"}, {"method": "accelerated"}),
    ("least_squares", {"loss": "softmax"}, {"method": "plain"}),
]


def fitted(solver, others, solver_options):
    settings = {"alpha": 1e-2, "loss": "squared_hinge", "max_iter": 20_000, "random_state": 0, **others}
    return LinearClassifier(solver=solver, solver_options=solver_options, **settings).fit(X, y)


@pytest.mark.parametrize(("solver", "others", "options"), CASES, ids=str)
def test_options_change_the_way_and_not_the_answer(solver, others, options):
    plain, chosen = fitted(solver, others, None), fitted(solver, others, options)
    assert chosen.status_ == plain.status_ == "converged"
    bound = max(plain.certificate_.dual, chosen.certificate_.dual)
    assert max(plain.certificate_.primal, chosen.certificate_.primal) <= bound / (1.0 - 0.06)
    ways = [[row["objective"] for row in one.history_] for one in (plain, chosen)]
    assert ways[0] != ways[1] or solver == "dual_cd"  # whose rows may all be active to the end
    assert chosen.model_.options["solver_options"] == options


def test_every_option_of_every_solver_is_tried_here():
    tried = {(solver, name) for solver, _, options in CASES for name in options}
    tried.add(("dual_cd", "inner_passes"))  # for rows in files, where test_dual_cd_file.py tries it
    for name in ("shards", "rounds", "local_iter", "combine"):  # averages end above the minimum: test_averaging.py
        tried.add(("averaging", name))
    assert tried == {(solver, entry.name) for solver, kind in OPTIONS.items() for entry in dataclasses.fields(kind)}
    for solver, kind in OPTIONS.items():
        assert solvers.get(solver).options is kind
    for solver in set(solvers.names()) - set(OPTIONS):
        assert solvers.get(solver).options is None


def test_plain_fista_keeps_its_momentum():
    """Restarts make it converge linearly on such data; without them it overshoots again and again."""
    restarted, plain = (fitted("fista", {"penalty": "l1", "tol": 1e-6}, {"restart": flag}) for flag in (True, False))
    assert restarted.status_ == "converged"
    assert restarted.n_iter_ < plain.n_iter_
    assert plain.certificate_.value < 1e-3


def test_shrinking_can_be_switched_off():
    from lineal.solvers.dual_cd import ascent

    rows = []

    def counting(*arguments):
        rows.append(len(arguments[3]))
        return original(*arguments)

    original = ascent.margin_pass
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(ascent, "margin_pass", counting)
        counts = {}
        for flag in (True, False):
            rows.clear()
            fitted("dual_cd", {"tol": 1e-6, "alpha": 1e-3, "n_jobs": 1}, {"shrinking": flag})
            counts[flag] = set(rows)
    assert counts[False] == {len(X)}
    assert min(counts[True]) < len(X)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        (("newton", {"globalization": "trust_region"}), "has no option 'globalization': did you mean 'globalisation'?"),
        (("newton", {"globalisation": "trust"}), "globalisation='trust' is unknown: did you mean 'trust_region'?"),
        (("dual_cd", {"shrinking": "no"}), "shrinking='no' is neither True nor False"),
        (("fobos", {"rate": -1.0}), "rate=-1.0 is not a positive number"),
        (("block_cd", {"rule": "sum"}), "are for method='cyclic' or 'random' or 'parallel'"),
        (("fista", {"constant": "trace"}), "use step='constant'"),
        (("lbfgs", {"memory": 3}), "solver 'lbfgs' has no options: leave out 'memory'"),
        (("auto", {"shrinking": False}), "set solver to 'block_cd' or 'dual_cd'"),
        (("auto", {"speed": 9}), "set solver to the one that has them"),
        (("newton", "trust_region"), "is not a dict"),
    ],
    ids=str,
)
def test_what_cannot_be_honoured_is_refused(settings, message):
    solver, options = settings
    with pytest.raises(OptionError, match=re.escape(message)):
        LinearClassifier(solver=solver, solver_options=options).fit(X, y)


def test_clone_grid_search_and_saved_models(tmp_path):
    options = {"globalisation": "trust_region"}
    one = LinearClassifier(solver="newton", solver_options=options)
    assert clone(one).get_params() == one.get_params()
    grid = GridSearchCV(one, {"solver_options": [None, {}, options], "alpha": [1e-2]}, cv=2).fit(X, y)
    assert np.isfinite(grid.cv_results_["mean_test_score"]).all()
    one.fit(X, y).model_.save(tmp_path / "m")
    assert lineal.load(tmp_path / "m").options["solver_options"] == options
    assert LinearClassifier().fit(X, y).model_.options["solver_options"] is None


def test_a_search_along_a_path_takes_them():
    found = LinearClassifierCV(solver="fista", penalty="l1", solver_options={"restart": False}, n_alphas=3, cv=2)
    assert found.fit(X, y).model_.options["solver_options"] == {"restart": False}
    assert clone(found).get_params() == found.get_params()
    with pytest.raises(OptionError, match="did you mean 'restart'"):
        LinearClassifierCV(solver="fista", solver_options={"restarts": False}, cv=2).fit(X, y)


def test_texts_become_values():
    assert parsed(OPTIONS["dual_cd"], {"shrinking": "off"}) == {"shrinking": False}
    assert parsed(OPTIONS["fobos"], {"rate": "1e-2", "schedule": "plain"}) == {"rate": 0.01, "schedule": "plain"}
    assert parsed(OPTIONS["fobos"], {"rate": "none"}) == {"rate": None}
    assert parsed(OPTIONS["block_cd"], {"step": "None", "shrinking": "yes"}) == {"step": None, "shrinking": True}
    assert parsed(OPTIONS["fobos"], {"rate": "fast", "other": "1"}) == {"rate": "fast", "other": "1"}


@pytest.fixture(scope="module")
def digits(tmp_path_factory):
    return write_digits(tmp_path_factory.mktemp("digits"))[0]


def test_the_command_line_takes_them(digits, tmp_path):
    flags = ("--solver", "fista", "--penalty", "l1", "--alpha", "0.01", "--tol", "0.01", "--quiet")
    done("train", digits, "-m", tmp_path / "m", *flags, "--solver-option", "step=constant",
         "--solver-option", "restart=false")  # fmt: skip
    assert lineal.load(tmp_path / "m").options["solver_options"] == {"step": "constant", "restart": False}
    done("path", digits, "-m", tmp_path / "p", *flags[:4], "--alphas", "0.1,0.01", "--folds", "2", "--quiet",
         "--solver-option", "restart=no")  # fmt: skip
    assert lineal.load(tmp_path / "p").options["solver_options"] == {"restart": False}


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        (("newton", "globalization=trust_region"), "did you mean 'globalisation'?"),
        (("newton", "globalisation"), "is not NAME=VALUE"),
        (("dual_cd", "shrinking=maybe"), "shrinking='maybe' is neither True nor False"),
        (("fobos", "rate=fast"), "rate='fast' is not a positive number"),
        (("fista", "step=constant", "step=line_search"), "is given twice"),
        (("auto", "shrinking=off"), "set --solver to 'block_cd' or 'dual_cd'"),
        (("newtn", "globalisation=trust_region"), "did you mean 'newton'?"),
    ],
    ids=str,
)
def test_the_command_line_says_what_is_wrong(digits, tmp_path, flags, message):
    solver, *options = flags
    given = [part for option in options for part in ("--solver-option", option)]
    assert message in failed("train", digits, "-m", tmp_path / "m", "--solver", solver, *given)
    assert not (tmp_path / "m").exists()


def test_other_kinds_of_models_refuse_them(digits, tmp_path):
    given = ("--model-type", "least_squares", "--solver-option", "method=plain")
    assert "--solver-option is for --model-type linear" in failed("train", digits, "-m", tmp_path / "m", *given)


def test_help_and_docstrings_name_every_option():
    text = re.sub(r"[\s│]+", " ", done("train", "--help-all").stdout)
    for solver, kind in OPTIONS.items():
        for entry in dataclasses.fields(kind):
            assert entry.name in text, (solver, entry.name)
            assert entry.metadata["help"] in LinearClassifier.__doc__
