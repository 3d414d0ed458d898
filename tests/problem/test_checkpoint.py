"""Fits that are killed and continue from their checkpoint: the same bits as fits that nobody has interrupted."""

from __future__ import annotations

import errno
import itertools
import json
import os
import warnings
from dataclasses import replace

import numpy as np
import pytest
from conftest import random_problem
from file_rows import problem_in, write_files
from scipy import sparse
from served_rows import ServedRows
from sklearn.datasets import load_iris

from lineal import LinearClassifier, losses, penalties, solvers
from lineal.design import wrap
from lineal.engine import file as file_engine
from lineal.engine import file_shards
from lineal.engine.local import LocalEngine
from lineal.errors import CheckpointError, LinealError, OptionError
from lineal.linear.options import TrainOptions
from lineal.linear.search.options import PathOptions
from lineal.linear.search.run import search
from lineal.penalties.regulariser import Regulariser
from lineal.problem.checkpoint import EVERY_VARIABLE, Checkpoint, Saved
from lineal.problem.minimise import minimise
from lineal.problem.objective import Objective
from lineal.problem.targets import encode
from lineal.solvers.choice.in_turn import Stage, in_turn
from lineal.system import memory


class Killed(Exception):
    """What a kill is in these tests: an exception right after a checkpoint was written."""


@pytest.fixture(autouse=True)
def after_every_iteration(monkeypatch):
    """Checkpoints are written after every iteration."""
    monkeypatch.setenv(EVERY_VARIABLE, "0")


def killing(iteration):
    """A callback that ends the process at an iteration."""

    def callback(snapshot):
        if snapshot.iteration == iteration:
            raise Killed

    return callback


def problem(loss, penalty="l2", layout="csr", *, alpha=1e-3, n=200, dtype=np.float64, seed=0):
    X, y = random_problem(seed, n=n, k=3)
    X = (3.0 * X).astype(dtype)
    random = np.random.default_rng(seed)
    y[3:] = (X @ random.normal(size=(X.shape[1], 3)) + 4.0 * random.normal(size=(n, 3))).argmax(axis=1)[3:]
    rows = wrap(np.ascontiguousarray(X.toarray()) if layout == "dense" else sparse.csr_array(X))
    encoded = encode(y, direct=losses.get(loss).is_direct)
    engine = LocalEngine(rows, encoded.targets, np.full(n, 1.0 / n), encoded.n_columns)
    regulariser = Regulariser(penalties.get(penalty), alpha, X.shape[1])
    return Objective(engine, losses.get(loss), regulariser)


def same(found, wanted):
    np.testing.assert_array_equal(found.weights, wanted.weights)
    np.testing.assert_array_equal(found.intercept, wanted.intercept)
    assert found.certificate == wanted.certificate
    assert (found.status, found.message) == (wanted.status, wanted.message)
    seconds = [row["seconds"] for row in found.history]
    assert seconds == sorted(seconds)
    assert without_seconds(found.history) == without_seconds(wanted.history)


def without_seconds(history):
    return [{name: value for name, value in row.items() if name != "seconds"} for row in history]


def killed_and_continued(solve, path, iterations):
    """Kill a fit at each of these iterations, and then let it end; every iteration is done once."""
    seen = []

    def note(snapshot):
        seen.append(snapshot.iteration)

    for iteration in iterations:
        with pytest.raises(Killed):
            solve(checkpoint=Checkpoint(path), callbacks=[note, killing(iteration)])
    found = solve(checkpoint=Checkpoint(path), callbacks=[note, killing(-1)])
    assert seen == [row["iteration"] for row in found.history]
    return found


