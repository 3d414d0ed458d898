"""Paths of α and their search: every point is what a fit of its own gives, folds are sub-matrices."""

from __future__ import annotations

import json

import numpy as np
import pytest
from cli_files import done, failed, write_iris, write_label_sets
from conftest import random_problem
from scipy import sparse

import lineal
from lineal.errors import DataError, OptionError
from lineal.linear.fit import fit, prepare
from lineal.linear.folds import from_pairs, stratified
from lineal.linear.options import TrainOptions
from lineal.linear.search.alphas import constant_model, largest_alpha, path_alphas, quick_alphas
from lineal.linear.search.options import PathOptions
from lineal.linear.search.result import choose, standard_error
from lineal.linear.search.run import search
from lineal.problem.row_weights import row_weights
from lineal.problem.targets import encode


def blobs(n: int = 90, d: int = 6, k: int = 3, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    y = np.arange(n) % k
    return rng.normal(size=(k, d))[y] + rng.normal(size=(n, d)), y


@pytest.mark.parametrize("loss", ["logistic", "softmax"])
def test_every_point_of_a_path_is_a_certified_fit(loss):
    X, y = blobs()
    options = TrainOptions(loss=loss, tol=1e-8)
    model, solution, found = search(
        X, y, options, PathOptions(n_alphas=6, alpha_min_ratio=1e-4, folds=3), keep_path=True
    )
    assert found.status == "complete"
    assert (np.diff(found.alphas) < 0).all()
    for alpha, certificate, (W, _) in zip(found.alphas, found.certificates, found.path):
        cold = fit(X, y, TrainOptions(loss=loss, alpha=float(alpha), tol=1e-8))[1]
        assert certificate.meets(1e-8)
        assert certificate.primal == pytest.approx(cold.certificate.primal, rel=1e-6)
        shared = 0.0 if loss == "logistic" else (W - cold.weights).mean(axis=1, keepdims=True)  # softmax's free shift
        np.testing.assert_allclose(W - shared, cold.weights, atol=1e-3)
    np.testing.assert_array_equal(model.weights, found.path[found.chosen][0])
    assert model.options["alpha"] == found.alpha
    assert solution.certificate is found.certificates[found.chosen]


@pytest.mark.parametrize("class_weight", [None, "balanced"])
@pytest.mark.parametrize("kind", [np.asarray, sparse.csr_array, sparse.csc_array])
def test_folds_by_weight_are_sub_matrices(kind, class_weight):
    X, y = random_problem(3, n=80, k=3)
    X = kind(X.toarray())
    options = TrainOptions(loss="logistic", alpha=1e-2, tol=1e-9, class_weight=class_weight)
    rows = np.arange(80) % 4 != 1
    rows[:3] = True
    problem = prepare(X, y, options)
    weights = row_weights(rows.astype(float), class_weight, problem.encoded, 80)
    shared = problem.with_weights(weights).solve()
    assert problem.with_weights(weights).objective.engine.X is problem.objective.engine.X
    alone = fit(sparse.csr_array(X)[np.flatnonzero(rows)], y[rows], options)[1]
    assert shared.certificate.primal == pytest.approx(alone.certificate.primal, rel=1e-8)
    np.testing.assert_allclose(shared.weights, alone.weights, atol=1e-4)


@pytest.mark.parametrize("kind", [np.asarray, sparse.csr_array, sparse.csc_array])
@pytest.mark.parametrize("scoring", ["accuracy", "log_loss", "brier", "macro_f1", "roc_auc"])
def test_scores_are_those_of_fits_to_the_training_rows(kind, scoring):
    from lineal.models.metrics import single_label

    X, y = blobs()
    pairs = [(np.flatnonzero(np.arange(90) // 30 != j), np.flatnonzero(np.arange(90) // 30 == j)) for j in range(3)]
    options = TrainOptions(loss="softmax", tol=1e-9)
    found = search(kind(X), y, options, PathOptions(alphas=[0.1], scoring=scoring), folds=pairs)[2]
    assert found.greater_is_better == (scoring not in ("log_loss", "brier"))
    for (train, held), score in zip(pairs, found.scores[0]):
        model = fit(X[train], y[train], TrainOptions(loss="softmax", tol=1e-9, alpha=0.1))[0]
        scores = model.decision_function(X[held])
        expected = single_label(y[held], scores, model.probabilities_of(scores), model.classes)[scoring]
        assert score == pytest.approx(expected, abs=1e-4)


def test_weights_are_repetitions():
    X, y = blobs(60)
    weights = np.random.default_rng(1).integers(0, 4, 60)
    weights[:6] = 1
    part = np.arange(60) // 20
    again = np.repeat(np.arange(60), weights)
    options, wanted = TrainOptions(loss="logistic", tol=1e-9), PathOptions(n_alphas=3, alpha_min_ratio=1e-3)
    pairs = [(np.flatnonzero(part != j), np.flatnonzero(part == j)) for j in range(3)]
    repeated = [(np.flatnonzero(part[again] != j), np.flatnonzero(part[again] == j)) for j in range(3)]
    one = search(X, y, options, wanted, sample_weight=weights, folds=pairs)[2]
    other = search(X[again], y[again], options, wanted, folds=repeated)[2]
    np.testing.assert_allclose(one.alphas, other.alphas, rtol=1e-8)
    np.testing.assert_allclose(one.scores, other.scores, atol=1e-8)


def test_the_rule_of_one_standard_error():
    scores = np.array([[0.5, 0.5, 0.5], [0.79, 0.8, 0.81], [0.80, 0.85, 0.9], [0.9, 0.9, 0.8], [0.7, 0.7, np.nan]])
    assert standard_error(scores)[3] == pytest.approx(np.std([0.9, 0.9, 0.8], ddof=1) / np.sqrt(3))
    assert choose(scores, True, "best") == (3, 3)
    assert choose(scores, True, "one_standard_error") == (3, 2)
    assert choose(1.0 - scores, False, "one_standard_error") == (3, 2)
    assert choose(np.ones((4, 2)), True, "best") == (0, 0)
    assert choose(np.full((2, 2), np.nan), True, "best") == (0, 0)


def test_folds_are_stratified_seeded_and_keep_every_class():
    y = np.array([0] * 20 + [1] * 11 + [2])
    encoded = encode(y, direct=True)
    folds = stratified(encoded, 32, 4, seed=0)
    held = np.concatenate([fold.held for fold in folds])
    assert sorted(held) == list(range(31))  # the only row of class 2 is never held out
    for fold in folds:
        assert set(fold.train) | set(fold.held) == set(range(32))
        assert not set(fold.train) & set(fold.held)
        assert np.bincount(y[fold.held])[0] == 5
    again = stratified(encoded, 32, 4, seed=0)
    assert all(np.array_equal(a.held, b.held) for a, b in zip(folds, again))
    assert not all(np.array_equal(a.held, b.held) for a, b in zip(folds, stratified(encoded, 32, 4, seed=1)))


@pytest.mark.parametrize(
    ("pairs", "message"),
    [
        ([([0, 2, 4], [1, 3, 5])], "class 'b' has no rows in the training part of fold 0"),
        ([([0, 1, 9], [2])], "names row 9"),
        ([([0, 1, 2], [])], "held-out part of fold 0 has no rows"),
        ([], "no folds"),
        ([1, 2], "pairs"),
        ([(np.ones(3, bool), np.ones(3, bool))], "mask"),
    ],
)
def test_folds_that_cannot_be_used(pairs, message):
    encoded = encode(np.array(["a", "b"] * 3), direct=False)
    with pytest.raises(DataError, match=message):
        from_pairs(pairs, encoded, 6)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"select": "bets"}, "did you mean 'best'"),
        ({"search": "quikc"}, "did you mean 'quick'"),
        ({"scoring": "acuracy"}, "did you mean 'accuracy'"),
        ({"n_alphas": 0}, "n_alphas=0"),
        ({"folds": 1}, "folds=1"),
        ({"alpha_min_ratio": 0.0}, "alpha_min_ratio=0.0"),
        ({"alphas": []}, "at least one"),
        ({"alphas": "1,x"}, "not numbers"),
        ({"alphas": [1.0, -1.0]}, "-1.0"),
        ({"alphas": [1.0], "search": "quick"}, "leave out alphas"),
    ],
)
def test_options_that_cannot_be_honoured(options, message):
    with pytest.raises(OptionError, match=message):
        PathOptions(**options).checked()


