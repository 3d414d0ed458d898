"""Streams of files: the same rows as reading whole, in blocks of any size, on a thread that is gone afterwards."""

from __future__ import annotations

import bz2
import gc
import gzip
import io
import json
import os
import subprocess
import sys
import textwrap
import threading
import time
import types
import warnings
import weakref
from contextlib import closing
from pathlib import Path

import numpy as np
import pytest
from scipy import sparse

from lineal.data.ahead import ahead
from lineal.data.binary.layout import convert
from lineal.data.options import ReadOptions
from lineal.data.read import read
from lineal.data.schema import Schema
from lineal.data.stream import stream
from lineal.errors import DataError, OptionError, ParseError

SMALL = ReadOptions(bits=10, n_jobs=1)


@pytest.fixture(autouse=True)
def no_thread_is_left():
    """Every test must end with the threads that it began with."""
    yield
    gc.collect()
    deadline = time.monotonic() + 10.0
    while time.monotonic() < deadline and any(thread.name == "lineal-ahead" for thread in threading.enumerate()):
        time.sleep(0.01)
    assert not [thread for thread in threading.enumerate() if thread.name == "lineal-ahead"]


def rows_of(blocks) -> list[tuple]:
    """Every row as (sorted entries, summed where they share a column, label, weight)."""
    rows = []
    for block in blocks:
        X = sparse.csr_array(block.X).astype(np.float64)
        assert block.X.dtype == np.float32
        X.sum_duplicates()
        y = block.y.toarray().tolist() if block.is_multilabel else block.y
        weights = np.ones(len(block)) if block.weights is None else block.weights
        for i in range(len(block)):
            entries = slice(X.indptr[i], X.indptr[i + 1])
            kept = X.data[entries] != 0
            label = None if y is None else y[i]
            rows.append((X.indices[entries][kept].tolist(), X.data[entries][kept].tolist(), label, weights[i]))
    return rows


def assert_same_rows(one, other):
    assert len(one) == len(other)
    for (columns, values, label, weight), (columns_2, values_2, label_2, weight_2) in zip(one, other):
        assert columns == columns_2
        np.testing.assert_allclose(values, values_2, rtol=1e-6)
        assert label == label_2 or (label != label and label_2 != label_2)
        assert weight == weight_2


def write(folder, name: str, text) -> str:
    path = folder / name
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return str(path)


def vw_text(n: int, seed: int = 0) -> str:
    rng = np.random.default_rng(seed)
    lines = []
    for i in range(n):
        words = " ".join(f"w{j}" for j in rng.integers(0, 40, rng.integers(0, 9)))
        numbers = " ".join(f"{j}:{v:.4g}" for j, v in zip(rng.integers(0, 10**7, 4), rng.normal(size=4)))
        lines.append(
            f"{rng.integers(-1, 2)} {1 + i % 3} 'tag{i}|text {words} |n:0.5 {numbers} a_rather_long_name:-1e-2"
        )
    return "\n".join(lines) + "\n"


def svmlight_text(n: int, seed: int = 0) -> str:
    rng = np.random.default_rng(seed)
    rows = (np.sort(rng.choice(500, rng.integers(0, 9), replace=False)) for _ in range(n))
    return "".join(f"{i % 4} " + " ".join(f"{j}:{j / 7:.5g}" for j in row) + "\n" for i, row in enumerate(rows))


# --- ahead ---------------------------------------------------------------------------------------------------------


@pytest.mark.core
@pytest.mark.parametrize("depth", [1, 2, 50])
def test_ahead_keeps_the_order(depth):
    assert list(ahead(iter(range(30)), depth)) == list(range(30))
    assert list(ahead([], depth)) == []


@pytest.mark.core
def test_ahead_is_bounded():
    made = []

    def numbers():
        for number in range(100):
            made.append(number)
            yield number

    with closing(ahead(numbers(), depth=3)) as items:
        assert next(items) == 0
        time.sleep(0.1)
        assert len(made) <= 5  # the one taken, three that wait, one in hand


@pytest.mark.core
def test_errors_cross_the_thread_after_what_came_before_them():
    def numbers():
        yield 1
        yield 2
        raise DataError("broken")

    items = ahead(numbers())
    assert [next(items), next(items)] == [1, 2]
    with pytest.raises(DataError, match="broken"):
        next(items)
    with pytest.raises(StopIteration):
        next(items)