#: Solver, loss, penalty, options.
FITS = [
    ("lbfgs", "softmax", "l2", {}),
    ("lbfgs", "squared_hinge", "l2", {}),
    ("newton", "softmax", "l2", {}),
    ("newton", "logistic", "l2", {}),
    ("newton", "squared_hinge", "l2", {"globalisation": "trust_region"}),
    ("newton", "label_ranking", "l2", {}),
    ("least_squares", "softmax", "l2", {}),
    ("least_squares", "logistic", "l2", {"method": "plain"}),
    ("least_squares", "logistic", "l2", {"method": "accelerated"}),
    ("fista", "softmax", "l1/l2", {}),
    ("fista", "squared_hinge", "l1", {"step": "constant"}),
    ("sparsa", "logistic", "l1", {}),
    ("sparsa", "multiclass_squared_hinge", "sparse_group", {}),
    ("block_cd", "logistic", "l1", {}),
    ("block_cd", "squared_hinge", "elastic_net", {}),
    ("block_cd", "softmax", "l1/l2", {}),
    ("block_cd", "multiclass_squared_hinge", "l1/linf", {"method": "cyclic"}),
    ("block_cd", "softmax", "l1/l2", {"method": "random", "shrinking": True}),
    ("block_cd", "softmax", "l1/l2", {"method": "parallel"}),
    ("dual_cd", "hinge", "l2", {}),
    ("dual_cd", "squared_hinge", "l2", {}),
    ("dual_cd", "crammer_singer", "l2", {}),
    ("dual_cd", "softmax", "l2", {}),
    ("multipliers", "hinge", "l1", {}),
    ("multipliers", "crammer_singer", "l1/l2", {}),
    ("fobos", "hinge", "l1", {}),
    ("fobos", "logistic", "l2", {}),
    ("fobos", "label_ranking", "l1/l2", {}),
    ("admm", "hinge", "l1", {"shards": 3}),
    ("admm", "softmax", "l2", {}),
    ("averaging", "logistic", "l2", {"rounds": 6}),
    ("averaging", "hinge", "l2", {"rounds": 6}),
    ("hybrid", "softmax", "l2", {"passes": 2}),
]


#: Fits that `make test` covers, one per algorithm; `make test-all` covers all of them, in both layouts.
QUICK_FITS = (
    ("lbfgs", "softmax"), ("newton", "logistic"), ("least_squares", "softmax"), ("fista", "squared_hinge"),
    ("sparsa", "logistic"), ("block_cd", "logistic"), ("dual_cd", "squared_hinge"), ("fobos", "hinge"),
    ("averaging", "logistic"), ("hybrid", "softmax"), ("multipliers", "hinge"),
)  # fmt: skip


def fits():
    """The fits; what takes long is marked."""
    for fit in FITS:
        for layout in ("dense", "csr"):
            is_quick = layout == "csr" and fit[:2] in QUICK_FITS
            name = "-".join(map(str, (*fit[:3], layout)))
            yield pytest.param(*fit, layout, id=name, marks=() if is_quick else pytest.mark.slow)


@pytest.mark.parametrize(("name", "loss", "penalty", "options", "layout"), list(fits()))
def test_a_fit_that_was_killed_ends_with_the_same_bits(tmp_path, name, loss, penalty, options, layout):
    path, objective = tmp_path / "c", problem(loss, penalty, layout)

    def solve(**keywords):
        return minimise(solvers.get(name), objective, tol=1e-9, max_iter=60, **options, **keywords)

    wanted = solve(checkpoint=Checkpoint(path), callbacks=[killing(-1)])
    if os.path.exists(path):  # solvers leave it to those who call them
        os.unlink(path)
    last = wanted.history[-1]["iteration"]
    assert last >= 4
    same(killed_and_continued(solve, path, (1, 3, last - 1)), wanted)
    same(solve(callbacks=[killing(-1)]), wanted)  # checkpoints change nothing


