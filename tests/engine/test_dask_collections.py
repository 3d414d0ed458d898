"""Dask collections and files as sources of rows: what arrives on the workers, and what is refused by name."""

from __future__ import annotations

import re
import signal
from types import SimpleNamespace

import numpy as np
import pytest
from scipy import sparse
from test_dask_engine import wait_until

import lineal
from lineal import losses, penalties, solvers
from lineal.data.binary.write import write
from lineal.data.dataset import Dataset
from lineal.design import wrap
from lineal.engine.local import LocalEngine
from lineal.errors import ClusterError, DataError, LinealError, OptionError
from lineal.penalties.regulariser import Regulariser
from lineal.problem.encoder import survey_of
from lineal.problem.objective import Objective
from lineal.problem.row_weights import row_weights
from lineal.problem.targets import encode

distributed = pytest.importorskip("distributed")
dask = pytest.importorskip("dask")

N, D, K = 61, 6, 3
CHUNKS = (20, 0, 30, 11)


def data(dtype=np.float64):
    rng = np.random.default_rng(7)
    X = (rng.normal(size=(N, D)) * (rng.random((N, D)) < 0.6)).astype(dtype)
    y = np.array(["a", "b", "c"])[rng.integers(0, K, N)]
    return X, y, rng.random(N) + 0.5, rng.normal(size=(N, K))


def cut(array):
    return np.split(array, np.cumsum(CHUNKS)[:-1])


def objective_of(source):
    survey = survey_of(source)
    columns = survey.labels.columns(direct=True)
    engine = source.engine(survey.encoder(columns, None), columns.n_columns, 1)
    return Objective(engine, losses.get("softmax"), Regulariser(penalties.get("l2"), 1e-2, engine.shape[1]))


def local_objective(X, y, weights=None, offsets=None):
    encoded = encode(y, direct=True)
    engine = LocalEngine(wrap(X), encoded.targets, row_weights(weights, None, encoded, len(y)), K, offsets)
    return Objective(engine, losses.get("softmax"), Regulariser(penalties.get("l2"), 1e-2, X.shape[1]))


def same(source, wanted):
    found, expected = (solvers.get("newton")(one, tol=1e-10) for one in (objective_of(source), wanted))
    np.testing.assert_allclose(found.weights, expected.weights, rtol=0, atol=1e-8)
    assert found.certificate.primal == pytest.approx(expected.certificate.primal, rel=1e-10)


def arrays(dtype=np.float64):
    """X, labels, weights and offsets as Dask arrays in unequal chunks, one of them empty."""
    from dask import array

    X, y, weights, offsets = data(dtype)
    return tuple(array.from_array(part, chunks=(CHUNKS, *part.shape[1:])) for part in (X, y, weights, offsets))


def sources(client):
    from lineal.engine.dask.collections import source_of

    return lambda *given, **named: source_of(client, *given, **named)


def test_arrays(client):
    X, y, weights, offsets = data()
    source = sources(client)(*arrays())
    assert [facts.n_rows for facts in source.facts()] == list(CHUNKS)
    same(source, local_objective(X, y, weights, offsets))


def test_arrays_in_chunks_of_columns_and_other_rows(client):
    X, y, *_ = data()
    DX, Dy, *_ = arrays()
    same(sources(client)(DX.rechunk((25, 2)), Dy.rechunk(7)), local_objective(X, y))


def test_labels_that_are_here_are_sent_to_the_rows(client):
    X, y, weights, _ = data()
    same(sources(client)(arrays()[0], y, weights), local_objective(X, y, weights))
    same(sources(client)(arrays()[0], y.tolist(), weights.tolist()), local_objective(X, y, weights))


def test_chunks_of_sparse_rows_of_unknown_sizes(client):
    X, y, *_ = data()
    DX, Dy, *_ = arrays()
    keep = Dy != "nobody"  # sizes are unknown from here on
    same(sources(client)(DX[keep].map_blocks(sparse.csr_matrix), Dy[keep]), local_objective(sparse.csr_array(X), y))


def test_lists_of_delayed_blocks(client):
    X, y, weights, _ = data()
    X = sparse.csr_array(X)
    stops = np.cumsum(CHUNKS)
    blocks = [X[stop - size : stop] for size, stop in zip(CHUNKS, stops)]
    parts = [dask.delayed(block) for block in blocks]
    same(sources(client)(parts, [dask.delayed(part) for part in cut(y)]), local_objective(X, y))
    triples = [dask.delayed(triple) for triple in zip(blocks, cut(y), cut(weights))]
    same(sources(client)(triples), local_objective(X, y, weights))
    futures = client.scatter([*zip(blocks, cut(y))], hash=False)
    same(sources(client)(futures), local_objective(X, y))