@pytest.mark.core
@pytest.mark.parametrize("how", ["close", "forget", "error"])
def test_stopping_early_closes_the_source_and_lets_go(how):
    class Block:
        pass

    closed, held = [], []

    def blocks():
        try:
            while True:
                block = Block()
                held.append(weakref.ref(block))
                yield block
                del block
        finally:
            closed.append(threading.current_thread().name)

    def fail():
        with closing(ahead(blocks())) as items:
            for _ in items:
                raise KeyboardInterrupt

    if how == "error":
        with pytest.raises(KeyboardInterrupt):
            fail()
    else:
        items = ahead(blocks())
        next(items)
        if how == "close":
            items.close()
        del items
    gc.collect()
    assert closed == ["lineal-ahead"]
    assert [block for block in held if block() is not None] == []


@pytest.mark.core
def test_a_stream_that_never_began_has_no_thread():
    items = ahead(iter(range(3)))
    assert threading.active_count() == len([t for t in threading.enumerate() if t.name != "lineal-ahead"])
    items.close()


@pytest.mark.core
@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")
def test_fork_and_exit_do_not_hang():
    code = """
    import os, sys, itertools
    from lineal.data.ahead import ahead
    items = ahead(itertools.count())
    next(items)
    child = os.fork()
    if child == 0:
        try:
            next(items)
        except RuntimeError as error:
            os._exit(7 if "fork" in str(error) else 8)
        os._exit(9)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7
    next(items)
    print("done")
    """  # the process ends while the thread waits for room
    done = subprocess.run([sys.executable, "-c", textwrap.dedent(code)], capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stdout) == (0, "done\n"), done.stderr


# --- text ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("block_bytes", [1, 100, 5000, 8 << 20])
@pytest.mark.parametrize("merge", [False, True])
def test_vw_streams_as_it_is_read(tmp_path, block_bytes, merge):
    path = write(tmp_path, "d.vw", vw_text(200))
    options = ReadOptions(bits=12, block_bytes=block_bytes, n_jobs=1)
    blocks = list(stream(path, options, merge=merge))
    assert (len(blocks) > 3) == (block_bytes < 5001)
    assert all(block.X.indices.dtype == np.int32 and block.y.dtype == np.float64 for block in blocks)
    whole = read(path, bits=12, dtype="float32")
    assert_same_rows(rows_of(blocks), rows_of([whole]))
    if merge:
        joined = np.concatenate([block.X.indices for block in blocks])
        np.testing.assert_array_equal(joined, whole.X.indices)


@pytest.mark.parametrize("block_bytes", [1, 300, 8 << 20])
def test_svmlight_streams_as_it_is_read(tmp_path, block_bytes):
    path = write(tmp_path, "d.svm", svmlight_text(100))
    blocks = list(stream(path, ReadOptions(bits=9, block_bytes=block_bytes, n_jobs=1)))
    assert blocks[0].X.shape[1] == 512
    assert_same_rows(rows_of(blocks), rows_of([read(path, index_base=0, n_features=512, dtype="float32")]))


def test_svmlight_indices_wrap_and_the_schema_says_so(tmp_path):
    path = write(tmp_path, "d.svm", "1 3:1 19:2 1000003:4\n-1 999999999999999999:0.5 0:1\n1 5:1 5:2\n")
    (block,) = stream(path, ReadOptions(bits=4))
    assert block.X.indices.tolist() == [3, 3, 3, 999999999999999999 % 16, 0, 5, 5]
    schema = Schema.from_json(block.schema.to_json())
    assert (schema.n_features, schema.settings["bits"], schema.settings["index_base"]) == (16, 4, 0)
    whole = read(path, schema=schema, dtype="float32")
    np.testing.assert_allclose(whole.X.toarray()[:, [0, 3, 5, 15]], [[0, 7, 0, 0], [1, 0, 0, 0.5], [0, 0, 3, 0]])
    assert_same_rows(rows_of([block]), rows_of([whole]))
    assert_same_rows(rows_of(stream(path, schema=schema, merge=True)), rows_of([whole]))
    with pytest.raises(OptionError, match="bits=5 cannot be changed"):
        stream(path, ReadOptions(bits=5), schema)