@pytest.mark.parametrize("names", [("dual_cd", "lbfgs"), ("dual_cd", "newton"), ("lbfgs", "dual_cd")])
def test_solvers_in_turn(tmp_path, names):
    """A fit that is killed in one of its solvers, or right between two of them, continues in the same one."""
    path, objective = tmp_path / "c", problem("logistic", alpha=1e-5)

    def is_slow(history, budget, before=()):
        return history[-1]["iteration"] == (2 if before else 4)

    first, second = (solvers.get(name) for name in names)

    def solve(**keywords):
        chain = in_turn([Stage(first, "1", is_slow), Stage(second, "2", is_slow), Stage(first, "3")])
        return minimise(chain, objective, tol=1e-9, max_iter=60, **keywords)

    wanted = solve(checkpoint=Checkpoint(path), callbacks=[killing(-1)])
    if os.path.exists(path):
        os.unlink(path)
    assert wanted.history[-1]["iteration"] >= 8
    found = killed_and_continued(solve, path, (2, 4, 5, 6, 7))
    same(found, wanted)
    assert found.choice == wanted.choice
    same(solve(callbacks=[killing(-1)]), wanted)


#: Solver, loss, penalty, options: fits whose rows and row state are in other processes.
ELSEWHERE = [
    ("newton", "logistic", "l2", {}), ("lbfgs", "softmax", "l2", {}), ("fista", "logistic", "l1", {}),
    ("admm", "hinge", "l2", {}), ("averaging", "logistic", "l2", {"rounds": 6}),
    ("hybrid", "softmax", "l2", {"passes": 2}),
    *(
        pytest.param(*one, marks=pytest.mark.slow)
        for one in (
            ("newton", "softmax", "l2", {}), ("sparsa", "softmax", "l1", {}), ("admm", "softmax", "l1/l2", {}),
            ("averaging", "hinge", "l2", {"rounds": 6}),
        )
    ),
]  # fmt: skip


@pytest.mark.parametrize(("name", "loss", "penalty", "options"), ELSEWHERE)
def test_rows_elsewhere(tmp_path, name, loss, penalty, options):
    """Row state in other processes is not part of a checkpoint, unless it cannot be computed again."""
    path, local = tmp_path / "c", problem(loss, penalty, "csr")

    def solve(**keywords):
        objective = replace(local, engine=ServedRows(local.engine, (90, 0, 110)))
        return minimise(solvers.get(name), objective, tol=1e-8, max_iter=60, **options, **keywords)

    wanted = solve(checkpoint=Checkpoint(path), callbacks=[killing(-1)])
    if os.path.exists(path):
        os.unlink(path)
    same(killed_and_continued(solve, path, (1, 3, 4)), wanted)


#: Solver, loss, options, and whether other shards or runs of rows would give another result.
IN_FILES = [
    pytest.param("lbfgs", "softmax", {}, False, id="lbfgs"),
    pytest.param("hybrid", "softmax", {"passes": 2}, False, id="hybrid"),
    pytest.param("admm", "softmax", {}, True, id="admm", marks=pytest.mark.slow),
    pytest.param("admm", "hinge", {}, True, id="admm-hinge"),
    pytest.param("averaging", "hinge", {"rounds": 6}, True, id="averaging", marks=pytest.mark.slow),
    pytest.param("dual_cd", "squared_hinge", {}, True, id="dual_cd"),
]


@pytest.mark.parametrize(("name", "loss", "options", "depends"), IN_FILES)
def test_rows_in_files(tmp_path, monkeypatch, name, loss, options, depends):
    """Each process takes other memory, and has the same blocks and shards, because its memory budget is the same."""
    path, (X, y) = tmp_path / "c", random_problem(0, n=200, k=3)
    y[3:] = (X @ np.random.default_rng(0).normal(size=(X.shape[1], 3))).argmax(axis=1)[3:]
    paths, own = write_files(tmp_path, X, y, parts=2), itertools.cycle((10_000_000, 90_000_000, 50_000_000))
    monkeypatch.setattr(file_engine, "LEAST_BLOCK", 1)
    monkeypatch.setattr(file_engine, "BLOCKS_PER_BUDGET", 1 << 17)  # blocks of about 1 kB
    monkeypatch.setattr(file_shards, "SHARDS_PER_BUDGET", 1 << 16)
    n_loads = set()

    def solve(budget=400_000_000, **keywords):
        taken = next(own)
        monkeypatch.setattr(memory, "own_memory", lambda: taken)
        objective = problem_in(paths, TrainOptions(loss=loss, alpha=1e-3), budget).objective
        n_loads.add(len(objective.engine.shards().loads))
        return minimise(solvers.get(name), objective, tol=1e-9, max_iter=8, **options, **keywords)

    wanted = solve(checkpoint=Checkpoint(path), callbacks=[killing(-1)])
    if os.path.exists(path):
        os.unlink(path)
    same(killed_and_continued(solve, path, (1, 3)), wanted)
    assert len(n_loads) == 1
    assert n_loads.pop() > 1
    if os.path.exists(path):
        os.unlink(path)
    with pytest.raises(Killed):
        solve(checkpoint=Checkpoint(path), callbacks=[killing(1)])
    if depends:
        with pytest.raises(CheckpointError, match=r"has no state of this fit .*same memory_budget"):
            solve(budget=800_000_000, checkpoint=Checkpoint(path))
    else:
        assert len(solve(budget=800_000_000, checkpoint=Checkpoint(path)).history) > 1