def test_given_alphas_descend():
    assert PathOptions(alphas="0.1, 10,1,0.1").given_alphas().tolist() == [10.0, 1.0, 0.1]
    X, y = blobs()
    found = search(X, y, TrainOptions(loss="logistic"), PathOptions(alphas=[0.01, 1.0], folds=3))[2]
    assert found.alphas.tolist() == [1.0, 0.01]


@pytest.mark.parametrize("loss", ["logistic", "softmax", "squared_hinge"])
def test_l2_paths_begin_where_the_model_is_all_but_constant(loss):
    X, y = blobs()
    objective = prepare(X, y, TrainOptions(loss=loss)).objective
    alpha = largest_alpha(objective)
    solution = fit(X, y, TrainOptions(loss=loss, alpha=alpha, tol=1e-8))[1]
    scores = (X - X.mean(axis=0)) @ solution.weights
    assert np.sqrt((scores**2).mean(axis=0)).max() <= 0.1
    assert np.sqrt((scores**2).mean(axis=0)).max() >= 0.01
    scaled = prepare(10.0 * X, y, TrainOptions(loss=loss)).objective
    assert largest_alpha(scaled) == pytest.approx(100.0 * alpha)
    alphas = path_alphas(objective, 4, 1e-3)
    np.testing.assert_allclose(alphas, alpha * 10.0 ** -np.arange(4.0))