def test_svmlight_index_base(tmp_path):
    path = write(tmp_path, "d.svm", "1 1:1 3:2\n")
    assert next(stream(path, SMALL)).X.indices.tolist() == [1, 3]
    (block,) = stream(path, ReadOptions(index_base="1"))
    assert block.X.indices.tolist() == [0, 2]
    assert block.schema.settings["index_base"] == 1
    zero = write(tmp_path, "z.svm", "1 0:1\n")
    with pytest.raises(ParseError, match="at least 1"):
        list(stream(zero, ReadOptions(index_base="1")))
    with pytest.raises(OptionError, match="2\\*\\*bits"):
        stream(path, ReadOptions(n_features=7))


def test_a_damaged_schema_is_refused():
    with pytest.raises(DataError, match="bits of a svmlight schema"):
        Schema("svmlight", 17, {"index_base": 0, "bits": 4, "labels": "float"}).checked()


def test_rows_without_labels(tmp_path):
    path = write(tmp_path, "d.vw", "1 |a x\n|a y\n0 0 |a z\n | w\n")
    (block,) = stream(path, SMALL)
    np.testing.assert_array_equal(block.y, [1, np.nan, 0, np.nan])
    np.testing.assert_array_equal(block.weights, [1, 1, 0, 1])
    unwanted = next(stream(path, ReadOptions(labels=False)))
    assert unwanted.y is None
    assert unwanted.weights is None
    svm = write(tmp_path, "d.svm", "1 1:1\n2:1\n")
    with pytest.raises(ParseError, match="a label on every line"):
        list(stream(svm, SMALL))
    (block,) = stream(svm, ReadOptions(max_bad_lines=1))
    assert (len(block), block.bad_lines) == (1, 1)


@pytest.mark.parametrize("block_bytes", [1, 8 << 20])
def test_bad_lines_are_counted_named_and_bounded(tmp_path, block_bytes):
    path = write(tmp_path, "d.vw", "1 |a x\n1 -2 |a y\n0 |a z:q\n1 |a w\nnothing\n")

    def options(limit: int) -> ReadOptions:
        return ReadOptions(bits=10, max_bad_lines=limit, block_bytes=block_bytes, n_jobs=1)

    blocks = list(stream(path, options(3)))
    assert sum(map(len, blocks)) == 2
    assert sum(block.bad_lines for block in blocks) == 3
    with pytest.raises(ParseError, match=r"d.vw:2:3: found '-2', expected an importance"):
        list(stream(path, options(0)))
    with pytest.raises(ParseError, match=r"d.vw:5:.*malformed line number 3"):
        list(stream(path, options(2)))


def test_label_sets_need_their_classes(tmp_path):
    path = write(tmp_path, "d.svm", "1,3 1:1\n2 2:1\n 3:1\n")
    with pytest.raises(DataError, match="class_names"):
        list(stream(path, SMALL))
    (block,) = stream(path, SMALL, class_names=[3, 1, 2])
    assert block.class_names == [1, 2, 3]
    assert block.y.toarray().tolist() == [[True, False, True], [False, True, False], [False, False, False]]
    (again,) = stream(path, SMALL, block.schema)
    assert (again.y != block.y).nnz == 0


# --- namespaces ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("block_bytes", [1, 8 << 20])
def test_kinds_of_namespaces(tmp_path, block_bytes):
    path = write(tmp_path, "d.vw", "1 |b x y |a z |c q\n0 | 7 |a w v:0 u\nbad\n1 |b k\n")
    options = ReadOptions(bits=10, max_bad_lines=1, block_bytes=block_bytes, n_jobs=1)
    blocks = list(stream(path, options, namespaces=["a", "b", ""]))
    assert np.concatenate([block.kinds for block in blocks]).tolist() == [2, 2, 1, 0, 3, 1, 1, 2]
    assert all(block.kinds.dtype == np.uint8 and block.kinds.size == block.X.nnz for block in blocks)
    if len(blocks) == 1:
        assert blocks[0].take(np.array([2, 0])).kinds.tolist() == [2, 2, 2, 1, 0]