def badly_scaled(dtype):
    """Rows whose columns are far from zero, or whose fit stalls in float32."""
    X, y = random_problem(1, n=120, k=3)
    X = np.ascontiguousarray(X.toarray() + 1e5 * np.arange(1, 8), dtype)
    encoded = encode(y, direct=True)
    engine = LocalEngine(wrap(X), encoded.targets, np.full(120, 1 / 120), 3)
    return Objective(engine, losses.get("softmax"), Regulariser(penalties.get("l2"), 1e-4, 7))


def test_columns_that_are_centred_and_scaled(tmp_path):
    path, objective = tmp_path / "c", badly_scaled(np.float64)

    def solve(**keywords):
        return minimise(solvers.get("lbfgs"), objective, tol=1e-9, **keywords)

    wanted = solve(callbacks=[killing(-1)])
    same(killed_and_continued(solve, path, (1, 3)), wanted)


def test_a_fit_that_continues_in_float64(tmp_path, monkeypatch):
    """Both fits are interrupted: the one in float32, and then the one in float64."""
    path, objective = tmp_path / "c", problem("logistic", "l2", "dense", dtype=np.float32)
    monkeypatch.setattr("lineal.problem.minimise.COARSE", 0.0)
    seen = []

    def dying(snapshot):
        seen.append(snapshot.iteration)
        if deadly and snapshot.weights.dtype == deadly[0] and len(seen) > 2:
            raise Killed

    def solve(**keywords):
        return minimise(solvers.get("newton"), objective, tol=1e-15, max_iter=200, callbacks=[dying], **keywords)

    deadly = []
    wanted = solve()
    assert "float64" in wanted.message
    for dtype, phase in ((np.float32, ""), (np.float64, "float64")):
        seen.clear()
        deadly[:] = [dtype]
        with pytest.raises(Killed):
            solve(checkpoint=Checkpoint(path))
        assert Checkpoint(path).found_phase[0] == phase
    deadly.clear()
    same(solve(checkpoint=Checkpoint(path)), wanted)


def test_limits_can_be_raised(tmp_path):
    path, objective = tmp_path / "c", problem("softmax")

    def solve(max_iter, **keywords):
        return minimise(solvers.get("newton"), objective, tol=1e-9, max_iter=max_iter, **keywords)

    wanted = solve(60)
    for max_iter in (1, 2, 3):
        found = solve(max_iter, checkpoint=Checkpoint(path))
        assert (found.status, found.history[-1]["iteration"]) == ("max_iter", max_iter)
    found = solve(60, max_time=1e-9, checkpoint=Checkpoint(path))  # in the middle of an iteration, or before it
    assert found.status == "max_time"
    found = solve(60, checkpoint=Checkpoint(path), callbacks=[lambda snapshot: snapshot.iteration == 4])
    assert found.status == "stopped"
    same(solve(60, checkpoint=Checkpoint(path)), wanted)