def test_the_constant_model_has_the_best_intercept_with_offsets_too():
    X, y = blobs()
    offsets = np.random.default_rng(0).normal(size=(90, 3))
    objective = prepare(X, y, TrainOptions(loss="logistic"), offsets=offsets).objective
    gradient = objective.loss_and_gradient(constant_model(objective))[1]
    assert np.abs(gradient[-1]).max() < 1e-10


def test_features_that_tell_nothing():
    found = search(np.zeros((12, 2)), np.arange(12) % 2, TrainOptions(), PathOptions(n_alphas=2, folds=2))[2]
    assert found.alphas[0] == 1.0
    assert (found.nonzero == 0).all()


@pytest.mark.parametrize("loss", ["logistic", pytest.param("squared_hinge", marks=pytest.mark.slow)])
def test_l1_paths_begin_where_the_first_weight_does(loss):
    X, y = blobs()
    y = (y > 0).astype(int)
    alpha = largest_alpha(prepare(X, y, TrainOptions(loss=loss, penalty="l1")).objective)
    for share, nonzero in ((1.0 + 1e-9, False), (0.99, True)):
        solution = fit(X, y, TrainOptions(loss=loss, penalty="l1", alpha=share * alpha, tol=1e-10))[1]
        assert solution.weights.any() == nonzero


def test_l1_paths_are_certified_and_gain_weights():
    X, y = blobs(d=20)
    found = search(X, y, TrainOptions(loss="logistic", penalty="l1", tol=1e-6), PathOptions(n_alphas=8, folds=3))[2]
    assert found.nonzero[0] == 0
    assert found.nonzero[-1] > 10
    assert all(certificate.meets(1e-6) for certificate in found.certificates)


def test_the_quick_search_halves_and_ends():
    X, y = blobs()
    X = X + 5.0 * np.eye(3, X.shape[1])[y]  # separable: soon nothing changes
    model, _, found = search(X, y, TrainOptions(), PathOptions(search="quick", folds=3))
    np.testing.assert_allclose(found.alphas[1:] / found.alphas[:-1], 0.5)
    tried = quick_alphas(prepare(X, y, TrainOptions()).objective, 90.0)
    assert len(found.alphas) < len(tried)
    assert 1.0 <= tried[-1] * 1024.0 * 90.0 < 2.0  # the last C is at most 1024
    assert found.mean[found.chosen] == found.mean.max() == 1.0
    assert (np.ptp(found.scores[-6:], axis=0) == 0.0).all()
    assert (model.predict(X) == y).all()


def test_a_search_is_deterministic():
    X, y = blobs()
    runs = [search(X, y, TrainOptions(random_state=3), PathOptions(n_alphas=4, folds=3)) for _ in range(2)]
    np.testing.assert_array_equal(runs[0][2].scores, runs[1][2].scores)
    np.testing.assert_array_equal(runs[0][0].weights, runs[1][0].weights)


def test_time_and_callbacks_end_a_search_with_a_model():
    X, y = blobs()
    wanted = PathOptions(n_alphas=4, folds=3)
    model, _, found = search(X, y, TrainOptions(max_time=1e-9), wanted)
    assert found.status == "max_time"
    assert model.weights.shape == (6, 3)
    calls: list[float] = []

    def stop(snapshot):
        calls.append(snapshot.gap)
        return len(calls) > 40

    model, _, found = search(X, y, TrainOptions(tol=1e-6), wanted, callbacks=[stop])
    assert found.status == "stopped"
    assert 1 <= len(found.alphas) <= 4
    assert np.isfinite(model.weights).all()


