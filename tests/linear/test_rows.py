"""Estimators whose rows are in files or on a cluster: the same models as from arrays."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pytest
from conftest import random_problem
from file_rows import write_files
from scipy import sparse

import lineal
from lineal.data.dataset import Dataset
from lineal.data.source import expand
from lineal.errors import ClusterError, DataError, OptionError
from lineal.linear.rows import rows_of

NAMES = np.array(["ant", "bee", "cat"])


@pytest.fixture(scope="module")
def rows():
    X, y = random_problem(3, n=300, d=9, k=3, density=0.5)
    return X, NAMES[y], np.random.default_rng(5).uniform(0.5, 2.0, 300)


@pytest.fixture
def folder(rows, tmp_path):
    X, y, weights = rows
    write_files(tmp_path, X, y, weights, parts=3)
    return tmp_path


def linear(**options):
    return lineal.LinearClassifier("logistic", **{"alpha": 1e-2, "solver": "newton", "tol": 1e-9, **options})


def agree(found, wanted, X):
    assert found.certificate_.primal == pytest.approx(wanted.certificate_.primal, rel=1e-8)
    np.testing.assert_array_equal(found.classes_, wanted.classes_)
    np.testing.assert_allclose(found.decision_function(X), wanted.decision_function(X), atol=1e-4)
    assert found.n_features_in_ == wanted.n_features_in_


# --- files


@pytest.mark.parametrize("engine", ["auto", "local", "file"])
@pytest.mark.parametrize(
    "options", [{}, {"class_weight": "balanced"}, {"class_weight": {"bee": 3.0}}, {"loss": "softmax"}]
)
def test_files_train_the_model_of_the_arrays(rows, folder, engine, options):
    X, y, weights = rows
    options = {"alpha": 1e-2, "solver": "newton", "tol": 1e-9, "loss": "logistic", **options}
    wanted = lineal.LinearClassifier(**options).fit(X, y, sample_weight=weights)
    found = lineal.LinearClassifier(**options, engine=engine).fit(folder)
    agree(found, wanted, X)


def test_files_can_be_named_in_several_ways(rows, folder):
    X, _, _ = rows
    first = linear(engine="file").fit(str(folder))
    for name in (folder / "*.arrow", sorted(folder.glob("*.arrow")), [str(folder)]):
        np.testing.assert_array_equal(linear(engine="file").fit(name).coef_, first.coef_)
    assert first.predict(folder / "part-0.arrow").tolist() == first.predict(X[:60]).tolist()
    names = sorted(str(path) for path in folder.glob("*.arrow"))
    (folder / "._part-0.arrow").write_text("left by an editor")
    assert expand(folder) == names
    for name in (folder, names):
        assert first.predict(name).tolist() == first.predict(X).tolist()


def test_names_of_columns_are_those_of_the_files(tmp_path):
    X, y = random_problem(4, n=50, d=3, k=2)
    write_files(tmp_path, X, y, feature_names=["a", "b", "c"])
    for engine in ("local", "file"):
        found = linear(engine=engine).fit(tmp_path)
        assert found.feature_names_in_.tolist() == found.model_.feature_names == ["a", "b", "c"]


def test_warm_start_and_callbacks(folder):
    seen = []
    classifier = linear(engine="file", warm_start=True, callbacks=[lambda snapshot: seen.append(snapshot.iteration)])
    classifier.fit(folder)
    assert seen == list(range(len(seen)))
    assert len(classifier.fit(folder).history_) == 1  # it begins where it ended


def test_search_and_least_squares_on_files(rows, folder):
    X, y, weights = rows
    search = {"n_alphas": 4, "cv": 3, "solver": "newton", "tol": 1e-8, "loss": "logistic", "random_state": 2}
    wanted = lineal.LinearClassifierCV(**search).fit(X, y, sample_weight=weights)
    found = lineal.LinearClassifierCV(**search, engine="file").fit(folder)
    np.testing.assert_allclose(found.cv_scores_, wanted.cv_scores_, rtol=1e-9)
    assert found.alpha_ == pytest.approx(wanted.alpha_)
    for options in ({"alpha": 1e-3, "tol": 1e-9}, {"calibration": "polynomial", "alpha": 1e-2}):
        wanted = lineal.LeastSquaresClassifier(**options).fit(X.toarray(), y, sample_weight=weights)
        found = lineal.LeastSquaresClassifier(**options, engine="file").fit(folder)
        np.testing.assert_allclose(found.decision_function(X), wanted.decision_function(X), atol=1e-5)


def test_probabilities_are_calibrated_on_the_same_folds(rows, folder):
    X, y, weights = rows
    options = {"loss": "squared_hinge", "solver": "newton", "probability": True, "tol": 1e-9}
    wanted = lineal.LinearClassifier(**options).fit(X, y, sample_weight=weights)
    found = lineal.LinearClassifier(**options, engine="file").fit(folder)
    np.testing.assert_allclose(found.model_.calibration, wanted.model_.calibration, rtol=1e-6)


@pytest.mark.parametrize("class_weight", [None, "balanced", {"bee": 3.0}])
@pytest.mark.parametrize("threshold", ["f1", [[0, 20, 20], [1, 0, 1], [1, 1, 0]]])
def test_thresholds_are_chosen_on_the_same_folds(rows, folder, threshold, class_weight):
    X, y, weights = rows
    options = {"loss": "squared_hinge", "solver": "newton", "threshold": threshold, "tol": 1e-9}
    wanted = lineal.LinearClassifier(**options, class_weight=class_weight).fit(X, y, sample_weight=weights)
    found = lineal.LinearClassifier(**options, class_weight=class_weight, engine="file").fit(folder)
    np.testing.assert_allclose(found.model_.thresholds, wanted.model_.thresholds, atol=1e-6)
    assert wanted.model_.thresholds.any()
    assert found.predict(folder).tolist() == wanted.predict(X).tolist()
    assert found.score(folder) == wanted.score(X, y)


def test_files_that_are_not_converted_are_read_or_named(tmp_path):
    path = tmp_path / "rows.svm"
    path.write_text("".join(f"{i % 2} {1 + i % 3}:1 4:{i}\n" for i in range(20)))
    assert linear().fit(path).status_ == "converged"
    with pytest.raises(DataError, match=r"rows\.svm is none: convert it with lineal\.convert"):
        linear(engine="file").fit(path)


def test_a_file_that_was_cut_is_damaged_and_not_unconverted(folder, tmp_path):
    whole = next(Path(folder).glob("*.arrow")).read_bytes()
    path = tmp_path / "cut.arrow"
    for length in (len(whole) - 1, len(whole) // 2, 20):
        path.write_bytes(whole[:length])
        with pytest.raises(DataError, match=r"cut\.arrow is cut or damaged: its first bytes"):
            linear(engine="file").fit(path)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"engine": "fil"}, "engine='fil' is unknown: did you mean 'file'"),
        ({"engine": "file"}, "engine='file' needs the path of a converted file, and X is a csr_array"),
        ({"engine": "dask"}, "engine='dask' needs a Dask collection or the path of a file, and X is a csr_array"),
        ({"memory_budget": "2GB"}, "memory_budget='2GB' is for files, and X is a csr_array"),
        ({"memory_budget": "2 apples"}, "memory_budget='2 apples' is not a number of bytes"),
        ({"memory_budget": True}, "memory_budget=True is not a number of bytes"),
        ({"engine": "dask", "memory_budget": "2GB"}, "memory_budget='2GB' is for engine='file', not 'dask'"),
    ],
)
def test_options_that_do_not_suit_the_rows_are_named(rows, options, message):
    X, y, _ = rows
    with pytest.raises(OptionError, match=message):
        linear(**options).fit(X, y)


def test_labels_beside_files_are_refused(rows, folder):
    _, y, weights = rows
    with pytest.raises(DataError, match="X names a file, so y must be None"):
        linear().fit(folder, y)
    with pytest.raises(DataError, match="X names a file, so sample_weight must be None"):
        linear().fit(folder, sample_weight=weights)
    empty = folder / "empty"
    empty.mkdir()
    with pytest.raises(DataError, match=r"has no \.arrow files"):
        linear().fit(empty)
    with pytest.raises(OptionError, match="dealt to folds by cv=<number>"):
        lineal.LinearClassifierCV(engine="file").fit(folder, groups=y)
    with pytest.raises(OptionError, match="needs all rows in this process"):
        lineal.LinearClassifierCV(engine="file", scoring="jaccard").fit(folder)


def test_arrays_are_arrays_and_large_files_are_streamed(rows, folder, monkeypatch):
    X, y, _ = rows
    assert rows_of(X, y, "auto", None) is None
    assert rows_of([[1.0, 2.0], [3.0, 4.0]], [0, 1], "auto", None) is None
    assert isinstance(rows_of(folder, None, "auto", None), Dataset)
    monkeypatch.setattr("lineal.linear.rows.available_memory", lambda: 1000)
    assert type(rows_of(folder, None, "auto", None)).__name__ == "FileSource"
    assert type(rows_of(folder, None, "auto", "4GB")).__name__ == "FileSource"


# --- a cluster


def collections(X, y):
    """The rows as Dask collections: delayed blocks, arrays with other chunks, and a bag."""
    import dask.array as da
    import dask.bag
    from dask import delayed

    cuts = [(0, 120), (120, 120), (120, 200), (200, 300)]
    blocks = [delayed(X[start:stop]) for start, stop in cuts]
    labels = [delayed(y[start:stop]) for start, stop in cuts]
    yield "delayed", blocks, labels
    yield "pairs", [delayed((X[start:stop], y[start:stop])) for start, stop in cuts], None
    yield "array", da.from_array(X.toarray(), chunks=(90, 5)), da.from_array(y, chunks=150)
    yield "bag", dask.bag.from_delayed([delayed(lambda part: [part])(block) for block in blocks]), labels


@pytest.fixture(scope="module")
def reference(rows):
    X, y, _ = rows
    return linear().fit(X, y)


def test_collections_are_predicted_with_thresholds(client, rows):
    X, y, _ = rows
    costs = [[0, 1, 2], [3, 0, 1], [9, 1, 0]]
    wanted = linear(threshold=costs).fit(X, y)
    data, labels = next(parts for name, *parts in collections(X, y) if name == "array")
    found = linear(threshold=costs).fit(data, labels)
    np.testing.assert_allclose(found.model_.thresholds, wanted.model_.thresholds, atol=1e-6)
    predicted = np.asarray(found.predict(data).compute())
    assert predicted.tolist() == wanted.predict(X).tolist()
    assert (predicted != wanted.classes_[wanted.decision_function(X).argmax(axis=1)]).any()
    assert float(found.score(data, labels)) == pytest.approx(wanted.score(X, y))


@pytest.mark.parametrize("kind", ["delayed", "pairs", "array", "bag"])
def test_collections_train_the_model_of_the_arrays(client, rows, reference, kind):
    X, y, _ = rows
    given = {name: parts for name, *parts in collections(X, y)}
    found = linear().fit(*given[kind])
    agree(found, reference, X)


def test_predictions_are_lazy_and_partitioned(client, rows, reference):
    import dask.array as da

    X, y, weights = rows
    dense, labels = da.from_array(X.toarray(), chunks=(90, 9)), da.from_array(y, chunks=90)
    predicted = reference.predict(dense)
    assert isinstance(predicted, da.Array)
    assert predicted.chunks == ((90, 90, 90, 30),)
    np.testing.assert_array_equal(predicted.compute(), reference.predict(X))
    scores, chances = reference.decision_function(dense), reference.predict_proba(dense)
    assert scores.shape == chances.shape == (300, 3)
    np.testing.assert_allclose(scores.compute(), reference.decision_function(X))
    np.testing.assert_allclose(chances.compute(), reference.predict_proba(X))
    score = reference.score(dense, labels, da.from_array(weights, chunks=90))
    assert isinstance(score, da.Array)
    assert float(score) == pytest.approx(reference.score(X, y, weights))
    with pytest.raises(DataError, match="X has 4 features, the model knows 9"):
        reference.predict(dense[:, :4])


@pytest.mark.parametrize("kind", ["delayed", "pairs", "bag"])
def test_all_collections_are_predicted_and_scored(rows, reference, kind):
    from dask import config, delayed

    X, y, weights = rows
    DX, Dy = next(parts for name, *parts in collections(X, y) if name == kind)
    cuts = [(0, 120), (120, 120), (120, 200), (200, 300)]
    with config.set(scheduler="synchronous"):
        np.testing.assert_array_equal(reference.predict(DX).compute(), reference.predict(X))
        np.testing.assert_allclose(reference.predict_proba(DX).compute(), reference.predict_proba(X))
        assert float(reference.score(DX, Dy)) == pytest.approx(reference.score(X, y))
        parts = [delayed(weights[start:stop]) for start, stop in cuts]
        assert float(reference.score(DX, Dy, parts)) == pytest.approx(reference.score(X, y, weights))


@pytest.mark.parametrize("kind", ["array", "delayed", "bag"])
def test_labels_need_not_be_cut_as_the_rows_are(rows, reference, kind):
    from dask import array, config, delayed

    X, y, weights = rows
    DX = next(given for name, given, _ in collections(X, y) if name == kind)
    cuts = [(0, 40), (40, 290), (290, 300)]
    wanted, weighted = reference.score(X, y), reference.score(X, y, weights)
    with config.set(scheduler="synchronous"):
        for labels in (y, y.tolist(), array.from_array(y, chunks=77), [delayed(y[a:b]) for a, b in cuts]):
            assert float(reference.score(DX, labels)) == pytest.approx(wanted)
            assert float(reference.score(DX, labels, weights)) == pytest.approx(weighted)
            assert float(reference.score(DX, y, array.from_array(weights, chunks=77))) == pytest.approx(weighted)
        alike = [delayed(y[a:b]) for a, b in [(0, 40), (40, 40), (40, 290), (290, 300)]]
        if kind == "array":  # the sizes of its chunks are known, and are not those of the labels
            assert float(reference.score(DX, alike)) == pytest.approx(wanted)
        else:
            with pytest.raises(DataError, match=r"a partition has \d+ rows of X and \d+ labels or weights"):
                reference.score(DX, alike).compute()
        with pytest.raises(DataError, match="300 rows of X and 299 labels or weights"):
            reference.score(DX, [delayed(y[:-1])]).compute()


def test_scores_without_labels_are_refused(rows, reference, folder):
    _, given, _ = next(iter(collections(*rows[:2])))
    with pytest.raises(DataError, match="y is missing"):
        reference.score(given).compute(scheduler="synchronous")
    with pytest.raises(DataError, match="X names files, which have the labels: leave out y"):
        reference.score(folder, rows[1])


def test_scores_of_files(rows, reference, folder):
    assert reference.score(folder) == pytest.approx(reference.score(*rows[:2]), abs=1e-12)


def test_scores_of_files_with_label_sets(tmp_path):
    rng = np.random.default_rng(0)
    sets = [",".join(label for label in "012" if rng.random() < 0.5) for _ in range(60)]
    (tmp_path / "rows.svm").write_text("".join(f"{labels} 1:{i} 2:{i % 7}\n" for i, labels in enumerate(sets)))
    path = lineal.convert(tmp_path / "rows.svm", tmp_path / "rows.arrow")
    model = lineal.LinearClassifier("logistic").fit(path)
    Y = lineal.read(path).y.toarray()
    share = (model.predict(path) == Y).all(axis=1).mean()
    assert 0.0 < share < 1.0
    assert model.score(path) == pytest.approx(share, abs=1e-12)


def test_fits_inside_of_tasks(client, rows, reference, folder):
    X, y, _ = rows
    given = [(X[:120].toarray(), y[:120]), (X[120:].toarray(), y[120:])]
    futures = [client.submit(fit_in_task, given, pure=False) for _ in range(4)]  # more than the cluster has threads
    for intercept in client.gather(futures):
        np.testing.assert_allclose(intercept, reference.intercept_, atol=1e-6)
    assert client.submit(kind_of_rows, str(folder)).result() == "Dataset"


def fit_in_task(given):
    from dask import delayed

    for _ in range(2):
        found = linear().fit([delayed(pair) for pair in given])
    return found.intercept_


def kind_of_rows(folder):
    return type(rows_of(folder, None, "auto", None)).__name__


def test_a_column_of_labels_is_no_label_set(client, rows):
    import dask.array as da

    X, y, _ = rows
    X, y = X.toarray(), (y == "ant").astype(np.int64)
    found = linear().fit(da.from_array(X, chunks=(100, 9)), da.from_array(y[:, None], chunks=(100, 1)))
    assert not found.model_.is_multilabel
    agree(found, linear().fit(X, y), X)


def test_clusters_without_workers_or_without_lineal_are_named(rows, monkeypatch):
    import dask.array as da
    from distributed import Client

    from lineal.engine.dask import cluster
    from lineal.engine.dask.source import DaskSource

    X, y = da.from_array(rows[0].toarray(), chunks=(100, 9)), da.from_array(rows[1], chunks=100)
    monkeypatch.setattr(DaskSource, "patience", 0.2)
    with Client(processes=False, n_workers=0, dashboard_address=None) as client, client.as_current():
        with pytest.raises(ClusterError, match="has had no workers"):
            linear().fit(X, y)
        client.cluster.scale(1)
        client.wait_for_workers(1)
        monkeypatch.setattr(cluster, "__version__", "999")
        with pytest.raises(ClusterError, match="and this is 999: install the same"):
            linear().fit(X, y)
        monkeypatch.setattr("builtins.eval", _without_lineal)
        with pytest.raises(ClusterError, match=r"cannot import lineal .*: install it where"):
            cluster.check_workers(client)


def _without_lineal(text):
    raise ModuleNotFoundError("No module named 'lineal'")


def test_futures_of_another_cluster_are_named(client, rows):
    from distributed import Client

    X, y, _ = rows
    own = client.scatter([(X, y)], hash=False)
    with (
        Client(processes=False, n_workers=1, threads_per_worker=1, dashboard_address=None) as other,
        other.as_current(),
        pytest.raises(DataError, match=r"X has futures of the cluster at tcp.*as_current"),
    ):
        linear().fit(own)
    assert linear().fit(own).status_ == "converged"


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda o: np.where(np.arange(200)[:, None] == 7, np.nan, o), "partition 1: offsets of row 7 have nan"),
        (lambda o: o.astype(str).astype(object) + "x", "partition 1: offsets must be numbers"),
        (lambda o: o[:-1], "partition 1: X has 200 rows and offsets has 199"),
    ],
)
def test_offsets_that_cannot_be_used_are_named(client, rows, change, message):
    from dask import delayed

    X, y, _ = rows
    offsets = np.zeros((300, 3))
    parts = [delayed(offsets[:100]), delayed(change(offsets[100:]))]
    blocks, labels = [delayed(X[:100]), delayed(X[100:])], [delayed(y[:100]), delayed(y[100:])]
    with pytest.raises(DataError, match=message):
        linear().fit(blocks, labels, offsets=parts)


def test_tables_give_names_and_predictions(client, rows):
    import dask.dataframe as dd
    import pandas as pd

    X, y, _ = rows
    table = pd.DataFrame(X.toarray(), columns=list("abcdefghi"))
    labels = pd.Series(y, name="y")
    found = linear().fit(dd.from_pandas(table, npartitions=3), dd.from_pandas(labels, npartitions=3))
    wanted = linear().fit(table, y)
    agree(found, wanted, table)
    assert found.feature_names_in_.tolist() == list(table.columns)
    predicted = found.predict(dd.from_pandas(table[list("ihgfedcba")], npartitions=3))  # found by name
    np.testing.assert_array_equal(predicted.compute(), wanted.predict(table))


def test_an_active_client_trains_on_files(client, rows, folder):
    X, y, weights = rows
    wanted = linear().fit(X, y, sample_weight=weights)
    source = rows_of(folder, None, "auto", None)
    assert type(source).__name__ == "DaskSource"
    agree(linear().fit(folder), wanted, X)
    search = {"n_alphas": 3, "cv": 3, "solver": "newton", "tol": 1e-8, "loss": "logistic"}
    found = lineal.LinearClassifierCV(**search, engine="dask").fit(folder)
    expected = lineal.LinearClassifierCV(**search).fit(X, y, sample_weight=weights)
    np.testing.assert_allclose(found.cv_scores_, expected.cv_scores_, rtol=1e-9)


def test_label_sets_on_a_cluster(client, rows):
    from dask import delayed

    X, _, _ = rows
    Y = sparse.csr_array((np.random.default_rng(0).random((300, 4)) < 0.3).astype(np.int64))
    cuts = [(0, 130), (130, 300)]
    found = linear().fit([delayed(X[a:b]) for a, b in cuts], [delayed(Y[a:b]) for a, b in cuts])
    wanted = linear().fit(X, Y)
    agree(found, wanted, X)
    np.testing.assert_array_equal(found.predict([delayed(X)]).compute(), wanted.predict(X))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda X, y: (X[:, :5], y), r"partition 1 has (columns: )?5"),
        (lambda X, y: (X.astype(np.float32), y), r"partition 1.*float32"),
        (lambda X, y: (X.toarray(), y), r"partition 1.*dense"),
        (lambda X, y: (X, y[:-1]), r"partition 1.*y has 179"),
        (lambda X, y: (X, np.arange(len(y))), r"partition 1 does not agree .*mixes labels"),
        (lambda X, y: (X * np.nan, y), r"partition 1.*only finite numbers"),
    ],
)
def test_partitions_that_disagree_are_named_before_training(client, rows, change, message):
    from dask import delayed

    X, y, _ = rows
    other, labels = change(X[120:], y[120:])
    with pytest.raises(DataError, match=message):
        linear().fit([delayed(X[:120]), delayed(other)], [delayed(y[:120]), delayed(labels)])


def test_without_a_client_or_dask_the_error_says_what_to_do(folder, monkeypatch):
    monkeypatch.setattr("lineal.engine.dask.cluster.active_client", lambda: None)
    with pytest.raises(OptionError, match="there is no active Dask client"):
        linear(engine="dask").fit(folder)
    monkeypatch.setitem(sys.modules, "distributed", None)
    with pytest.raises(OptionError, match=r'pip install "lineal\[dask\]"'):
        linear(engine="dask").fit(folder)