def test_bags(client):
    from dask import bag

    X, y, *_ = data()
    filled = [(block, labels) for block, labels in zip(cut(X), cut(y)) if len(labels)]
    DX = bag.from_sequence([sparse.csr_matrix(block) for block, _ in filled], npartitions=3)
    Dy = bag.from_sequence([labels for _, labels in filled], npartitions=3)
    same(sources(client)(DX, Dy), local_objective(sparse.csr_array(X), y))


def test_bags_of_pairs(client):
    from dask import bag

    X, y, weights, _ = data()
    X = sparse.csr_array(X)
    triples = [(X[some], y[some], weights[some]) for some in np.array_split(np.arange(len(y)), 6)]
    for n_partitions in (1, 3, 6):
        DX = bag.from_sequence(triples, npartitions=n_partitions)
        same(sources(client)(DX), local_objective(X, y, weights))
    same(sources(client)(bag.from_sequence([(one.toarray(), labels) for one, labels, _ in triples], npartitions=2)),
         local_objective(X.toarray(), y))  # fmt: skip
    with pytest.raises(DataError, match=r"partition 0: has pairs \(X, y\) and longer tuples"):
        sources(client)(bag.from_sequence([triples[0][:2], triples[1]], npartitions=1)).facts()


def test_tables(client):
    pandas, frames = pytest.importorskip("pandas"), pytest.importorskip("dask.dataframe")
    X, y, *_ = data()
    frame = pandas.DataFrame(X, columns=[f"c{j}" for j in range(D)]).assign(y=y)
    table = frames.from_pandas(frame, npartitions=3)
    source = sources(client)(table.drop(columns="y"), table["y"])
    assert source.feature_names == [f"c{j}" for j in range(D)]
    same(source, local_objective(X, y))
    with pytest.raises(DataError, match="column 'y' of the table"):
        sources(client)(table, table["y"])


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda X, y: (X.astype(object), y), "type object"),
        (lambda X, y: (X, y[:-1]), "X has 61 rows and y has 60"),
        (lambda X, y: (X[:, 0], y), "1 dimensions"),
        (lambda X, y: (X, [dask.delayed(y)]), "X has 4 partitions and y has 1"),
        (lambda X, y: (X.to_delayed().ravel().tolist(), "abc"), "y is str"),
    ],
)
def test_collections_that_cannot_be_used(client, change, message):
    DX, Dy, *_ = arrays()
    with pytest.raises(DataError, match=message):
        sources(client)(*change(DX, Dy))


@pytest.mark.parametrize(
    ("number", "change", "message"),
    [
        (2, lambda X, y: (X[:, 1:], y), "partition 2 has .*5.*partition 0 has 6|partition 2 has columns: 5"),
        (2, lambda X, y: (X.astype(np.float32), y), "partition 2"),
        (3, lambda X, y: (sparse.csr_array(X), y), "partition 3"),
        (3, lambda X, y: (X, y[1:]), "partition 3: X has 11 rows and y has 10"),
        (3, lambda X, y: (X * np.nan, y), "partition 3"),
        (0, lambda X, y: (X.astype(str), y), "partition 0: X"),
        (0, lambda X, y: (X[:, :0], y), "partition 0 has rows without any columns"),
        (2, lambda X, y: (X, np.arange(len(y))), "partition 2"),
    ],
)
def test_partitions_that_disagree_are_named(client, number, change, message):
    X, y, *_ = data()
    blocks = [*zip(cut(X), cut(y))]
    blocks[number] = change(*blocks[number])
    with pytest.raises(DataError, match=message):
        objective_of(sources(client)([dask.delayed(block) for block in blocks]))


def _broken():
    raise RuntimeError("no such table")


def test_a_partition_that_cannot_be_computed_is_named(client):
    X, y, *_ = data()
    blocks = [dask.delayed(block) for block in zip(cut(X), cut(y))]
    blocks[1] = dask.delayed(_broken)()
    with pytest.raises(LinealError, match=r"partition 1.*no such table"):
        objective_of(sources(client)(blocks))


# --- files


def converted(folder, n_files=2, rows=N):
    X, y, weights, _ = data()
    paths = []
    for number, some in enumerate(np.array_split(np.arange(rows), n_files)):
        path = folder / f"part-{number}.arrow"
        write(iter([Dataset(sparse.csr_array(X[some]), y[some], weights[some])]), path)
        paths.append(str(path))
    return paths


def test_files(client, tmp_path):
    from lineal.engine.dask.files import source_of_files

    X, y, weights, _ = data()
    source = source_of_files(client, converted(tmp_path), partition_bytes=500)
    assert len(source.names) > 4
    assert source.names[0].startswith(str(tmp_path / "part-0.arrow, rows 0 to"))
    same(source, local_objective(sparse.csr_array(X), y, weights))


