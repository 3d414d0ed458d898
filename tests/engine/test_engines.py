"""Every solver that claims to run on any engine: the same answers wherever the rows are."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from conftest import random_problem
from objectives import build
from scipy import sparse
from served_rows import ServedRows

from lineal import losses, penalties, solvers
from lineal.design import wrap
from lineal.engine.local import LocalEngine
from lineal.engine.tree import add_along_tree
from lineal.errors import OptionError
from lineal.penalties.regulariser import Regulariser
from lineal.problem.objective import Objective
from lineal.problem.solver import Solver
from lineal.problem.targets import encode

#: Solvers that need nothing of the rows but sums.
ANYWHERE = ("lbfgs", "newton", "least_squares", "fista", "sparsa")
LOCAL = ("block_cd", "dual_cd", "fobos", "multipliers")

#: Rows of the problems, and the blocks that they come in: one, three and seven, of which one is empty.
ROWS = 48
SIZES = ((48,), (20, 0, 28), (1, 9, 0, 17, 2, 8, 11))


def takes(solver: Solver, loss: str, penalty: str) -> bool:
    try:
        solver.check(losses.get(loss), penalties.get(penalty))
    except OptionError:
        return False
    return True


def table() -> list[tuple[str, str, str]]:
    """Solvers, losses and penalties that claim to run on any engine."""
    return [
        (name, loss, penalty)
        for name in ANYWHERE
        for loss in losses.names()
        for penalty in penalties.names()
        if takes(solvers.get(name), loss, penalty)
    ]


def problem(loss: str, penalty: str) -> Objective:
    objective, _ = build(loss, seed=3, n=ROWS, alpha=0.05, offset=True)
    if penalty == "l2":
        return objective
    return replace(objective, regulariser=Regulariser(penalties.get(penalty), 0.02, objective.engine.shape[1]))


def solve(name: str, objective: Objective, **keywords):
    return solvers.get(name)(objective, **{"tol": 1e-12, "max_iter": 4000, **keywords})


def settled(solution, loss: str) -> np.ndarray:
    """Intercepts, less what a loss that compares scores leaves open: a number that all of them have in common."""
    b = solution.intercept
    return b - b.mean() if losses.get(loss).is_direct else b


#: Losses whose sparse penalties `make test` covers; `make test-all` covers all of them.
QUICK_LOSSES = ("softmax", "squared_hinge")


def combinations():
    """The table, for each way of cutting the rows; what takes long is marked."""
    for name, loss, penalty in table():
        for sizes in SIZES:
            is_quick = len(sizes) == 7 and (penalty == "l2" or loss in QUICK_LOSSES)
            yield pytest.param(name, loss, penalty, sizes, marks=() if is_quick else pytest.mark.slow)


@pytest.mark.parametrize(("name", "loss", "penalty", "sizes"), list(combinations()))
def test_solutions_are_those_of_local_rows(name, loss, penalty, sizes):
    objective = problem(loss, penalty)
    wanted = solve(name, objective, tol=1e-30)  # as far as float64 allows
    elsewhere = ServedRows(objective.engine, sizes, forgets=0.15, seed=len(sizes))
    found = solve(name, replace(objective, engine=elsewhere), tol=1e-30)
    assert max(found.certificate.value, wanted.certificate.value) < 1e-10
    np.testing.assert_allclose(found.weights, wanted.weights, rtol=0, atol=1e-10)
    np.testing.assert_allclose(settled(found, loss), settled(wanted, loss), rtol=0, atol=1e-10)
    assert found.certificate.primal == pytest.approx(wanted.certificate.primal, rel=1e-10)


@pytest.mark.parametrize(
    ("name", "loss", "penalty"),
    [
        *((name, loss, "l2") for name in ANYWHERE for loss in ("logistic", "softmax")),
        *(("fista", "squared_hinge", penalty) for penalty in ("l1", "l1/l2", "l1/linf")),
        *(("sparsa", "label_ranking", penalty) for penalty in ("elastic_net", "sparse_group")),
    ],
)
def test_any_number_of_processes_gives_the_same_bits(name, loss, penalty):
    objective = problem(loss, penalty)
    answers = []
    for processes in (0, 1, 2, 3):
        elsewhere = ServedRows(objective.engine, SIZES[2], processes=processes)
        answers.append(solve(name, replace(objective, engine=elsewhere)))
    for other in answers[1:]:
        np.testing.assert_array_equal(other.weights, answers[0].weights)
        np.testing.assert_array_equal(other.intercept, answers[0].intercept)
        assert other.certificate == answers[0].certificate


@pytest.mark.parametrize("layout", ["dense", "csr"])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_newton_on_binary_sparse_and_dense_rows_in_other_processes(layout, dtype):
    X, y = random_problem(5, n=300, k=2)
    X = X.astype(dtype)
    rows = wrap(np.ascontiguousarray(X.toarray()) if layout == "dense" else sparse.csr_array(X))
    engine = LocalEngine(rows, encode(y, direct=False).targets, np.full(300, 1 / 300), 1)
    objective = Objective(engine, losses.get("squared_hinge"), Regulariser(penalties.get("l2"), 1e-3, X.shape[1]))
    wanted = solvers.get("newton")(objective, tol=1e-6)
    elsewhere = ServedRows(engine, (100, 0, 150, 50), processes=2, forgets=0.3)
    found = solvers.get("newton")(replace(objective, engine=elsewhere), tol=1e-6)
    assert found.status == wanted.status == "converged"
    np.testing.assert_allclose(found.weights, wanted.weights, atol=1e-3 if dtype == np.float32 else 1e-4)


@pytest.mark.parametrize("name", ANYWHERE)
def test_steps_are_small(name):
    objective = problem("softmax", "l2")
    elsewhere = ServedRows(objective.engine, SIZES[1])
    solve(name, replace(objective, engine=elsewhere))
    assert 0 < elsewhere.traffic.step < 4096


@pytest.mark.parametrize("name", LOCAL)
@pytest.mark.parametrize("penalty", ["l2", "l1"])
def test_solvers_that_need_the_rows_here_name_one_that_does_not(name, penalty):
    objective = problem("squared_hinge", penalty)
    if not takes(solvers.get(name), "squared_hinge", penalty):
        pytest.skip(f"{name} does not take {penalty}")
    elsewhere = replace(objective, engine=ServedRows(objective.engine, SIZES[1]))
    with pytest.raises(OptionError, match="ServedRows") as refusal:
        solve(name, elsewhere)
    advised = re.findall(r"'(\w+)'", str(refusal.value).partition("use solver=")[2])
    assert advised
    for other in advised:
        assert solve(other, elsewhere).status == "converged"


@pytest.mark.parametrize("loss", losses.names())
@pytest.mark.parametrize("penalty", penalties.names())
def test_auto_picks_a_solver_that_runs_there(loss, penalty):
    objective = problem(loss, penalty)
    elsewhere = replace(objective, engine=ServedRows(objective.engine, SIZES[1]))
    chosen = solvers.pick("auto", elsewhere, 1e-3).name
    assert chosen in ANYWHERE if losses.get(loss).is_smooth else chosen == "admm"


def test_the_table_in_the_documentation_is_the_one_that_is_tested():
    page = (Path(__file__).parents[2] / "docs" / "engines.md").read_text()
    rows = re.findall(r"^\| `(\w+)` \| (.*) \| (.*) \|$", page, flags=re.M)
    told = {(name, loss, penalty) for name, ls, ps in rows for loss in _names(ls) for penalty in _names(ps)}
    assert told == set(table())


def _names(cell: str) -> list[str]:
    return re.findall(r"`([^`]+)`", cell)


# --- sums and state


def test_sums_are_added_along_one_tree_whoever_adds_a_part_of_it():
    rng = np.random.default_rng(0)
    for count in range(1, 20):
        parts = [(float(x), rng.normal(size=3).astype(np.float32), 1) for x in rng.normal(size=count)]
        for _, array, _ in parts:
            array.flags.writeable = False
        total, array, number = add_along_tree(iter(parts))
        assert total == pytest.approx(sum(part[0] for part in parts), abs=1e-12)
        assert array.dtype == np.float32
        assert number == count
        exact = np.sum([part[1].astype(np.float64) for part in parts], axis=0)
        np.testing.assert_allclose(array, exact, rtol=1e-6, atol=1e-7)
    numbers = [(float(x),) for x in rng.normal(size=8)]
    halves = [add_along_tree(iter(numbers[:4])), add_along_tree(iter(numbers[4:]))]
    assert add_along_tree(iter(halves)) == add_along_tree(iter(numbers))


def _double(block, piece):
    piece["Z"] = piece["Z"] * 2.0
    return (float(piece["Z"].sum()),)


def _total(block, piece):
    return (float(piece["Z"].sum()),)


def _constant(block, value):
    return {"Z": np.full((block.n, 1), value)}


def _failing(block, piece):
    piece["Z"] += 100.0
    raise RuntimeError("half done")


@pytest.mark.parametrize("max_bytes", [0.0, np.inf])
def test_state_is_that_of_its_parameters_whatever_is_kept(max_bytes):
    engine = replace(problem("logistic", "l2").engine, block_rows=10)
    state = engine.state(_constant, 1.0, max_bytes=max_bytes)
    assert engine.sum(_total, states=(state,)) == (48.0,)
    assert engine.sum(_double, states=(state.to(2.0),)) == (96.0,)
    assert engine.sum(_total, states=(state,)) == (96.0,)
    engine.update(_double, states=(state.to(4.0),))
    assert engine.sum(_total, states=(state,)) == (192.0,)
    with pytest.raises(RuntimeError):
        engine.sum(_failing, states=(state.to(8.0),))
    assert engine.sum(_total, states=(state,)) == (192.0,)
    assert len(engine.cache.kept) == (0 if max_bytes == 0.0 else 5)
    del state
    assert not engine.cache.kept
