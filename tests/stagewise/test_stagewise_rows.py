"""Stagewise models of rows in files and on a cluster: the models of the arrays."""

from __future__ import annotations

import numpy as np
import pytest
from file_rows import cut_into, write_files
from scipy import sparse
from sklearn.datasets import load_digits, make_multilabel_classification

import lineal
from lineal.engine import file as file_engine
from lineal.errors import CheckpointError, DataError, OptionError
from lineal.features import elsewhere
from lineal.problem.checkpoint import EVERY_VARIABLE
from lineal.solvers.stagewise import stagewise
from lineal.system import memory

ROWS = 220

#: Ways to make and fit features. What is close to the limits of float64 is not compared, so α is not tiny.
OPTIONS = {
    "fourier": {"generator": "fourier:variant=orthogonal", "update": "linear"},
    "chain": {"generator": "pca:n_components=9+fourier", "update": "softmax", "inner_iter": 4},
    "greedy": {"generator": "greedy", "update": "calibrated", "block_size": 10},
    "members": {"generator": "fourier", "n_models": 2, "validation_fraction": 0.2, "class_weight": "balanced"},
    "patches": {"generator": "patches:patch=3,n_filters=6,image_shape=8x8", "block_size": 16, "n_blocks": 2},
}


def slow(*values):
    """Parameters of tests that only `make test-all` runs."""
    return [pytest.param(value, marks=pytest.mark.slow) for value in values]


@pytest.fixture(scope="module")
def rows():
    X, y = load_digits(return_X_y=True)
    X, y = X[y < 4][:ROWS] / 16.0, np.array(["zero", "one", "two", "three"])[y[y < 4][:ROWS]]
    rng = np.random.default_rng(5)
    # no two columns are multiples of each other, so that greedy choices are clear
    X += 0.3 * rng.random(X.shape) * (rng.random(X.shape) < 0.2)
    return X, y, rng.uniform(0.5, 2.0, ROWS)


def classifier(**options):
    given = {"block_size": 24, "n_blocks": 3, "alpha": 1e-3, "precision": "float64", "random_state": 3, **options}
    return lineal.StagewiseClassifier(**given)


def agree(found, wanted, X, tolerance=1e-8):
    assert found.n_features_in_ == wanted.n_features_in_
    np.testing.assert_array_equal(found.classes_, wanted.classes_)
    assert [len(member) for member in found.model_.members] == [len(member) for member in wanted.model_.members]
    for mine, theirs in zip(found.model_.members, wanted.model_.members):
        for one, other in zip(mine, theirs, strict=True):
            assert (one.number, one.size) == (other.number, other.size)
            np.testing.assert_allclose(
                one.weights, other.weights, rtol=tolerance, atol=tolerance * np.abs(other.weights).max()
            )
    scores = wanted.decision_function(X)
    np.testing.assert_allclose(found.decision_function(X), scores, atol=tolerance * max(1.0, np.abs(scores).max()))
    errors = [[row.get("validation", 0.0) for row in fit.history_] for fit in (found, wanted)]
    np.testing.assert_allclose(*errors, atol=1e-12)


def same_bits(found, wanted):
    (own, tensors), (wanted_own, wanted_tensors) = (one.model_.to_parts() for one in (found, wanted))
    assert own == wanted_own
    assert tensors.keys() == wanted_tensors.keys()
    for name, tensor in tensors.items():
        np.testing.assert_array_equal(tensor, wanted_tensors[name])


# --- files


@pytest.mark.parametrize("blocks", [pytest.param(1, marks=pytest.mark.slow), 7])
@pytest.mark.parametrize("name", OPTIONS)
def test_files_train_the_model_of_the_arrays(rows, tmp_path, monkeypatch, name, blocks):
    X, y, weights = rows
    wanted = classifier(**OPTIONS[name]).fit(X, y, weights)
    cut_into(monkeypatch, X, blocks)
    write_files(tmp_path, X, y, weights, parts=2)
    found = classifier(**OPTIONS[name], engine="file").fit(tmp_path)
    agree(found, wanted, X)
    np.testing.assert_array_equal(found.predict(tmp_path), wanted.predict(X))


@pytest.mark.parametrize("name", ["greedy", *slow("fourier", "chain")])
@pytest.mark.parametrize("n_jobs", [*slow(1), 2])
def test_sparse_files(rows, tmp_path, monkeypatch, name, n_jobs):
    """Two threads read and fit blocks of their own."""
    X, y, weights = rows
    X = sparse.csr_array(X)
    options = {**OPTIONS[name], "n_jobs": n_jobs}
    wanted = classifier(**options).fit(X, y, weights)
    cut_into(monkeypatch, X, 7)
    write_files(tmp_path, X, y, weights, parts=2)
    agree(classifier(**options, engine="file").fit(tmp_path), wanted, X)