def test_a_keyboard_interrupt_leaves_the_best_so_far():
    import signal

    X, y = blobs()
    calls: list[int] = []

    def interrupt(snapshot):
        calls.append(snapshot.iteration)
        if len(calls) == 12:
            signal.raise_signal(signal.SIGINT)

    model, _, found = search(X, y, TrainOptions(tol=1e-6), PathOptions(n_alphas=6, folds=3), callbacks=[interrupt])
    assert found.status == "interrupted"
    assert np.isfinite(model.weights).all()


def test_large_paths_keep_the_leader_only(monkeypatch):
    X, y = blobs()
    wanted = PathOptions(n_alphas=6, folds=3, select="one_standard_error")
    expected = search(X, y, TrainOptions(tol=1e-8), wanted)[0]
    monkeypatch.setattr("lineal.linear.search.run.PATH_BYTES", 1)
    model = search(X, y, TrainOptions(tol=1e-8), wanted)[0]
    np.testing.assert_allclose(model.weights, expected.weights, atol=1e-4)


# --- the command


@pytest.fixture(scope="module")
def iris(tmp_path_factory):
    return write_iris(tmp_path_factory.mktemp("iris") / "iris.csv")


OPTIONS = ("--label", "kind", "--loss", "softmax", "--n-alphas", "4", "--folds", "3")


def test_the_command(iris, tmp_path):
    model, plot = tmp_path / "m", tmp_path / "p.png"
    result = json.loads(done("path", iris, "-m", model, *OPTIONS, "--plot", plot, "--json").stdout)
    assert len(result["path"]) == 4
    assert result["score"] > 0.9
    assert all(row["gap"] <= 1e-3 for row in result["path"])
    known = lineal.load(model)
    assert known.options["alpha"] == result["alpha"]
    assert known.schema is not None
    assert json.loads(done("evaluate", model, iris, "--json").stdout)["accuracy"] > 0.9
    assert plot.read_bytes().startswith(b"\x89PNG")
    text = done("path", iris, "-m", model, *OPTIONS, "--select", "one_standard_error").stdout
    assert text.splitlines()[0].split("\t")[:3] == ["alpha", "accuracy", "se"]
    assert "chosen" in text
    quick = ("--label", "kind", "--search", "quick", "--folds", "2", "--max-time", "5", "--quiet")
    assert done("path", iris, "-m", model, *quick).stdout == ""


def test_the_command_without_any_score(iris, tmp_path):
    model = tmp_path / "m"
    ended = done("path", iris, "-m", model, *OPTIONS, "--max-time", "1e-9")
    assert "nan" not in ended.stdout + ended.stderr
    assert "score: none: the search ended before any strength was scored" in ended.stdout
    assert "best alpha" not in ended.stdout
    assert not any("best" in line for line in ended.stdout.splitlines() if "\t" in line)
    assert "before any strength was scored" in ended.stderr
    assert lineal.load(model).classes.tolist() == ["setosa", "versicolor", "virginica"]
    result = json.loads(done("path", iris, "-m", model, *OPTIONS, "--max-time", "1e-9", "--json").stdout)
    assert result["score"] is None
    assert result["status"] == "max_time"


def test_the_command_on_label_sets(tmp_path):
    rows = write_label_sets(tmp_path / "sets.svm")
    args = ("--loss", "logistic", "--alphas", "0.1,0.001", "--folds", "3", "--scoring", "log_loss", "--json")
    result = json.loads(done("path", rows, "-m", tmp_path / "m", *args).stdout)
    assert result["measure"] == "log_loss"
    assert result["alpha"] == 0.001


@pytest.mark.parametrize(
    ("args", "expected"),
    [
        (("--folds", "1"), "--folds 1 is"),
        (("--select", "wurst"), "--select wurst is unknown"),
        (("--search", "quick", "--alphas", "1"), "leave out --alphas"),
        (("--alphas", "1,a"), "not numbers"),
        (("--alpha", "1"), "--alpha"),
        (("--loss", "squared_hinge", "--scoring", "log_loss"), "needs probabilities"),
        (("--plot", "nowhere/p.png"), "nowhere/p.png"),
    ],
)
def test_wrong_flags(iris, tmp_path, args, expected):
    assert expected in failed("path", iris, "-m", tmp_path / "m", "--label", "kind", *args)
    assert list(tmp_path.iterdir()) == []