def test_a_namespace_that_never_occurs_is_reported(tmp_path):
    path = write(tmp_path, "d.vw", "1 |user x |text y\n")
    with pytest.warns(UserWarning, match=r"d.vw has no namespace 'texts'; it has 'text', 'user'"):
        list(stream(path, SMALL, namespaces=["user", "texts"]))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        list(stream(path, SMALL, namespaces=["user"]))


def test_namespaces_are_refused_where_there_are_none(tmp_path):
    with pytest.raises(OptionError, match="svmlight text has none"):
        stream(write(tmp_path, "d.svm", "1 1:1\n"), SMALL, namespaces=["a"])
    path = write(tmp_path, "d.vw", "1 |a x\n")
    with pytest.raises(OptionError, match="merge"):
        stream(path, SMALL, namespaces=["a"], merge=True)
    with pytest.raises(OptionError, match="twice"):
        stream(path, SMALL, namespaces=["a", "a"])
    with pytest.raises(OptionError, match="too many"):
        stream(path, SMALL, namespaces=[str(i) for i in range(256)])


def test_columns_of_a_table_are_namespaces(tmp_path):
    path = write(tmp_path, "d.csv", "age,town,label\n3,a,1\n0,b,0\n5,a,1\n")
    (block,) = stream(path, ReadOptions(label="label"), namespaces=["town", "age"])
    assert block.X.toarray().tolist() == [[3, 1, 0], [0, 0, 1], [5, 1, 0]]
    assert block.kinds.tolist() == [2, 1, 1, 2, 1]
    with pytest.warns(UserWarning, match="no namespace 'city'"):
        list(stream(path, ReadOptions(label="label"), namespaces=["city"]))


# --- other formats -------------------------------------------------------------------------------------------------


def table_files(folder) -> dict[str, str]:
    import pyarrow as pa
    import pyarrow.feather as feather
    import pyarrow.parquet as parquet

    rng = np.random.default_rng(0)
    table = pa.table({
        "label": rng.integers(0, 3, 300), "a": rng.normal(size=300), "b": rng.choice(["x", "y", "z"], 300),
    })  # fmt: skip
    frame = table.to_pylist()
    paths = {"parquet": str(folder / "d.parquet"), "arrow": str(folder / "d.arrow")}
    parquet.write_table(table, paths["parquet"])
    feather.write_feather(table, paths["arrow"], compression="uncompressed")
    lines = [",".join(str(value) for value in row.values()) for row in frame]
    paths["csv"] = write(folder, "d.csv", "label,a,b\n" + "\n".join(lines) + "\n")
    paths["jsonl"] = write(folder, "d.jsonl", "".join(json.dumps(row) + "\n" for row in frame))
    return paths


@pytest.mark.parametrize("kind", ["csv", "jsonl", "parquet", "arrow"])
@pytest.mark.parametrize("block_bytes", [2000, 8 << 20])
def test_tables_stream_as_they_are_read(tmp_path, kind, block_bytes):
    path = table_files(tmp_path)[kind]
    whole = read(path, label="label", dtype="float32")
    blocks = list(stream(path, ReadOptions(label="label", block_bytes=block_bytes)))
    assert_same_rows(rows_of(blocks), rows_of([whole]))
    later = list(stream(path, ReadOptions(), blocks[0].schema))
    assert_same_rows(rows_of(later), rows_of(blocks))


@pytest.mark.parametrize("name", ["dense.npz", "sparse.npz", "dense.npy"])
def test_arrays_stream_as_they_are_read(tmp_path, name):
    X = np.random.default_rng(0).normal(size=(50, 6)) * (np.arange(6) % 2)
    path = str(tmp_path / name)
    if name == "dense.npy":
        np.save(path, X)
    elif name == "dense.npz":
        np.savez(path, X=X, y=np.arange(50) % 2, weights=np.arange(50.0))
    else:
        sparse.save_npz(path, sparse.csr_array(X))
    assert_same_rows(rows_of(stream(path, ReadOptions(block_bytes=500))), rows_of([read(path, dtype="float32")]))