@pytest.mark.parametrize("engine", [*slow("auto", "local"), "file"])
def test_defaults_take_files(rows, tmp_path, engine):
    X, y, _ = rows
    write_files(tmp_path, X, y, parts=2)
    wanted = lineal.StagewiseClassifier(block_size=64, n_blocks=2).fit(X, y)
    found = lineal.StagewiseClassifier(block_size=64, n_blocks=2, engine=engine).fit(tmp_path)
    agree(found, wanted, X.astype(np.float32), tolerance=2e-3)


@pytest.mark.parametrize("kind", ["two classes", "label sets"])
@pytest.mark.parametrize("update", ["linear", *slow("softmax")])
def test_independent_columns(rows, tmp_path, monkeypatch, kind, update):
    X, y, _ = rows
    if kind == "label sets":
        X, y = make_multilabel_classification(ROWS, n_features=8, n_classes=3, random_state=0)
    else:
        y = (y == "one").astype(int)
    wanted = classifier(generator="fourier", update=update, validation_fraction=0.3).fit(X, y)
    cut_into(monkeypatch, X, 5)
    write_files(tmp_path, X, y, parts=2)
    found = classifier(generator="fourier", update=update, validation_fraction=0.3, engine="file").fit(tmp_path)
    if kind == "label sets":
        np.testing.assert_allclose(found.decision_function(X), wanted.decision_function(X), atol=1e-7)
        np.testing.assert_array_equal(found.predict(tmp_path), wanted.predict(X))
    else:
        agree(found, wanted, X)


def test_rows_of_float64_for_features_of_float32(rows, tmp_path, monkeypatch):
    X, y, _ = rows
    options = {**OPTIONS["fourier"], "precision": "float32"}
    wanted = classifier(**options).fit(X, y)
    cut_into(monkeypatch, X, 3)
    write_files(tmp_path, X, y)
    found = classifier(**options, engine="file").fit(tmp_path)
    assert found.model_.dtype == np.float32
    agree(found, wanted, X, tolerance=1e-3)


@pytest.mark.parametrize("block_memory", [0, 1 << 30])
@pytest.mark.parametrize("name", ["fourier", *slow("chain")])
def test_nothing_depends_on_what_is_kept(rows, tmp_path, monkeypatch, name, block_memory):
    X, y, weights = rows
    cut_into(monkeypatch, X, 7)
    write_files(tmp_path, X, y, weights)
    wanted = classifier(**OPTIONS[name], engine="file").fit(tmp_path)
    monkeypatch.setattr(file_engine, "Scratch", lambda room: Scratch(0))  # all row state is in a temporary file
    from lineal.engine.scratch import Scratch

    found = classifier(**OPTIONS[name], engine="file", block_memory=block_memory).fit(tmp_path)
    agree(found, wanted, X, tolerance=1e-10)


def test_memory_of_blocks_that_is_used_again(rows, tmp_path, monkeypatch):
    """Rows of a user's own generator are features as they are, which nobody may keep without a copy."""
    X, y, _ = rows
    wanted = classifier(generator=Same()).fit(X, y)
    cut_into(monkeypatch, X, 7)
    write_files(tmp_path, X, y)
    agree(classifier(generator=Same(), engine="file").fit(tmp_path), wanted, X)


class Same:
    """A generator whose first batch are the columns themselves; there are no others."""

    def prepare(self, X, seed):
        self.width = X.shape[1]

    def make(self, number, size):
        return SameBatch(self.width if number == 0 else 0)


class SameBatch:
    def __init__(self, width):
        self.width = width

    def transform(self, X):
        return X


def test_stages_are_added_to_a_model_of_files(rows, tmp_path, monkeypatch):
    X, y, _ = rows
    cut_into(monkeypatch, X, 5)
    write_files(tmp_path, X, y)
    whole = classifier(**OPTIONS["greedy"], engine="file").fit(tmp_path)
    parts = classifier(**{**OPTIONS["greedy"], "n_blocks": 1}, engine="file", warm_start=True).fit(tmp_path)
    first = parts.model_.members[0][0]
    parts.set_params(n_blocks=3).fit(tmp_path)
    assert parts.model_.members[0][0] is first
    np.testing.assert_allclose(parts.decision_function(X), whole.decision_function(X), atol=1e-8)
    columns = np.concatenate([stage.state["columns"] for stage in parts.model_.members[0]])
    assert len(np.unique(columns)) == len(columns)