@pytest.mark.parametrize(
    ("name", "options"),
    [
        ("lbfgs", {}),
        ("newton", {}),
        ("admm", {"max_iter": 12}),
        ("averaging", {"rounds": 3}),
        ("hybrid", {"passes": 2}),
    ],
)
def test_an_iteration_that_is_cut_short_does_not_count(tmp_path, monkeypatch, name, options):
    """Limits that are reached at any time, also within an iteration, change nothing about the continuation."""
    monkeypatch.setenv(EVERY_VARIABLE, "1000")  # only the end writes
    path, objective = tmp_path / "c", problem("softmax")
    wanted = minimise(solvers.get(name), objective, tol=1e-9, **options)
    from lineal.problem.monitor import Monitor

    must_end = Monitor.must_end
    for stop in range(2, 40, 3):
        asked = []

        def late(self, iteration, stop=stop, asked=asked):
            asked.append(iteration)
            return "max_time" if len(asked) >= stop else must_end(self, iteration)

        monkeypatch.setattr(Monitor, "must_end", late)
        found = minimise(solvers.get(name), objective, tol=1e-9, checkpoint=Checkpoint(path), **options)
        if found.status != "max_time":
            break
    assert stop > 10
    monkeypatch.setattr(Monitor, "must_end", must_end)
    same(minimise(solvers.get(name), objective, tol=1e-9, checkpoint=Checkpoint(path), **options), wanted)


def test_another_number_of_threads(tmp_path):
    """Dual coordinate descent divides its columns among threads, so its bits may then differ."""
    path, objective = tmp_path / "c", problem("squared_hinge", alpha=1e-2)

    def solve(**keywords):
        return minimise(solvers.get("dual_cd"), objective, tol=1e-6, **keywords)

    with pytest.raises(Killed):
        solve(checkpoint=Checkpoint(path), callbacks=[killing(3)], n_jobs=1)
    found = solve(checkpoint=Checkpoint(path), n_jobs=3)
    assert found.status == "converged"
    assert found.history[3]["iteration"] == 3
    assert found.certificate.primal == pytest.approx(solve().certificate.primal, rel=1e-6)


# --- what cannot be continued


def interrupted(path, objective, name="lbfgs", **keywords):
    with pytest.raises(Killed):
        minimise(solvers.get(name), objective, checkpoint=Checkpoint(path), callbacks=[killing(2)], **keywords)


def changed(objective, **changes):
    return replace(objective, **changes)


def with_labels(objective, y):
    return replace(objective, engine=replace(objective.engine, targets=encode(y, direct=True).targets))


def with_regulariser(objective, name, alpha, **known):
    return replace(objective, regulariser=Regulariser(penalties.get(name), alpha, objective.engine.shape[1], **known))


def other_labels(objective):
    y = objective.engine.targets.columns.copy()
    y[[5, 6, 7]] = (y[[5, 6, 7]] + 1) % 3
    return with_labels(objective, y)


def other_order(objective):
    engine, order = objective.engine, np.random.default_rng(0).permutation(200)
    X = wrap(sparse.csr_array(sparse.csr_array((engine.X.layout.data, engine.X.layout.indices, engine.X.layout.indptr),
                                               shape=engine.shape)[order]))  # fmt: skip
    return with_labels(replace(objective, engine=replace(engine, X=X)), engine.targets.columns[order])


def other_rows(objective):
    engine = objective.engine
    data = engine.X.layout.data.copy()
    data[7] += 0.5
    X = sparse.csr_array((data, engine.X.layout.indices, engine.X.layout.indptr), shape=engine.shape)
    return replace(objective, engine=replace(engine, X=wrap(X)))


def other_units(objective):
    engine = objective.engine
    layout = engine.X.layout
    data = np.where(layout.indices == 3, 2.0, 1.0) * layout.data
    X = sparse.csr_array((data, layout.indices, layout.indptr), shape=engine.shape)
    return replace(objective, engine=replace(engine, X=wrap(X)))


def other_weights(objective):
    weights = np.linspace(0.5, 1.5, 200)
    return replace(objective, engine=replace(objective.engine, weights=weights / weights.sum()))