# --- paths of penalties that leave features out


def some_noise(n: int = 120, k: int = 3, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Classes that four of twelve columns tell apart."""
    rng = np.random.default_rng(seed)
    y = np.arange(n) % k
    X = rng.normal(size=(n, 12))
    X[:, :4] += 1.5 * rng.normal(size=(k, 4))[y]
    return X, y


def test_the_rule_of_the_smallest_model():
    scores = np.array([[0.5, 0.5], [0.88, 0.90], [0.91, 0.91], [0.92, 0.90], [0.92, 0.92], [0.9, np.nan]])
    sizes = [0, 3, 5, 5, 9, 1]
    assert choose(scores, True, "smallest", sizes, 0.0) == (4, 4)
    assert choose(scores, True, "smallest", sizes, 0.01) == (4, 2)  # as few as the next, and a larger α
    assert choose(scores, True, "smallest", sizes, 0.03) == (4, 1)
    assert choose(scores, True, "smallest", sizes, 1.0) == (4, 0)
    assert choose(1.0 - scores, False, "smallest", sizes, 0.03) == (4, 1)
    assert choose(100.0 * scores, True, "smallest", sizes, 1.0) == (4, 2)
    assert choose(scores, True, "smallest", [9, 2, 5, 5, 2, 1], 0.03) == (4, 1)
    assert choose(scores, True, "smallest", [0, -1, 5], 0.03) == (4, 2)  # sizes of the last are not known yet
    assert choose(np.full((2, 2), np.nan), True, "smallest", [1, 2], 0.1) == (0, 0)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"select": "smallest", "within": -0.1}, "within=-0.1 is not"),
        ({"select": "smallest", "within": "much"}, "within='much' is not"),
        ({"select": "smallest", "within": True}, "within=True is not"),
        ({"select": "smallest", "within": float("nan")}, "within=nan is not"),
        ({"within": 0.1}, "for select='smallest' only"),
    ],
)
def test_a_tolerance_that_means_nothing_is_refused(options, message):
    with pytest.raises(OptionError, match=message):
        PathOptions(**options).checked()


@pytest.mark.slow
@pytest.mark.parametrize("loss", ["softmax", "multiclass_squared_hinge"])
def test_paths_that_select_features(loss):
    X, y = some_noise()
    wanted = PathOptions(n_alphas=8, alpha_min_ratio=1e-2, folds=3, select="smallest", within=0.05)
    model, _, found = search(X, y, TrainOptions(loss=loss, penalty="l1/l2"), wanted, keep_path=True)
    problem = prepare(X, y, TrainOptions(loss=loss, penalty="l1/l2"))
    assert found.alpha_max == pytest.approx(largest_alpha(problem.objective), rel=1e-9)
    assert found.alphas[0] == found.alpha_max
    assert found.n_features == 12
    counted = [int(W.any(axis=1).sum()) for W, _ in found.path]
    assert found.nonzero_rows.tolist() == counted
    assert counted[0] == 0
    assert counted[-1] > counted[1]
    np.testing.assert_allclose(found.percent_rows, np.array(counted) / 0.12)
    assert [row["nonzero_rows"] for row in found.rows()] == counted
    good = np.flatnonzero(found.mean >= found.mean[found.best] - 0.05 - 1e-9)
    fewest = good[np.argmin(found.nonzero_rows[good])]
    assert found.chosen == fewest
    assert len(model.used_features) == found.nonzero_rows[found.chosen]
    assert found.nonzero_rows[found.chosen] <= found.nonzero_rows[found.best]


@pytest.mark.parametrize(
    ("penalty", "ratio", "dtype"),
    [
        ("l1", None, np.float64),
        *(
            pytest.param(*one, marks=pytest.mark.slow)
            for one in (
                ("l1/l2", None, np.float64), ("l1/l2", None, np.float32), ("l1/linf", None, np.float64),
                ("elastic_net", 0.5, np.float64),
                ("sparse_group", 0.5, np.float64),
            )
        ),
    ],
)  # fmt: skip
def test_above_the_largest_strength_there_are_no_weights(penalty, ratio, dtype):
    X, y = some_noise()
    options = TrainOptions(loss="multiclass_squared_hinge", penalty=penalty, l1_ratio=ratio, tol=1e-5)
    objective = prepare(X.astype(dtype), y, options).objective
    start = largest_alpha(objective)
    given = PathOptions(alphas=[start * 10, start * 1.001, start * 0.95], folds=3)
    _, _, found = search(X.astype(dtype), y, options, given, keep_path=True)
    assert found.alpha_max == pytest.approx(start, rel=1e-5)
    best = constant_model(objective)[-1]
    for certificate, (W, b) in list(zip(found.certificates, found.path))[:2]:
        assert not W.any()
        assert certificate.value <= (1e-12 if dtype == np.float64 else 1e-6)
        np.testing.assert_allclose(b - b.mean(), best - best.mean(), atol=1e-8 if dtype == np.float64 else 1e-5)
    assert found.path[2][0].any()


def test_l2_has_no_largest_strength():
    X, y = blobs()
    found = search(X, y, TrainOptions(loss="softmax"), PathOptions(n_alphas=3, folds=3))[2]
    assert found.alpha_max is None
    assert found.nonzero_rows.tolist() == [6, 6, 6]
    assert found.percent_rows.tolist() == [100.0] * 3


def test_the_estimator_takes_the_smallest_model():
    X, y = some_noise()
    shared = {"loss": "softmax", "penalty": "l1/l2", "n_alphas": 6, "cv": 3, "random_state": 0}
    best = lineal.LinearClassifierCV(**shared).fit(X, y)
    small = lineal.LinearClassifierCV(**shared, select="smallest", within=0.2).fit(X, y)
    np.testing.assert_array_equal(small.cv_scores_, best.cv_scores_)
    assert small.n_nonzero_rows_[small.chosen_index_] < best.n_nonzero_rows_[best.chosen_index_]
    assert small.alpha_max_ == small.alphas_[0]
    assert small.coef_.any(axis=0).sum() == small.n_nonzero_rows_[small.chosen_index_]
    assert small.predict(X).shape == (len(X),)


def test_sparse_paths_on_the_command_line(tmp_path):
    X, y = some_noise()
    lines = ["label," + ",".join(f"x{j}" for j in range(12))]
    lines += [f"class {label}," + ",".join(f"{value:.4f}" for value in row) for row, label in zip(X, y)]
    (tmp_path / "t.csv").write_text("\n".join(lines) + "\n")
    flags = ["path", tmp_path / "t.csv", "--label", "label", "-m", tmp_path / "m", "--penalty", "l1/l2", "--loss",
             "softmax", "--n-alphas", "5", "--folds", "3", "--select", "smallest", "--within", "0.2"]  # fmt: skip
    found = json.loads(done(*flags, "--json").stdout)
    assert found["alpha_max"] == found["path"][0]["alpha"]
    assert found["path"][0]["nonzero_rows"] == 0
    assert found["features_used"] < 12
    lines = done(*flags).stdout.splitlines()
    assert lines[0] == "alpha\taccuracy\tse\tfeatures\t%\tnon-zero\twithin\tseconds\t"
    assert lines[1].split("\t")[3:6] == ["0", "0", "0"]
    assert f"features used: {found['features_used']}" in lines
    assert any(line.startswith("alpha max: ") for line in lines)
    assert "smallest" in failed(*flags[:-4], "--within", "0.2")
    assert len(lineal.load(tmp_path / "m").used_features) == found["features_used"]


@pytest.mark.parametrize("ended", [False, True])
def test_scores_against_features_as_a_picture(ended, tmp_path):
    pytest.importorskip("matplotlib", reason="plots need the report extra")
    from dataclasses import replace

    from lineal.report import plot_path, plot_sparsity

    X, y = some_noise()
    found = search(X, y, TrainOptions(loss="softmax", penalty="l1/l2"), PathOptions(n_alphas=4, folds=3))[2]
    if ended:
        rows = np.where(np.arange(4) == 3, -1, found.nonzero_rows)
        found = replace(found, nonzero_rows=rows, best=3, chosen=3, status="max_time")
    plot_sparsity(found, tmp_path / "sparsity.png")
    plot_path(found, tmp_path / "path.png")
    for name in ("sparsity.png", "path.png"):
        assert (tmp_path / name).read_bytes().startswith(b"\x89PNG")
    if not ended:
        from matplotlib.image import imread

        plot_sparsity(replace(found, nonzero_rows=found.nonzero_rows[::-1]), tmp_path / "other.png")
        assert not np.array_equal(imread(tmp_path / "sparsity.png"), imread(tmp_path / "other.png"))