def test_a_sample_is_enough_for_bandwidths(rows, tmp_path, monkeypatch):
    X, y, _ = rows
    write_files(tmp_path, X, y)
    whole = classifier(generator="pca:n_components=9+fourier", engine="file").fit(tmp_path)
    monkeypatch.setattr(elsewhere, "SAMPLED_NUMBERS", 100 * X.shape[1])
    found = classifier(generator="pca:n_components=9+fourier", engine="file").fit(tmp_path)
    pca, wanted = found.generator_.steps_[0], whole.generator_.steps_[0]
    np.testing.assert_allclose(pca.variances_, wanted.variances_, rtol=1e-8)  # sums over all rows
    np.testing.assert_allclose(pca.components_, wanted.components_, atol=1e-8)
    assert found.generator_.bandwidth_ != whole.generator_.bandwidth_
    assert found.generator_.bandwidth_ == pytest.approx(whole.generator_.bandwidth_, rel=0.2)
    assert found.score(X, y) > 0.95


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["classes", "label sets"])
def test_a_search_on_files_is_that_of_their_rows(rows, tmp_path, monkeypatch, kind):
    X, y, weights = rows
    if kind == "label sets":
        X, y = make_multilabel_classification(ROWS, n_features=8, n_classes=3, random_state=0)
    options = {"generator": "fourier", "precision": "float64", "n_blocks": 2, "block_size": 64, "alpha": 1e-3}
    wanted = lineal.StagewiseClassifier.search(X, y, sample_weight=weights, **options)
    cut_into(monkeypatch, X, 5)
    write_files(tmp_path, X, y, weights, parts=2)
    found = lineal.StagewiseClassifier.search(tmp_path, engine="file", **options)
    assert found.generator.get_params() == wanted.generator.get_params()
    few = lineal.StagewiseClassifier.search(tmp_path, engine="file", sample_rows=100, **options)
    assert few.alpha == 1e-3
    assert few.fit(tmp_path).n_features_in_ == X.shape[1]


class Killed(Exception):
    """What a kill is in these tests: an exception right after a checkpoint was written."""


def dying(count):
    calls = []

    def callback(snapshot):
        calls.append(snapshot.iteration)
        if len(calls) == count:
            raise Killed

    return callback


@pytest.mark.parametrize("name", ["greedy", *slow("chain", "members")])
def test_a_killed_fit_of_files_ends_with_the_same_bits(rows, tmp_path, monkeypatch, name):
    X, y, _ = rows
    monkeypatch.setenv(EVERY_VARIABLE, "0")
    cut_into(monkeypatch, X, 5)
    write_files(tmp_path, X, y)
    path, files, options = tmp_path / "checkpoint", str(tmp_path / "*.arrow"), {**OPTIONS[name], "n_blocks": 5}
    wanted = classifier(**options, engine="file").fit(files)
    for count in (1, 2, 2):
        with pytest.raises(Killed):
            classifier(**options, engine="file", checkpoint=str(path), callbacks=[dying(count)]).fit(files)
        assert path.exists()
    with monkeypatch.context() as patch:
        patch.setattr(elsewhere, "SAMPLED_NUMBERS", 100 * X.shape[1])
        with pytest.raises(CheckpointError, match="rows that the generator"):
            classifier(**options, engine="file", checkpoint=str(path)).fit(files)
    found = classifier(**options, engine="file", checkpoint=str(path)).fit(files)
    if options.get("update") == "softmax":  # the gradient of its loss is not always rounded in the same way
        agree(found, wanted, X, tolerance=1e-10)
    else:
        same_bits(found, wanted)
    assert not path.exists()


def test_the_budget_bounds_chunks_and_features(rows, tmp_path):
    X, y, _ = rows
    write_files(tmp_path, X, y)
    engine = file_engine.FileSource([str(tmp_path / "part-0.arrow")], 1 << 40)
    engine.left = engine.planned = 64 << 20
    found = engine.engine(lambda rows: None, 4, 2)
    assert stagewise.chunk_bytes(found) < stagewise.CHUNK_BYTES
    budget = (memory.own_memory() or 0) + 3 * 10**9  # the process may be large already
    with pytest.raises(DataError, match=r"memory_budget is too small: a stage of 20000 features \(block_size\) needs"):
        classifier(generator="fourier", block_size=20000, engine="file", memory_budget=budget).fit(tmp_path)
    with pytest.raises(DataError, match="memory_budget is too small: blocks of rows need"):
        classifier(generator="fourier", engine="file", memory_budget="1MB").fit(tmp_path)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"engine": "fil"}, "engine='fil' is unknown: did you mean 'file'"),
        ({"engine": "file"}, "engine='file' needs the path of a converted file, and X is a ndarray"),
        ({"engine": "dask"}, "engine='dask' needs a Dask collection or the path of a file, and X is a ndarray"),
        ({"memory_budget": "2GB"}, "memory_budget='2GB' is for files, and X is a ndarray"),
        ({"engine": "dask", "memory_budget": "2GB"}, "memory_budget='2GB' is for engine='file', not 'dask'"),
    ],
)
def test_options_that_do_not_suit_the_rows_are_named(rows, options, message):
    with pytest.raises(OptionError, match=message):
        classifier(**options).fit(*rows[:2])