def with_offsets(objective):
    return replace(objective, engine=replace(objective.engine, offsets=np.full((200, 3), 0.1)))


OTHERS = {
    "alpha": (lambda o: with_regulariser(o, "l2", 0.5), {}, r"alpha is 0\.001 there, 0\.5 here"),
    "factors": (lambda o: with_regulariser(o, "l2", 1e-3, factors=np.arange(1.0, 8.0)), {}, "penalty_factors is"),
    "centre": (lambda o: with_regulariser(o, "l2", 1e-3, centre=np.ones((7, 3))), {}, "centre of the penalty is None"),
    "loss": (lambda o: changed(o, loss=losses.get("multiclass_squared_hinge")), {}, "loss is softmax there"),
    "intercept": (lambda o: changed(o, fit_intercept=False), {}, "fit_intercept is True there, False here"),
    "seed": (lambda o: o, {"seed": 3}, "random_state is 0 there, 3 here"),
    "solver": (lambda o: o, {"name": "newton"}, "solver is lbfgs there, newton here"),
    "labels": (other_labels, {}, "the labels differ"),
    "order": (other_order, {}, "the features differ; the order of the labels differ"),
    "features": (other_rows, {}, "the features differ"),
    "units": (other_units, {}, "the sizes of the columns differ"),
    "weights": (other_weights, {}, "the weights of the rows differ"),
    "base scores": (with_offsets, {}, "the base scores differ"),
}


@pytest.mark.parametrize("what", OTHERS)
def test_a_checkpoint_of_another_fit_is_refused_by_name(tmp_path, what):
    path, objective = tmp_path / "c", problem("softmax")
    interrupted(path, objective)
    change, keywords, message = OTHERS[what]
    name = keywords.pop("name", "lbfgs") if "name" in keywords else "lbfgs"
    with pytest.raises(CheckpointError, match=f"another fit: .*{message}"):
        minimise(solvers.get(name), change(objective), checkpoint=Checkpoint(path), **keywords)
    limits = {"tol": 1e-5, "max_iter": 500, "max_time": 1e3, "n_jobs": 1}
    assert minimise(solvers.get("lbfgs"), objective, checkpoint=Checkpoint(path), **limits).status == "converged"


def test_options_shapes_and_types_are_refused_by_name(tmp_path):
    path = tmp_path / "c"
    interrupted(path, problem("logistic"), "newton")
    for objective, keywords, message in (
        (problem("logistic"), {"globalisation": "trust_region"}, "globalisation is line_search there"),
        (problem("logistic", n=201), {}, "number of rows is 200 there, 201 here"),
        (problem("logistic", dtype=np.float32), {}, "data type is float64 there, float32 here"),
    ):
        with pytest.raises(CheckpointError, match=message):
            minimise(solvers.get("newton"), objective, checkpoint=Checkpoint(path), **keywords)


def test_damaged_files_are_refused(tmp_path):
    path = tmp_path / "c"
    interrupted(path, problem("softmax"))
    whole = path.read_bytes()
    random = np.random.default_rng(0)
    for number in range(60):
        content = bytearray(whole)
        if number % 3 == 0:
            content = content[: random.integers(0, len(whole))]
        elif number % 3 == 1:
            content[random.integers(0, len(whole))] ^= 1 << random.integers(8)
        else:
            content += b"more"
        path.write_bytes(content)
        with pytest.raises(CheckpointError, match=r"delete the file|name another file|continue with that version"):
            Checkpoint(path)
    path.write_bytes(whole)
    assert Checkpoint(path).found_phase is not None