def test_a_file_that_changes_is_refused(client, tmp_path):
    from lineal.engine.dask.files import source_of_files

    paths = converted(tmp_path)
    objective = objective_of(source_of_files(client, paths))
    before = objective.value(objective.start())
    with pytest.raises(DataError, match=r"part-\d.arrow, rows.* changed"):
        objective_of(_read_again(client, paths, source_of_files))
    assert objective.value(objective.start()) == before


def _read_again(client, paths, source_of_files):
    """A source of files that change between the client's look at them and the workers'."""
    from lineal.engine.dask import files

    state = files.size_and_time
    try:
        files.size_and_time = lambda path: (state(path)[0], 0)
        return source_of_files(client, paths)
    finally:
        files.size_and_time = state


# --- connections


def test_a_scheduler_that_cannot_be_reached_is_named():
    from lineal.engine.dask.cluster import connect

    with pytest.raises(ClusterError, match=r"tcp://127.0.0.1:9 within 0.5 s"):
        connect("tcp://127.0.0.1:9", timeout=0.5)


@pytest.mark.parametrize("address", ["10.0.0.1", "tcp://10.0.0.1", "tls://10.0.0.1:", "tcp://10.0.0.1:many"])
def test_a_scheduler_without_a_port_is_refused(address):
    from lineal.engine.dask.cluster import connect

    with pytest.raises(OptionError, match=r"has no port number: .* such as t(cp|ls)://10\.0\.0\.1:8786$"):
        connect(address)


def test_certificates_are_for_tls():
    from lineal.engine.dask.cluster import connect

    with pytest.raises(OptionError, match="tls://"):
        connect("tcp://127.0.0.1:8786", tls_cert="cert.pem")


def test_certificates_that_cannot_be_used_are_named(tmp_path):
    from lineal.engine.dask.cluster import connect

    with pytest.raises(OptionError, match=r"cannot read tls_cert .*none\.pem: No such file"):
        connect("tls://127.0.0.1:9", tls_cert=str(tmp_path / "none.pem"), timeout=0.5)
    (tmp_path / "damaged.pem").write_text("no certificate")
    path = str(tmp_path / "damaged.pem")
    for files in ({}, {"tls_ca_file": path}, {"tls_ca_file": path, "tls_cert": path, "tls_key": path}):
        with pytest.raises(OptionError, match=r"no encrypted connection to tls://127\.0\.0\.1:9 .*three PEM files"):
            connect("tls://127.0.0.1:9", timeout=0.5, **files)


def test_plain_connections_to_other_machines_are_warned_of_once(monkeypatch, recwarn):
    """Whether lineal has made them, or the user."""
    from lineal.engine.dask import cluster

    given = SimpleNamespace(scheduler=SimpleNamespace(address=""), asynchronous=False)
    monkeypatch.setattr(cluster, "active_client", lambda: given)
    monkeypatch.setattr(cluster, "check_workers", lambda client: None)
    for use in (cluster._warn_of_plain, lambda address: cluster.client_in_use()):
        monkeypatch.setattr(cluster, "_warned", set())
        for address in (
            "tcp://127.0.0.1:8786", "localhost:8786", "tls://198.51.100.1:8786", "inproc://198.51.100.1/8/1",
        ):  # fmt: skip
            given.scheduler.address = address
            use(address)
        assert not recwarn
        given.scheduler.address = "tcp://198.51.100.1:8786"
        with pytest.warns(UserWarning, match="tcp://198.51.100.1:8786 is neither encrypted nor authenticated"):
            use(given.scheduler.address)
        use(given.scheduler.address)
        assert not recwarn


def test_the_client_of_the_user_is_found(client):
    from lineal.engine.dask.cluster import active_client

    assert active_client() is client


def test_local_clusters_listen_on_the_loopback_interface_only(client):
    assert re.match(r"tcp://127\.0\.0\.1:", client.scheduler.address)
    assert all(re.match(r"tcp://127\.0\.0\.1:", address) for address in client.nthreads())
    assert lineal.__version__


def test_workers_drop_what_clients_that_died_have_left(client, monkeypatch):
    from lineal.engine.dask import engine, shares

    monkeypatch.setattr(engine, "_drop_soon", lambda *given: None)  # as if the client were gone
    X, y, *_ = arrays()
    for _ in range(3):
        lineal.LinearClassifier("softmax", solver="lbfgs").fit(X, y)
        wait_until(lambda: not any(client.run(_n_data).values()))  # the scheduler tells workers what is not needed
    assert all(len(engines) <= 1 for engines in client.run(shares.held).values())


def _n_data(dask_worker):
    return len(dask_worker.data)


def test_workers_ignore_the_ctrl_c_of_a_terminal(client):
    handlers = client.run(signal.getsignal, signal.SIGINT)
    assert set(handlers.values()) == {signal.SIG_IGN}