def test_files_that_cannot_be_used_are_named(rows, tmp_path):
    X, y, _ = rows
    write_files(tmp_path, X, y)
    with pytest.raises(DataError, match="X names a file, so y must be None"):
        classifier().fit(tmp_path, y)
    with pytest.raises(DataError, match="leaves none to train or to measure on"):
        classifier(engine="file", validation_fraction=1e-4).fit(tmp_path)


# --- a cluster


def collections(X, y, weights, cuts=((0, 80), (80, 80), (80, 150), (150, ROWS))):
    """Delayed blocks of rows, of which one is empty, with their labels and weights."""
    from dask import delayed

    return [[delayed(part[start:stop]) for start, stop in cuts] for part in (X, y, weights)]


@pytest.mark.parametrize("name", ["members", *slow("fourier", "chain", "greedy", "patches")])
def test_collections_train_the_model_of_the_arrays(client, rows, name):
    X, y, weights = rows
    found = classifier(**OPTIONS[name]).fit(*collections(*rows))
    agree(found, classifier(**OPTIONS[name]).fit(X, y, weights), X)


def test_arrays_of_dask_and_lazy_predictions(client, rows):
    import dask.array as da

    X, y, _ = rows
    wanted = classifier(**OPTIONS["chain"]).fit(X, y)
    DX, Dy = da.from_array(X, chunks=(90, 64)), da.from_array(y, chunks=90)
    found = classifier(**OPTIONS["chain"]).fit(DX, Dy)
    agree(found, wanted, X)
    predicted = found.predict(DX)
    assert predicted.chunks == ((90, 90, 40),)
    np.testing.assert_array_equal(predicted.compute(), wanted.predict(X))
    np.testing.assert_allclose(found.predict_proba(DX).compute(), wanted.predict_proba(X), atol=1e-7)
    np.testing.assert_allclose(found.decision_function(DX).compute(), wanted.decision_function(X), atol=1e-7)
    assert float(found.score(DX, Dy)) == pytest.approx(wanted.score(X, y))


def test_an_active_client_trains_on_files(client, rows, tmp_path):
    X, y, weights = rows
    write_files(tmp_path, X, y, weights, parts=3)
    found = classifier(**OPTIONS["fourier"], engine="dask").fit(tmp_path)
    agree(found, classifier(**OPTIONS["fourier"]).fit(X, y, weights), X)


def test_sparse_partitions(client, rows):
    X, y, weights = rows
    X = sparse.csr_array(X)
    found = classifier(**OPTIONS["greedy"]).fit(*collections(X, y, weights))
    agree(found, classifier(**OPTIONS["greedy"]).fit(X, y, weights), X)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda X, y: (X[:, :5], y), r"partition 1 has (columns: )?5"),
        (lambda X, y: (X.astype(np.float32), y), r"partition 1.*float32"),
        (lambda X, y: (sparse.csr_array(X), y), r"partition 1.*sparse"),
        (lambda X, y: (X * np.nan, y), r"partition 1.*only finite numbers"),
    ],
)
def test_partitions_that_disagree_are_named_before_training(client, rows, change, message):
    from dask import delayed

    X, y, _ = rows
    other, labels = change(X[120:], y[120:])
    with pytest.raises(DataError, match=message):
        classifier().fit([delayed(X[:120]), delayed(other)], [delayed(y[:120]), delayed(labels)])


def test_partitions_without_rows_or_with_offsets_are_refused(client, rows):
    from dask import delayed

    X, y, weights = rows
    with pytest.raises(DataError, match="all partitions are empty"):
        classifier().fit([delayed(X[:0])], [delayed(y[:0])])
    with pytest.raises(DataError, match="stagewise models have no offsets"):
        classifier().fit([delayed((X, y, weights, np.zeros((ROWS, 4))))])