def test_other_files_and_versions_are_refused(tmp_path, monkeypatch):
    path = tmp_path / "c"
    path.write_text("weight,label\n1,2\n")
    with pytest.raises(CheckpointError, match="not a checkpoint"):
        Checkpoint(path)
    path.unlink()
    LinearClassifier(tol=10.0).fit(*load_iris(return_X_y=True)).save(path)
    with pytest.raises(CheckpointError, match="is not a checkpoint of lineal: name another file"):
        Checkpoint(path)
    path.unlink()
    interrupted(path, problem("softmax"))
    monkeypatch.setattr("lineal.problem.checkpoint.__version__", "99")
    with pytest.raises(CheckpointError, match=r"a checkpoint of lineal [^ ]*, and this is lineal 99"):
        Checkpoint(path)


def test_a_state_of_other_shapes_is_refused(tmp_path):
    """The facts are the same and the state is not: no code of ours writes such a file."""
    path, objective = tmp_path / "c", problem("softmax", "l1/l2")
    interrupted(path, objective, "block_cd")
    checkpoint = Checkpoint(path)
    checkpoint._found["saved"].state["state"]["Z"] = np.zeros((3, 3))
    with pytest.raises(CheckpointError, match="has no state of this fit"):
        minimise(solvers.get("block_cd"), objective, checkpoint=checkpoint)


def test_a_folder_that_does_not_exist_is_refused_before_the_fit(tmp_path):
    X, y = load_iris(return_X_y=True)
    for path in (tmp_path / "nowhere" / "c", tmp_path):
        with pytest.raises(LinealError, match="cannot write"):
            LinearClassifier(checkpoint=path).fit(X, y)
    for path in (3, "", True):
        with pytest.raises(OptionError, match=r"checkpoint=.* is not the name of a file"):
            LinearClassifier(checkpoint=path).fit(X, y)


def test_a_checkpoint_that_cannot_be_written_does_not_end_the_fit(tmp_path, monkeypatch):
    objective, wanted = problem("softmax"), minimise(solvers.get("lbfgs"), problem("softmax"))
    checkpoint = Checkpoint(tmp_path / "c")

    def full(*given):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr("lineal.problem.checkpoint.write_tensors", full)
    with pytest.warns(UserWarning, match="no checkpoint was written, the fit goes on: .*No space left") as caught:
        found = minimise(solvers.get("lbfgs"), objective, checkpoint=checkpoint)
    assert len(caught) == 1
    same(found, wanted)
    assert os.listdir(tmp_path) == []


def test_writing_takes_a_small_share_of_the_time(tmp_path, monkeypatch):
    clock = iter(np.arange(1000.0))
    monkeypatch.setenv(EVERY_VARIABLE, "0.5")
    monkeypatch.setattr("lineal.problem.checkpoint.time.monotonic", lambda: next(clock))
    checkpoint = Checkpoint(tmp_path / "c")
    checkpoint.write(Saved(0, 0.0, [], {}))  # which takes a second by this clock
    assert [checkpoint.is_due() for _ in range(21)] == [False] * 19 + [True] * 2


def test_only_fits_that_can_continue_leave_a_file(tmp_path):
    X, y = load_iris(return_X_y=True)
    path = tmp_path / "c"
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        LinearClassifier("softmax", max_iter=2, tol=1e-9, checkpoint=path).fit(X, y)
        assert path.exists()
        LinearClassifier("softmax", max_iter=900, tol=1e-9, checkpoint=path).fit(X, y)
        assert not path.exists()


def test_verbose_fits_say_that_they_continue(tmp_path, capsys):
    X, y = load_iris(return_X_y=True)
    path = tmp_path / "c"
    for max_iter in (2, 900):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            LinearClassifier("softmax", max_iter=max_iter, tol=1e-9, checkpoint=path, verbose=1).fit(X, y)
        assert (f"continuing from {path}" in capsys.readouterr().err) == (max_iter == 900)


def test_searches_refuse_checkpoints_and_models_do_not_have_them(tmp_path):
    X, y = load_iris(return_X_y=True)
    with pytest.raises(OptionError, match="checkpoint is for one fit"):
        search(X, y, TrainOptions(checkpoint="c"), PathOptions())
    model = LinearClassifier(checkpoint=tmp_path / "c").fit(X, y).model_
    assert "checkpoint" not in model.options
    json.dumps(model.options)