def test_values_beyond_float32_are_named(tmp_path):
    path = str(tmp_path / "d.npy")
    np.save(path, np.array([[1.0, 2.0], [3.0, 1e300]]))
    with pytest.raises(DataError, match=r"row 1 .*column 1 is inf"):
        list(stream(path))


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_converted_files_stream_as_they_are_read(tmp_path, dtype):
    text = write(tmp_path, "d.vw", vw_text(300))
    path = convert(text, tmp_path / "d.arrow", bits=12, dtype=dtype)
    blocks = list(stream(path, ReadOptions(block_bytes=4000)))
    assert len(blocks) > 3
    assert blocks[0].X.data.flags.owndata  # the map is let go
    assert_same_rows(rows_of(blocks), rows_of(stream(text, ReadOptions(bits=12))))


def test_damaged_converted_files_are_refused_on_the_way(tmp_path):
    path = convert(write(tmp_path, "d.vw", vw_text(100)), tmp_path / "d.arrow", bits=12, dtype="float32")
    data = read(path)
    indices = data.X.indices.tobytes()
    content = bytearray(Path(path).read_bytes())
    assert content.count(indices) == 1
    place = content.index(indices) + 4 * data.X.indptr[60]
    content[place : place + 4] = (5000).to_bytes(4, "little")
    damaged = write(tmp_path, "e.arrow", bytes(content))
    blocks = stream(damaged, ReadOptions(block_bytes=1000))
    assert len(next(blocks)) > 0
    with pytest.raises(DataError, match=r"e.arrow is damaged: index 5000 is out of range"):
        list(blocks)
    assert sum(map(len, stream(damaged, ReadOptions(trusted=True)))) == 100


# --- sources -------------------------------------------------------------------------------------------------------


def test_compressed_files_globs_lists_and_standard_input(tmp_path, monkeypatch):
    text = vw_text(60)
    plain = write(tmp_path, "a.vw", text)
    write(tmp_path, "b.vw.gz", gzip.compress(text.encode()))
    third = write(tmp_path, "c.vw.bz2", bz2.compress(text.encode()))
    once = rows_of(stream(plain, SMALL))
    assert_same_rows(rows_of(stream(str(tmp_path / "*.vw*"), SMALL)), once * 3)
    assert_same_rows(rows_of(stream([third, plain], SMALL)), once * 2)
    monkeypatch.setattr("sys.stdin", types.SimpleNamespace(buffer=io.BytesIO(text.encode())))
    assert_same_rows(rows_of(stream("-", SMALL)), once)
    with pytest.raises(DataError, match="no file was named"):
        stream([])


def test_a_pipe_that_closes_early_ends_the_stream(tmp_path):
    path = tmp_path / "pipe.vw"
    os.mkfifo(path)
    writer = threading.Thread(target=lambda: path.write_bytes(b"1 |a x\n0 |a y\n1 |a z"))
    writer.start()
    (block,) = stream(str(path), SMALL)
    writer.join()
    assert block.y.tolist() == [1, 0, 1]


def test_options_are_refused_at_once(tmp_path):
    path = write(tmp_path, "d.vw", "1 |a x\n")
    for changes in ({"delimiter": ","}, {"bits": 40}, {"label": "y"}):
        with pytest.raises(OptionError):
            stream(path, ReadOptions(**changes))
    with pytest.raises(DataError, match="does not exist"):
        stream(str(tmp_path / "no.vw"))
    with pytest.raises(DataError, match="no examples"):
        list(stream(write(tmp_path, "e.vw", "\n\n"), SMALL))


def test_stopping_early_ends_the_thread(tmp_path):
    path = write(tmp_path, "d.vw", vw_text(500))
    with closing(stream(path, ReadOptions(bits=10, block_bytes=500, n_jobs=1))) as blocks:
        next(blocks)


@pytest.mark.slow
def test_memory_stays_flat_along_a_pipe():
    code = """
    import resource, sys
    from lineal.data.options import ReadOptions
    from lineal.data.stream import stream
    early = 0
    rows = 0
    for number, block in enumerate(stream("-", ReadOptions(format="vw"))):
        rows += len(block)
        if number == 5:
            early = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    print(rows, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - early)
    """
    text = vw_text(20_000).encode()
    times = 200_000_000 // len(text)
    reader = subprocess.Popen(
        [sys.executable, "-c", textwrap.dedent(code)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=False
    )
    assert reader.stdin is not None
    for _ in range(times):
        reader.stdin.write(text)
    out, _ = reader.communicate()
    rows, growth = map(int, out.split())
    assert rows == times * 20_000
    assert growth < 40_000  # kilobytes
